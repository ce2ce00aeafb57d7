"""Kernel packs, which add kernels to the backend of another package, and plugins with ops."""

from __future__ import annotations

import operator
import os
import re
import warnings
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, NamedTuple

from pullback import errors
from pullback.dtypes import DType, DTypeLike
from pullback.plugins import entry_points
from pullback.plugins.backend import Backend
from pullback.plugins.records import Direct, Keep, Kernel
from pullback.plugins.validation import check_dtypes, check_kernel, check_op

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

#: The environment variable with a comma list of the kernel packs to use; unset means all.
VARIABLE = "PULLBACK_KERNEL_PACKS"

#: How versions are compared.
_COMPARISONS = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

#: The priority of a kernel pack without a `priority`. A backend's own kernels have 0, or 1 where it
#: has others for some dtypes.
PRIORITY = 10


class PackInfo(NamedTuple):
    """A kernel pack: its package, and its `state`: "ready", or the reason why it is not used.

    `left_out` says of each kernel that another plugin also has why that one is used.
    """

    name: str
    distribution: str
    version: str
    priority: int
    state: str
    left_out: tuple[str, ...] = ()


class _Offer(NamedTuple):
    """A kernel of a pack, for these dtypes of its first input; None for all."""

    op_name: str
    kernel: Kernel
    dtypes: frozenset[DType] | None
    in_place: Kernel | None
    keep: Keep | None


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


def load(
    backend: Backend, name: str, entries: list[EntryPoint], owner: tuple[str, str], *, used: bool
) -> PackInfo:
    """Loads one pack into `backend`; leaves a pack that fails out, with a warning.

    Args:
        owner: the distribution of the backend and its version; empty for one without.
    """
    priority = PRIORITY
    state = "switched off"
    left_out: tuple[str, ...] = ()
    if used:
        try:
            priority, left_out = _register(backend, name, entries, owner)
            state = "ready"
        except errors.BackendError as error:
            state = str(error)
            warnings.warn(f"{state} (left out)", RuntimeWarning, stacklevel=2)
        for problem in left_out:
            warnings.warn(problem, RuntimeWarning, stacklevel=2)
    return PackInfo(name, *entry_points.origin(entries), priority, state, left_out)


def _register(
    backend: Backend, name: str, entries: list[EntryPoint], owner: tuple[str, str]
) -> tuple[int, tuple[str, ...]]:
    """Registers the kernels of one pack in `backend`, without those that others have as well.

    Returns:
        The pack's priority, and the reason for each kernel that is left out.
    """
    plugin = entry_points.plugin_label(f"kernel pack for {backend.name!r}", name, entries)
    if name == backend.name:
        raise errors.PluginError(f"{plugin} is named like its backend; rename its entry point")
    kernels: list[_Offer] = []
    contested: list[str] = []

    def register(
        op_name: str,
        kernel: Kernel,
        *,
        dtypes: Iterable[DTypeLike] | None = None,
        in_place: Kernel | None = None,
        keep: Keep | None = None,
    ) -> None:
        check_kernel(op_name, kernel, plugin)
        supported = check_dtypes(dtypes, op_name, plugin)
        for other in kernels:
            if other.op_name == op_name and _overlap(other.dtypes, supported):
                raise errors.PluginError(
                    f"{plugin} registers two kernels of {op_name!r} for the same dtypes; "
                    f"keep one, or give each dtypes=... of its own"
                )
        for name, function in (("in_place", in_place), ("keep", keep)):
            if function is not None and not callable(function):
                raise errors.PluginError(
                    f"{plugin}: {name} of {op_name!r} must be a function, got "
                    f"{type(function).__name__}; leave it out where there is none"
                )
        kernels.append(_Offer(op_name, kernel, supported, in_place, keep))

    fusers: list[tuple[Callable[..., Kernel | None], Collection[str], Direct | None]] = []

    def register_fuser(
        fuse: Callable[..., Kernel | None], ops: Collection[str], direct: Direct | None = None
    ) -> None:
        if not callable(fuse) or isinstance(ops, str) or not all(type(op) is str for op in ops):
            raise errors.PluginError(
                f"{plugin}: register(fuse, ops) takes a function and the names of ops, got "
                f"{fuse!r} and {ops!r}"
            )
        fusers.append((fuse, ops, direct))

    with entry_points.blame_plugin(plugin, entries):
        loaded = entry_points.load(entries, plugin)
        priority = getattr(loaded, "priority", PRIORITY)
        if type(priority) is not int:
            raise errors.PluginError(f"{plugin}: priority must be an int, got {priority!r}")
        _check_versions(loaded, backend, owner, plugin)
        deviations = getattr(loaded, "deviations", {})
        entry_points.call(loaded, "pullback_register_kernels", register, plugin, entries)
        if hasattr(loaded, "pullback_register_fuser"):
            entry_points.call(loaded, "pullback_register_fuser", register_fuser, plugin, entries)
    free: list[_Offer] = []
    for offer in kernels:
        op_name, supported = offer.op_name, offer.dtypes
        for entry in backend.kernels_for(op_name):
            if entry.priority == priority and _overlap(entry.dtypes, supported):
                both = _common(entry.dtypes, supported)
                contested.append(
                    f"{plugin} and {entry.source!r} both have a kernel of {op_name!r} with "
                    f"priority {priority}{both}: that of {entry.source!r} is used; set another "
                    f"`priority` in one of them, or choose with {VARIABLE}"
                )
                taken = frozenset(backend.dtypes) if entry.dtypes is None else entry.dtypes
                supported = (frozenset(backend.dtypes) if supported is None else supported) - taken
        if supported is None or supported:
            free.append(offer._replace(dtypes=supported))
    if contested and not free:
        raise errors.PluginError(contested[0])
    for op_name, kernel, supported, in_place, keep in free:
        backend.register_kernel(
            op_name, kernel, source=name, priority=priority, dtypes=supported, in_place=in_place,
            keep=keep,
        )  # fmt: skip
    for fuse, ops, direct in fusers:
        backend.register_fuser(fuse, ops, source=name, priority=priority, direct=direct)
    if deviations:
        backend.declare_deviations(deviations, source=name)
    return priority, tuple(contested)


