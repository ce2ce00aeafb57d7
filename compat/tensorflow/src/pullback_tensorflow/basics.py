"""Constants, variables, devices, and what eager execution has no need of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import pullback as pb
from pullback import dtypes, errors, strings
from pullback.devices import Device, devices
from pullback.devices import device as _device
from pullback.dtypes import DType, DTypeLike
from pullback.layers import initializers
from pullback.random import default_generator
from pullback.shapes import size_of
from pullback.tensor import Tensor, TensorLike
from pullback.variable import Variable as _Variable
from pullback_tensorflow.errors import EagerError

__all__ = [
    "ConfigProto",
    "Dimension",
    "Session",
    "TensorShape",
    "Variable",
    "as_dtype",
    "assign",
    "assign_add",
    "assign_sub",
    "cast",
    "cond",
    "constant",
    "convert_to_tensor",
    "device",
    "enable_eager_execution",
    "get_variable",
    "global_variables_initializer",
    "is_gpu_available",
    "placeholder",
    "set_random_seed",
    "while_loop",
]


def enable_eager_execution(*args: Any, **kwargs: Any) -> None:
    """Does nothing: execution is eager from the first line."""


class ConfigProto:
    """The argument of `enable_eager_execution(config=...)`; it has no effect."""

    def __init__(self, **_: Any) -> None:
        pass


# For graphs, which do not exist here --------------------------------------------------------------


def placeholder(*args: Any, **kwargs: Any) -> NoReturn:
    """There are no placeholders.

    Raises:
        EagerError: always, a RuntimeError; says to pass data as arguments.
    """
    raise EagerError(
        "tf.placeholder() is not compatible with eager execution. Write a function, and pass data "
        "to it as arguments"
    )


class Session:
    """There are no sessions.

    Raises:
        InputTypeError: when one is made; says what to do instead.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise errors.InputTypeError(
            "there are no sessions: results exist at once; print them, or take x.numpy()"
        )


def global_variables_initializer(*args: Any, **kwargs: Any) -> NoReturn:
    """There is nothing to initialize.

    Raises:
        InputTypeError: says so.
    """
    raise errors.InputTypeError("variables have values from the beginning; remove this call")


def cond(pred: Any, true_fn: Callable[[], Any], false_fn: Callable[[], Any]) -> Any:
    """Returns the result of one of two functions: `true_fn() if pred else false_fn()`."""
    return true_fn() if pred else false_fn()


def while_loop(
    cond: Callable[..., Any], body: Callable[..., Any], loop_vars: Sequence[Any], **_: Any
) -> Any:
    """Calls `body` on its last results as long as `cond` of them is true."""
    values = list(loop_vars)
    while cond(*values):
        results = body(*values)
        values = list(results) if isinstance(results, (list, tuple)) else [results]
    return values if len(values) > 1 else values[0]


# Values ---------------------------------------------------------------------------------------


class Dimension(int):
    """The size of an axis: an integer with the attribute `value`."""

    @property
    def value(self) -> int:
        """The size as a plain integer."""
        return int(self)


class TensorShape(tuple[Any, ...]):
    """A shape with TensorFlow's methods; its sizes are `Dimension`s, or None.

    >>> from pullback.compat.tensorflow.basics import TensorShape
    >>> shape = TensorShape([2, None])
    >>> shape[0].value, shape.as_list(), shape.ndims
    (2, [2, None], 2)
    """

    def __new__(cls, dims: Any) -> TensorShape:
        """A shape of sizes."""
        return super().__new__(cls, [None if size is None else Dimension(size) for size in dims])

    def as_list(self) -> list[int | None]:
        """The sizes as plain integers."""
        return [None if size is None else int(size) for size in self]

    @property
    def ndims(self) -> int:
        """The number of axes."""
        return len(self)


def as_dtype(dtype: Any) -> Any:
    """A dtype; strings are `str`."""
    return str if dtype is str else dtypes.as_dtype(dtype)


