"""Layers made of layers: `Model` and `Sequential`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Self, Unpack, overload

from pullback import errors
from pullback._autodiff.remat import remat
from pullback._dispatch.arguments import as_bool, as_list, as_str
from pullback.layers.building import call_without_data
from pullback.layers.functional import GraphPart, ModelGraph, from_data
from pullback.layers.layer import Layer
from pullback.layers.masks import pass_mask
from pullback.layers.options import LayerOptions
from pullback.layers.recurrent import Recurrent
from pullback.layers.summary import table
from pullback.layers.symbolic import SymbolicTensor
from pullback.shapes import as_int
from pullback.training import Trainable

__all__ = ["Model", "Sequential"]


class Model(Trainable, Layer):
    """A layer made of layers: assign them to attributes, and write `call`.

    Or make it of calls: `pb.Model(inputs, outputs)`, with `pb.Input` and what layers, operators and
    the functions of `pb` return for it. Such a model can be written as data, and made again.

    Train it in a loop of your own, or with `compile` and `fit` (`pb.training.Trainable`).

    Args:
        inputs: symbolic tensors: one, or a tuple, list or dict of them; None for a model that has a
            `call` of its own.
        outputs: the same for what is made of them: what the model returns.
        options: see `Layer`.

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
    >>> title, tags = pb.Input((8,), name="title"), pb.Input((3,), name="tags")
    >>> hidden = pb.relu(pb.layers.Dense(4)(title))
    >>> joined = pb.layers.Dense(2)(pb.concat([hidden, tags], axis=-1))
    >>> model = pb.Model((title, tags), joined)
    >>> model({"title": pb.zeros((5, 8)), "tags": pb.zeros((5, 3))}).shape
    (5, 2)

    Raises:
        InputTypeError: for inputs or outputs that are not symbolic tensors.
        LayerError: for outputs that depend on other inputs.
    """

    call_masked = pass_mask
    _graph: ModelGraph | None = None
    #: The symbolic tensors of a model made of calls, in their structures.
    inputs: Any = GraphPart("inputs")
    outputs: Any = GraphPart("outputs")

    def __init__(
        self, inputs: object = None, outputs: object = None, **options: Unpack[LayerOptions]
    ) -> None:
        super().__init__(**options)
        if inputs is not None or outputs is not None:
            self._graph = ModelGraph(inputs, outputs)
            self.layers: list[Any] = [*self._graph.layers.values()]
            if self._graph.variables:
                self.call_variables = self._graph.variables
            self.built = True

    def call(self, *args: Any) -> Any:
        """Returns the outputs. A model that is not made of calls has a `call` of its own."""
        return super().call(*args) if self._graph is None else self._graph(args)

    def get_layer(self, name: str) -> Layer:
        """The layer with a name, or with a path as `sublayers` has it.

        In a model made of calls, layers of one class are "dense", "dense_1" in the order of calls.

        >>> x = pb.Input((4,))
        >>> model = pb.Model(x, pb.layers.Dense(2, name="scores")(pb.layers.Dense(3)(x)))
        >>> model.get_layer("scores").units, model.get_layer("dense").units
        (2, 3)
        >>> pb.Model(model.inputs, model.get_layer("dense").output)(pb.ones((5, 4))).shape
        (5, 3)

        Raises:
            LayerError: for a name that no layer has, or several have; lists the names.
        """
        as_str(name, "name")
        named = {} if self._graph is None else self._graph.layers
        places = self.sublayers
        known = named.get(name) or places.get(name)
        found = [known] if known is not None else [x for x in places.values() if x.name == name]
        if len(found) != 1:
            what = "no layer has" if not found else f"{len(found)} layers have"
            there = ", ".join(map(repr, named or places))
            raise errors.LayerError(f"{self.name}: {what} the name {name!r}; there are {there}")
        return found[0]

    def constructor_arguments(self) -> dict[str, Any]:
        """The arguments of the constructor; the calls of a model made of them."""
        arguments = super().constructor_arguments()
        if self._graph is None or arguments.pop("inputs", None) is None:
            arguments.pop("inputs", None)
            return {name: x for name, x in arguments.items() if name != "outputs"}
        del arguments["outputs"]
        return {**arguments, "layers": self._graph.layers, "graph": self._graph.as_data()}

    @classmethod
    def from_constructor_arguments(cls, arguments: dict[str, Any]) -> Self:
        """Makes a model from the result of `constructor_arguments`."""
        graph = arguments.get("graph")
        if graph is not None:
            rest = {name: x for name, x in arguments.items() if name not in ("graph", "layers")}
            inputs, outputs = from_data(graph, arguments["layers"])
            arguments = {"inputs": inputs, "outputs": outputs, **rest}
        return super().from_constructor_arguments(arguments)

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

    If the first layer has an `input_shape`, or a `pb.Input` stands before it, all variables are
    made at once.

    Args:
        layers: the layers, or functions; a `pb.Input` may come first.
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
        self.remat = as_bool(remat, "remat")
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
        arguments = super().constructor_arguments() | {"layers": list(self.layers)}
        shape = self._input_shape
        if shape is not None and None not in shape:
            arguments["input_shape"] = shape
        return arguments

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
        self._build_if_sized()

    def _append(self, layer: Callable[..., Any]) -> None:
        if isinstance(layer, SymbolicTensor) and not self.layers and layer.call is None:
            self._input_shape = layer.shape[1:]
            return
        if not callable(layer) or isinstance(layer, type):
            raise errors.InputTypeError(
                f"a Sequential takes layers or functions, and a pb.Input before the first of them, "
                f"got {layer!r}"
                + ("; call it: pb.layers.Dense(10)" if isinstance(layer, type) else "")
            )
        self.layers.append(layer)

    def _build_if_sized(self) -> None:
        first = self.layers[0] if self.layers else None
        shape = self._input_shape
        if shape is None and isinstance(first, Layer):
            shape = first._input_shape
        if shape is not None:
            call_without_data(self, (1, *shape))

    def call(self, x: Any) -> Any:
        """Returns the output of the last layer."""
        for layer in self.layers:
            x = remat(layer)(x) if self.remat else layer(x)
        return x


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", type(function).__name__)
