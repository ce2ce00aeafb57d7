"""`tf.layers`, and what `tf.keras.layers` shares with it: layers of pullback, renamed."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import pullback as pb
from pullback import errors, layers
from pullback.dtypes import DTypeLike
from pullback.layers.activations import activation_of
from pullback.random import default_generator
from pullback.tensor import Tensor, TensorLike
from pullback.variable import Variable
from pullback_tensorflow import initializers
from pullback_tensorflow.basics import TensorShape
from pullback_tensorflow.naming import translate


class Layer(layers.Layer):
    """The base of layers, with TensorFlow's order of arguments.

    `build` gets a `TensorShape`, whose sizes have a `value`.

    >>> import pullback.compat.tensorflow as tf
    >>> class Scale(tf.keras.layers.Layer):
    ...     def build(self, input_shape):
    ...         self.factor = self.add_weight("factor", [input_shape[-1].value], initializer="ones")
    ...     def call(self, x):
    ...         return x * self.factor
    >>> Scale()(tf.ones([1, 2])).tolist()
    [[1.0, 1.0]]
    """

    def __init__(
        self,
        trainable: bool = True,
        name: str | None = None,
        dtype: DTypeLike | None = None,
        **rest: Any,
    ) -> None:
        super().__init__(trainable=trainable, name=name, dtype=dtype, **with_sizes(rest))

    def build_for(self, shape: Any) -> None:
        """Builds for inputs of a shape, as the first call does."""
        plain = isinstance(shape, tuple) and all(isinstance(size, int) for size in shape)
        super().build_for(TensorShape(shape) if plain else shape)

    def add_variable(
        self,
        name: str,
        shape: Any = (),
        dtype: DTypeLike | None = None,
        initializer: Any = "glorot_uniform",
        regularizer: Any = None,
        trainable: bool = True,
        **_: Any,
    ) -> Variable:
        """Makes a variable of this layer, found under `name`."""
        return super().add_variable(
            name,
            tuple(shape),
            dtype=dtype,
            initializer=initializers.get(initializer or "glorot_uniform"),
            regularizer=regularizer,
            trainable=trainable,
        )

    add_weight = add_variable

    @property
    def weights(self) -> list[Variable]:
        """Its variables."""
        return self.variables

    @property
    def trainable_weights(self) -> list[Variable]:
        """The variables that are trained."""
        return self.trainable_variables


# How arguments are translated -------------------------------------------------------------------

_RENAMED = {"dilation_rate": "dilation", "go_backwards": "reverse"}
# How something is computed, not what.
_LEFT = frozenset({"implementation", "unroll", "fused", "input_length"})
# What would change results if it were dropped.
_MISSING = (
    "activity_regularizer", "bias_constraint", "bias_regularizer", "beta_constraint",
    "beta_regularizer", "embeddings_constraint", "embeddings_regularizer", "gamma_constraint",
    "gamma_regularizer", "kernel_constraint", "recurrent_constraint", "recurrent_dropout",
    "recurrent_regularizer", "renorm", "virtual_batch_size",
)  # fmt: skip


def with_sizes(given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a layer with what they say of its input as `input_shape`.

    Where a size is not known (None), all is left to the first input.
    """
    kept = dict(given)
    shape, batch, size = (
        kept.pop(name, None) for name in ("input_shape", "batch_input_shape", "input_dim")
    )
    if shape is None and batch is not None:
        shape = tuple(batch)[1:]
    if shape is None and size is not None:
        shape = (size,)
    if shape is not None and None not in tuple(shape):
        kept["input_shape"] = tuple(int(size) for size in shape)
    return kept


def layer(
    target: Callable[..., Any],
    order: str,
    renamed: Mapping[str, str] | None = None,
    name: str | None = None,
    **defaults: Any,
) -> Callable[..., Any]:
    """A function that makes one of pullback's layers from TensorFlow's arguments.

    Args:
        target: what makes the layer.
        order: TensorFlow's names of the arguments by position.
        renamed: pullback's names of those that have another.
        name: TensorFlow's name of the layer.
        defaults: what TensorFlow takes if nothing is said, where pullback takes something else.
    """
    what = name or target.__name__

    def made(*args: Any, **kwargs: Any) -> Any:
        given = translate(what, args, kwargs, order.split(), {**_RENAMED, **(renamed or {})}, _LEFT)
        for missing in _MISSING:
            if given.pop(missing, None):
                raise errors.InputTypeError(f"{what}: there is no {missing} here; leave it out")
        for argument, value in given.items():
            if argument.endswith("_initializer"):
                given[argument] = initializers.get(value or "zeros")
        return target(**with_sizes({**defaults, **given}))

    made.__name__ = made.__qualname__ = what
    made.__doc__ = target.__doc__
    return made


