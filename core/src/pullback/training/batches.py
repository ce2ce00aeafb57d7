"""Batches for training, from arrays or iterables: (inputs, targets, weights), pass after pass."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import NoneType
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from pullback import errors
from pullback._dispatch.convert import from_any
from pullback._once import once_for_each
from pullback._tree import leaves
from pullback.data import Dataset
from pullback.shapes import check_number
from pullback.state import Stateful
from pullback.strings import StringTensor
from pullback.tensor import Tensor
from pullback.training.types import Structure

__all__ = ["Batch", "Batches", "Columns", "arguments_of", "of_arrays", "split"]

#: The columns of batches that are dicts: the inputs, the targets and the weights.
Columns: TypeAlias = "Sequence[str | Sequence[str] | None]"


class Batch(NamedTuple):
    """The arguments of one step."""

    inputs: Structure
    targets: Structure = None
    weights: Structure = None

    @property
    def size(self) -> int:
        """The number of items: the size of the first axis."""
        inputs = self.inputs
        if type(inputs) is Tensor and (whole := inputs._array.shape):
            return int(whole[0])
        for part in (inputs, self.targets):
            for leaf in leaves(part):
                shape = getattr(leaf, "shape", ())
                if shape:
                    return int(shape[0])
        return 1


# ---------------------------------------------------------------------------------------------
# Arrays.


def is_batches(x: object) -> bool:
    """True if x yields batches, rather than being the data itself."""
    if isinstance(x, list):
        return bool(x) and isinstance(x[0], (tuple, dict))
    if isinstance(x, (tuple, dict)) or hasattr(type(x), "__array__"):
        return False
    return isinstance(x, (Dataset, Iterable)) or callable(x)


def of_arrays(
    name: str,
    parts: Sequence[Structure],
    batch_size: int,
    *,
    shuffle: bool = False,
    validation_split: float = 0.0,
) -> tuple[Dataset, Dataset | None]:
    """Returns arrays as a dataset of batches, and a fraction of their items as another.

    Args:
        name: the method that got them, for messages.
        parts: inputs, targets and weights; those at the end may be None.
        batch_size: the number of items in a batch; the last batch may be smaller.
        shuffle: True for a new order in each pass.
        validation_split: the fraction of the items, from the end, for the second dataset.

    Raises:
        InputValueError: if there are no items.
        ShapeError: if the parts differ in their number of items.
    """
    present = list(parts)
    while present and present[-1] is None:
        present.pop()
    if not present:
        raise errors.InputTypeError(f"{name} got None for x; pass arrays or a dataset")
    check_number(validation_split, "validation_split")
    if any(part is None for part in present):
        raise errors.InputValueError(f"{name} got weights without targets; pass y as well")
    structure = _mapped(_as_array, tuple(present))
    _check_sizes(name, parts, structure)
    sizes = [len(leaf) for leaf in leaves(structure) if leaf.ndim]
    if not sizes or not sizes[0]:
        raise errors.InputValueError(f"{name} got no data: x is empty; pass at least one item")
    whole = int(sizes[0])
    kept = whole - round(whole * validation_split)
    if not 0 < kept <= whole or not 0 <= validation_split < 1:
        raise errors.InputValueError(
            f"validation_split={validation_split} of {whole} items leaves {kept} to train on; "
            f"it must be a fraction from 0 to less than 1"
        )
    if not validation_split:
        return _batched(structure, batch_size, shuffle), None
    # Split before shuffling, so that the split does not depend on the order of the pass.
    first = _mapped(lambda array: array[:kept], structure)
    last = _mapped(lambda array: array[kept:], structure)
    if kept == whole:
        raise errors.InputValueError(
            f"validation_split={validation_split} of {whole} items leaves no validation items; "
            f"use a larger fraction, or validation_data"
        )
    return _batched(first, batch_size, shuffle), _batched(last, batch_size, False)


def _check_sizes(name: str, parts: Sequence[Structure], structure: Structure) -> None:
    """Checks that all arrays have as many items.

    Raises:
        ShapeError: if they have not; names the arguments.
    """
    names = ("x", "y", "sample_weight")
    counts = [sorted({len(leaf) for leaf in leaves(part) if leaf.ndim}) for part in structure]
    if len({size for sizes in counts for size in sizes}) < 2:
        return
    described = ", ".join(
        f"{argument} has {' and '.join(map(str, sizes))}"
        for argument, sizes in zip(names, counts, strict=False)
    )
    x = parts[0]
    several = isinstance(x, list) and len(x) > 1 and hasattr(type(x[0]), "__array__")
    fix = (
        "a list is one array: give several inputs as a tuple, x=(first, second)"
        if several
        else "pass as many items of each"
    )
    raise errors.ShapeError(f"{name}: the numbers of items differ: {described}; {fix}")


def _batched(structure: Structure, batch_size: int, shuffle: bool) -> Dataset:
    dataset = Dataset.from_tensor_slices(structure)
    return (dataset.shuffle() if shuffle else dataset).batch(batch_size)


def _mapped(function: Callable[[Any], object], structure: Structure) -> Structure:
    """Applies a function to each array; a list is one array, as for datasets."""
    if isinstance(structure, tuple):
        items = [_mapped(function, item) for item in structure]
        return type(structure)(*items) if hasattr(structure, "_fields") else tuple(items)
    if isinstance(structure, dict):
        return {key: _mapped(function, value) for key, value in structure.items()}
    return function(structure)


def _as_array(value: object) -> np.ndarray[Any, Any]:
    if isinstance(value, np.ndarray):
        return value
    # A list of Python numbers gets the default dtype, as everywhere.
    value = from_any(value) if _is_numbers(value) else value
    try:
        return np.asarray(value)
    except ValueError:
        raise errors.InputValueError(
            f"a {type(value).__name__} is one array, and its items have different shapes; give "
            f"several inputs as a tuple, x=(first, second)"
        ) from None


def _is_numbers(value: object) -> bool:
    while isinstance(value, list) and value:
        value = value[0]
    return isinstance(value, (bool, int, float))


# ---------------------------------------------------------------------------------------------
# Parts.


@once_for_each
def _required(call: Callable[..., Any]) -> tuple[str, ...]:
    """The names of the inputs that a class's `call` must have."""
    kinds = inspect.Parameter
    parameters = [*inspect.signature(call).parameters.values()][1:]
    return tuple(
        parameter.name
        for parameter in parameters
        if parameter.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)
        and parameter.default is kinds.empty
        and parameter.name != "training"
    )


