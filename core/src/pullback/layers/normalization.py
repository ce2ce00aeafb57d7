"""Normalization over the batch, and over the features of each item."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pullback import dtypes, errors
from pullback._dispatch.recording import paused
from pullback.layers.layer import Layer
from pullback.ops.nn.batch_normalization import batch_norm, batch_norm_inference
from pullback.ops.nn.normalization import group_norm, layer_norm, rms_norm
from pullback.shapes import normal_axes
from pullback.tensor import Tensor

__all__ = [
    "BatchNormalization",
    "GroupNormalization",
    "InstanceNormalization",
    "LayerNormalization",
    "RMSNormalization",
]


class LayerNormalization(Layer):
    """Each item with mean 0 and variance 1 over `axis`, then scaled and shifted (Ba et al., 2016).

    Args:
        axis: over which it is normalised, one or several.
        epsilon: added to the variance.
        center: whether there is a shift `beta`.
        scale: whether there is a scale `gamma`.
        rest: as of `Layer`.

    >>> pb.layers.LayerNormalization(epsilon=0.0)([[1.0, 3.0]]).tolist()
    [[-1.0, 1.0]]
    """

    def __init__(
        self,
        axis: int | Sequence[int] = -1,
        *,
        epsilon: float = 1e-5,
        center: bool = True,
        scale: bool = True,
        **rest: Any,
    ) -> None:
        super().__init__(**rest)
        self.axis = axis
        self.epsilon = epsilon
        self.center = center
        self.scale = scale
        self.gamma: Any = None
        self.beta: Any = None
        self._build_if_sized()

    def build(self, input_shape: Any) -> None:
        """Makes gamma and beta, with the sizes of the axes."""
        axes = normal_axes(self.axis, len(input_shape)) or ()
        sizes = [input_shape[axis] for axis in axes]
        if self.scale:
            self.gamma = self.add_variable("gamma", sizes, initializer="ones")
        if self.center:
            self.beta = self.add_variable("beta", sizes, initializer="zeros")

    def call(self, x: Any) -> Any:
        """The normalised input."""
        return layer_norm(x, self.gamma, self.beta, axis=self.axis, epsilon=self.epsilon)


class RMSNormalization(Layer):
    """Each item with mean square 1 over `axis`, then scaled (Zhang and Sennrich, 2019).

    Args:
        axis: over which it is normalised, one or several.
        epsilon: added to the mean square.
        scale: whether there is a scale `gamma`.
        rest: as of `Layer`.

    >>> pb.layers.RMSNormalization(epsilon=0.0)([[3.0, -3.0]]).tolist()
    [[1.0, -1.0]]
    """

    def __init__(
        self,
        axis: int | Sequence[int] = -1,
        *,
        epsilon: float = 1e-6,
        scale: bool = True,
        **rest: Any,
    ) -> None:
        super().__init__(**rest)
        self.axis = axis
        self.epsilon = epsilon
        self.scale = scale
        self.gamma: Any = None
        self._build_if_sized()

    def build(self, input_shape: Any) -> None:
        """Makes gamma, with the sizes of the axes."""
        axes = normal_axes(self.axis, len(input_shape)) or ()
        if self.scale:
            sizes = [input_shape[axis] for axis in axes]
            self.gamma = self.add_variable("gamma", sizes, initializer="ones")

    def call(self, x: Any) -> Any:
        """The normalised input."""
        return rms_norm(x, self.gamma, axis=self.axis, epsilon=self.epsilon)


class GroupNormalization(Layer):
    """Each group of channels of each item with mean 0 and variance 1 (Wu and He, 2018).

    Args:
        groups: how many groups the channels are in.
        axis: that of the channels.
        epsilon: added to the variance.
        center: whether there is a shift `beta`.
        scale: whether there is a scale `gamma`.
        rest: as of `Layer`.

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
        **rest: Any,
    ) -> None:
        super().__init__(**rest)
        self.groups = int(groups)
        self.axis = axis
        self.epsilon = epsilon
        self.center = center
        self.scale = scale
        self.gamma: Any = None
        self.beta: Any = None
        self._build_if_sized()

    def build(self, input_shape: Any) -> None:
        """Makes gamma and beta, one value a channel."""
        size = _channels(input_shape, self.axis)
        if self.scale:
            self.gamma = self.add_variable("gamma", (size,), initializer="ones")
        if self.center:
            self.beta = self.add_variable("beta", (size,), initializer="zeros")

    def call(self, x: Any) -> Any:
        """The normalised input."""
        channels = _channels(x.shape, self.axis)
        return group_norm(
            x,
            self.gamma,
            self.beta,
            groups=self.groups or channels,
            axis=self.axis,
            epsilon=self.epsilon,
        )


