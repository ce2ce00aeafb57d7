"""Numbers that a captured function knows only when it runs, and the end of a trace that needs one.

While a function is traced, a learning rate or the counter of a generator must not be taken for a
constant: the next call has another one. They are numbers of the classes here, which conversions and
kernels know, and which end the trace when their value is looked at.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:  # a protocol takes a part of a millisecond of the import
    from typing import Protocol

    from pullback.dtypes import DType

    class Host(Protocol):
        """A trace, as a number knows it."""

        def number(self, function: Callable[..., Any], *arguments: object) -> HostNumber:
            """The number that a function gives at each run."""

        def decide(self, function: Callable[[Any], Any], number: HostNumber) -> Any:
            """Returns what a function makes of a number; other programs are for other results."""

        def number_as_tensor(self, number: HostNumber, dtype: DType) -> Any:
            """A 0-d tensor with the number of each run."""


__all__ = ["TRACES", "Apart", "Break", "DrawnInt", "HostNumber", "Late", "SharedCount"]


class SharedCount:
    """A number of tapes or traces, in all threads."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


#: The number of traces that run.
TRACES = SharedCount()


class Break(BaseException):
    """Ends a trace. It passes through `except Exception`, which would take it for a failed call.

    Args:
        reason: what the function did, after its name: "looks at the values of a tensor".
        way_out: what to write instead.
        made: True if the function has made something that a later call finds: it may run op by op
            once more before it is traced again.
    """

    def __init__(self, reason: str, way_out: str = "", *, made: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.way_out = way_out
        self.made = made


class Apart(Break):
    """Ends a trace for a function that a tape outside must record op by op."""


class Late(BaseException):
    """Carries an error of a call whose trace has ended: the call is not to be done again."""

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error


class DrawnInt(int):
    """The key or the counter of random numbers: an int in a trace, and the value of an input."""

    #: The value that the graph has for it.
    symbol: object

    def _arithmetic(self, *_: object) -> NoReturn:
        raise Break(
            "computes with the state of a generator",
            "draw with the generator's methods, or split it before the call",
        )

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _arithmetic
    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = _arithmetic
    __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = _arithmetic
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = _arithmetic


class HostNumber:
    """A Python number that is computed anew each time a captured function runs.

    Once the trace has ended it is the number of the traced call, for what has kept it.

    Args:
        host: the trace; None once it has ended.
        name: its name in the program.
        value: the number now.
    """

    __slots__ = ("host", "name", "value")

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """The type of the number, for `isinstance`."""
        return type(self.value)

    def __init__(self, host: Host | None, name: str, value: object) -> None:
        self.host = host
        self.name = name
        self.value = value

    def __repr__(self) -> str:
        if self.host is None:
            return repr(self.value)
        return f"<{self.value!r}, another number at each call>"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self.value), (self.value,)


def _look(function: Callable[..., Any]) -> Callable[..., Any]:
    def look(self: HostNumber, *others: object) -> Any:
        if self.host is None:
            return function(self.value, *others)
        raise Break(
            f"looks at a number that changes from call to call ({self.value!r} now)",
            "pass it as an argument, or look at it outside of the function",
        )

    return look


for _looks in (bool, int, float, complex, round, str, format, hash):
    setattr(HostNumber, f"__{_looks.__name__}__", _look(_looks))
for _name in ("index", "lt", "le", "gt", "ge", "eq", "ne"):
    setattr(HostNumber, f"__{_name}__", _look(getattr(operator, _name)))
for _name in ("floor", "ceil", "trunc"):
    setattr(HostNumber, f"__{_name}__", _look(getattr(math, _name)))


def _method(function: Callable[..., Any], swapped: bool) -> Callable[[HostNumber, Any], Any]:
    def method(self: HostNumber, other: object) -> Any:
        if type(other) not in (int, float, bool, HostNumber):
            return NotImplemented
        arguments = (other, self) if swapped else (self, other)
        return _computed(function, *arguments)

    return method


def _computed(function: Callable[..., Any], *arguments: Any) -> Any:
    """Returns what a function makes of numbers, at least one of a trace."""
    for number in arguments:
        if type(number) is HostNumber and number.host is not None:
            return number.host.number(function, *arguments)
    return function(*(a.value if type(a) is HostNumber else a for a in arguments))


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"):
    _function = getattr(operator, _name)
    setattr(HostNumber, f"__{_name}__", _method(_function, swapped=False))
    setattr(HostNumber, f"__r{_name}__", _method(_function, swapped=True))
for _name in ("neg", "abs"):
    _function = getattr(operator, _name)
    setattr(HostNumber, f"__{_name}__", lambda self, f=_function: _computed(f, self))
