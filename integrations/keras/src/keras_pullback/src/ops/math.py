"""Keras's `math` ops."""

from __future__ import annotations

import numpy as np
from keras.src.version import __version__

import pullback as pb
from keras_pullback.src.ops.core import (
    cast,
    convert_to_tensor,
    floating,
    name_of,
    numeric,
    result,
    same,
    to,
)
from keras_pullback.src.ops.products import slogdet


def _segment(op):
    def function(data, segment_ids, num_segments=None, sorted=False):
        data, segment_ids = convert_to_tensor(data), convert_to_tensor(segment_ids, "int32")
        if num_segments is None:
            num_segments = int(pb.max(segment_ids)) + 1
        # A negative segment counts for none: it goes to one more, which is dropped.
        ids = pb.where(segment_ids < 0, num_segments, segment_ids)
        return op(data, ids, num_segments + 1)[:num_segments]

    return function


segment_sum = _segment(pb.segment_sum)
segment_max = _segment(pb.segment_max)
segment_min = _segment(pb.segment_min)
segment_prod = _segment(pb.segment_prod)


def _top_k(x, k):
    x = convert_to_tensor(x)
    values, indices = pb.top_k(numeric(x), k)
    return values.astype(x.dtype), indices.astype("int32")


# Keras asks that a backend's function has the parameters of its op, and 3.15's has one less.
if tuple(map(int, __version__.split(".")[:2])) < (3, 16):

    def top_k(x, k, sorted=True):
        return _top_k(x, k)

else:

    def top_k(x, k, sorted=True, is_stable=True):
        return _top_k(x, k)


def in_top_k(targets, predictions, k):
    predictions = convert_to_tensor(predictions)
    values, _ = pb.top_k(predictions, k)
    targets = pb.expand_dims(convert_to_tensor(targets, "int32"), -1)
    targets = pb.take_along_axis(predictions, targets, axis=-1)
    return pb.any(targets >= values, axis=-1)


def logsumexp(x, axis=None, keepdims=False):
    axis = tuple(axis) if isinstance(axis, list) else axis
    return pb.logsumexp(floating(x), axis=axis, keepdims=keepdims)


def cdist(x, y):
    x, y = same(x, y, floating=True)
    if x.ndim < 2 or y.ndim < 2:
        raise ValueError("`cdist` inputs must have rank >= 2")
    if x.shape[-1] != y.shape[-1]:
        raise ValueError("Last dimension of inputs to `cdist` must match")
    return pb.cdist(x, y)


def gammainc(x1, x2):
    x1, x2 = same(x1, x2, floating=True)
    name = name_of(x1)
    wide = "float64" if name == "float64" else "float32"
    return to(pb.gammainc(to(x1, wide), to(x2, wide)), name)


def extract_sequences(x, sequence_length, sequence_stride):
    x = convert_to_tensor(x)
    count = (x.shape[-1] - sequence_length) // sequence_stride + 1
    places = np.arange(sequence_length) + sequence_stride * np.arange(max(count, 0))[:, None]
    return pb.take(x, pb.asarray(places.astype("int32")), axis=-1)


# Fourier transforms ------------------------------------------------------------------------------


def _get_complex_tensor_from_tuple(x):
    # Keras calls it by this name.
    if not isinstance(x, (tuple, list)) or len(x) != 2:
        raise ValueError(
            f"Input `x` should be a tuple of two tensors - real and imaginary. Received: x={x}"
        )
    real, imag = (convert_to_tensor(part) for part in x)
    if real.shape != imag.shape:
        raise ValueError(
            "Input `x` should be a tuple of two tensors - real and imaginary. "
            "Both the real and imaginary parts should have the same shape. "
            f"Received: x[0].shape = {real.shape}, x[1].shape = {imag.shape}"
        )
    if "float" not in name_of(real) or "float" not in name_of(imag):
        raise ValueError(f"At least one tensor in input `x` is not of type float. Received: x={x}.")
    return pb.complex(real, imag)


def _parts(y):
    return pb.real(y), pb.imag(y)


def fft(x):
    return _parts(pb.fft.fft(_get_complex_tensor_from_tuple(x)))


def fft2(x):
    return _parts(pb.fft.fftn(_get_complex_tensor_from_tuple(x), axes=(-2, -1)))


