"""Batches for training, from whatever gives them: (inputs, targets, weights), pass after pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from pullback import errors
from pullback._dispatch.convert import from_any
from pullback._tree import leaves
from pullback.data import Dataset
from pullback.tensor import Tensor

__all__ = ["Batch", "Batches", "Columns", "of_arrays", "split"]

#: Which columns of batches that are dicts stand for the inputs, the targets and the weights.
Columns: TypeAlias = "Sequence[str | Sequence[str] | None]"


class Batch(NamedTuple):
    """What one step takes."""

    inputs: Any
    targets: Any = None
    weights: Any = None

    @property
    def size(self) -> int:
        """The number of items: the size of the first axis."""
        for part in (self.inputs, self.targets):
            for leaf in leaves(part):
                shape = getattr(leaf, "shape", ())
                if shape:
                    return int(shape[0])
        return 1


# ---------------------------------------------------------------------------------------------
# Arrays.


def is_batches(x: Any) -> bool:
    """Whether x gives batches, rather than being the data itself."""
    if isinstance(x, list):
        return bool(x) and isinstance(x[0], (tuple, dict))
    if isinstance(x, (tuple, dict)) or hasattr(type(x), "__array__"):
        return False
    return isinstance(x, (Dataset, Iterable)) or callable(x)


def of_arrays(
    name: str,
    parts: Sequence[Any],
    batch_size: int,
    *,
    shuffle: bool = False,
    share: float = 0.0,
) -> tuple[Dataset, Dataset | None]:
    """Arrays as a dataset of batches, and the last `share` of their items as another.

    Args:
        name: the method that got them, for messages.
        parts: inputs, targets and weights; those at the end may be None.
        batch_size: items in a batch; the last batch may be smaller.
        shuffle: whether each pass is in an order of its own.
        share: of the items, from the end; they are in none of the first dataset's batches.

    Raises:
        InputValueError: when there are no items.
        ShapeError: when there are not as many of each part.
    """
    given = list(parts)
    while given[-1] is None:
        given.pop()
    if any(part is None for part in given):
        raise errors.InputValueError(f"{name} got weights and no targets; give y as well")
    structure = _mapped(_as_array, tuple(given))
    sizes = [len(leaf) for leaf in leaves(structure) if leaf.ndim]
    if not sizes or not sizes[0]:
        raise errors.InputValueError(f"{name} got no data: x holds no items")
    whole = int(sizes[0])
    kept = whole - round(whole * share)
    if not 0 < kept <= whole or not 0 <= share < 1:
        raise errors.InputValueError(
            f"validation_split={share} of {whole} items leaves {kept} to train on; "
            f"it is a share from 0 to less than 1"
        )
    if not share:
        return _batched(structure, batch_size, shuffle), None
    # Before they are shuffled: what is held out must not depend on the order of the pass.
    first = _mapped(lambda array: array[:kept], structure)
    last = _mapped(lambda array: array[kept:], structure)
    if kept == whole:
        raise errors.InputValueError(f"validation_split={share} of {whole} items is none of them")
    return _batched(first, batch_size, shuffle), _batched(last, batch_size, False)


def _batched(structure: Any, batch_size: int, shuffle: bool) -> Dataset:
    dataset = Dataset.from_tensor_slices(structure)
    return (dataset.shuffle() if shuffle else dataset).batch(batch_size)


def _mapped(function: Callable[[Any], Any], structure: Any) -> Any:
    """A function of each array; a list is one array, as for datasets."""
    if isinstance(structure, tuple):
        items = [_mapped(function, item) for item in structure]
        return type(structure)(*items) if hasattr(structure, "_fields") else tuple(items)
    if isinstance(structure, dict):
        return {key: _mapped(function, value) for key, value in structure.items()}
    return function(structure)


def _as_array(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value
    # A list of Python numbers gets the dtype that it has everywhere.
    return np.asarray(from_any(value) if _numbers(value) else value)


def _numbers(value: Any) -> bool:
    while isinstance(value, list) and value:
        value = value[0]
    return isinstance(value, (bool, int, float))


# ---------------------------------------------------------------------------------------------
# Parts.


def split(element: Any, columns: Columns | None = None) -> Batch:
    """The parts of what an iterable gave.

    A tuple, or a list of arrays, is (inputs,), (inputs, targets) or (inputs, targets, weights);
    anything else is inputs.

    Raises:
        InputValueError: for more than three parts, or columns that are not there.
    """
    if columns is not None:
        return Batch(*[_column(element, names) for names in columns])
    parts = isinstance(element, tuple) or (
        isinstance(element, list) and any(hasattr(type(part), "__array__") for part in element)
    )
    if not parts:
        return Batch(_tensors(element))
    if not 1 <= len(element) <= 3:
        raise errors.InputValueError(
            f"a batch is (inputs, targets, weights) or the first of these, got {len(element)} "
            f"parts; several inputs are a tuple of their own: ((first, second), targets)"
        )
    return Batch(*[_tensors(part) for part in element])


def _column(element: Any, names: str | Sequence[str] | None) -> Any:
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
            f"a batch has no column {names!r}; it has {', '.join(map(repr, element))}"
        )
    return _tensors(element[names])


def _tensors(value: Any) -> Any:
    """Arrays of other libraries as tensors; a list of numbers is one array."""
    if type(value) is Tensor or value is None:
        return value
    if isinstance(value, tuple):
        items = [_tensors(item) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    if isinstance(value, Mapping):
        return {key: _tensors(item) for key, item in value.items()}
    if isinstance(value, list) and not _numbers(value):
        return [_tensors(item) for item in value]
    if hasattr(type(value), "__array__") or isinstance(value, (list, int, float)):
        return from_any(value)
    return value


# ---------------------------------------------------------------------------------------------
# Passes.


class Batches:
    """Passes over a source of batches; the position in a pass is part of its state.

    Args:
        source: a dataset or another iterable of batches, or a function that gives one for each
            pass. An iterator, such as a generator, has one pass.
        columns: for batches that are dicts.
        endless: whether a pass follows another without an end, for so many steps an epoch.
    """

    opaque_state = True

    def __init__(
        self, source: Any, columns: Columns | None = None, *, endless: bool = False
    ) -> None:
        self.source = source
        self.columns = None if columns is None else tuple(columns)
        self.endless = endless
        #: Batches given since the iterator was made.
        self.given = 0
        #: Whether the pass is over, and no other has begun.
        self.ended = False
        self._iterator: Iterator[Any] | None = None
        self._ahead: list[Any] = []

    @property
    def size(self) -> int | None:
        """How many batches a pass has, where that is known."""
        try:
            return len(self.source)
        except TypeError:
            return None

    @property
    def once(self) -> bool:
        """Whether the source can be gone through only once."""
        return hasattr(self.source, "__next__")

    def begin(self) -> None:
        """Begins a pass; the one that an endless source is in goes on."""
        # One from which nothing has been taken yet was opened to look ahead.
        if self._iterator is None or (self.given and not (self.endless or self.once)):
            self._open()
        self.ended = False

    def _open(self) -> None:
        self.close()
        source = self.source
        if callable(source) and not hasattr(source, "__iter__"):
            source = source()
        self._iterator = iter(source)
        self.given = 0
        self._ahead = []

    def next(self) -> Batch:
        """The next batch.

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
            if not self.endless or self.once or not self.given:
                self.ended = True
                raise
            self._open()
            element = self._next()
        self.given += 1
        return split(element, self.columns)

    def _next(self) -> Any:
        assert self._iterator is not None
        return self._ahead.pop() if self._ahead else next(self._iterator)

    def peek(self) -> Batch:
        """The next batch, which stays the next one.

        Raises:
            StopIteration: when there is none.
        """
        if self._iterator is None:
            self._open()
        element = self._next()
        self._ahead.append(element)
        return split(element, self.columns)

    def close(self) -> None:
        """Lets go of what the iterator holds, such as threads."""
        close = getattr(self._iterator, "close", None)
        if close is not None and not self.once:
            close()
        self._iterator = None

    # State ---------------------------------------------------------------------------------------

    def checkpoint_state(self) -> Mapping[str, Any]:
        """The position; that of datasets is exact, others are read again up to it."""
        iterator = None if self._iterator is self.source else self._iterator
        return {
            "given": self.given,
            "ended": self.ended,
            "open": self._iterator is not None,
            "source": _state(self.source),
            "iterator": _state(iterator),
        }

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Goes to a position that `checkpoint_state` gave."""
        given = int(state["given"])
        if state["open"] and (self.once or not state["ended"]):
            if state["iterator"] is not None:
                self._open()
                iterator: Any = self._iterator
                iterator.restore_state(state["iterator"])
            elif state["source"] is None:
                self._skip(given)
        if state["source"] is not None:
            self.source.restore_state(state["source"])
            if self._iterator is self.source:
                self._ahead = []
        self.given = given
        self.ended = bool(state["ended"])

    def _skip(self, count: int) -> None:
        if not self.once or self._iterator is None:
            self._open()
        for done in range(count):
            try:
                self._next()
            except StopIteration:
                raise errors.TrainingError(
                    f"the data end after {done} batches, and training was saved after {count}; "
                    f"resume with the data that it was begun with"
                ) from None


def _state(thing: Any) -> Mapping[str, Any] | None:
    return thing.checkpoint_state() if hasattr(thing, "checkpoint_state") else None
