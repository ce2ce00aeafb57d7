"""While a function is traced, ops on tensors from outside take the general path, which lifts them.

The specialized code of an op finds its kernel in a table of the device. In the thread of a trace
that table seems to be empty, so that no op can run beside the trace: not one on a tensor that the
function has as a global, whose result would then be a constant of the program. For the same reason
the functions by which a backend gives values to the host end the trace. Other threads see what was
there before. Outside of traces nothing is replaced, so that nothing is slower.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from pullback._dispatch.recording import LOCAL
from pullback._symbols import Break
from pullback.devices import backends_in_use
from pullback.plugins.backend import Backend
from pullback.spec import OPS


class _Table(dict[Any, Any]):
    """A table of kernels that is empty for the thread of a trace."""

    def __init__(self, table: dict[Any, Any]) -> None:
        super().__init__()
        self.table = table

    def __getitem__(self, key: object) -> Any:
        if LOCAL.state.capture is not None:
            raise KeyError(key)
        return self.table[key]

    def __setitem__(self, key: object, kernel: object) -> None:
        self.table[key] = kernel

    def clear(self) -> None:
        """Empties the table for all threads."""
        self.table.clear()


#: The methods of a backend that give values away.
_READS = ("item", "to_dlpack", "to_host")


def _watched(method: Callable[..., Any]) -> Callable[..., Any]:
    def read(*args: object, **kwargs: object) -> Any:
        capture: Any = LOCAL.state.capture
        if capture is not None:
            capture.broken = error = Break("looks at the values of a tensor")
            raise error
        return method(*args, **kwargs)

    return read


@contextmanager
def redirected() -> Iterator[None]:
    """Has the thread of a trace find no kernels and no values of real devices."""
    with ExitStack() as stack:
        for backend in backends_in_use():
            if type(backend.tables) is list:
                while len(backend.tables) < len(OPS):
                    backend.tables.append({})
                stack.enter_context(hidden(backend))
                for name in _READS:
                    stack.callback(vars(backend).pop, name, None)
                    vars(backend)[name] = _watched(getattr(backend, name))
        yield


@contextmanager
def hidden(backend: Backend) -> Iterator[None]:
    """Has the thread of a trace find no kernels of a backend, or of an enclosing trace."""
    tables = backend.tables
    ours = [_Table(table) for table in tables]
    tables[:] = ours
    try:
        yield
    finally:
        for i, table in enumerate(ours):
            # Where kernels have changed meanwhile, there is a new table.
            if tables[i] is table:
                tables[i] = table.table
