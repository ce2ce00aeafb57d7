"""The ops that tensors and dispatch call: declared here, set by the op specification."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pullback.tensor import Tensor, TensorLike


class Operators:
    """The public functions, each set under its name as the op specification defines it.

    Tensors and dispatch lie below the ops and cannot import them; what they call is declared here.
    """

    abs: Callable[..., Tensor]
    any: Callable[..., Tensor]
    all: Callable[..., Tensor]
    argmax: Callable[..., Tensor]
    argmin: Callable[..., Tensor]
    clip: Callable[..., Tensor]
    conj: Callable[..., Tensor]
    prod: Callable[..., Tensor]
    squeeze: Callable[..., Tensor]
    std: Callable[..., Tensor]
    var: Callable[..., Tensor]
    asarray: Callable[..., Tensor]
    astype: Callable[..., Tensor]
    #: The op of `astype`, for a dtype that the device has and values that can be converted.
    convert: Callable[[Tensor, Any], Tensor]
    bitwise_invert: Callable[..., Tensor]
    full: Callable[..., Tensor]
    imag: Callable[..., Tensor]
    matrix_transpose: Callable[..., Tensor]
    max: Callable[..., Tensor]
    mean: Callable[..., Tensor]
    min: Callable[..., Tensor]
    negative: Callable[..., Tensor]
    permute_dims: Callable[..., Tensor]
    positive: Callable[..., Tensor]
    real: Callable[..., Tensor]
    reshape: Callable[..., Tensor]
    stack: Callable[..., Tensor]
    sum: Callable[..., Tensor]
    to_device: Callable[..., Tensor]
    einsum: Callable[..., Tensor]
    one_hot: Callable[..., Tensor]
    #: Ends the trace that runs in this thread, because values are read: set by `_dispatch`.
    reject_reading: Callable[[], None]
    #: The tensor of that trace for one from outside, which is read at each run: set likewise.
    lifted: Callable[[Tensor], Tensor]
    get_item: Callable[[Tensor, Any], Tensor]
    set_item: Callable[[Tensor, Any, TensorLike], Tensor]
    array_namespace: Callable[[str | None], Any]
    #: `np.dot(x, y)`, the same by its name, and `np.add(x, y)`: set by `_numpy`.
    numpy_function: Callable[[Any, Any, Any, Any], Any]
    numpy: Callable[..., Tensor]
    numpy_ufunc: Callable[[Any, str, Any, Any], Any]


OPERATORS = Operators()


class Infix:
    """The functions of the binary operators, set under the names of their ops.

    Beside those of `Operators` they know which values are not for them (`_dispatch.infix`).
    """

    add: Callable[..., Tensor]
    bitwise_and: Callable[..., Tensor]
    bitwise_left_shift: Callable[..., Tensor]
    bitwise_or: Callable[..., Tensor]
    bitwise_right_shift: Callable[..., Tensor]
    bitwise_xor: Callable[..., Tensor]
    divide: Callable[..., Tensor]
    equal: Callable[..., Tensor]
    floor_divide: Callable[..., Tensor]
    greater: Callable[..., Tensor]
    greater_equal: Callable[..., Tensor]
    less: Callable[..., Tensor]
    less_equal: Callable[..., Tensor]
    matmul: Callable[..., Tensor]
    multiply: Callable[..., Tensor]
    not_equal: Callable[..., Tensor]
    pow: Callable[..., Tensor]
    remainder: Callable[..., Tensor]
    subtract: Callable[..., Tensor]


#: The method that Python asks next, of the value on the right.
REFLECTED = {
    "add": "__radd__",
    "bitwise_and": "__rand__",
    "bitwise_left_shift": "__rlshift__",
    "bitwise_or": "__ror__",
    "bitwise_right_shift": "__rrshift__",
    "bitwise_xor": "__rxor__",
    "divide": "__rtruediv__",
    "equal": "__eq__",
    "floor_divide": "__rfloordiv__",
    "greater": "__lt__",
    "greater_equal": "__le__",
    "less": "__gt__",
    "less_equal": "__ge__",
    "matmul": "__rmatmul__",
    "multiply": "__rmul__",
    "not_equal": "__ne__",
    "pow": "__rpow__",
    "remainder": "__rmod__",
    "subtract": "__rsub__",
}


class Deferred(Exception):
    """An operand that an operator leaves to the operand's own method."""


INFIX = Infix()
