"""Devices: where tensors are, and where new ones are made.

A device is named by kind and index ("cpu", "gpu:1"), in full where its backend does not own the
plain kind ("mine:cpu:0"). There is one `Device` object for each, so they are compared by identity.
"""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, Self, TypeAlias

from pullback import errors
from pullback._hints import device_advice
from pullback._operators import OPERATORS
from pullback._settings import SETTINGS
from pullback.plugins import observation
from pullback.plugins.backend import KINDS, Backend
from pullback.plugins.late_errors import LATE_ERRORS, raise_late

if TYPE_CHECKING:
    from pullback.plugins.memory import Memory
    from pullback.plugins.registry import Registry
    from pullback.tensor import Tensor

__all__ = ["Device", "DeviceLike", "default_device", "device", "devices", "set_default_device"]

#: The device to make tensors on, where a program names none.
DEVICE_VARIABLE = "PULLBACK_DEVICE"


class Device:
    """One device of a backend. Made by `pullback.device`; never by calling `Device`.

    As a context manager it decides where tensors are created, in this thread.

    >>> with device("cpu") as cpu:
    ...     print(as_device() is cpu)
    True
    """

    __slots__ = ("_str", "backend", "constants", "index", "kind", "native", "tables")

    backend: Backend
    kind: str
    index: int
    #: What the backend's functions and kernels get for this device.
    native: Any
    #: The backend's tables of kernels (the same list), for the hot path of dispatch.
    tables: list[dict[Any, Any]]
    #: Python numbers as tensors (see `_dispatch.convert.constant`).
    constants: dict[Any, Any]
    _str: str

    @property
    def memory(self) -> Memory | None:
        """The bytes in use, reserved, in all and at the peak; None if the backend does not know."""
        return self.backend.memory(self.native)

    def reset_peak(self) -> None:
        """Begins to measure the peak of `memory` anew.

        Raises:
            BackendError: if the backend does not measure it.
        """
        self.backend.reset_peak(self.native)

    def synchronize(self) -> None:
        """Waits until the device has done all the work that it was given.

        Raises:
            BackendError: for an error of a call before.
        """
        try:
            self.backend.synchronize(self.native)
        except LATE_ERRORS as error:
            raise_late(error, self)

    def lift(self, tensor: Tensor) -> Tensor | None:
        """A tensor of another device on this one; None where it has to be moved.

        Only devices that stand for others have something to lift.
        """
        return tensor if tensor._device is self else None

    def stands_on(self, device: Device) -> bool:
        """Returns whether it is another device, or stands for that."""
        return device is self

    def holds_anywhere(self, condition: Tensor) -> bool:
        """Returns whether any element of a tensor of booleans on it is true: waits for its values.

        Of a batch, an element of any item.
        """
        return bool(OPERATORS.any(condition))

    def text_of(self, tensor: Tensor) -> str | None:
        """The text that is printed for a tensor on it; None for its values."""
        return None

    def __enter__(self) -> Self:
        SETTINGS.enter()
        _context.outer.append(_context.device)
        _context.device = self
        return self

    def __exit__(self, *_: object) -> None:
        _context.device = _context.outer.pop()
        SETTINGS.leave()

    def __str__(self) -> str:
        return self._str

    def __repr__(self) -> str:
        return f"device({self._str!r})"

    # There is one object per device: copies are the device, and pickles name it.

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return device, (f"{self.backend.name}:{self.kind}:{self.index}",)


class StandIn(Device):
    """The device of a trace or a batch, in place of a real one: for the function, equal to it."""

    __slots__ = ("real",)

    real: Device

    def __eq__(self, other: object) -> bool:
        return other is self or other == self.real

    # Tables have entries of their own for each of the two.
    __hash__ = Device.__hash__


DeviceLike: TypeAlias = Annotated[Device | str, "DeviceLike"]


class _Context(threading.local):
    """The devices that `with` statements have made active in one thread."""

    device: Device | None = None

    def __init__(self) -> None:
        self.outer: list[Device | None] = []


_context = _Context()
#: Called once, before there is a device, and so a tensor.
BEFORE_TENSORS: list[Callable[[], None]] = []
_interned: dict[tuple[Backend, str, int], Device] = {}
_named: dict[str, Device] = {}
_LOCK = threading.Lock()
_chosen: Device | None = None
_default: Device | None = None


