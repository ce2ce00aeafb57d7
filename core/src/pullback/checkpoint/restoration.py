"""The values of a checkpoint, given to objects that exist and to those that are made later."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Container, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from pullback import errors
from pullback._dispatch.arguments import as_bool
from pullback.checkpoint.encoding import decode
from pullback.checkpoint.manifest import Contents
from pullback.checkpoint.objects import ObjectGraph, others
from pullback.state.objects import PENDING_RESTORES, Stateful
from pullback.variable import Variable

__all__ = ["Restoration"]


class Restoration:
    """The result of `checkpoint.restore(path)`, with values for variables that do not exist yet.

    A layer makes its variables at its first call. Their saved values wait until then, and are
    assigned before the variables are first read.
    """

    def __init__(self, path: str, contents: Contents, roots: Mapping[str, object]) -> None:
        if not isinstance(contents, Contents):
            raise errors.InputTypeError("pb.Checkpoint(...).restore(path) makes restorations")
        #: The path of the checkpoint.
        self.path = path
        self._aliases = contents.aliases
        #: Everything that was saved: shapes and dtypes of variables, and the paths of states.
        self._kinds = {
            name: (array.shape, array.dtype)
            for name, array in contents.arrays.items()
            if name[0] != ":"
        }
        self._stateful = frozenset(contents.states)
        self._roots = {name: _reference(value) for name, value in roots.items()}
        # Only values that some object may still take are kept in memory.
        saved = (*self._kinds, *self._stateful)
        asked_for = {
            name for name in saved if any(_root(path) in roots for path in self._names(name))
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
        #: The paths of the objects that existed when the restoration began.
        self._known: frozenset[str] = frozenset()
        self._ended = False

    def _names(self, path: str) -> tuple[str, ...]:
        """Returns every path that the entry saved under `path` had when it was saved."""
        return (path, *others(path, [(first, alias) for alias, first in self._aliases.items()]))

    @property
    def restored(self) -> tuple[str, ...]:
        """The paths that have their saved values now."""
        return tuple(self._restored)

    @property
    def missing(self) -> tuple[str, ...]:
        """The paths that the objects have and the checkpoint lacks."""
        self.restore_deferred()
        return self._missing

    @property
    def waiting(self) -> tuple[str, ...]:
        """The saved paths whose objects have not been built yet."""
        return self._remaining()[0]

    @property
    def unexpected(self) -> tuple[str, ...]:
        """The saved paths that no object takes."""
        return self._remaining()[1]

    def assert_complete(self) -> Restoration:
        """Checks that every saved value was restored, and that every object had one.

        Raises:
            CheckpointError: if not; names the paths.
        """
        waiting, unexpected = self._remaining()
        self._raise_if_any(self.missing, unexpected)
        if waiting:
            raise errors.CheckpointError(
                f"{self.path}: {_listed(waiting)} of the checkpoint wait for objects that do "
                f"not exist yet; call the model once to make its variables"
            )
        return self

    def report(self) -> str:
        """Returns a summary: how many entries were restored, and which paths did not match.

        >>> import tempfile
        >>> saved = pb.Checkpoint(a=pb.Variable(1.0), b=pb.Variable(2.0))
        >>> path = saved.save(tempfile.mkdtemp())
        >>> other = pb.Checkpoint(a=pb.Variable(0.0), c=pb.Variable(0.0))
        >>> print(other.restore(path, partial=True).report())
        1 restored, 0 waiting, 1 missing, 1 unexpected
        missing     c  (the checkpoint has no value for it)
        unexpected  b  (the checkpoint has a value that no object takes)
        """
        waiting, unexpected = self._remaining()
        kinds = {
            "waiting": (waiting, "until its object is built"),
            "missing": (self.missing, "the checkpoint has no value for it"),
            "unexpected": (unexpected, "the checkpoint has a value that no object takes"),
        }
        counts = [f"{len(paths)} {kind}" for kind, (paths, _) in kinds.items()]
        lines = [
            f"{kind:<10}  {path}  ({why})" for kind, (paths, why) in kinds.items() for path in paths
        ]
        return "\n".join([", ".join([f"{len(self._restored)} restored", *counts]), *lines])

    def _remaining(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Returns the paths not restored yet: those that may still be, and those that may not."""
        self.restore_deferred()
        return self._split(self._graph())

    def _split(self, graph: ObjectGraph) -> tuple[tuple[str, ...], tuple[str, ...]]:
        waiting: list[str] = []
        unexpected: list[str] = []
        for path in (*self._left, *self._states):
            (waiting if self._may_come(path, graph) else unexpected).append(path)
        return tuple(waiting), (*unexpected, *self._not_asked_for)

    def _may_come(self, path: str, graph: ObjectGraph) -> bool:
        owner = self._owner(path)
        if owner is not None:
            # A slot: it comes with its variable, if there is the optimizer.
            optimizer, variable = owner
            exists = variable in graph.variables or self._may_come(variable, graph)
            return exists and optimizer in graph.entries
        return any(
            _root(name) in graph.roots and graph.may_have(name) for name in self._names(path)
        )

    def _owner(self, path: str) -> tuple[str, str] | None:
        """Returns the optimizer and the variable of a slot; None for the path of anything else."""
        head, slots, rest = path.partition("/slots/")
        variable = rest.partition("/")[2]
        return (head, variable) if slots and variable in self._kinds else None

    def _raise_if_any(self, missing: tuple[str, ...], unexpected: tuple[str, ...]) -> None:
        faults = []
        if missing:
            faults.append(f"the checkpoint has no value for {_listed(missing)}")
        if unexpected:
            faults.append(f"no object takes its {_listed(unexpected)}")
        if faults:
            raise errors.CheckpointError(
                f"{self.path}: {'; '.join(faults)}; it was saved from other objects. To restore "
                f"only the paths that match: restore(path, partial=True)"
            )

    def begin(
        self, *, partial: bool, data: tuple[str, ...] = (), last: Callable[[], object] | None = None
    ) -> None:
        """Restores the objects that exist; the other values wait.

        Args:
            partial: True to leave objects that the checkpoint lacks as they are.
            data: the names of plain data that the checkpoint lacks.
            last: what belongs to the restoration and comes last; nothing is changed if it raises.

        Raises:
            CheckpointError: for shapes or dtypes that differ and, unless partial, for objects
                that the checkpoint lacks. Nothing has been changed then.
        """
        graph = self._graph()
        matches, missing = self._match(graph)
        missing += tuple(
            path for path in graph.stateful if self._saved_as(path, graph, self._stateful) is None
        )
        missing += data
        if not as_bool(partial, "partial"):
            self._raise_if_any(missing, self._surplus(graph, matches))
        self._missing = missing
        self._partial = partial
        self._known = frozenset(graph.entries)
        self._assign(graph, matches, last)
        # A later restoration into the same objects takes the place of an earlier one.
        for earlier in list(PENDING_RESTORES):
            earlier.forget(graph.roots.values())
        if not self._ended:
            PENDING_RESTORES.append(self)

    def _surplus(
        self, graph: ObjectGraph, matches: Mapping[str, list[Variable]]
    ) -> tuple[str, ...]:
        """Returns the saved paths that no object takes.

        Entries of objects that are not restored do not count: a model is restored without its
        optimizer by leaving that out.
        """
        states = (self._saved_as(path, graph, self._stateful) for path in graph.stateful)
        taken = {*matches, *states}

        def is_taken(path: str) -> bool:
            optimizer, variable = self._owner(path) or ("", path)
            exists = variable in taken and (not optimizer or optimizer in graph.entries)
            return exists or self._may_come(path, graph)

        return tuple(path for path in (*self._left, *self._states) if not is_taken(path))

    def restore_deferred(self) -> None:
        """Gives deferred values to the objects made since.

        Raises:
            CheckpointError: for shapes or dtypes that differ and, unless partial, for new
                variables of the restored objects that the checkpoint has no value for.
        """
        if self._ended:
            return
        graph = self._graph()
        if not graph.roots:
            self._end()
            return
        try:
            matches, missing = self._match(graph)
            late = tuple(path for path in missing if path not in self._missing)
            self._missing += late
            if not self._partial:
                # Objects that were added since are only reported.
                self._raise_if_any(tuple(p for p in late if graph.builder(p) in self._known), ())
            self._assign(graph, matches)
        except errors.PullbackError:
            # The error is raised once, to whoever made the objects.
            self._end()
            raise

    def forget(self, objects: Collection[object]) -> None:
        """Gives up on objects that another restoration is for."""
        taken = {id(value) for value in objects}
        self._roots = {n: get for n, get in self._roots.items() if id(get()) not in taken}
        if not self._roots:
            self._end()

    def _end(self) -> None:
        self._ended = True
        self._left, self._states = {}, {}
        PENDING_RESTORES[:] = [pending for pending in PENDING_RESTORES if pending is not self]

    def _graph(self) -> ObjectGraph:
        alive = {name: get() for name, get in self._roots.items()}
        return ObjectGraph({name: value for name, value in alive.items() if value is not None})

    # Matching ------------------------------------------------------------------------------------

    def _match(self, graph: ObjectGraph) -> tuple[dict[str, list[Variable]], tuple[str, ...]]:
        """Returns the variables for each saved path, and the paths without a saved value."""
        matches: dict[str, list[Variable]] = {}
        missing = []
        wrong = []
        for path, variable in graph.variables.items():
            saved = self._saved_as(path, graph, self._kinds)
            if saved is None:
                missing.append(path)
                continue
            matches.setdefault(saved, []).append(variable)
            shape, dtype = self._kinds[saved]
            if shape != variable.shape or dtype != variable.dtype:
                wrong.append(
                    f"{path} is {variable.dtype}{list(variable.shape)}, "
                    f"the saved value is {dtype}{list(shape)}"
                )
        if wrong:
            raise errors.CheckpointError(
                f"{self.path} does not fit: {'; '.join(wrong)}; make the objects with the sizes "
                f"and dtypes that they were saved with"
            )
        return matches, tuple(missing)

    def _saved_as(self, path: str, graph: ObjectGraph, saved: Container[str]) -> str | None:
        """Returns the saved path of an object, by any of its paths now or when it was saved."""
        for name in graph.names(path):
            for other in (name, *others(name, self._aliases.items())):
                if other in saved:
                    return other
        return None

    # Assigning -----------------------------------------------------------------------------------

    def _assign(
        self,
        graph: ObjectGraph,
        matches: Mapping[str, list[Variable]],
        last: Callable[[], object] | None = None,
    ) -> None:
        """Gives the objects their values: all of them, or none if one is rejected."""
        before = _Before(graph)
        left, states, restored = dict(self._left), dict(self._states), list(self._restored)
        try:
            self._give(graph, matches, before)
            if last is not None:
                last()
            done = not (self._left or self._states or graph.unbuilt())
        except BaseException:
            before.put_back()
            self._left, self._states, self._restored = left, states, restored
            raise
        if done:
            self._end()

    def _give(
        self, graph: ObjectGraph, matches: Mapping[str, list[Variable]], before: _Before
    ) -> None:
        for saved, variables in matches.items():
            array = self._left.pop(saved, None)
            if array is not None:
                for variable in variables:
                    variable.assign(array)
                self._restored.append(saved)
        for path, optimizer in graph.optimizers.items():
            prefix = f"{path}/slots/"
            for saved in [name for name in self._left if name.startswith(prefix)]:
                slot, _, owner = saved[len(prefix) :].partition("/")
                for variable in matches.get(owner, ()):
                    with self._explained(saved):
                        optimizer.restore_slot(variable, slot, self._left[saved])
                if owner in matches:
                    del self._left[saved]
                    self._restored.append(saved)
        for path, value in graph.stateful.items():
            name = self._saved_as(path, graph, self._states)
            if name is not None:
                before.see(value)
                with self._explained(name):
                    value.restore_state(self._states.pop(name))
                self._restored.append(name)

    @contextmanager
    def _explained(self, path: str) -> Iterator[None]:
        """Adds the checkpoint and the path to an error of an object that rejects its state."""
        try:
            yield
        except errors.CheckpointError as error:
            raise errors.CheckpointError(f"{self.path}: {path}: {error}") from error
        except errors.PullbackError:
            raise
        except Exception as error:
            raise errors.CheckpointError(
                f"{self.path}: the object rejects the saved state of {path}: "
                f"{type(error).__name__}: {error}; it was saved from another kind of object, or "
                f"another version of it"
            ) from error

    def __repr__(self) -> str:
        if not self.path:
            return "<nothing to restore>"
        rest = {
            "waiting for objects to be built": len(self._left) + len(self._states),
            "not asked for": len(self._not_asked_for),
            "missing": len(self._missing),
        }
        others = "".join(f", {count} {what}" for what, count in rest.items() if count)
        return f"<restored {len(self._restored)} from {self.path!r}{others}>"


