"""The kernel pack `native`: conformance of its kernels, and what is its own."""

import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import scipy.special

import pullback as pb
from pullback.conformance import checks
from pullback.conformance.case import cases
from pullback.conformance.samples import load
from pullback.devices import as_device
from pullback.spec import OPS
from pullback_native import _native
from pullback_native.kernels import KERNELS
from pullback_numpy.kernels import KERNELS as NUMPY_KERNELS
from pullback_numpy.kernels import gelu
from pullback_numpy.threads import number_of_threads

SERVED = sorted({*_native.KERNELS, *KERNELS})
SUITES = load()
CASES = [
    case
    for name in SERVED
    for case in cases(OPS[name], SUITES[name], as_device("cpu"))
    if str(case.dtype) == "float32"
]
rng = np.random.default_rng(0)


def over(found):
    return pytest.mark.parametrize("case", found, ids=str)


def normal(*shape):
    return rng.standard_normal(shape, np.float32)


@over(CASES)
def test_values(case):
    checks.value(case)
    checks.rules(case)
    checks.body(case)


@over(CASES)
def test_inputs_are_unchanged_and_calls_repeat(case):
    checks.unchanged(case)
    checks.deterministic(case)


@over(CASES)
def test_layouts(case):
    checks.layouts(case)


def test_the_pack_serves_float32():
    found = subprocess.run(
        [sys.executable, "-m", "pullback", "backends", "--kernels", "gelu"],
        capture_output=True, text=True, check=True,
        env={k: v for k, v in os.environ.items() if k != "PULLBACK_KERNEL_PACKS"},
    )  # fmt: skip
    assert "a kernel pack, of the highest priority" in found.stdout


def test_it_can_be_switched_off():
    found = subprocess.run(
        [sys.executable, "-m", "pullback", "backends", "--kernels", "gelu"],
        capture_output=True, text=True, check=True, env={**os.environ, "PULLBACK_KERNEL_PACKS": ""},
    )  # fmt: skip
    assert "not used: switched off" in found.stdout


# The sets of instructions. ----------------------------------------------------------------------


def everywhere():
    """Floats of all sizes and signs, and those between which most functions change."""
    bits = np.arange(-(2**31), 2**31, 2**16 + 1, dtype=np.int64).astype(np.uint32)
    special = np.float32([0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45])
    return np.concatenate(
        [bits.view(np.float32), np.linspace(-110, 110, 30001, dtype=np.float32), special]
    )


def ulps(y, reference):
    """The largest error in units of the last place; infinite where only one number is finite."""
    single = reference.astype(np.float32)
    finite = np.isfinite(single)
    same = (np.isnan(single) & np.isnan(y)) | (single == y)
    if not same[~finite].all():
        return np.inf
    error = np.abs(y[finite].astype(np.float64) - reference[finite])
    return (error / np.spacing(np.abs(single[finite])).astype(np.float64)).max()


def _log1p_exp(x):
    return np.log1p(np.exp(-np.abs(x)))