def arguments_of(model: object, inputs: Structure) -> Sequence[Structure]:
    """The arguments that a model is called with for the inputs of a batch.

    They are one argument, unless `call` takes several: `def call(self, image, text)`.

    Raises:
        InputValueError: for a dict with other names, or another number of inputs.
    """
    call = getattr(type(model), "call", None)
    names = () if call is None else _required(call)
    if len(names) < 2:
        return (inputs,)
    listed = ", ".join(map(repr, names))
    if not isinstance(inputs, (tuple, Mapping)):
        raise errors.InputValueError(
            f"{type(model).__name__}.call takes the inputs {listed}, got one "
            f"{type(inputs).__name__}; pass them as a tuple in this order, or as a dict by name"
        )
    if len(inputs) != len(names) or (isinstance(inputs, Mapping) and {*inputs} != {*names}):
        got = ", ".join(map(repr, inputs)) if isinstance(inputs, Mapping) else str(len(inputs))
        raise errors.InputValueError(
            f"{type(model).__name__}.call takes the inputs {listed}, got {got}; pass them as a "
            f"tuple in this order, or as a dict by name"
        )
    return [inputs[name] for name in names] if isinstance(inputs, Mapping) else inputs


def split(element: Structure, columns: Columns | None = None) -> Batch:
    """Splits an element of an iterable into the parts of a batch.

    A tuple, or a list of arrays, is (inputs,), (inputs, targets) or (inputs, targets, weights);
    anything else is inputs.

    Raises:
        InputValueError: for more than three parts, or columns that do not exist.
    """
    if columns is None and type(element) is tuple and len(element) == 2:
        inputs, targets = element
        if type(inputs) is Tensor and type(targets) is Tensor:
            return tuple.__new__(Batch, (inputs, targets, None))  # in C
    if columns is not None:
        return Batch(*[_column(element, names) for names in columns])
    parts = isinstance(element, tuple) or (
        isinstance(element, list) and any(hasattr(type(part), "__array__") for part in element)
    )
    if not parts:
        return Batch(_tensors(element))
    if not 1 <= len(element) <= 3:
        raise errors.InputValueError(
            f"a batch must be (inputs, targets, weights), or the first of these, got "
            f"{len(element)} parts; write several inputs as a tuple: ((first, second), targets)"
        )
    return Batch(*[_tensors(part) for part in element])


def _column(element: Structure, names: str | Sequence[str] | None) -> Structure:
    if names is None:
        return None
    if not isinstance(element, Mapping):
        raise errors.InputTypeError(
            f"columns are for batches that are dicts, got a {type(element).__name__}; leave "
            f"columns out"
        )
    if not isinstance(names, str):
        return {name: _column(element, name) for name in names}
    if names not in element:
        raise errors.InputValueError(
            f"unknown column {names!r}; a batch has {', '.join(map(repr, element))}"
        )
    return _tensors(element[names])