def constant(
    value: Any, dtype: Any = None, shape: Any = None, name: str | None = None, **_: Any
) -> Any:
    """A tensor; with a shape, filled with a number or the elements of the value.

    >>> import pullback.compat.tensorflow as tf
    >>> tf.constant([1, 2, 3, 4], shape=[2, 2]).tolist()
    [[1, 2], [3, 4]]
    """
    tensor = convert_to_tensor(value, dtype)
    if shape is None or not isinstance(tensor, Tensor):
        return tensor
    sizes = tuple(int(size) for size in shape)
    if tensor.size == 1:
        return pb.broadcast_to(pb.reshape(tensor, ()), sizes)
    if tensor.size != size_of(sizes):
        raise errors.ShapeError(f"constant: {tensor.size} elements do not fill the shape {sizes}")
    return pb.reshape(tensor, sizes)


def convert_to_tensor(
    value: Any, dtype: Any = None, name: str | None = None, preferred_dtype: Any = None
) -> Any:
    """A tensor, of strings where the value is made of them."""
    if strings.is_text(value):
        return strings.StringTensor(value)
    if isinstance(value, (list, tuple)) and any(isinstance(one, Tensor) for one in value):
        value = pb.stack([convert_to_tensor(one) for one in value])
    tensor = pb.asarray(value)
    return tensor if dtype is None else pb.astype(tensor, as_dtype(dtype))


def cast(x: TensorLike, dtype: DTypeLike, name: str | None = None) -> Tensor:
    """A tensor of another dtype."""
    return pb.astype(pb.asarray(x), dtypes.as_dtype(dtype))


class Variable(_Variable):
    """`pb.Variable`, with TensorFlow's order of arguments. The initial value may be a function.

    >>> import pullback.compat.tensorflow as tf
    >>> v = tf.Variable(5.0, name="weight")
    >>> float(v.assign_add(1.0).read_value())
    6.0
    """

    __slots__ = ()

    def __init__(
        self,
        initial_value: Any = None,
        trainable: bool = True,
        collections: Any = None,
        validate_shape: bool = True,
        caching_device: Any = None,
        name: str | None = None,
        variable_def: Any = None,
        dtype: DTypeLike | None = None,
        **_: Any,
    ) -> None:
        value = initial_value() if callable(initial_value) else initial_value
        super().__init__(value, name=name, trainable=trainable, dtype=dtype)

    def read_value(self) -> Tensor:
        """The value now."""
        return self.value

    def initialized_value(self) -> Tensor:
        """The value now: a variable has one from the beginning."""
        return self.value


def get_variable(
    name: str,
    shape: Sequence[int] | None = None,
    dtype: DTypeLike = dtypes.float32,
    initializer: Any = None,
    trainable: bool = True,
    **_: Any,
) -> Variable:
    """A new variable of this name. The initializer is a function of the shape, or a value."""
    if shape is None:
        if initializer is None or callable(initializer):
            raise errors.InputTypeError(
                f"get_variable({name!r}) needs a shape, or an initial value"
            )
        return Variable(initializer, trainable, name=name, dtype=dtype)
    make = initializers.get(initializer or "glorot_uniform")
    kind: DType = dtypes.as_dtype(dtype)
    return Variable(make(tuple(shape), kind), trainable, name=name)


def assign(ref: _Variable, value: TensorLike, name: str | None = None, **_: Any) -> _Variable:
    """Assigns a value to a variable."""
    return ref.assign(value)


def assign_add(ref: _Variable, value: TensorLike, name: str | None = None, **_: Any) -> _Variable:
    """Adds to a variable."""
    return ref.assign_add(value)


def assign_sub(ref: _Variable, value: TensorLike, name: str | None = None, **_: Any) -> _Variable:
    """Subtracts from a variable."""
    return ref.assign_sub(value)


# Devices and randomness -----------------------------------------------------------------------


def device(device_name: str) -> Device:
    """A device by one of TensorFlow's names: "/gpu:0", "/device:GPU:0", "cpu".

    >>> import pullback.compat.tensorflow as tf
    >>> with tf.device("/cpu:0"):
    ...     print(tf.zeros([2]).device)
    cpu:0

    Raises:
        DeviceError: for a name that no device has.
    """
    parts = device_name.lower().removeprefix("/job:localhost/replica:0/task:0")
    return _device(parts.lstrip("/").removeprefix("device:"))


def is_gpu_available(*args: Any, **kwargs: Any) -> bool:
    """Returns whether a GPU can be used."""
    return bool(devices("gpu"))


def set_random_seed(seed: int) -> None:
    """Sets the default generator, which random tensors and initial values are drawn from."""
    default_generator.seed(seed)
