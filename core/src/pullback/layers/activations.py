"""Activation functions as layers, and the names that `activation=` takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, Unpack

from pullback import _hints, errors
from pullback.layers.layer import Layer
from pullback.layers.masks import keep_mask
from pullback.layers.options import LayerOptions
from pullback.ops.nn.activations import leaky_relu, relu
from pullback.ops.nn.softmax import softmax
from pullback.shapes import check_number
from pullback.spec import OPS
from pullback.tensor import Tensor

__all__ = ["Activation", "ActivationLike", "LeakyReLU", "ReLU", "Softmax", "activation_of"]

ActivationFunction: TypeAlias = Callable[[Tensor], Tensor]
ActivationLike: TypeAlias = "str | ActivationFunction | None"

#: Usual names of ops that have another one here.
USUAL = {
    "swish": "silu",
    "hardswish": "hard_silu",
    "hard_swish": "hard_silu",
    "hardsigmoid": "hard_sigmoid",
    "hardtanh": "hard_tanh",
    "logsigmoid": "log_sigmoid",
    "exponential": "exp",
}


def activation_of(value: ActivationLike) -> ActivationFunction | None:
    """Returns the function for the name of an op ("relu") or a function; None for "linear".

    Raises:
        InputValueError: for an unknown name.
        InputTypeError: for a value that is neither a name nor a function.
    """
    if value is None or (isinstance(value, str) and value == "linear"):
        return None
    if isinstance(value, str):
        name = USUAL.get(value, value)
        if name not in OPS or name.startswith("_"):
            close = _hints.close_names(value, [*USUAL, *(op for op in OPS if OPS[op].public)])
            fix = (
                f"did you mean {' or '.join(map(repr, close))}?"
                if close
                else "use the name of an op, such as 'relu', 'tanh' or 'softmax', or a function"
            )
            raise errors.InputValueError(f"unknown activation {value!r}; {fix}")
        function: ActivationFunction = OPS[name].function
        return function
    if not callable(value):
        raise errors.InputTypeError(
            f"activation must be the name of an op or a function, got {value!r}; leave out the "
            f"size of the inputs: a layer takes it from the first one"
        )
    return value


class Activation(Layer):
    """An activation function as a layer.

    Args:
        activation: the name of an op, or a function.
        options: see `Layer`.

    >>> pb.layers.Activation("relu")([-1.0, 1.0]).tolist()
    [0.0, 1.0]
    """

    call_masked = keep_mask

    def __init__(self, activation: ActivationLike, **options: Unpack[LayerOptions]) -> None:
        super().__init__(**options)
        self.activation = activation_of(activation)

    def call(self, x: Tensor) -> Tensor:
        """Returns activation(x)."""
        return x if self.activation is None else self.activation(x)


class ReLU(Layer):
    """The op `relu` as a layer.

    >>> pb.layers.ReLU()([-1.0, 1.0]).tolist()
    [0.0, 1.0]
    """

    call_masked = keep_mask

    def call(self, x: Tensor) -> Tensor:
        """Returns relu(x)."""
        return relu(x)


class LeakyReLU(Layer):
    """The op `leaky_relu` as a layer.

    Args:
        negative_slope: the factor of negative values; 0.01 in PyTorch, 0.3 in Keras.
        options: see `Layer`.

    >>> pb.layers.LeakyReLU(0.5)([-2.0, 2.0]).tolist()
    [-1.0, 2.0]
    """

    call_masked = keep_mask

    def __init__(self, negative_slope: float = 0.01, **options: Unpack[LayerOptions]) -> None:
        super().__init__(**options)
        check_number(negative_slope, "negative_slope")
        self.negative_slope = float(negative_slope)

    def call(self, x: Tensor) -> Tensor:
        """Returns leaky_relu(x)."""
        return leaky_relu(x, negative_slope=self.negative_slope)


class Softmax(Layer):
    """The op `softmax` as a layer. Losses take logits: use it behind the trained model.

    Args:
        axis: the axis of the classes.
        options: see `Layer`.

    >>> pb.layers.Softmax()([0.0, 0.0]).tolist()
    [0.5, 0.5]
    """

    call_masked = keep_mask

    def __init__(self, axis: int = -1, **options: Unpack[LayerOptions]) -> None:
        super().__init__(**options)
        self.axis = axis

    def call(self, x: Any) -> Tensor:
        """Returns softmax(x)."""
        return softmax(x, axis=self.axis)
