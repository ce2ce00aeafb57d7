"""What packages add to others: kernels for somebody else's backend (kernel packs), and ops."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from pullback import errors
from pullback.dtypes import DType, DTypeLike
from pullback.plugins import entry_points
from pullback.plugins.backend import Backend, Kernel
from pullback.plugins.validation import check_dtypes, check_kernel, check_op

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

#: Which kernel packs are used: all without it, none when empty, else those in the comma list.
VARIABLE = "PULLBACK_KERNEL_PACKS"

#: The priority of a kernel pack without a `priority`. A backend's own kernels have 0.
PRIORITY = 10


class PackInfo(NamedTuple):
    """A kernel pack: who made it, and whether it is used (`state` is "ready" or says why not)."""

    name: str
    distribution: str
    version: str
    priority: int
    state: str


class OpsInfo(NamedTuple):
    """A plugin that brings ops: who made it, and its `state`: "ready", or what is wrong with it."""

    name: str
    distribution: str
    version: str
    ops: tuple[str, ...]
    state: str


def from_environment() -> tuple[str, ...] | None:
    """The packs that the environment chooses; None for all."""
    text = os.environ.get(VARIABLE)
    if text is None:
        return None
    return tuple(name.strip() for name in text.split(",") if name.strip())


def load(backend: Backend, name: str, entries: list[EntryPoint], *, used: bool) -> PackInfo:
    """Loads one pack into `backend`. A pack that fails is left out, with a warning."""
    priority = PRIORITY
    state = "switched off"
    if used:
        try:
            priority = _offer(backend, name, entries)
            state = "ready"
        except errors.BackendError as error:
            state = str(error)
            warnings.warn(f"{state} (left out)", RuntimeWarning, stacklevel=2)
    return PackInfo(name, *entry_points.origin(entries), priority, state)


def _offer(backend: Backend, name: str, entries: list[EntryPoint]) -> int:
    """Offers the kernels of one pack to `backend`, all of them or none; returns its priority."""
    who = entry_points.who(f"kernel pack for {backend.name!r}", name, entries)
    if name == backend.name:
        raise errors.PluginError(f"{who} is named like its backend; rename its entry point")
    found: list[tuple[str, Kernel, frozenset[DType] | None]] = []

    def register(
        op_name: str, kernel: Kernel, *, dtypes: Iterable[DTypeLike] | None = None
    ) -> None:
        check_kernel(op_name, kernel, who)
        wanted = check_dtypes(dtypes, op_name, who)
        for other, _, served in found:
            if other == op_name and _overlap(served, wanted):
                raise errors.PluginError(
                    f"{who} registers two kernels of {op_name!r} for the same dtypes; "
                    f"keep one, or give each dtypes=... of its own"
                )
        for offer in backend.offers(op_name):
            if offer.priority == priority and _overlap(offer.dtypes, wanted):
                raise errors.PluginError(
                    f"{who} and {offer.source!r} both have a kernel of {op_name!r} with priority "
                    f"{priority}; set another `priority` in one of them, or choose with "
                    f"{VARIABLE}"
                )
        found.append((op_name, kernel, wanted))

    with entry_points.blaming(who, entries):
        loaded = entry_points.load(entries, who)
        priority = getattr(loaded, "priority", PRIORITY)
        if type(priority) is not int:
            raise errors.PluginError(f"{who}: priority must be an int, got {priority!r}")
        entry_points.call(loaded, "pullback_register_kernels", register, who)
    for op_name, kernel, wanted in found:
        backend.offer(op_name, kernel, source=name, priority=priority, dtypes=wanted)
    return priority


def _overlap(a: frozenset[DType] | None, b: frozenset[DType] | None) -> bool:
    return a is None or b is None or not a.isdisjoint(b)


def load_ops(name: str, entries: list[EntryPoint]) -> OpsInfo:
    """Loads the ops of one plugin. One that fails is left out, with a warning."""
    who = entry_points.who("ops plugin", name, entries)
    found: list[str] = []
    state = "ready"
    try:
        with entry_points.blaming(who, entries):
            loaded = entry_points.load(entries, who)
            entry_points.call(
                loaded,
                "pullback_register_ops",
                lambda function: found.append(check_op(function, who)),
                who,
            )
    except errors.BackendError as error:
        state = str(error)
        warnings.warn(f"{state} (left out)", RuntimeWarning, stacklevel=2)
    return OpsInfo(name, *entry_points.origin(entries), tuple(found), state)
