"""Dense, Embedding, and functions as layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from pullback import dtypes, errors
from pullback.layers.initializers import InitializerLike
from pullback.layers.layer import Layer
from pullback.ops.indexing import take
from pullback.ops.linalg.linear_algebra import linear
from pullback.shapes import as_count
from pullback.spec import OPS
from pullback.tensor import Tensor
from pullback.variable import Variable

__all__ = ["Activation", "Dense", "Embedding", "Lambda"]

ActivationLike: TypeAlias = "str | Callable[[Tensor], Any] | None"
Regularizer: TypeAlias = "Callable[[Variable], Tensor] | None"


def activation_of(value: ActivationLike) -> Callable[[Tensor], Any] | None:
    """The function that is meant by a name ("relu") or a function; None stands for none.

    Raises:
        InputValueError: for a name that no op has.
        InputTypeError: for what is neither a name nor a function.
    """
    if value is None or value == "linear":
        return None
    if isinstance(value, str):
        if value not in OPS or value.startswith("_"):
            raise errors.InputValueError(
                f"{value!r} is no activation; give the name of an op, such as 'relu', 'tanh' or "
                f"'softmax', or a function"
            )
        function: Callable[[Tensor], Any] = OPS[value].function
        return function
    if not callable(value):
        raise errors.InputTypeError(
            f"an activation is the name of an op or a function, got {value!r}; the size of the "
            f"inputs is not given: a layer takes it from the first one"
        )
    return value


class Dense(Layer):
    """activation(x @ kernel + bias) over the last axis.

    Args:
        units: the size of the last axis of the result.
        activation: the name of an op, or a function.
        use_bias: whether there is a bias.
        kernel_initializer: of the kernel (inputs, units).
        bias_initializer: of the bias (units,).
        kernel_regularizer: a function of the kernel, whose value is among the `losses`.
        rest: as of `Layer`; with `input_shape` the variables are made at once.

    >>> pb.layers.Dense(3)(pb.zeros((1, 1, 784))).shape
    (1, 1, 3)

    Raises:
        LayerError: for inputs whose last axis has another size than the first one's.
    """

    def __init__(
        self,
        units: int,
        activation: ActivationLike = None,
        *,
        use_bias: bool = True,
        kernel_initializer: InitializerLike = "glorot_uniform",
        bias_initializer: InitializerLike = "zeros",
        kernel_regularizer: Regularizer = None,
        **rest: Any,
    ) -> None:
        super().__init__(**rest)
        self.units = as_count(units, "units")
        self.activation = activation_of(activation)
        self.use_bias = use_bias
        self.kernel_initializer = kernel_initializer
        self.bias_initializer = bias_initializer
        self.kernel_regularizer = kernel_regularizer
        self.kernel: Any = None
        self.bias: Any = None
        self._build_if_sized()

    def build(self, input_shape: Any) -> None:
        """Makes the kernel and the bias."""
        if not input_shape:
            raise errors.LayerError("needs inputs with at least one axis, got shape ()")
        self.kernel = self.add_variable(
            "kernel",
            (input_shape[-1], self.units),
            initializer=self.kernel_initializer,
            regularizer=self.kernel_regularizer,
        )
        if self.use_bias:
            self.bias = self.add_variable("bias", (self.units,), initializer=self.bias_initializer)

    def call(self, x: Any) -> Any:
        """The result, shape (..., units)."""
        size = self.kernel.shape[0]
        if not x.ndim or x.shape[-1] != size:
            raise errors.LayerError(
                f"needs {size} values along the last axis, since it has been built for that, "
                f"and got shape {x.shape}"
            )
        y = linear(x, self.kernel, self.bias)
        return y if self.activation is None else self.activation(y)


class Embedding(Layer):
    """The rows of a table, by number.

    Args:
        input_dim: how many rows the table has.
        output_dim: their size.
        embeddings_initializer: of the table (input_dim, output_dim).
        rest: as of `Layer`.

    >>> pb.layers.Embedding(100, 8)([[3, 1, 4]]).shape
    (1, 3, 8)

    Raises:
        IndexingError: for numbers outside the table.
    """

    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        *,
        embeddings_initializer: InitializerLike = "uniform",
        **rest: Any,
    ) -> None:
        super().__init__(**rest)
        self.embeddings = self.add_variable(
            "embeddings",
            (int(input_dim), int(output_dim)),
            initializer=embeddings_initializer,
            autocast=False,
        )
        self.built = True

    def call(self, ids: Any) -> Any:
        """The rows, shape (*ids.shape, output_dim)."""
        if dtypes.kind(ids.dtype) != dtypes.INT:
            raise errors.LayerError(f"needs integers, the numbers of rows, got {ids.dtype}")
        rows = take(self.embeddings, ids, axis=0)
        # In mixed precision the rows are cast, which are fewer than the table has.
        return rows if self.compute_dtype == self.dtype else rows.astype(self.compute_dtype)


class Activation(Layer):
    """A function of the input.

    >>> pb.layers.Activation("relu")([-1.0, 1.0]).tolist()
    [0.0, 1.0]
    """

    def __init__(self, activation: ActivationLike, **rest: Any) -> None:
        super().__init__(**rest)
        self.activation = activation_of(activation)

    def call(self, x: Any) -> Any:
        """activation(x)."""
        return x if self.activation is None else self.activation(x)


class Lambda(Layer):
    """Any function as a layer. A function with a name can be in a configuration, a lambda cannot.

    Args:
        function: what is called with the inputs.
        rest: as of `Layer`.

    >>> pb.layers.Lambda(lambda x: x * 2.0)([1.0, 2.0]).tolist()
    [2.0, 4.0]
    """

    def __init__(self, function: Callable[..., Any], **rest: Any) -> None:
        super().__init__(**rest)
        self.function = function

    def call(self, *args: Any) -> Any:
        """function(*args)."""
        return self.function(*args)
