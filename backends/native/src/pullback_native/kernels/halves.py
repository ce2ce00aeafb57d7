"""Kernels of float32 for 16-bit floats: inputs are widened, and results rounded once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pullback.plugins.records import declines, may_decline
from pullback_native import _native
from pullback_native.loops import FLOAT32, Array, once
from pullback_numpy import threads
from pullback_numpy.kernels import KERNELS as NUMPY_KERNELS

#: The ops whose kernels compute in float32 and have no form of their own for 16-bit floats. Their
#: results have the dtype of the first input, or are positions.
IN_FLOAT32 = (
    *("sum", "mean", "prod", "max", "min", "vector_norm", "cumulative_sum", "cumulative_prod"),
    *("cumulative_max", "cumulative_min", "linear_recurrence", "top_k", "segment_sum"),
    *("place_along_axis", "cdist", "cdist_gradient", "var", "std", "logsumexp"),
    *("softmax", "softmax_gradient", "log_softmax", "log_softmax_gradient"),
    *("layer_norm", "layer_norm_gradient", "rms_norm", "rms_norm_gradient", "group_norm"),
    *("group_norm_gradient", "ctc_loss", "ctc_loss_gradient", "segment_prod", "cross"),
    *(
        "adaptive_avg_pool",
        "adaptive_max_pool",
        "avg_pool",
        "avg_pool_gradient",
        "max_pool",
        "max_pool_gradient",
        "max_pool_with_indices",
        "resize",
        "resize_gradient",
        "conv",
        "conv_input_gradient",
        "conv_kernel_gradient",
    ),
    "softmax_cross_entropy_with_logits",
    *("matmul", "linear", "scaled_dot_product_attention"),
    *("sparse_softmax_cross_entropy_with_logits", "sparse_softmax_cross_entropy_gradient"),
    *("batch_norm", "batch_norm_gradient", "batch_norm_inference"),
)
#: Those whose results but the first stay in float32, as the gradient takes them.
_WITH_STATISTICS = (
    *("layer_norm", "rms_norm", "batch_norm", "scaled_dot_product_attention"),
    *("softmax_cross_entropy_with_logits", "sparse_softmax_cross_entropy_with_logits"),
)


#: Those whose kernels read 16-bit floats themselves.
REDUCED = ("sum", "mean", "prod", "max", "min", "vector_norm")
#: Those of rows, which are widened piece by piece where they lie in rows.
ROWS = ("softmax", "softmax_gradient", "log_softmax", "log_softmax_gradient")
#: Numbers of each row that a normalization returns beside it.
_STATISTICS = {"layer_norm": 2, "rms_norm": 1}
#: Elements of a piece, and of a row that is not shorter than a vector.
_PIECE, _SHORT_ROW = 1 << 14, 12
#: Ops whose kernel is NumPy's of float32: of both 16-bit floats, and of float16 alone.
OF_NUMPY = ("atan2", "count_nonzero")
#: Ops that combine elements with others at some positions.
SCATTERS = ("scatter_add", "scatter_multiply")
OF_FLOAT16 = ("argmax", "argmin", "any", "all")
#: Of so many positions one has something added at most.
FEW_OF = 8
#: From so many elements on.
WORTH_A_COPY = 512
#: From so many elements on NumPy's powers of float32 lead with AVX-512.
LEADS = 16384
#: Functions of NumPy, which has loops for float16 that convert vectors where the processor can.
FUNCTIONS = ("acos", "acosh", "asin", "asinh", "atan", "atanh", "cbrt", "tan")
#: Functions that the pack computes in double, and NumPy with AVX-512 faster in float32.
IN_DOUBLE = ("cosh", "exp2", "log", "log10", "log1p", "log2", "sinh")


def _repeats(x: Array) -> bool:
    """Returns whether x is large, and repeats elements."""
    if x.size < WORTH_A_COPY or x.flags.c_contiguous or 0 not in x.strides:
        return False
    return any(not step and size > 1 for step, size in zip(x.strides, x.shape, strict=True))


def _as_float32(x: Array) -> Array:
    """x in float32; elements that are repeated are converted once."""
    if not _repeats(x):
        return _native.astype(x, dtype=FLOAT32)
    return np.broadcast_to(_native.astype(once(x), dtype=FLOAT32), x.shape)


def in_float32(op_name: str, kernel: Callable[..., Any], least: int = 0) -> Callable[..., Any]:
    """A kernel for 16-bit floats, of one for float32; NumPy's for fewer elements than `least`."""
    numpy, astype = NUMPY_KERNELS.get(op_name), _native.astype
    narrowed = 1 if op_name in _WITH_STATISTICS else 9  # of its results

    def wide(*inputs: Array | None, **attributes: Any) -> Any:
        first: Any = inputs[0]
        if numpy is not None and attributes.get("dtype") is not None:
            return numpy(*inputs, **attributes)
        dtype = first.dtype
        y: Any = kernel(
            *[_as_float32(x) if x is not None and x.dtype == dtype else x for x in inputs],
            **attributes,
        )
        if y is NotImplemented:
            return y
        if not isinstance(y, tuple):
            return astype(y, dtype=dtype) if y.dtype == FLOAT32 else y
        return tuple(
            astype(one, dtype=dtype) if one.dtype == FLOAT32 and i < narrowed else one
            for i, one in enumerate(y)
        )

    declining = declines(kernel) or (numpy is not None and declines(numpy))
    if least:
        return _native.chosen(wide, numpy, least, False, declining)
    return may_decline(wide) if declining else wide