def _forget() -> None:
    """Names may mean other devices after a backend has been registered manually."""
    global _chosen, _default, _named
    chosen = _chosen
    if chosen is not None:
        backend = _registry().ready.get(chosen.backend.name, chosen.backend)
        if chosen.index < _registry().count(backend, chosen.kind):
            chosen = _get(backend, chosen.kind, chosen.index)
    with _LOCK:
        # A new dict: another thread may be about to put into the old one what it has looked up.
        _named = {}
        _chosen = _default = chosen
    SETTINGS.change()


def _registry() -> Registry:
    """The installed plugins: found at the first look at a device, not by `import pullback`."""
    from pullback.plugins.public import registry

    if _forget not in registry.listeners:
        registry.listeners.append(_forget)
    return registry


def as_device(value: DeviceLike | None = None) -> Device:
    """The device that `value` names; for None, the one active in this thread.

    Raises:
        DeviceError: for a name that no device has.
        BackendNotFoundError: when no backend is installed.
    """
    if value is None:
        inner = _context.device
        if inner is not None:
            return inner
        # Read once: another thread may take the default back in between.
        default = _default
        return default if default is not None else default_device()
    if isinstance(value, Device):
        return value
    return device(value)


def device(spec: DeviceLike) -> Device:
    """The device that `spec` names: "cpu", "gpu:1", or with its backend, "mine:gpu" or "mine".

    >>> device("cpu") is device("cpu:0")
    True

    Raises:
        DeviceError: for a name that no device has; the message lists the devices.
        BackendNotFoundError: when no installed backend drives it; the message says what to install.
        BackendError: when its backend cannot be used; the message says why.
    """
    names = _named
    known = names.get(spec) if type(spec) is str else None
    if known is None:
        if isinstance(spec, Device):
            return spec
        if not isinstance(spec, str):
            raise errors.InputTypeError(
                f"a device is named by a string such as 'cpu' or 'gpu:1', got {spec!r}; a dtype is "
                f"changed by x.astype(pb.float32)"
            )
        known = names[spec] = _resolve(spec)
    return known


def devices(spec: str | None = None) -> list[Device]:
    """Every device that can be used: of all backends, or of a kind or a backend.

    A backend that cannot be used on this machine has none. Loads the backends that it lists.

    Args:
        spec: a kind ("gpu"), the name of a backend ("mine"), or both ("mine:gpu"); None for all.

    >>> device("cpu") in devices() and device("cpu") in devices("cpu")
    True

    Raises:
        DeviceError: for any other name.
    """
    names = _registry().names()
    chosen: dict[str | None, tuple[list[str], tuple[str, ...]]] = {None: (names, KINDS)}
    chosen |= {kind: (names, (kind,)) for kind in KINDS}
    for name in names:
        chosen[name] = [name], KINDS
        chosen |= {f"{name}:{kind}": ([name], (kind,)) for kind in KINDS}
    if not isinstance(spec, (str, NoneType)) or spec not in chosen:
        raise errors.DeviceError(
            f"{spec!r} names no devices; write a kind, {' or '.join(map(repr, KINDS))}, or an "
            f"installed backend: {', '.join(map(repr, names)) or 'there is none'}"
        )
    names, kinds = chosen[spec]
    usable: list[Device] = []
    for name in names:
        try:
            backend = _registry().backend(name)
        except errors.BackendError:
            continue
        usable.extend(_all_of(backend, tuple(kind for kind in backend.kinds if kind in kinds)))
    return usable


def default_device() -> Device:
    """The device that tensors are made on where no `with pb.device(...)` is active.

    `set_default_device` or the environment variable PULLBACK_DEVICE choose it; otherwise it is the
    first GPU that can be used, or the CPU.

    Raises:
        BackendNotFoundError: when no backend is installed; the message says what to install.
    """
    global _default
    default, names = _default, _named
    if default is None:
        name = os.environ.get(DEVICE_VARIABLE)
        if name:
            try:
                default = device(name)
            except errors.PullbackError as error:
                raise type(error)(f"{DEVICE_VARIABLE}={name}: {error}") from error
        else:
            default = _first()
        with _LOCK:
            # A device that was chosen, or a backend registered, meanwhile comes first.
            if _default is None and _named is names:
                _default = default
        SETTINGS.change()
    return default


