"""The objects of a checkpoint and their contents, by path."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol, runtime_checkable

from pullback import errors
from pullback._array_files import Array
from pullback._dispatch.recording import paused
from pullback.checkpoint.encoding import JSON, encode, is_data
from pullback.checkpoint.manifest import Contents
from pullback.state.objects import Stateful, join, walk
from pullback.variable import Variable


@runtime_checkable
class HasSlots(Protocol):
    """An optimizer, which keeps slots for each variable that it trains."""

    def slot_variables(self) -> Iterable[tuple[Variable, str, Variable]]:
        """Returns each slot: its variable, its name, and the slot itself."""

    def restore_slot(self, variable: Variable, name: str, value: Array) -> None:
        """Sets a slot, and makes it if necessary."""


class ObjectGraph:
    """The objects under some roots as they are now.

    Args:
        roots: each object by its name in the checkpoint.
    """

    def __init__(self, roots: Mapping[str, object]) -> None:
        self.roots = dict(roots)
        #: Every object under its path, lists and dicts as well.
        self.entries: dict[str, object] = {}
        self.variables: dict[str, Variable] = {}
        self.stateful: dict[str, Stateful] = {}
        self.optimizers: dict[str, HasSlots] = {}
        self.types: dict[str, str] = {}
        #: From other paths of shared objects to the paths under which they are listed.
        self.aliases: dict[str, str] = {}
        for path, value, first in walk(self.roots):
            if not path:
                continue
            if first is not None:
                self.aliases[path] = first
                continue
            self.entries[path] = value
            if isinstance(value, Variable):
                self.variables[path] = value
            elif not isinstance(value, (list, tuple, dict)):
                self.types[path] = type(value).__qualname__
                if isinstance(value, Stateful):
                    self.stateful[path] = value
                if isinstance(value, HasSlots):
                    self.optimizers[path] = value

    def names(self, path: str) -> list[str]:
        """Returns every path of the object that is listed under `path`."""
        return [path, *others(path, [(first, alias) for alias, first in self.aliases.items()])]

    def contents(self, step: int | None, metric: float | None) -> Contents:
        """Returns a snapshot of everything that is saved; later changes do not affect it.

        Raises:
            CheckpointError: for an object that cannot be saved.
        """
        arrays: dict[str, Any] = {}
        data: dict[str, JSON] = {}
        for name, value in self.roots.items():
            if is_data(value):
                data[name] = encode(value, arrays, name)
            elif not any(path == name or path.startswith(f"{name}/") for path in self._listed()):
                raise errors.CheckpointError(
                    f"the checkpoint cannot hold {name}: a {type(value).__name__} cannot be "
                    f"restored; make it a pb.Variable, or an object with checkpoint_state()"
                )
        states = {
            path: encode(dict(value.checkpoint_state()), arrays, path)
            for path, value in self.stateful.items()
        }
        # Tensors do not change, and are copied to the host when they are written.
        with paused():
            for path, variable in self.variables.items():
                arrays[path] = variable.value
            for path, slot in self.slots():
                arrays[path] = slot.value
        return Contents(arrays, self.types, self.aliases, states, data, step, metric)

    def builder(self, path: str) -> str | None:
        """Returns the path of the innermost object around `path` with a `built` flag, or None."""
        while path:
            path = path.rpartition("/")[0]
            path = self.aliases.get(path, path)
            if isinstance(getattr(self.entries.get(path), "built", None), bool):
                return path
        return None

    def may_have(self, path: str) -> bool:
        """True if a variable that does not exist at a path may still be made there.

        A layer that has been built has all its variables; other objects may get more.
        """
        builder = self.builder(path)
        return builder is None or getattr(self.entries[builder], "built", None) is False

    def unbuilt(self) -> bool:
        """True if some object has not been built yet."""
        return any(getattr(value, "built", None) is False for value in self.entries.values())

    def _listed(self) -> Iterable[str]:
        return (*self.variables, *self.types, *self.aliases)

    def slots(self) -> Iterable[tuple[str, Variable]]:
        """Yields the slots of every optimizer, under its path and that of the variable.

        Raises:
            CheckpointError: if a variable is not under the roots.
        """
        paths = {id(variable): path for path, variable in self.variables.items()}
        for path, optimizer in self.optimizers.items():
            for variable, name, slot in optimizer.slot_variables():
                owner = paths.get(id(variable))
                if owner is None:
                    raise errors.CheckpointError(
                        f"{path} has trained {variable!r}, which is not in the checkpoint; give "
                        f"what holds it as well: pb.Checkpoint(model=model, optimizer=optimizer)"
                    )
                yield slot_path(path, name, owner), slot


def slot_path(optimizer: str, name: str, variable: str) -> str:
    """Returns the path of a slot, such as optimizer/slots/momentum/model/layers/0/kernel."""
    return f"{join(join(optimizer, 'slots'), name)}/{variable}"


def others(path: str, renamed: Iterable[tuple[str, str]]) -> list[str]:
    """Returns the other paths of `path`: its beginning replaced as each pair (old, new) says."""
    paths = []
    for old, new in renamed:
        if path == old:
            paths.append(new)
        elif path.startswith(f"{old}/"):
            paths.append(new + path[len(old) :])
    return paths
