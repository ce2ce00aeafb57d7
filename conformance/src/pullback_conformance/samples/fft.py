"""Samples of the Fourier transforms along one axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback import errors
from pullback_conformance.draws import cnormal, integers, normal
from pullback_conformance.sample import Array, Sample, call, suite, wrong


def _reference(name: str) -> Any:
    transform = getattr(np.fft, name)

    def reference(x: Array, *, n: Any = None, axis: int = -1, norm: str = "backward") -> Any:
        if name in ("irfft", "hfft") and not x.shape[axis]:
            # NumPy's read memory that nobody has written.
            shape = list(x.shape)
            shape[axis] = 1
            x = np.zeros(shape, x.dtype)
        return transform(x, n, axis, norm)

    return reference


_ATTRIBUTES: tuple[dict[str, Any], ...] = (
    {},
    {"norm": "ortho"},
    {"norm": "forward", "axis": 0},
    {"n": 4},
    {"n": 7},
    {"n": 9, "axis": -2, "norm": "ortho"},
    {"n": 3, "axis": 0},
    {"n": 16},
    {"n": 23, "norm": "forward"},
    {"n": 1},
)
_WRONG: list[Any] = [
    wrong(errors.AxisError, normal(3, 4), axis=2),
    wrong(errors.InputValueError, normal(3, 4), n=0),
    wrong(errors.InputValueError, normal(3, 4), norm="unitary"),
]


def _over(x: Array, *more: Sample) -> list[Sample]:
    return [*(call(x, **attributes) for attributes in _ATTRIBUTES), *more]


_COMPLEX = _over(
    cnormal(5, 6),
    call(cnormal(1)),
    call(cnormal(0, 4), note="no lines"),
    call(normal(3, 5), note="real"),
    call(integers(-5, 5, 6), note="integers"),
    call(normal(300), note="long"),
)
_REAL = _over(
    normal(5, 6),
    call(normal(1)),
    call(normal(3, 5)),
    call(normal(0, 4), note="no lines"),
    call(integers(-5, 5, 6), note="integers"),
)
for _name in ("fft", "ifft"):
    suite(_name, _reference(_name))(*_COMPLEX, *_WRONG)
for _name in ("rfft", "ihfft"):
    suite(_name, _reference(_name))(*_REAL, *_WRONG, wrong(errors.DTypeError, cnormal(3)))
for _name in ("irfft", "hfft"):
    suite(_name, _reference(_name))(
        *_COMPLEX[: len(_ATTRIBUTES)] + _COMPLEX[len(_ATTRIBUTES) + 1 :], *_WRONG
    )
