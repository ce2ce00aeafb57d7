"""A rank's part of a batch: which items, and what layers and metrics need to know of the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from pullback import errors
from pullback._dispatch.convert import from_any
from pullback._dispatch.recording import LOCAL, capturing
from pullback._tree import leaves, like
from pullback.distributed.collectives import all_gather, all_reduce
from pullback.distributed.world import rank, size
from pullback.ops.creation import full
from pullback.ops.exponential import sqrt
from pullback.ops.joining import concat, stack
from pullback.ops.manipulation import reshape
from pullback.ops.nn.normalization import affine, other_axes
from pullback.ops.precision import narrowed, widened
from pullback.ops.reductions import sum as sum_of
from pullback.ops.selection import where
from pullback.tensor import Tensor

__all__ = ["Share", "all_items", "items", "share"]

S = TypeVar("S")


class Share:
    """The items from `start` to `stop` of a batch of `total`, which this rank has.

    The ranks have as many, or one less at the end. A rank without any gets the first item of the
    batch, which counts nothing.
    """

    __slots__ = ("start", "stop", "total")

    def __init__(self, total: int) -> None:
        self.start, self.stop = self._bounds(total, rank())
        self.total = total

    @staticmethod
    def _bounds(total: int, number: int) -> tuple[int, int]:
        most, more = divmod(total, size())
        start = number * most + min(number, more)
        return start, start + most + (number < more)

    @property
    def items(self) -> int:
        """The number of items."""
        return self.stop - self.start

    def of(self, structure: S) -> S:
        """This rank's items of arrays, whose first axes have those of the batch."""
        part = slice(self.start, self.stop) if self.items else slice(0, 1)

        def take(leaf: Any) -> Any:
            if not getattr(leaf, "shape", ()):
                leaf = from_any(leaf)
            return leaf[part] if leaf.shape and leaf.shape[0] == self.total else leaf

        taken: S = like(structure, iter([x if x is None else take(x) for x in leaves(structure)]))
        return taken

    def whole(self, structure: S) -> S:
        """The items of all ranks, in the order of the batch."""
        found = [x if x is None else self._whole(from_any(x)) for x in leaves(structure)]
        gathered: S = like(structure, iter(found))
        return gathered

    def _whole(self, x: Tensor) -> Tensor:
        if not x.shape:
            return x
        count = size()
        longest = -(-self.total // count)
        x = x[: self.items]
        if self.items < longest:
            padding = full((longest - self.items, *x.shape[1:]), 0, dtype=x.dtype, device=x.device)
            x = concat([x, padding])
        found = all_gather(x)
        if self.total == longest * count:
            return found
        parts = []
        for number in range(count):
            start, stop = self._bounds(self.total, number)
            parts.append(found[number * longest : number * longest + stop - start])
        return concat(parts)

    def mean(self, values: dict[str, Any]) -> dict[str, Any]:
        """The means over all items of numbers that are means over those of each rank."""
        if not values:
            return values
        numbers = stack([from_any(value).astype("float32") for value in values.values()])
        numbers = numbers * self.items if self.items else full(numbers.shape, 0.0)
        found = all_reduce(numbers) / self.total
        return {name: found[i] for i, name in enumerate(values)}

    def batch_norm(
        self, x: Tensor, scale: Any, offset: Any, *, axis: int, epsilon: float
    ) -> tuple[Tensor, Tensor, Tensor, int]:
        """`batch_norm` over the batches of all ranks, and the number of values of a channel.

        Raises:
            LayerError: for a single value per channel.
        """
        wide = widened(x)
        axis = axis % x.ndim
        others = other_axes(wide.shape, (axis,))
        count = self.total * (x.size // max(x.shape[axis] * x.shape[0], 1))
        if count < 2:
            raise errors.LayerError(
                f"training needs at least two values per channel, got a batch of {self.total}"
            )
        center = self._sum(wide, others) / count
        centered = wide - center
        variance = self._sum(centered * centered, others) / count
        y = affine(centered * (1 / sqrt(variance + epsilon)), scale, offset, (axis,))
        channels = (x.shape[axis],)
        return narrowed(y, x), reshape(center, channels), reshape(variance, channels), count

    def _sum(self, x: Tensor, axes: Any) -> Tensor:
        own = sum_of(x, axis=axes, keepdims=True)
        # Recorded on a rank without items too: the gradient of the others comes here.
        return all_reduce(own if self.items else where(own == own, 0, own))

    def draw_alike(self, x: Tensor, draw: Callable[[Tensor], Tensor]) -> Tensor:
        """Applies a function that draws, with the numbers that the whole batch has there."""
        if not x.shape or x.shape[0] != max(self.items, 1):
            return draw(x)
        if not self.items:
            return draw(full((self.total, *x.shape[1:]), 0, dtype=x.dtype, device=x.device))[:1]
        before, after = self.start, self.total - self.stop
        parts = [
            full((n, *x.shape[1:]), 0, dtype=x.dtype, device=x.device) for n in (before, after)
        ]
        return draw(concat([parts[0], x, parts[1]]))[self.start : self.stop]


def share(batch: S) -> S:
    """This rank's items of a batch, and the weight of its gradients until the next call.

    All ranks call it with the same batch. Layers then know the whole batch, too: batch
    normalization takes the mean and the variance over all ranks, and dropout draws what one process
    would draw.

    Args:
        batch: arrays, or a structure of them, with the items along their first axes.

    Raises:
        InputValueError: for a batch without an array.

    >>> pb.distributed.run_threads(lambda: pb.distributed.share(pb.arange(5)).tolist(), 2)
    [[0, 1, 2], [3, 4]]
    """
    for leaf in leaves(batch):
        shape = getattr(leaf, "shape", ())
        if shape:
            LOCAL.state.share = own = Share(int(shape[0]))
            return own.of(batch)
    raise errors.InputValueError(
        f"share takes a batch of arrays, got {type(batch).__name__}; write share((x, y))"
    )


def _bounds() -> tuple[int, ...]:
    own: Any = LOCAL.state.share
    return () if own is None else (own.start, own.stop, own.total)


def items() -> int:
    """The weight of this rank's gradients: its items in the last `share`, or 1 as all others."""
    capture = capturing()
    if capture is not None:
        capture.guard(_bounds, "this rank's part of the batch")
    own: Any = LOCAL.state.share
    return 1 if own is None else int(own.items)


def all_items() -> int:
    """The sum of all ranks' `items`."""
    own: Any = LOCAL.state.share
    return size() if own is None else int(own.total)
