"""Arithmetic, functions, comparisons, reductions, matrices, under TensorFlow's names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pullback as pb
from pullback import dtypes, errors
from pullback.tensor import Tensor, TensorLike
from pullback_tensorflow.basics import as_dtype, convert_to_tensor
from pullback_tensorflow.naming import op

# Of one tensor and of two: TensorFlow's name, the op, and what the arguments are called.
_SAME = """
    abs acos acosh asin asinh atan atanh ceil cos cosh digamma erf erfc exp expm1 floor lgamma log
    log1p reciprocal round sigmoid sign sin sinh sqrt square tan tanh conj angle
"""
_SINGLE = {
    "negative": "negative",
    "is_finite": "isfinite",
    "is_inf": "isinf",
    "is_nan": "isnan",
    "logical_not": "logical_not",
    "log_sigmoid": "log_sigmoid",
    "real": "real",
    "imag": "imag",
    "rint": "round",
}
_DOUBLE = {
    "add": "add",
    "subtract": "subtract",
    "multiply": "multiply",
    "divide": "divide",
    "div": "divide",
    "truediv": "divide",
    "realdiv": "divide",
    "floordiv": "floor_divide",
    "floor_div": "floor_divide",
    "mod": "remainder",
    "floormod": "remainder",
    "pow": "pow",
    "maximum": "maximum",
    "minimum": "minimum",
    "atan2": "atan2",
    "squared_difference": "squared_error",
    "equal": "equal",
    "not_equal": "not_equal",
    "less": "less",
    "less_equal": "less_equal",
    "greater": "greater",
    "greater_equal": "greater_equal",
    "logical_and": "logical_and",
    "logical_or": "logical_or",
    "logical_xor": "logical_xor",
    "complex": "complex",
}
_NAMES = {name: op(name, "x") for name in _SAME.split()}
_NAMES |= {name: op(target, "x") for name, target in _SINGLE.items()}
_NAMES |= {name: op(target, "x y") for name, target in _DOUBLE.items()}


def _axes(axis: Any) -> Any:
    return tuple(int(one) for one in axis) if isinstance(axis, (list, tuple)) else axis


def _reduction(target: str) -> Callable[..., Tensor]:
    function: Callable[..., Tensor] = getattr(pb, target)

    def reduced(
        input_tensor: TensorLike,
        axis: Any = None,
        keepdims: bool | None = None,
        name: str | None = None,
        reduction_indices: Any = None,
        keep_dims: bool | None = None,
    ) -> Tensor:
        chosen = reduction_indices if axis is None else axis
        return function(input_tensor, axis=_axes(chosen), keepdims=bool(keepdims or keep_dims))

    reduced.__name__ = reduced.__qualname__ = f"reduce_{target}"
    reduced.__doc__ = function.__doc__
    return reduced


_REDUCTIONS = ("sum", "mean", "max", "min", "prod", "all", "any", "logsumexp")
_NAMES |= {f"reduce_{name}": _reduction(name) for name in _REDUCTIONS}
_NAMES["count_nonzero"] = _reduction("count_nonzero")


def _index_of(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def index(
        input: TensorLike,
        axis: int | None = None,
        name: str | None = None,
        dimension: int | None = None,
        output_type: Any = dtypes.int64,
    ) -> Tensor:
        along = dimension if axis is None else axis
        indices = function(input, axis=0 if along is None else int(along))
        return pb.astype(indices, dtypes.as_dtype(output_type))

    index.__name__ = index.__qualname__ = function.__name__
    index.__doc__ = function.__doc__
    return index


_NAMES |= {"argmax": _index_of(pb.argmax), "argmin": _index_of(pb.argmin)}
globals().update(_NAMES)


def matmul(
    a: TensorLike,
    b: TensorLike,
    transpose_a: bool = False,
    transpose_b: bool = False,
    name: str | None = None,
) -> Tensor:
    """The product of matrices, or of stacks of them."""
    left = pb.asarray(a).mT if transpose_a else a
    right = pb.asarray(b).mT if transpose_b else b
    return pb.matmul(left, right)


def tensordot(a: TensorLike, b: TensorLike, axes: Any, name: str | None = None) -> Tensor:
    """The sum of products over axes."""
    return pb.tensordot(a, b, axes=axes)


def einsum(equation: str, *inputs: TensorLike, name: str | None = None) -> Tensor:
    """Einstein's summation."""
    return pb.einsum(equation, *inputs)


def norm(
    tensor: TensorLike, ord: Any = "euclidean", axis: Any = None, keepdims: bool = False, **_: Any
) -> Tensor:
    """The norm of a vector; of all elements if no axis is given."""
    order = 2 if ord == "euclidean" else ord
    return pb.linalg.vector_norm(tensor, axis=_axes(axis), ord=order, keepdims=keepdims)