REFERENCES = {
    "exp": np.exp,
    "expm1": np.expm1,
    "sqrt": np.sqrt,
    "tanh": np.tanh,
    "sigmoid": scipy.special.expit,
    "silu": lambda x: np.where(np.isneginf(x), 0, x * scipy.special.expit(x)),
    "softplus": lambda x: np.maximum(x, 0) + _log1p_exp(x),
    "log_sigmoid": lambda x: np.minimum(x, 0) - _log1p_exp(x),
    "relu": lambda x: np.maximum(x, 0),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", REFERENCES)
def test_within_three_ulp_over_all_floats(name, instructions):
    x = everywhere()
    assert ulps(getattr(_native, name)(x), REFERENCES[name](x.astype(np.float64))) <= 3


SLOPES = {
    "tanh_gradient": lambda y: (1 - y) * (1 + y),
    "sigmoid_gradient": lambda y: y * (1 - y),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", SLOPES)
def test_gradients_within_three_ulp_over_all_results(name, instructions):
    y = everywhere()
    found = getattr(_native, name)(np.ones_like(y), y)
    assert ulps(found, SLOPES[name](y.astype(np.float64))) <= 3


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_the_gradient_of_silu_over_all_floats(instructions):
    x = everywhere()
    found = _native.silu_gradient(np.full_like(x, 2), x)
    wide = np.clip(x.astype(np.float64), -1e4, 1e4)
    s, rest = scipy.special.expit(wide), scipy.special.expit(-wide)
    terms = 2 * s * (1 + np.abs(wide) * rest)
    error = np.abs(found - 2 * s * (1 + wide * rest))
    assert (error[~np.isnan(x)] <= 3 * 2.0**-23 * terms[~np.isnan(x)] + 2.0**-147).all()
    assert np.isnan(found[np.isnan(x)]).all()


# Threads. ---------------------------------------------------------------------------------------

LARGE = normal(1024, 512)
ROWS = normal(512)
WORK = {
    "tanh": lambda: pb.tanh(LARGE),
    "add": lambda: pb.add(LARGE, ROWS),
    "softmax": lambda: pb.softmax(LARGE),
    "softmax_gradient": lambda: gradient(pb.softmax, LARGE),
    "log_softmax_gradient": lambda: gradient(pb.log_softmax, LARGE),
    "silu_gradient": lambda: gradient(pb.silu, LARGE),
    "layer_norm": lambda: pb.layer_norm(LARGE, ROWS, ROWS),
    "layer_norm_gradient": lambda: gradient(lambda x, s: pb.layer_norm(x, s, None), LARGE, ROWS),
    "batch_norm": lambda: pb.batch_norm(LARGE, ROWS, ROWS, axis=-1),
    "batch_norm_gradient": lambda: gradient(
        lambda x, s: pb.batch_norm(x, s, None, axis=-1)[0], LARGE, ROWS
    ),
    "lstm": lambda: pb.lstm(
        LARGE.reshape(64, 16, 512), LARGE[:64, :32], LARGE[:64, 32:64], LARGE[:512, :128] / 9,
        LARGE[:32, :128] / 9, None,
    ),
    "sum": lambda: [pb.sum(LARGE, axis=axis) for axis in (None, 0, 1)],
    "mean": lambda: pb.mean(LARGE.reshape(64, 16, 512), axis=1),
    "segment_sum": lambda: pb.segment_sum(LARGE, np.arange(1024) % 37, 40),
    "take": lambda: pb.take(LARGE, np.arange(1024) * 7 % 1024),
    "concat": lambda: pb.concat([LARGE, LARGE[:, :7]], axis=1),
    "reshape": lambda: pb.reshape(pb.permute_dims(LARGE.reshape(64, 16, 8, 64), (0, 2, 1, 3)), -1),
    "max_pool": lambda: pb.max_pool(LARGE.reshape(8, 64, 64, 16), window=2),
}  # fmt: skip


def gradient(function, *inputs):
    tensors = [pb.asarray(x) for x in inputs]
    with pb.GradientTape() as tape:
        for one in tensors:
            tape.watch(one)
        y = function(*tensors)
        total = (y * y * y).sum()
    return tape.gradient(total, tensors)


def arrays(result):
    several = result if isinstance(result, (tuple, list)) else [result]
    return [np.asarray(one) for one in several]


@pytest.mark.parametrize("name", WORK)
def test_results_do_not_depend_on_the_threads(name):
    found = []
    for count in (1, 2, 3, 2):
        with number_of_threads(count):
            found.append(arrays(WORK[name]()))
    # A product that BLAS computes in other pieces adds in another order: an error of some eps,
    # which each of the 64 steps of a recurrence may pass on in full.
    bound = 64 * np.finfo(np.float32).eps if name == "lstm" else 1e-6
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            np.testing.assert_allclose(a, b, rtol=bound, atol=bound)
    for a, b in zip(found[1], found[3], strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_process_works():
    with number_of_threads(2):
        expected = _native.tanh(LARGE)
        child = os.fork()
        if not child:
            same = all(np.array_equal(_native.tanh(LARGE), expected) for _ in range(20))
            os._exit(0 if same else 1)
        assert np.array_equal(_native.tanh(LARGE), expected)
        assert os.waitpid(child, 0)[1] == 0


def test_several_threads_call_at_once():
    expected, wrong = _native.sigmoid(LARGE), []

    def work():
        for _ in range(20):
            if not np.array_equal(_native.sigmoid(LARGE), expected):
                wrong.append(True)

    with number_of_threads(2):
        callers = [threading.Thread(target=work) for _ in range(4)]
        for one in callers:
            one.start()
        for one in callers:
            one.join()
    assert not wrong


# Beside NumPy's kernels. ------------------------------------------------------------------------


def beside(name, *inputs, rtol=2e-5, **attributes):
    kernel = KERNELS.get(name) or getattr(_native, name)
    ours, theirs = (arrays(one(*inputs, **attributes)) for one in (kernel, NUMPY_KERNELS[name]))
    for a, b in zip(ours, theirs, strict=True):
        assert a.shape == b.shape
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * np.nanmax(np.abs(b), initial=1))
    return ours


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("batch", [1, 3, 40])
@pytest.mark.parametrize("units", [5, 24, 130])
def test_lstm(units, batch, reverse, instructions):
    given = (normal(batch, 7, 5), normal(batch, units), normal(batch, units),
             normal(5, 4 * units), normal(units, 4 * units) / 5)  # fmt: skip
    out, _, _, gates, cells = beside("lstm", *given, normal(4 * units), None, reverse=reverse)
    rest = (out, gates, cells, normal(*out.shape), normal(batch, units), normal(batch, units))
    beside("lstm_gradient", *given, None, *rest, reverse=reverse)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("batch", [1, 3, 40])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("units", [5, 24, 130])
def test_gru(units, batch, reverse, biased, instructions):
    given = (normal(batch, 7, 5), normal(batch, units), normal(5, 3 * units),
             normal(units, 3 * units) / 5)  # fmt: skip
    biases = (normal(3 * units), normal(3 * units)) if biased else (None, None)
    out, _, gates, candidates = beside("gru", *given, *biases, None, reverse=reverse)
    rest = (out, gates, candidates, normal(*out.shape), normal(batch, units))
    beside("gru_gradient", *given, None, *rest, reverse=reverse)


@pytest.mark.parametrize("shape", [(4, 9, 9, 3), (2, 17, 6)])
@pytest.mark.parametrize(("window", "stride", "pad"), [(2, 2, 0), (3, 2, 1), (3, 1, 1), (2, 3, 0)])
def test_max_pool(shape, window, stride, pad):
    x = np.round(normal(*shape))  # with maxima that are there more than once
    dims = len(shape) - 2
    how = {"window": (window,) * dims, "strides": (stride,) * dims, "padding": ((pad, pad),) * dims}
    y, indices = beside("max_pool", x, **how, data_format="channels_last")
    beside("max_pool_gradient", normal(*y.shape), indices, input_shape=shape, **how,
           data_format="channels_last")  # fmt: skip


@pytest.mark.parametrize(
    ("shape", "window", "stride", "pad", "dilation"),
    [
        ((2, 9, 8, 6), (3, 3), 1, 1, 1),
        ((2, 9, 8, 6), (3, 2), 2, 1, 1),
        ((2, 9, 8, 6), (3, 3), 1, 2, 2),
        ((2, 9, 8, 6), (3, 3), 2, 2, 3),
        ((2, 9, 8, 6), (1, 1), 1, 0, 1),
        ((2, 9, 8, 6), (1, 1), 2, 0, 1),
        ((2, 9, 8, 6), (2, 2), 3, 0, 1),
        ((3, 12, 12, 1), (5, 5), 1, 2, 1),
        ((3, 30, 7), (4,), 1, 3, 1),
        ((2, 700, 3), (5,), 2, 2, 1),
        ((2, 3, 3, 5), (3, 3), 1, 5, 1),
        ((2, 7, 7, 300), (3, 3), 1, 1, 1),
        ((2, 7, 7, 130), (2, 3), 1, 1, 2),
        ((40, 20, 20, 16), (3, 3), 1, 1, 1),
        ((40, 4, 4, 32), (3, 3), 1, 1, 1),
    ],
)
@pytest.mark.parametrize("features", [7, 32, 70])
def test_conv(shape, window, stride, pad, dilation, features, instructions):
    x, kernel, dims = normal(*shape), normal(*window, shape[-1], features), len(window)
    how = {"strides": (stride,) * dims, "padding": ((pad, pad),) * dims, "groups": 1,
           "dilation": (dilation,) * dims, "data_format": "channels_last"}  # fmt: skip
    (y,) = beside("conv", x, kernel, **how)
    g = normal(*y.shape)
    beside("conv_input_gradient", g, kernel, input_shape=shape, **how)
    beside("conv_kernel_gradient", x, g, kernel_shape=kernel.shape, **how, rtol=1e-4)


def test_conv_of_random_forms():
    for _ in range(200):
        dims = int(rng.integers(1, 3))
        window, size, stride, dilation = (
            tuple(rng.integers(low, high, dims).tolist())
            for low, high in ((1, 6), (3, 31), (1, 4), (1, 3))
        )
        padding = tuple(map(tuple, rng.integers(0, 5, (dims, 2)).tolist()))
        covered = [d * (w - 1) + 1 for w, d in zip(window, dilation, strict=True)]
        if any(s + sum(p) < c for s, p, c in zip(size, padding, covered, strict=True)):
            continue
        batch, channels, features = rng.integers(1, 40, 3).tolist()
        shape = (batch % 4 + 1, *size, channels)
        x, kernel = normal(*shape), normal(*window, channels, features)
        how = {"strides": stride, "padding": padding, "groups": 1, "dilation": dilation,
               "data_format": "channels_last"}  # fmt: skip
        (y,) = beside("conv", x, kernel, **how)
        g = normal(*y.shape)
        beside("conv_input_gradient", g, kernel, input_shape=shape, **how)
        beside("conv_kernel_gradient", x, g, kernel_shape=kernel.shape, **how, rtol=1e-4)


def test_batch_norm_far_from_zero():
    x = normal(3000, 5) * 1e-2 + np.float32([0, 1, 10, 100, -100])
    y, mean, variance = _native.batch_norm(x, None, None, axis=1, epsilon=0.0)
    wide = x.astype(np.float64)
    np.testing.assert_allclose(mean, wide.mean(0), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(variance, wide.var(0), rtol=1e-5)
    assert np.abs(y.mean(0)).max() < 1e-2


def test_cross_entropy_of_classes_that_do_not_count():
    x, labels = normal(6, 4), np.int64([0, 3, -1, 2, 9, 1])
    how = {"axis": 1, "label_smoothing": 0.0, "ignore_label": -1}
    name = "sparse_softmax_cross_entropy_with_logits"
    losses, normalizer = beside(name, x, labels, **how)
    assert losses[2] == 0
    assert np.isnan(losses[4])
    beside("sparse_softmax_cross_entropy_gradient", x, labels, normalizer, normal(6), **how)


def test_attention_of_a_large_batch_in_parts():
    q, k, v = normal(8, 2, 64, 32), normal(8, 2, 64, 32), normal(8, 2, 64, 32)
    mask = rng.random((8, 1, 64, 64)) < 0.8
    how = {"is_causal": True, "scale": 0.2}
    name = "scaled_dot_product_attention"
    y, normalizer = beside(name, q, k, v, mask, **how)
    beside(f"{name}_gradient", q, k, v, mask, y, normalizer, normal(*y.shape), **how)


@pytest.mark.parametrize("x", [normal(5, 4).T, normal(9)[::2], normal(3)[::-1], np.ones(3)])
def test_what_is_not_contiguous_float32_goes_to_numpy(x):
    np.testing.assert_allclose(_native.tanh(x), np.tanh(x), rtol=1e-6)
    np.testing.assert_allclose(_native.add(x, x), x + x)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("shape", [(7, 5000), (3,), ()])
def test_where(shape):
    special = np.float32([0.0, -0.0, np.inf, np.nan])
    a, b = (np.asarray(one, np.float32) for one in (rng.choice(special, shape), normal(*shape)))
    chosen, number = np.asarray(rng.random(shape) < 0.5), np.array(-0.0, np.float32)
    for given in ((a, b), (a, number), (number, b), (number, number)):
        found, expected = _native.where(chosen, *given), np.where(chosen, *given)
        np.testing.assert_array_equal(found.view(np.int32), expected.view(np.int32))


def test_where_of_shapes_that_broadcast():
    a, b = normal(3), normal(4, 1)
    for chosen in (a > 0, b > 0, np.zeros((0, 1), bool), np.True_[...]):
        given = (chosen, a, b[: chosen.shape[0]] if chosen.ndim == 2 else b)
        np.testing.assert_array_equal(_native.where(*given), np.where(*given))


@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide"])
@pytest.mark.parametrize("value", [1.0, -2.5, 0.0, np.nan])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_an_array_that_repeats_one_number(name, value):
    x, kernel = np.float32([[0.0, -0.0, np.inf], [np.nan, 3.0, -7.0]]), getattr(_native, name)
    for number in (np.float32(value), np.float32([[value]]), np.full((1, 3), value, np.float32)):
        one = np.broadcast_to(number[..., :1] if number.ndim else number, x.shape)
        for given in ((one, x), (x, one), (one, one), (one[0], x), (x, one[0])):
            expected = getattr(np, name)(*given)
            np.testing.assert_array_equal(kernel(*given), expected)
            np.testing.assert_array_equal(np.signbit(kernel(*given)), np.signbit(expected))
    assert kernel(np.broadcast_to(np.float32(1), (0, 3)), np.ones((0, 3), np.float32)).size == 0


def pooled(**changes):
    """The arguments of a loop, by name: 2x2 windows of a 4x4 image of one channel."""
    sizes = {"height": 4, "width": 4, "channels": 1, "pad_top": 0, "pad_left": 0}
    sizes |= dict.fromkeys(
        ("out_height", "out_width", "window_height", "window_width", "stride_height"), 2
    )
    sizes["stride_width"] = 2
    y = np.empty((1, 2, 2, 1), np.float32)
    arrays = {"x": normal(1, 4, 4, 1), "y": y, "indices": y.astype(np.int32)}
    return {**sizes, **arrays, **changes}


def test_a_loop_takes_its_arguments_by_name():
    names = _native.FIELDS["max_pool"]
    given = pooled()
    assert sorted(names) == sorted(given)
    expected = given["x"].reshape(2, 2, 2, 2).max((1, 3))
    number = _native.LOOPS["max_pool"]
    assert _native.run(number, 2, 1, 1.0, **given) == 0
    np.testing.assert_array_equal(given["y"].reshape(2, 2), expected)
    # Some of them in a dict, in any order.
    mixed = {name: given.pop(name) for name in reversed(names[3:8])}
    given["y"].fill(0)
    assert _native.run(number, 2, 1, 1.0, mixed, **given) == 0
    np.testing.assert_array_equal(given["y"].reshape(2, 2), expected)
    assert all("status" not in names for names in _native.FIELDS.values())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x": normal(1, 4, 4, 2)[..., :1]}, "'x' is not contiguous"),
        ({"x": np.zeros((1, 4, 4, 1))}, "'x' must be an array of float32, got .*float64"),
        ({"indices": np.zeros(4, np.int64)}, "'indices' must be an array of int32, got .*int64"),
        ({"y": np.broadcast_to(np.float32(0), (1, 1, 1, 1))}, "'y' is written"),
        ({"x": [1.0]}, "'x' must be an array or None, got <class 'list'>"),
        ({"height": 4.0}, "integer"),
        ({"tiled": 1}, "no argument 'tiled'"),
        ({"height": None}, "integer"),
    ],
)
def test_wrong_arguments_of_a_loop(changes, message):
    with pytest.raises(TypeError, match=message):
        _native.run(_native.LOOPS["max_pool"], 2, 1, 1.0, **pooled(**changes))


def test_a_loop_takes_all_its_arguments_once():
    number, given = _native.LOOPS["max_pool"], pooled()
    with pytest.raises(TypeError, match="'width' is passed twice"):
        _native.run(number, 2, 1, 1.0, {"width": 4}, **given)
    del given["width"]
    with pytest.raises(TypeError, match="the argument 'width' is missing"):
        _native.run(number, 2, 1, 1.0, **given)
    for call in ((number, 2, 1), (number, 2, 1, 1.0, 4), (number, 2, 1, 1.0, {}, {})):
        with pytest.raises(TypeError, match=r"run\(loop, count, grain, cost"):
            _native.run(*call)
    for loop, grain in ((-1, 1), (10**6, 1), (_native.LOOPS["tanh"], 1), (number, 0)):
        with pytest.raises(ValueError, match="FIELDS lists"):
            _native.run(loop, 1, grain, 1.0)


def test_one_polynomial_for_both_tails():
    """The tail of GELU in C has the coefficients of NumPy's kernel."""
    source = (Path(__file__).parents[1] / "c" / "math32.h").read_text()
    body = source[
        source.index("normal_tail(") : source.index("#endif", source.index("normal_tail("))
    ]
    slope = re.search(r"size \* ([\d.]+)f \+ 1\.0f", body)
    assert slope is not None
    assert np.float32(slope[1]) == np.float32(gelu._SLOPE * gelu._ROOT_HALF)
    first = re.search(r"float q = (-?[\d.]+)f;", body)
    assert first is not None
    rest = re.findall(r"q = q \* t ([+-]) ([\d.]+)f;", body)
    coefficients = [first[1], *(sign + number for sign, number in rest)]
    np.testing.assert_array_equal(np.float32(coefficients), np.float32(gelu._TAIL[::-1]))
