"""Handing out what a checkpoint holds, to objects that are there and to those still to be made."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from typing import Any

from pullback import errors
from pullback.checkpoint.encoding import decode
from pullback.checkpoint.folder import Contents
from pullback.checkpoint.objects import Graph, others
from pullback.state import WAITING
from pullback.variable import Variable

__all__ = ["Restoration"]


class Restoration:
    """What came of `checkpoint.restore(path)`; values still wait in it for their variables.

    A layer makes its variables at its first call; until then what was saved of them waits, and is
    theirs before they are first read.
    """

    def __init__(self, path: str, contents: Contents, roots: Mapping[str, Any]) -> None:
        #: The path of the checkpoint.
        self.path = path
        self._contents = contents
        self._left = {name: array for name, array in contents.arrays.items() if name[0] != ":"}
        self._states = dict(contents.states)
        self._restored: list[str] = []
        self._missing: tuple[str, ...] = ()
        self._roots = {name: _reference(value) for name, value in roots.items()}

    @property
    def restored(self) -> tuple[str, ...]:
        """The paths of what has its saved value now."""
        return tuple(self._restored)

    @property
    def missing(self) -> tuple[str, ...]:
        """The paths of what the objects had, and the checkpoint had not."""
        return self._missing

    @property
    def waiting(self) -> tuple[str, ...]:
        """The paths of what was saved, and no object has taken yet."""
        self.hand_out()
        return (*self._left, *self._states)

    def assert_complete(self) -> Restoration:
        """Raises unless everything saved has been restored, and everything there was saved.

        Raises:
            CheckpointError: names the paths.
        """
        self._refuse_missing(self.missing)
        if self.waiting:
            raise errors.CheckpointError(
                f"{self.path}: {_listed(self.waiting)} of the checkpoint wait for objects that do "
                f"not exist; call the model once to make its variables, or give the checkpoint "
                f"the objects that it was saved with"
            )
        return self

    def _refuse_missing(self, missing: tuple[str, ...]) -> None:
        if missing:
            raise errors.CheckpointError(
                f"{self.path}: the checkpoint has nothing for {_listed(missing)}; it was saved "
                f"from other objects. To leave these as they are: restore(path, partial=True)"
            )

    def begin(self, *, partial: bool, data: tuple[str, ...] = ()) -> None:
        """Hands out what there are objects for; what is left waits.

        Args:
            partial: whether objects that the checkpoint knows nothing of stay as they are.
            data: the names of plain data that it knows nothing of.

        Raises:
            CheckpointError: for shapes or dtypes that differ, and, unless partial, for objects
                that the checkpoint knows nothing of. Nothing has been changed then.
        """
        graph = self._graph()
        found, missing = self._match(graph)
        missing += tuple(
            path
            for path in graph.stateful
            if self._saved_as(path, graph, self._contents.states) is None
        )
        missing += data
        if not partial:
            self._refuse_missing(missing)
        self._missing = missing
        # A later restoration into the same objects takes the place of an earlier one.
        for hand_out in list(WAITING):
            earlier = getattr(hand_out, "__self__", None)
            if isinstance(earlier, Restoration):
                earlier.forget(graph)
        self._give(graph, found)
        if self._left or self._states:
            WAITING.append(self.hand_out)

    def hand_out(self) -> None:
        """Gives values that wait to the objects made since.

        Raises:
            CheckpointError: for shapes or dtypes that differ.
        """
        if not (self._left or self._states):
            return
        graph = self._graph()
        if not graph.roots:
            self._drop()
            return
        try:
            found, _ = self._match(graph)
        except errors.CheckpointError:
            # It has been said once, to who made the objects; it is nobody else's error.
            self._drop()
            raise
        self._give(graph, found)
        if not (self._left or self._states):
            self._drop()

    def forget(self, graph: Graph) -> None:
        """Gives up handing out to objects that another restoration is for."""
        taken = {id(root) for root in graph.roots.values()}
        self._roots = {n: get for n, get in self._roots.items() if id(get()) not in taken}
        if not self._roots:
            self._drop()

    def _drop(self) -> None:
        self._left, self._states = {}, {}
        WAITING[:] = [one for one in WAITING if getattr(one, "__self__", None) is not self]

    def _graph(self) -> Graph:
        alive = {name: get() for name, get in self._roots.items()}
        return Graph({name: value for name, value in alive.items() if value is not None})

    # Matching ------------------------------------------------------------------------------------

    def _match(self, graph: Graph) -> tuple[dict[str, list[Variable]], tuple[str, ...]]:
        """The variables for each saved path, and the paths of those that have no value."""
        found: dict[str, list[Variable]] = {}
        missing = []
        wrong = []
        for path, variable in graph.variables.items():
            saved = self._saved_as(path, graph, self._contents.arrays)
            if saved is None:
                missing.append(path)
                continue
            found.setdefault(saved, []).append(variable)
            array = self._contents.arrays[saved]
            if array.shape != variable.shape or array.dtype != variable.dtype:
                wrong.append(
                    f"{path} is {variable.dtype}{list(variable.shape)}, "
                    f"saved was {array.dtype}{list(array.shape)}"
                )
        if wrong:
            raise errors.CheckpointError(
                f"{self.path} does not fit: {'; '.join(wrong)}; make the objects with the sizes "
                f"and dtypes that they were saved with"
            )
        return found, tuple(missing)

    def _saved_as(self, path: str, graph: Graph, saved: Mapping[str, Any]) -> str | None:
        """The path under which an object was saved, by any of its paths now or then."""
        for name in graph.names(path):
            for other in (name, *others(name, self._contents.aliases.items())):
                if other in saved:
                    return other
        return None

    # Giving --------------------------------------------------------------------------------------

    def _give(self, graph: Graph, found: dict[str, list[Variable]]) -> None:
        for saved, variables in found.items():
            array = self._left.pop(saved, None)
            if array is not None:
                for variable in variables:
                    variable.assign(array)
                self._restored.append(saved)
        for path, optimizer in graph.optimizers.items():
            prefix = f"{path}/slots/"
            for saved in [name for name in self._left if name.startswith(prefix)]:
                slot, _, owner = saved[len(prefix) :].partition("/")
                for variable in found.get(owner, ()):
                    optimizer.restore_slot(variable, slot, self._left[saved])
                if owner in found:
                    del self._left[saved]
                    self._restored.append(saved)
        for path, value in graph.stateful.items():
            name = self._saved_as(path, graph, self._states)
            if name is not None:
                value.restore_state(decode(self._states.pop(name), self._contents.arrays))
                self._restored.append(name)

    def __repr__(self) -> str:
        return (
            f"<restored {len(self._restored)} from {self.path!r}, "
            f"{len(self._left) + len(self._states)} waiting, {len(self._missing)} missing>"
        )


def _reference(value: Any) -> Callable[[], Any]:
    # Waiting values do not keep a model alive. Lists and dicts have no weak references.
    try:
        return weakref.ref(value)
    except TypeError:
        return lambda: value


def _listed(paths: tuple[str, ...]) -> str:
    shown = ", ".join(paths[:10])
    return shown if len(paths) <= 10 else f"{shown} and {len(paths) - 10} more"
