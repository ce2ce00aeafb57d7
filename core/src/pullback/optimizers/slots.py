"""What an optimizer keeps for each variable."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TypeAlias

from pullback.variable import Variable

__all__ = ["Exclusions", "Slots"]


class Slots:
    """The slots of variables, each set for as long as its variable lives."""

    # Without a __dict__ a walk passes it over: slots are saved by the paths of their variables.
    __slots__ = ("_of",)

    def __init__(self) -> None:
        self._of: dict[int, tuple[weakref.ref[Variable], dict[str, Variable]]] = {}

    def of(self, variable: Variable) -> dict[str, Variable]:
        """The slots of a variable by name."""
        key = id(variable)
        found = self._of.get(key)
        if found is None:
            of = self._of
            reference = weakref.ref(variable, lambda _: of.pop(key, None))
            found = of[key] = (reference, {})
        return found[1]

    def named(self, name: str) -> list[tuple[Variable, Variable]]:
        """Each variable that has a slot of that name, and the slot."""
        return [(variable, slot) for variable, one, slot in self if one == name]

    def drop(self, name: str) -> None:
        """Forgets the slots of that name."""
        for _, slots in self._of.values():
            slots.pop(name, None)

    def keep(self, wanted: Collection[tuple[int, str]]) -> None:
        """Forgets all slots but those wanted: the id of a variable, and a name."""
        for key, (_, slots) in self._of.items():
            for name in [name for name in slots if (key, name) not in wanted]:
                del slots[name]

    def __iter__(self) -> Iterator[tuple[Variable, str, Variable]]:
        for reference, slots in list(self._of.values()):
            variable = reference()
            if variable is not None:
                for name, slot in list(slots.items()):
                    yield variable, name, slot


#: Variables, or a function of a variable that says whether it is one of them.
ExclusionsLike: TypeAlias = "Iterable[Variable] | Callable[[Variable], bool] | None"


class Exclusions:
    """Variables that something is not for."""

    # The variables are those of a model; a walk is to find them there.
    __slots__ = ("_decide", "_variables")

    def __init__(self, given: ExclusionsLike) -> None:
        self._decide = given if callable(given) else None
        listed = () if given is None or callable(given) else tuple(given)
        self._variables = {id(variable): variable for variable in listed}

    def __contains__(self, variable: Variable) -> bool:
        if self._decide is not None:
            return bool(self._decide(variable))
        return id(variable) in self._variables
