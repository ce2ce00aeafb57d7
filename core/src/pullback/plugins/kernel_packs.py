"""Kernel packs, which add kernels to the backend of another package, and plugins with ops."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, NamedTuple

from pullback import errors
from pullback.dtypes import DType, DTypeLike
from pullback.plugins import entry_points
from pullback.plugins.backend import Backend, Kernel
from pullback.plugins.validation import check_dtypes, check_kernel, check_op

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

#: The environment variable with a comma list of the kernel packs to use; unset means all.
VARIABLE = "PULLBACK_KERNEL_PACKS"

#: The priority of a kernel pack without a `priority`. A backend's own kernels have 0.
PRIORITY = 10


class PackInfo(NamedTuple):
    """A kernel pack: its package, and its `state`: "ready", or the reason why it is not used."""

    name: str
    distribution: str
    version: str
    priority: int
    state: str


class OpsInfo(NamedTuple):
    """A plugin with ops: its package, and its `state`: "ready", or the reason why it failed."""

    name: str
    distribution: str
    version: str
    ops: tuple[str, ...]
    state: str


def from_environment() -> tuple[str, ...] | None:
    """The packs that the environment variable chooses; None for all."""
    text = os.environ.get(VARIABLE)
    if text is None:
        return None
    return tuple(name.strip() for name in text.split(",") if name.strip())


def load(backend: Backend, name: str, entries: list[EntryPoint], *, used: bool) -> PackInfo:
    """Loads one pack into `backend`; leaves a pack that fails out, with a warning."""
    priority = PRIORITY
    state = "switched off"
    if used:
        try:
            priority = _register(backend, name, entries)
            state = "ready"
        except errors.BackendError as error:
            state = str(error)
            warnings.warn(f"{state} (left out)", RuntimeWarning, stacklevel=2)
    return PackInfo(name, *entry_points.origin(entries), priority, state)


def _register(backend: Backend, name: str, entries: list[EntryPoint]) -> int:
    """Registers all kernels of one pack in `backend`, or none; returns the pack's priority."""
    plugin = entry_points.plugin_label(f"kernel pack for {backend.name!r}", name, entries)
    if name == backend.name:
        raise errors.PluginError(f"{plugin} is named like its backend; rename its entry point")
    kernels: list[tuple[str, Kernel, frozenset[DType] | None]] = []

    def register(
        op_name: str, kernel: Kernel, *, dtypes: Iterable[DTypeLike] | None = None
    ) -> None:
        check_kernel(op_name, kernel, plugin)
        supported = check_dtypes(dtypes, op_name, plugin)
        for other, _, theirs in kernels:
            if other == op_name and _overlap(theirs, supported):
                raise errors.PluginError(
                    f"{plugin} registers two kernels of {op_name!r} for the same dtypes; "
                    f"keep one, or give each dtypes=... of its own"
                )
        for entry in backend.kernels_for(op_name):
            if entry.priority == priority and _overlap(entry.dtypes, supported):
                raise errors.PluginError(
                    f"{plugin} and {entry.source!r} both have a kernel of {op_name!r} with "
                    f"priority {priority}; set another `priority` in one of them, or choose with "
                    f"{VARIABLE}"
                )
        kernels.append((op_name, kernel, supported))

    fusers: list[tuple[Callable[..., Kernel | None], Collection[str]]] = []

    def register_fuser(fuse: Callable[..., Kernel | None], ops: Collection[str]) -> None:
        if not callable(fuse) or isinstance(ops, str) or not all(type(op) is str for op in ops):
            raise errors.PluginError(
                f"{plugin}: register(fuse, ops) takes a function and the names of ops, got "
                f"{fuse!r} and {ops!r}"
            )
        fusers.append((fuse, ops))

    with entry_points.blame_plugin(plugin, entries):
        loaded = entry_points.load(entries, plugin)
        priority = getattr(loaded, "priority", PRIORITY)
        if type(priority) is not int:
            raise errors.PluginError(f"{plugin}: priority must be an int, got {priority!r}")
        deviations = getattr(loaded, "deviations", {})
        entry_points.call(loaded, "pullback_register_kernels", register, plugin, entries)
        if hasattr(loaded, "pullback_register_fuser"):
            entry_points.call(loaded, "pullback_register_fuser", register_fuser, plugin, entries)
    for op_name, kernel, supported in kernels:
        backend.register_kernel(op_name, kernel, source=name, priority=priority, dtypes=supported)
    for fuse, ops in fusers:
        backend.register_fuser(fuse, ops, source=name, priority=priority)
    if deviations:
        backend.declare_deviations(deviations, source=name)
    return priority


def _overlap(a: frozenset[DType] | None, b: frozenset[DType] | None) -> bool:
    return a is None or b is None or not a.isdisjoint(b)


def load_ops(name: str, entries: list[EntryPoint]) -> OpsInfo:
    """Loads the ops of one plugin; leaves a plugin that fails out, with a warning."""
    plugin = entry_points.plugin_label("ops plugin", name, entries)
    op_names: list[str] = []
    state = "ready"
    try:
        with entry_points.blame_plugin(plugin, entries):
            loaded = entry_points.load(entries, plugin)
            entry_points.call(
                loaded,
                "pullback_register_ops",
                lambda function: op_names.append(check_op(function, plugin)),
                plugin,
                entries,
            )
    except errors.BackendError as error:
        state = str(error)
        warnings.warn(f"{state} (left out)", RuntimeWarning, stacklevel=2)
    return OpsInfo(name, *entry_points.origin(entries), tuple(op_names), state)
