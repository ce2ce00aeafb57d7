"""`Dataset`: a source of elements, and the stages that they pass through.

One class holds sources, stages, seeds and state: every stage is a method that returns a dataset,
so that calls can be chained.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

from pullback import errors
from pullback._replacing import as_path
from pullback.data import iterables, lengths, opening
from pullback.data import processes as worker_processes
from pullback.data.ahead import PrefetchCursor
from pullback.data.caching import CacheCursor, MemoryCursor
from pullback.data.calls import check_takes_generator
from pullback.data.combining import ConcatenateCursor, InterleaveCursor
from pullback.data.elements import Element
from pullback.data.example import Feature, checked_features
from pullback.data.files import Files, LinesCursor, check_compression, find
from pullback.data.iterator import Iterator
from pullback.data.pickling import Pickled, check
from pullback.data.slices import IndexCursor, Indexed, Items, Slices, integers
from pullback.data.source import Cursor, Epoch, at_least, check_function, checked_sources
from pullback.data.stages import (
    BatchCursor,
    EnumerateCursor,
    FilterCursor,
    PaddedBatchCursor,
    RepeatCursor,
    ShardCursor,
    SkipCursor,
    TakeCursor,
    UnbatchCursor,
    WindowCursor,
)
from pullback.data.tfrecord import RecordCursor
from pullback.random import default_generator
from pullback.shapes import as_int

__all__ = ["Dataset"]

#: Opens a pass. Stages with a seed get the seed as a second argument.
Open: TypeAlias = Callable[..., Cursor]


class Dataset(Pickled):
    """A pipeline of stages; iterating over it yields its elements as tensors.

    Each iteration is a pass of its own: a shuffled dataset comes in another order, which its seed
    and the number of the pass decide. A checkpoint of the dataset holds the number of passes begun,
    a checkpoint of `iter(dataset)` the position within a pass. Pickles hold the same, where the
    functions and objects that users gave can be pickled.

    Args:
        open_: opens a pass, from its number and, if there is one, the seed.
        length: returns the number of elements, if it can be known.
        sources: the datasets that this one draws from.
        seed: decides the random choices.
        elements: the elements by number, if they can be accessed so.

    >>> dataset = pb.data.Dataset.from_tensor_slices([1, 2, 3, 4, 5]).batch(2)
    >>> [batch.tolist() for batch in dataset]
    [[1, 2], [3, 4], [5]]
    """

    opaque_state = True

    def __init__(
        self,
        open_: Open | None = None,
        length: Callable[[], int] | None = None,
        *,
        sources: Sequence[Dataset] = (),
        seed: int | None = None,
        elements: Indexed | None = None,
    ) -> None:
        self._open = open_
        self._length = length
        self._sources = checked_sources(sources)
        self._seed = seed
        self._elements = elements
        self._passes = 0
        if not isinstance(open_, partial):
            self.given("open_ of a Dataset", open_)

    # Passes --------------------------------------------------------------------------------------

    def open(self, epoch: Epoch) -> Cursor:
        """Opens a cursor at the beginning of one pass. Custom sources override this."""
        if self._elements is not None:
            return IndexCursor(self._elements)
        if self._open is None:
            raise NotImplementedError(f"{type(self).__name__}.open")
        return self._open(epoch) if self._seed is None else self._open(epoch, self._seed)

    def __len__(self) -> int:
        if self._elements is not None:
            return self._elements.size
        if self._length is None:
            raise errors.InputTypeError(
                "the number of elements of this dataset is not known in advance; iterate over it"
            )
        return self._length()

    def __iter__(self) -> Iterator:
        self._passes += 1
        return Iterator(self, (self._passes - 1,))

    def __repr__(self) -> str:
        try:
            size = f"{len(self):,} elements"
        except TypeError:
            size = "elements of unknown number"
        return f"<{type(self).__name__} of {size}>"

    def _stage(
        self,
        open_: Open,
        length: Callable[[], int] | None = None,
        *,
        beside: Sequence[Dataset] = (),
        seed: int | None = None,
    ) -> Dataset:
        """Returns a dataset that draws from this one, and from those beside it."""
        return Dataset(open_, length, sources=(self, *beside), seed=seed)

    def _then(
        self,
        kind: Callable[..., Cursor],
        *options: object,
        length: Callable[[], int] | None = None,
    ) -> Dataset:
        """Returns a stage whose cursor takes that of this one, and options."""
        return self._stage(partial(opening.through, kind, self, options), length)

    # Seeds and state -----------------------------------------------------------------------------

    def seeds(self) -> list[int]:
        """Returns the seeds of all stages, source first."""
        own = [] if self._seed is None else [self._seed]
        return [seed for source in self._sources for seed in source.seeds()] + own

    def set_seeds(self, seeds: Sequence[int]) -> None:
        """Sets the seeds of all stages.

        Raises:
            InputValueError: unless there is one for each stage with a seed.
        """
        if len(seeds) != len(self.seeds()):
            raise errors.InputValueError(
                f"the dataset has {len(self.seeds())} stages with a seed, and {len(seeds)} were "
                f"saved; build it with the stages that it was saved with"
            )
        rest = list(seeds)
        for source in self._sources:
            count = len(source.seeds())
            source.set_seeds(rest[:count])
            rest = rest[count:]
        if self._seed is not None:
            (self._seed,) = rest

    def checkpoint_state(self) -> Mapping[str, Any]:
        """Returns the number of passes begun, and the seeds."""
        return {"passes": self._passes, "seeds": self.seeds()}

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Restores a state from `checkpoint_state`."""
        self.set_seeds(state["seeds"])
        self._passes = int(state["passes"])

    # Sources -------------------------------------------------------------------------------------

    @staticmethod
    def from_tensor_slices(tensors: object) -> Dataset:
        """The slices of arrays along their first axes.

        Args:
            tensors: an array, a list, or a structure of them: a tuple is a tuple of arrays, a
                list is one array. Strings are allowed: a batch of them is a `StringTensor`, a
                single one a Python string. Arrays are not copied: do not change them.

        >>> pairs = pb.data.Dataset.from_tensor_slices(([1.0, 2.0], ["cat", "dog"]))
        >>> [(float(x), str(name)) for x, name in pairs]
        [(1.0, 'cat'), (2.0, 'dog')]

        Raises:
            ShapeError: if the first axes differ in size.
        """
        return Dataset(elements=Slices(tensors))

    @staticmethod
    def range(*args: int) -> Dataset:
        """The integers of Python's `range` for the same arguments.

        >>> [int(i) for i in pb.data.Dataset.range(2, 5)]
        [2, 3, 4]

        Raises:
            InputTypeError: for what is not an integer.
            InputValueError: for no argument, more than three, a step of 0, or too many elements.
        """
        return Dataset.from_tensor_slices(integers(*args))

    @staticmethod
    def from_generator(function: Callable[[], Iterable[object]]) -> Dataset:
        """The elements of a generator or iterable, which a function makes anew for each pass.

        To go to a saved position, the elements in front of it are generated again and skipped.

        Args:
            function: takes no arguments; yields arrays, numbers, strings, and tuples, lists and
                dicts of them.

        >>> def squares():
        ...     for number in range(3):
        ...         yield number, number**2
        >>> [(int(n), int(s)) for n, s in pb.data.Dataset.from_generator(squares)]
        [(0, 0), (1, 1), (2, 4)]
        """
        check_function("from_generator", function, "that makes an iterable")
        made = Dataset(partial(opening.begun, iterables.IterableCursor, function))
        return made.given("the function of from_generator", function)

    @staticmethod
    def from_iterable(iterable: Any) -> Dataset:
        """The elements of a dataset or loader of another library, or of any iterable.

        A torch `DataLoader`, a Hugging Face dataset and grain's are used as they are. Elements are
        accessed by number where that is possible, as with a list or a torch or Hugging Face
        dataset; `shuffle()` then needs no buffer. If an iterator can get and set its state, as
        grain's can, that state is its position in a checkpoint. Otherwise the elements in front of
        the position are read again and skipped, so they must come in the same order.

        >>> rows = [{"text": "a cat", "label": 0}, {"text": "a dog", "label": 1}]
        >>> for row in pb.data.Dataset.from_iterable(rows):
        ...     print(row["text"], int(row["label"]))
        a cat 0
        a dog 1

        Raises:
            InputTypeError: for an object that cannot be iterated over, or only once.
        """
        iterables.check(iterable)
        if iterables.is_sequence(iterable):
            made = Dataset(elements=Items(iterable))
        else:
            again = partial(iterables.itself, iterable)
            length = partial(len, iterable) if hasattr(iterable, "__len__") else None
            made = Dataset(partial(opening.begun, iterables.IterableCursor, again), length)
        return made.given("the argument of from_iterable", iterable)

    @staticmethod
    def from_files(files: Files) -> Dataset:
        """The paths of files as strings; those of a pattern sorted by name.

        Raises:
            DataError: for a path that does not exist, and a pattern without matches.
        """
        return Dataset.from_tensor_slices(find(files))

    @staticmethod
    def from_text_lines(
        files: Files, *, encoding: str = "utf-8", compression: str | None = None
    ) -> Dataset:
        """The lines of text files, as strings without line ends.

        Args:
            files: paths and patterns.
            encoding: the encoding of the text.
            compression: "gzip", or None for plain files. Compressed files are read piece by piece,
                however large their contents.

        Raises:
            DataError: for a path that does not exist; while iterating, for bytes that are not text.
        """
        check_compression(compression)
        paths = find(files)
        return Dataset(partial(opening.begun, LinesCursor, paths, compression, encoding))

    @staticmethod
    def from_tfrecord(
        files: Files,
        features: Mapping[str, Feature] | None = None,
        *,
        compression: str | None = None,
    ) -> Dataset:
        """The records of TFRecord files; every checksum is verified.

        Args:
            files: paths and patterns.
            features: the expected features of each record, a `tf.train.Example`; the elements
                are then dicts of these. Without it, they are the records as bytes.
            compression: "gzip", or None for plain files. Compressed files are read piece by piece,
                however large their contents.

        Raises:
            DataError: for a path that does not exist; while iterating, for a record that is
                damaged, cut off or does not match; names the file and the position.
        """
        check_compression(compression)
        paths = find(files)
        wanted = checked_features(features)
        return Dataset(partial(opening.begun, RecordCursor, paths, compression, wanted))

    # Order ---------------------------------------------------------------------------------------

    def shuffle(self, buffer_size: int | None = None, seed: int | None = None) -> Dataset:
        """The elements in random order, a new one in each pass.

        Args:
            buffer_size: the number of next elements that each element is drawn from. If elements
                have numbers, None, or at least the size of the data, makes all orders equally
                likely.
            seed: decides all orders; if None, a seed is drawn from the default generator.

        Raises:
            InputValueError: for a buffer size below 1, or None for data without numbers.
        """
        at_least("shuffle", buffer_size, 1)
        if self._elements is None and buffer_size is None:
            raise errors.InputValueError(
                "shuffle() without a size needs elements with numbers, right after "
                "from_tensor_slices; elsewhere pass the number of elements to draw from"
            )

        seed = _drawn_seed() if seed is None else as_int(seed, "shuffle: an integer seed")
        return self._stage(
            partial(opening.shuffle, self, self._elements, buffer_size),
            partial(len, self),
            seed=seed,
        )

    def repeat(self, count: int | None = None) -> Dataset:
        """Several passes: `count` of them, or infinitely many."""
        at_least("repeat", count, 0)
        return self._stage(
            partial(RepeatCursor, self.open, count),
            None if count is None else partial(lengths.repeated, self, count),
        )

    def concatenate(self, *others: Dataset) -> Dataset:
        """The elements of this dataset, then those of others."""
        datasets = (self, *others)
        return self._stage(
            partial(ConcatenateCursor, datasets), partial(lengths.joined, datasets), beside=others
        )

    def zip(self, *others: Dataset) -> Dataset:
        """Tuples of one element of each dataset, as many as the shortest has.

        >>> numbers, names = pb.data.Dataset.range(3), ["a", "b"]
        >>> for number, name in numbers.zip(pb.data.Dataset.from_tensor_slices(names)):
        ...     print(int(number), name)
        0 a
        1 b
        """
        datasets = (self, *others)
        if not all(isinstance(dataset, Dataset) for dataset in datasets):
            kinds = ", ".join(type(dataset).__name__ for dataset in datasets)
            raise errors.InputTypeError(
                f"zip takes datasets, got {kinds}; write first.zip(second), or "
                f"pb.data.Dataset.zip(first, second) without a tuple around them"
            )
        return self._stage(
            partial(opening.zipped, datasets), partial(lengths.zipped, datasets), beside=others
        )

    def interleave(
        self, function: Callable[..., Dataset], *, cycle: int = 4, block: int = 1
    ) -> Dataset:
        """Makes a dataset of each element, and takes elements of several of these in turns.

        Args:
            function: returns a dataset for an element. A dataset that ends in `prefetch` reads
                ahead of its turn, in a thread of its own.
            cycle: the number of datasets that are read at a time; 1 reads one after another.
            block: the number of elements that each dataset yields in its turn.

        >>> def repeated(number):
        ...     return pb.data.Dataset.from_tensor_slices([int(number)] * 3)
        >>> [int(x) for x in pb.data.Dataset.range(3).interleave(repeated, cycle=2)]
        [0, 1, 0, 1, 0, 1, 2, 2, 2]
        """
        check_function("interleave", function, "that returns a dataset")
        at_least("interleave", cycle, 1)
        at_least("interleave", block, 1)
        made = self._stage(partial(InterleaveCursor, self.open, function, cycle, block))
        return made.given("the function of interleave", function)

    # One element after another -------------------------------------------------------------------

    def map(
        self,
        function: Callable[..., object],
        *,
        parallel: int | None = None,
        processes: bool = False,
        seed: int | None = None,
    ) -> Dataset:
        """Applies a function to each element; the parts of a tuple are its arguments.

        Args:
            function: takes an element, returns another. For random numbers that do not depend on
                other users of the default generator, let it take a `generator` (see `seed`).
            parallel: the number of elements that are processed at a time; their order stays.
            processes: True to use processes instead of threads. The function must then be defined
                at the top of a module; it takes and returns NumPy arrays.
            seed: with it, the function gets a `pb.Generator` as `generator` with each element,
                decided by this seed, the number of the pass and the number of the element.

        >>> doubled = pb.data.Dataset.range(3).map(lambda x: 2 * x, parallel=2)
        >>> [int(x) for x in doubled]
        [0, 2, 4]

        Raises:
            InputTypeError: for what is not a function, or cannot be sent to other processes.
        """
        check_function("map", function, "of an element")
        at_least("map", parallel, 1)
        if seed is not None:
            check_takes_generator(function)
        shared: worker_processes.SharedProcesses | None = None
        if processes:
            alternative = ", or leave out processes=True for threads"
            check("the function of map", function, alternative)
            parallel = parallel or os.cpu_count() or 1
            shared = worker_processes.SharedProcesses(function, parallel)
        open_ = partial(opening.mapped, self, function, parallel, shared)
        made = self._stage(open_, partial(len, self), seed=seed)
        return made.given("the function of map", function)

    def filter(self, function: Callable[..., object]) -> Dataset:
        """The elements for which a function is true; the parts of a tuple are its arguments."""
        check_function("filter", function, "of an element")
        return self._then(FilterCursor, function).given("the function of filter", function)

    def enumerate(self, start: int = 0) -> Dataset:
        """Pairs of an element's number and the element."""
        return self._then(EnumerateCursor, start, length=partial(len, self))

    def take(self, count: int) -> Dataset:
        """The first elements of each pass."""
        at_least("take", count, 0)
        return self._then(TakeCursor, count, length=partial(lengths.first, self, count))

    def skip(self, count: int) -> Dataset:
        """All but the first elements of each pass."""
        at_least("skip", count, 0)
        return self._then(SkipCursor, count, length=partial(lengths.rest, self, count))

    def shard(self, shards: int, shard: int) -> Dataset:
        """Every element whose number is `shard`, modulo `shards`: one part for each machine.

        Call it before `shuffle`, so that the parts have no element in common.

        >>> [int(x) for x in pb.data.Dataset.range(5).shard(2, 1)]
        [1, 3]

        Raises:
            InputValueError: unless 0 <= shard < shards.
        """
        at_least("shard", shards, 1)
        if not 0 <= as_int(shard, "shard: an integer") < as_int(shards, "shards: an integer"):
            raise errors.InputValueError(
                f"shard must be at least 0 and below shards={shards}, got {shard}"
            )
        length = partial(lengths.share, self, shards, shard)
        return self._then(ShardCursor, shards, shard, length=length)

    # Several elements as one ---------------------------------------------------------------------

    def batch(self, size: int, *, drop_remainder: bool = False) -> Dataset:
        """Groups of `size` elements, stacked; the last may be smaller, or is dropped.

        Raises:
            InputValueError: for a size below 1.
            ShapeError: while iterating, for elements of different shapes.
        """
        at_least("batch", size, 1)
        length = partial(lengths.groups, self, size, drop_remainder)
        return self._then(BatchCursor, size, drop_remainder, length=length)

    def padded_batch(
        self,
        size: int,
        *,
        shapes: Sequence[Sequence[int | None]] | None = None,
        value: object = 0,
        drop_remainder: bool = False,
    ) -> Dataset:
        """Groups of elements of different sizes, padded at their ends and stacked.

        Args:
            size: the number of elements in a batch.
            shapes: the padded shape of each part of an element, in order; None in a shape, or for
                `shapes`, stands for the longest in the batch.
            value: the padding value, or a list of one for each part.
            drop_remainder: True to drop the last batch if it is smaller.

        >>> rows = pb.data.Dataset.from_generator(lambda: [[1], [2, 3], [4, 5, 6]])
        >>> [batch.tolist() for batch in rows.padded_batch(2)]
        [[[1, 0], [2, 3]], [[4, 5, 6]]]

        Raises:
            InputValueError: for a size below 1.
            ShapeError: while iterating, for elements larger than their shape.
        """
        at_least("padded_batch", size, 1)
        length = partial(lengths.groups, self, size, drop_remainder)
        return self._then(PaddedBatchCursor, size, drop_remainder, shapes, value, length=length)

    def unbatch(self) -> Dataset:
        """The slices of each element along the first axes of its parts, one by one."""
        return self._then(UnbatchCursor)

    def window(
        self, size: int, *, shift: int | None = None, drop_remainder: bool = True
    ) -> Dataset:
        """Sliding windows: consecutive elements, stacked.

        Args:
            size: the number of elements in a window.
            shift: the distance between the first elements of two windows; `size` if None.
            drop_remainder: True to drop smaller windows at the end.

        >>> [w.tolist() for w in pb.data.Dataset.range(4).window(3, shift=1)]
        [[0, 1, 2], [1, 2, 3]]

        Raises:
            InputValueError: for a size or shift below 1.
        """
        at_least("window", size, 1)
        at_least("window", shift, 1)
        by = size if shift is None else shift
        return self._then(WindowCursor, size, by, drop_remainder)

    # Working ahead, and keeping ------------------------------------------------------------------

    def prefetch(self, size: int = 2) -> Dataset:
        """Makes up to `size` elements ahead, in another thread.

        An error there is raised where the element is asked for, and ends the pass.
        """
        at_least("prefetch", size, 1)
        return self._then(PrefetchCursor, size, length=partial(len, self))

    def cache(self, path: str | os.PathLike[str] | None = None) -> Dataset:
        """Makes the elements once, and keeps them: later passes yield the same objects.

        The cache is complete once a pass has reached its end. Shuffle after it for a new order in
        each pass.

        Args:
            path: a file, which later programs can use as well; it is read if it exists. None
                keeps the elements in memory.

        Raises:
            DataError: while iterating, for a file that is damaged or not a cache.
        """
        first = partial(self.open, (0,))
        kept: list[list[Element]] = []
        open_ = (
            partial(opening.begun, MemoryCursor, first, kept)
            if path is None
            else partial(opening.begun, CacheCursor, first, as_path(path, "cache: path"))
        )
        return self._stage(open_, partial(len, self))


def _drawn_seed() -> int:
    """Draws a seed from the default generator: `pb.random.seed` decides the order of data too."""
    return default_generator.split(1)[0].state[0] % (1 << 63)
