"""`Dataset`: where data come from, and what is done to them on the way."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pullback import errors
from pullback.data.iterator import Iterator
from pullback.data.slices import BufferCursor, SliceCursor, Slices, shuffled
from pullback.data.source import Cursor, Epoch
from pullback.data.stages import (
    BatchCursor,
    EnumerateCursor,
    FilterCursor,
    MapCursor,
    PrefetchCursor,
    RepeatCursor,
    SkipCursor,
    TakeCursor,
)
from pullback.devices import as_device
from pullback.random import default_generator

__all__ = ["Dataset"]


class Dataset:
    """A pipeline of stages; iterating over it gives its elements as tensors.

    Each iteration is a pass of its own: a shuffled dataset comes in another order, which its seed
    and the number of the pass decide. The number of passes begun is part of a checkpoint that the
    dataset is given to, the position within a pass part of one that `iter(dataset)` is given to.

    >>> dataset = pb.data.Dataset.from_tensor_slices([1, 2, 3, 4, 5]).batch(2)
    >>> [batch.tolist() for batch in dataset]
    [[1, 2], [3, 4], [5]]
    """

    opaque_state = True

    def __init__(self, *sources: Dataset) -> None:
        self._sources = sources
        self._passes = 0

    # What a source or a stage brings -------------------------------------------------------------

    def open(self, epoch: Epoch) -> Cursor:
        """A cursor at the beginning of one pass."""
        raise NotImplementedError(f"{type(self).__name__}.open")

    def __len__(self) -> int:
        raise errors.InputTypeError(
            f"the number of elements of {type(self).__name__.lower()} data is not known "
            f"beforehand; iterate over them"
        )

    # Sources -------------------------------------------------------------------------------------

    @staticmethod
    def from_tensor_slices(tensors: Any) -> Dataset:
        """The slices of arrays along their first axes.

        Args:
            tensors: an array, a list, or a structure of them: a tuple is a tuple of arrays, a
                list is one array. Strings are taken as well: a batch of them is a `StringTensor`,
                one is a Python string. Arrays are not copied: do not change them.

        >>> pairs = pb.data.Dataset.from_tensor_slices(([1.0, 2.0], ["cat", "dog"]))
        >>> [(float(x), str(name)) for x, name in pairs]
        [(1.0, 'cat'), (2.0, 'dog')]

        Raises:
            ShapeError: when the first axes differ in size.
        """
        return _Slices(Slices(tensors))

    @staticmethod
    def range(*args: int) -> Dataset:
        """The integers that Python's `range` gives for the same arguments.

        >>> [int(i) for i in pb.data.Dataset.range(2, 5)]
        [2, 3, 4]
        """
        return Dataset.from_tensor_slices(list(range(*args)))

    # Stages --------------------------------------------------------------------------------------

    def shuffle(self, buffer_size: int | None = None, seed: int | None = None) -> Dataset:
        """The elements in random order, another one in each pass.

        Args:
            buffer_size: each element is drawn from so many that come next; None, or at least the
                size of the data, where they are in memory, for orders that are all alike.
            seed: decides all orders; if None, one is drawn from the default generator.

        Raises:
            InputValueError: for a buffer below 1, or no size for data that are not in memory.
        """
        return _Shuffle(self, buffer_size, seed)

    def repeat(self, count: int | None = None) -> Dataset:
        """Pass after pass: `count` of them, or no end of them."""
        return _Repeat(self, _at_least("repeat", count, 0))

    def batch(self, size: int, *, drop_remainder: bool = False) -> Dataset:
        """Elements in groups of `size`, stacked; the last may be smaller, or is left out.

        Raises:
            InputValueError: for a size below 1.
        """
        return _Batch(self, _at_least("batch", size, 1), drop_remainder)

    def map(self, function: Callable[..., Any]) -> Dataset:
        """A function of each element; the parts of a tuple are its arguments.

        >>> doubled = pb.data.Dataset.range(3).map(lambda x: 2 * x)
        >>> [int(x) for x in doubled]
        [0, 2, 4]
        """
        return _Map(self, function)

    def filter(self, function: Callable[..., Any]) -> Dataset:
        """The elements for which a function is true; the parts of a tuple are its arguments."""
        return _Filter(self, function)

    def take(self, count: int) -> Dataset:
        """The first elements of each pass."""
        return _Take(self, _at_least("take", count, 0))

    def skip(self, count: int) -> Dataset:
        """All but the first elements of each pass."""
        return _Skip(self, _at_least("skip", count, 0))

    def enumerate(self, start: int = 0) -> Dataset:
        """Pairs of the number of an element and the element."""
        return _Enumerate(self, start)

    def prefetch(self, size: int = 2) -> Dataset:
        """Up to `size` elements are made ahead, in another thread."""
        return _Prefetch(self, _at_least("prefetch", size, 1))

    # Iterating -----------------------------------------------------------------------------------

    def __iter__(self) -> Iterator:
        self._passes += 1
        return Iterator(self, (self._passes - 1,))

    def seeds(self) -> list[int]:
        """The seeds of all stages, source first."""
        return [seed for source in self._sources for seed in source.seeds()] + self._own_seeds()

    def set_seeds(self, seeds: Sequence[int]) -> None:
        """Sets the seeds of all stages.

        Raises:
            InputValueError: when there are more or fewer than stages that have one.
        """
        if len(seeds) != len(self.seeds()):
            raise errors.InputValueError(
                f"the dataset has {len(self.seeds())} stages with a seed, and {len(seeds)} were "
                f"saved; build it with the stages that it was saved with"
            )
        for source in self._sources:
            count = len(source.seeds())
            source.set_seeds(seeds[:count])
            seeds = seeds[count:]
        self._take_seeds(seeds)

    def _own_seeds(self) -> list[int]:
        return []

    def _take_seeds(self, seeds: Sequence[int]) -> None:
        assert not seeds

    def checkpoint_state(self) -> Mapping[str, Any]:
        """How many passes have begun, and the seeds."""
        return {"passes": self._passes, "seeds": self.seeds()}

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Takes over what `checkpoint_state` gave."""
        self.set_seeds(state["seeds"])
        self._passes = int(state["passes"])


