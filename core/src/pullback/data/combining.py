"""Several sources as one: zipped, concatenated and interleaved."""

# ruff: noqa: D102  (the methods of a cursor are documented in `Cursor`)

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from pullback import errors
from pullback._tree import mapped
from pullback.data.calls import call
from pullback.data.elements import Element, as_tensors
from pullback.data.source import Cursor, ElementSource, Epoch, Position


class ZipCursor(Cursor):
    """Tuples of one element of each source, as many as the shortest has."""

    def __init__(self, sources: Sequence[Cursor]) -> None:
        self.sources = list(sources)

    def next(self) -> Element:
        return tuple([source.next() for source in self.sources])

    def next_batch(self, count: int) -> tuple[Element, int]:
        batches = [source.next_batch(count) for source in self.sources]
        least = min(got for _, got in batches)
        return tuple(
            [batch if got == least else _first(batch, least) for batch, got in batches]
        ), least

    def skip(self, count: int) -> int:
        return min([source.skip(count) for source in self.sources])

    def state(self) -> Position:
        return {"sources": [source.state() for source in self.sources]}

    def restore(self, state: Position) -> None:
        for source, position in zip(self.sources, state["sources"], strict=True):
            source.restore(position)

    def close(self) -> None:
        for source in self.sources:
            source.close()


def _first(batch: Element, count: int) -> Element:
    return mapped(lambda leaf: leaf[:count], batch)


class ConcatenateCursor(Cursor):
    """One source after another."""

    def __init__(self, datasets: Sequence[ElementSource], epoch: Epoch) -> None:
        self.datasets = datasets
        self.epoch = epoch
        self.which = 0
        self.source = self._open()

    def _open(self) -> Cursor:
        # Each has a pass of its own, so that a dataset after itself comes in another order.
        return self.datasets[self.which].open((*self.epoch, self.which))

    def _go_on(self) -> bool:
        """Goes on to the next source; returns False if there is none."""
        if self.which + 1 >= len(self.datasets):
            return False
        self.source.close()
        self.which += 1
        self.source = self._open()
        return True

    def next(self) -> Element:
        while True:
            try:
                return self.source.next()
            except StopIteration:
                if not self._go_on():
                    raise

    def skip(self, count: int) -> int:
        done = self.source.skip(count)
        while done < count and self._go_on():
            done += self.source.skip(count - done)
        return done

    def state(self) -> Position:
        return {"which": self.which, "source": self.source.state()}

    def restore(self, state: Position) -> None:
        self.source.close()
        self.which = int(state["which"])
        self.source = self._open()
        self.source.restore(state["source"])

    def close(self) -> None:
        self.source.close()


class Lane(NamedTuple):
    """One of the datasets that are interleaved."""

    #: The position in front of the element that it is made of, and the number of the element.
    before: Position
    number: int
    dataset: ElementSource
    cursor: Cursor


class InterleaveCursor(Cursor):
    """Elements of several datasets in turns; a function makes each dataset of an element."""

    def __init__(
        self,
        source: Callable[[Epoch], Cursor],
        function: Callable[..., ElementSource],
        cycle: int,
        block: int,
        epoch: Epoch,
    ) -> None:
        self.open = source
        self.function = function
        self.block = block
        self.epoch = epoch
        self.source = source(epoch)
        self.lanes: list[Lane | None] = [None] * cycle
        #: The lane whose turn it is, and the number of elements it has yielded in it.
        self.turn = 0
        self.taken = 0
        #: The number of datasets made.
        self.made = 0
        self.drained = False

    def next(self) -> Element:
        while True:
            lane = self.lanes[self.turn]
            if lane is None:
                lane = self.lanes[self.turn] = self._begin()
            if lane is None:
                if not any(self.lanes):
                    raise StopIteration
                self._pass_on()
                continue
            try:
                element = lane.cursor.next()
            except StopIteration:
                lane.cursor.close()
                self.lanes[self.turn] = None
                self.taken = 0
                continue
            self.taken += 1
            if self.taken == self.block:
                self._pass_on()
            return element

    def _pass_on(self) -> None:
        self.turn = (self.turn + 1) % len(self.lanes)
        self.taken = 0

    def _begin(self) -> Lane | None:
        """Returns the next lane; None if there are no more elements to make one of."""
        if self.drained:
            return None
        before = self.source.state()
        try:
            element = self.source.next()
        except StopIteration:
            self.drained = True
            return None
        self.made += 1
        return self._lane(before, self.made - 1, self._dataset(element))

    def _dataset(self, element: Element) -> ElementSource:
        made = call(self.function, as_tensors(element))
        if not (hasattr(made, "open") and hasattr(made, "seeds")):
            raise errors.InputTypeError(
                f"the function of interleave must return a dataset, got {type(made).__name__}; "
                f"wrap it: Dataset.from_tensor_slices(...) or Dataset.from_iterable(...)"
            )
        return made

    def _lane(self, before: Position, number: int, dataset: ElementSource) -> Lane:
        return Lane(before, number, dataset, dataset.open((*self.epoch, number)))

    def state(self) -> Position:
        return {
            "source": self.source.state(),
            "lanes": [
                None
                if lane is None
                else {
                    "before": lane.before,
                    "number": lane.number,
                    "seeds": lane.dataset.seeds(),
                    "position": lane.cursor.state(),
                }
                for lane in self.lanes
            ],
            "turn": self.turn,
            "taken": self.taken,
            "made": self.made,
        }

    def restore(self, state: Position) -> None:
        self.lanes = [None if lane is None else self._restored(lane) for lane in state["lanes"]]
        self.turn = int(state["turn"])
        self.taken = int(state["taken"])
        self.made = int(state["made"])
        self.source.restore(state["source"])

    def _restored(self, saved: Position) -> Lane:
        # The element is not part of the state: it is read again, from its position.
        source = self.open(self.epoch)
        try:
            source.restore(saved["before"])
            dataset = self._dataset(source.next())
        finally:
            source.close()
        dataset.set_seeds(saved["seeds"])
        lane = self._lane(saved["before"], int(saved["number"]), dataset)
        lane.cursor.restore(saved["position"])
        return lane

    def close(self) -> None:
        self.source.close()
        for lane in self.lanes:
            if lane is not None:
                lane.cursor.close()
