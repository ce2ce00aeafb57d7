"""The objects that a checkpoint is of: what they hold, by path."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol, runtime_checkable

from pullback import errors
from pullback._dispatch.recording import paused
from pullback.checkpoint.encoding import Array, encode, is_data
from pullback.checkpoint.manifest import Contents
from pullback.state.objects import Stateful, join, walk
from pullback.variable import Variable


@runtime_checkable
class HasSlots(Protocol):
    """An optimizer: it keeps values of its own for each variable that it trains."""

    def slot_variables(self) -> Iterable[tuple[Variable, str, Variable]]:
        """Each slot: the variable it is for, its name, and the slot."""

    def restore_slot(self, variable: Variable, name: str, value: Array) -> None:
        """Sets one slot, which is made if need be."""


class Graph:
    """The objects under some roots as they are now.

    Args:
        roots: each object by the name it was given to the checkpoint under.
    """

    def __init__(self, roots: Mapping[str, Any]) -> None:
        self.roots = dict(roots)
        #: Everything under its path, lists and dicts as well.
        self.places: dict[str, Any] = {}
        self.variables: dict[str, Variable] = {}
        self.stateful: dict[str, Stateful] = {}
        self.optimizers: dict[str, HasSlots] = {}
        self.types: dict[str, str] = {}
        #: Other paths of shared objects, to the paths under which they are listed.
        self.aliases: dict[str, str] = {}
        for path, value, first in walk(self.roots):
            if not path:
                continue
            if first is not None:
                self.aliases[path] = first
                continue
            self.places[path] = value
            if isinstance(value, Variable):
                self.variables[path] = value
            elif not isinstance(value, (list, tuple, dict)):
                self.types[path] = type(value).__qualname__
                if isinstance(value, Stateful):
                    self.stateful[path] = value
                if isinstance(value, HasSlots):
                    self.optimizers[path] = value

    def names(self, path: str) -> list[str]:
        """Every path of the object that is listed under `path`."""
        return [path, *others(path, [(first, alias) for alias, first in self.aliases.items()])]

    def contents(self, step: int | None, metric: float | None) -> Contents:
        """What is to be saved: a snapshot, which later changes do not show in.

        Raises:
            CheckpointError: for what has no form in a checkpoint.
        """
        arrays: dict[str, Any] = {}
        data: dict[str, Any] = {}
        for name, value in self.roots.items():
            if is_data(value):
                data[name] = encode(value, arrays, name)
            elif not any(path == name or path.startswith(f"{name}/") for path in self._listed()):
                raise errors.CheckpointError(
                    f"the checkpoint cannot hold {name}: a {type(value).__name__} is not restored "
                    f"into; make it a pb.Variable, or an object with checkpoint_state()"
                )
        states = {
            path: encode(dict(value.checkpoint_state()), arrays, path)
            for path, value in self.stateful.items()
        }
        # Tensors: they stay what they are, and are brought to the host when they are written.
        with paused():
            for path, variable in self.variables.items():
                arrays[path] = variable.value
            for path, slot in self.slots():
                arrays[path] = slot.value
        return Contents(arrays, self.types, self.aliases, states, data, step, metric)

    def builder(self, path: str) -> str | None:
        """The path of the innermost object around `path` that is built some time; None for none."""
        while path:
            path = path.rpartition("/")[0]
            path = self.aliases.get(path, path)
            if isinstance(getattr(self.places.get(path), "built", None), bool):
                return path
        return None

    def may_have(self, path: str) -> bool:
        """Whether what is not there at a path may still come there.

        A layer that has been built has all its variables; anything else may be given more.
        """
        builder = self.builder(path)
        return builder is None or not self.places[builder].built

    def unbuilt(self) -> bool:
        """Whether anything is still to be built."""
        return any(getattr(value, "built", None) is False for value in self.places.values())

    def _listed(self) -> Iterable[str]:
        return (*self.variables, *self.types, *self.aliases)

    def slots(self) -> Iterable[tuple[str, Variable]]:
        """The slots of every optimizer, under its path and that of the variable.

        Raises:
            CheckpointError: when the variable is not under the roots.
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
    """Where a slot is saved: optimizer/slots/momentum/model/layers/0/kernel."""
    return f"{join(join(optimizer, 'slots'), name)}/{variable}"


def others(path: str, renamed: Iterable[tuple[str, str]]) -> list[str]:
    """What `path` becomes when its beginning is replaced as one of the pairs says."""
    found = []
    for old, new in renamed:
        if path == old:
            found.append(new)
        elif path.startswith(f"{old}/"):
            found.append(new + path[len(old) :])
    return found
