"""Kernels of programs that keep the strips of their weights (c/kept.c).

A product copies its second matrix to strips as wide as a tile. Where that is a weight, and products
have few rows, the copy takes a large part of the time: it is kept, as long as the weight is the
same array. So it takes the memory of the weight once more. Products of the fewest rows make no
copy, and are as fast (c/few.inc.h).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from pullback.plugins.kind import Kind
from pullback.plugins.records import Keep, Kernel
from pullback_native import _native
from pullback_native.kernels import convolution
from pullback_native.loops import FLOAT32

#: With fewer rows, a product by the weight where it is takes 0.75 to 1 of the time.
_LEAST_ROWS = 5
#: With more rows, the share of the copy is small: 5 % at 256.
_MOST_ROWS = 512
#: Of fewer columns, the transpose is computed (c/product.inc.h).
_LEAST_COLUMNS = 16


def _is_worth(rows: int, weight: Kind) -> bool:
    return _LEAST_ROWS <= rows <= _MOST_ROWS and weight.shape[-1] >= _LEAST_COLUMNS


def _keep_product(by_strips: Kernel) -> Keep:
    """Returns the function for products, of matrices or stacks of them by one matrix."""

    def keep(
        kernel: Kernel,
        kinds: Sequence[Kind | None],
        attributes: Mapping[str, Any],
        owners: Mapping[int, Any],
    ) -> Kernel | None:
        x, weight = kinds[:2]
        assert x is not None
        assert weight is not None
        if 1 not in owners or len(weight.shape) != 2 or len(x.shape) < 2:
            return None
        fits = x.dtype == weight.dtype == FLOAT32 and _is_worth(prod(x.shape[:-1]), weight)
        return _native.kept(kernel, by_strips, owners[1]) if fits else None

    return keep


def _keep_conv(
    kernel: Kernel, kinds: Sequence[Kind], attributes: Mapping[str, Any], owners: Mapping[int, Any]
) -> Kernel | None:
    by_strips = convolution.by_strips(kinds, attributes) if 1 in owners else None
    if by_strips is None:
        return None
    run, pixels = by_strips
    return _native.kept(kernel, run, owners[1]) if _is_worth(pixels, kinds[1]) else None


#: By the name of an op, what makes kernels that keep strips.
KEEPS: dict[str, Keep] = {
    "matmul": _keep_product(_native.matmul_by_strips),
    "linear": _keep_product(_native.linear_by_strips),
    "conv": _keep_conv,
}
