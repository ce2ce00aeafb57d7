"""Samples of the elementwise arithmetic."""

from __future__ import annotations

import numpy as np

from pullback.conformance.sample import Sample, away, integers, normal, suite

_PAIRS = (
    Sample((normal(3, 4), normal(3, 4, seed=1))),
    Sample((normal(3, 1), normal(4, seed=1)), note="broadcast"),
    Sample((normal(), normal(seed=1)), note="0-d"),
    Sample((normal(0, 3), normal(1, 3)), note="empty"),
    Sample((integers(-5, 5, 3, 2), integers(1, 5, 3, 2)), note="integers"),
)

suite("add", np.add, _PAIRS)
suite("subtract", np.subtract, _PAIRS)
suite("multiply", np.multiply, _PAIRS)
suite(
    "divide",
    np.true_divide,
    (
        Sample((normal(3, 4), away(3, 4, seed=1))),
        Sample((normal(3, 1), away(4, seed=1)), note="broadcast"),
        Sample((normal(), away(seed=1)), note="0-d"),
        Sample((integers(-5, 5, 3, 2), integers(1, 5, 3, 2)), note="integers give floats"),
        Sample(
            (np.array([1.0, -1.0, 0.0, np.inf, np.nan]), np.array([0.0, 0.0, 0.0, np.inf, 1.0])),
            gradient=False,
            note="infinities and NaN",
        ),
    ),
)
suite("negative", np.negative, (Sample((normal(3, 4),)), Sample((normal(),)), Sample((normal(0),))))
