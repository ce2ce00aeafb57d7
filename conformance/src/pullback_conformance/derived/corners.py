"""Slopes where no difference can measure them: at corners, poles, ends and infinities."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import Any

import numpy as np

from pullback.spec import Op
from pullback_conformance.sample import Sample, Suite

#: For each op the points, an input after the other, and the slope by each input there.
SLOPES: dict[str, tuple[tuple[tuple[float, ...], tuple[float, ...]], ...]] = {
    # Corners: the mean of both sides, or 0.
    "abs": (((0,), (0,)), ((-inf,), (-1,))),
    "relu": (((0,), (0,)), ((inf,), (1,)), ((-inf,), (0,))),
    "sign": (((0,), (0,)),),
    "floor": (((1,), (0,)),),
    "ceil": (((1,), (0,)),),
    "round": (((0.5,), (0,)),),
    "maximum": (((1, 1), (0.5, 0.5)), ((inf, 1), (1, 0)), ((-inf, -inf), (0.5, 0.5))),
    "minimum": (((1, 1), (0.5, 0.5)), ((-inf, 1), (1, 0)), ((inf, inf), (0.5, 0.5))),
    # Infinitely steep.
    "sqrt": (((0,), (inf,)), ((inf,), (0,))),
    "rsqrt": (((0,), (-inf,)), ((inf,), (0,))),
    "log": (((0,), (inf,)), ((inf,), (0,))),
    "log1p": (((-1,), (inf,)), ((inf,), (0,))),
    "log2": (((0,), (inf,)), ((inf,), (0,))),
    "log10": (((0,), (inf,)), ((inf,), (0,))),
    "asin": (((1,), (inf,)), ((-1,), (inf,))),
    "acos": (((1,), (-inf,)), ((-1,), (-inf,))),
    "acosh": (((1,), (inf,)),),
    "atanh": (((1,), (inf,)), ((-1,), (inf,))),
    "erfinv": (((1,), (inf,)), ((-1,), (inf,))),
    "reciprocal": (((0,), (-inf,)), ((inf,), (0,))),
    # Far out.
    "exp": (((-inf,), (0,)), ((inf,), (inf,))),
    "expm1": (((-inf,), (0,)), ((inf,), (inf,))),
    "tanh": (((inf,), (0,)), ((-inf,), (0,))),
    "atan": (((inf,), (0,)), ((-inf,), (0,))),
    "asinh": (((inf,), (0,)), ((-inf,), (0,))),
    "erf": (((inf,), (0,)), ((-inf,), (0,))),
    "erfc": (((inf,), (0,)), ((-inf,), (0,))),
    "sigmoid": (((inf,), (0,)), ((-inf,), (0,))),
    "softplus": (((inf,), (1,)), ((-inf,), (0,))),
    "log_sigmoid": (((inf,), (0,)), ((-inf,), (1,))),
    "softsign": (((inf,), (0,)), ((-inf,), (0,))),
    "elu": (((inf,), (1,)), ((-inf,), (0,))),
    "selu": (((-inf,), (0,)),),
    "celu": (((inf,), (1,)), ((-inf,), (0,))),
    "gelu": (((inf,), (1,)), ((-inf,), (0,))),
    "silu": (((inf,), (1,)), ((-inf,), (0,))),
    "mish": (((inf,), (1,)), ((-inf,), (0,))),
    "hard_silu": (((inf,), (1,)), ((-inf,), (0,))),
    "hypot": (((0, 0), (0, 0)), ((inf, 1), (1, 0))),
    "atan2": (((0, 0), (0, 0)),),
    "logaddexp": (((-inf, -inf), (0, 0)), ((inf, 1), (1, 0)), ((1, -inf), (1, 0))),
    "logaddexp2": (((-inf, -inf), (0, 0)), ((inf, 1), (1, 0)), ((1, -inf), (1, 0))),
    # Powers.
    "xlogy": (((0, 0), (0, 0)),),
    "pow": (((0, 0), (0, 0)), ((0, 1), (1, 0)), ((0, 2), (0, 0))),
}
#: For ops of a whole array: the array, the attributes, and the slopes of the sum of the results.
#: Equal elements share a slope, and beside an infinite element finite ones have none.
OF_ARRAYS: dict[str, tuple[tuple[tuple[float, ...], dict[str, Any], tuple[float, ...]], ...]] = {
    "max": (((3, 1, 3, 3, 3), {}, (0.25, 0, 0.25, 0.25, 0.25)), ((inf, 1, inf), {}, (0.5, 0, 0.5))),
    "min": (((0, 1, 0, 0, 0), {}, (0.25, 0, 0.25, 0.25, 0.25)), ((2, -inf), {}, (0, 1))),
    "logsumexp": (
        ((inf, 1, -inf), {}, (1, 0, 0)),
        ((-inf, -inf), {}, (0, 0)),
        ((-inf, 1), {}, (0, 1)),
    ),
    "softmax": (((-inf, 1), {}, (0, 0)),),
    "log_softmax": (((-inf, 1), {}, (1, -1)),),
    "vector_norm": (
        ((0, 0), {}, (0, 0)),
        ((0, 0), {"ord": 1}, (0, 0)),
        ((0, 2), {"ord": 3}, (0, 1)),
        ((3, -3, 1, 3, 3), {"ord": inf}, (0.25, -0.25, 0, 0.25, 0.25)),
        ((-1, 3, 1), {"ord": -inf}, (-0.5, 0, 0.5)),
        ((1, -inf), {"ord": 2}, (0, -1)),
    ),
    "prod": (((0, 3, 2), {}, (6, 0, 0)), ((0, 3, 0), {}, (0, 0, 0))),
    "std": (((2, 2), {}, (0, 0)),),
    "cumulative_prod": (((0, 3, 2), {}, (10, 0, 0)),),
}


def samples(op: Op, suite: Suite, *, quick: bool) -> Iterator[Sample]:
    """The points of an op, as one call; of arrays a call of each."""
    for line, attributes, slope in OF_ARRAYS.get(op.name, ()):
        yield Sample(
            (np.array(line, np.float64),),
            attributes,
            gradient=False,
            note=f"slopes at {line}",
            checks=("slopes",),
            slopes=(np.array(slope, np.float64),),
        )
    if op.name in SLOPES:
        points, slopes = zip(*SLOPES[op.name], strict=True)
        inputs = tuple(np.array(points, np.float64).T)
        expected = tuple(np.array(slopes, np.float64).T)
        yield Sample(
            inputs,
            gradient=False,
            note="corners, poles and infinities",
            checks=("slopes",),
            slopes=expected,
        )
