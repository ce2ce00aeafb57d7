"""Kernels of the pack beside NumPy's, in more forms than the conformance samples have."""

import numpy as np
import pytest

from pullback_conformance.samples.normalization import group_gradient, layer_gradient
from pullback_native import _native
from pullback_native.kernels import KERNELS
from pullback_numpy.kernels import KERNELS as NUMPY_KERNELS

rng = np.random.default_rng(0)


def normal(*shape):
    return rng.standard_normal(shape, np.float32)


def arrays(result):
    several = result if isinstance(result, (tuple, list)) else [result]
    return [np.asarray(array) for array in several]


def beside(name, *inputs, rtol=2e-5, **attributes):
    kernel = KERNELS.get(name) or getattr(_native, name)
    ours, theirs = (
        arrays(function(*inputs, **attributes)) for function in (kernel, NUMPY_KERNELS[name])
    )
    for a, b in zip(ours, theirs, strict=True):
        assert a.shape == b.shape
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * np.nanmax(np.abs(b), initial=1))
    return ours


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("batch", [1, 3, 40])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("units", [5, 24, 130])
@pytest.mark.parametrize("masked", [False, True])
def test_lstm(units, batch, reverse, biased, masked, instructions):
    inputs = (normal(batch, 7, 5), normal(batch, units), normal(batch, units),
             normal(5, 4 * units), normal(units, 4 * units) / 5)  # fmt: skip
    bias = normal(4 * units) if biased else None
    mask = normal(batch, 7) > 0 if masked else None
    out, _, _, gates, cells = beside("lstm", *inputs, bias, mask, reverse=reverse)
    rest = (out, gates, cells, normal(*out.shape), normal(batch, units), normal(batch, units))
    beside("lstm_gradient", *inputs, mask, *rest, reverse=reverse)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("batch", [1, 3, 40])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("units", [5, 24, 130])
@pytest.mark.parametrize("masked", [False, True])
def test_gru(units, batch, reverse, biased, masked, instructions):
    inputs = (normal(batch, 7, 5), normal(batch, units), normal(5, 3 * units),
             normal(units, 3 * units) / 5)  # fmt: skip
    biases = (normal(3 * units), normal(3 * units)) if biased else (None, None)
    mask = normal(batch, 7) > 0 if masked else None
    out, _, gates, candidates = beside("gru", *inputs, *biases, mask, reverse=reverse)
    rest = (out, gates, candidates, normal(*out.shape), normal(batch, units))
    beside("gru_gradient", *inputs, mask, *rest, reverse=reverse)


