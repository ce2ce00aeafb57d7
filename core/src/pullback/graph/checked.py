"""Calls of a captured function that are compared with the function op by op."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import Any

import numpy as np

from pullback import errors
from pullback._dispatch.host_state import HostState
from pullback._symbols import Break, Late
from pullback._tree import leaves
from pullback.graph.host import contents, replace, same
from pullback.graph.record import Recorder
from pullback.graph.signature import Signature
from pullback.graph.trace_call import traced
from pullback.tensor import Tensor


class Expected:
    """The results and the state that a call has op by op; what it changes is taken back.

    Args:
        f: the function.
        name: its name, for messages.
        signature: the arguments.
    """

    def __init__(self, f: Callable[..., Any], name: str, signature: Signature) -> None:
        self._name = name
        #: A name, what reads a state, and what puts its value of before the call back.
        self._places: list[tuple[str, Callable[[], Any], Callable[[], object]]] = []
        #: False for a call that fails: the call itself says why.
        self.is_known = True
        try:
            result, _ = traced(f, name, signature, commit=True, seen=self._see)
            self._results = [_bits(leaf) for leaf in leaves(result)]
            self._after = [read() for _, read, _ in self._places]
        except (Break, Late, Exception):
            self.is_known = False
        for _, _, put_back in self._places:
            put_back()

    def _see(self, recorder: Recorder, containers: list[Any]) -> None:
        effects = recorder.effects
        for held in effects.written:
            variable = held.place
            name = f"the variable {variable.name!r}" if variable.name else "a variable"
            array = variable._array
            put_back = partial(setattr, variable, "_array", array)
            self._places.append((name, partial(_value_of, variable), put_back))
        for state in effects.states:
            put_back = partial(setattr, state, "value", copy.copy(state.value))
            self._places.append((state.name, partial(_value_of, state), put_back))
        owners = [getattr(function, "__self__", None) for function, _ in effects.in_order]
        for owner in {id(owner): owner for owner in owners if hasattr(owner, "__dict__")}.values():
            kept = {name: _copied(value) for name, value in vars(owner).items()}
            read = partial(_attributes_of, owner)
            put_back = partial(vars(owner).update, kept)
            self._places.append((f"the state of {type(owner).__name__}", read, put_back))
        for generator, before in recorder.drawn_from:
            read, put_back = partial(getattr, generator, "state"), partial(_set, generator, before)
            self._places.append(("the state of a generator", read, put_back))
        for container in containers:
            items = copy.copy(container)
            put_back = partial(replace, container, items)
            self._places.append(("an argument", partial(_items_of, container), put_back))

    def check(self, result: Any) -> None:
        """Compares a call with what it is op by op.

        Raises:
            CaptureError: for results or state of other bits.
        """
        differs = [*self._differences(result)]
        if differs:
            raise errors.CaptureError(
                f"{self._name} as a program differs from {self._name} op by op in "
                f"{', '.join(differs)}: it reads something that no program can see, or the program "
                f"is wrong; pass what changes as an argument, or report this with the function"
            )

    def _differences(self, result: Any) -> Iterator[str]:
        found = [_bits(leaf) for leaf in leaves(result)]
        if len(found) != len(self._results):
            yield "the structure of its result"
        elif not all(map(same, found, self._results)):
            yield "its result"
        for (name, read, _), value in zip(self._places, self._after, strict=True):
            if not same(read(), value):
                yield name


def _bits(value: Any) -> Any:
    """Returns what is compared of a value: of a tensor its shape, dtype and memory."""
    if isinstance(value, Tensor):
        return value.shape, value.dtype.name, np.asarray(value.numpy()).tobytes()
    if isinstance(value, np.ndarray):
        return value.shape, value.dtype.name, value.tobytes()
    if isinstance(value, HostState):
        return _bits(value.value)
    if type(value) in (list, tuple, dict):
        return tuple(map(_bits, contents(value)))
    return value


def _copied(value: Any) -> Any:
    return copy.copy(value) if type(value) in (list, dict, set) else value


def _value_of(place: Any) -> Any:
    return _bits(place.value)


def _attributes_of(owner: object) -> Any:
    return _bits(vars(owner))


def _items_of(container: Collection[Any]) -> Any:
    return tuple(map(_bits, contents(container)))


def _set(generator: Any, state: Any) -> None:
    generator.state = state