def _tensors(value: Structure) -> Structure:
    """Converts arrays of other libraries to tensors; a list of numbers is one array."""
    if type(value) is Tensor or type(value) is StringTensor or value is None:
        return value
    if isinstance(value, tuple):
        items = [_tensors(item) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    if isinstance(value, Mapping):
        return {key: _tensors(item) for key, item in value.items()}
    if isinstance(value, list) and not _is_numbers(value):
        return [_tensors(item) for item in value]
    if hasattr(type(value), "__array__") or isinstance(value, (list, int, float)):
        return from_any(value)
    return value


# ---------------------------------------------------------------------------------------------
# Passes.


class Batches:
    """Passes over a source of batches; the position in a pass is part of its state.

    Args:
        source: a dataset or another iterable of batches, or a function that returns one for each
            pass. An iterator, such as a generator, has one pass.
        columns: the columns of batches that are dicts.
        endless: True to start the next pass at the end of one, for a fixed number of steps an
            epoch.
    """

    opaque_state = True

    def __init__(
        self, source: Any, columns: Columns | None = None, *, endless: bool = False
    ) -> None:
        self.source = source
        if not isinstance(columns, (list, tuple, NoneType)):
            raise errors.InputTypeError(
                f"columns must be a list of names, such as ['x', 'y'], got {type(columns).__name__}"
            )
        self.columns = None if columns is None else tuple(columns)
        self.endless = endless
        #: The number of batches since the iterator was made.
        self.yielded = 0
        #: True if the pass is over, and no other has begun.
        self.ended = False
        self._iterator: Iterator[Structure] | None = None
        self._ahead: list[Structure] = []

    @property
    def size(self) -> int | None:
        """The number of batches in a pass, or None if it is not known."""
        try:
            return len(self.source)
        except TypeError:
            return None

    @property
    def once(self) -> bool:
        """True if the source can be iterated over only once."""
        return hasattr(self.source, "__next__")

    def begin(self) -> None:
        """Begins a pass, or goes on with that of an endless source."""
        # A pass without batches so far was opened to look ahead.
        if self._iterator is None or (self.yielded and not (self.endless or self.once)):
            self._open()
        self.ended = False

    def _open(self) -> None:
        self.close()
        source = self.source
        if callable(source) and not hasattr(source, "__iter__"):
            source = source()
        if not hasattr(type(source), "__iter__") and not hasattr(type(source), "__getitem__"):
            raise errors.InputTypeError(
                f"batches come from a dataset, an iterable, or a function that returns one, got "
                f"{type(source).__name__}"
            )
        self._iterator = iter(source)
        self.yielded = 0
        self._ahead = []

    def next(self) -> Batch:
        """Returns the next batch.

        Raises:
            StopIteration: at the end of the pass.
        """
        if self.ended:
            raise StopIteration
        if self._iterator is None:
            self._open()
        try:
            element = self._next()
        except StopIteration:
            if not self.endless or self.once or not self.yielded:
                self.ended = True
                raise
            self._open()
            element = self._next()
        self.yielded += 1
        return split(element, self.columns)

    def _next(self) -> Structure:
        assert self._iterator is not None
        return self._ahead.pop() if self._ahead else next(self._iterator)

    def peek(self) -> Batch:
        """Returns the next batch without consuming it.

        Raises:
            StopIteration: if there is none.
        """
        if self._iterator is None:
            self._open()
        element = self._next()
        self._ahead.append(element)
        return split(element, self.columns)

    def close(self) -> None:
        """Releases the iterator, and its threads."""
        close = getattr(self._iterator, "close", None)
        if close is not None and not self.once:
            close()
        self._iterator = None

    # State ---------------------------------------------------------------------------------------

    def checkpoint_state(self) -> Mapping[str, Any]:
        """Returns the position. Sources other than datasets are read again up to it."""
        iterator = None if self._iterator is self.source else self._iterator
        return {
            "given": self.yielded,
            "ended": self.ended,
            "open": self._iterator is not None,
            "source": _state(self.source),
            "iterator": _state(iterator),
        }

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Goes to a position from `checkpoint_state`."""
        yielded = int(state["given"])
        if state["open"] and (self.once or not state["ended"]):
            if state["iterator"] is not None:
                self._open()
                iterator = self._iterator
                assert isinstance(iterator, Stateful)
                iterator.restore_state(state["iterator"])
            elif state["source"] is None:
                self._skip(yielded)
        if state["source"] is not None:
            self.source.restore_state(state["source"])
            if self._iterator is self.source:
                self._ahead = []
        self.yielded = yielded
        self.ended = bool(state["ended"])

    def _skip(self, count: int) -> None:
        if not self.once or self._iterator is None:
            self._open()
        for done in range(count):
            try:
                self._next()
            except StopIteration:
                raise errors.TrainingError(
                    f"the data end after {done} batches, but training was saved after {count}; "
                    f"resume with the same data"
                ) from None


def _state(value: object) -> Mapping[str, Any] | None:
    return value.checkpoint_state() if isinstance(value, Stateful) else None