def ifft2(x):
    return _parts(pb.fft.ifftn(_get_complex_tensor_from_tuple(x), axes=(-2, -1)))


def rfft(x, fft_length=None):
    x = convert_to_tensor(x)
    return tuple(part.astype(x.dtype) for part in _parts(pb.fft.rfft(x, n=fft_length)))


def irfft(x, fft_length=None):
    return pb.fft.irfft(_get_complex_tensor_from_tuple(x), n=fft_length).astype(
        convert_to_tensor(x[0]).dtype
    )


def _window(window, sequence_length, fft_length, dtype):
    """The window in the middle of a frame; ones where there is none."""
    left = (fft_length - sequence_length) // 2
    right = fft_length - sequence_length - left
    if window is None:
        return pb.ones(fft_length, dtype=dtype)
    if isinstance(window, str):
        if window not in ("hann", "hamming"):
            raise ValueError(
                'If a string is passed to `window`, it must be one of `"hann"`, `"hamming"`. '
                f"Received: window={window}"
            )
        make = np.hanning if window == "hann" else np.hamming
        # Periodic: one more, without the last. A window of one is 1, as SciPy's.
        window = make(sequence_length + 1)[:-1] if sequence_length > 1 else np.ones(1)
    window = convert_to_tensor(window).astype(dtype)
    if window.shape != (sequence_length,):
        raise ValueError(
            "The shape of `window` must be equal to [sequence_length]. "
            f"Received: window shape={window.shape}"
        )
    return pb.pad(window, [(left, right)])


def stft(x, sequence_length, sequence_stride, fft_length, window="hann", center=True):
    x = convert_to_tensor(x)
    if name_of(x) not in ("float32", "float64"):
        raise TypeError(
            f"Invalid input type. Expected `float32` or `float64`. Received: input type={x.dtype}"
        )
    if fft_length < sequence_length:
        raise ValueError(
            "`fft_length` must equal or larger than `sequence_length`. Received: "
            f"sequence_length={sequence_length}, fft_length={fft_length}"
        )
    window = _window(window, sequence_length, fft_length, x.dtype)
    y = pb.stft(x, window, size=fft_length, step=sequence_stride, center=center)
    return tuple(part.astype(x.dtype) for part in _parts(y))


def istft(x, sequence_length, sequence_stride, fft_length, length=None, window="hann", center=True):
    # Not `pb.istft`: it divides by the squares of the windows that are there, and is exact at the
    # ends of a signal too, where Keras divides as inside and lets it fade.
    frames = pb.fft.irfft(_get_complex_tensor_from_tuple(x), n=fft_length)
    count = frames.shape[-2]
    size = fft_length + sequence_stride * (count - 1)
    if window is not None:
        # Over the sum of squares of the windows that overlap, as inside of a long signal.
        window = _window(window, sequence_length, fft_length, frames.dtype)
        missing = -fft_length % sequence_stride
        squares = pb.reshape(pb.pad(window * window, [(0, missing)]), (-1, sequence_stride))
        total = pb.tile(pb.sum(squares, axis=0), (squares.shape[0],))[:fft_length]
        frames = frames * pb.where(total == 0, 0.0, window / pb.where(total == 0, 1.0, total))
    places = np.arange(fft_length) + sequence_stride * np.arange(count)[:, None]
    flat = pb.reshape(frames, (*frames.shape[:-2], -1))
    y = pb.scatter_add(
        pb.zeros((*flat.shape[:-1], size), dtype=flat.dtype),
        pb.asarray(places.reshape(-1).astype("int32")),
        flat,
        axis=-1,
    )
    start = fft_length // 2 if center else 0
    end = size - start if length is None else start + length
    if end > size:
        y = pb.pad(y, [(0, 0)] * (y.ndim - 1) + [(0, end - size)])
    return y[..., start:end]


# Elements ----------------------------------------------------------------------------------------


def rsqrt(x):
    return pb.rsqrt(floating(x))


def erf(x):
    return pb.erf(floating(x))


def erfc(x):
    return pb.erfc(floating(x))


def erfinv(x):
    return pb.erfinv(floating(x))


def logdet(x):
    return slogdet(x)[1]
