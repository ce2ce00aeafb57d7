"""`HostState`: a value of the host that changes from call to call, as that of a variable does.

The number of steps taken, a learning rate, the counts of a metric, the losses that a layer adds:
whoever keeps them reads and writes them as any attribute. While a function is captured, the trace
answers: a number or tensor read is an input of the program, and what is written waits until the
program has run. Nobody else has to know that there are traces.
"""

from __future__ import annotations

from typing import Any

from pullback._dispatch.recording import LOCAL, is_repeated, reject_making
from pullback._symbols import TRACES

__all__ = ["HostState"]


class HostState:
    """A value that a captured function reads and writes anew at each call.

    Numbers and tensors are inputs of a program; of all else a program has what it was traced with.

    Args:
        value: a number, a tensor, a list of tensors, or what programs are made for: None, a bool.
        name: what it is, for messages: "the counts of 'confusion_matrix'".
        beside_variables: whether programs set it with the variables that it belongs to, as the step
            of an optimizer; others are set among the calls that come afterwards.
    """

    # Its owner says what of it is saved.
    opaque_state = True
    __slots__ = ("beside_variables", "name", "value")

    def __init__(self, value: object, name: str, *, beside_variables: bool = False) -> None:
        reject_making(name, holds_values=False)
        self.value = value
        self.name = name
        self.beside_variables = beside_variables

    def get(self) -> Any:
        """The value; in a captured function that of each run."""
        if TRACES.count and (capture := LOCAL.state.capture) is not None:
            return capture.get(self)
        return self.value

    def set(self, value: object) -> None:
        """Sets the value; a captured function does it when all has gone well."""
        if is_repeated():
            return
        if TRACES.count and (capture := LOCAL.state.capture) is not None:
            capture.set(self, value)
        else:
            self.value = value

    def __repr__(self) -> str:
        return f"<{self.name}: {self.value!r}>"