class _Before:
    """The values of the objects of a graph, to be put back if a restoration fails."""

    def __init__(self, graph: ObjectGraph) -> None:
        self._variables = [(variable, variable.value) for variable in graph.variables.values()]
        self._slots = [
            (optimizer, [(v, name, slot.value) for v, name, slot in optimizer.slot_variables()])
            for optimizer in graph.optimizers.values()
        ]
        self._states: dict[int, tuple[Stateful, Mapping[str, Any]]] = {}
        for optimizer in graph.optimizers.values():
            if isinstance(optimizer, Stateful):
                self.see(optimizer)

    def see(self, owner: Stateful) -> None:
        """Takes note of the state of an object, which is about to get another one."""
        # An object may have no state to tell of before it gets its first.
        if id(owner) not in self._states:
            with suppress(Exception):
                self._states[id(owner)] = owner, owner.checkpoint_state()

    def put_back(self) -> None:
        """Has the objects be as they were."""
        for variable, value in self._variables:
            variable.assign(value)
        # The state of an optimizer ends a restoration of its slots: first the one that has failed.
        self._put_states_back()
        for optimizer, slots in self._slots:
            for variable, name, slot in slots:
                optimizer.restore_slot(variable, name, slot.numpy())
        self._put_states_back()

    def _put_states_back(self) -> None:
        for owner, state in self._states.values():
            # It may have rejected the saved state for a fault of its own.
            with suppress(Exception):
                owner.restore_state(state)


def _reference(value: object) -> Callable[[], object]:
    # Deferred values do not keep a model alive. Lists and dicts have no weak references.
    try:
        return weakref.ref(value)
    except TypeError:
        return lambda: value


def _root(path: str) -> str:
    return path.partition("/")[0]


def _listed(paths: tuple[str, ...]) -> str:
    shown = ", ".join(paths[:10])
    return shown if len(paths) <= 10 else f"{shown} and {len(paths) - 10} more"