@pytest.mark.parametrize("batch", [3, 40])
@pytest.mark.parametrize("features", [49, 300])
@pytest.mark.parametrize(("name", "gates"), [("lstm", 4), ("gru", 3)])
def test_recurrences_of_transposed_inputs_and_copied_residuals(name, gates, features, batch):
    x, units = normal(batch, features, 6).transpose(0, 2, 1), 24
    states = [normal(batch, units) for _ in range(gates - 2)]  # h; c of an LSTM
    weights = normal(features, gates * units) / 9, normal(units, gates * units) / 5
    biases = (None,) if name == "lstm" else (None, None)
    out, *rest = beside(name, x, *states, *weights, *biases, None, reverse=True)
    residuals = rest[-2:]
    slopes = [normal(*out.shape), *(normal(batch, units) for _ in states)]
    given = x, *states, *weights, None, out
    ours = beside(f"{name}_gradient", *given, *residuals, *slopes, reverse=True)
    # What another kernel kept lies in the order of its axes.
    copies = [np.ascontiguousarray(residual) for residual in residuals]
    copied = KERNELS[f"{name}_gradient"](*given, *copies, *slopes, reverse=True)
    for a, b in zip(ours, copied, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("shape", [(4, 9, 9, 3), (2, 17, 6)])
@pytest.mark.parametrize(("window", "stride", "pad"), [(2, 2, 0), (3, 2, 1), (3, 1, 1), (2, 3, 0)])
def test_max_pool(shape, window, stride, pad):
    x = np.round(normal(*shape))  # with maxima that are there more than once
    dims = len(shape) - 2
    options = {
        "window": (window,) * dims,
        "strides": (stride,) * dims,
        "padding": ((pad, pad),) * dims,
    }
    y, indices = beside("max_pool", x, **options, data_format="channels_last")
    beside("max_pool_gradient", normal(*y.shape), indices, input_shape=shape, **options,
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
    options = {"strides": (stride,) * dims, "padding": ((pad, pad),) * dims, "groups": 1,
           "dilation": (dilation,) * dims, "data_format": "channels_last"}  # fmt: skip
    (y,) = beside("conv", x, kernel, **options)
    g = normal(*y.shape)
    beside("conv_input_gradient", g, kernel, input_shape=shape, **options)
    beside("conv_kernel_gradient", x, g, kernel_shape=kernel.shape, **options, rtol=1e-4)


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
        first = bool(rng.integers(2))
        if first:
            shape = (shape[0], channels, *size)
        x, kernel = normal(*shape), normal(*window, channels, features)
        options = {"strides": stride, "padding": padding, "groups": 1, "dilation": dilation,
               "data_format": "channels_first" if first else "channels_last"}  # fmt: skip
        (y,) = beside("conv", x, kernel, **options)
        g = normal(*y.shape)
        beside("conv_input_gradient", g, kernel, input_shape=shape, **options)
        beside("conv_kernel_gradient", x, g, kernel_shape=kernel.shape, **options, rtol=1e-4)


def test_avg_pool_of_random_forms(instructions):
    # Windows of 256 taps are the largest that the pack takes, 8 channels the fewest of many pixels.
    for _ in range(60):
        dims = int(rng.integers(1, 3))
        window, size, stride = (
            tuple(rng.integers(low, high, dims).tolist())
            for low, high in ((1, 18), (17, 24), (1, 4))
        )
        padding = tuple(tuple(rng.integers(0, min(4, width + 1), 2).tolist()) for width in window)
        shape = (2, *size, int(rng.choice([1, 7, 8, 20])))
        x = normal(*shape)
        if rng.random() < 0.3:
            x.flat[rng.integers(x.size)] = rng.choice([np.inf, np.nan])
        for include in (False, True):
            with np.errstate(all="ignore"):
                beside("avg_pool", x, window=window, strides=stride, padding=padding,
                       count_include_pad=include, data_format="channels_last")  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_group_norm(dtype, instructions):
    # The pack takes 1,024 channels at most.
    for shape in [(2, 8), (3, 5, 12), (2, 7, 9, 16), (1, 40, 40, 4), (2, 3, 1024), (2, 3, 1026)]:
        channels = shape[-1]
        for mean in (0, 100):
            x = (normal(*shape) * 2 + np.float32(mean)).astype(dtype)
            wide = x.astype(np.longdouble)
            for groups in (1, 2, channels // 2, channels):
                scale, offset = normal(channels).astype(dtype), normal(channels).astype(dtype)
                apart = wide.reshape(shape[0], -1, groups, channels // groups)
                away = apart - apart.mean((1, 3), keepdims=True)
                spread = np.sqrt((away**2).mean((1, 3), keepdims=True) + 1e-5)
                exact = (away / spread).reshape(shape)
                close = (1 + mean) * (1e-6 if dtype == "float32" else 1e-14)
                for s, o in ((None, None), (scale, None), (scale, offset)):
                    y = exact * (1 if s is None else s) + (0 if o is None else o)
                    for form in (x, np.moveaxis(x, -1, 1)):
                        axis = x.ndim - 1 if form is x else 1
                        found = _native.group_norm(
                            form, s, o, groups=groups, axis=axis, epsilon=1e-5
                        )
                        found = found if form is x else np.moveaxis(found, 1, -1)
                        assert (found.dtype, found.shape) == (x.dtype, shape)
                        np.testing.assert_allclose(
                            found.astype(float), y.astype(float), rtol=0, atol=40 * close
                        )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_group_norm_gradient(dtype, instructions):
    # The pack takes 1,024 channels at most, and the channels last.
    for shape in [(2, 8), (3, 5, 12), (2, 7, 9, 16), (1, 40, 40, 4), (2, 3, 1024), (2, 3, 1026),
                  (2, 31, 2), (2, 33, 2), (1, 5, 13, 6), (2, 2, 64), (2, 2, 66)]:  # fmt: skip
        channels = shape[-1]
        for mean in (0, 100):
            x = (normal(*shape) * 2 + np.float32(mean)).astype(dtype)
            g = normal(*shape).astype(dtype)
            for groups in (1, 2, channels // 2, channels):
                for scale in (None, normal(channels).astype(dtype)):
                    how = {"groups": groups, "epsilon": 1e-5}
                    exact = group_gradient(
                        *(None if a is None else a.astype(np.longdouble) for a in (x, scale, g)),
                        **how,
                    )
                    # Where a group has few elements, its differences are near the rounding of x.
                    elements = x.size // shape[0] // groups
                    close = (1 + mean) * (1e-6 if dtype == "float32" else 1e-14) * 300
                    for axis in (x.ndim - 1, 1):
                        given = (np.moveaxis(x, -1, axis), scale, np.moveaxis(g, -1, axis))
                        found = _native.group_norm_gradient(*given, axis=axis, **how)
                        assert [one.dtype for one in found] == [x.dtype] * 3
                        found = (np.moveaxis(found[0], axis, -1), *found[1:])
                        for one, other in zip(found, exact, strict=True):
                            if elements > 2:
                                size = 1 + np.abs(other).max()
                                assert np.abs(one - other).max() <= close * size


@pytest.mark.parametrize("width", [1, 3, 40, 4096, 4097])
def test_layer_norm_of_float64(width, instructions):
    # Rows of more than 4,096 numbers are NumPy's.
    for shape in [(5, width), (2, 3, width), (300, width)]:
        x = normal(*shape).astype(float) + 10
        g = normal(*shape).astype(float)
        axis = (x.ndim - 1,)
        for scale, offset in ((None, None), (normal(width).astype(float),) * 2):
            found = _native.layer_norm(x, scale, offset, axis=axis, epsilon=1e-5)
            given = (x, scale, *found[1:], g)
            found = (*found, *_native.layer_norm_gradient(*given, axis=axis))
            exact = NUMPY_KERNELS["layer_norm"](
                *(None if a is None else a.astype(np.longdouble) for a in (x, scale, offset)),
                axis=axis, epsilon=1e-5,
            )  # fmt: skip
            exact = (*exact, *layer_gradient(x, scale, *exact[1:], g))
            for one, other in zip(found, exact, strict=True):
                assert one.dtype == np.float64
                assert one.shape == other.shape
                if width > 1:
                    size = 1 + np.abs(other).max()
                    assert np.abs(one - other).max() <= 1e-12 * size


def test_products_of_few_columns(instructions):
    # Fewer columns than a vector has, and than a strip: both are copied beside zeros.
    sizes = [(4, 3000, 4), (1, 700, 3), (20, 600, 5), (50, 257, 7), (7, 300, 2), (3, 1000, 12)]
    for rows, inner, columns in [*sizes, (9, 300, 17), (30, 520, 33), (5, 400, 63)]:
        a, b = normal(inner, rows), normal(inner, columns)
        exact = a.T.astype(float) @ b.astype(float)
        size = np.abs(a.T).astype(float) @ np.abs(b).astype(float)
        for left in (a.T, np.ascontiguousarray(a.T)):
            for right in (b, np.asfortranarray(b)):
                y = _native.matmul(left, right)
                assert np.all(np.abs(y - exact) <= 1e-6 * size)
        # A row has the same bits whatever rows are beside it.
        if rows > 2 and instructions != "base":  # there BLAS computes them
            np.testing.assert_array_equal(_native.matmul(a[:, :2].T, b), _native.matmul(a.T, b)[:2])


def test_batch_norm_far_from_zero():
    x = normal(3000, 5) * 1e-2 + np.float32([0, 1, 10, 100, -100])
    y, mean, variance = _native.batch_norm(x, None, None, axis=1, epsilon=0.0)
    wide = x.astype(np.float64)
    np.testing.assert_allclose(mean, wide.mean(0), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(variance, wide.var(0), rtol=1e-5)
    assert np.abs(y.mean(0)).max() < 1e-2


def test_cross_entropy_of_classes_that_do_not_count():
    x, labels = normal(6, 4), np.int64([0, 3, -1, 2, 9, 1])
    options = {"axis": 1, "label_smoothing": 0.0, "ignore_label": -1}
    name = "sparse_softmax_cross_entropy_with_logits"
    losses, normalizer = beside(name, x, labels, **options)
    assert losses[2] == 0
    assert np.isnan(losses[4])
    beside("sparse_softmax_cross_entropy_gradient", x, labels, normalizer, normal(6), **options)


def test_attention_of_a_large_batch_in_parts():
    q, k, v = normal(8, 2, 64, 32), normal(8, 2, 64, 32), normal(8, 2, 64, 32)
    mask = rng.random((8, 1, 64, 64)) < 0.8
    options = {"is_causal": True, "scale": 0.2}
    name = "scaled_dot_product_attention"
    y, normalizer = beside(name, q, k, v, mask, **options)
    beside(f"{name}_gradient", q, k, v, mask, y, normalizer, normal(*y.shape), **options)


def test_gradient_of_attention_with_a_normalizer_that_numpy_broadcasts():
    query, key, value, out, g = (normal(2, 3, 5, 5) for _ in range(5))
    for normalizer in (normal(2, 3, 5, 1), normal(2, 3, 5, 5), normal(1, 3, 5, 1)):
        rest = (None, out, normalizer, g)
        beside(
            "scaled_dot_product_attention_gradient", query, key, value, *rest,
            is_causal=False, scale=0.5,
        )  # fmt: skip
