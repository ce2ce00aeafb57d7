"""Calls of cuDNN, and the same ops without it."""

import numpy as np
import pytest

import pullback as pb
from pullback_cupy import cudnn, driver

pytestmark = pytest.mark.skipif(
    driver.problem() is None, reason="asks a stand-in; on a GPU conformance asks cuDNN itself"
)
RNG = np.random.default_rng(0)
CASES = [
    ((2, 7, 6, 4), (3, 2, 4, 8), {"padding": "same"}),
    ((2, 7, 6, 4), (3, 3, 2, 8), {"strides": 2, "padding": ((1, 0), (2, 1)), "groups": 2}),
    ((2, 4, 7, 6), (3, 3, 4, 8), {"dilation": 2, "padding": 2, "data_format": "channels_first"}),
    ((3, 9, 4), (3, 4, 5), {"padding": "causal"}),
    ((2, 4, 5, 6, 3), (2, 3, 2, 3, 4), {"strides": (1, 2, 1)}),
]


@pytest.fixture
def library(monkeypatch):
    """cuDNN's stand-in in place of none."""
    import cudnn_on_host

    monkeypatch.setattr(cudnn, "library", lambda: cudnn_on_host)
    monkeypatch.setattr(cudnn, "_plans", {})
    monkeypatch.setattr(cudnn_on_host.pygraph, "made", 0)
    return cudnn_on_host


def test_it_is_not_there():
    assert cudnn.library() is None
    assert not cudnn._fits(np.ones(3, np.float32))


@pytest.mark.parametrize(("shape", "window", "how"), CASES, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_convolution_and_its_gradients(shape, window, how, dtype, device, library):
    x, kernel = RNG.normal(size=shape), RNG.normal(size=window)

    def found(place):
        images, weights = (pb.asarray(a, device=place).astype(dtype) for a in (x, kernel))
        with pb.GradientTape() as tape:
            tape.watch([images, weights])
            y = pb.conv(images, weights, **how)
            loss = pb.sum(y * y)
        return [
            one.numpy().astype(np.float64) for one in (y, *tape.gradient(loss, [images, weights]))
        ]

    within = 1e-5 if dtype == "float32" else 3e-2
    for actual, wanted in zip(found(device), found("cpu"), strict=True):
        np.testing.assert_allclose(actual, wanted, rtol=within, atol=within * abs(wanted).max())
    assert library.pygraph.made == 3
    found(device)
    assert library.pygraph.made == 3  # plans are kept


@pytest.mark.parametrize("is_causal", [False, True])
def test_attention(is_causal, device, library):
    arrays = [RNG.normal(size=(2, heads, 12, 16)) for heads in (4, 2, 2)]
    results = []
    for place in (device, "cpu"):
        given = [pb.asarray(x, device=place).astype("float16") for x in arrays]
        with pb.GradientTape() as tape:
            tape.watch(given)
            y = pb.scaled_dot_product_attention(*given, is_causal=is_causal)
            loss = pb.sum(y * y)
        results.append([one.numpy().astype(float) for one in (y, *tape.gradient(loss, given))])
    for actual, wanted in zip(*results, strict=True):
        np.testing.assert_allclose(actual, wanted, rtol=2e-2, atol=2e-2)
    assert library.pygraph.made == 1


def test_what_cudnn_has_no_plan_for_runs_all_the_same(device, library, monkeypatch):
    def refuse(self):
        raise RuntimeError("no engine supports this graph")

    monkeypatch.setattr(library.pygraph, "check_support", refuse)
    x, kernel = pb.ones((1, 4, 4, 1), device=device), pb.ones((3, 3, 1, 1), device=device)
    assert pb.conv(x, kernel).tolist() == [[[[9.0], [9.0]], [[9.0], [9.0]]]]
    # float64 is not cuDNN's at all.
    assert pb.conv(x.astype("float64"), kernel.astype("float64")).dtype == "float64"