def _check_versions(loaded: object, backend: Backend, owner: tuple[str, str], plugin: str) -> None:
    """Checks that a pack fits the version of its backend, where its `backend_versions` says which.

    Raises:
        PluginError: when it does not; the message says what to install.
    """
    wanted = getattr(loaded, "backend_versions", None)
    if wanted is None:
        return
    distribution, version = owner if owner[1] else ("", str(backend.version))
    fits = satisfies(version, wanted)
    if fits is None:
        raise errors.PluginError(
            f"{plugin}: backend_versions must be a string such as '>=0.2,<0.4', got {wanted!r}"
        )
    if not fits:
        name = distribution or f"the backend {backend.name!r}"
        fix = f"pip install '{distribution}{wanted}'" if distribution else "use one of these"
        raise errors.PluginError(
            f"{plugin} is for versions {wanted} of {name}, and this is "
            f"{version or 'one without a version'}; {fix}"
        )


def satisfies(version: str, wanted: object) -> bool | None:
    """Returns whether a version is among those wanted; None if `wanted` cannot be read.

    Only the numbers count: 0.3rc1 and 0.3 are the same here.

    >>> satisfies("0.3.1", ">=0.2,<0.4"), satisfies("1.0", "==1"), satisfies("1.0", "~1")
    (True, True, None)
    """
    if not isinstance(wanted, str):
        return None
    own = _numbers(version)
    fits = own is not None
    for part in wanted.split(","):
        match = re.fullmatch(r"\s*(==|!=|<=|>=|<|>)\s*([0-9.]+)\s*", part)
        bound = match and _numbers(match[2])
        if not match or not bound:
            return None
        fits = fits and own is not None and bool(_COMPARISONS[match[1]](own, bound))
    return fits


def _numbers(version: str) -> tuple[int, ...] | None:
    """The numbers of a version, without zeros at its end; None if it does not begin with one."""
    match = re.match(r"[0-9]+(\.[0-9]+)*", version)
    if match is None:
        return None
    numbers = [int(number) for number in match[0].split(".")]
    while len(numbers) > 1 and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)


def _common(a: frozenset[DType] | None, b: frozenset[DType] | None) -> str:
    """The dtypes that both have, in words; empty for all."""
    both = b if a is None else a if b is None else a & b
    return "" if both is None else f" for {', '.join(sorted(map(str, both)))}"


def _overlap(a: frozenset[DType] | None, b: frozenset[DType] | None) -> bool:
    if a is None or b is None:
        return bool(a is None or a) and bool(b is None or b)
    return not a.isdisjoint(b)


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
