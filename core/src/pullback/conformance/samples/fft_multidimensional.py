"""Samples of the Fourier transforms over several axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback import errors
from pullback.conformance.sample import Array, Sample, cnormal, integers, normal, suite


def _reference(name: str) -> Any:
    transform = getattr(np.fft, name)

    def reference(x: Array, *, s: Any = None, axes: Any = None, norm: str = "backward") -> Any:
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
    ((normal(3, 4),), {"axes": (2,)}, errors.AxisError),
    ((normal(3, 4),), {"axes": (0, -2)}, errors.AxisError),
    ((normal(3, 4),), {"s": (2,), "axes": (0, 1)}, errors.InputValueError),
    ((normal(3, 4),), {"norm": "unitary"}, errors.InputValueError),
]


def _over(x: Array) -> list[Sample]:
    return [*(Sample((x,), attributes) for attributes in _ATTRIBUTES), Sample((normal(3, 4),))]


for _name in ("fftn", "ifftn"):
    suite(
        _name,
        _reference(_name),
        [*_over(cnormal(3, 2, 4)), Sample((normal(3),), {"axes": ()}, note="no axes")],
        errors_=_WRONG,
    )
suite(
    "rfftn",
    _reference("rfftn"),
    _over(normal(3, 2, 4)),
    errors_=[*_WRONG, ((cnormal(3, 4),), {}, errors.DTypeError)],
)
suite("irfftn", _reference("irfftn"), _over(cnormal(3, 2, 4)), errors_=_WRONG)

_SHIFTS = [
    Sample((normal(5),)),
    Sample((normal(4, 3),)),
    Sample((normal(4, 3),), {"axes": 0}),
    Sample((normal(2, 3, 5),), {"axes": (2, 1)}),
    Sample((cnormal(4),)),
    Sample((integers(-5, 5, 6),)),
    Sample((normal(0),)),
]
_AXIS = [((normal(3),), {"axes": 1}, errors.AxisError)]
suite("fftshift", lambda x, *, axes=None: np.fft.fftshift(x, axes), _SHIFTS, errors_=_AXIS)
suite("ifftshift", lambda x, *, axes=None: np.fft.ifftshift(x, axes), _SHIFTS, errors_=_AXIS)
