"""NumPy's `fft`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pullback._numpy.table import Function, routed
from pullback.ops.fourier import fft, fft_multidimensional
from pullback.shapes import Axes
from pullback.tensor import TensorLike


def _transform(op: Function) -> Function:
    def transform(
        a: TensorLike, n: int | None = None, axis: int = -1, norm: str | None = None
    ) -> Any:
        return op(a, n=n, axis=axis, norm=norm or "backward")

    return transform


def _multidimensional(op: Function, default: Axes) -> Function:
    def transform(
        a: TensorLike, s: Sequence[int] | None = None, axes: Axes = default, norm: str | None = None
    ) -> Any:
        return op(a, s=s, axes=axes, norm=norm or "backward")

    return transform


for _name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"):
    routed(f"fft.{_name}")(_transform(getattr(fft, _name)))
for _name in ("fft", "ifft", "rfft", "irfft"):
    _op = getattr(fft_multidimensional, f"{_name}n")
    routed(f"fft.{_name}n")(_multidimensional(_op, None))
    routed(f"fft.{_name}2")(_multidimensional(_op, (-2, -1)))


@routed("fft.fftshift")
def _(x: TensorLike, axes: Axes = None) -> Any:
    return fft_multidimensional.fftshift(x, axes=axes)


@routed("fft.ifftshift")
def _(x: TensorLike, axes: Axes = None) -> Any:
    return fft_multidimensional.ifftshift(x, axes=axes)
