"""NumPy's `fft`."""

from __future__ import annotations

from typing import Any

from pullback._numpy.table import Function, routed
from pullback.ops.fourier import fft, fft_multidimensional
from pullback.tensor import TensorLike


def _transform(op: Function) -> Function:
    def transform(a: TensorLike, n: Any = None, axis: int = -1, norm: Any = None) -> Any:
        return op(a, n=n, axis=axis, norm=norm or "backward")

    return transform


def _multidimensional(op: Function, default: Any) -> Function:
    def transform(a: TensorLike, s: Any = None, axes: Any = default, norm: Any = None) -> Any:
        return op(a, s=s, axes=axes, norm=norm or "backward")

    return transform


for _name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"):
    routed(f"fft.{_name}")(_transform(getattr(fft, _name)))
for _name in ("fft", "ifft", "rfft", "irfft"):
    _op = getattr(fft_multidimensional, f"{_name}n")
    routed(f"fft.{_name}n")(_multidimensional(_op, None))
    routed(f"fft.{_name}2")(_multidimensional(_op, (-2, -1)))


@routed("fft.fftshift")
def _(x: TensorLike, axes: Any = None) -> Any:
    return fft_multidimensional.fftshift(x, axes=axes)


@routed("fft.ifftshift")
def _(x: TensorLike, axes: Any = None) -> Any:
    return fft_multidimensional.ifftshift(x, axes=axes)
