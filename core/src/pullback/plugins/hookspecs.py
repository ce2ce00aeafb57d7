"""The hooks of the plugin system, for pluggy. Each gets a callback that checks what it is given.

pluggy is imported when the first plugin is loaded, not by `import pullback`: `hookimpl` hands its
function on to pluggy's marker when it is used, and `manager` marks the hooks below.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import pluggy

_F = TypeVar("_F", bound=Callable[..., Any])

#: The name of the pluggy project; plugins mark their functions with `pullback.hookimpl`.
PROJECT = "pullback"


def hookimpl(function: _F) -> _F:
    """Marks a function of a plugin as the implementation of the hook that it is named after.

    >>> @hookimpl
    ... def pullback_register_backend(register):
    ...     register(MyBackend())
    """
    import pluggy

    return pluggy.HookimplMarker(PROJECT)(function)


def pullback_register_backend(register: Callable[..., None]) -> None:
    """Called once, when the backend is first asked for: `register(backend)`.

    Args:
        register: takes one instance of `pullback.plugins.backend.Backend`.
    """


def pullback_register_kernels(register: Callable[..., None]) -> None:
    """Called when the backend that a kernel pack is for has been loaded.

    Args:
        register: `register(op_name, kernel, *, dtypes=None)`, once per kernel.
    """


def pullback_register_ops(register: Callable[..., Any]) -> None:
    """Called once, at the first tensor: a plugin adds ops of its own.

    Args:
        register: takes one function made by `pullback.op`.
    """


def manager() -> pluggy.PluginManager:
    """A pluggy manager that knows the hooks and has no plugin yet."""
    import pluggy

    mark = pluggy.HookspecMarker(PROJECT)
    for hook in (pullback_register_backend, pullback_register_kernels, pullback_register_ops):
        mark(hook)
    made = pluggy.PluginManager(PROJECT)
    made.add_hookspecs(sys.modules[__name__])
    return made
