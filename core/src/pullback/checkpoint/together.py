"""Ranks that save one checkpoint together: a step of it succeeds on all of them or fails on all."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pullback import errors
from pullback.checkpoint.encoding import JSON
from pullback.checkpoint.manifest import Contents
from pullback.plugins.entry_points import one_line

if TYPE_CHECKING:
    from pullback.distributed.world import World

T = TypeVar("T")

#: Arrays of fewer bytes are written by the first rank that has them. Ranks may differ in small
#: ones, such as the means of a batch normalization in a loop that does not share batches: those
#: that are read then belong together.
SMALL = 1 << 16


class FailedElsewhere(ValueError):
    """The failure of another rank."""


def several() -> World | None:
    """Returns the ranks of this program; None if there is one."""
    from pullback.distributed.world import current

    return current() if current().communicator.size > 1 else None


def number_of(ranks: World | None) -> int:
    """Returns the number of this rank; that of the only one is 0."""
    return 0 if ranks is None else ranks.communicator.rank


def together(ranks: World | None, does: str, action: Callable[[], T]) -> list[T]:
    """Has each rank do something, and returns what all of them got, by rank.

    Args:
        ranks: the ranks; None for this one alone.
        does: what they do, for messages.
        action: what this rank does; its result is JSON, and comes as that.

    Raises:
        BaseException: what this rank has raised, when all ranks have come.
        FailedElsewhere: if another one has failed; it names the rank and the cause.
    """
    if ranks is None:
        return [action()]
    failure: BaseException | None = None
    given: dict[str, object] = {}
    try:
        given["result"] = action()
    except BaseException as error:
        failure = error
        given["failure"] = f"on {ranks.communicator.host()}: {one_line(error)}"
    data = zlib.compress(json.dumps(given).encode(), 1)
    found = [json.loads(zlib.decompress(other)) for other in ranks.gather(does, data)]
    if failure is not None:
        raise failure
    for rank, other in enumerate(found):
        if "failure" in other:
            raise FailedElsewhere(f"rank {rank} {other['failure']}")
    return [other["result"] for other in found]


def agreed(
    ranks: World | None, place: Callable[[], Path], contents: Callable[[], Contents]
) -> tuple[Path, Contents]:
    """Returns where a checkpoint will be, by the name that the first rank gives, and its contents.

    Raises:
        BaseException: what either function has raised.
        CheckpointError: if one has on another rank.
    """
    made: list[tuple[Path, Contents]] = []

    def make() -> str:
        made.append((place(), contents()))
        return made[0][0].name

    try:
        name = together(ranks, "saves a checkpoint", make)[0]
    except FailedElsewhere as error:
        raise errors.CheckpointError(f"nothing was saved: {error}") from None
    path, found = made[0]
    return path.with_name(name), found


def kinds(contents: Contents, *, is_first: bool) -> dict[str, JSON]:
    """Returns the dtype, the shape and the bytes of each array that a rank may write.

    The arrays of states belong to those of the first rank.
    """
    return {
        name: [array.dtype.name, list(array.shape), array.size * array.dtype.itemsize]
        for name, array in contents.arrays.items()
        if is_first or not name.startswith(":")
    }


def divided(ranks: list[Mapping[str, JSON]]) -> list[set[str]]:
    """Divides arrays among the ranks that have them, so that all write about as many bytes.

    Args:
        ranks: what `kinds` says on each rank.

    Returns:
        The names of the arrays that each rank writes.

    Raises:
        ValueError: if ranks have different arrays under one name.
    """
    holders: dict[str, list[int]] = {}
    for rank, listed in enumerate(ranks):
        for name, kind in listed.items():
            first = holders.setdefault(name, [])
            first.append(rank)
            other = ranks[first[0]][name]
            if other != kind:
                raise ValueError(
                    f"{name} is {other[0]}{other[1]} on rank {first[0]}, and {kind[0]}{kind[1]} on "
                    f"rank {rank}; all ranks save the same objects"
                )
    parts: list[set[str]] = [set() for _ in ranks]
    loads = [0] * len(ranks)

    def size(name: str) -> int:
        return int(ranks[holders[name][0]][name][2])

    # The large ones last that any rank may write: they even out the others.
    for name in sorted(holders, key=lambda name: (len(holders[name]) > 1, -size(name), name)):
        owners = holders[name] if size(name) >= SMALL else holders[name][:1]
        owner = min(owners, key=lambda rank: (loads[rank], rank))
        loads[owner] += size(name)
        parts[owner].add(name)
    return parts
