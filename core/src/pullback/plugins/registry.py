"""The plugins of a process: found by their entry points, each loaded at its first use."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterable
from types import NoneType
from typing import TYPE_CHECKING, NamedTuple

from pullback import errors
from pullback.plugins import entry_points, kernel_packs
from pullback.plugins.backend import KINDS, Backend
from pullback.plugins.kernel_packs import OpsInfo, PackInfo
from pullback.plugins.validation import check_backend, check_kernel, kernel_problem

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

#: The fix on a machine without a backend. Nothing else in core names a backend.
INSTALL = (
    "install one for this machine: pip install pullback-numpy (CPU), or "
    "pip install 'pullback-cupy[cuda13]' (NVIDIA GPU)"
)

_LIST = "run `pullback backends` to see each backend's status"

#: Groups of entry points; a kind, a kind and the name of a backend follow the first three.
_BACKENDS, _DEFAULT, _KERNELS = "pullback.backends.", "pullback.default.", "pullback.kernels."
_OPS = "pullback.ops"


class BackendInfo(NamedTuple):
    """A backend: its package, its devices, and its state.

    `state` is "ready", or the reason why the backend cannot be used and the fix. `left_out` has the
    problem of each kernel that is left out.
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
    """The state of one backend: installed, or registered manually and without entry points."""

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
    """All plugins of a process; `pullback.plugins.public.registry` is the one in use."""

    def __init__(self, scan: Callable[[], Iterable[EntryPoint]] | None = None) -> None:
        self._scan = scan or entry_points.entry_points
        # Re-entrant: loading a plugin may load another one.
        self._lock = threading.RLock()
        self._groups: dict[str, dict[str, list[EntryPoint]]] | None = None
        self._slots: dict[str, _Slot] = {}
        self._ops: list[OpsInfo] | None = None
        self._packs: tuple[str, ...] | None = None
        self._packs_chosen = False
        #: The backends that can be used, by name.
        self.ready: dict[str, Backend] = {}
        #: Called after a backend has been registered or replaced manually.
        self.listeners: list[Callable[[], None]] = []

    # Queries -------------------------------------------------------------------------------------

    def backend(self, name: str) -> Backend:
        """The backend called `name`, loaded.

        Raises:
            BackendNotFoundError: when no backend of that name is installed or registered.
            BackendError: when it cannot be used, with the reason and the fix.
        """
        ready = self.ready.get(name)
        if ready is not None:
            return ready
        with self._lock:
            slot = self._known().get(name)
            if slot is None:
                raise self._unknown(name)
            self._load(slot)
            if slot.failure is not None:
                raise type(slot.failure)(*slot.failure.args) from slot.failure.__cause__
            return self.ready[name]

    def names(self, kind: str | None = None, *, manual: bool | None = None) -> list[str]:
        """The names of all backends for `kind`, owners of a plain kind first. Loads nothing.

        Args:
            kind: "cpu" or "gpu"; None for both.
            manual: True for manually registered backends only, False for installed ones only.
        """
        with self._lock:
            names = [
                slot.name
                for slot in self._known().values()
                if (kind is None or kind in slot.kinds)
                and (manual is None or manual is not bool(slot.entries))
            ]
            owners = [name for plain in KINDS for name in self._group(_DEFAULT + plain)]
        return sorted(
            names, key=lambda name: (owners.index(name) if name in owners else len(owners), name)
        )

    def owner(self, kind: str) -> str | None:
        """The name of the backend that plain `kind` means; None when no backend claims it.

        Raises:
            PluginError: when several backends claim it.
        """
        with self._lock:
            known = self._known()
            owners = self._owners(kind)
        if len(owners) > 1:
            claims = " and ".join(
                entry_points.plugin_label("backend", name, known[name].entries) for name in owners
            )
            full = " or ".join(f"{name}:{kind}" for name in owners)
            raise errors.PluginError(
                f"{claims} both claim the plain name {kind!r}; uninstall one of them, "
                f"or name the device in full: {full}"
            )
        return owners[0] if owners else None

    def _owners(self, kind: str) -> list[str]:
        return [name for name in self._group(_DEFAULT + kind) if name in self._known()]

    def plain(self, kind: str, *, manual: bool = True) -> Backend:
        """The backend that plain `kind` means, with at least one device of that kind.

        That is its owner; other backends must be named, and are not imported here. Where no
        installed backend owns any kind, it is the only usable backend installed for the kind;
        without one (and with `manual`), the only usable backend registered manually.

        Raises:
            BackendNotFoundError: when no backend drives the kind, or none owns it.
            BackendError: when the backends that drive it cannot be used.
            DeviceError: when several backends could be meant.
        """
        owner = self.owner(kind)
        if owner is not None:
            backend = self.backend(owner)
            if self.count(backend, kind):
                return backend
            raise errors.BackendError(f"the backend {owner!r} found no {kind} on this machine")
        if any(self._owners(plain) for plain in KINDS):
            others = " or ".join(f"{name}:{kind}" for name in self.names(kind))
            raise errors.BackendNotFoundError(
                f"no installed backend claims the plain name {kind!r}; name one in full: {others}"
                if others
                else f"no installed backend drives a {kind}; {_LIST}"
            )
        reasons: list[str] = []
        cause: BaseException | None = None
        for registered in (False, True) if manual else (False,):
            usable: list[Backend] = []
            for name in self.names(kind, manual=registered):
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
                full = " or ".join(f"{backend.name}:{kind}" for backend in usable)
                raise errors.DeviceError(f"plain {kind!r} could be {full}; name one of them")
        if reasons:
            text = f"no usable backend for {kind}: {'; '.join(reasons)}"
            raise errors.BackendNotFoundError(text) from cause
        raise errors.BackendNotFoundError(
            f"no installed backend drives a {kind}; {INSTALL if kind == 'cpu' else _LIST}"
        )

    def count(self, backend: Backend, kind: str) -> int:
        """The number of devices of `kind` that `backend` found when it was loaded."""
        slot = self._slots.get(backend.name)
        if slot is None or slot.backend is not backend:
            return 0
        return slot.counts.get(kind, 0)

    def label(self, backend: Backend, kind: str, index: int) -> str:
        """The name of a device: "cpu:0" if the backend owns the plain kind, else in full."""
        try:
            owner = self.owner(kind)
        except errors.PluginError:
            owner = None
        return f"{kind}:{index}" if owner == backend.name else f"{backend.name}:{kind}:{index}"

    def info(self) -> list[BackendInfo]:
        """All backends with their states. Loads all of them; never raises."""
        try:
            names = self.names()
        except Exception as error:
            reason = f"the installed packages cannot be listed: {entry_points.one_line(error)}"
            return [BackendInfo("?", "", "", (), (), reason, ())]
        return [self._info(name) for name in names]

    def about(self, name: str) -> BackendInfo:
        """One backend with its state; loads it.

        Raises:
            BackendNotFoundError: when no backend of that name is installed or registered.
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
        """All plugins with ops, with their states. Loads all of them; never raises."""
        try:
            with self._lock:
                return self._load_ops()
        except Exception:
            return []  # the packages cannot be listed, which `info` reports

    # Changes -------------------------------------------------------------------------------------

    def register_backend(self, backend: Backend, *, replace: bool = False) -> None:
        """See `pullback.register_backend`."""
        caller = "register_backend"
        check_backend(backend, None, caller)
        with self._lock:
            known = self._known()
            slot = known.get(backend.name)
            if slot is not None and slot.backend is backend:
                return
            if slot is not None and not replace:
                raise errors.PluginError(
                    f"{entry_points.plugin_label('backend', slot.name, slot.entries)} is already "
                    f"registered; rename yours, or pass replace=True to use it instead"
                )
            added = _Slot(backend.name, slot.entries if slot else [], tuple(backend.kinds))
            self._load_ops()
            # Its author is here to repair it: every problem of a kernel is an error.
            for op_name, kernel in backend.all_kernels():
                check_kernel(op_name, kernel, caller)
            self._activate(added, backend)
            self.ready.pop(backend.name, None)
            known[backend.name] = added
            if added.failure is None:
                self.ready[backend.name] = backend
            for listener in self.listeners:
                listener()

    def use_kernel_packs(self, names: Iterable[str] | None) -> None:
        """See `pullback.plugins.public.use_kernel_packs`."""
        if isinstance(names, str) or not isinstance(names, (Iterable, NoneType)):
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
        """All backends by name; reads the metadata at the first call."""
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
                f"the backend {slot.name!r} was used while it is being loaded; "
                f"its plugin must not create tensors at import or in a hook"
            )
        slot.loading = True
        try:
            self._load_ops()
            plugin = entry_points.plugin_label("backend", slot.name, slot.entries)
            backends: list[Backend] = []

            def register(backend: Backend) -> None:
                check_backend(backend, slot.name, plugin, entry_points.origin(slot.entries)[0])
                if backends:
                    raise errors.PluginError(
                        f"{plugin} registers more than one backend; give each its own entry point"
                    )
                backends.append(backend)

            with entry_points.blame_plugin(plugin, slot.entries):
                loaded = entry_points.load(slot.entries, plugin)
                hook = "pullback_register_backend"
                entry_points.call(loaded, hook, register, plugin, slot.entries)
                if not backends:
                    raise errors.PluginError(
                        f"{plugin}: pullback_register_backend must call register(backend)"
                    )
                slot.left_out = backends[0].reject_kernels(kernel_problem)
            if slot.left_out:
                more = f" (and {len(slot.left_out) - 1} more)" * (len(slot.left_out) > 1)
                warnings.warn(
                    f"{plugin}: {slot.left_out[0]}{more}; left out; {_LIST}",
                    RuntimeWarning,
                    stacklevel=2,
                )
            self._activate(slot, backends[0])
            if slot.failure is None:
                self.ready[slot.name] = backends[0]
        except errors.BackendError as error:
            slot.failure = error
        finally:
            slot.loading = False

    def _activate(self, slot: _Slot, backend: Backend) -> None:
        """Counts the devices of a backend and loads its packs, or sets `slot.failure`."""
        plugin = entry_points.plugin_label("backend", slot.name, slot.entries)
        slot.kinds = tuple(backend.kinds)
        try:
            with entry_points.blame_plugin(plugin, slot.entries):
                reason = backend.unusable()
                if reason is None:
                    slot.counts = {kind: int(backend.device_count(kind)) for kind in slot.kinds}
                    if not any(slot.counts.values()):
                        reason = f"it found no {' or '.join(slot.kinds)} on this machine"
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
            # A backend that was replaced and comes back still has the packs of that time.
            if name != backend.name:
                backend.unregister_kernels(name)
        owner = entry_points.origin(slot.entries)
        slot.packs = [
            kernel_packs.load(backend, name, entries, owner, used=self._uses(name))
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
        groups = [group for group in self._groups or () if group.startswith(_KERNELS)]
        installed = {name for group in groups for name in self._group(group)}
        for name in names:
            if name not in installed:
                known = ", ".join(sorted(installed)) or "none"
                raise errors.PluginError(
                    f"no kernel pack is named {name!r}; installed are: {known}"
                )

    def _load_ops(self) -> list[OpsInfo]:
        """Loads the ops of other packages, once, before the first backend and its kernels."""
        if self._ops is not None:
            return self._ops
        # Set first: an op that creates a tensor while it is loaded would come back here.
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
