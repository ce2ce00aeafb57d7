"""Types of the arguments and results of kernels."""

from __future__ import annotations

from types import EllipsisType
from typing import Any, NotRequired, TypeAlias, TypedDict

import numpy as np
from numpy.typing import NDArray

from pullback.shapes import Pads

Array: TypeAlias = NDArray[Any]
DType: TypeAlias = "np.dtype[Any]"
#: Sizes of axes, strides, windows and the like.
Sizes: TypeAlias = "tuple[int, ...]"
#: Canonical axes; None for all.
Axes: TypeAlias = "tuple[int, ...] | None"
#: An index of basic indexing.
Key: TypeAlias = "tuple[int | slice | EllipsisType | None, ...]"


class ConvOptions(TypedDict):
    """The attributes of a convolution whose channels are last."""

    strides: Sizes
    padding: Pads
    dilation: Sizes
    groups: int


class PoolOptions(TypedDict):
    """The attributes of a pooling whose channels are last."""

    window: Sizes
    strides: Sizes
    padding: Pads
    dilation: NotRequired[Sizes]


class AvgPoolOptions(PoolOptions):
    """The attributes of average pooling whose channels are last."""

    count_include_pad: bool
