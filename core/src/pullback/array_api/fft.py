"""Kernels of Fourier transforms: the extension's own functions."""

from __future__ import annotations

from typing import Any

from pullback._numerics import ArrayNamespace
from pullback.plugins.records import Kernel, Native

_ONE_AXIS = ("fft", "hfft", "ifft", "ihfft", "irfft", "rfft")
_SEVERAL_AXES = ("fftn", "ifftn", "irfftn", "rfftn")
#: The normalization of the inverse of a transform.
_INVERSE = {"backward": "forward", "forward": "backward", "ortho": "ortho"}


def kernels(xp: ArrayNamespace) -> dict[str, Kernel]:
    """Kernels over `xp`, if it has the extension."""
    if not hasattr(xp, "fft"):
        return {}

    def filled(x: Any, axis: int) -> Any:
        """A zero along an empty axis: `irfft` of NumPy reads memory that nobody has written."""
        if x.shape[axis]:
            return x
        shape = list(x.shape)
        shape[axis] = 1
        return xp.zeros(tuple(shape), dtype=x.dtype)

    def one(name: str) -> Kernel:
        transform = getattr(xp.fft, name)

        def kernel(x: Any, *, n: int, axis: int, norm: str) -> Any:
            return transform(filled(x, axis), n=n, axis=axis, norm=norm)

        return kernel

    def several(name: str) -> Kernel:
        transform = getattr(xp.fft, name)

        def kernel(x: Native, *, s: object, axes: tuple[int, ...], norm: str) -> Any:
            return transform(filled(x, axes[-1]), s=s, axes=axes, norm=norm) if axes else x

        return kernel

    def hfft(x: Any, *, n: int, axis: int, norm: str) -> Any:
        return xp.fft.irfft(xp.conj(filled(x, axis)), n=n, axis=axis, norm=_INVERSE[norm])

    def ihfft(x: Any, *, n: int, axis: int, norm: str) -> Any:
        return xp.conj(xp.fft.rfft(x, n=n, axis=axis, norm=_INVERSE[norm]))

    table = {name: one(name) for name in _ONE_AXIS if hasattr(xp.fft, name)}
    table |= {name: several(name) for name in _SEVERAL_AXES if hasattr(xp.fft, name)}
    if "irfft" in table:
        table.setdefault("hfft", hfft)
    if "rfft" in table:
        table.setdefault("ihfft", ihfft)
    return table
