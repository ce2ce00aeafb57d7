"""Samples of the ops that make tensors and change their dtype."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback import dtypes, errors
from pullback.casting import cast
from pullback.conformance.sample import Sample, booleans, cnormal, integers, normal, suite


def _full(shape: Any, fill_value: Any, dtype: Any = None) -> Any:
    if dtype is None:
        dtype = dtypes.promote([type(fill_value)])
    return np.full(shape, fill_value, dtypes.as_dtype(dtype))


suite(
    "full",
    _full,
    (
        Sample((), {"shape": (2, 3), "fill_value": 1.5}),
        Sample((), {"shape": 3, "fill_value": 7}),
        Sample((), {"shape": (), "fill_value": True}),
        Sample((), {"shape": (0, 2), "fill_value": 0}),
        Sample((), {"shape": (2,), "fill_value": 1 - 2j}),
        Sample((), {"shape": (2,), "fill_value": -3, "dtype": "bfloat16"}),
        Sample((), {"shape": (2,), "fill_value": 255, "dtype": "uint8"}),
        Sample((), {"shape": (2,), "fill_value": 0, "dtype": "bool"}),
        Sample((), {"shape": (2,), "fill_value": float("nan")}),
        # Equal as keys of what a library keeps, and not the same.
        Sample((), {"shape": (2,), "fill_value": 0.0}),
        Sample((), {"shape": (2,), "fill_value": -0.0}),
        Sample((), {"shape": (2,), "fill_value": 0.0}, note="the first zero again"),
        Sample((), {"shape": (2,), "fill_value": 2**53 + 1, "dtype": "int64"}),
        Sample((), {"shape": (2,), "fill_value": 2**64 - 1, "dtype": "uint64"}),
        Sample((), {"shape": (2,), "fill_value": float("-inf"), "dtype": "float16"}),
    ),
    errors_=(
        ((), {"shape": (-1,), "fill_value": 0}, errors.ShapeError),
        ((), {"shape": (2,), "fill_value": 256, "dtype": "uint8"}, errors.ConversionError),
        ((), {"shape": (2,), "fill_value": 1j, "dtype": "float32"}, errors.DTypeError),
        ((), {"shape": (2,), "fill_value": 1, "dtype": "quaternion"}, errors.DTypeError),
    ),
)


def _arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = None) -> Any:
    if stop is None:
        start, stop = 0, start
    if dtype is None:
        dtype = dtypes.promote([type(start), type(stop), type(step)])
    length = max(0, int(np.ceil((stop - start) / step)))
    return cast(start + np.arange(length) * step, dtypes.as_dtype(dtype))


suite(
    "arange",
    _arange,
    (
        Sample((), {"start": 5}),
        Sample((), {"start": 0}),
        Sample((), {"start": -3, "stop": 4}),
        Sample((), {"start": 10, "stop": -5, "step": -4}),
        Sample((), {"start": 3, "stop": 3}),
        Sample((), {"start": 5, "stop": 3}),
        Sample((), {"start": 5, "dtype": "float64"}),
        Sample((), {"start": 200, "dtype": "bfloat16"}, note="bfloat16, rounded once"),
        Sample((), {"start": 5, "dtype": "uint8"}),
        Sample((), {"start": 2**53 + 1, "stop": 2**53 + 4, "dtype": "int64"}),
        Sample((), {"start": 2131, "dtype": "float32"}),
        Sample((), {"start": 0, "stop": 200, "step": 0.1}, note="2,000 elements, rounded once"),
        Sample((), {"start": 0.0, "stop": 1.0, "step": 0.1}, note="ten elements, not eleven"),
        Sample((), {"start": 1.0, "stop": 0.0, "step": -0.25}),
        Sample((), {"start": 0, "stop": 100.0, "step": 0.7, "dtype": "float64"}),
        Sample((), {"start": 1, "stop": 2, "step": 0.25, "dtype": "float16"}),
    ),
    errors_=(
        ((), {"start": 1, "stop": 2, "step": 0}, errors.InputValueError),
        ((), {"start": 1, "stop": float("inf")}, errors.InputValueError),
        ((), {"start": 2, "dtype": "bool"}, errors.DTypeError),
    ),
)


def _astype(x: Any, dtype: Any) -> Any:
    return cast(x, dtypes.as_dtype(dtype))


_VALUES = np.array([0.0, -0.5, 1.5, -2.5, 3.75, 100.25])

suite(
    "astype",
    _astype,
    (
        *(
            # Differences of what is rounded to a narrower dtype say nothing of the gradient.
            Sample((_VALUES,), {"dtype": name}, gradient=name in ("float64", "complex128"))
            for name in ("float16", "bfloat16", "float32", "float64", "complex64", "complex128")
        ),
        Sample((_VALUES,), {"dtype": "int32"}, gradient=False, note="towards zero"),
        Sample((_VALUES,), {"dtype": "bool"}, gradient=False),
        Sample((integers(-9, 9, 2, 3),), {"dtype": "float32"}),
        Sample((integers(-9, 9, 2, 3),), {"dtype": "int8"}),
        Sample((integers(0, 9, 2, 3),), {"dtype": "uint64"}),
        Sample((booleans(5),), {"dtype": "float64"}),
        Sample((cnormal(2, 3),), {"dtype": "complex128"}),
        Sample((normal(),), {"dtype": "float64"}, note="0-d"),
        Sample((normal(0, 3),), {"dtype": "float64"}, note="empty"),
        Sample(
            (np.array([np.inf, -np.inf, np.nan, 1e-40, -0.0]),),
            {"dtype": "float32"},
            gradient=False,
            note="infinities, NaN, subnormal numbers",
        ),
    ),
    errors_=(((normal(2),), {"dtype": "quaternion"}, errors.DTypeError),),
)

suite(
    "to_device",
    lambda x: x,
    (Sample((normal(2, 3),)), Sample((integers(0, 9, 3),)), Sample((cnormal(2),))),
)
