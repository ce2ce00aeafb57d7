"""Guards for what a captured function reads beside its arguments.

A program is for what the function read when it was traced. Beginning with the function, `Reach`
follows the names in its code: closure cells and globals, defaults of parameters, attributes of
objects and modules, items of short lists, dicts and sets, and, where they belong to the user's
program, the functions and methods that it calls. Arguments that a program compares by identity are
followed too. Each is compared before a run: numbers and texts by value, all else by identity.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from types import FunctionType, MethodType
from typing import Any, cast

from pullback._dispatch.recording import AMBIENT, SETTINGS
from pullback._symbols import Break
from pullback.devices import Device
from pullback.graph.foreign import has_drawn, is_own, set_state
from pullback.graph.host import Guard, contents, replace, same
from pullback.graph.reach import Reach, of_class, wrapped
from pullback.tensor import Tensor


def guards_of(
    f: Callable[..., Any],
    arguments: Iterable[tuple[str, object]] = (),
    *,
    takes_numbers: bool = False,
) -> list[Guard]:
    """The guards for all that a function reads outside, with the values of now.

    Args:
        f: the function.
        arguments: names and values of arguments that are objects: what the function reads of them
            may change between calls.
        takes_numbers: whether numbers among the arguments are inputs: of other types than those.

    Raises:
        Break: if the function takes values from an iterator, or compares the types of numbers.
    """
    reach = Reach()
    owner: object = None
    function: object = f
    if isinstance(f, MethodType):
        owner, function = f.__self__, f.__func__
    elif not isinstance(f, (FunctionType, functools.partial)):
        owner, function = f, getattr(type(f).__call__, "__func__", type(f).__call__)
    objects = [*arguments]
    if isinstance(f, functools.partial):
        objects.append(("the arguments of functools.partial", f))

    def begin() -> None:
        for inner in wrapped(function):
            reach.function(inner, owner, "self")
        for path, value in objects:
            reach.inside(value, path, reach.of_attributes)

    reach.closed(begin)
    reach.check_iterators()
    if takes_numbers and reach.compares_types:
        raise Break("compares types with those of numbers")
    return [*(Guard(read, (), read(), what) for read, what in AMBIENT), *reach.found()]


class Reads:
    """The reads of what the framework calls in a trace, and the attributes its program has itself.

    That are layers, and functions and methods of the user's, such as losses.
    """

    def __init__(self) -> None:
        #: Attributes whose values are part of the program, by the identity of their object.
        self.announced: set[tuple[int, str]] = set()
        self.layers: dict[int, object] = {}
        self._of_layers = Reach(follows_framework=True)
        self._of_functions = Reach()
        #: The functions by what they and their objects are: a method is another object each time.
        self._functions: dict[tuple[int, int], tuple[Any, str]] = {}

    @property
    def guards(self) -> list[Guard]:
        """The guards of all that is read."""
        return [*self._of_layers.found(), *self._of_functions.found()]

    def layer(self, layer: Any) -> None:
        """Adds a layer that is called."""
        if id(layer) in self.layers:
            return
        self.layers[id(layer)] = layer
        reach, name = self._of_layers, type(layer).__name__
        reach.add(Guard(_own, (layer, "call"), _own(layer, "call"), f"{name}.call"))

        def begin() -> None:
            for base, call in of_class(type(layer), "call"):
                if isinstance(call, FunctionType):
                    if is_own(call.__module__):
                        reach.add(Guard(getattr, (base, "call"), call, f"{name}.call"))
                    reach.method(call, layer, name)

        reach.closed(begin)
        if "call" in vars(layer):
            self.function(layer.call, f"{name}.call")

    def function(self, function: object, path: str) -> None:
        """Adds a function, a method or an object that is called."""
        owner = getattr(function, "__self__", None)
        key = id(getattr(function, "__func__", function)), id(owner)
        if key in self._functions:
            return
        self._functions[key] = function, path
        reach = self._of_functions

        def begin() -> None:
            for function, path in self._functions.values():
                reach.inside(function, path, reach.of_attributes)

        reach.closed(begin)
        reach.check_iterators()


def _own(owner: object, name: str) -> object:
    """Returns what an object itself has under a name, not its class."""
    return vars(owner).get(name)


def settled(
    guards: Iterable[Guard], reads: Reads, device: Device, has_read: Callable[[object], bool]
) -> tuple[list[Guard], list[Guard]]:
    """Sorts the guards of a trace that has ended.

    Args:
        guards: those of the function, with the values from before the trace.
        reads: what the layers read.
        device: the device of the trace.
        has_read: whether the trace has computed with a tensor from outside.

    Returns:
        What each run compares, and what it compares when an attribute of a layer has been set.

    Raises:
        Break: if the function has put a tensor of the trace where it read one, or has drawn from a
            generator that is not the framework's.
    """
    always: list[Guard] = []
    layers: list[Guard] = []
    kept = None
    for guard in (*guards, *reads.guards):
        is_attribute = guard.function is getattr
        if is_attribute and (id(guard.arguments[0]), guard.arguments[1]) in reads.announced:
            continue
        if guard.function is has_drawn:
            if not guard.holds():
                set_state(*guard.arguments)
                raise Break(
                    f"draws random numbers from {guard.what}",
                    "draw with pb.random or a pb.Generator, or pass the numbers as arguments",
                )
            continue
        if not guard.holds():
            now, before = guard.function(*guard.arguments), cast("Any", guard.value)
            parts = now if guard.function is contents else (now,)
            keeps = any(type(part) is Tensor and part._device is device for part in parts)
            is_read = keeps and guard.function is contents and any(map(has_read, before))
            if guard.function is contents and _has_grown(guard, now, before) and not is_read:
                # Such as `calls.append(1)`: Python that a program does not repeat.
                continue
            if keeps:
                _put_back(guard)
                kept = guard.what
        (layers if _is_of_layer(guard, reads) else always).append(guard)
    if kept is not None:
        raise Break(
            f"keeps a tensor in {kept}, and reads it at the next call",
            "make a pb.Variable before the call, and assign the tensor to it",
        )
    return always, layers


def _is_of_layer(guard: Guard, reads: Reads) -> bool:
    """Returns whether a guard is one of an attribute of a layer, which counts when it is set."""
    if guard.function not in (getattr, _own) or id(guard.arguments[0]) not in reads.layers:
        return False
    layer, name = guard.arguments
    of_users = (base for base in type(layer).__mro__ if is_own(base.__module__))
    return name in vars(layer) or not any(name in vars(base) for base in of_users)


def _has_grown(guard: Guard, now: tuple[Any, ...], before: tuple[Any, ...]) -> bool:
    """Returns whether a container has what it had, and more behind it."""
    place = guard.arguments[0]
    if isinstance(place, set):
        return place.issuperset(before)
    return same(now[: len(before)], before)


def _put_back(guard: Guard) -> None:
    """Has a place hold what it held before the trace."""
    place, *name = guard.arguments
    before = cast("Any", guard.value)
    if guard.function is getattr:
        setattr(place, name[0], before)
    elif guard.function is not contents:
        cast("Any", guard.function).__self__[place] = before
    else:
        is_dict = isinstance(place, dict)
        replace(place, zip(before[::2], before[1::2], strict=True) if is_dict else before)


class Unset:
    """Guards of attributes of layers, which are asked when one has been set since they held."""

    def __init__(self, guards: Iterable[Guard]) -> None:
        self.guards = tuple(guards)
        self.count = SETTINGS.count if not self.unmet() else -1

    def unmet(self) -> list[Guard]:
        """The guards that do not hold now."""
        return [guard for guard in self.guards if not guard.holds()]

    def hold(self) -> bool:
        """Returns whether all hold."""
        count = SETTINGS.count
        if self.unmet():
            return False
        self.count = count
        return True
