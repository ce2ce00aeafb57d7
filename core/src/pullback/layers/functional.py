"""The calls of a model that is made of them: `pb.Model(inputs, outputs)`.

`ModelGraph` makes the calls again, on tensors, and is written as plain data and made again from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from pullback import dtypes, errors
from pullback._dispatch.convert import from_any
from pullback._dispatch.symbolic import FUNCTIONS
from pullback._masked import Masked
from pullback._tree import leaves, like
from pullback.graph.eval_shape import TensorSpec
from pullback.layers.layer import Layer
from pullback.layers.symbolic import (
    SymbolicCall,
    SymbolicTensor,
    TensorMethod,
    apply,
    calls_before,
    free_sizes,
    symbols,
)
from pullback.ops.data_types import astype
from pullback.spec import OPS
from pullback.state.objects import named_variables
from pullback.tensor import Tensor
from pullback.variable import Variable

__all__ = ["GraphPart", "ModelGraph", "from_data"]

#: The largest array that a configuration has among the arguments of a call.
_LARGEST = 4096


class ModelGraph:
    """The calls between some symbolic tensors.

    Args:
        inputs: symbolic tensors: one, or a tuple, list or dict of them.
        outputs: the same for what is made of them.

    Raises:
        InputTypeError: for values that are not symbolic tensors.
        LayerError: for outputs that depend on other inputs.
    """

    opaque_state = True

    def __init__(self, inputs: Any, outputs: object) -> None:
        self.inputs, self.outputs = inputs, outputs
        self._given = _checked("inputs", inputs)
        parts = inputs.values() if isinstance(inputs, Mapping) else inputs
        if inputs is not self._given[0] and any(
            isinstance(part, (tuple, list, dict)) for part in parts
        ):
            raise errors.InputTypeError(
                "pb.Model: inputs are a symbolic tensor, or a tuple, list or dict of them, got "
                "structures in a structure; write pb.Model((a, b, c), outputs), or "
                "pb.Model({'a': a, 'b': b, 'c': c}, outputs)"
            )
        ends = _checked("outputs", outputs)
        self.names = _names(inputs, self._given)
        self.calls = [*calls_before(ends, self._given)]
        places = self._places()
        if len({id(x) for x in self._given}) < len(self._given):
            raise errors.LayerError("pb.Model: an input is given twice; leave one of them out")
        #: The layers by name, in the order of their first calls.
        self.layers: dict[str, Layer] = {}
        known: dict[int, str] = {}
        for call in self.calls:
            if isinstance(call.function, Layer) and id(call.function) not in known:
                known[id(call.function)] = self._add(call.function)
        for x in (*ends, *(x for call in self.calls for x in call.inputs)):
            if id(x) not in places:
                raise errors.LayerError(
                    f"pb.Model: the outputs depend on {x!r}, which is not among the inputs; add it"
                )
        self._check_reads()
        self._steps = [*self._planned(ends, places)]
        self._ends = tuple([places[id(x)] for x in ends])
        self._count = len(places)

    def _places(self) -> dict[int, int]:
        """The place of each symbolic tensor among the values of a run, by its identity.

        It is not kept: in a copy of the graph tensors have other identities.
        """
        made = [x for call in self.calls for x in symbols(call.result)]
        return {id(x): i for i, x in enumerate([*self._given, *made])}

    def _check_reads(self) -> None:
        """Raises for a variable of no layer and no argument, which nothing would train or save."""
        known = {id(x) for x in self.variables}
        known |= {id(x) for x in named_variables(self.layers).values()}
        for call in self.calls:
            for variable in call.reads:
                if id(variable) not in known:
                    raise errors.LayerError(
                        f"pb.Model: {call.name} at {call.line} reads a variable "
                        f"({variable.name or 'without a name'}, shape {tuple(variable.shape)}) "
                        f"that no layer of the model has, so that it would be neither trained nor "
                        f"saved; pass it to the call, pb.layers.Lambda(f)(x, variable), or write a "
                        f"layer that has it in an attribute"
                    )

    @property
    def variables(self) -> list[Variable]:
        """The variables among the arguments of calls, each once."""
        found = [leaf for call in self.calls for leaf in leaves((call.args, call.kwargs))]
        return [*{id(x): x for x in found if isinstance(x, Variable)}.values()]

    def _add(self, layer: Layer) -> str:
        name, number = layer.name, 0
        while name in self.layers:
            number += 1
            name = f"{layer.name}_{number}"
        if number and layer._name is not None:
            raise errors.LayerError(
                f"pb.Model: two layers have the name {layer.name!r}; give one of them another name"
            )
        self.layers[name] = layer
        return name

    def _planned(
        self, ends: list[SymbolicTensor], places: Mapping[int, int]
    ) -> Iterator[tuple[Any, ...]]:
        """Yields for each call what a run needs: the last readers of values free them."""
        last = {id(x): n for n, call in enumerate(self.calls) for x in call.inputs}
        kept = {id(x) for x in ends}
        for n, call in enumerate(self.calls):
            arguments = call.args, call.kwargs
            # For each leaf of the arguments its place, or -1 and the value.
            sources = tuple(
                (places[id(leaf)], None) if isinstance(leaf, SymbolicTensor) else (-1, leaf)
                for leaf in leaves(arguments)
            )
            results = tuple(
                places[id(leaf)] if isinstance(leaf, SymbolicTensor) else -1
                for leaf in leaves(call.result)
            )
            over = [x for x in (*call.inputs, *symbols(call.result)) if last.get(id(x), n) == n]
            freed = tuple({places[id(x)] for x in over if id(x) not in kept})
            yield call.function, arguments, sources, results, freed, call

    # Calls ---------------------------------------------------------------------------------------

    def __call__(self, args: tuple[Any, ...]) -> Any:
        """Returns the outputs for some inputs: one structure of them, or one argument for each."""
        values: list[Any] = [*self._matched(args), *[None] * self._count]
        for function, arguments, sources, results, freed, call in self._steps:
            flat = [value if place < 0 else values[place] for place, value in sources]
            positional, named = like(arguments, iter(flat))
            try:
                found = leaves(function(*positional, **named))
            except Exception as error:
                error.add_note(f"in {call.name}, which the model calls since {call.line}")
                raise
            for place, value in zip(results, found, strict=True):
                if place >= 0:
                    values[place] = value
            for place in freed:
                values[place] = None
        return like(self.outputs, iter([values[place] for place in self._ends]))

    def _matched(self, args: tuple[Any, ...]) -> Iterator[Tensor]:
        """Yields the tensor for each input.

        Raises:
            InputValueError: for other names, or another number of inputs.
            ShapeError, DTypeError: for a tensor that does not fit its input.
        """
        given = args[0] if len(args) == 1 else args
        names = self.names
        if isinstance(given, Mapping):
            unknown = [name for name in given if name not in names]
            missing = [name for name in names if name not in given]
            if unknown or missing:
                wrong = f"unknown input {unknown[0]!r}" if unknown else f"no input {missing[0]!r}"
                raise errors.InputValueError(
                    f"{wrong}; the inputs of the model are {', '.join(map(repr, names))}"
                )
            given = [given[name] for name in names]
        elif not isinstance(given, (tuple, list)) or (len(names) == 1 and len(given) != 1):
            given = [given]
        if len(given) != len(names):
            raise errors.InputValueError(
                f"{len(given)} inputs for a model of {len(names)}: {', '.join(map(repr, names))}; "
                f"pass them as a tuple, or as a dict by name"
            )
        for name, value, x in zip(names, given, self._given, strict=True):
            yield _fitting(name, value if type(value) is Tensor else from_any(value), x)

    # Configuration -------------------------------------------------------------------------------

    def as_data(self) -> list[Any]:
        """The graph as lists, numbers and strings, with the layers by their names."""
        names = {id(layer): name for name, layer in self.layers.items()}
        places = self._places()

        def function(call: SymbolicCall) -> list[str]:
            if isinstance(call.function, Layer):
                return ["layer", names[id(call.function)]]
            if isinstance(call.function, TensorMethod):
                return ["method", call.function.name]
            spec = getattr(call.function, "spec", None)
            return ["function", call.name] if spec is None else ["op", spec.name]

        def encode(value: Any) -> list[Any]:
            return _encoded(value, places)

        inputs = [
            [name, encode(x.shape), x.dtype.name]
            for name, x in zip(self.names, self._given, strict=True)
        ]
        calls = [[*function(call), encode(call.args), encode(call.kwargs)] for call in self.calls]
        return [inputs, calls, encode(self.inputs), encode(self.outputs)]


class GraphPart:
    """The inputs or outputs of a model that is made of calls.

    An object may have another value in the attribute.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, model: Any, owner: type) -> Any:
        if model is None:
            return self
        if model._graph is None:
            raise AttributeError(
                f"{model.name} is not made of calls, and keeps no {self._name}; write "
                f"pb.Model(inputs, outputs)"
            )
        return getattr(model._graph, self._name)


