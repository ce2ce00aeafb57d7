"""`tf.keras.Model` and `tf.keras.Sequential`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pullback.layers import Model as _Model
from pullback.layers import Sequential as _Sequential
from pullback_tensorflow.layers import Layer

__all__ = ["Model", "Sequential"]


class Model(Layer, _Model):
    """`pb.Model`, with TensorFlow's names.

    >>> import pullback.compat.tensorflow as tf
    >>> class Net(tf.keras.Model):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.dense = tf.keras.layers.Dense(units=10)
    ...     def call(self, x):
    ...         return self.dense(self.dense(x))
    >>> net = Net()
    >>> net(tf.zeros([1, 10])).shape, len(net.variables)
    ((1, 10), 2)
    """

    @property
    def layers(self) -> list[Any]:  # type: ignore[override]
        """The layers in it, without those that are inside of these."""
        paths = sorted(self.sublayers, key=len)
        inner = {path for path in paths if any(path.startswith(f"{one}/") for one in paths)}
        return [layer for path, layer in self.sublayers.items() if path not in inner]


class Sequential(Layer, _Sequential):
    """`pb.Sequential`, with TensorFlow's names."""

    def __init__(self, layers: Iterable[Any] | None = None, name: str | None = None) -> None:
        _Sequential.__init__(self, layers or (), name=name)
