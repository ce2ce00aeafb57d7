"""Hostile arrays for every kernel of the pack, and NumPy's kernels beside it.

    python backends/native/tests/fuzz.py --calls 2000 --seed 0

Arrays are misaligned by a byte, in Fortran's order, reversed, strided, repeated (strides of 0),
read-only, empty; they hold infinities, NaN, subnormal and huge numbers; indices are out of range;
work is split over one to three threads. A call must not change its inputs, must raise what NumPy's
kernel raises, and give what that gives: shape, dtype, infinities and NaN in the same places, and
numbers as near as products in float32 are. Run it under a sanitizer to see what reads or writes
where it may not (`sanitize.py`).
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter

import numpy as np

from pullback.conformance.case import cases
from pullback.conformance.samples import load
from pullback.devices import as_device
from pullback.spec import OPS
from pullback_native import _native
from pullback_native.kernels import KERNELS
from pullback_numpy.kernels import KERNELS as NUMPY_KERNELS
from pullback_numpy.threads import number_of_threads

#: Numbers for the inputs of a call. Subnormal numbers come without infinities: half of the smallest
#: is 0, and kernels differ in where they halve. Which sums of huge numbers are infinite is a
#: matter of the order of their terms.
SPECIAL = {
    "infinite": np.float32([np.inf, -np.inf, np.nan, 0.0, -0.0, 1.0]),
    "subnormal": np.float32([1e-45, -1e-40, 0.0, -0.0, 1.0]),
    "huge": np.float32([1e30, -1e30, 3.4e38, -3.4e38, 1e-30]),
}


def _normalized(op, *rest):
    """Results of a normalization that its gradient takes."""
    return lambda x, scale, *_, axis, epsilon=1e-5: NUMPY_KERNELS[op](
        x, scale, *rest, axis=axis, epsilon=epsilon
    )[1:]


#: Inputs of gradients that are results of another call: their positions, and how they are computed
#: from the other inputs. No call has infinities in these inputs alone.
MADE = {
    "batch_norm_gradient": ((2, 3), _normalized("batch_norm", None)),
    "layer_norm_gradient": ((2, 3), _normalized("layer_norm", None)),
    "rms_norm_gradient": ((2,), _normalized("rms_norm")),
    "sparse_softmax_cross_entropy_gradient": (
        (2,),
        lambda x, labels, *_, **how: NUMPY_KERNELS["sparse_softmax_cross_entropy_with_logits"](
            x, labels, **how
        )[1:],
    ),
    "scaled_dot_product_attention_gradient": (
        (4, 5),
        lambda *x, **how: NUMPY_KERNELS["scaled_dot_product_attention"](*x[:4], **how),
    ),
    "lstm_gradient": (
        (6, 7, 8),
        lambda *x, **how: [
            NUMPY_KERNELS["lstm"](*x[:5], np.zeros(x[3].shape[-1], np.float32), x[5], **how)[place]
            for place in (0, 3, 4)
        ],
    ),
    "gru_gradient": (
        (5, 6, 7),
        lambda *x, **how: [
            NUMPY_KERNELS["gru"](*x[:4], None, None, x[4], **how)[place] for place in (0, 2, 3)
        ],
    ),
}


def native(value):
    """The array of a tensor, or the arrays of a list of tensors; other values unchanged."""
    if isinstance(value, (list, tuple)):
        return [native(one) for one in value]
    return np.array(value._array) if hasattr(value, "_array") else value


def samples():
    """(op, inputs, attributes) of the conformance samples of every kernel here, in float32."""
    suites, device = load(), as_device("cpu")
    for name in sorted({*_native.KERNELS, *KERNELS}):
        for case in cases(OPS[name], suites[name], device):
            if str(case.dtype) == "float32":
                seen = case.resolved(case.tensors())
                yield name, native(seen.inputs), seen.attributes


def large(rng):
    """Calls that are large enough for several threads."""

    def normal(*shape):
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
    for axis in (None, (0,), (1,)):
        yield "sum", [x], {"axis": axis, "keepdims": False, "dtype": None}
    yield "layer_norm", [x, row, row], {"axis": (1,), "epsilon": 1e-5}
    yield "batch_norm", [x, row, row], {"axis": 1, "epsilon": 1e-5}
    number = np.array(0.1, np.float32)
    how = {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-7, "weight_decay": 0.0}
    yield "adam_update", [x, x, x, x * x, number, np.array(3, np.float32)], how
    how = {"momentum": 0.9, "nesterov": False, "weight_decay": 0.0}
    yield "momentum_update", [x, x, x, number], how
    yield "sgd_update", [x, x, number], {"weight_decay": 0.0}
    yield "concat", [[x, normal(400, 50)]], {"axis": 1}
    yield "take", [x, rng.integers(0, 400, 500)], {"axis": 0}
    yield "segment_sum", [x, rng.integers(0, 40, 400)], {"num_segments": 40, "axis": 0}
    q, k = normal(2, 4, 70, 16), normal(2, 2, 90, 16)
    for causal in (False, True):
        how = {"is_causal": causal, "scale": 0.25}
        yield "scaled_dot_product_attention", [q, k, normal(2, 2, 90, 24), None], how
    how = {"strides": (1, 1), "padding": ((1, 1), (1, 1)), "groups": 1, "dilation": (1, 1),
           "data_format": "channels_last"}  # fmt: skip
    image, kernel = normal(3, 20, 20, 8), normal(3, 3, 8, 20)
    yield "conv", [image, kernel], how
    for strides in ((1, 1), (2, 2)):
        how = {**how, "strides": strides}
        g = normal(3, 20 // strides[0], 20 // strides[0], 20)
        yield "conv_input_gradient", [g, kernel], {**how, "input_shape": image.shape}
        yield "conv_kernel_gradient", [image, g], {**how, "kernel_shape": kernel.shape}
    yield "lstm", [normal(40, 6, 9), normal(40, 32), normal(40, 32), normal(9, 128),
                   normal(32, 128), normal(128), None], {"reverse": False}  # fmt: skip


def with_values(x, rng, numbers):
    """x with some infinities, NaN, or subnormal or huge numbers."""
    if x.dtype.kind != "f":
        if x.dtype.kind == "i" and x.size and rng.random() < 0.1:
            x = x.copy()
            x.reshape(-1)[rng.integers(x.size)] = rng.choice([-(2**31), 2**31 - 1, -1, 10**6])
        return x
    kind = rng.integers(4)
    if not x.size or kind == 0:
        return x
    if kind == 1:
        return np.full_like(x, rng.choice(numbers))
    x = x.copy()
    places = rng.integers(0, x.size, 1 if kind == 2 else max(1, x.size // 5))
    x.reshape(-1)[places] = rng.choice(numbers, len(places))
    return x


def laid_out(x, rng):
    """x, or its numbers in another layout."""
    how = rng.integers(8)
    if how == 1:
        return np.asfortranarray(x)
    if how == 2:
        room = np.empty(x.nbytes + 1, np.uint8)
        odd = room[1:].view(x.dtype).reshape(x.shape)
        odd[...] = x
        return odd
    if how == 3 and x.ndim:
        return np.ascontiguousarray(x[::-1])[::-1]
    if how == 4 and x.ndim:
        wide = np.empty((*x.shape[:-1], 2 * x.shape[-1]), x.dtype)
        wide[..., ::2] = x
        return wide[..., ::2]
    if how == 5 and x.ndim and x.size:
        axis = int(rng.integers(x.ndim))
        return np.broadcast_to(np.take(x, [0], axis), x.shape)
    if how == 6:
        x = x.copy()
        x.flags.writeable = False
    if how == 7 and x.ndim > 1:
        return np.ascontiguousarray(x.swapaxes(0, -1)).swapaxes(0, -1)
    return x


def mapped(value, change):
    """The call's inputs, with each array changed."""
    if isinstance(value, list):
        return [mapped(one, change) for one in value]
    return change(value) if isinstance(value, np.ndarray) else value


