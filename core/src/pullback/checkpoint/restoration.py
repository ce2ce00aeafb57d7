"""Handing out what a checkpoint holds, to objects that are there and to those still to be made."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pullback import errors
from pullback.checkpoint.encoding import decode
from pullback.checkpoint.manifest import Contents
from pullback.checkpoint.objects import Graph, others
from pullback.state.objects import WAITING
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
        self._aliases = contents.aliases
        #: All that was saved: shapes and dtypes of variables, and the paths of states.
        self._kinds = {
            name: (array.shape, array.dtype)
            for name, array in contents.arrays.items()
            if name[0] != ":"
        }
        self._stateful = frozenset(contents.states)
        self._roots = {name: _reference(value) for name, value in roots.items()}
        # What has been taken, and what nobody asks for, is not kept in memory.
        saved = (*self._kinds, *self._stateful)
        asked_for = {
            name for name in saved if any(_root(one) in roots for one in self._names(name))
        }
        self._not_asked_for = tuple(name for name in saved if name not in asked_for)
        self._left = {name: contents.arrays[name] for name in self._kinds if name in asked_for}
        self._states = {
            name: decode(state, contents.arrays)
            for name, state in contents.states.items()
            if name in asked_for
        }
        self._restored: list[str] = []
        self._missing: tuple[str, ...] = ()
        self._partial = False
        #: The paths of what there was when it was restored into.
        self._known: frozenset[str] = frozenset()
        self._ended = False

    def _names(self, path: str) -> tuple[str, ...]:
        """Every path that what is saved under a path had then."""
        return (path, *others(path, [(first, alias) for alias, first in self._aliases.items()]))

    @property
    def restored(self) -> tuple[str, ...]:
        """The paths of what has its saved value now."""
        return tuple(self._restored)

    @property
    def missing(self) -> tuple[str, ...]:
        """The paths of what the objects have, and the checkpoint had not."""
        self.hand_out()
        return self._missing

    @property
    def waiting(self) -> tuple[str, ...]:
        """The paths of what was saved of objects that have not been built yet."""
        return self._sorted_out()[0]

    @property
    def unexpected(self) -> tuple[str, ...]:
        """The paths of what was saved, and the objects have no place for."""
        return self._sorted_out()[1]

    def assert_complete(self) -> Restoration:
        """Raises unless everything saved has been restored, and everything there was saved.

        Raises:
            CheckpointError: names the paths.
        """
        waiting, unexpected = self._sorted_out()
        self._refuse(self.missing, unexpected)
        if waiting:
            raise errors.CheckpointError(
                f"{self.path}: {_listed(waiting)} of the checkpoint wait for objects that do "
                f"not exist; call the model once to make its variables"
            )
        return self

    def report(self) -> str:
        """What came of it: how much was restored, and by path what did not match.

        >>> import tempfile
        >>> saved = pb.Checkpoint(a=pb.Variable(1.0), b=pb.Variable(2.0))
        >>> path = saved.save(tempfile.mkdtemp())
        >>> other = pb.Checkpoint(a=pb.Variable(0.0), c=pb.Variable(0.0))
        >>> print(other.restore(path, partial=True).report())
        1 restored, 0 waiting, 1 missing, 1 unexpected
        missing     c  (the checkpoint has no value for it)
        unexpected  b  (the checkpoint has a value, and nothing takes it)
        """
        waiting, unexpected = self._sorted_out()
        kinds = {
            "waiting": (waiting, "until its object is built"),
            "missing": (self.missing, "the checkpoint has no value for it"),
            "unexpected": (unexpected, "the checkpoint has a value, and nothing takes it"),
        }
        counts = [f"{len(paths)} {kind}" for kind, (paths, _) in kinds.items()]
        lines = [
            f"{kind:<10}  {path}  ({why})" for kind, (paths, why) in kinds.items() for path in paths
        ]
        return "\n".join([", ".join([f"{len(self._restored)} restored", *counts]), *lines])

    def _sorted_out(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """What nothing has taken yet: what may still be taken, and what may not."""
        self.hand_out()
        return self._split(self._graph())

    def _split(self, graph: Graph) -> tuple[tuple[str, ...], tuple[str, ...]]:
        waiting: list[str] = []
        unexpected: list[str] = []
        for path in (*self._left, *self._states):
            (waiting if self._may_come(path, graph) else unexpected).append(path)
        return tuple(waiting), (*unexpected, *self._not_asked_for)

    def _may_come(self, path: str, graph: Graph) -> bool:
        owner = self._owner(path)
        if owner is not None:
            # A slot: it comes with its variable, if there is the optimizer.
            optimizer, variable = owner
            there = variable in graph.variables or self._may_come(variable, graph)
            return there and optimizer in graph.places
        return any(
            _root(name) in graph.roots and graph.may_have(name) for name in self._names(path)
        )

    def _owner(self, path: str) -> tuple[str, str] | None:
        """The optimizer and the variable that a slot is of; None for what is no slot."""
        head, slots, rest = path.partition("/slots/")
        variable = rest.partition("/")[2]
        return (head, variable) if slots and variable in self._kinds else None

    def _refuse(self, missing: tuple[str, ...], unexpected: tuple[str, ...]) -> None:
        faults = []
        if missing:
            faults.append(f"the checkpoint has nothing for {_listed(missing)}")
        if unexpected:
            faults.append(f"the objects have no place for its {_listed(unexpected)}")
        if faults:
            raise errors.CheckpointError(
                f"{self.path}: {'; '.join(faults)}; it was saved from other objects. To restore "
                f"what matches: restore(path, partial=True)"
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
            path for path in graph.stateful if self._saved_as(path, graph, self._stateful) is None
        )
        missing += data
        if not partial:
            self._refuse(missing, self._surplus(graph, found))
        self._missing = missing
        self._partial = partial
        self._known = frozenset(graph.places)
        # A later restoration into the same objects takes the place of an earlier one.
        for hand_out in list(WAITING):
            earlier = getattr(hand_out, "__self__", None)
            if isinstance(earlier, Restoration):
                earlier.forget(graph)
        self._give(graph, found)
        WAITING.append(self.hand_out)
        self._end_if_done(graph)

    def _surplus(self, graph: Graph, found: Mapping[str, Any]) -> tuple[str, ...]:
        """What was saved of these objects, and they have no place for.

        What was saved of others is not asked for: a model is restored without its optimizer by
        leaving that out.
        """
        taken = {*found, *(self._saved_as(path, graph, self._stateful) for path in graph.stateful)}

        def has_place(path: str) -> bool:
            optimizer, variable = self._owner(path) or ("", path)
            there = variable in taken and (not optimizer or optimizer in graph.places)
            return there or self._may_come(path, graph)

        return tuple(path for path in (*self._left, *self._states) if not has_place(path))

    def hand_out(self) -> None:
        """Gives values that wait to the objects made since.

        Raises:
            CheckpointError: for shapes or dtypes that differ, and, unless partial, for variables
                of what was restored into that the checkpoint has no value for.
        """
        if self._ended:
            return
        graph = self._graph()
        if not graph.roots:
            self._end()
            return
        try:
            found, missing = self._match(graph)
            late = tuple(path for path in missing if path not in self._missing)
            self._missing += late
            if not self._partial:
                # What has come in since is nobody's fault, and only reported.
                self._refuse(tuple(p for p in late if graph.builder(p) in self._known), ())
            self._give(graph, found)
        except errors.PullbackError:
            # It has been said once, to who made the objects; it is nobody else's error.
            self._end()
            raise
        self._end_if_done(graph)

    def forget(self, graph: Graph) -> None:
        """Gives up handing out to objects that another restoration is for."""
        taken = {id(root) for root in graph.roots.values()}
        self._roots = {n: get for n, get in self._roots.items() if id(get()) not in taken}
        if not self._roots:
            self._end()

    def _end_if_done(self, graph: Graph) -> None:
        if not (self._left or self._states or graph.unbuilt()):
            self._end()

    def _end(self) -> None:
        self._ended = True
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
            saved = self._saved_as(path, graph, self._kinds)
            if saved is None:
                missing.append(path)
                continue
            found.setdefault(saved, []).append(variable)
            shape, dtype = self._kinds[saved]
            if shape != variable.shape or dtype != variable.dtype:
                wrong.append(
                    f"{path} is {variable.dtype}{list(variable.shape)}, "
                    f"saved was {dtype}{list(shape)}"
                )
        if wrong:
            raise errors.CheckpointError(
                f"{self.path} does not fit: {'; '.join(wrong)}; make the objects with the sizes "
                f"and dtypes that they were saved with"
            )
        return found, tuple(missing)

    def _saved_as(self, path: str, graph: Graph, saved: Container[str]) -> str | None:
        """The path under which an object was saved, by any of its paths now or then."""
        for name in graph.names(path):
            for other in (name, *others(name, self._aliases.items())):
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
                    with self._of(saved):
                        optimizer.restore_slot(variable, slot, self._left[saved])
                if owner in found:
                    del self._left[saved]
                    self._restored.append(saved)
        for path, value in graph.stateful.items():
            name = self._saved_as(path, graph, self._states)
            if name is not None:
                with self._of(name):
                    value.restore_state(self._states.pop(name))
                self._restored.append(name)

    @contextmanager
    def _of(self, path: str) -> Iterator[None]:
        """Says which part of which checkpoint it is that an object does not take."""
        try:
            yield
        except errors.CheckpointError as error:
            raise errors.CheckpointError(f"{self.path}: {path}: {error}") from error
        except errors.PullbackError:
            raise
        except Exception as error:
            raise errors.CheckpointError(
                f"{self.path}: the object does not take what was saved of {path}: "
                f"{type(error).__name__}: {error}; it was saved from another kind of object, or "
                f"another version of it"
            ) from error

    def __repr__(self) -> str:
        return (
            f"<restored {len(self._restored)} from {self.path!r}, "
            f"{len(self._left) + len(self._states) + len(self._not_asked_for)} not taken, "
            f"{len(self._missing)} missing>"
        )


def _reference(value: Any) -> Callable[[], Any]:
    # Waiting values do not keep a model alive. Lists and dicts have no weak references.
    try:
        return weakref.ref(value)
    except TypeError:
        return lambda: value


def _root(path: str) -> str:
    return path.partition("/")[0]


def _listed(paths: tuple[str, ...]) -> str:
    shown = ", ".join(paths[:10])
    return shown if len(paths) <= 10 else f"{shown} and {len(paths) - 10} more"
