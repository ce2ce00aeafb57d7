"""The number of elements of a stage, from those of the datasets that it draws from."""

from __future__ import annotations

from collections.abc import Iterable, Sized


def repeated(source: Sized, count: int) -> int:
    """Returns that of several passes."""
    return count * len(source)


def joined(sources: Iterable[Sized]) -> int:
    """Returns that of datasets one after another."""
    return sum(len(source) for source in sources)


def zipped(sources: Iterable[Sized]) -> int:
    """Returns that of the shortest."""
    return min(len(source) for source in sources)


def first(source: Sized, count: int) -> int:
    """Returns that of the first `count` elements."""
    return min(count, len(source))


def rest(source: Sized, count: int) -> int:
    """Returns that of all but the first `count` elements."""
    return max(len(source) - count, 0)


def share(source: Sized, shards: int, shard: int) -> int:
    """Returns that of one of several parts."""
    return (len(source) - shard + shards - 1) // shards


def groups(source: Sized, size: int, drop_remainder: bool) -> int:
    """Returns that of batches."""
    whole, left = divmod(len(source), size)
    return whole + bool(left and not drop_remainder)
