"""Hostile arrays for every kernel of the pack, and NumPy's kernels beside it.

    python backends/native/tests/fuzz.py --calls 2000 --seed 0

Arrays are misaligned by a byte, in Fortran's order, reversed, strided, repeated (strides of 0),
read-only, empty; they hold infinities, NaN, subnormal and huge numbers; indices are out of range;
work is split over one to three threads. A call must not change its inputs. It must raise the same
exceptions as NumPy's kernel, and return the same shapes, dtypes, infinities and NaN, and numbers
that are equal within the error of products in float32. Run it under a sanitizer to find invalid
reads and writes (`sanitize.py`).
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from pullback.devices import as_device
from pullback.dtypes import bfloat16
from pullback.plugins.records import Kernel
from pullback.spec import OPS
from pullback_conformance.case import cases
from pullback_conformance.samples import load
from pullback_native import DTYPES, _native
from pullback_native.kernels import KERNELS
from pullback_numpy.kernels import KERNELS as NUMPY_KERNELS
from pullback_numpy.threads import number_of_threads

Array: TypeAlias = "np.ndarray[Any, Any]"
#: The name of an op, with inputs and attributes for its kernel.
Call: TypeAlias = tuple[str, list[Any], dict[str, Any]]
#: The arrays that a call returns, or the type of its exception.
Outcome: TypeAlias = list[Array] | type[Exception]

#: Numbers for the inputs of a call. Subnormal numbers come without infinities: half of the smallest
#: is 0, and kernels differ in where they halve. Which sums of huge numbers are infinite depends on
#: the order of their terms.
SPECIAL = {
    "infinite": np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 1.0], np.float32),
    "subnormal": np.array([1e-45, -1e-40, 0.0, -0.0, 1.0], np.float32),
    "huge": np.array([1e30, -1e30, 3.4e38, -3.4e38, 1e-30], np.float32),
}

#: Inputs without infinities: NumPy's gates have an absolute error, so one near 0 may be 0, and an
#: infinite cell times that NaN.
FINITE = {"lstm": 2}


def _normalized(op: str, *rest: None) -> Kernel:
    """A function that computes the results of a normalization that its gradient takes."""
    return lambda x, scale, *_, axis, epsilon=1e-5: NUMPY_KERNELS[op](
        x, scale, *rest, axis=axis, epsilon=epsilon
    )[1:]


#: Inputs of gradients that are results of another call: their positions, and how they are computed
#: from the other inputs. No call has infinities in these inputs alone.
MADE: dict[str, tuple[tuple[int, ...], Kernel]] = {
    "batch_norm_gradient": ((2, 3), _normalized("batch_norm", None)),
    "layer_norm_gradient": ((2, 3), _normalized("layer_norm", None)),
    "rms_norm_gradient": ((2,), _normalized("rms_norm")),
    "sparse_softmax_cross_entropy_gradient": (
        (2,),
        lambda x, labels, *_, **options: NUMPY_KERNELS["sparse_softmax_cross_entropy_with_logits"](
            x, labels, **options
        )[1:],
    ),
    "scaled_dot_product_attention_gradient": (
        (4, 5),
        lambda *x, **options: NUMPY_KERNELS["scaled_dot_product_attention"](*x[:4], **options),
    ),
    "lstm_gradient": (
        (6, 7, 8),
        lambda *x, **options: [
            NUMPY_KERNELS["lstm"](*x[:5], np.zeros(x[3].shape[-1], np.float32), x[5], **options)[
                position
            ]
            for position in (0, 3, 4)
        ],
    ),
    "gru_gradient": (
        (5, 6, 7),
        lambda *x, **options: [
            NUMPY_KERNELS["gru"](*x[:4], None, None, x[4], **options)[position]
            for position in (0, 2, 3)
        ],
    ),
}


def native(value: Any) -> Any:
    """The array of a tensor, or the arrays of a list of tensors; other values unchanged."""
    if isinstance(value, (list, tuple)):
        return [native(item) for item in value]
    return np.array(value._array) if hasattr(value, "_array") else value


def samples() -> Iterator[Call]:
    """Yields the calls of the conformance samples of every kernel here, in the dtypes it takes."""
    suites, device = load(), as_device("cpu")
    for name in sorted({*_native.KERNELS, *KERNELS}):
        for case in cases(OPS[name], suites[name], device):
            if str(case.dtype) in ("float32", *(DTYPES.get(name) or ())):
                call = case.resolved(case.tensors())
                if not _declined(call.attributes):
                    yield name, native(call.inputs), call.attributes


def _declined(attributes: Mapping[str, Any]) -> bool:
    """Returns whether kernels leave a call with these attributes to the op's body."""
    return (
        attributes.get("reset_after") is False
        or attributes.get("ceil_mode") is True
        or attributes.get("softcap") is not None
        or (attributes.get("window") is not None and "is_causal" in attributes)
    )