def leaves(value):
    """The arrays among the inputs or results of a call."""
    if isinstance(value, (list, tuple)):
        return [leaf for one in value for leaf in leaves(one)]
    return [np.asarray(value)] if isinstance(value, (np.ndarray, np.generic)) else []


def outcome(kernel, inputs, attributes):
    """The arrays that a call returns, or the type of its exception."""
    try:
        return leaves(kernel(*inputs, **attributes))
    except Exception as error:
        return type(error)


def difference(ours, theirs, what):
    """A description of the difference between two results; "" if there is none."""
    if isinstance(ours, type) or isinstance(theirs, type):
        return "" if ours is theirs else f"{ours} beside {theirs}"
    if [(a.shape, a.dtype) for a in ours] != [(b.shape, b.dtype) for b in theirs]:
        return "shapes or dtypes"
    for number, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        if a.dtype.kind != "f":
            if not np.array_equal(a, b):
                return f"result {number}"
        elif what != "huge":
            if not np.array_equal(np.isnan(a), np.isnan(b)):
                return f"NaN in result {number}"
            if not np.array_equal(np.where(np.isinf(a), a, 0), np.where(np.isinf(b), b, 0)):
                return f"infinities in result {number}"
            fine = np.isfinite(a)
            most = np.abs(b[fine]).max(initial=1)
            if not np.allclose(a[fine], b[fine], rtol=1e-3, atol=1e-4 * most):
                return f"numbers in result {number}"
    return ""


def failure(calls, rng):
    """A description of the failure of a randomly chosen call; "" if it passes."""
    name, inputs, attributes = calls[int(rng.integers(len(calls)))]
    what = str(rng.choice(list(SPECIAL), p=[0.6, 0.2, 0.2]))
    if name != "max_pool_gradient":  # whose indices another call has given
        inputs = mapped(inputs, lambda x: with_values(x, rng, SPECIAL[what]))
    inputs = mapped(inputs, lambda x: laid_out(x, rng))
    places, make = MADE.get(name, ((), None))
    with np.errstate(all="ignore"):
        made = make(*inputs, **attributes) if places else []
    for place, one in zip(places, made, strict=True):
        inputs[place] = np.ascontiguousarray(one)
    before = [leaf.tobytes() for leaf in leaves(inputs)]
    kernel, threads = KERNELS.get(name) or getattr(_native, name), int(rng.integers(1, 4))
    with np.errstate(all="ignore"):
        with number_of_threads(threads):
            ours = outcome(kernel, inputs, attributes)
        wrong = difference(ours, outcome(NUMPY_KERNELS[name], inputs, attributes), what)
    if [leaf.tobytes() for leaf in leaves(inputs)] != before:
        wrong = "inputs were changed"
    shapes = [leaf.shape for leaf in leaves(inputs)]
    return wrong and f"{name}: {wrong} ({what}, {shapes}, {attributes})"


def run(calls, seed):
    """The failures of `calls` calls, each in a line."""
    small, big, failures = list(samples()), list(large(np.random.default_rng(seed))), []
    for number in range(calls):
        found = failure(big if number % 4 == 3 else small, np.random.default_rng((seed, number)))
        if found:
            failures.append(f"{found}, call {number}")
    return failures


def main():
    """Runs the fuzz; 1 if anything is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
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
