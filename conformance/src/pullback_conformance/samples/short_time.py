"""Samples of short-time Fourier transforms."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback import errors
from pullback_conformance.draws import cnormal, integers, normal, uniform
from pullback_conformance.sample import Array, call, suite, wrong


def _window(window: Array | None, size: int) -> Array:
    """The window in the middle of a frame."""
    if window is None:
        return np.ones(size)
    missing = size - window.size
    return np.pad(window, (missing // 2, missing - missing // 2))


def _stft(
    x: Array, window: Array | None = None, *, size: int, step: int | None = None,
    center: bool = True,
) -> Array:  # fmt: skip
    step = -(-size // 4) if step is None else step
    if center:
        x = np.pad(x, [(0, 0)] * (x.ndim - 1) + [(size // 2, size // 2)], mode="reflect")
    starts = range(0, x.shape[-1] - size + 1, step)
    frames = np.stack([x[..., i : i + size] for i in starts], axis=-2)
    return np.fft.rfft(frames * _window(window, size))


def _istft(
    x: Array, window: Array | None = None, *, size: int, step: int | None = None,
    center: bool = True, length: int | None = None,
) -> Array:  # fmt: skip
    step = -(-size // 4) if step is None else step
    weights = _window(window, size)
    frames = np.fft.irfft(x, size) * weights
    count = frames.shape[-2]
    reach = (count - 1) * step + size
    y, squares = np.zeros((*x.shape[:-2], reach), frames.dtype), np.zeros(reach, frames.dtype)
    for i in range(count):
        y[..., i * step : i * step + size] += frames[..., i, :]
        squares[i * step : i * step + size] += weights * weights
    y = np.where(squares > 0, y / np.where(squares > 0, squares, 1), 0)
    y = y[..., size // 2 : reach - size // 2] if center else y
    if length is None:
        return y
    return np.concatenate([y, np.zeros((*y.shape[:-1], max(length - y.shape[-1], 0)))], -1)[
        ..., :length
    ]


_HANN = np.sin(np.pi * (np.arange(8) + 0.5) / 8) ** 2
_OF_FRAMES: Any = {"without": {"sizes": "a frame is as long as its transform says"}}

suite("stft", _stft)(
    call(normal(2, 20), size=8),
    call(normal(2, 20), _HANN, size=8),
    call(normal(2, 20), _HANN, size=8, step=3, center=False),
    call(normal(3, 2, 11), uniform(0.5, 1.5, 3), size=5, step=2, note="a short window"),
    call(normal(13), size=4, step=6, center=False, note="between frames"),
    call(normal(9), size=1, step=1, note="single elements"),
    call(normal(5), size=8, note="reflected as far as it goes"),
    call(normal(0, 9), _HANN, size=8, note="no signals"),
    call(integers(-5, 5, 2, 12), size=6, step=2, note="integers"),
    wrong(errors.ShapeError, normal(), size=1),
    wrong(errors.ShapeError, normal(7), size=8, center=False),
    wrong(errors.ShapeError, normal(4), size=8),
    wrong(errors.ShapeError, normal(20), normal(9), size=8),
    wrong(errors.ShapeError, normal(20), normal(2, 4), size=8),
    wrong(errors.InputValueError, normal(20), size=0),
    wrong(errors.InputValueError, normal(20), size=8, step=0),
    wrong(errors.InputTypeError, normal(20), size=8.5),
    wrong(errors.DTypeError, cnormal(20), size=8),
)

suite("istft", _istft, **_OF_FRAMES)(
    call(cnormal(2, 6, 5), size=8),
    call(cnormal(2, 6, 5), _HANN, size=8),
    call(cnormal(2, 6, 5), _HANN, size=8, length=7, note="cut off"),
    call(cnormal(2, 3, 5), _HANN, size=8, length=30, note="longer"),
    call(cnormal(2, 5, 3), uniform(0.5, 1.5, 3), size=5, step=2, note="a short window"),
    call(cnormal(4, 3), uniform(0.5, 1.5, 4), size=4, step=6, center=False, note="gaps"),
    call(cnormal(3, 1), size=1, step=1, note="single elements"),
    call(cnormal(2, 1, 5), size=8, note="one frame"),
    call(cnormal(0, 3, 5), _HANN, size=8, note="no signals"),
    call(normal(4, 5), size=8, step=3, center=False, note="real"),
    wrong(errors.ShapeError, cnormal(5), size=8),
    wrong(errors.ShapeError, cnormal(3, 4), size=8),
    wrong(errors.ShapeError, cnormal(0, 5), size=8),
    wrong(errors.ShapeError, cnormal(3, 5), normal(9), size=8),
    wrong(errors.InputValueError, cnormal(3, 5), size=8, length=-1),
    wrong(errors.InputTypeError, cnormal(3, 5), size=8, length=2.5),
    wrong(errors.DTypeError, cnormal(3, 5), cnormal(8), size=8),
)