def from_data(data: list[Any], layers: Mapping[str, Layer]) -> tuple[Any, Any]:
    """The inputs and outputs of a model, from `ModelGraph.as_data`.

    Raises:
        InputValueError: for data that are something else.
    """
    try:
        inputs, calls, given, outputs = data
        values: list[SymbolicTensor] = []
        for name, shape, dtype in inputs:
            sizes, kind = _decoded(shape, ()), dtypes.as_dtype(dtype)
            first, second = (TensorSpec(free_sizes(sizes, number), kind) for number in (0, 1))
            values.append(SymbolicTensor((first, second), None, name))
        for kind, name, args, kwargs in calls:
            found: Callable[..., Any] = _functions(kind, layers)(name)
            values += symbols(apply(found, _decoded(args, values), _decoded(kwargs, values)))
        return _decoded(given, values), _decoded(outputs, values)
    except (ValueError, KeyError, IndexError, TypeError) as error:
        if isinstance(error, errors.PullbackError):
            raise
        raise errors.InputValueError(
            f"these are not the calls of a model ({type(error).__name__}: {error}); use "
            f"model.get_config()"
        ) from None


def _functions(kind: str, layers: Mapping[str, Layer]) -> Callable[[str], Any]:
    """The look-up of what a call calls, by its name."""
    known: dict[str, Callable[[str], Any]] = {
        "layer": layers.__getitem__,
        "method": TensorMethod,
        "function": FUNCTIONS.__getitem__,
        "op": lambda name: OPS[name].function,
    }
    return known[kind]