def add_n(inputs: Sequence[TensorLike], name: str | None = None) -> Any:
    """The sum of tensors."""
    total = convert_to_tensor(inputs[0])
    for value in inputs[1:]:
        total = total + value
    return total


accumulate_n = add_n


def rsqrt(x: TensorLike, name: str | None = None) -> Tensor:
    """1 / sqrt(x)."""
    return pb.reciprocal(pb.sqrt(x))


def cumsum(
    x: TensorLike, axis: int = 0, exclusive: bool = False, reverse: bool = False, **_: Any
) -> Tensor:
    """Sums up to each element; without it if exclusive, from the end if reverse."""
    value = pb.asarray(x)
    if reverse:
        value = pb.flip(value, axis=axis)
    total = pb.cumulative_sum(value, axis=axis)
    if exclusive:
        total = total - value
    return pb.flip(total, axis=axis) if reverse else total


def cumprod(x: TensorLike, axis: int = 0, **_: Any) -> Tensor:
    """Products up to each element, with it."""
    return pb.cumulative_prod(x, axis=axis)


def clip_by_value(
    t: TensorLike, clip_value_min: Any, clip_value_max: Any, name: str | None = None
) -> Tensor:
    """Every element brought into a range."""
    return pb.clip(t, clip_value_min, clip_value_max)


def clip_by_norm(
    t: TensorLike, clip_norm: Any, axes: Any = None, name: str | None = None
) -> Tensor:
    """A tensor scaled to a norm, if its own is higher."""
    return pb.clip_by_norm(t, max_norm=float(clip_norm), axis=_axes(axes))


def clip_by_global_norm(
    t_list: Sequence[Any], clip_norm: Any, use_norm: Any = None, name: str | None = None
) -> tuple[list[Any], Tensor]:
    """Tensors scaled to a norm of all together, and the norm that they had; None stays None."""
    there = [t for t in t_list if t is not None]
    clipped, before = pb.clip_by_global_norm(there, max_norm=float(clip_norm))
    left = iter(clipped)
    return [None if t is None else next(left) for t in t_list], before


def global_norm(t_list: Sequence[Any], name: str | None = None) -> Tensor:
    """The norm of all elements of tensors."""
    return pb.global_norm([t for t in t_list if t is not None])


def to_float(x: TensorLike, name: str | None = None) -> Tensor:
    """As float32."""
    return pb.astype(pb.asarray(x), dtypes.float32)


def to_int32(x: TensorLike, name: str | None = None) -> Tensor:
    """As int32."""
    return pb.astype(pb.asarray(x), dtypes.int32)


def to_int64(x: TensorLike, name: str | None = None) -> Tensor:
    """As int64."""
    return pb.astype(pb.asarray(x), dtypes.int64)


def confusion_matrix(
    labels: TensorLike, predictions: TensorLike, num_classes: int | None = None, **rest: Any
) -> Tensor:
    """Counts, for each class (row), how often each class (column) was predicted."""
    rows, columns = to_int32(labels), to_int32(predictions)
    if num_classes is None:
        num_classes = 1 + int(pb.max(pb.maximum(rows, columns)))
    ones = [pb.one_hot(x, num_classes, dtype=dtypes.float32) for x in (rows, columns)]
    counts = pb.matmul(ones[0].mT, ones[1])
    return pb.astype(counts, as_dtype(rest.get("dtype", dtypes.int32)))


def _assertion(compare: Callable[[Any, Any], Any], sign: str) -> Callable[..., None]:
    def check(x: Any, y: Any, data: Any = None, summarize: Any = None, message: str = "") -> None:
        left, right = convert_to_tensor(x), convert_to_tensor(y)
        if not pb.all(compare(left, right)):
            raise errors.InputValueError(f"{message or 'assertion failed'}: {left} {sign} {right}")

    check.__doc__ = f"Raises InputValueError unless x {sign} y for all elements."
    return check


assert_equal = _assertion(lambda x, y: x == y, "==")
assert_less = _assertion(lambda x, y: x < y, "<")
assert_less_equal = _assertion(lambda x, y: x <= y, "<=")
assert_greater = _assertion(lambda x, y: x > y, ">")
assert_greater_equal = _assertion(lambda x, y: x >= y, ">=")

__all__ = [
    *_NAMES,
    "accumulate_n", "add_n", "assert_equal", "assert_greater", "assert_greater_equal",
    "assert_less", "assert_less_equal", "clip_by_global_norm", "clip_by_norm", "clip_by_value",
    "confusion_matrix", "cumprod", "cumsum", "einsum", "global_norm", "matmul", "norm", "rsqrt",
    "tensordot", "to_float", "to_int32", "to_int64",
]  # fmt: skip