def _at_least(what: str, value: int | None, least: int) -> Any:
    if value is not None and value < least:
        raise errors.InputValueError(f"{what} takes a number from {least} on, got {value}")
    return value


def _drawn_seed() -> int:
    # From the default generator: `pb.random.seed` decides the order of data as well.
    return default_generator.split(1)[0].state[0] % (1 << 63)


class _Slices(Dataset):
    def __init__(self, slices: Slices) -> None:
        super().__init__()
        self.slices = slices

    def open(self, epoch: Epoch) -> Cursor:
        return SliceCursor(self.slices)

    def __len__(self) -> int:
        return self.slices.size


class _Shuffle(Dataset):
    def __init__(self, source: Dataset, buffer_size: int | None, seed: int | None) -> None:
        super().__init__(source)
        self.source = source
        if buffer_size is None and not isinstance(source, _Slices):
            raise errors.InputValueError(
                "shuffle() without a size is for data in memory, right after "
                "from_tensor_slices; elsewhere say how many elements to draw from"
            )
        self.buffer_size = _at_least("shuffle", buffer_size, 1)
        self.seed = _drawn_seed() if seed is None else int(seed)

    def open(self, epoch: Epoch) -> Cursor:
        source, size = self.source, self.buffer_size
        if isinstance(source, _Slices) and (size is None or size >= len(source)):
            return shuffled(source.slices, self.seed, epoch)
        return BufferCursor(source.open(epoch), size, self.seed, epoch)

    def __len__(self) -> int:
        return len(self.source)

    def _own_seeds(self) -> list[int]:
        return [self.seed]

    def _take_seeds(self, seeds: Sequence[int]) -> None:
        (self.seed,) = seeds


class _Repeat(Dataset):
    def __init__(self, source: Dataset, count: int | None) -> None:
        super().__init__(source)
        self.source, self.count = source, count

    def open(self, epoch: Epoch) -> Cursor:
        return RepeatCursor(self.source.open, epoch, self.count)

    def __len__(self) -> int:
        return super().__len__() if self.count is None else self.count * len(self.source)


class _Batch(Dataset):
    def __init__(self, source: Dataset, size: int, drop_remainder: bool) -> None:
        super().__init__(source)
        self.source, self.size, self.drop_remainder = source, size, drop_remainder

    def open(self, epoch: Epoch) -> Cursor:
        return BatchCursor(self.source.open(epoch), self.size, self.drop_remainder)

    def __len__(self) -> int:
        whole, rest = divmod(len(self.source), self.size)
        return whole + bool(rest and not self.drop_remainder)


class _Map(Dataset):
    def __init__(self, source: Dataset, function: Callable[..., Any]) -> None:
        super().__init__(source)
        self.source, self.function = source, function

    def open(self, epoch: Epoch) -> Cursor:
        return MapCursor(self.source.open(epoch), self.function)

    def __len__(self) -> int:
        return len(self.source)


class _Filter(Dataset):
    def __init__(self, source: Dataset, function: Callable[..., Any]) -> None:
        super().__init__(source)
        self.source, self.function = source, function

    def open(self, epoch: Epoch) -> Cursor:
        return FilterCursor(self.source.open(epoch), self.function)


class _Take(Dataset):
    def __init__(self, source: Dataset, count: int) -> None:
        super().__init__(source)
        self.source, self.count = source, count

    def open(self, epoch: Epoch) -> Cursor:
        return TakeCursor(self.source.open(epoch), self.count)

    def __len__(self) -> int:
        return min(self.count, len(self.source))


class _Skip(Dataset):
    def __init__(self, source: Dataset, count: int) -> None:
        super().__init__(source)
        self.source, self.count = source, count

    def open(self, epoch: Epoch) -> Cursor:
        return SkipCursor(self.source.open(epoch), self.count)

    def __len__(self) -> int:
        return max(len(self.source) - self.count, 0)


class _Enumerate(Dataset):
    def __init__(self, source: Dataset, start: int) -> None:
        super().__init__(source)
        self.source, self.start = source, start

    def open(self, epoch: Epoch) -> Cursor:
        return EnumerateCursor(self.source.open(epoch), self.start)

    def __len__(self) -> int:
        return len(self.source)


class _Prefetch(Dataset):
    def __init__(self, source: Dataset, size: int) -> None:
        super().__init__(source)
        self.source, self.size = source, size

    def open(self, epoch: Epoch) -> Cursor:
        return PrefetchCursor(self.source.open(epoch), self.size, as_device(None))

    def __len__(self) -> int:
        return len(self.source)