def _checked(what: str, structure: Any) -> list[SymbolicTensor]:
    flat = leaves(structure)
    wrong = [leaf for leaf in flat if not isinstance(leaf, SymbolicTensor)]
    if wrong or not flat:
        got = type(wrong[0]).__name__ if wrong else "nothing"
        raise errors.InputTypeError(
            f"pb.Model: {what} are symbolic tensors, got {got}; begin with x = pb.Input(shape) and "
            f"call layers on it"
        )
    return flat


def _names(structure: Any, flat: list[SymbolicTensor]) -> list[str]:
    """The names of inputs: the keys of a dict, their own, or their places."""
    if isinstance(structure, Mapping) and len(structure) == len(flat):
        return [str(key) for key in structure]
    names = [x.name or (f"input_{i}" if len(flat) > 1 else "input") for i, x in enumerate(flat)]
    for name in names:
        if names.count(name) > 1:
            raise errors.LayerError(
                f"pb.Model: two inputs have the name {name!r}; give one of them another name"
            )
    return names


def _fitting(name: str, value: Tensor, x: SymbolicTensor) -> Tensor:
    """A tensor as an input has it: numbers are converted to a wider kind."""
    shape = value.shape
    if len(shape) != len(x.shape) or any(
        size not in (None, n) for size, n in zip(x.shape, shape, strict=True)
    ):
        raise errors.ShapeError(
            f"the input {name!r} of the model has shape {x.shape}, got {shape}; None stands for "
            f"any size, and the first axis is that of the batch"
        )
    if value.dtype == x.dtype:
        return value
    if dtypes.kind(value.dtype) > dtypes.kind(x.dtype):
        raise errors.DTypeError(
            f"the input {name!r} of the model has dtype {x.dtype}, got {value.dtype}; convert the "
            f"data, or write pb.Input(..., dtype={str(value.dtype)!r})"
        )
    if dtypes.kind(x.dtype) == dtypes.INT and dtypes.promote_types(value.dtype, x.dtype) != x.dtype:
        raise errors.DTypeError(
            f"the input {name!r} of the model has dtype {x.dtype}, which does not hold all values "
            f"of {value.dtype}; write data.astype({x.dtype.name!r}) if it holds these, or "
            f"pb.Input(..., dtype={str(value.dtype)!r})"
        )
    return astype(value, x.dtype)