def reduced_in_float32(op_name: str, kernel: Callable[..., Any]) -> Callable[[Array], Any]:
    """The same of a reduction, whose kernel reads 16-bit floats, but for some attributes."""
    other = in_float32(op_name, kernel)

    def reduce(x: Array, **attributes: Any) -> Any:
        is_own = attributes.get("dtype") in (None, x.dtype)
        if not is_own or attributes.get("ord", 2) != 2 or not x.size:
            return other(x, **attributes)
        return kernel(x, **attributes)

    return reduce


def channels_in_float32(op_name: str, kernel: Callable[..., Any]) -> Callable[..., Any]:
    """The same of a batch normalization: many pixels whose channels come last are not widened."""
    other, astype = in_float32(op_name, kernel), _native.astype

    def by_channels(*inputs: Any, axis: int, **attributes: Any) -> Any:
        x: Array = inputs[0]
        there = [one for one in inputs if one is not None]
        if (
            x.size < 2 * _PIECE
            or x.ndim < 2
            or axis != x.ndim - 1
            or not all(one.flags.c_contiguous and one.flags.aligned for one in there)
            or any(one.ndim > 1 and one.dtype != x.dtype for one in there)
        ):
            return other(*inputs, axis=axis, **attributes)
        found = kernel(
            *[
                one if one is None or one.ndim > 1 or one.dtype == FLOAT32 else _as_float32(one)
                for one in inputs
            ],
            axis=axis,
            **attributes,
        )
        if found is None:  # squares of these numbers leave float32
            return other(*inputs, axis=axis, **attributes)
        if op_name == "batch_norm_gradient":
            return tuple([one if one.ndim > 1 else astype(one, dtype=x.dtype) for one in found])
        return found

    return by_channels


def rows_in_float32(op_name: str, kernel: Callable[..., Any]) -> Callable[..., Any]:
    """The same of an op along an axis: many rows are widened piece by piece."""
    other, astype = in_float32(op_name, kernel), _native.astype
    # Of rows that are no whole vector NumPy's kernels take all as columns.
    short = kernel if op_name.endswith("_gradient") else NUMPY_KERNELS[op_name]

    def by_rows(*inputs: Array, axis: int, **attributes: Any) -> Any:
        first = inputs[0]
        shape, dtype = first.shape, first.dtype
        if (
            first.size < 2 * _PIECE
            or axis != first.ndim - 1
            or 2 * shape[-1] > _PIECE
            or not all(
                x.flags.c_contiguous and x.dtype == dtype and x.shape == shape for x in inputs
            )
        ):
            return other(*inputs, axis=axis, **attributes)
        y = np.empty(shape, dtype)
        target, *sources = (x.reshape(-1, shape[-1]) for x in (y, *inputs))
        compute = short if shape[-1] < _SHORT_ROW else kernel

        def write(rows: slice) -> None:
            wide = [astype(x[rows], dtype=FLOAT32) for x in sources]
            target[rows] = astype(compute(*wide, axis=1, **attributes), dtype=dtype)

        many, step = len(target), _PIECE // shape[-1]
        pieces = [slice(i, i + step) for i in range(0, many, step)]
        threads.run(write, pieces, first.size)
        return y

    return by_rows


