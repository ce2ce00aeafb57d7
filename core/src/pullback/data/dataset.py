"""`Dataset`: where data come from, and what is done to them on the way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from pullback.data import iterables
from pullback.data.example import Feature
from pullback.data.files import Files, LinesCursor, check_compression, find
from pullback.data.pipeline import Open, Pipeline
from pullback.data.slices import Items, Slices
from pullback.data.tfrecord import RecordCursor
from pullback.data.transformations import Transformations

__all__ = ["Dataset"]


class Dataset(Transformations):
    """A pipeline of stages; iterating over it gives its elements as tensors.

    Each iteration is a pass of its own: a shuffled dataset comes in another order, which its seed
    and the number of the pass decide. The number of passes begun is part of a checkpoint that the
    dataset is given to, the position within a pass part of one that `iter(dataset)` is given to.

    >>> dataset = pb.data.Dataset.from_tensor_slices([1, 2, 3, 4, 5]).batch(2)
    >>> [batch.tolist() for batch in dataset]
    [[1, 2], [3, 4], [5]]
    """

    def _stage(
        self,
        open_: Open,
        length: Callable[[], int] | None = None,
        *,
        beside: Sequence[Pipeline] = (),
        seed: int | None = None,
    ) -> Dataset:
        return Dataset(open_, length, sources=(self, *beside), seed=seed)

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
        return Dataset(elements=Slices(tensors))

    @staticmethod
    def range(*args: int) -> Dataset:
        """The integers that Python's `range` gives for the same arguments.

        >>> [int(i) for i in pb.data.Dataset.range(2, 5)]
        [2, 3, 4]
        """
        return Dataset.from_tensor_slices(list(range(*args)))

    @staticmethod
    def from_generator(function: Callable[[], Iterable[Any]]) -> Dataset:
        """What a function gives, which is called for each pass: a generator, an iterable.

        To go to a saved position, the elements in front of it are made again and passed over.

        Args:
            function: without arguments; what it yields are arrays, numbers, strings, and tuples,
                lists and dicts of them.

        >>> def squares():
        ...     for number in range(3):
        ...         yield number, number**2
        >>> [(int(n), int(s)) for n, s in pb.data.Dataset.from_generator(squares)]
        [(0, 0), (1, 1), (2, 4)]
        """
        return Dataset(lambda epoch: iterables.IterableCursor(function))

    @staticmethod
    def from_iterable(iterable: Any) -> Dataset:
        """The elements of a dataset or loader of another library, or of any iterable.

        A torch `DataLoader`, a Hugging Face dataset and grain's are taken as they are. Where the
        elements can be had by number, as from a list or a torch or Hugging Face dataset, so they
        are: `shuffle()` then needs no buffer. Where an iterator can say and set its state, as
        grain's, that is its position in a checkpoint; elsewhere the elements in front of it are
        passed over again, so they must come in the same order.

        >>> rows = [{"text": "a cat", "label": 0}, {"text": "a dog", "label": 1}]
        >>> for row in pb.data.Dataset.from_iterable(rows):
        ...     print(row["text"], int(row["label"]))
        a cat 0
        a dog 1

        Raises:
            InputTypeError: for what can be gone through once only, or not at all.
        """
        iterables.check(iterable)
        if iterables.is_sequence(iterable):
            return Dataset(elements=Items(iterable))
        length = (lambda: len(iterable)) if hasattr(iterable, "__len__") else None
        return Dataset(lambda epoch: iterables.IterableCursor(lambda: iterable), length)

    @staticmethod
    def from_files(files: Files) -> Dataset:
        """The paths of files, as strings; those of a pattern in order of their names.

        Raises:
            DataError: for a path that is not there, and a pattern that nothing has.
        """
        return Dataset.from_tensor_slices(find(files))

    @staticmethod
    def from_text_lines(
        files: Files, *, encoding: str = "utf-8", compression: str | None = None
    ) -> Dataset:
        """The lines of text files, as strings without their ends.

        Args:
            files: paths and patterns.
            encoding: that of the text.
            compression: "gzip", or None for files as they are. What is packed is unpacked a piece
                at a time, however large that gets.

        Raises:
            DataError: for a path that is not there; while iterating, for what is no text.
        """
        check_compression(compression)
        paths = find(files)
        return Dataset(lambda epoch: LinesCursor(paths, compression, encoding))

    @staticmethod
    def from_tfrecord(
        files: Files,
        features: Mapping[str, Feature] | None = None,
        *,
        compression: str | None = None,
    ) -> Dataset:
        """The records of TFRecord files; every checksum is checked.

        Args:
            files: paths and patterns.
            features: what each record, a `tf.train.Example`, is expected to have; the elements
                are dicts of these. Without, they are the records as bytes.
            compression: "gzip", or None for files as they are. What is packed is unpacked a piece
                at a time, however large that gets.

        Raises:
            DataError: for a path that is not there; while iterating, for a record that is
                damaged, cut off or does not fit; names the file and the place.
        """
        check_compression(compression)
        paths = find(files)
        wanted = None if features is None else dict(features)
        return Dataset(lambda epoch: RecordCursor(paths, compression, wanted))
