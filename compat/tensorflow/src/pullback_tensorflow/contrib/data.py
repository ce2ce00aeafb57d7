"""`tf.contrib.data`: functions for `dataset.apply`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["batch_and_drop_remainder", "map_and_batch", "shuffle_and_repeat"]


def batch_and_drop_remainder(batch_size: int) -> Callable[[Any], Any]:
    """Elements in groups; the last is left out if it is smaller."""
    return lambda dataset: dataset.batch(batch_size, drop_remainder=True)


def map_and_batch(map_func: Callable[..., Any], batch_size: int, **_: Any) -> Callable[[Any], Any]:
    """A function of each element, in groups."""
    return lambda dataset: dataset.map(map_func).batch(batch_size)


def shuffle_and_repeat(
    buffer_size: int, count: int | None = None, seed: int | None = None
) -> Callable[[Any], Any]:
    """Pass after pass, each in an order of its own."""
    return lambda dataset: dataset.shuffle(buffer_size, seed).repeat(count)
