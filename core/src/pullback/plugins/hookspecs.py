"""The hooks of the plugin system, for pluggy. Each gets a callback that checks its arguments.

pluggy is imported when the first plugin is loaded, not by `import pullback`: `hookimpl` passes its
function to pluggy's marker when it is used, and `manager` marks the hooks below.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from pullback.dtypes import DTypeLike
from pullback.plugins.backend import Backend
from pullback.plugins.records import Direct, Keep, Kernel

if TYPE_CHECKING:
    import pluggy

_F = TypeVar("_F", bound=Callable[..., Any])

#: The callback of `pullback_register_backend`.
RegisterBackend: TypeAlias = Callable[[Backend], None]
#: The callback of `pullback_register_ops`; it takes the function that `pullback.op` made.
RegisterOp: TypeAlias = Callable[[Callable[..., Any]], None]
#: The callback of `pullback_register_communicator`.
RegisterCommunicator: TypeAlias = Callable[[object], None]


class RegisterKernel(Protocol):
    """The callback of `pullback_register_kernels`."""

    def __call__(
        self,
        op_name: str,
        kernel: Kernel,
        *,
        dtypes: Iterable[DTypeLike] | None = None,
        in_place: Kernel | None = None,
        keep: Keep | None = None,
    ) -> None:
        """Registers a kernel of an op for these dtypes of the first input; None for all.

        `in_place` does the same to variables, for an optimizer's update. `keep` makes kernels for
        programs that keep what they make of the weights.
        """


class RegisterFuser(Protocol):
    """The callback of `pullback_register_fuser`."""

    def __call__(
        self,
        fuse: Callable[[Any], Kernel | None],
        ops: Collection[str],
        direct: Direct | None = None,
    ) -> None:
        """Registers `fuse`, which makes kernels for groups of calls of these ops.

        `direct` makes what calls of small programs run in place of their code.
        """


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


def pullback_register_backend(register: RegisterBackend) -> None:
    """Called once, when the backend is first used: `register(backend)`.

    Args:
        register: takes one instance of `pullback.plugins.backend.Backend`.
    """


def pullback_register_kernels(register: RegisterKernel) -> None:
    """Called when the backend of a kernel pack has been loaded.

    Args:
        register: `register(op_name, kernel, *, dtypes=None, in_place=None, keep=None)`, once
            per kernel.
    """


def pullback_register_fuser(register: RegisterFuser) -> None:
    """Called after `pullback_register_kernels`, for packs that make fused kernels too.

    Args:
        register: `register(fuse, ops, direct=None)`, with what `Backend.fuse` and
            `Backend.fusible` are.
    """


def pullback_register_ops(register: RegisterOp) -> None:
    """Called once, at the first tensor, to add ops of the plugin.

    Args:
        register: takes one function made by `pullback.op`.
    """


def pullback_register_communicator(register: RegisterCommunicator) -> None:
    """Called once, by `pullback.distributed.init`: `register(communicator)`.

    Args:
        register: takes one instance of `pullback.distributed.communicator.Communicator`.
    """


def manager() -> pluggy.PluginManager:
    """A pluggy manager with the hooks and without plugins."""
    import pluggy

    mark = pluggy.HookspecMarker(PROJECT)
    for hook in (
        pullback_register_backend,
        pullback_register_kernels,
        pullback_register_fuser,
        pullback_register_ops,
        pullback_register_communicator,
    ):
        mark(hook)
    plugins = pluggy.PluginManager(PROJECT)
    plugins.add_hookspecs(sys.modules[__name__])
    return plugins
