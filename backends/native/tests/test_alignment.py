"""The CTC loss of the pack beside NumPy's kernel, which the conformance samples hold."""

import numpy as np
import pytest

from pullback_native import _native
from pullback_numpy.kernels import KERNELS as NUMPY_KERNELS

rng = np.random.default_rng(0)


def close(name, *inputs, blank=0):
    """The pack's result, held against that of NumPy's kernel in double."""
    ours = getattr(_native, name)(*inputs, blank=blank)
    wide = [x.astype(float) if x.dtype.kind == "f" else x for x in inputs]
    theirs = NUMPY_KERNELS[name](*wide, blank=blank)
    assert (ours.dtype, ours.shape) == (inputs[0].dtype, theirs.shape)
    # Logarithms of some tens, of which differences are taken: those of NumPy round as ours.
    close = 1e-5 if ours.dtype == np.float32 else 1e-12
    np.testing.assert_allclose(ours, theirs, rtol=close, atol=close)
    return ours


def given(dtype, batch, frames, classes, length, index=np.int64):
    logits = (3 * rng.standard_normal((batch, frames, classes))).astype(dtype)
    labels = rng.integers(0, classes, (batch, length)).astype(index)
    # Lengths of nothing, and of more than there is.
    lengths = rng.integers(0, frames + 2, batch).astype(index)
    counts = rng.integers(0, length + 1, batch).astype(index)
    return (logits, labels, lengths, counts), rng.standard_normal(batch).astype(dtype)


SIZES = [(3, 7, 4, 2), (4, 12, 6, 5), (1, 1, 3, 1), (5, 20, 30, 8), (2, 3, 3, 0), (40, 9, 2, 3)]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sizes(dtype, instructions):
    for sizes in SIZES:
        for index in (np.int32, np.int64):
            inputs, g = given(dtype, *sizes, index)
            for blank in (0, sizes[2] - 1):
                close("ctc_loss", *inputs, blank=blank)
                close("ctc_loss_gradient", *inputs, g, blank=blank)


def test_layouts_and_what_does_not_fit(instructions):
    inputs, g = given("float32", 4, 6, 5, 2)
    logits, labels, lengths, counts = inputs
    losses = close("ctc_loss", *inputs)
    turned = np.asfortranarray(logits), np.asfortranarray(labels), lengths, counts
    np.testing.assert_allclose(_native.ctc_loss(*turned, blank=0), losses, rtol=1e-5)
    slopes = close("ctc_loss_gradient", *inputs, np.broadcast_to(g[:1], 4))
    every = close("ctc_loss_gradient", *inputs, np.repeat(g[:1], 4))
    np.testing.assert_array_equal(slopes, every)
    # A negative count of labels, or one beyond them, fits no path.
    wrong = np.array([-1, 3, 2, 1])
    assert np.isinf(close("ctc_loss", logits, labels, lengths, wrong)[:2]).all()
    assert not close("ctc_loss_gradient", logits, labels, lengths, wrong, g)[:2].any()
    # Labels at the end are padded with any class, also with one counted from the end.
    close("ctc_loss", logits, labels - 5, lengths, counts)
    with pytest.raises(IndexError):
        _native.ctc_loss(logits, labels + 5, lengths, counts, blank=0)


@pytest.mark.parametrize("odd", [np.inf, -np.inf, np.nan])
@np.errstate(all="ignore")
def test_infinities(odd, instructions):
    inputs, g = given("float32", 6, 5, 4, 2)
    inputs[0][::2, 1, 2] = odd
    close("ctc_loss", *inputs)
    close("ctc_loss_gradient", *inputs, g)
    inputs[0][0] = odd
    close("ctc_loss", *inputs)
    close("ctc_loss_gradient", *inputs, g)


def test_probabilities_that_underflow(instructions):
    inputs, g = given("float32", 3, 200, 5, 20)
    inputs = (inputs[0] * 40, *inputs[1:])
    close("ctc_loss", *inputs)
    close("ctc_loss_gradient", *inputs, g)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_scores_of_classes(dtype):
    name = "negative_log_likelihood_of_classes"
    for shape in [(7, 5), (2, 3, 4), (1, 1), (5,), (4, 0)]:
        x = rng.standard_normal(shape).astype(dtype)
        for index in (np.int32, np.int64, np.uint8):
            # Two labels that are no class.
            labels = rng.integers(0, shape[-1] + 2, shape[:-1]).astype(index)
            if index is not np.uint8:
                labels = labels - 1
            for form in (x, np.asfortranarray(x)):
                axis = x.ndim - 1
                ours = getattr(_native, name)(form, labels, axis=axis)
                theirs = NUMPY_KERNELS[name](form, labels, axis=axis)
                assert ours.dtype == theirs.dtype
                np.testing.assert_array_equal(ours, theirs)
