"""The collectives: ops that all ranks call together.

Each call of a rank meets the same call of every other one. So a graph keeps all of them, in their
order, and a call with another op, shape or dtype on some rank is an error on all. Gradients follow
from the loss being the sum of the losses of all ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pullback import dtypes, errors
from pullback._batching.arrays import Batched, whole
from pullback._batching.rules import BatchedOp, batches
from pullback._dispatch import op as define
from pullback._dispatch.convert import from_any
from pullback._dispatch.recording import paused, uncaptured
from pullback.devices import Device
from pullback.distributed.communicator import REDUCTIONS
from pullback.distributed.world import current, entering, size
from pullback.dtypes import numeric, real, same
from pullback.ops.comparison import equal
from pullback.ops.creation import full
from pullback.ops.joining import concat
from pullback.ops.manipulation import moveaxis, reshape
from pullback.ops.selection import where
from pullback.plugins.records import Native
from pullback.shapes import Shape, check_choice, checked, first, size_of
from pullback.spec import ACCUMULATED, EXACT, Tier
from pullback.tensor import Tensor, TensorLike, wrap

__all__ = ["all_gather", "all_reduce", "all_to_all", "barrier", "broadcast", "reduce_scatter"]

_WHY = "It has what other processes have."


def _by(name: str) -> Callable[..., Native]:
    """Returns the function that runs a collective on any device."""

    def run(device: Device, x: Native, **attributes: object) -> Native:
        return current().run(name, device, x, attributes)

    return run


def _rooted(_: Shape, *, root: object) -> dict[str, Any]:
    if type(root) is not int or not 0 <= root < size():
        raise errors.InputValueError(
            f"root must be the number of a rank, from 0 to {size() - 1}, got {root!r}"
        )
    return {"root": root}


def _linear(_: Shape, *, op: str) -> dict[str, str]:
    check_choice(op, "op", REDUCTIONS[:2])
    return {"op": op}


def _extreme(_: Shape, *, op: str) -> dict[str, str]:
    check_choice(op, "op", REDUCTIONS[2:])
    return {"op": op}


def _gathered(x: Shape, **_: object) -> Shape:
    """As many of them as there are ranks, along the first axis."""
    if not x:
        raise errors.ShapeError(
            "needs an axis along which the arrays of the ranks are joined; write x[None]"
        )
    return (x[0] * size(), *x[1:])


def _parted(x: Shape) -> Shape:
    if not x or x[0] % size():
        raise errors.ShapeError(
            f"needs a first axis that {size()} ranks divide into equal parts, got the shape {x}"
        )
    return x


def _scattered(x: Shape, **_: object) -> Shape:
    """One part of the first axis."""
    _parted(x)
    return (x[0] // size(), *x[1:])


def _exchanged(x: Shape, **_: object) -> Shape:
    """The shape of x, whose first axis has a part for each rank."""
    return _parted(x)


@define(
    shape=first, dtype=numeric, accuracy=ACCUMULATED, tier=Tier.COLLECTIVE, primitive=_WHY,
    on_any_device=_by("all_reduce"), name="all_reduce", normalize=_linear, public=False,
)  # fmt: skip
def _all_reduce(x: Tensor, /, *, op: str) -> Tensor:
    """The sum or the mean over all ranks."""


@define(
    shape=first, dtype=real, accuracy=EXACT, tier=Tier.COLLECTIVE, primitive=_WHY,
    on_any_device=_by("all_reduce_extremum"), name="all_reduce_extremum", normalize=_extreme,
    public=False,
)  # fmt: skip
def _extremum(x: Tensor, /, *, op: str) -> Tensor:
    """The largest or the smallest value of all ranks, element by element.

    Args:
        x: real numbers.
        op: "max" or "min".
    """


@define(
    shape=first, dtype=numeric, accuracy=ACCUMULATED, tier=Tier.COLLECTIVE, primitive=_WHY,
    on_any_device=_by("reduce_to"), name="reduce_to", normalize=_rooted, public=False,
)  # fmt: skip
def _reduce_to(x: Tensor, /, *, root: int) -> Tensor:
    """The sum over all ranks on the rank `root`, and zeros on the others.

    Args:
        x: numbers.
        root: the rank that gets the sum.
    """


@define(
    shape=_gathered, dtype=same, accuracy=EXACT, tier=Tier.COLLECTIVE, primitive=_WHY,
    on_any_device=_by("all_gather"), normalize=checked(_gathered), public=False,
)  # fmt: skip
def all_gather(x: Tensor, /) -> Tensor:
    """The arrays of all ranks, one behind the other along the first axis.

    Args:
        x: an array of one shape and dtype on all ranks, with one axis or more.

    Raises:
        ShapeError: for an array without axes.
        CommunicationError: if the ranks call different collectives.

    >>> pb.distributed.run_threads(
    ...     lambda: pb.distributed.all_gather([pb.distributed.rank()]).tolist(), 2
    ... )
    [[0, 1], [0, 1]]
    """


@define(
    shape=_scattered, dtype=numeric, accuracy=ACCUMULATED, tier=Tier.COLLECTIVE, primitive=_WHY,
    on_any_device=_by("reduce_scatter"), normalize=checked(_scattered), public=False,
)  # fmt: skip
def reduce_scatter(x: Tensor, /) -> Tensor:
    """This rank's part of the sum over all ranks.

    Args:
        x: numbers of one shape and dtype on all ranks, whose first axis has as many equal parts
            as there are ranks.

    Raises:
        ShapeError: if the number of ranks does not divide the first axis.
        CommunicationError: if the ranks call different collectives.

    >>> pb.distributed.run_threads(
    ...     lambda: pb.distributed.reduce_scatter([1.0, 2.0]).tolist(), 2
    ... )
    [[2.0], [4.0]]
    """


@define(
    shape=first, dtype=same, accuracy=EXACT, tier=Tier.COLLECTIVE, primitive=_WHY,
    on_any_device=_by("broadcast"), normalize=_rooted, public=False,
)  # fmt: skip
def broadcast(x: Tensor, /, *, root: int = 0) -> Tensor:
    """The array of one rank, on all of them.

    Args:
        x: an array of one shape and dtype on all ranks.
        root: the rank whose values count.

    Raises:
        InputValueError: for a root that is not a rank.
        CommunicationError: if the ranks call different collectives.

    >>> pb.distributed.run_threads(
    ...     lambda: pb.distributed.broadcast(pb.distributed.rank(), root=1).item(), 2
    ... )
    [1, 1]
    """


@define(
    shape=_exchanged, dtype=same, accuracy=EXACT, tier=Tier.COLLECTIVE, primitive=_WHY,
    on_any_device=_by("all_to_all"), normalize=checked(_exchanged), public=False,
)  # fmt: skip
def all_to_all(x: Tensor, /) -> Tensor:
    """Part i of the first axis goes to rank i; the parts that come stand in the order of ranks.

    Args:
        x: an array of one shape and dtype on all ranks, whose first axis has as many equal parts
            as there are ranks.

    Raises:
        ShapeError: if the number of ranks does not divide the first axis.
        CommunicationError: if the ranks call different collectives.

    >>> def exchanged():
    ...     rank = pb.distributed.rank()
    ...     return pb.distributed.all_to_all([10 * rank, 10 * rank + 1]).tolist()
    >>> pb.distributed.run_threads(exchanged, 2)
    [[0, 10], [1, 11]]
    """


@define(
    shape=first, dtype=same, accuracy=EXACT, tier=Tier.COLLECTIVE, primitive=_WHY,
    on_any_device=_by("barrier"), name="wait_for_ranks", differentiable=False, public=False,
)  # fmt: skip
def _barrier(x: Tensor, /) -> Tensor:
    """x, when all ranks are here."""


def in_order(x: Tensor) -> Tensor:
    """The sum of a vector over all ranks in pairs, (0 + 1) + (2 + 3), on every communicator."""
    count, length = size(), x.shape[0]
    missing = -length % count
    if missing:
        x = concat([x, full((missing,), 0, dtype=x.dtype, device=x.device)])
    rows = reshape(all_to_all(x), (count, -1))
    sums = [rows[i] for i in range(count)]
    while len(sums) > 1:
        pairs = [sums[i] + sums[i + 1] for i in range(0, len(sums) - 1, 2)]
        sums = pairs + sums[2 * len(pairs) :]
    return all_gather(sums[0])[:length]


def _begin(
    device: Device, arrays: list[Native], *, in_pairs: bool, beside: bool, items: int
) -> Native:
    world = current()
    with uncaptured(), paused():
        # A copy of its own: the sum may take its place.
        joined = concat([wrap(array, device) for array in arrays], axis=None)

    def call() -> Native:
        if not in_pairs:
            return world.own_sum(device, joined._array, items)
        world.agree(f"adds {items} items in pairs of ranks")
        with entering(world), uncaptured(), paused():
            return _native(in_order(joined))

    if world.communicator.size > 1:
        world.begin(joined._array, call, beside)
    return _native(joined)


def _native(x: Tensor) -> Native:
    array: Native = x._array
    return array


def _finish(device: Device, x: Native) -> Native:
    world = current()
    return x if world.communicator.size == 1 else world.finish(x)


def _flat(arrays: list[Shape], **_: object) -> Shape:
    """The number of all elements."""
    return (sum(map(size_of, arrays)),)


@define(
    shape=_flat, dtype=numeric, accuracy=EXACT, tier=Tier.COLLECTIVE, primitive=_WHY,
    on_any_device=_begin, differentiable=False, public=False,
)  # fmt: skip
def begin_all_reduce(
    arrays: Sequence[Tensor], /, *, in_pairs: bool, beside: bool, items: int
) -> Tensor:
    """The arrays as one vector, whose sum is on its way; programs call it as early as they can.

    Args:
        arrays: numbers of one dtype.
        in_pairs: True to add as (0 + 1) + (2 + 3), whatever the communicator does.
        beside: True to make the sum while others compute, if the communicator has that.
        items: the items of all ranks, on which they have to agree.
    """


@define(
    shape=first, dtype=numeric, accuracy=ACCUMULATED, tier=Tier.COLLECTIVE, primitive=_WHY,
    on_any_device=_finish, differentiable=False, public=False,
)  # fmt: skip
def finish_all_reduce(x: Tensor, /) -> Tensor:
    """The oldest sum that has begun and is not finished.

    Args:
        x: what has begun it.
    """


def all_reduce(x: TensorLike, op: str = "sum") -> Tensor:
    """The sum, the mean, the maximum or the minimum over all ranks, element by element.

    Every rank gets the same bits. Sums of 16-bit numbers are made in float32. The gradient of a
    maximum goes to the ranks that have it, in equal parts.

    Args:
        x: numbers of one shape and dtype on all ranks; real ones for "max" and "min", floating ones
            for "mean".
        op: "sum", "mean", "max" or "min".

    Raises:
        InputValueError: for another `op`.
        DTypeError: for numbers that `op` does not take.
        CommunicationError: if the ranks call different collectives.

    >>> pb.distributed.run_threads(
    ...     lambda: pb.distributed.all_reduce(pb.distributed.rank() + 1.0, "mean").item(), 3
    ... )
    [2.0, 2.0, 2.0]
    """
    check_choice(op, "all_reduce: op", REDUCTIONS)
    tensor = from_any(x)
    if op == "mean" and tensor.dtype in dtypes.INTEGER:
        raise errors.DTypeError(
            f"all_reduce: a mean needs floating numbers, got {tensor.dtype}; convert with "
            f'x.astype("float32") first'
        )
    return (_all_reduce if op in ("sum", "mean") else _extremum)(tensor, op=op)


def barrier() -> None:
    """Waits until all ranks are here; a captured function waits there at each run.

    >>> pb.distributed.run_threads(pb.distributed.barrier, 2)
    [None, None]

    Raises:
        CommunicationError: if another rank calls a collective instead.
    """
    _barrier(full((), 0, dtype="int32"))


def _of_extremum(g: Tensor, x: Tensor, out: Tensor, op: str) -> Tensor:
    here = equal(x, out)
    shared = _all_reduce(g, op="sum") / _all_reduce(here.astype(g.dtype), op="sum")
    return where(here, shared, 0)


# Gradients are sums over the ranks: the result of one rank depends on the arrays of all.
_all_reduce.vjp(x=lambda g, op: _all_reduce(g, op=op))
_extremum.vjp(x=_of_extremum)
_reduce_to.vjp(x=lambda g, root: broadcast(g, root=root))
all_gather.vjp(x=lambda g: reduce_scatter(g))
reduce_scatter.vjp(x=lambda g: all_gather(g))
broadcast.vjp(x=lambda g, root: _reduce_to(g, root=root))
all_to_all.vjp(x=lambda g: all_to_all(g))


@batches(
    *("all_reduce", "all_reduce_extremum", "reduce_to", "broadcast", "wait_for_ranks"),
    "finish_all_reduce",
)
def _each_item(call: BatchedOp, x: Batched) -> Tensor:
    """Of all items at once: every rank has as many."""
    found: Tensor = call.on(x.tensor)
    return found


@batches("begin_all_reduce")
def _each_vector(call: BatchedOp, arrays: list[Batched]) -> Tensor:
    """Of all items at once: their vectors, side by side."""
    found = concat([reshape(whole(x, call.size), (call.size, -1)) for x in arrays], axis=1)
    return reshape(call.on([found]), found.shape)


@batches("all_gather", "reduce_scatter", "all_to_all")
def _along_first(call: BatchedOp, x: Batched) -> Tensor:
    """Along the first axis of the items, with that of the batch behind it."""
    return moveaxis(call.on(moveaxis(whole(x, call.size), 0, 1)), 1, 0)
