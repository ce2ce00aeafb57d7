"""Layers made of layers: `Model` and `Sequential`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from pullback import errors
from pullback._dispatch.recording import paused
from pullback.layers.basic import Embedding
from pullback.layers.layer import Layer
from pullback.layers.recurrent import Recurrent
from pullback.layers.summary import table
from pullback.ops.creation import full
from pullback.training import Trainable

__all__ = ["Model", "Sequential"]


class Model(Trainable, Layer):
    """A layer made of layers: put them in attributes, and write `call`.

    It is trained by a loop of your own, or by `compile` and `fit` (`pb.training.Trainable`).

    >>> class TwoLayers(pb.Model):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.first = pb.layers.Dense(4, activation="relu")
    ...         self.second = pb.layers.Dense(2)
    ...     def call(self, x):
    ...         return self.second(self.first(x))
    >>> model = TwoLayers()
    >>> model(pb.zeros((1, 3))).shape
    (1, 2)
    >>> list(model.named_variables)
    ['first/kernel', 'first/bias', 'second/kernel', 'second/bias']
    """

    def reset_states(self) -> None:
        """Has the next call of every stateful layer in it begin with zeros."""
        for layer in self.sublayers.values():
            if isinstance(layer, Recurrent):
                layer.reset_states()

    def summary(self, print_line: Callable[[str], Any] = print) -> None:
        """Prints a table of the layers: paths, kinds, outputs of the first call, parameters.

        Args:
            print_line: what is called with each line.
        """
        for line in table(self):
            print_line(line)


class Sequential(Model):
    """Layers one after another. Functions of a tensor may stand among them.

    Where the first layer has an `input_shape`, all variables are made at once.

    Args:
        layers: the layers.
        rest: as of `Layer`.

    >>> model = pb.Sequential([pb.layers.Dense(10, input_shape=(784,)), pb.layers.Dense(10)])
    >>> model(pb.zeros((1, 1, 784))).shape
    (1, 1, 10)

    Raises:
        InputTypeError: for what cannot be called.
    """

    def __init__(self, layers: Iterable[Callable[..., Any]] = (), **rest: Any) -> None:
        super().__init__(**rest)
        self.layers: list[Callable[..., Any]] = []
        for layer in layers:
            self._append(layer)
        self._build_if_sized()

    def constructor_arguments(self) -> dict[str, Any]:
        """The arguments of the constructor, with the layers that are in it now."""
        if type(self).__init__ is not Sequential.__init__:
            return super().constructor_arguments()
        return super().constructor_arguments() | {"layers": list(self.layers)}

    def add(self, layer: Callable[..., Any]) -> None:
        """Adds a layer at the end.

        Raises:
            InputTypeError: for what cannot be called.
        """
        self._append(layer)
        if len(self.layers) == 1:
            self._build_if_sized()

    def _append(self, layer: Any) -> None:
        if not callable(layer) or isinstance(layer, type):
            raise errors.InputTypeError(
                f"layers of a Sequential are layers or functions, got {layer!r}"
                + ("; call it: pb.layers.Dense(10)" if isinstance(layer, type) else "")
            )
        self.layers.append(layer)

    def _build_if_sized(self) -> None:
        first = self.layers[0] if self.layers else None
        shape = self._input_shape
        if shape is None and isinstance(first, Layer):
            shape = first._input_shape
        if shape is not None:
            dtype = "int32" if isinstance(first, Embedding) else "float32"
            with paused():
                self(full((1, *shape), 0, dtype=dtype), training=False)
            self.reset_states()

    def call(self, x: Any) -> Any:
        """What the last layer gives."""
        for layer in self.layers:
            x = layer(x)
        return x
