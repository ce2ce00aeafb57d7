"""Samples of the Fourier transforms over several axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback import errors
from pullback_conformance.draws import cnormal, integers, normal
from pullback_conformance.sample import Array, Sample, call, suite, wrong


def _reference(name: str) -> Any:
    transform = getattr(np.fft, name)

    def reference(x: Array, *, s: Any = None, axes: object = None, norm: str = "backward") -> Any:
        if axes is None and s is not None:
            axes = tuple(range(-len(s), 0))
        return transform(x, s, axes, norm)

    return reference


_ATTRIBUTES: tuple[dict[str, Any], ...] = (
    {},
    {"norm": "ortho"},
    {"axes": (0,), "norm": "forward"},
    {"axes": (2, 0)},
    {"s": (3, 6)},
    {"s": (5, 2), "axes": (1, 0)},
)
_WRONG: list[Any] = [
    wrong(errors.AxisError, normal(3, 4), axes=(2,)),
    wrong(errors.AxisError, normal(3, 4), axes=(0, -2)),
    wrong(errors.InputValueError, normal(3, 4), s=(2,), axes=(0, 1)),
    wrong(errors.InputValueError, normal(3, 4), norm="unitary"),
]


def _over(x: Array) -> list[Sample]:
    return [*(call(x, **attributes) for attributes in _ATTRIBUTES), call(normal(3, 4))]


for _name in ("fftn", "ifftn"):
    suite(_name, _reference(_name))(
        *_over(cnormal(3, 2, 4)), call(normal(3), axes=(), note="no axes"), *_WRONG
    )
suite("rfftn", _reference("rfftn"))(
    *_over(normal(3, 2, 4)), *_WRONG, wrong(errors.DTypeError, cnormal(3, 4))
)
suite("irfftn", _reference("irfftn"))(*_over(cnormal(3, 2, 4)), *_WRONG)

_SHIFTS = [
    call(normal(5)),
    call(normal(4, 3)),
    call(normal(4, 3), axes=0),
    call(normal(2, 3, 5), axes=(2, 1)),
    call(cnormal(4)),
    call(integers(-5, 5, 6)),
    call(normal(0)),
]
_AXIS = [wrong(errors.AxisError, normal(3), axes=1)]
suite("fftshift", lambda x, *, axes=None: np.fft.fftshift(x, axes))(*_SHIFTS, *_AXIS)
suite("ifftshift", lambda x, *, axes=None: np.fft.ifftshift(x, axes))(*_SHIFTS, *_AXIS)
