"""Slopes where no difference can measure them: at corners, poles, ends and infinities."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

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


def samples(op: Op, suite: Suite, *, quick: bool) -> Iterator[Sample]:
    """The points of an op, as one call."""
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
