"""Dense, Embedding, Rescaling, and functions as layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Unpack

from pullback import dtypes, errors
from pullback.layers.activations import ActivationLike, activation_of
from pullback.layers.initializers import InitializerLike
from pullback.layers.layer import Layer
from pullback.layers.options import UNBUILT, LayerOptions
from pullback.layers.regularizers import RegularizerLike
from pullback.ops.indexing import take
from pullback.ops.linalg.linear_algebra import linear
from pullback.shapes import Shape, as_count, check_number
from pullback.tensor import Tensor
from pullback.variable import Variable

__all__ = ["Dense", "Embedding", "Lambda", "Rescaling"]


class Dense(Layer):
    """activation(x @ kernel + bias) over the last axis; the product is `pb.linear`.

    Args:
        units: the size of the last axis of the result.
        activation: the name of an op, or a function.
        use_bias: whether there is a bias.
        kernel_initializer: the initializer of the kernel (inputs, units).
        bias_initializer: the initializer of the bias (units,).
        kernel_regularizer: a function of the kernel, whose value is added to the `losses`.
        options: see `Layer`; with `input_shape` the variables are made at once.

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
        kernel_regularizer: RegularizerLike = None,
        **options: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**options)
        self.units = as_count(units, "units")
        self.activation = activation_of(activation)
        self.use_bias = use_bias
        self.kernel_initializer = kernel_initializer
        self.bias_initializer = bias_initializer
        self.kernel_regularizer = kernel_regularizer
        self.kernel: Variable = UNBUILT
        self.bias: Variable | None = None
        self._build_if_sized()

    def build(self, input_shape: Shape) -> None:
        """Makes the kernel and the bias."""
        if not input_shape:
            raise errors.LayerError("inputs must have at least one axis, got shape ()")
        self.kernel = self.add_variable(
            "kernel",
            (input_shape[-1], self.units),
            initializer=self.kernel_initializer,
            regularizer=self.kernel_regularizer,
        )
        if self.use_bias:
            self.bias = self.add_variable("bias", (self.units,), initializer=self.bias_initializer)

    def call(self, x: Tensor) -> Tensor:
        """Returns activation(x @ kernel + bias), shape (..., units)."""
        size = self.kernel.shape[0]
        if not x.ndim or x.shape[-1] != size:
            raise errors.LayerError(
                f"built for inputs with {size} values along the last axis, got shape {x.shape}"
            )
        y = linear(x, self.kernel, self.bias)
        return y if self.activation is None else self.activation(y)


class Embedding(Layer):
    """Rows of a table, selected by integers: word vectors and the like.

    Args:
        input_dim: the number of rows of the table.
        output_dim: the size of a row.
        embeddings_initializer: the initializer of the table (input_dim, output_dim).
        options: see `Layer`.

    >>> pb.layers.Embedding(100, 8)([[3, 1, 4]]).shape
    (1, 3, 8)

    Raises:
        IndexingError: for an integer outside the table.
    """

    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        *,
        embeddings_initializer: InitializerLike = "uniform",
        **options: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**options)
        self.embeddings = self.add_variable(
            "embeddings",
            (as_count(input_dim, "input_dim"), as_count(output_dim, "output_dim")),
            initializer=embeddings_initializer,
            autocast=False,
        )
        self.built = True

    def call(self, ids: Tensor) -> Tensor:
        """Returns the rows, shape (*ids.shape, output_dim)."""
        if dtypes.kind(ids.dtype) != dtypes.INT:
            raise errors.LayerError(f"inputs must be integers, row indices, got {ids.dtype}")
        rows = take(self.embeddings, ids, axis=0)
        # Mixed precision casts the selected rows only, not the whole table.
        return rows if self.compute_dtype == self.dtype else rows.astype(self.compute_dtype)


class Lambda(Layer):
    """Any function as a layer. Configurations can hold a named function, not a lambda.

    Args:
        function: the function, which is called with the inputs.
        options: see `Layer`.

    >>> pb.layers.Lambda(lambda x: x * 2.0)([1.0, 2.0]).tolist()
    [2.0, 4.0]
    """

    def __init__(self, function: Callable[..., Any], **options: Unpack[LayerOptions]) -> None:
        super().__init__(**options)
        self.function = function

    def call(self, *args: Any) -> Any:
        """Returns function(*args)."""
        return self.function(*args)


class Rescaling(Layer):
    """x * scale + offset, in the dtype of the layer: 1 / 255 brings images to [0, 1].

    Args:
        scale: the factor.
        offset: what is added.
        options: see `Layer`.

    >>> pb.layers.Rescaling(1 / 255)(pb.asarray([0, 255], dtype=pb.uint8)).tolist()
    [0.0, 1.0]
    """

    def __init__(self, scale: float, offset: float = 0.0, **options: Unpack[LayerOptions]) -> None:
        super().__init__(**options)
        check_number(scale, "scale")
        check_number(offset, "offset")
        self.scale = float(scale)
        self.offset = float(offset)

    def call(self, x: Tensor) -> Tensor:
        """Returns x * scale + offset."""
        return x.astype(self.compute_dtype) * self.scale + self.offset
