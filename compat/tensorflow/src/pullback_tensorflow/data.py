"""`tf.data`: pullback's datasets, by TensorFlow's names of the arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from pullback import data, errors

__all__ = ["Dataset", "TFRecordDataset", "TextLineDataset"]


class Dataset(data.Dataset):
    """`pb.data.Dataset`.

    >>> import pullback.compat.tensorflow as tf
    >>> dataset = tf.data.Dataset.from_tensor_slices([1, 2, 3, 4]).map(tf.square).batch(2)
    >>> [batch.tolist() for batch in dataset]
    [[1, 4], [9, 16]]
    """

    def _stage(self, open_: Any, length: Any = None, *, beside: Any = (), seed: Any = None) -> Any:
        return Dataset(open_, length, sources=(self, *beside), seed=seed)

    @staticmethod
    def from_tensor_slices(tensors: Any) -> Dataset:
        """The slices of arrays along their first axes."""
        return _own(data.Dataset.from_tensor_slices(tensors))

    @staticmethod
    def from_tensors(tensors: Any) -> Dataset:
        """One element."""
        return _own(data.Dataset.from_generator(partial(list, (tensors,))))

    @staticmethod
    def from_generator(
        generator: Callable[[], Any], output_types: Any = None, output_shapes: Any = None
    ) -> Dataset:
        """The elements of a function's iterator; the function is called once for each pass."""
        return _own(data.Dataset.from_generator(generator))

    @staticmethod
    def range(*args: int) -> Dataset:
        """The integers that Python's `range` gives."""
        return _own(data.Dataset.range(*[int(one) for one in args]))

    @staticmethod
    def list_files(file_pattern: Any, shuffle: bool = True, seed: int | None = None) -> Dataset:
        """The paths of files."""
        files = _own(data.Dataset.from_files(file_pattern))
        return files.shuffle(max(len(files), 1), seed) if shuffle else files

    @staticmethod
    def zip(datasets: Sequence[data.Dataset]) -> Dataset:  # type: ignore[override]
        """Tuples of the elements of datasets."""
        first, *others = datasets
        return _own(data.Dataset.zip(first, *others))

    def shuffle(  # type: ignore[override]
        self,
        buffer_size: int,
        seed: int | None = None,
        reshuffle_each_iteration: bool | None = None,
    ) -> Dataset:
        """The elements in random order, another one in each pass.

        Raises:
            InputTypeError: for one order in all passes.
        """
        if reshuffle_each_iteration is False:
            raise errors.InputTypeError("shuffle: each pass has an order of its own; cache() it")
        return _own(super().shuffle(int(buffer_size), seed))

    def repeat(self, count: int | None = None) -> Dataset:
        """Repeats the elements `count` times; without end for None and -1."""
        return _own(super().repeat(None if count == -1 else count))

    def batch(self, batch_size: int, drop_remainder: bool = False) -> Dataset:
        """Elements in groups."""
        return _own(super().batch(int(batch_size), drop_remainder=drop_remainder))

    def padded_batch(  # type: ignore[override]
        self,
        batch_size: int,
        padded_shapes: Any = None,
        padding_values: Any = 0,
        drop_remainder: bool = False,
    ) -> Dataset:
        """Elements of different sizes in groups, filled up behind."""
        shapes = padded_shapes
        if shapes is not None and not any(isinstance(one, (list, tuple)) for one in shapes):
            shapes = [shapes]
        return _own(
            super().padded_batch(
                int(batch_size), shapes=shapes, value=padding_values, drop_remainder=drop_remainder
            )
        )

    def map(  # type: ignore[override]
        self, map_func: Callable[..., Any], num_parallel_calls: int | None = None
    ) -> Dataset:
        """A function of each element."""
        return _own(super().map(map_func, parallel=num_parallel_calls))

    def filter(self, predicate: Callable[..., Any]) -> Dataset:
        """The elements for which a function is true."""
        return _own(super().filter(predicate))

    def flat_map(self, map_func: Callable[..., Any]) -> Dataset:
        """The elements of a dataset for each element, one dataset after another."""
        return _own(super().interleave(map_func, cycle=1))

    def interleave(  # type: ignore[override]
        self,
        map_func: Callable[..., Any],
        cycle_length: int,
        block_length: int = 1,
        num_parallel_calls: int | None = None,
    ) -> Dataset:
        """A dataset for each element, and elements of several of these in turns."""
        return _own(super().interleave(map_func, cycle=cycle_length, block=block_length))

    def prefetch(self, buffer_size: int = 2) -> Dataset:
        """Elements made ahead, in another thread."""
        return _own(super().prefetch(max(int(buffer_size), 1)))

    def shard(self, num_shards: int, index: int) -> Dataset:
        """One of `num_shards` parts of the elements."""
        return _own(super().shard(num_shards, index))

    def apply(self, transformation_func: Callable[[Any], Any]) -> Any:
        """Returns the result of a function of the dataset."""
        return transformation_func(self)

    def make_one_shot_iterator(self) -> data.Iterator:
        """An iterator: `iter(dataset)`."""
        return iter(self)


def _own(dataset: data.Dataset) -> Dataset:
    """A dataset with TensorFlow's methods."""
    if isinstance(dataset, Dataset):
        return dataset
    own = Dataset.__new__(Dataset)
    vars(own).update(vars(dataset))
    return own


def TextLineDataset(filenames: Any, compression_type: str | None = None, **_: Any) -> Dataset:
    """The lines of text files."""
    compression = (compression_type or "").lower() or None
    return _own(data.Dataset.from_text_lines(filenames, compression=compression))


def TFRecordDataset(filenames: Any, compression_type: str | None = None, **_: Any) -> Dataset:
    """The records of TFRecord files, as bytes."""
    compression = (compression_type or "").lower() or None
    return _own(data.Dataset.from_tfrecord(filenames, compression=compression))
