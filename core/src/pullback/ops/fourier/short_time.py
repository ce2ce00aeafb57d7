"""Short-time Fourier transforms: those of the overlapping frames of a signal.

A frame has `size` elements, and the next one begins `step` elements later. A window of fewer
elements is in the middle of the frame, with zeros around it.
"""

from __future__ import annotations

from pullback import dtypes, errors
from pullback._dispatch import op
from pullback.dtypes import Operands, Resolution
from pullback.ops.calculus import where
from pullback.ops.creation import full
from pullback.ops.fourier.fft import check_size, fit, irfft, rfft, to_complex
from pullback.ops.joining import concat
from pullback.ops.manipulation import broadcast_to, reshape
from pullback.ops.padding import pad
from pullback.shapes import Shape, as_int
from pullback.spec import BACKWARD_STABLE, Tier
from pullback.tensor import Tensor

__all__ = ["istft", "stft"]


def _of_frames(
    shapes: tuple[Shape | None, ...], *, size: object, step: object, center: object, **rest: object
) -> dict[str, object]:
    size = check_size(size)
    step = as_int(-(-size // 4) if step is None else step, "an integer step between frames")
    if step < 1:
        raise errors.InputValueError(f"the step between frames must be 1 or more, got {step}")
    signal, window = shapes
    if not signal:
        raise errors.ShapeError("a signal has an axis of time, got a 0-d tensor")
    if window is not None and (len(window) != 1 or window[0] > size):
        raise errors.ShapeError(
            f"a window has one axis and at most the {size} elements of a frame, got shape {window}"
        )
    return {"size": size, "step": step, "center": bool(center), **rest}


def _to_signal(
    shapes: tuple[Shape | None, ...], *, length: object, **frames: object
) -> dict[str, object]:
    if length is not None:
        length = as_int(length, "an integer length of the signal")
        if length < 0:
            raise errors.InputValueError(f"the length of a signal must be 0 or more, got {length}")
    return _of_frames(shapes, length=length, **frames)


def _spectra(x: Shape, window: Shape | None, *, size: int, step: int, center: bool) -> Shape:
    """The frames that fit, and half of the transform of each."""
    least = size // 2 + 1 if center else size
    if x[-1] < least:
        raise errors.ShapeError(
            f"frames of {size} elements need a signal of {least} or more, got shape {x}"
        )
    time = x[-1] + 2 * (size // 2) if center else x[-1]
    return (*x[:-1], 1 + (time - size) // step, size // 2 + 1)


def _signal(
    x: Shape, window: Shape | None, *, size: int, step: int, center: bool, length: int | None
) -> Shape:
    """The reach of the frames, or the requested length."""
    if len(x) < 2 or not x[-2] or x[-1] != size // 2 + 1:
        raise errors.ShapeError(
            f"the transforms of frames of {size} elements are (..., frames, {size // 2 + 1}), got "
            f"shape {x}"
        )
    reach = (x[-2] - 1) * step + size - (2 * (size // 2) if center else 0)
    return (*x[:-2], reach if length is None else length)


def _to_spectra(operands: Operands, **_: object) -> Resolution:
    """A real signal and window; the result is complex."""
    wide = dtypes.complex_of(dtypes.real_floating(operands).outputs[0])
    real = dtypes.real_of(wide)
    return Resolution((real, None if operands[1] is None else real), (wide,))


def _from_spectra(operands: Operands, **_: object) -> Resolution:
    """Complex numbers and a real window; the result is real."""
    wide = to_complex(operands).outputs[0]
    real = dtypes.real_of(wide)
    window = operands[1]
    if window is not None:
        dtypes.real_floating((window,))
    return Resolution((wide, None if window is None else real), (real,))


@op(
    shape=_spectra,
    dtype=_to_spectra,
    accuracy=BACKWARD_STABLE,
    tier=Tier.FFT,
    normalize=_of_frames,
)
def stft(
    x: Tensor,
    window: Tensor | None = None,
    *,
    size: int,
    step: int | None = None,
    center: bool = True,
) -> Tensor:
    """The short-time Fourier transform: `pb.fft.rfft` of each frame of a signal, windowed.

    Allen and Rabiner, "A unified approach to short-time Fourier analysis and synthesis" (1977).

    Args:
        x: real signals (..., time).
        window: what the frames are multiplied by, at most `size` elements, such as
            `pb.numpy.hanning(size + 1)[:-1]`; ones if not given.
        size: the number of elements of a frame.
        step: from one frame to the next; a quarter of the size if not given.
        center: whether frames are centered at multiples of the step: the signal is then continued
            by its reflection at both ends. Else the first one begins with the signal.

    Returns:
        A complex tensor (..., frames, size // 2 + 1).

    Raises:
        InputValueError: for a size or a step below 1.
        ShapeError: for a signal too short for a frame, and a window that is longer.

    >>> pb.stft([1.0, 1.0, 1.0, 1.0, 1.0], size=2, step=2, center=False).real.tolist()
    [[2.0, 0.0], [2.0, 0.0]]
    """
    step = _step(step)
    _spectra(x.shape, None, size=size, step=step, center=center)
    if center:
        half = size // 2
        x = pad(x, (*[(0, 0)] * (x.ndim - 1), (half, half)), mode="reflect")
    frames = _cut(x, size, step)
    return rfft(frames if window is None else frames * _within(window, size))


@op(
    shape=_signal,
    dtype=_from_spectra,
    accuracy=BACKWARD_STABLE,
    tier=Tier.FFT,
    normalize=_to_signal,
)
def istft(
    x: Tensor,
    window: Tensor | None = None,
    *,
    size: int,
    step: int | None = None,
    center: bool = True,
    length: int | None = None,
) -> Tensor:
    """The signal whose `stft` is nearest to x: the inverse, wherever there is a window.

    Griffin and Lim, "Signal estimation from modified short-time Fourier transform" (1984): the sum
    of the windowed frames over the sum of the squares of their windows. It is 0 where these are.

    Args:
        x: transforms of frames (..., frames, size // 2 + 1), as `stft` gives them.
        window: as for `stft`.
        size: as for `stft`.
        step: as for `stft`.
        center: as for `stft`.
        length: the length of the signal, which the frames do not tell: the rest is cut off, or 0.
            As far as the frames reach if not given.

    Returns:
        Real signals (..., time).

    Raises:
        InputValueError: for a size or a step below 1, and a negative length.
        ShapeError: for an x of another form, and a window longer than a frame.

    >>> x = pb.asarray([1.0, 2.0, 3.0, 4.0, 5.0])
    >>> pb.istft(pb.stft(x, size=4), size=4).tolist()
    [1.0, 2.0, 3.0, 4.0, 5.0]
    """
    step = _step(step)
    _signal(x.shape, None, size=size, step=step, center=center, length=length)
    frames = irfft(x, n=size)
    count = frames.shape[-2]
    if window is None:
        window = full((size,), 1, dtype=frames.dtype, device=frames.device)
    one = _within(window, size)
    squares = _joined(broadcast_to(one * one, (count, size)), step)
    covered = squares > 0
    y = _joined(frames * one, step) / where(covered, squares, 1)
    y = where(covered, y, 0)
    half = size // 2 if center else 0
    y = y[..., half : y.shape[-1] - half]
    return y if length is None else fit(y, length, y.ndim - 1)


def _step(step: int | None) -> int:
    """The step, which `_of_frames` has found."""
    assert step is not None
    return step


def _within(window: Tensor, size: int) -> Tensor:
    """The window in the middle of a frame."""
    missing = size - window.shape[0]
    return pad(window, ((missing // 2, missing - missing // 2),)) if missing else window


def _cut(x: Tensor, size: int, step: int) -> Tensor:
    """The frames of signals (..., time), each a join of pieces of one step: no index is read."""
    count = 1 + (x.shape[-1] - size) // step
    pieces = -(-size // step)
    blocks = count + pieces - 1
    x = reshape(fit(x, blocks * step, x.ndim - 1), (*x.shape[:-1], blocks, step))
    frames = concat([x[..., i : i + count, :] for i in range(pieces)], axis=-1)
    return frames[..., :size]


def _joined(frames: Tensor, step: int) -> Tensor:
    """The sum of frames (..., frames, size) in a signal: the transpose of `_cut`."""
    *front, count, size = frames.shape
    pieces = -(-size // step)
    frames = fit(frames, pieces * step, frames.ndim - 1)
    none = [(0, 0)] * len(front)
    total = None
    for i in range(pieces):
        part = frames[..., i * step : (i + 1) * step]
        part = pad(part, (*none, (i, pieces - 1 - i), (0, 0)))
        total = part if total is None else total + part
    assert total is not None
    signal = reshape(total, (*front, (count + pieces - 1) * step))
    return signal[..., : (count - 1) * step + size]