def set_default_device(device: DeviceLike | None) -> None:
    """Sets the device that tensors are made on in every thread; None undoes that.

    Raises:
        DeviceError: for a name that no device has.
    """
    global _chosen, _default
    chosen = None if device is None else as_device(device)
    with _LOCK:
        _chosen = _default = chosen
    SETTINGS.change()


def _first() -> Device:
    problems: list[tuple[str, errors.PullbackError]] = []
    # A backend that a program registers itself must not move tensors off the installed ones.
    for manual in (False, True):
        for kind in reversed(KINDS):
            try:
                chosen = _get(_registry().plain(kind, manual=manual), kind, 0)
            except (errors.BackendError, errors.DeviceError) as error:
                problems.append((kind, error))
                continue
            # Many machines have no GPU. A broken plugin is worth a warning: programs run slowly.
            broken = [
                problem
                for _, problem in problems
                if problem.__cause__ or type(problem) is errors.PluginError
            ]
            if broken:
                warnings.warn(f"using {chosen}, because {broken[0]}", RuntimeWarning, stacklevel=4)
            # The errors keep the frames of all callers alive, with the iterators in them.
            problems.clear()
            broken.clear()
            return chosen
    if not _registry().names():
        raise _registry().missing()
    for _, problem in problems:
        if isinstance(problem, errors.DeviceError):
            raise problem
    # That no package drives a GPU is no reason: the CPU would do.
    relevant = [error for kind, error in problems if kind == KINDS[0] or _registry().names(kind)]
    reasons = "; ".join(dict.fromkeys(map(str, relevant)))
    raise errors.BackendNotFoundError(reasons) from relevant[0]


def _resolve(spec: str) -> Device:
    head, *rest = spec.split(":")
    name, kind, index = "", "", "0"
    if head in KINDS and len(rest) <= 1:
        kind, index = head, rest[0] if rest else "0"
    elif not rest:
        name = head
    elif rest[0] in KINDS and len(rest) <= 2:
        name, kind, index = head, rest[0], rest[1] if len(rest) == 2 else "0"
    if not (name or kind) or not (index.isascii() and index.isdigit()):
        raise errors.DeviceError(
            f"{spec!r} is not the name of a device; {device_advice(head)}. {_available()}"
        )
    if name and name not in _registry().names():
        if not _registry().names():
            raise _registry().missing()
        raise errors.DeviceError(
            f"{spec!r} names no backend that is installed; {device_advice(name)}. {_available()}"
        )
    backend = _registry().backend(name) if name else _registry().plain(kind)
    if not kind:
        kind = next(kind for kind in reversed(KINDS) if _registry().count(backend, kind))
    if int(index) >= _registry().count(backend, kind):
        raise errors.DeviceError(f"there is no device {spec!r}. {_available()}")
    return _get(backend, kind, int(index))


def forget_kernels() -> None:
    """Has dispatch look all kernels of all devices up again."""
    for backend in backends_in_use():
        backend.forget_kernels()


def backends_in_use() -> set[Backend]:
    """The backends of all devices that have been named so far."""
    return {device.backend for device in list(_interned.values())}


def _available() -> str:
    return f"There are: {', '.join(map(str, devices())) or 'none'}"


def _all_of(backend: Backend, kinds: tuple[str, ...]) -> list[Device]:
    return [
        _get(backend, kind, index)
        for kind in kinds
        for index in range(_registry().count(backend, kind))
    ]


def _get(backend: Backend, kind: str, index: int) -> Device:
    """The one object for a device."""
    device = _interned.get((backend, kind, index))
    if device is None:
        with _LOCK:
            calls = [*BEFORE_TENSORS]
            BEFORE_TENSORS.clear()
        for call in calls:
            call()
        device = Device()
        device.backend = backend
        device.kind = kind
        device.index = index
        device.native = backend.native_device(kind, index)
        device.tables = backend.tables
        device.constants = {}
        device._str = _registry().label(backend, kind, index)
        # Another thread may have been faster: all get the first.
        made, device = device, _interned.setdefault((backend, kind, index), device)
        if device is made:
            observation.join(backend, device.native)
    return device
