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
    add: Callable[..., Tensor]
    any: Callable[..., Tensor]
    asarray: Callable[..., Tensor]
    astype: Callable[..., Tensor]
    bitwise_and: Callable[..., Tensor]
    bitwise_invert: Callable[..., Tensor]
    bitwise_left_shift: Callable[..., Tensor]
    bitwise_or: Callable[..., Tensor]
    bitwise_right_shift: Callable[..., Tensor]
    bitwise_xor: Callable[..., Tensor]
    divide: Callable[..., Tensor]
    equal: Callable[..., Tensor]
    floor_divide: Callable[..., Tensor]
    full: Callable[..., Tensor]
    greater: Callable[..., Tensor]
    greater_equal: Callable[..., Tensor]
    imag: Callable[..., Tensor]
    less: Callable[..., Tensor]
    less_equal: Callable[..., Tensor]
    matmul: Callable[..., Tensor]
    matrix_transpose: Callable[..., Tensor]
    max: Callable[..., Tensor]
    mean: Callable[..., Tensor]
    min: Callable[..., Tensor]
    multiply: Callable[..., Tensor]
    negative: Callable[..., Tensor]
    not_equal: Callable[..., Tensor]
    positive: Callable[..., Tensor]
    pow: Callable[..., Tensor]
    real: Callable[..., Tensor]
    remainder: Callable[..., Tensor]
    reshape: Callable[..., Tensor]
    stack: Callable[..., Tensor]
    subtract: Callable[..., Tensor]
    sum: Callable[..., Tensor]
    to_device: Callable[..., Tensor]
    einsum: Callable[..., Tensor]
    one_hot: Callable[..., Tensor]
    get_item: Callable[[Tensor, Any], Tensor]
    set_item: Callable[[Tensor, Any, TensorLike], Tensor]
    array_namespace: Callable[[str | None], Any]
    #: What `np.dot(x, y)` is, and `np.add(x, y)`: set by `_numpy`.
    numpy_function: Callable[[Any, Any, Any, Any], Any]
    numpy_ufunc: Callable[[Any, str, Any, Any], Any]


OPERATORS = Operators()
