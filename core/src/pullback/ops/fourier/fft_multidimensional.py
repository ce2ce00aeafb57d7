"""Fourier transforms over several axes, and frequencies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from types import NoneType
from typing import Any

from pullback import dtypes, errors
from pullback._dispatch import op
from pullback._once import remembered
from pullback.devices import DeviceLike
from pullback.dtypes import DTypeLike, same
from pullback.ops.creation import arange
from pullback.ops.fourier.fft import (
    check_norm,
    check_size,
    complex_to_real,
    fft,
    ifft,
    irfft,
    real_to_complex,
    rfft,
    to_complex,
)
from pullback.ops.joining import concat
from pullback.ops.repeating import roll
from pullback.shapes import Axes, Shape, canonical_axis, check_number, first
from pullback.spec import BACKWARD_STABLE, EXACT, Tier
from pullback.tensor import Tensor

__all__ = ["fftfreq", "fftn", "fftshift", "ifftn", "ifftshift", "irfftn", "rfftfreq", "rfftn"]


@remembered
def _sizes(
    shapes: tuple[Shape, ...],
    *,
    s: Sequence[int] | None,
    axes: Sequence[int] | None,
    norm: str,
    mirrored: bool = False,
) -> dict[str, object]:
    """The canonical `s` and `axes`; `mirrored` if the last axis of the input is half a spectrum."""
    (shape,) = shapes
    check_norm(norm)
    for value in (s, axes):
        if isinstance(value, (str, Mapping, Set)) or not isinstance(value, (Iterable, NoneType)):
            raise errors.InputTypeError(f"s and axes must be sequences of integers, got {value!r}")
    if axes is None:
        axes = range(len(shape)) if s is None else range(-len(s), 0)
    canonical = tuple(canonical_axis(axis, len(shape)) for axis in axes)
    if len(set(canonical)) != len(canonical):
        raise errors.AxisError(f"an axis is repeated in {tuple(axes)}")
    if s is None:
        s = [shape[axis] for axis in canonical]
        if mirrored and canonical:
            s[-1] = 2 * (s[-1] - 1)
    if len(s) != len(canonical):
        raise errors.InputValueError(
            f"got {len(s)} sizes for {len(canonical)} axes; give one per axis"
        )
    return {"s": tuple(check_size(n) for n in s), "axes": canonical, "norm": norm}


def _with_a_real_side(shapes: tuple[Shape, ...], **attributes: Any) -> dict[str, object]:
    canonical = _sizes(shapes, **attributes)
    if not canonical["axes"]:
        raise errors.InputValueError("a real transform needs at least one axis")
    return canonical


def _from_half(shapes: tuple[Shape, ...], **attributes: Any) -> dict[str, object]:
    return _with_a_real_side(shapes, mirrored=True, **attributes)


def _whole(x: Shape, *, s: Shape, axes: Shape, **_: object) -> Shape:
    """The shape with sizes s along the axes."""
    sizes = dict(zip(axes, s, strict=True))
    return tuple(sizes.get(axis, size) for axis, size in enumerate(x))


def _half(x: Shape, *, s: Shape, axes: Shape, **_: object) -> Shape:
    """The shape with sizes s along the axes, s // 2 + 1 along the last of them."""
    return _whole(x, s=(*s[:-1], s[-1] // 2 + 1), axes=axes)


def _each(transform: Callable[..., Tensor], x: Tensor, s: Any, axes: Any, norm: str) -> Tensor:
    for n, axis in zip(s, axes, strict=True):
        x = transform(x, n=n, axis=axis, norm=norm)
    return x


@op(shape=_whole, dtype=to_complex, accuracy=BACKWARD_STABLE, tier=Tier.FFT, normalize=_sizes)
def fftn(
    x: Tensor,
    /,
    *,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str = "backward",
) -> Tensor:
    """The discrete Fourier transform over several axes.

    Args:
        x: a tensor; a real x is converted to complex.
        s: the number of elements along each of the axes.
        axes: the axes to transform; by default the last len(s), or all.
        norm: "backward", "ortho" or "forward": the place of the factor 1 / n.

    Raises:
        AxisError: for axes out of range.
        InputValueError: for sizes that do not fit the axes, or an unknown norm.

    >>> pb.fft.fftn([[1.0, 0.0], [0.0, 0.0]]).real.tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    return _each(fft, x, s, axes, norm)


@op(shape=_whole, dtype=to_complex, accuracy=BACKWARD_STABLE, tier=Tier.FFT, normalize=_sizes)
def ifftn(
    x: Tensor,
    /,
    *,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str = "backward",
) -> Tensor:
    """The inverse of `fftn`, with the same arguments.

    Raises:
        AxisError: for axes out of range.
        InputValueError: for sizes that do not fit the axes, or an unknown norm.

    >>> pb.fft.ifftn([[4.0, 0.0], [0.0, 0.0]]).real.tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    return _each(ifft, x, s, axes, norm)


@op(
    shape=_half,
    dtype=real_to_complex,
    accuracy=BACKWARD_STABLE,
    tier=Tier.FFT,
    normalize=_with_a_real_side,
)
def rfftn(
    x: Tensor,
    /,
    *,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str = "backward",
) -> Tensor:
    """The transform of a real x over several axes: the first half along the last axis.

    Args:
        x: a real tensor.
        s: the number of elements along each of the axes.
        axes: the axes to transform; by default the last len(s), or all.
        norm: "backward", "ortho" or "forward": the place of the factor 1 / n.

    Raises:
        AxisError: for axes out of range.
        InputValueError: for sizes that do not fit the axes, no axes, or an unknown norm.
        DTypeError: for a complex x.

    >>> pb.fft.rfftn([[1.0, 0.0], [0.0, 0.0]]).real.tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    assert s is not None
    assert axes is not None
    x = rfft(x, n=s[-1], axis=axes[-1], norm=norm)
    return _each(fft, x, s[:-1], axes[:-1], norm)


@op(
    shape=_whole,
    dtype=complex_to_real,
    accuracy=BACKWARD_STABLE,
    tier=Tier.FFT,
    normalize=_from_half,
)
def irfftn(
    x: Tensor,
    /,
    *,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str = "backward",
) -> Tensor:
    """The inverse of `rfftn`: a real tensor.

    Args:
        x: the first half, along the last of the axes, of a transform.
        s: the number of elements of the result along each of the axes; by default those of x, and
            2 (m - 1) along the last one for m elements of x.
        axes: the axes to transform; by default the last len(s), or all.
        norm: "backward", "ortho" or "forward": the place of the factor 1 / n.

    Raises:
        AxisError: for axes out of range.
        InputValueError: for sizes that do not fit the axes, no axes, or an unknown norm.

    >>> pb.fft.irfftn([[1.0, 1.0], [1.0, 1.0]]).tolist()
    [[1.0, 0.0], [0.0, 0.0]]
    """
    assert s is not None
    assert axes is not None
    x = _each(ifft, x, s[:-1], axes[:-1], norm)
    return irfft(x, n=s[-1], axis=axes[-1], norm=norm)


# ---------------------------------------------------------------------------------------------
# Frequencies.


def fftfreq(
    n: int, /, *, d: float = 1.0, dtype: DTypeLike | None = None, device: DeviceLike | None = None
) -> Tensor:
    """The frequencies of the n elements of a transform: 0, 1, ..., -2, -1 in units of 1 / (n d).

    Args:
        n: the number of elements.
        d: the sample spacing.
        dtype: a floating dtype; float32 if not given.
        device: the device of the result; by default the active device.

    Raises:
        InputValueError: for an n below 1.

    >>> pb.fft.fftfreq(4).tolist()
    [0.0, 0.25, -0.5, -0.25]
    """
    check_number(d, "d")
    n, kind = check_size(n), dtypes.DEFAULT_FLOAT if dtype is None else dtype
    upper = arange(0, (n + 1) // 2, dtype=kind, device=device)
    lower = arange(-(n // 2), 0, dtype=kind, device=device)
    return concat([upper, lower]) / (n * d)


def rfftfreq(
    n: int, /, *, d: float = 1.0, dtype: DTypeLike | None = None, device: DeviceLike | None = None
) -> Tensor:
    """The frequencies of the n // 2 + 1 elements of an `rfft`: 0, 1, ... in units of 1 / (n d).

    Args:
        n: the number of elements of the input of the transform.
        d: the sample spacing.
        dtype: a floating dtype; float32 if not given.
        device: the device of the result; by default the active device.

    Raises:
        InputValueError: for an n below 1.

    >>> pb.fft.rfftfreq(4).tolist()
    [0.0, 0.25, 0.5]
    """
    check_number(d, "d")
    n, kind = check_size(n), dtypes.DEFAULT_FLOAT if dtype is None else dtype
    return arange(0, n // 2 + 1, dtype=kind, device=device) / (n * d)


def _shifted(x: Tensor, axes: Any, way: int) -> Tensor:
    places = tuple(range(x.ndim)) if axes is None else axes
    return roll(x, tuple(way * (x.shape[axis] // 2) for axis in places), axis=places)


@op(shape=first, dtype=same, accuracy=EXACT)
def fftshift(x: Tensor, /, *, axes: Axes = None) -> Tensor:
    """x with the element of frequency 0 shifted to the middle of each axis.

    Raises:
        AxisError: for axes out of range.

    >>> pb.fft.fftshift([0, 1, 2, -2, -1]).tolist()
    [-2, -1, 0, 1, 2]
    """
    return _shifted(x, axes, 1)


@op(shape=first, dtype=same, accuracy=EXACT)
def ifftshift(x: Tensor, /, *, axes: Axes = None) -> Tensor:
    """The inverse of `fftshift`.

    Raises:
        AxisError: for axes out of range.

    >>> pb.fft.ifftshift([-2, -1, 0, 1, 2]).tolist()
    [0, 1, 2, -2, -1]
    """
    return _shifted(x, axes, -1)
