"""Samples of common divisors and multiples."""

from __future__ import annotations

import numpy as np

from pullback import errors
from pullback_conformance.draws import integers, normal
from pullback_conformance.sample import call, rough, suite, wrong

#: Neighbors in Fibonacci's sequence, for which Euclid's algorithm takes the most steps.
_FIBONACCI = np.array([[5702887, 9227465], [1836311903, 1134903170]], np.int64)
_STEPS = rough(_FIBONACCI[:, 0], _FIBONACCI[:, 1], note="the most steps")
for _name, _reference in (("gcd", np.gcd), ("lcm", np.lcm)):
    suite(_name, _reference)(
        call(integers(-9, 9, 3, 4), integers(-9, 9, 3, 4)),
        call(integers(1, 9, 2, 1), integers(1, 9, 3), note="broadcast"),
        call(np.array(12), np.array(18), note="0-d"),
        call(np.zeros((0, 3), np.int32), np.array(4), note="empty"),
        rough(np.array([0, 0, 5, -7, 1]), np.array([0, 9, 0, 7, -1]), note="zeros and units"),
        rough(np.array([2**7, -(2**6), 96]), np.array([48, 80, -(2**5)]), note="powers"),
        *([_STEPS] if _name == "gcd" else []),
        wrong(errors.DTypeError, normal(3), normal(3)),
        wrong(errors.ShapeError, integers(1, 9, 2), integers(1, 9, 3)),
    )