# Arguments as data --------------------------------------------------------------------------------


def _encoded(value: Any, places: Mapping[int, int]) -> list[Any]:
    """A value as a list: the name of its kind, and its parts."""

    def encode(part: Any) -> list[Any]:
        return _encoded(part, places)

    if isinstance(value, SymbolicTensor):
        return ["tensor", places[id(value)]]
    if value is None or type(value) in (bool, int, float, str):
        return ["value", value]
    if value is ...:
        return ["ellipsis"]
    if type(value) is Masked:
        return ["masked", *map(encode, value)]
    if isinstance(value, (tuple, list)):
        return ["tuple" if isinstance(value, tuple) else "list", *map(encode, value)]
    if isinstance(value, Mapping):
        return ["dict", *[[encode(key), encode(part)] for key, part in value.items()]]
    if isinstance(value, slice):
        return ["slice", *map(encode, (value.start, value.stop, value.step))]
    if isinstance(value, (np.dtype, dtypes.NamedDType)):
        return ["dtype", dtypes.as_dtype(value).name]
    if isinstance(value, np.generic) and value.dtype.kind in "biuf":
        return ["number", value.dtype.name, value.item()]
    if type(value) is Tensor or isinstance(value, (np.ndarray, np.generic)):
        array = value.numpy() if type(value) is Tensor else np.asarray(value)
        if array.size <= _LARGEST and array.dtype.kind in "biufV":
            plain = array.astype(dtypes.float64) if array.dtype.kind == "V" else array
            return ["array", array.dtype.name, plain.tolist()]
    raise errors.InputValueError(
        f"a call of the model has a {type(value).__name__} among its arguments, which a "
        f"configuration does not hold; make it a variable of a layer"
    )


def _decoded(data: Any, values: Any) -> Any:
    """The value that `_encoded` made a list of."""
    kind, *parts = data

    def decode(part: Any) -> Any:
        return _decoded(part, values)

    if kind == "tensor":
        return values[parts[0]]
    if kind == "value":
        return parts[0]
    if kind == "ellipsis":
        return ...
    if kind in ("tuple", "list"):
        return (tuple if kind == "tuple" else list)(map(decode, parts))
    if kind == "masked":
        return Masked(*map(decode, parts))
    if kind == "dict":
        return {decode(key): decode(part) for key, part in parts}
    if kind == "slice":
        return slice(*map(decode, parts))
    if kind == "dtype":
        return dtypes.as_dtype(parts[0])
    if kind == "number":
        return np.dtype(parts[0]).type(parts[1])
    if kind == "array":
        return from_any(np.asarray(parts[1], dtypes.as_dtype(parts[0])))
    raise ValueError(f"unknown kind {kind!r}")
