"""Layers around a layer: called for each step of a sequence, or with a normalized kernel."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Unpack

from pullback import dtypes, errors
from pullback._dispatch.recording import paused
from pullback._masked import Masked
from pullback._tree import leaves, like, mapped
from pullback.layers.convolution_transpose import ConvTranspose
from pullback.layers.layer import Layer
from pullback.layers.masks import pass_mask
from pullback.layers.options import UNBUILT, LayerOptions
from pullback.layers.training_mode import is_training
from pullback.ops.arithmetic import maximum
from pullback.ops.data_types import astype
from pullback.ops.linalg.linear_algebra import matmul
from pullback.ops.linalg.norms import vector_norm
from pullback.ops.manipulation import moveaxis, reshape
from pullback.ops.selection import where
from pullback.shapes import as_count, as_int
from pullback.state.functional import replaced
from pullback.tensor import Tensor
from pullback.variable import Variable, as_stored

__all__ = ["SpectralNormalization", "TimeDistributed", "WeightNormalization"]

#: The least norm that a kernel is divided by.
_LEAST = 1e-12
#: The steps of the power iteration that a new kernel begins with.
_FIRST_STEPS = 15


class Wrapper(Layer):
    """The base of layers around a layer.

    Args:
        layer: the layer inside.
        options: see `Layer`.

    Raises:
        InputTypeError: for what is not a layer.
    """

    call_masked = pass_mask

    def __init__(self, layer: Layer, **options: Unpack[LayerOptions]) -> None:
        super().__init__(**options)
        if not isinstance(layer, Layer):
            raise errors.InputTypeError(
                f"{type(self).__name__} takes a layer, such as pb.layers.Dense(10), got {layer!r}"
            )
        self.layer = layer
        # Inputs are cast as the layer inside casts them.
        self._policy = layer._policy
        self._build_if_sized()

    if TYPE_CHECKING:

        def __call__(self, *args: Any, training: bool | None = None, **kwargs: Any) -> Any:
            """Returns what the layer inside returns."""


class TimeDistributed(Wrapper):
    """A layer called for each step of a sequence by itself, with the same weights.

    `Dense` and others that work on the last axes need none; convolutions of the images of a film
    do. Inputs are (batch, time, ...), or structures of them; the layer gets (batch * time, ...),
    all steps at once. A mask (batch, time) is handed on; one with further axes is the layer's.

    Args:
        layer: the layer.
        options: see `Layer`.

    >>> layer = pb.layers.TimeDistributed(pb.layers.Conv2D(8, 3))
    >>> layer(pb.zeros((2, 10, 16, 16, 3))).shape
    (2, 10, 14, 14, 8)

    Raises:
        LayerError: for inputs without an axis of time, or results without that of the batch.
    """

    def build(self, input_shape: Any) -> None:
        """Builds the layer for the steps of a shape."""
        if self._input_shape is not None and not self.layer.built:
            self.layer.build_for((1, *input_shape[2:]))

    def call_masked(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Returns the same for `Masked` inputs; a mask of steps is that of the results."""
        if type(x) is not Masked or x.mask.ndim > 2:
            return NotImplemented
        y = self(x.values, *args, **kwargs)
        return mapped(lambda leaf: Masked(leaf, x.mask), y)

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Returns the results (batch, time, ...)."""
        if len(args) == 1 and type(args[0]) is Tensor and len(shape := args[0].shape) > 1:
            batch, time, *rest = shape
            y = self.layer(reshape(args[0], (batch * time, *rest)), **kwargs)
            if type(y) is Tensor and (after := y.shape)[:1] == (batch * time,):
                return reshape(y, (batch, time, *after[1:]))
            return self._apart(y, (batch, time))
        steps = leaves(args)
        first = steps[0].shape[:2] if steps else ()
        for x in steps:
            if len(first) < 2 or x.shape[:2] != first:
                raise errors.LayerError(
                    f"inputs must be (batch, time, ...), all of one batch and time, got shape "
                    f"{tuple(x.shape)}"
                )
        count = math.prod(first)
        merged = [reshape(x, (count, *x.shape[2:])) for x in steps]
        return self._apart(self.layer(*like(args, iter(merged)), **kwargs), first)

    def _apart(self, y: Any, first: tuple[int, ...]) -> Any:
        """The results of the layer with batch and time apart again."""
        count, results = math.prod(first), leaves(y)
        for x in results:
            if x.shape[:1] != (count,):
                raise errors.LayerError(
                    f"the layer returned shape {tuple(x.shape)} for {count} steps of inputs of "
                    f"batch and time {first}; it must return (batch, ...)"
                )
        return like(y, iter([reshape(x, (*first, *x.shape[1:])) for x in results]))


class NormalizedWeight(Wrapper):
    """The base of layers around a layer that give another value to one of its variables."""

    def __init__(
        self,
        layer: Layer,
        *,
        variable: str | None = None,
        axis: int | None = None,
        **options: Unpack[LayerOptions],
    ) -> None:
        default = -2 if isinstance(layer, ConvTranspose) else -1
        self.axis = default if axis is None else as_int(axis, "axis: an integer")
        self.variable = variable
        super().__init__(layer, **options)

    def build(self, input_shape: Any) -> None:
        """Builds the layer, and makes the variables for the norm."""
        if not self.layer.built:
            shape = input_shape.values if type(input_shape) is Masked else input_shape
            self.layer.build_for(shape)
        names = ("kernel", "embeddings") if self.variable is None else (self.variable,)
        found = [vars(self.layer).get(name) for name in names]
        weights = [one for one in found if isinstance(one, Variable) and one.ndim > 1]
        if not weights:
            there = [name for name, x in self.layer.named_variables.items() if x.ndim > 1]
            raise errors.LayerError(
                f"the layer inside, {type(self.layer).__name__}, has no variable {names[0]!r} of "
                f"two axes or more; those of its layers are {', '.join(there) or 'none'}: wrap the "
                f"layer that has the variable, or write variable="
            )
        self.weight = weights[0]
        self.begin()

    def begin(self) -> None:
        """Makes the variables for the norm."""

    def normalized(self, weight: Tensor, training: bool | None) -> Tensor:
        """Returns the value that the layer computes with."""
        raise NotImplementedError

    def call(self, *args: Any, training: bool | None = None, **kwargs: Any) -> Any:
        """Returns the result of the layer, with its variable normalized."""
        weight = as_stored(self.weight)
        wide = astype(weight, dtypes.promote_types(weight.dtype, dtypes.float32))
        value = astype(self.normalized(wide, training), weight.dtype)
        with replaced([(self.weight, value)]):
            return self.layer(*args, training=training, **kwargs)

    def made(self, name: str, size: int, initializer: str, *, trainable: bool) -> Variable:
        """Makes a variable (size,) beside the one that is normalized."""
        wide = dtypes.promote_types(self.weight.dtype, dtypes.float32)
        return self.add_variable(
            name, (size,), initializer=initializer, dtype=wide, trainable=trainable, autocast=False
        )


class WeightNormalization(NormalizedWeight):
    """g * v / |v| in place of a layer's kernel v (Salimans and Kingma, 2016).

    Each output has a length g, which is trained, and a direction. It begins with the lengths of
    the layer's kernel, so that the layer computes the same at first.

    Args:
        layer: the layer.
        variable: the attribute of the layer with the variable; the kernel, or the table of an
            `Embedding`, if None.
        axis: the axis of its outputs; if None the last one, or that of the filters of a transposed
            convolution.
        options: see `Layer`.

    >>> layer = pb.layers.WeightNormalization(pb.layers.Dense(3))
    >>> y = layer(pb.ones((1, 2)))
    >>> _ = layer.layer.kernel.assign(layer.layer.kernel * 5)
    >>> bool(pb.all(pb.abs(layer(pb.ones((1, 2))) - y) < 1e-6))
    True

    Raises:
        LayerError: for a layer without such a variable, or one with a single axis.
    """

    g: Variable = UNBUILT

    def begin(self) -> None:
        """Makes the lengths g."""
        size = self.weight.shape[self.axis]
        self.g = self.made("g", size, "ones", trainable=True)
        self.g.assign(astype(reshape(self._lengths(as_stored(self.weight)), (size,)), self.g.dtype))

    def normalized(self, weight: Tensor, training: bool | None) -> Tensor:
        """Returns g * weight / |weight|."""
        lengths = self._lengths(weight)
        scale = reshape(as_stored(self.g), lengths.shape) / maximum(lengths, _LEAST)
        return weight * scale

    def _lengths(self, weight: Tensor) -> Tensor:
        last = self.axis % weight.ndim
        others = tuple(axis for axis in range(weight.ndim) if axis != last)
        return vector_norm(weight, axis=others, keepdims=True)


class SpectralNormalization(NormalizedWeight):
    """A layer with its kernel divided by the largest singular value (Miyato et al., 2018).

    The kernel is a matrix (inputs, outputs) here, with all its axes but that of the outputs as one.
    A call in training takes steps of the power iteration, which approach the singular vector u;
    gradients take u for a constant, and flow through the kernel W in W / |W u|.

    Args:
        layer: the layer.
        power_iterations: the number of steps in a call for training.
        variable: see `WeightNormalization`.
        axis: see `WeightNormalization`.
        options: see `Layer`.

    >>> dense = pb.layers.Dense(3, use_bias=False)
    >>> layer = pb.layers.SpectralNormalization(dense, power_iterations=200)
    >>> matrix = layer(pb.eye(2), training=True)
    >>> abs(float(pb.linalg.svdvals(matrix)[0]) - 1) < 1e-3
    True

    Raises:
        LayerError: for a layer without such a variable, or one with a single axis.
    """

    u: Variable = UNBUILT

    def __init__(
        self,
        layer: Layer,
        power_iterations: int = 1,
        *,
        variable: str | None = None,
        axis: int | None = None,
        **options: Unpack[LayerOptions],
    ) -> None:
        self.power_iterations = as_count(power_iterations, "power_iterations")
        super().__init__(layer, variable=variable, axis=axis, **options)

    def begin(self) -> None:
        """Makes the singular vector u."""
        self.u = self.made("u", self.weight.shape[self.axis], "normal", trainable=False)
        self._iterate(self._matrix(astype(as_stored(self.weight), self.u.dtype)), _FIRST_STEPS)

    def normalized(self, weight: Tensor, training: bool | None) -> Tensor:
        """Returns the weight divided by its largest singular value."""
        matrix = self._matrix(weight)
        u = as_stored(self.u)
        if self.trainable and is_training(training):
            with paused():
                u = self._iterate(matrix, self.power_iterations)
        return weight / maximum(vector_norm(matmul(matrix, u)), _LEAST)

    def _matrix(self, weight: Tensor) -> Tensor:
        last = moveaxis(weight, self.axis, -1)
        return reshape(last, (-1, last.shape[-1]))

    def _iterate(self, matrix: Tensor, steps: int) -> Tensor:
        """Takes steps towards the right singular vector of the largest singular value."""
        u = as_stored(self.u)
        for _ in range(steps):
            after = matmul(matrix.mT, matmul(matrix, u))
            length = vector_norm(after)
            # A kernel of zeros says nothing about later ones.
            u = where(length > 0, after / maximum(length, _LEAST), u)
        self.u.assign(u)
        return u
