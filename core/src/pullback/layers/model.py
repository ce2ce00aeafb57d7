"""Layers made of layers: `Model` and `Sequential`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Unpack, overload

from pullback import errors
from pullback._autodiff.remat import remat
from pullback._dispatch.arguments import as_list
from pullback.graph.eval_shape import TensorSpec, eval_shape
from pullback.layers.basic import Embedding
from pullback.layers.layer import Layer
from pullback.layers.options import LayerOptions
from pullback.layers.recurrent import Recurrent
from pullback.layers.summary import table
from pullback.shapes import as_int
from pullback.training import Trainable

__all__ = ["Model", "Sequential"]


class Model(Trainable, Layer):
    """A layer made of layers: assign them to attributes, and write `call`.

    Train it in a loop of your own, or with `compile` and `fit` (`pb.training.Trainable`).

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

    if TYPE_CHECKING:

        def __call__(self, *args: Any, training: bool | None = None, **kwargs: Any) -> Any:
            """Returns what `call` returns: often a tensor, or a structure of tensors."""

    def reset_states(self) -> None:
        """Makes the next call of every stateful layer in the model start from zeros."""
        for layer in self.sublayers.values():
            if isinstance(layer, Recurrent):
                layer.reset_states()

    def summary(
        self, print_line: Callable[[str], object] = print, *, variables: bool = False
    ) -> None:
        """Prints a table of the layers: paths, classes, outputs of the first call, parameters.

        Layers come in the order of their first calls. A layer that has others in it counts their
        parameters too.

        Args:
            print_line: the function that is called with each line.
            variables: True to show the names and shapes of variables.
        """
        for line in table(self, variables):
            print_line(line)


class Sequential(Model):
    """A model that calls layers one after another; functions of a tensor count as layers.

    If the first layer has an `input_shape`, all variables are made at once.

    Args:
        layers: the layers, or functions.
        remat: whether each layer keeps its input alone for the gradient (`pb.remat`): less memory,
            and a third more time.
        options: see `Layer`.

    >>> model = pb.Sequential([pb.layers.Dense(10, input_shape=(784,)), pb.layers.Dense(10)])
    >>> model(pb.zeros((1, 1, 784))).shape
    (1, 1, 10)
    >>> len(model), model[-1], model[:1](pb.zeros((1, 784))).shape
    (2, <Dense 'dense', 110 parameters>, (1, 10))

    Raises:
        InputTypeError: for a value that cannot be called.
    """

    def __init__(
        self,
        layers: Iterable[Callable[..., Any]] = (),
        *,
        remat: bool = False,
        **options: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**options)
        self.layers: list[Callable[..., Any]] = []
        self.remat = bool(remat)
        if isinstance(layers, Layer) and not isinstance(layers, Sequential):
            raise errors.InputTypeError(
                f"layers must be a list of layers, got {type(layers).__name__}; write "
                f"pb.Sequential([...])"
            )
        for layer in as_list(layers, "layers", "layers"):
            self._append(layer)
        self._build_if_sized()

    def constructor_arguments(self) -> dict[str, Any]:
        """The arguments of the constructor, with the current layers."""
        if type(self).__init__ is not Sequential.__init__:
            return super().constructor_arguments()
        return super().constructor_arguments() | {"layers": list(self.layers)}

    def __len__(self) -> int:
        return len(self.layers)

    def __iter__(self) -> Iterator[Callable[..., Any]]:
        return iter(self.layers)

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> Sequential: ...
    def __getitem__(self, index: int | slice) -> Any:
        """Returns a layer, or for a slice a Sequential of the same layers.

        Raises:
            IndexingError: for a number that no layer has.
            InputTypeError: for what is neither an integer nor a slice.
        """
        if isinstance(index, slice):
            return Sequential(self.layers[index], remat=self.remat)
        number = as_int(index, "an integer or a slice")
        if not -len(self.layers) <= number < len(self.layers):
            raise errors.IndexingError(
                f"the model has {len(self.layers)} layers, and none at {number}"
            )
        return self.layers[number]

    def __bool__(self) -> bool:
        # A model is one, also without layers.
        return True

    def __repr__(self) -> str:
        parts = ", ".join(
            type(layer).__name__ if isinstance(layer, Layer) else _name(layer)
            for layer in self.layers
        )
        return f"<Sequential {self.name!r}, {self.parameter_count:,} parameters: [{parts}]>"

    def add(self, layer: Callable[..., Any]) -> None:
        """Adds a layer at the end.

        Raises:
            InputTypeError: for a value that cannot be called.
        """
        self._append(layer)
        if len(self.layers) == 1:
            self._build_if_sized()

    def _append(self, layer: Callable[..., Any]) -> None:
        if not callable(layer) or isinstance(layer, type):
            raise errors.InputTypeError(
                f"a Sequential takes layers or functions, got {layer!r}"
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
            eval_shape(self, TensorSpec((1, *shape), dtype), training=False)

    def call(self, x: Any) -> Any:
        """Returns the output of the last layer."""
        for layer in self.layers:
            x = remat(layer)(x) if self.remat else layer(x)
        return x


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", type(function).__name__)
