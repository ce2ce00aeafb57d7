"""Normalization over the batch, and over the features of each item."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

from pullback import dtypes, errors
from pullback._dispatch.arguments import as_bool
from pullback._dispatch.recording import LOCAL, paused
from pullback.layers.layer import Layer
from pullback.layers.masks import keep_mask
from pullback.layers.options import UNBUILT, LayerOptions
from pullback.layers.training_mode import is_training
from pullback.ops.arithmetic import maximum
from pullback.ops.linalg.norms import vector_norm
from pullback.ops.nn.batch_normalization import batch_norm, batch_norm_inference
from pullback.ops.nn.normalization import group_norm, layer_norm, rms_norm
from pullback.shapes import Shape, as_count, as_int, canonical_axes
from pullback.tensor import Tensor
from pullback.variable import Variable

__all__ = [
    "BatchNormalization",
    "GroupNormalization",
    "InstanceNormalization",
    "LayerNormalization",
    "RMSNormalization",
    "UnitNormalization",
]


class LayerNormalization(Layer):
    """Normalizes each item to mean 0, variance 1, then scales and shifts it (Ba et al., 2016).

    Args:
        axis: the axis or axes of the features.
        epsilon: added to the variance.
        center: whether there is a shift `beta`.
        scale: whether there is a scale `gamma`.
        options: see `Layer`.

    >>> pb.layers.LayerNormalization(epsilon=0.0)([[1.0, 3.0]]).tolist()
    [[-1.0, 1.0]]
    """

    call_masked = keep_mask

    def __init__(
        self,
        axis: int | Sequence[int] = -1,
        *,
        epsilon: float = 1e-5,
        center: bool = True,
        scale: bool = True,
        **options: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**options)
        self.axis = axis
        self.epsilon = epsilon
        self.center = as_bool(center, "center")
        self.scale = as_bool(scale, "scale")
        self.gamma: Variable | None = None
        self.beta: Variable | None = None
        self._build_if_sized()

    def build(self, input_shape: Shape) -> None:
        """Makes gamma and beta, with the sizes of the axes."""
        axes = canonical_axes(self.axis, len(input_shape)) or ()
        sizes = [input_shape[axis] for axis in axes]
        if self.scale:
            self.gamma = self.add_variable("gamma", sizes, initializer="ones")
        if self.center:
            self.beta = self.add_variable("beta", sizes, initializer="zeros")

    def call(self, x: Tensor) -> Tensor:
        """Returns the normalized input."""
        return layer_norm(x, self.gamma, self.beta, axis=self.axis, epsilon=self.epsilon)


class RMSNormalization(Layer):
    """Normalizes each item to mean square 1, then scales it (Zhang and Sennrich, 2019).

    Args:
        axis: the axis or axes of the features.
        epsilon: added to the mean square.
        scale: whether there is a scale `gamma`.
        options: see `Layer`.

    >>> pb.layers.RMSNormalization(epsilon=0.0)([[3.0, -3.0]]).tolist()
    [[1.0, -1.0]]
    """

    call_masked = keep_mask

    def __init__(
        self,
        axis: int | Sequence[int] = -1,
        *,
        epsilon: float = 1e-6,
        scale: bool = True,
        **options: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**options)
        self.axis = axis
        self.epsilon = epsilon
        self.scale = as_bool(scale, "scale")
        self.gamma: Variable | None = None
        self._build_if_sized()

    def build(self, input_shape: Shape) -> None:
        """Makes gamma, with the sizes of the axes."""
        axes = canonical_axes(self.axis, len(input_shape)) or ()
        if self.scale:
            sizes = [input_shape[axis] for axis in axes]
            self.gamma = self.add_variable("gamma", sizes, initializer="ones")

    def call(self, x: Tensor) -> Tensor:
        """Returns the normalized input."""
        return rms_norm(x, self.gamma, axis=self.axis, epsilon=self.epsilon)


class UnitNormalization(Layer):
    """Divides each item by its length, the square root of its sum of squares.

    Args:
        axis: the axis or axes of the features.
        options: see `Layer`.

    >>> pb.layers.UnitNormalization()([[3.0, 4.0]]).tolist()
    [[0.6000000238418579, 0.800000011920929]]
    """

    call_masked = keep_mask

    def __init__(self, axis: int | Sequence[int] = -1, **options: Unpack[LayerOptions]) -> None:
        super().__init__(**options)
        self.axis = axis

    def call(self, x: Tensor) -> Tensor:
        """Returns x / |x|; 0 for items of length 0."""
        return unit(x, self.axis)


def unit(x: Tensor, axis: int | Sequence[int]) -> Tensor:
    """Returns x / |x| along axes; 0 for vectors of length 0."""
    axes = canonical_axes(axis, x.ndim)
    return x / maximum(vector_norm(x, axis=axes, keepdims=True), 1e-12)


class GroupNormalization(Layer):
    """Normalizes each group of channels to mean 0 and variance 1 (Wu and He, 2018).

    Args:
        groups: the number of groups.
        axis: the axis of the channels.
        epsilon: added to the variance.
        center: whether there is a shift `beta`.
        scale: whether there is a scale `gamma`.
        options: see `Layer`.

    >>> pb.layers.GroupNormalization(2, epsilon=0.0)([[1.0, 3.0, 10.0, 30.0]]).tolist()
    [[-1.0, 1.0, -1.0, 1.0]]

    Raises:
        LayerError: when the groups do not divide the channels.
    """

    def __init__(
        self,
        groups: int,
        axis: int = -1,
        *,
        epsilon: float = 1e-5,
        center: bool = True,
        scale: bool = True,
        **options: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**options)
        self.groups = as_count(groups, "groups")
        self.axis = as_int(axis, "axis: an integer")
        self.epsilon = epsilon
        self.center = as_bool(center, "center")
        self.scale = as_bool(scale, "scale")
        self.gamma: Variable | None = None
        self.beta: Variable | None = None
        self._build_if_sized()

    def build(self, input_shape: Shape) -> None:
        """Makes gamma and beta, one value per channel."""
        size = _channels(input_shape, self.axis)
        if self.scale:
            self.gamma = self.add_variable("gamma", (size,), initializer="ones")
        if self.center:
            self.beta = self.add_variable("beta", (size,), initializer="zeros")

    def call(self, x: Tensor) -> Tensor:
        """Returns the normalized input."""
        channels = _channels(x.shape, self.axis)
        return group_norm(
            x,
            self.gamma,
            self.beta,
            groups=self.groups or channels,
            axis=self.axis,
            epsilon=self.epsilon,
        )


class NormalizationOptions(LayerOptions, total=False):
    """The keyword arguments of `InstanceNormalization`; `GroupNormalization` describes them."""

    epsilon: float
    center: bool
    scale: bool


class InstanceNormalization(GroupNormalization):
    """Normalizes each channel of each item (Ulyanov et al., 2016).

    Args:
        axis: the axis of the channels.
        options: see `GroupNormalization`.

    >>> pb.layers.InstanceNormalization(epsilon=0.0)([[[1.0], [3.0]]]).tolist()
    [[[-1.0], [1.0]]]
    """

    def __init__(self, axis: int = -1, **options: Unpack[NormalizationOptions]) -> None:
        super().__init__(1, axis, **options)
        # As many groups as there are channels, which a first input says.
        self.groups = 0


class BatchNormalization(Layer):
    """Normalizes each channel over the batch (Ioffe and Szegedy, 2015).

    In training it uses the mean and variance of the batch, and updates moving averages of the mean
    and of the unbiased variance. Otherwise, and always with `trainable = False`, it uses the moving
    averages.

    Args:
        axis: the axis of the channels.
        momentum: the decay rate of the moving averages.
        epsilon: added to the variance.
        center: whether there is a shift `beta`.
        scale: whether there is a scale `gamma`.
        options: see `Layer`.

    Raises:
        LayerError: for a single value per channel in training.
    """

    def __init__(
        self,
        axis: int = -1,
        *,
        momentum: float = 0.9,
        epsilon: float = 1e-3,
        center: bool = True,
        scale: bool = True,
        **options: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**options)
        self.axis = as_int(axis, "axis: an integer")
        self.momentum = momentum
        self.epsilon = epsilon
        self.center = as_bool(center, "center")
        self.scale = as_bool(scale, "scale")
        self.gamma: Variable | None = None
        self.beta: Variable | None = None
        self.moving_mean: Variable = UNBUILT
        self.moving_variance: Variable = UNBUILT
        self._build_if_sized()

    def build(self, input_shape: Shape) -> None:
        """Makes gamma, beta, and the moving averages."""
        size = _channels(input_shape, self.axis)
        if self.scale:
            self.gamma = self.add_variable("gamma", (size,), initializer="ones")
        if self.center:
            self.beta = self.add_variable("beta", (size,), initializer="zeros")
        # Small updates would be lost in 16 bits.
        wide = dtypes.promote_types(self.dtype, dtypes.float32)
        self.moving_mean = self.add_variable(
            "moving_mean", (size,), initializer="zeros", dtype=wide, trainable=False, autocast=False
        )
        self.moving_variance = self.add_variable(
            "moving_variance",
            (size,),
            initializer="ones",
            dtype=wide,
            trainable=False,
            autocast=False,
        )

    def call(self, x: Tensor, training: bool | None = None) -> Tensor:
        """Returns the normalized input."""
        _check_channels(x.shape, self.axis, self.moving_mean.shape[0])
        if not (self.trainable and is_training(training)):
            return batch_norm_inference(
                x,
                self.moving_mean,
                self.moving_variance,
                self.gamma,
                self.beta,
                axis=self.axis,
                epsilon=self.epsilon,
            )
        count = x.size // max(x.shape[self.axis], 1)
        if count < 2 and LOCAL.state.share is None:
            raise errors.LayerError(
                f"training needs at least two values per channel, got shape {x.shape}"
            )
        share = LOCAL.state.share
        if share is None:
            y, mean, variance = batch_norm(
                x, self.gamma, self.beta, axis=self.axis, epsilon=self.epsilon
            )
        else:
            y, mean, variance, count = share.batch_norm(
                x, self.gamma, self.beta, axis=self.axis, epsilon=self.epsilon
            )
        with paused():
            self._move(self.moving_mean, mean)
            self._move(self.moving_variance, variance * (count / (count - 1)))
        return y

    def _move(self, average: Variable, batch: Tensor) -> None:
        batch = batch.astype(average.dtype)
        average.assign_add((batch - average) * (1 - self.momentum))


def _channels(shape: Shape, axis: int) -> int:
    if not -len(shape) <= axis < len(shape):
        raise errors.LayerError(f"inputs have no axis {axis} for the channels, got shape {shape}")
    return int(shape[axis])


def _check_channels(shape: Shape, axis: int, size: int) -> None:
    if _channels(shape, axis) != size:
        raise errors.LayerError(
            f"built for inputs with {size} channels along axis {axis}, got shape {shape}"
        )
