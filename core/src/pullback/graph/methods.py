"""Captured methods: each instance keeps its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pullback.graph.function import Function


class Kept(tuple[Any, Any]):
    """The captured method that an instance keeps: no part of the instance's state."""

    opaque_state = True

    def __reduce__(self) -> tuple[Any, ...]:
        return Kept, ((None, None),)

    def __deepcopy__(self, memo: dict[int, Any]) -> Kept:
        return Kept((None, None))


def kept_by(instance: object, function: Function[..., Any], make: Callable[[], Any]) -> Any:
    """The captured method of an instance or, for a class method, of a class.

    Args:
        instance: what the method is bound to.
        function: the captured function that its class has.
        make: makes the captured method if the instance has none.
    """
    # With the name of the class: a method may call that of its base class.
    name = f"_captured_{function._name}"
    kept = getattr(instance, "__dict__", {}).get(name)
    if kept is None or kept[0] is not function:
        kept = function._bound.get(id(instance))
    if kept is None:
        kept = Kept((function, make()))
        keep = type.__setattr__ if isinstance(instance, type) else object.__setattr__
        try:
            keep(instance, name, kept)
        except (AttributeError, TypeError):  # a class with __slots__
            function._bound[id(instance)] = kept
    return kept[1]
