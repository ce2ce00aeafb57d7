"""What is done to the elements of a dataset on their way: its stages."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pullback import errors
from pullback.data.ahead import ParallelMapCursor, PrefetchCursor
from pullback.data.background import Threads
from pullback.data.caching import FileCursor, MemoryCursor
from pullback.data.combining import ConcatenateCursor, InterleaveCursor, ZipCursor
from pullback.data.pipeline import Pipeline, SharedProcesses, drawn_seed
from pullback.data.processes import check
from pullback.data.shuffling import BufferCursor
from pullback.data.slices import shuffled
from pullback.data.source import Cursor, Epoch
from pullback.data.stages import (
    BatchCursor,
    EnumerateCursor,
    FilterCursor,
    MapCursor,
    PaddedBatchCursor,
    RepeatCursor,
    ShardCursor,
    SkipCursor,
    TakeCursor,
    UnbatchCursor,
    WindowCursor,
    call_on_tensors,
)
from pullback.devices import as_device

if TYPE_CHECKING:
    from pullback.data.dataset import Dataset


class Transformations(Pipeline):
    """The stages of a dataset; each method gives another dataset."""

    # Order ---------------------------------------------------------------------------------------

    def shuffle(self, buffer_size: int | None = None, seed: int | None = None) -> Dataset:
        """The elements in random order, another one in each pass.

        Args:
            buffer_size: each element is drawn from so many that come next; None, or at least the
                size of the data, where elements have numbers, for orders that are all alike.
            seed: decides all orders; if None, one is drawn from the default generator.

        Raises:
            InputValueError: for a buffer below 1, or no size for data without numbers.
        """
        size = _at_least("shuffle", buffer_size, 1)
        elements = self._elements
        if elements is None and size is None:
            raise errors.InputValueError(
                "shuffle() without a size is for data whose elements have numbers, right after "
                "from_tensor_slices; elsewhere say how many elements to draw from"
            )

        def open_(epoch: Epoch, seed: int) -> Cursor:
            if elements is not None and (size is None or size >= elements.size):
                return shuffled(elements, seed, epoch)
            return BufferCursor(self.open(epoch), size, seed, epoch)

        seed = drawn_seed() if seed is None else int(seed)
        return self._stage(open_, lambda: len(self), seed=seed)

    def repeat(self, count: int | None = None) -> Dataset:
        """Pass after pass: `count` of them, or no end of them."""
        times = _at_least("repeat", count, 0)
        return self._stage(
            lambda epoch: RepeatCursor(self.open, epoch, times),
            None if count is None else lambda: count * len(self),
        )

    def concatenate(self, *others: Dataset) -> Dataset:
        """These elements, then those of other datasets."""
        datasets = (self, *others)
        return self._stage(
            lambda epoch: ConcatenateCursor(datasets, epoch),
            lambda: sum(len(dataset) for dataset in datasets),
            beside=others,
        )

    def zip(self, *others: Dataset) -> Dataset:
        """One element of this and of each other dataset, as a tuple; the shortest ends it.

        >>> numbers, names = pb.data.Dataset.range(3), ["a", "b"]
        >>> for number, name in numbers.zip(pb.data.Dataset.from_tensor_slices(names)):
        ...     print(int(number), name)
        0 a
        1 b
        """
        datasets = (self, *others)
        return self._stage(
            lambda epoch: ZipCursor([dataset.open(epoch) for dataset in datasets]),
            lambda: min(len(dataset) for dataset in datasets),
            beside=others,
        )

    def interleave(
        self, function: Callable[..., Dataset], *, cycle: int = 4, block: int = 1
    ) -> Dataset:
        """A dataset for each element, and elements of several of these in turns.

        Args:
            function: gives a dataset for an element; one that ends in `prefetch` reads ahead of
                its turn, in a thread of its own.
            cycle: how many datasets are read from at a time; 1 reads one after another.
            block: how many elements each gives in its turn.

        >>> def repeated(number):
        ...     return pb.data.Dataset.from_tensor_slices([int(number)] * 3)
        >>> [int(x) for x in pb.data.Dataset.range(3).interleave(repeated, cycle=2)]
        [0, 1, 0, 1, 0, 1, 2, 2, 2]
        """
        cycle, block = (
            _at_least("interleave", cycle, 1),
            _at_least("interleave", block, 1),
        )
        return self._stage(lambda epoch: InterleaveCursor(self.open, function, cycle, block, epoch))

    # One element after another -------------------------------------------------------------------

    def map(
        self,
        function: Callable[..., Any],
        *,
        parallel: int | None = None,
        processes: bool = False,
        seed: int | None = None,
    ) -> Dataset:
        """A function of each element; the parts of a tuple are its arguments.

        Args:
            function: what is called. What it draws from the default generator depends on what
                else does; what it draws from its `generator` (see `seed`) does not.
            parallel: how many elements are worked on at a time; the order stays.
            processes: whether in processes of their own, rather than in threads. The function is
                then one at the top of a module; it gets and gives NumPy arrays.
            seed: the function gets a `pb.Generator` as `generator` with each element, which this
                seed, the number of the pass and that of the element decide.

        >>> doubled = pb.data.Dataset.range(3).map(lambda x: 2 * x, parallel=2)
        >>> [int(x) for x in doubled]
        [0, 2, 4]

        Raises:
            InputTypeError: for a function that other processes cannot get.
        """
        count = _at_least("map", parallel, 1)
        shared: SharedProcesses | None = None
        if processes:
            check(function)
            count = count or os.cpu_count() or 1
            shared = SharedProcesses(function, count)

        def open_(epoch: Epoch, seed: int | None = None) -> Cursor:
            each = MapCursor(self.open(epoch), function, seed, epoch)
            if count is None:
                return each
            if shared is not None:
                return ParallelMapCursor(each, shared.hold(), 2 * count)
            call = functools.partial(call_on_tensors, function)
            return ParallelMapCursor(each, Threads(call, count, as_device(None)), 2 * count)

        return self._stage(open_, lambda: len(self), seed=seed)

    def filter(self, function: Callable[..., Any]) -> Dataset:
        """The elements for which a function is true; the parts of a tuple are its arguments."""
        return self._stage(lambda epoch: FilterCursor(self.open(epoch), function))

    def enumerate(self, start: int = 0) -> Dataset:
        """Pairs of the number of an element and the element."""
        return self._stage(
            lambda epoch: EnumerateCursor(self.open(epoch), start), lambda: len(self)
        )

    def take(self, count: int) -> Dataset:
        """The first elements of each pass."""
        limit = _at_least("take", count, 0)
        return self._stage(
            lambda epoch: TakeCursor(self.open(epoch), limit),
            lambda: min(limit, len(self)),
        )

    def skip(self, count: int) -> Dataset:
        """All but the first elements of each pass."""
        skipped = _at_least("skip", count, 0)
        return self._stage(
            lambda epoch: SkipCursor(self.open(epoch), skipped),
            lambda: max(len(self) - skipped, 0),
        )

    def shard(self, shards: int, shard: int) -> Dataset:
        """Every element whose number is `shard`, modulo `shards`: one part for each machine.

        Before `shuffle`, so that the parts have no element in common.

        >>> [int(x) for x in pb.data.Dataset.range(5).shard(2, 1)]
        [1, 3]

        Raises:
            InputValueError: unless 0 <= shard < shards.
        """
        if not 0 <= shard < shards:
            raise errors.InputValueError(f"of {shards} shards there is no number {shard}")
        return self._stage(
            lambda epoch: ShardCursor(self.open(epoch), shards, shard),
            lambda: (len(self) - shard + shards - 1) // shards,
        )

    # Several elements as one ---------------------------------------------------------------------

    def batch(self, size: int, *, drop_remainder: bool = False) -> Dataset:
        """Elements in groups of `size`, stacked; the last may be smaller, or is left out.

        Raises:
            InputValueError: for a size below 1.
            ShapeError: while iterating, for elements of different shapes.
        """
        _at_least("batch", size, 1)
        return self._stage(
            lambda epoch: BatchCursor(self.open(epoch), size, drop_remainder),
            lambda: _groups(len(self), size, drop_remainder),
        )

    def padded_batch(
        self,
        size: int,
        *,
        shapes: Sequence[Sequence[int | None]] | None = None,
        value: Any = 0,
        drop_remainder: bool = False,
    ) -> Dataset:
        """Elements of different sizes in groups, filled up behind and stacked.

        Args:
            size: how many elements make a batch.
            shapes: to which shape each part of an element is filled up, in order; None in a
                shape, or for `shapes`, stands for the longest in the batch.
            value: what is filled in: one, or a list with one for each part.
            drop_remainder: whether the last batch is left out if it is smaller.

        >>> rows = pb.data.Dataset.from_generator(lambda: [[1], [2, 3], [4, 5, 6]])
        >>> [batch.tolist() for batch in rows.padded_batch(2)]
        [[[1, 0], [2, 3]], [[4, 5, 6]]]

        Raises:
            InputValueError: for a size below 1.
            ShapeError: while iterating, for elements that do not go into their shape.
        """
        _at_least("padded_batch", size, 1)
        return self._stage(
            lambda epoch: PaddedBatchCursor(self.open(epoch), size, drop_remainder, shapes, value),
            lambda: _groups(len(self), size, drop_remainder),
        )

    def unbatch(self) -> Dataset:
        """The slices of each element along the first axes of its parts."""
        return self._stage(lambda epoch: UnbatchCursor(self.open(epoch)))

    def window(
        self, size: int, *, shift: int | None = None, drop_remainder: bool = True
    ) -> Dataset:
        """Elements that follow one another, stacked, from each place on.

        Args:
            size: how many elements make a window.
            shift: from one window's first element to the next one's; `size` if None.
            drop_remainder: whether windows at the end that are smaller are left out.

        >>> [w.tolist() for w in pb.data.Dataset.range(4).window(3, shift=1)]
        [[0, 1, 2], [1, 2, 3]]

        Raises:
            InputValueError: for a size or shift below 1.
        """
        _at_least("window", size, 1)
        by = size if shift is None else _at_least("window", shift, 1)
        return self._stage(lambda epoch: WindowCursor(self.open(epoch), size, by, drop_remainder))

    # Working ahead, and keeping ------------------------------------------------------------------

    def prefetch(self, size: int = 2) -> Dataset:
        """Up to `size` elements are made ahead, in another thread.

        What fails there is raised where the element is asked for, and ends the pass.
        """
        _at_least("prefetch", size, 1)
        return self._stage(
            lambda epoch: PrefetchCursor(self.open(epoch), size, as_device(None)),
            lambda: len(self),
        )

    def cache(self, path: str | os.PathLike[str] | None = None) -> Dataset:
        """The elements are made once, and kept: later passes give the very same ones.

        They are kept when a pass has come to its end. Shuffle afterwards for another order in
        each pass.

        Args:
            path: a file, for programs that come later as well; it is used if it exists. None
                keeps them in memory.

        Raises:
            DataError: while iterating, for a file that is damaged or is no cache.
        """
        if path is not None:
            file = Path(path)
            return self._stage(
                lambda epoch: FileCursor(lambda: self.open((0,)), file),
                lambda: len(self),
            )
        kept: list[list[Any]] = []
        return self._stage(
            lambda epoch: MemoryCursor(lambda: self.open((0,)), kept),
            lambda: len(self),
        )


def _at_least(what: str, value: int | None, least: int) -> Any:
    if value is not None and value < least:
        raise errors.InputValueError(f"{what} takes a number from {least} on, got {value}")
    return value


def _groups(count: int, size: int, drop_remainder: bool) -> int:
    whole, rest = divmod(count, size)
    return whole + bool(rest and not drop_remainder)