def large(rng: np.random.Generator) -> Iterator[Call]:
    """Yields calls that are large enough for several threads."""

    def normal(*shape: int) -> Array:
        return rng.standard_normal(shape, np.float32)

    x, row = normal(400, 300), normal(300)
    for name in ("exp", "tanh", "silu", "softplus", "relu", "square", "abs"):
        yield name, [x], {}
    for name in ("add", "multiply", "divide", "maximum", "silu_gradient"):
        yield name, [x, normal(400, 300)], {}
    yield "gelu", [x], {"approximate": False}
    yield "add", [x, row], {}
    yield "where", [x > 0, x, np.array(2, np.float32)], {}
    for name in ("softmax", "log_softmax"):
        yield name, [x], {"axis": 1}
    yield "matmul", [x, normal(300, 170)], {}
    yield "matmul", [normal(6, 70, 50), normal(6, 50, 90)], {}
    yield "linear", [x, normal(300, 100), normal(100)], {}
    narrow = [array.astype(bfloat16) for array in (x, normal(300, 170), normal(170))]
    for rows in (1, 8, 30, 400):
        yield "matmul", [narrow[0][:rows], narrow[1]], {}
        yield "linear", [narrow[0][:rows], *narrow[1:]], {}
    yield "astype", [x], {"dtype": bfloat16}
    yield "astype", narrow[:1], {"dtype": x.dtype}
    yield "add", [narrow[0], narrow[0]], {}
    for axis in (None, (0,), (1,)):
        yield "sum", narrow[:1], {"axis": axis, "keepdims": False, "dtype": None}
        yield "sum", [x], {"axis": axis, "keepdims": False, "dtype": None}
        for half in (narrow[0], x.astype(np.float16)):
            yield "mean", [half], {"axis": axis, "keepdims": True}
            yield "max", [half], {"axis": axis, "keepdims": False}
    yield "layer_norm", [x, row, row], {"axis": (1,), "epsilon": 1e-5}
    yield "batch_norm", [x, row, row], {"axis": 1, "epsilon": 1e-5}
    number = np.array(0.1, np.float32)
    options: dict[str, Any] = {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-7, "weight_decay": 0.0}
    yield "adam_update", [x, x, x, x * x, number, np.array(3, np.float32)], options
    options = {"momentum": 0.9, "nesterov": False, "weight_decay": 0.0}
    yield "momentum_update", [x, x, x, number], options
    yield "sgd_update", [x, x, number], {"weight_decay": 0.0}
    yield "concat", [[x, normal(400, 50)]], {"axis": 1}
    yield "take", [x, rng.integers(0, 400, 500)], {"axis": 0}
    yield "segment_sum", [x, rng.integers(0, 40, 400)], {"num_segments": 40, "axis": 0}
    yield "scatter_add", [x, rng.integers(0, 400, 50), normal(50, 300)], {"axis": 0}
    few = rng.integers(-400, 400, 40)
    yield "scatter_add", [x, few, normal(40, 300)], {"axis": 0}
    yield "sign", [few.repeat(3000)[::2]], {}
    yield "nextafter", [x, normal(400, 1)], {}
    column, wide = normal(400, 1), x.astype(np.float64)
    for one in (x, wide):
        number = column.astype(one.dtype)
        for name in ("subtract", "hypot", "remainder", "logaddexp", "less"):
            yield name, [one, number], {}
            yield name, [one[:2].repeat(9, 0), one[:1]], {}
        for name in ("erf", "erfc", "lgamma", "digamma"):
            yield name, [one], {}
        for along in (0, 1):
            for name in ("softmax", "log_softmax"):
                yield name, [one], {"axis": along}
                yield f"{name}_gradient", [one, np.exp(-np.abs(one))], {"axis": along}
            yield "top_k", [one], {"k": 7, "axis": along, "largest": along == 0}
            for name in ("cumulative_max", "cumulative_min"):
                yield name, [one], {"axis": along}
            places = rng.integers(-300, 300, (400, 40) if along else (70, 300))
            yield "take_along_axis", [one, places], {"axis": along}
            options = {"axis": along, "shape": one.shape}
            yield "place_along_axis", [one[: places.shape[0], : places.shape[1]], places], options
            yield "linear_recurrence", [np.exp(-np.abs(one)), one], {
                "axis": along, "reverse": along == 0,
            }  # fmt: skip
            for name in ("cumulative_sum", "cumulative_prod"):
                options = {"axis": along, "dtype": None, "include_initial": along == 0}
                yield name, [np.exp(one / 60)], options
        for axes in ((0, 2), (1,), None):
            cube = one.reshape(20, 20, 300)
            for name in ("max", "min", "mean"):
                yield name, [cube], {"axis": axes, "keepdims": False}
            for name in ("sum", "prod"):
                near_1 = np.exp(cube / 60)  # whose products stay in the range
                yield name, [near_1], {"axis": axes, "keepdims": True, "dtype": None}
            yield "vector_norm", [cube], {"axis": axes, "keepdims": False, "ord": 2}
            yield "logsumexp", [cube], {"axis": axes, "keepdims": False}
            for name in ("var", "std"):
                yield name, [cube], {"axis": axes, "keepdims": True, "correction": 1.0}
        yield "cdist", [one, one[:60]], {"p": 2}
        yield "cdist_gradient", [one, one[:60], one[:, :60]], {"p": 2}
        yield "segment_sum", [one.reshape(-1), few.repeat(3000)], {"num_segments": 400, "axis": 0}
        for name in ("tril", "triu"):
            yield name, [cube], {"k": 5}
        for name in ("prelu", "xlogy"):
            yield name, [one, np.abs(number)], {}
    waves = x + 1j * x[::-1]
    for place, n in ((0, 400), (1, 300), (1, 250), (1, 4004), (0, 4095)):
        options = {"n": n, "axis": place, "norm": "ortho"}
        for name in ("fft", "ifft", "irfft", "hfft"):
            yield name, [waves], options
        for name in ("rfft", "ihfft"):
            yield name, [x], options
    for n, size in ((2**17, 400 * 300), (3**10, 3**10)):
        options = {"n": n, "axis": 0, "norm": "backward"}
        yield "fft", [waves.reshape(-1)[:size]], options
        yield "irfft", [waves.reshape(-1)[: size // 2]], options
        yield "rfft", [x.reshape(-1)[:size]], options
    for shape in ((20, 40, 150), (400, 300)):
        options = {"s": shape[-2:], "axes": (len(shape) - 2, len(shape) - 1), "norm": "forward"}
        for name in ("fftn", "ifftn", "irfftn"):
            yield name, [waves.reshape(shape)], options
        yield "rfftn", [x.reshape(shape)], options
    drawing = {"key": 3, "counter": 2**64 - 9}
    options = {**drawing, "rate": 0.3, "noise_shape": x.shape}
    yield "dropout", [x], options
    for name in ("random_normal", "random_uniform"):
        options = {**drawing, "shape": (70, 1001), "dtype": x.dtype, "device": None}
        yield name, [], options
    q, k = normal(2, 4, 70, 16), normal(2, 2, 90, 16)
    for causal in (False, True):
        options = {"is_causal": causal, "scale": 0.25}
        yield "scaled_dot_product_attention", [q, k, normal(2, 2, 90, 24), None], options
    options = {"strides": (1, 1), "padding": ((1, 1), (1, 1)), "groups": 1, "dilation": (1, 1),
               "data_format": "channels_last"}  # fmt: skip
    image, kernel = normal(3, 20, 20, 8), normal(3, 3, 8, 20)
    yield "conv", [image, kernel], options
    for strides in ((1, 1), (2, 2)):
        options = {**options, "strides": strides}
        g = normal(3, 20 // strides[0], 20 // strides[0], 20)
        yield "conv_input_gradient", [g, kernel], {**options, "input_shape": image.shape}
        yield "conv_kernel_gradient", [image, g], {**options, "kernel_shape": kernel.shape}
    yield "lstm", [normal(40, 6, 9), normal(40, 32), normal(40, 32), normal(9, 128),
                   normal(32, 128), normal(128), None], {"reverse": False}  # fmt: skip


def with_values(x: Array, rng: np.random.Generator, numbers: Array) -> Array:
    """x with some infinities, NaN, or subnormal or huge numbers."""
    if x.dtype.kind not in "fc" and x.dtype != bfloat16:
        if x.dtype.kind == "i" and x.size and rng.random() < 0.1:
            x = x.copy()
            x.reshape(-1)[rng.integers(x.size)] = rng.choice([-(2**31), 2**31 - 1, -1, 10**6])
        return x
    kind, numbers = rng.integers(4), numbers.astype(x.dtype)
    if not x.size or kind == 0:
        return x
    if kind == 1:
        return np.full_like(x, rng.choice(numbers))
    x = x.copy()
    positions = rng.integers(0, x.size, 1 if kind == 2 else max(1, x.size // 5))
    x.reshape(-1)[positions] = rng.choice(numbers, len(positions))
    return x


def laid_out(x: Array, rng: np.random.Generator) -> Array:
    """x, or its numbers in another layout."""
    layout = rng.integers(8)
    if layout == 1:
        return np.asfortranarray(x)
    if layout == 2:
        room = np.empty(x.nbytes + 1, np.uint8)
        odd = room[1:].view(x.dtype).reshape(x.shape)
        odd[...] = x
        return odd
    if layout == 3 and x.ndim:
        return np.ascontiguousarray(x[::-1])[::-1]
    if layout == 4 and x.ndim:
        wide = np.empty((*x.shape[:-1], 2 * x.shape[-1]), x.dtype)
        wide[..., ::2] = x
        return wide[..., ::2]
    if layout == 5 and x.ndim and x.size:
        axis = int(rng.integers(x.ndim))
        return np.broadcast_to(np.take(x, [0], axis), x.shape)
    if layout == 6:
        x = x.copy()
        x.flags.writeable = False
    if layout == 7 and x.ndim > 1:
        return np.ascontiguousarray(x.swapaxes(0, -1)).swapaxes(0, -1)
    return x


def mapped(value: Any, change: Callable[[Array], Array]) -> Any:
    """The call's inputs, with each array changed."""
    if isinstance(value, list):
        return [mapped(item, change) for item in value]
    return change(value) if isinstance(value, np.ndarray) else value


def leaves(value: Any) -> list[Array]:
    """The arrays among the inputs or results of a call."""
    if isinstance(value, (list, tuple)):
        return [leaf for item in value for leaf in leaves(item)]
    return [np.asarray(value)] if isinstance(value, (np.ndarray, np.generic)) else []


def outcome(kernel: Kernel, inputs: list[Any], attributes: dict[str, Any]) -> Outcome:
    """The arrays that a call returns, or the type of its exception or of what declines it."""
    try:
        result = kernel(*inputs, **attributes)
        return type(result) if result is NotImplemented else leaves(result)
    except Exception as error:
        return type(error)


def difference(ours: Outcome, theirs: Outcome, kind: str) -> str:
    """A description of the difference between two results; "" if there is none.

    A call that a kernel declines is made by the op's body: there is nothing to compare.
    """
    if type(NotImplemented) in (ours, theirs):
        return ""
    if isinstance(ours, type) or isinstance(theirs, type):
        return "" if ours is theirs else f"{ours} beside {theirs}"
    if [(a.shape, a.dtype) for a in ours] != [(b.shape, b.dtype) for b in theirs]:
        return "shapes or dtypes"
    for number, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        close = 1e-3
        if a.dtype.itemsize == 2 and a.dtype.kind != "i":
            close = 2**-7 if a.dtype == bfloat16 else 2**-9
            a, b = a.astype(np.float32), b.astype(np.float32)
        if a.dtype.kind == "c":
            a, b = np.stack([a.real, a.imag]), np.stack([b.real, b.imag])
        if a.dtype.kind != "f":
            if not np.array_equal(a, b):
                return f"result {number}"
        elif kind != "huge":
            if not np.array_equal(np.isnan(a), np.isnan(b)):
                return f"NaN in result {number}"
            if not np.array_equal(np.where(np.isinf(a), a, 0), np.where(np.isinf(b), b, 0)):
                return f"infinities in result {number}"
            fine = np.isfinite(a)
            most = np.abs(b[fine]).max(initial=1)
            if not np.allclose(a[fine], b[fine], rtol=close, atol=0.1 * close * most):
                return f"numbers in result {number}"
    return ""


def failure(calls: Sequence[Call], rng: np.random.Generator) -> str:
    """A description of the failure of a randomly chosen call; "" if it passes."""
    name, inputs, attributes = calls[int(rng.integers(len(calls)))]
    kind = str(rng.choice(list(SPECIAL), p=[0.6, 0.2, 0.2]))
    if name != "max_pool_gradient":  # its indices are results of another call
        inputs = mapped(inputs, lambda x: with_values(x, rng, SPECIAL[kind]))
    if name in FINITE:
        finite = inputs[FINITE[name]]
        finite[np.isinf(finite)] = 1
    inputs = mapped(inputs, lambda x: laid_out(x, rng))
    positions, make = MADE.get(name, ((), lambda *_, **__: ()))
    with np.errstate(all="ignore"):
        made = make(*inputs, **attributes)
    for position, array in zip(positions, made, strict=True):
        inputs[position] = np.ascontiguousarray(array)
    before = [leaf.tobytes() for leaf in leaves(inputs)]
    kernel, threads = KERNELS.get(name) or getattr(_native, name), int(rng.integers(1, 4))
    with np.errstate(all="ignore"):
        with number_of_threads(threads):
            ours = outcome(kernel, inputs, attributes)
        # Where NumPy has no kernel, or one that declines, inputs must be as before.
        numpy = NUMPY_KERNELS.get(name)
        theirs = outcome(numpy, inputs, attributes) if numpy else []
        wrong = difference(ours, theirs, kind) if theirs else ""
    if [leaf.tobytes() for leaf in leaves(inputs)] != before:
        wrong = "inputs were changed"
    shapes = [leaf.shape for leaf in leaves(inputs)]
    return wrong and f"{name}: {wrong} ({kind}, {shapes}, {attributes})"


def run(calls: int, seed: int) -> list[str]:
    """The failures of `calls` calls, each in a line."""
    small, big = list(samples()), list(large(np.random.default_rng(seed)))
    failures = []
    for number in range(calls):
        wrong = failure(big if number % 4 == 3 else small, np.random.default_rng((seed, number)))
        if wrong:
            failures.append(f"{wrong}, call {number}")
    return failures


def main() -> int:
    """Runs the fuzz and returns the exit status: 1 if a call failed."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    failures = run(options.calls, options.seed)
    print(*failures, sep="\n", end="\n" if failures else "")
    counts = Counter(line.split(":")[0] for line in failures)
    print(
        f"{options.calls} calls, seed {options.seed}: {len(failures)} failures", dict(counts) or ""
    )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
