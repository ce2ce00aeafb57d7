"""What every dataset is: passes over elements, the seeds of its stages, and its state."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from pullback import errors
from pullback.data.iterator import Iterator
from pullback.data.processes import Processes
from pullback.data.slices import IndexCursor, Indexed
from pullback.data.source import Cursor, Epoch
from pullback.random import default_generator

if TYPE_CHECKING:
    from pullback.data.dataset import Dataset

#: Opens a pass; stages with a seed get that as well.
Open: TypeAlias = Callable[..., Cursor]


class Pipeline:
    """A source, or a stage with the sources that it draws from.

    Args:
        open_: opens a pass, given which one it is and, if there is one, the seed.
        length: gives the number of elements, where that can be known.
        sources: what it draws from.
        seed: what decides its random choices.
        elements: the elements by number, where they can be had so.
    """

    opaque_state = True

    def __init__(
        self,
        open_: Open | None = None,
        length: Callable[[], int] | None = None,
        *,
        sources: Sequence[Pipeline] = (),
        seed: int | None = None,
        elements: Indexed | None = None,
    ) -> None:
        self._open = open_
        self._length = length
        self._sources = tuple(sources)
        self._seed = seed
        self._elements = elements
        self._passes = 0

    # What a source or a stage brings -------------------------------------------------------------

    def open(self, epoch: Epoch) -> Cursor:
        """A cursor at the beginning of one pass. A class of a source of its own overrides this."""
        if self._elements is not None:
            return IndexCursor(self._elements)
        if self._open is None:
            raise NotImplementedError(f"{type(self).__name__}.open")
        return self._open(epoch) if self._seed is None else self._open(epoch, self._seed)

    def _stage(
        self,
        open_: Open,
        length: Callable[[], int] | None = None,
        *,
        beside: Sequence[Pipeline] = (),
        seed: int | None = None,
    ) -> Dataset:
        """A dataset that draws from this one, and from those beside it."""
        raise NotImplementedError(f"{type(self).__name__}._stage")

    def __len__(self) -> int:
        if self._elements is not None:
            return self._elements.size
        if self._length is None:
            raise errors.InputTypeError(
                "the number of elements of these data is not known beforehand; iterate over them"
            )
        return self._length()

    # Iterating -----------------------------------------------------------------------------------

    def __iter__(self) -> Iterator:
        self._passes += 1
        return Iterator(self, (self._passes - 1,))

    # Seeds and state -----------------------------------------------------------------------------

    def seeds(self) -> list[int]:
        """The seeds of all stages, source first."""
        own = [] if self._seed is None else [self._seed]
        return [seed for source in self._sources for seed in source.seeds()] + own

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
        rest = list(seeds)
        for source in self._sources:
            count = len(source.seeds())
            source.set_seeds(rest[:count])
            rest = rest[count:]
        if self._seed is not None:
            (self._seed,) = rest

    def checkpoint_state(self) -> Mapping[str, Any]:
        """How many passes have begun, and the seeds."""
        return {"passes": self._passes, "seeds": self.seeds()}

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Takes over what `checkpoint_state` gave."""
        self.set_seeds(state["seeds"])
        self._passes = int(state["passes"])


def drawn_seed() -> int:
    """A seed from the default generator: `pb.random.seed` decides the order of data as well."""
    return default_generator.split(1)[0].state[0] % (1 << 63)


class SharedProcesses:
    """The processes of a stage: begun when a pass begins, and shared by passes that overlap."""

    def __init__(self, function: Callable[..., Any], count: int) -> None:
        self._function = function
        self._count = count
        self._there: Callable[[], Processes | None] = lambda: None

    def hold(self) -> Processes:
        """The processes, for one more that will release them."""
        processes = self._there()
        if processes is None or not processes.hold():
            processes = Processes(self._function, self._count)
            processes.hold()
            self._there = weakref.ref(processes)
        return processes