class InstanceNormalization(GroupNormalization):
    """Each channel of each item with mean 0 and variance 1 (Ulyanov et al., 2016).

    Args:
        axis: that of the channels.
        rest: as of `GroupNormalization`.

    >>> pb.layers.InstanceNormalization(epsilon=0.0)([[[1.0], [3.0]]]).tolist()
    [[[-1.0], [1.0]]]
    """

    def __init__(self, axis: int = -1, **rest: Any) -> None:
        # As many groups as there are channels.
        super().__init__(0, axis, **rest)


class BatchNormalization(Layer):
    """Each channel with mean 0 and variance 1 over the batch (Ioffe and Szegedy, 2015).

    While training it uses the mean and variance of the batch, and keeps moving averages of them
    (of the variance, of its unbiased estimate); otherwise it uses those. Frozen, with
    `trainable = False`, it uses them always.

    Args:
        axis: that of the channels.
        momentum: of the moving averages.
        epsilon: added to the variance.
        center: whether there is a shift `beta`.
        scale: whether there is a scale `gamma`.
        rest: as of `Layer`.

    Raises:
        LayerError: for a batch of one value for each channel while training.
    """

    def __init__(
        self,
        axis: int = -1,
        *,
        momentum: float = 0.99,
        epsilon: float = 1e-3,
        center: bool = True,
        scale: bool = True,
        **rest: Any,
    ) -> None:
        super().__init__(**rest)
        self.axis = axis
        self.momentum = momentum
        self.epsilon = epsilon
        self.center = center
        self.scale = scale
        self.gamma: Any = None
        self.beta: Any = None
        self.moving_mean: Any = None
        self.moving_variance: Any = None
        self._build_if_sized()

    def build(self, input_shape: Any) -> None:
        """Makes gamma, beta, and the moving averages."""
        size = _channels(input_shape, self.axis)
        if self.scale:
            self.gamma = self.add_variable("gamma", (size,), initializer="ones")
        if self.center:
            self.beta = self.add_variable("beta", (size,), initializer="zeros")
        # Averages of many small steps: 16 bits would not move.
        wide = dtypes.promote_types(self.dtype, dtypes.float32)
        self.moving_mean = self.add_variable(
            "moving_mean",
            (size,),
            initializer="zeros",
            dtype=wide,
            trainable=False,
            autocast=False,
        )
        self.moving_variance = self.add_variable(
            "moving_variance",
            (size,),
            initializer="ones",
            dtype=wide,
            trainable=False,
            autocast=False,
        )

    def call(self, x: Any, training: bool = False) -> Any:
        """The normalised input."""
        _check_channels(x.shape, self.axis, self.moving_mean.shape[0])
        if not (training and self.trainable):
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
        if count < 2:
            raise errors.LayerError(
                f"needs at least two values for each channel while training, got {x.shape}"
            )
        y, mean, variance = batch_norm(
            x, self.gamma, self.beta, axis=self.axis, epsilon=self.epsilon
        )
        with paused():
            self._move(self.moving_mean, mean)
            self._move(self.moving_variance, variance * (count / (count - 1)))
        return y

    def _move(self, average: Any, batch: Tensor) -> None:
        batch = batch.astype(average.dtype)
        average.assign_add((batch - average) * (1 - self.momentum))


def _channels(shape: Any, axis: int) -> int:
    if not -len(shape) <= axis < len(shape):
        raise errors.LayerError(f"there is no axis {axis} of channels in inputs of shape {shape}")
    return int(shape[axis])


def _check_channels(shape: Any, axis: int, size: int) -> None:
    if _channels(shape, axis) != size:
        raise errors.LayerError(
            f"needs {size} channels along axis {axis}, since it has been built for that, "
            f"and got shape {shape}"
        )
