"""The stack of a frame that a trace runs, with the values that are seen."""

from __future__ import annotations

import contextlib
import itertools
import sys
from collections.abc import Callable
from types import CodeType, FrameType, FunctionType, MethodType
from typing import Any

import numpy as np

from pullback.graph.host import LOST, UNKNOWN, Unknown, in_python, is_a, is_framework_code, is_plain
from pullback.graph.reads import Reads

#: What lies below a function that is called.
NULL = Unknown()


class Stack:
    """The stack of a frame, with what is known of the values on it.

    Args:
        places: what is told what is read.
        made: the code of functions that the trace makes.
    """

    def __init__(self, places: Reads, made: set[CodeType]) -> None:
        self.places = places
        self.made = made
        self.stack: list[Any] = []
        #: The functions from outside that the frame may run.
        self.functions: list[FunctionType] = []
        #: What functions that an instruction calls have returned.
        self.returned: list[Any] = []
        #: Whether the last of them is the result of the instruction.
        self.direct = False
        #: The function that the next instruction calls.
        self.callee: Any = None
        self.names: tuple[str, ...] = ()
        #: What to do when the place of the next instruction is known.
        self.branch: Callable[[int], None] | None = None

    def take_result(self) -> None:
        """Has the result of the last instruction where it was unknown."""
        returned, self.returned = self.returned, []
        if not self.stack or type(self.stack[-1]) is not Unknown or self.stack[-1] is NULL:
            return
        if self.direct and returned[-1] is not NotImplemented:
            self.stack[-1] = returned[-1]
        else:
            found = [value for value in returned if self._is_outside(value)]
            # And what new objects among them hold, such as the list of a comprehension.
            found += [x for value in returned for x in self.places.given(value)]
            self.stack[-1] = Unknown((*self.stack[-1].candidates, *found))

    def _is_outside(self, value: object) -> bool:
        return not is_plain(value) and self.places.is_outside(value)

    def pop(self) -> Any:
        """Takes the value on top."""
        return self.stack.pop() if self.stack else LOST

    def pops(self, count: int) -> list[Any]:
        """Takes some values, the one on top last."""
        if not count:
            return []
        values = self.stack[-count:]
        del self.stack[-count:]
        return [LOST] * (count - len(values)) + values

    def push(self, value: object) -> None:
        """Puts a value on top."""
        self.stack.append(value)

    def peek(self, depth: int) -> Any:
        """The value at a depth, from 1."""
        return self.stack[-depth] if len(self.stack) >= depth else LOST

    def build(self, count: int) -> None:
        """Takes some values, and gives a new object that holds them."""
        self.push(self.joined(self.pops(count)))

    def hand_over(self, values: list[Any]) -> None:
        """Values go to code that is not followed, and something comes back."""
        found = [x for value in values for x in self.places.given(value)]
        self.push(Unknown(tuple(found)) if found else UNKNOWN)

    def ask_truth(self, value: object) -> None:
        """Notes that the truth of a value is asked for."""
        if not is_plain(value):
            self.places.length(value)

    def call(self, frame: FrameType, callee: Any, args: list[Any], named: list[Any]) -> None:
        """Puts what a call returns on top, as far as it is known."""
        places = self.places
        self.callee = None
        while type(callee) is MethodType:
            callee, args = callee.__func__, [callee.__self__, *args]
        if callee is super:
            self.push(super_of(frame, args))
            return
        if callee is globals:
            self.push(places.register(frame.f_globals, "globals()"))
            return
        if type(callee) is FunctionType:
            self.callee = callee
            if is_framework_code(callee.__code__, callee.__globals__):
                self.push(places.called(callee, args, named))
            else:
                self.push(self.joined([*args, *named]))
            return
        kind = type(callee)
        if is_a(callee, type):
            self.direct = any(
                in_python(*each)
                for each in ((callee, "__init__"), (callee, "__new__"), (kind, "__call__"))
            )
            places.special_of(callee, "__init__")
            places.special_of(callee, "__new__")
        else:
            self.direct = kind is not Unknown and in_python(kind, "__call__")
        places.special(callee, ("__call__",))
        self.push(places.called(callee, args, named))

    def joined(self, values: list[Any]) -> Unknown:
        """A new object that holds these."""
        if all(map(is_plain, values)):
            return UNKNOWN
        found: list[Any] = []
        for value in values:
            if is_a(value, Unknown):
                found += value.candidates
            elif self._is_outside(value):
                found.append(value)
            elif not is_plain(value):
                found += self.places.given(value)
        return Unknown(tuple(found))

    def fit(self, depth: int) -> None:
        """Has the stack this depth, and what an exception puts there on top."""
        more = depth - 1
        if len(self.stack) > more:
            del self.stack[more:]
        self.stack += [UNKNOWN] * (depth - len(self.stack))


def is_library(space: dict[str, Any]) -> bool:
    """Returns whether a function with these globals is of Python's library or NumPy."""
    name = str(space.get("__name__"))
    top = name.partition(".")[0]
    stdlib = top in sys.stdlib_module_names and top != "__main__"
    return stdlib or top == np.__name__ or top.startswith("namedtuple_")


def super_of(frame: FrameType, args: list[Any]) -> Any:
    """Returns what `super` gives, as far as that is known."""
    if not args:
        code = frame.f_code
        args = [frame.f_locals.get("__class__"), frame.f_locals.get(code.co_varnames[0])]
    found = []
    seen = [arg.candidates if is_a(arg, Unknown) else (arg,) for arg in args]
    for given in itertools.product(*seen):
        with contextlib.suppress(TypeError):
            found.append(super(*given))
    return found[0] if len(found) == 1 else Unknown(tuple(found))
