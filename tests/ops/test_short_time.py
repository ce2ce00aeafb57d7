"""Short-time Fourier transforms beside SciPy's, and there and back again."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.signal import ShortTimeFFT

import pullback as pb

RNG = np.random.default_rng(11)


def random_case():
    size = int(RNG.integers(1, 17))
    step = int(RNG.integers(1, size + 4))
    length = int(RNG.integers(size // 2 + 1 + size % 2, 60)) + size
    shape = (*RNG.integers(1, 4, RNG.integers(0, 3)), length)
    window = RNG.uniform(0.2, 1.0, size) if RNG.integers(3) else None
    return RNG.standard_normal(shape), window, size, step


@pytest.mark.parametrize("_", range(8))
def test_values_are_those_of_scipy(_):
    x, window, size, step = random_case()
    if size == 1:
        size, window = 2, None
    weights = np.ones(size) if window is None else window
    theirs = ShortTimeFFT(weights, step, fs=1.0, phase_shift=None)
    found = pb.stft(x, window, size=size, step=step, center=False).numpy()
    # SciPy's frames are centered at multiples of the step: those that begin where ours do.
    wanted = np.stack(
        [
            np.fft.rfft(x[..., i : i + size] * weights)
            for i in range(0, x.shape[-1] - size + 1, step)
        ],
        axis=-2,
    )
    np.testing.assert_allclose(found, wanted, atol=1e-12)
    padded = np.concatenate([np.zeros((*x.shape[:-1], size // 2)), x], axis=-1)
    ours = pb.stft(padded, window, size=size, step=step, center=False).numpy()
    begin = theirs.stft(x, p0=0, p1=ours.shape[-2]).swapaxes(-2, -1)
    np.testing.assert_allclose(ours, begin, atol=1e-12)


@pytest.mark.parametrize("center", [True, False])
def test_there_and_back(center):
    for _ in range(12):
        x, window, size, step = random_case()
        step = min(step, size)
        y = pb.stft(x, window, size=size, step=step, center=center)
        back = pb.istft(y, window, size=size, step=step, center=center).numpy()
        reach = min(back.shape[-1], x.shape[-1])
        np.testing.assert_allclose(back[..., :reach], x[..., :reach], atol=1e-10)
        longer = pb.istft(
            y, window, size=size, step=step, center=center, length=back.shape[-1] + 3
        ).numpy()
        np.testing.assert_array_equal(longer[..., :-3], back)
        assert not longer[..., -3:].any()


def test_a_signal_that_fits_no_spectrum_is_the_nearest_one():
    """Of all signals, the transform of the result has the least distance from what was given."""
    size, step, frames = 8, 2, 6
    window = RNG.uniform(0.2, 1.0, size)
    y = RNG.standard_normal((frames, 5)) + 1j * RNG.standard_normal((frames, 5))
    y[:, [0, -1]] = y[:, [0, -1]].real

    def distance(x):
        away = pb.stft(x, window, size=size, step=step, center=False) - y
        # Each inner frequency stands for two.
        weights = np.array([1.0, 2, 2, 2, 1])
        return pb.sum((pb.real(away) ** 2 + pb.imag(away) ** 2) * weights)

    x = pb.istft(y, window, size=size, step=step, center=False)
    assert np.abs(pb.grad(distance)(x).numpy()).max() < 1e-11


def test_gradients_to_the_second_order():
    x, window = pb.asarray(RNG.standard_normal(9)), pb.asarray(RNG.uniform(0.2, 1.0, 5))

    def power(x, window):
        y = pb.stft(x, window, size=6, step=2)
        return pb.sum(pb.real(y) ** 2 + pb.imag(y) ** 3)

    def back(x, window):
        y = pb.stft(x, window, size=6, step=2, center=False)
        return pb.sum(pb.istft(y**2, window, size=6, step=2, center=False) ** 2)

    for f in (power, back):
        pb.check_gradients(f, x, window)
        pb.check_gradients(lambda x, w, f=f: pb.sum(pb.grad(f)(x, w) ** 2), x, window)


def test_a_batch_a_program_and_the_shape():
    x = pb.asarray(RNG.standard_normal((3, 20)))

    def there(x):
        return pb.stft(x, size=7, step=3)

    def back(y):
        return pb.istft(y, size=7, step=3, length=20)

    y = there(x)
    np.testing.assert_allclose(pb.vmap(there)(x).numpy(), y.numpy(), atol=1e-12)
    np.testing.assert_allclose(pb.vmap(back)(y).numpy(), back(y).numpy(), atol=1e-12)
    np.testing.assert_allclose(pb.function(there)(x).numpy(), y.numpy(), atol=1e-12)
    spec = pb.eval_shape(there, pb.TensorSpec((3, 20), "float32"))
    assert (spec.shape, spec.dtype) == (y.shape, pb.complex64)
    assert pb.eval_shape(back, spec).shape == (3, 20)