def recurrent(target: Callable[..., Any]) -> Callable[..., Any]:
    """A function that makes a recurrent layer; its activations may be said, and are what they are.

    Raises:
        InputTypeError: for another activation, and for dropout inside.
    """

    def made(**given: Any) -> Any:
        for argument, right in (("activation", "tanh"), ("recurrent_activation", "sigmoid")):
            value = given.pop(argument, right)
            if getattr(activation_of(value), "__name__", None) != right:
                raise errors.InputTypeError(
                    f"{target.__name__}: its {argument} is {right}; leave it out"
                )
        if "unit_forget_bias" in given:
            given["forget_bias"] = float(given.pop("unit_forget_bias"))
        if given.pop("dropout", 0):
            raise errors.InputTypeError(
                f"{target.__name__}: put a Dropout layer before it in place of dropout="
            )
        return target(**given)

    made.__name__ = target.__name__
    made.__doc__ = target.__doc__
    return layer(made, RECURRENT)


def embedding(input_dim: int, output_dim: int, **given: Any) -> Any:
    """The rows of a table, by number.

    Raises:
        InputTypeError: for a mask, which layers get as an argument.
    """
    if given.pop("mask_zero", False):
        raise errors.InputTypeError("Embedding: pass mask=ids != 0 to the layers behind it")
    for name in ("batch_input_shape", "input_shape", "input_length"):
        given.pop(name, None)
    if "embeddings_initializer" in given:
        given["embeddings_initializer"] = initializers.get(given["embeddings_initializer"])
    return layers.Embedding(int(input_dim), int(output_dim), **given)


# The layers that both namespaces have -------------------------------------------------------------

_CONV = (
    "filters kernel_size strides padding data_format dilation_rate activation use_bias "
    "kernel_initializer bias_initializer kernel_regularizer"
)
_SEPARABLE = (
    "filters kernel_size strides padding data_format dilation_rate depth_multiplier activation "
    "use_bias"
)
_TRANSPOSE = "filters kernel_size strides padding data_format activation use_bias"
_POOL = "pool_size strides padding data_format"
_DENSE = "units activation use_bias kernel_initializer bias_initializer kernel_regularizer"
_NORM = "axis momentum epsilon center scale"
RECURRENT = (
    "units activation recurrent_activation use_bias kernel_initializer recurrent_initializer "
    "bias_initializer"
)

Dense = layer(layers.Dense, _DENSE)
Conv1D, Conv2D, Conv3D = (
    layer(one, _CONV) for one in (layers.Conv1D, layers.Conv2D, layers.Conv3D)
)
SeparableConv1D = layer(layers.SeparableConv1D, _SEPARABLE)
SeparableConv2D = layer(layers.SeparableConv2D, _SEPARABLE)
Conv2DTranspose = layer(layers.Conv2DTranspose, _TRANSPOSE)
Conv3DTranspose = layer(layers.Conv3DTranspose, _TRANSPOSE)
MaxPooling1D, MaxPooling2D, MaxPooling3D = (
    layer(one, _POOL) for one in (layers.MaxPool1D, layers.MaxPool2D, layers.MaxPool3D)
)
AveragePooling1D, AveragePooling2D, AveragePooling3D = (
    layer(one, _POOL) for one in (layers.AveragePool1D, layers.AveragePool2D, layers.AveragePool3D)
)
BatchNormalization = layer(layers.BatchNormalization, _NORM, momentum=0.99)
Dropout = layer(layers.Dropout, "rate noise_shape seed", rate=0.5)


@functools.partial(layer, order="data_format", name="Flatten")
def Flatten(data_format: str = "channels_last", **rest: Any) -> Any:
    """All axes but the first as one."""
    return layers.Flatten(**rest)


# What is computed without variables --------------------------------------------------------------


def flatten(inputs: TensorLike, name: str | None = None, **_: Any) -> Tensor:
    """All axes but the first as one."""
    x = pb.asarray(inputs)
    return pb.reshape(x, (x.shape[0], -1))


def dropout(
    inputs: TensorLike, rate: float = 0.5, training: bool = False, name: str | None = None, **_: Any
) -> Tensor:
    """Sets a fraction of the elements to 0 while training, and scales up the others."""
    return default_generator.dropout(inputs, rate) if training else pb.asarray(inputs)


def _pooling(pooling: Callable[..., Any]) -> Callable[..., Tensor]:
    def pooled(inputs: TensorLike, *args: Any, **kwargs: Any) -> Tensor:
        pooled: Tensor = pooling(*args, **kwargs)(inputs)
        return pooled

    pooled.__doc__ = pooling.__doc__
    return pooled


max_pooling2d, average_pooling2d = _pooling(MaxPooling2D), _pooling(AveragePooling2D)
