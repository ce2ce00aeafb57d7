"""The operators of tensors and variables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pullback._operators import INFIX, OPERATORS, Deferred

if TYPE_CHECKING:
    from pullback.tensor import Tensor, TensorLike


class OperatorMethods:
    """Operators, each the op of its name.

    Values with their own way with operators, and values of unknown types, are left to Python, which
    asks the other operand (`_dispatch.infix`).
    """

    __slots__ = ()

    def __neg__(self) -> Tensor:
        return OPERATORS.negative(self)

    def __pos__(self) -> Tensor:
        return OPERATORS.positive(self)

    def __abs__(self) -> Tensor:
        return OPERATORS.abs(self)

    def __invert__(self) -> Tensor:
        return OPERATORS.bitwise_invert(self)

    def __add__(self, other: TensorLike) -> Tensor:
        try:
            return INFIX.add(self, other)
        except Deferred:
            return NotImplemented

    def __radd__(self, other: TensorLike) -> Tensor:
        try:
            return INFIX.add(other, self)
        except Deferred:
            return NotImplemented

    def __sub__(self, other: TensorLike) -> Tensor:
        try:
            return INFIX.subtract(self, other)
        except Deferred:
            return NotImplemented

    def __rsub__(self, other: TensorLike) -> Tensor:
        try:
            return INFIX.subtract(other, self)
        except Deferred:
            return NotImplemented

    def __mul__(self, other: TensorLike) -> Tensor:
        try:
            return INFIX.multiply(self, other)
        except Deferred:
            return NotImplemented

    def __rmul__(self, other: TensorLike) -> Tensor:
        try:
            return INFIX.multiply(other, self)
        except Deferred:
            return NotImplemented

    def __truediv__(self, other: TensorLike) -> Tensor:
        try:
            return INFIX.divide(self, other)
        except Deferred:
            return NotImplemented

    def __rtruediv__(self, other: TensorLike) -> Tensor:
        try:
            return INFIX.divide(other, self)
        except Deferred:
            return NotImplemented

    def __floordiv__(self, other: TensorLike) -> Tensor:
        try:
            return INFIX.floor_divide(self, other)
        except Deferred:
            return NotImplemented

    def __rfloordiv__(self, other: TensorLike) -> Tensor:
        try:
            return INFIX.floor_divide(other, self)
        except Deferred:
            return NotImplemented

    def __mod__(self, other: TensorLike) -> Tensor:
        try:
            return INFIX.remainder(self, other)
        except Deferred:
            return NotImplemented

    def __rmod__(self, other: TensorLike) -> Tensor:
        try:
            return INFIX.remainder(other, self)
        except Deferred:
            return NotImplemented

    def __divmod__(self, other: TensorLike) -> tuple[Tensor, Tensor]:
        return self // other, self % other

    def __rdivmod__(self, other: TensorLike) -> tuple[Tensor, Tensor]:
        return other // self, other % self

    def __pow__(self, other: TensorLike) -> Tensor:
        try:
            return INFIX.pow(self, other)
        except Deferred:
            return NotImplemented

    def __rpow__(self, other: TensorLike) -> Tensor:
        try:
            return INFIX.pow(other, self)
        except Deferred:
            return NotImplemented

    def __matmul__(self, other: TensorLike) -> Tensor:
        try:
            return INFIX.matmul(self, other)
        except Deferred:
            return NotImplemented

    def __rmatmul__(self, other: TensorLike) -> Tensor:
        try:
            return INFIX.matmul(other, self)
        except Deferred:
            return NotImplemented

    def __and__(self, other: TensorLike) -> Tensor:
        try:
            return INFIX.bitwise_and(self, other)
        except Deferred:
            return NotImplemented

    def __rand__(self, other: TensorLike) -> Tensor:
        try:
            return INFIX.bitwise_and(other, self)
        except Deferred:
            return NotImplemented

    def __or__(self, other: TensorLike) -> Tensor:
        try:
            return INFIX.bitwise_or(self, other)
        except Deferred:
            return NotImplemented

    def __ror__(self, other: TensorLike) -> Tensor:
        try:
            return INFIX.bitwise_or(other, self)
        except Deferred:
            return NotImplemented

    def __xor__(self, other: TensorLike) -> Tensor:
        try:
            return INFIX.bitwise_xor(self, other)
        except Deferred:
            return NotImplemented

    def __rxor__(self, other: TensorLike) -> Tensor:
        try:
            return INFIX.bitwise_xor(other, self)
        except Deferred:
            return NotImplemented

    def __lshift__(self, other: TensorLike) -> Tensor:
        try:
            return INFIX.bitwise_left_shift(self, other)
        except Deferred:
            return NotImplemented

    def __rlshift__(self, other: TensorLike) -> Tensor:
        try:
            return INFIX.bitwise_left_shift(other, self)
        except Deferred:
            return NotImplemented

    def __rshift__(self, other: TensorLike) -> Tensor:
        try:
            return INFIX.bitwise_right_shift(self, other)
        except Deferred:
            return NotImplemented

    def __rrshift__(self, other: TensorLike) -> Tensor:
        try:
            return INFIX.bitwise_right_shift(other, self)
        except Deferred:
            return NotImplemented

    def __eq__(self, other: object) -> Any:
        try:
            return INFIX.equal(self, other)
        except Deferred:
            return NotImplemented

    def __ne__(self, other: object) -> Any:
        try:
            return INFIX.not_equal(self, other)
        except Deferred:
            return NotImplemented

    def __lt__(self, other: TensorLike) -> Tensor:
        try:
            return INFIX.less(self, other)
        except Deferred:
            return NotImplemented

    def __le__(self, other: TensorLike) -> Tensor:
        try:
            return INFIX.less_equal(self, other)
        except Deferred:
            return NotImplemented

    def __gt__(self, other: TensorLike) -> Tensor:
        try:
            return INFIX.greater(self, other)
        except Deferred:
            return NotImplemented

    def __ge__(self, other: TensorLike) -> Tensor:
        try:
            return INFIX.greater_equal(self, other)
        except Deferred:
            return NotImplemented

    # Elementwise == leaves the hash to identity: a tensor is a key as an object, not as a value.
    __hash__ = object.__hash__