def layer_norm_in_float32(op_name: str, kernel: Callable[..., Any]) -> Callable[..., Any]:
    """The same of normalized rows, with the mean of each and what it is divided by."""
    other, astype = in_float32(op_name, kernel), _native.astype

    def by_rows(x: Array, *parameters: Array | None, axis: Any, **attributes: Any) -> Any:
        width = x.shape[-1] if x.ndim else 0
        if (
            x.size < 2 * _PIECE
            or axis != (x.ndim - 1,)
            or 2 * width > _PIECE
            or not x.flags.c_contiguous
        ):
            return other(x, *parameters, axis=axis, **attributes)
        wide = [one if one is None else astype(one, dtype=FLOAT32) for one in parameters]
        results = [np.empty(x.shape, x.dtype)]
        results += [np.empty((*x.shape[:-1], 1), FLOAT32) for _ in range(_STATISTICS[op_name])]
        source, *targets = (one.reshape(x.size // width, -1) for one in (x, *results))

        def write(rows: slice) -> None:
            y, *others = kernel(astype(source[rows], dtype=FLOAT32), *wide, axis=(1,), **attributes)
            targets[0][rows] = astype(y, dtype=x.dtype)
            for target, one in zip(targets[1:], others, strict=True):
                target[rows] = one

        step = _PIECE // width
        threads.run(write, [slice(i, i + step) for i in range(0, len(source), step)], x.size)
        return tuple(results)

    return by_rows


def items_in_float32(op_name: str, kernel: Callable[..., Any]) -> Callable[..., Any]:
    """The same of items that are normalized one by one, such as images."""
    other, astype = in_float32(op_name, kernel), _native.astype

    def by_items(x: Array, *parameters: Array | None, **attributes: Any) -> Any:
        each = x.size // len(x) if x.size else 0
        last = attributes["axis"] == x.ndim - 1
        if not last or x.size < 2 * _PIECE or each > 4 * _PIECE or not x.flags.c_contiguous:
            return other(x, *parameters, **attributes)
        wide = [one if one is None else astype(one, dtype=FLOAT32) for one in parameters]
        y = np.empty(x.shape, x.dtype)

        def write(items: slice) -> None:
            found = kernel(astype(x[items], dtype=FLOAT32), *wide, **attributes)
            y[items] = astype(found, dtype=x.dtype)

        step = max(1, _PIECE // each)
        threads.run(write, [slice(i, i + step) for i in range(0, len(x), step)], x.size)
        return y

    return by_items


def products_in_float32(op_name: str, kernel: Callable[..., Any]) -> Callable[..., Any]:
    """The same of products of vectors along the last axis: widened piece by piece."""
    other, astype = in_float32(op_name, kernel, WORTH_A_COPY), _native.astype
    product = np.vecdot

    def by_pieces(x1: Array, x2: Array, *, axis: int) -> Any:
        shape, width = x1.shape, x1.shape[-1] if x1.ndim else 0
        plain = x1.flags.c_contiguous and x2.flags.c_contiguous and x2.shape == shape
        if x1.size < 2 * _PIECE or axis != -1 or not plain or x2.dtype != x1.dtype:
            return other(x1, x2, axis=axis)
        # A long vector is the sum of its parts.
        parts = 1 if 2 * width <= _PIECE else -(-width // _PIECE)
        rows1, rows2 = x1.reshape(-1, width), x2.reshape(-1, width)
        sums = np.empty((len(rows1), parts), FLOAT32)
        step = max(1, _PIECE // width)
        pieces = [
            (slice(i, i + step), part) for i in range(0, len(rows1), step) for part in range(parts)
        ]

        def write(piece: tuple[slice, int]) -> None:
            rows, part = piece
            columns = slice(part * _PIECE, (part + 1) * _PIECE) if parts > 1 else slice(None)
            wide = [astype(x[rows, columns], dtype=FLOAT32) for x in (rows1, rows2)]
            sums[rows, part] = product(*wide)

        threads.run(write, pieces, x1.size)
        total = _native.sum(sums, axis=(1,), keepdims=False, dtype=None)
        return astype(total.reshape(shape[:-1]), dtype=x1.dtype)

    return by_pieces


def segments_in_float32(op_name: str, kernel: Callable[..., Any]) -> Callable[..., Any]:
    """The same of sums of segments; NumPy's does not touch the many that stay 0."""
    other, numpy = in_float32(op_name, kernel), NUMPY_KERNELS[op_name]

    def add(x: Array, ids: Array, **attributes: Any) -> Any:
        is_sparse = FEW_OF * ids.size < attributes["num_segments"]
        return (numpy if is_sparse else other)(x, ids, **attributes)

    return may_decline(add) if declines(other) else add


#: What makes kernels of these ops; `in_float32` makes those of others.
MAKERS: dict[str, Callable[[str, Callable[..., Any]], Callable[..., Any]]] = {
    "segment_sum": segments_in_float32,
    **dict.fromkeys(REDUCED, reduced_in_float32),
    **dict.fromkeys(ROWS, rows_in_float32),
    **dict.fromkeys(("layer_norm", "rms_norm"), layer_norm_in_float32),
    "group_norm": items_in_float32,
    **dict.fromkeys(
        ("batch_norm", "batch_norm_gradient", "batch_norm_inference"), channels_in_float32
    ),
}


def large_in_float32(op_name: str, kernel: Callable[..., Any]) -> Callable[[Array, Array], Any]:
    """A kernel of two arrays of 16-bit floats: of large ones of a shape, NumPy's of float32."""
    function, astype = NUMPY_KERNELS[op_name], _native.astype

    def chosen(x1: Array, x2: Array) -> Any:
        if x1.size < LEADS or x1.shape != x2.shape or x1.dtype != x2.dtype:
            return kernel(x1, x2)
        y = np.empty(x1.shape, x1.dtype)
        first, second, target = x1.reshape(-1), x2.reshape(-1), y.reshape(-1)

        def write(piece: slice) -> None:
            wide = function(
                astype(first[piece], dtype=FLOAT32), astype(second[piece], dtype=FLOAT32)
            )
            target[piece] = astype(wide, dtype=x1.dtype)

        threads.over(write, y.size)
        return y

    return chosen


def scatter_in_float32(op_name: str, kernel: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel of 16-bit floats that combines elements with others, of one for float32.

    Only what others meet is widened, where that is little.
    """
    all_of = in_float32(op_name, kernel)

    def scatter(x: Array, indices: Array, updates: Array, *, axis: int) -> Any:
        size = x.shape[axis]
        if indices.ndim != 1 or not 0 < FEW_OF * indices.size < size:
            return all_of(x, indices, updates, axis=axis)
        own = np.empty(size, np.intp)
        try:
            own[indices] = np.arange(indices.size)
        except IndexError:
            return all_of(x, indices, updates, axis=axis)
        # Of equal indices one has the result, and all of them take it from there.
        place = own[indices]
        at: tuple[Any, ...] = (*[slice(None)] * axis, indices)
        y = x.copy()
        y[at] = all_of(x[at], place, updates, axis=axis).take(place, axis)
        return y

    return scatter


def function_in_float32(
    op_name: str, few: Callable[[Array], Any] | None = None, *, leads: bool = False
) -> Callable[[Array], Any]:
    """A kernel for 16-bit floats, of NumPy's function of float32, piece by piece.

    Args:
        op_name: the op.
        few: the kernel for few elements, NumPy's by default.
        leads: whether that is the faster one for all contiguous arrays.
    """
    function, astype = NUMPY_KERNELS[op_name], _native.astype
    other = few or function

    def computed(x: Array) -> Any:
        return astype(function(astype(x, dtype=FLOAT32)), dtype=x.dtype)

    def kernel(x: Array) -> Any:
        if x.flags.f_contiguous and x.ndim > 1 and not x.flags.c_contiguous:
            return kernel(x.T).T
        if _repeats(x):
            y = np.empty(x.shape, x.dtype)
            y[...] = chosen(once(x))
            return y
        if x.size <= threads.PIECE or not x.flags.c_contiguous:
            return computed(x)
        y = np.empty(x.shape, x.dtype)
        source, target = x.reshape(-1), y.reshape(-1)

        def write(piece: slice) -> None:
            target[piece] = computed(source[piece])

        threads.over(write, x.size)
        return y

    chosen = _native.chosen(kernel, other, WORTH_A_COPY, leads, False)
    return chosen
