"""One step of each optimizer: a parameter and its slots in, their new values out.

They are ops so that a backend may make each of them one pass over memory. None of them is
differentiable, and none writes into what it is given. `learning_rate` and the like are numbers or
0-d tensors. 16-bit parameters are updated in float32 and rounded once; slots keep their own dtype,
which may be float32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pullback import dtypes, errors
from pullback.dispatch import op
from pullback.dtypes import Operands, Resolution
from pullback.ops.arithmetic import abs, maximum, minimum
from pullback.ops.exponential import sqrt
from pullback.ops.precision import narrowed, widened
from pullback.ops.reductions import sum
from pullback.ops.rounding import sign_of
from pullback.ops.selection import where
from pullback.shapes import Shape
from pullback.spec import ACCUMULATED
from pullback.tensor import Tensor, TensorLike
