"""Complex values as real ones: both parts along a last axis, each a parameter of its own."""

from __future__ import annotations

from pullback import dtypes
from pullback.ops.complex import complex as complex_of
from pullback.ops.complex import imag, real
from pullback.ops.joining import stack
from pullback.tensor import Tensor
from pullback.variable import Variable

__all__ = ["as_parts", "from_parts", "real_parts"]


def as_parts(value: Tensor | Variable) -> Tensor:
    """Returns the real and imaginary parts of a complex value along a last axis."""
    return stack([real(value), imag(value)], axis=-1)


def from_parts(parts: Tensor) -> Tensor:
    """Returns the complex value whose parts are along the last axis."""
    return complex_of(parts[..., 0], parts[..., 1])


def real_parts(values: list[Tensor]) -> list[Tensor]:
    """Returns real values as they are, and the parts of complex ones."""
    return [as_parts(value) if dtypes.is_complex(value.dtype) else value for value in values]
