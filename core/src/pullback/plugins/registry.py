"""The plugins of a process: known by their entry points, loaded one by one when asked for."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from pullback import errors
from pullback.plugins import entry_points, kernel_packs
from pullback.plugins.backend import Backend
from pullback.plugins.kernel_packs import OpsInfo, PackInfo
from pullback.plugins.validation import KINDS, check_backend, check_kernel, kernel_problem

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

#: What to do on a machine without a backend. The only place in core that names one.
INSTALL = (
    "install one for this machine: pip install pullback-numpy (CPU), or "
    "pip install 'pullback-cupy[cuda13]' (NVIDIA GPU)"
)

_LIST = "`pullback backends` lists what is here, and why what is not ready is not"

_BACKENDS, _DEFAULT, _KERNELS, _OPS = (
    f"pullback.{what}" for what in ("backends.", "default.", "kernels.", "ops")
)


class BackendInfo(NamedTuple):
    """A backend: who made it, and whether it can be used.

    `state` is "ready", or says why the backend cannot be used and what to do about it. `left_out`
    says of each kernel that is not used what is wrong with it.
    """

    name: str
    distribution: str
    version: str
    kinds: tuple[str, ...]
    devices: tuple[str, ...]
    state: str
    packs: tuple[PackInfo, ...]
    left_out: tuple[str, ...] = ()


class _Slot:
    """One backend by name: installed, or registered by hand (then without entry points)."""

    # No dataclass: generating one takes a millisecond of every `import pullback`.
    __slots__ = (
        "backend", "counts", "entries", "failure", "kinds", "left_out", "loading", "name", "packs",
    )  # fmt: skip

    def __init__(self, name: str, entries: list[EntryPoint], kinds: tuple[str, ...]) -> None:
        self.name = name
        self.entries = entries
        self.kinds = kinds
        self.backend: Backend | None = None
        self.failure: errors.BackendError | None = None
        self.loading = False
        self.counts: dict[str, int] = {}
        self.packs: list[PackInfo] = []
        self.left_out: tuple[str, ...] = ()


class Registry:
    """Every plugin of one process. The functions of this module speak to a single one."""

    def __init__(self, scan: Callable[[], Iterable[EntryPoint]] | None = None) -> None:
        self._scan = scan or entry_points.entry_points
        # Loading a plugin may ask for another one: re-entrant.
        self._lock = threading.RLock()
        self._groups: dict[str, dict[str, list[EntryPoint]]] | None = None
        self._slots: dict[str, _Slot] = {}
        self._ops: list[OpsInfo] | None = None
        self._packs: tuple[str, ...] | None = None
        self._packs_chosen = False
        #: The backends that can be used, by name.
        self.ready: dict[str, Backend] = {}
        #: Called when a backend has been registered or replaced by hand.
        self.listeners: list[Callable[[], None]] = []

    # Asking --------------------------------------------------------------------------------------

    def backend(self, name: str) -> Backend:
        """The backend called `name`, loaded.

        Raises:
            BackendNotFoundError: when none of that name is installed or registered.
            BackendError: when it cannot be used, with the reason and what to do.
        """
        found = self.ready.get(name)
        if found is not None:
            return found
        with self._lock:
            slot = self._known().get(name)
            if slot is None:
                raise self._unknown(name)
            self._load(slot)
            if slot.failure is not None:
                raise type(slot.failure)(*slot.failure.args) from slot.failure.__cause__
            return self.ready[name]

    def names(self, kind: str | None = None, *, by_hand: bool | None = None) -> list[str]:
        """The names of all backends for `kind`; owners of a plain kind first. Loads nothing.

        With `by_hand`, only those registered by hand, or only those installed.
        """
        with self._lock:
            found = [
                slot.name
                for slot in self._known().values()
                if (kind is None or kind in slot.kinds)
                and (by_hand is None or by_hand is not bool(slot.entries))
            ]
            owners = [name for one in KINDS for name in self._group(_DEFAULT + one)]
        return sorted(
            found,
            key=lambda name: (owners.index(name) if name in owners else len(owners), name),
        )

    def owner(self, kind: str) -> str | None:
        """The name of the backend that the plain `kind` means; None when nobody owns it.

        Raises:
            PluginError: when two backends claim it.
        """
        with self._lock:
            known = self._known()
            owners = self._owners(kind)
        if len(owners) > 1:
            claims = " and ".join(
                entry_points.who("backend", name, known[name].entries) for name in owners
            )
            full = " or ".join(f"{name}:{kind}" for name in owners)
            raise errors.PluginError(
                f"{claims} both claim to be what plain {kind!r} means; uninstall one of them, "
                f"or name the device in full: {full}"
            )
        return owners[0] if owners else None

    def _owners(self, kind: str) -> list[str]:
        return [name for name in self._group(_DEFAULT + kind) if name in self._known()]

    def plain(self, kind: str, *, by_hand: bool = True) -> Backend:
        """The backend that the plain `kind` means, with at least one device of that kind.

        Its owner; others must be named, and are not even imported to see what they could do. Where
        no installed backend owns any kind: the only usable one that is installed for it; without
        one (and with `by_hand`), the only one registered by hand.

        Raises:
            BackendNotFoundError: when no backend drives the kind, or none owns it.
            BackendError: when those that do cannot be used.
            DeviceError: when several could be meant.
        """
        owner = self.owner(kind)
        if owner is not None:
            backend = self.backend(owner)
            if self.count(backend, kind):
                return backend
            raise errors.BackendError(f"the backend {owner!r} finds no {kind} on this machine")
        if any(self._owners(one) for one in KINDS):
            others = " or ".join(f"{name}:{kind}" for name in self.names(kind))
            raise errors.BackendNotFoundError(
                f"no installed backend is what plain {kind!r} means; name one in full: {others}"
                if others
                else f"no installed backend drives a {kind}; {_LIST}"
            )
        reasons: list[str] = []
        cause: BaseException | None = None
        for hand in (False, True) if by_hand else (False,):
            usable: list[Backend] = []
            for name in self.names(kind, by_hand=hand):
                try:
                    backend = self.backend(name)
                except errors.BackendError as error:
                    reasons.append(str(error))
                    cause = cause or error.__cause__
                    continue
                if self.count(backend, kind):
                    usable.append(backend)
            if len(usable) == 1:
                return usable[0]
            if usable:
                full = " or ".join(f"{one.name}:{kind}" for one in usable)
                raise errors.DeviceError(f"plain {kind!r} could be {full}; name one of them")
        if reasons:
            text = f"no usable backend for {kind}: {'; '.join(reasons)}"
            raise errors.BackendNotFoundError(text) from cause
        raise errors.BackendNotFoundError(
            f"no installed backend drives a {kind}; {INSTALL if kind == 'cpu' else _LIST}"
        )

    def count(self, backend: Backend, kind: str) -> int:
        """The number of usable devices of `kind` that `backend` found when it was loaded."""
        slot = self._slots.get(backend.name)
        if slot is None or slot.backend is not backend:
            return 0
        return slot.counts.get(kind, 0)

    def label(self, backend: Backend, kind: str, index: int) -> str:
        """The name of a device: "cpu:0" where the backend owns the plain kind, else in full."""
        try:
            owner = self.owner(kind)
        except errors.PluginError:
            owner = None
        return f"{kind}:{index}" if owner == backend.name else f"{backend.name}:{kind}:{index}"

    def info(self) -> list[BackendInfo]:
        """Every backend with its state. Loads all of them; never raises."""
        try:
            names = self.names()
        except Exception as error:
            reason = f"the installed packages cannot be listed: {entry_points.one_line(error)}"
            return [BackendInfo("?", "", "", (), (), reason, ())]
        return [self._info(name) for name in names]

    def about(self, name: str) -> BackendInfo:
        """One backend with its state; loads it.

        Raises:
            BackendNotFoundError: when none of that name is installed or registered.
        """
        if name not in self.names():
            raise self._unknown(name)
        return self._info(name)

    def _info(self, name: str) -> BackendInfo:
        slot = self._slots[name]
        try:
            self.backend(name)
            state = "ready"
        except Exception as error:
            state = entry_points.one_line(error, named=False)
        backend = slot.backend
        distribution, version = entry_points.origin(slot.entries)
        return BackendInfo(
            name,
            distribution,
            str((backend.version if backend is not None else "") or version),
            slot.kinds,
            tuple(
                self.label(backend, kind, index)
                for kind in slot.kinds
                for index in range(slot.counts.get(kind, 0))
            )
            if backend is not None and state == "ready"
            else (),
            state,
            tuple(slot.packs),
            slot.left_out,
        )

    def ops(self) -> list[OpsInfo]:
        """Every plugin that brings ops, with its state. Loads all of them; never raises."""
        try:
            with self._lock:
                return self._load_ops()
        except Exception:
            return []  # the packages cannot be listed, which `info` says

    # Changing ------------------------------------------------------------------------------------

    def register_backend(self, backend: Backend, *, replace: bool = False) -> None:
        """See `pullback.register_backend`."""
        who = "register_backend"
        check_backend(backend, None, who)
        with self._lock:
            known = self._known()
            slot = known.get(backend.name)
            if slot is not None and slot.backend is backend:
                return
            if slot is not None and not replace:
                raise errors.PluginError(
                    f"{entry_points.who('backend', slot.name, slot.entries)} is there already; "
                    f"rename yours, or pass replace=True to use it instead"
                )
            made = _Slot(backend.name, slot.entries if slot else [], tuple(backend.kinds))
            self._load_ops()
            # Its author is there to mend it: nothing is left out quietly.
            for op_name, kernel in backend.offered():
                check_kernel(op_name, kernel, who)
            self._take(made, backend)
            self.ready.pop(backend.name, None)
            known[backend.name] = made
            if made.failure is None:
                self.ready[backend.name] = backend
            for listener in self.listeners:
                listener()

    def use_kernel_packs(self, names: Iterable[str] | None) -> None:
        """See `pullback.plugins.public.use_kernel_packs`."""
        if isinstance(names, str):
            raise errors.InputTypeError(
                f"use_kernel_packs takes a list of names, got {names!r}; write [{names!r}]"
            )
        with self._lock:
            self._known()
            if names is not None:
                names = tuple(names)
                self._check_packs(names)
            self._packs, self._packs_chosen = names, True
            for slot in self._slots.values():
                if slot.backend is not None:
                    self._load_packs(slot, slot.backend)

    # Loading -------------------------------------------------------------------------------------

    def _known(self) -> dict[str, _Slot]:
        """Every backend by name; reads the metadata at the first call."""
        if self._groups is None:
            groups: dict[str, dict[str, list[EntryPoint]]] = {}
            for entry in self._scan():
                groups.setdefault(entry.group, {}).setdefault(entry.name, []).append(entry)
            self._groups = groups
            for kind in KINDS:
                for name, entries in self._group(_BACKENDS + kind).items():
                    slot = self._slots.setdefault(name, _Slot(name, [], ()))
                    slot.kinds = (*slot.kinds, kind)
                    slot.entries.extend(entries)
        return self._slots

    def _group(self, group: str) -> dict[str, list[EntryPoint]]:
        return (self._groups or {}).get(group, {})

    def _load(self, slot: _Slot) -> None:
        if slot.backend is not None or slot.failure is not None:
            return
        if slot.loading:
            raise errors.BackendError(
                f"the backend {slot.name!r} was asked for while it is being loaded; "
                f"its plugin must make no tensors at import or in a hook"
            )
        slot.loading = True
        try:
            self._load_ops()
            who = entry_points.who("backend", slot.name, slot.entries)
            found: list[Backend] = []

            def register(backend: Backend) -> None:
                check_backend(backend, slot.name, who)
                if found:
                    raise errors.PluginError(
                        f"{who} registers more than one backend; give each an entry of its own"
                    )
                found.append(backend)

            with entry_points.blaming(who, slot.entries):
                loaded = entry_points.load(slot.entries, who)
                entry_points.call(loaded, "pullback_register_backend", register, who)
                if not found:
                    raise errors.PluginError(f"{who}: pullback_register_backend registers nothing")
                slot.left_out = found[0].refuse(kernel_problem)
            if slot.left_out:
                more = f" (and {len(slot.left_out) - 1} more)" * (len(slot.left_out) > 1)
                warnings.warn(
                    f"{who}: {slot.left_out[0]}{more}; left out, as `pullback backends` lists",
                    RuntimeWarning,
                    stacklevel=2,
                )
            self._take(slot, found[0])
            if slot.failure is None:
                self.ready[slot.name] = found[0]
        except errors.BackendError as error:
            slot.failure = error
        finally:
            slot.loading = False

    def _take(self, slot: _Slot, backend: Backend) -> None:
        """Finds out whether a backend can be used here, and loads its packs if so."""
        who = entry_points.who("backend", slot.name, slot.entries)
        slot.kinds = tuple(backend.kinds)
        try:
            with entry_points.blaming(who, slot.entries):
                reason = backend.unusable()
                if reason is None:
                    slot.counts = {kind: int(backend.device_count(kind)) for kind in slot.kinds}
                    if not any(slot.counts.values()):
                        reason = f"it finds no {' or '.join(slot.kinds)} on this machine"
        except errors.BackendError as error:
            slot.failure = error
            return
        if reason is not None:
            slot.failure = errors.BackendError(
                f"the backend {slot.name!r} cannot be used: {reason}"
            )
            return
        slot.backend = backend
        self._load_packs(slot, backend)

    def _load_packs(self, slot: _Slot, backend: Backend) -> None:
        installed = self._group(_KERNELS + slot.name)
        for name in installed:
            # A backend that was replaced and comes back has those that were used at the time.
            if name != backend.name:
                backend.withdraw(name)
        slot.packs = [
            kernel_packs.load(backend, name, entries, used=self._uses(name))
            for name, entries in sorted(installed.items())
        ]

    def _uses(self, pack: str) -> bool:
        if not self._packs_chosen:
            self._packs_chosen = True
            self._packs = kernel_packs.from_environment()
            try:
                self._check_packs(self._packs or ())
            except errors.PluginError as error:
                warnings.warn(f"{kernel_packs.VARIABLE}: {error}", RuntimeWarning, stacklevel=2)
        return self._packs is None or pack in self._packs

    def _check_packs(self, names: Iterable[str]) -> None:
        groups = (self._groups or {}).items()
        there = {name for group, found in groups if group.startswith(_KERNELS) for name in found}
        for name in names:
            if name not in there:
                known = ", ".join(sorted(there)) or "none"
                raise errors.PluginError(
                    f"no kernel pack is named {name!r}; installed are: {known}"
                )

    def _load_ops(self) -> list[OpsInfo]:
        """Loads the ops of other packages, once, before the first backend and its kernels."""
        if self._ops is not None:
            return self._ops
        # First, for an op that makes a tensor would come back here.
        self._ops = []
        self._known()
        for name, entries in sorted(self._group(_OPS).items()):
            self._ops.append(kernel_packs.load_ops(name, entries))
        return self._ops

    def missing(self) -> errors.BackendNotFoundError:
        """The error for a machine without any backend."""
        return errors.BackendNotFoundError(f"no backend is installed; {INSTALL}")

    def _unknown(self, name: str) -> errors.BackendNotFoundError:
        names = self.names()
        if not names:
            return self.missing()
        return errors.BackendNotFoundError(
            f"no backend is named {name!r}; installed are: {', '.join(names)}"
        )
