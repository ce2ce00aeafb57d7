"""Dense, Embedding, and layers without variables: activation, dropout, changes of shape."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from pullback import dtypes, errors
from pullback.layers.initializers import InitializerLike
from pullback.layers.layer import Layer
from pullback.random import Generator, default_generator
from pullback.shapes import size_of
from pullback.tensor import CALL, Tensor
from pullback.variable import Variable

__all__ = ["Activation", "Dense", "Dropout", "Embedding", "Flatten", "Reshape"]

ActivationLike: TypeAlias = "str | Callable[[Tensor], Any] | None"
Regularizer: TypeAlias = "Callable[[Variable], Tensor] | None"


def activation_of(value: ActivationLike) -> Callable[[Tensor], Any] | None:
    """The function that is meant by a name ("relu") or a function; None stands for none.

    Raises:
        InputValueError: for a name that no op has.
    """
    if value is None or value == "linear":
        return None
    if isinstance(value, str):
        if value not in CALL or value.startswith("_"):
            raise errors.InputValueError(
                f"{value!r} is no activation; give the name of an op, such as 'relu', 'tanh' or "
                f"'softmax', or a function"
            )
        return CALL[value]
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
        self.units = int(units)
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
        y = CALL["matmul"](x, self.kernel)
        if self.use_bias:
            y = y + self.bias
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
        )
        self.built = True

    def call(self, ids: Any) -> Any:
        """The rows, shape (*ids.shape, output_dim)."""
        if dtypes.kind(ids.dtype) != dtypes.INT:
            raise errors.LayerError(f"needs integers, the numbers of rows, got {ids.dtype}")
        return CALL["take"](self.embeddings, ids, axis=0)


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


class Dropout(Layer):
    """Values set to 0 at random while training, the others scaled up (Srivastava et al., 2014).

    Args:
        rate: the probability of 0.
        generator: what it draws from; the default generator if there is neither it nor a seed.
        seed: makes a generator of its own.
        rest: as of `Layer`.

    Raises:
        InputValueError: for a rate outside [0, 1).
    """

    def __init__(
        self,
        rate: float,
        *,
        generator: Generator | None = None,
        seed: int | None = None,
        **rest: Any,
    ) -> None:
        super().__init__(**rest)
        if not 0 <= rate < 1:
            raise errors.InputValueError(f"a dropout rate is in [0, 1), got {rate}")
        self.rate = rate
        self.generator = Generator(seed) if generator is None and seed is not None else generator

    def call(self, x: Any, training: bool = False) -> Any:
        """X, with zeros while training."""
        if not training or not self.rate:
            return x
        return (self.generator or default_generator).dropout(x, self.rate)


class Flatten(Layer):
    """All axes but the first as one.

    >>> pb.layers.Flatten()(pb.zeros((2, 3, 4))).shape
    (2, 12)
    """

    def call(self, x: Any) -> Any:
        """X, shape (batch, size)."""
        if not x.ndim:
            raise errors.LayerError("needs inputs with a batch axis, got shape ()")
        return CALL["reshape"](x, (x.shape[0], size_of(x.shape[1:])))


class Reshape(Layer):
    """Another shape for each item of a batch; one size may be -1.

    >>> pb.layers.Reshape((2, -1))(pb.zeros((5, 6))).shape
    (5, 2, 3)
    """

    def __init__(self, target_shape: Sequence[int], **rest: Any) -> None:
        super().__init__(**rest)
        self.target_shape = tuple(int(size) for size in target_shape)

    def call(self, x: Any) -> Any:
        """X, shape (batch, *target_shape)."""
        if not x.ndim:
            raise errors.LayerError("needs inputs with a batch axis, got shape ()")
        target = list(self.target_shape)
        if -1 in target:
            known = -size_of(target)
            target[target.index(-1)] = size_of(x.shape[1:]) // known if known > 0 else 0
        if size_of(target) != size_of(x.shape[1:]) or min(target, default=0) < 0:
            raise errors.LayerError(
                f"items of shape {x.shape[1:]} do not fill the shape {self.target_shape}"
            )
        return CALL["reshape"](x, (x.shape[0], *target))
