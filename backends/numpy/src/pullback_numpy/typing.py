"""Types of the arguments and results of kernels."""

from __future__ import annotations

from types import EllipsisType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]
DType: TypeAlias = "np.dtype[Any]"
#: Sizes of axes, strides, windows and the like.
Sizes: TypeAlias = "tuple[int, ...]"
#: Canonical axes; None for all.
Axes: TypeAlias = "tuple[int, ...] | None"
#: An index of basic indexing.
Key: TypeAlias = "tuple[int | slice | EllipsisType | None, ...]"
