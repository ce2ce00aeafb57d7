"""Checks of what plugins register. Every error names the plugin, the problem and the fix."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from pullback import errors, spec
from pullback._hints import close_names
from pullback.dtypes import STORAGE, DType, DTypeLike, NamedDType, as_dtype
from pullback.plugins.backend import KINDS, Backend
from pullback.plugins.records import Kernel

#: The kinds of device. The name of a backend must differ from them.

_NAME = r"[A-Za-z][A-Za-z0-9_.-]*"


def check_spec_version(version: object, plugin: str, distribution: str = "") -> None:
    """Checks that a plugin works with the op specification of this core.

    It does if the major versions are the same and the plugin's minor version is not newer.

    Args:
        version: the version that the plugin was written for.
        plugin: the name of the plugin in messages.
        distribution: the package of the plugin, where it is installed.

    Raises:
        PluginError: when the plugin needs another one; the message says what to install.
    """
    wanted = _version(version)
    if wanted is None:
        raise errors.PluginError(
            f"{plugin}: spec_version must be a string 'major.minor', the version of the op "
            f"specification that the plugin was written for, got {version!r}; write "
            f"spec_version = {spec.SPEC_VERSION!r}"
        )
    own = _version(spec.SPEC_VERSION)
    assert own is not None
    if wanted[0] == own[0] and wanted[1] <= own[1]:
        return
    problem = (
        f"{plugin} was written for version {version} of the op specification, and this "
        f"pullback has version {spec.SPEC_VERSION}"
    )
    if wanted > own:
        raise errors.PluginError(f"{problem}; upgrade it: pip install --upgrade pullback")
    newer = f"pip install --upgrade {distribution}" if distribution else "change its kernels"
    raise errors.PluginError(
        f"{problem}, in which kernels of version {wanted[0]} may be wrong; use a version of the "
        f"plugin for {own[0]}.*: {newer}"
    )


def _version(text: object) -> tuple[int, int] | None:
    """The major and the minor number; None if `text` is not a version of the specification."""
    if not isinstance(text, str) or not re.fullmatch(r"[0-9]+\.[0-9]+", text):
        return None
    major, minor = text.split(".")
    return int(major), int(minor)


def is_backend_name(name: object) -> bool:
    """True if `name` is valid for a backend, as in "name:cpu:0"."""
    return isinstance(name, str) and re.fullmatch(_NAME, name) is not None and name not in KINDS


def check_backend(backend: object, name: str | None, plugin: str, distribution: str = "") -> None:
    """Checks that `backend` can be registered under `name`; None for its own name.

    Raises:
        PluginError: when it cannot, with the reason.
    """
    if not isinstance(backend, Backend):
        raise errors.PluginError(
            f"{plugin}: register() takes an instance of pullback.plugins.backend.Backend, "
            f"got {'the class ' + backend.__name__ if isinstance(backend, type) else repr(backend)}"
        )
    own = backend.name
    if not is_backend_name(own):
        raise errors.PluginError(
            f"{plugin}: {own!r} is not a valid backend name; set {type(backend).__name__}.name to "
            f"letters, digits, '_', '.' and '-', other than {' and '.join(map(repr, KINDS))}"
        )
    if name is not None and own != name:
        raise errors.PluginError(
            f"{plugin}: the entry point is named {name!r} and the backend {own!r}; "
            f"give both the same name, or it cannot be found without importing every plugin"
        )
    if not hasattr(backend, "tables"):
        raise errors.PluginError(
            f"{plugin}: {type(backend).__name__}.__init__ must call super().__init__()"
        )
    label = f"the backend {own!r}" if name is None else plugin
    check_spec_version(backend.spec_version, label, distribution)
    kinds, tiers = backend.kinds, backend.tiers
    if isinstance(kinds, str) or not kinds or not set(kinds) <= set(KINDS):
        raise errors.PluginError(
            f"{plugin}: {type(backend).__name__}.kinds must be a tuple of "
            f"{' and '.join(map(repr, KINDS))}; got {kinds!r}"
        )
    if isinstance(tiers, str) or not set(tiers) <= set(spec.Tier):
        raise errors.PluginError(
            f"{plugin}: {type(backend).__name__}.tiers must be a set of "
            f"{', '.join(repr(tier.value) for tier in spec.Tier)}; got {tiers!r}"
        )
    for dtype in backend.dtypes:
        if not isinstance(dtype, (np.dtype, NamedDType)):
            raise errors.PluginError(
                f"{plugin}: the keys of {type(backend).__name__}.dtypes must be public dtypes such "
                f"as pullback.float32, got {dtype!r}"
            )
    _check_fallback(backend, plugin)
    stored = backend.storage_dtypes
    if not set(stored) <= set(STORAGE) or not set(backend.dtypes).isdisjoint(STORAGE):
        raise errors.PluginError(
            f"{plugin}: {', '.join(map(str, STORAGE))} belong into "
            f"{type(backend).__name__}.storage_dtypes, and all other dtypes into .dtypes"
        )
    supported: dict[Any, DType] = {}
    for dtype, native in {**backend.dtypes, **stored}.items():
        if supported.setdefault(native, dtype) is not dtype:
            raise errors.PluginError(
                f"{plugin}: {type(backend).__name__}.dtypes maps both {supported[native]} and "
                f"{dtype} to {native}; leave out dtypes that the library does not support"
            )


def _check_fallback(backend: Backend, plugin: str) -> None:
    named = f"{plugin}: {type(backend).__name__}.fallback"
    if not isinstance(backend.fallback, Mapping):
        raise errors.PluginError(
            f"{named} must be a dict of ops and devices, such as {{'eigh': 'cpu'}}; got "
            f"{backend.fallback!r}"
        )
    for op_name, device in backend.fallback.items():
        if op_name not in spec.OPS:
            raise errors.PluginError(f"{named} has the unknown op {op_name!r}{nearest(op_name)}")
        if not isinstance(device, str):
            raise errors.PluginError(
                f"{named}[{op_name!r}] must be the name of a device, such as 'cpu'; got {device!r}"
            )


def check_kernel(op_name: str, kernel: Kernel, plugin: str) -> None:
    """Checks that dispatch can call `kernel` for the op `op_name`.

    Raises:
        PluginError: for an unknown op, or a signature that does not take the op's inputs
            positionally and its attributes by keyword.
    """
    problem = kernel_problem(op_name, kernel)
    if problem is not None:
        raise errors.PluginError(f"{plugin}: {problem}")


def kernel_problem(op_name: str, kernel: Kernel) -> str | None:
    """The reason why dispatch cannot call `kernel` for the op `op_name`; None when it can.

    Functions written in C whose signature Python cannot read are not checked.
    """
    op = spec.OPS.get(op_name)
    if op is None:
        return f"unknown op {op_name!r}{nearest(op_name)}"
    if not callable(kernel):
        return f"the kernel of {op_name!r} must be a function, got {kernel!r}"
    try:
        signature = inspect.signature(kernel)
    except (TypeError, ValueError):
        return None
    names = [attribute.name for attribute in op.attributes]
    try:
        signature.bind(*op.inputs, **dict.fromkeys(names))
    except TypeError as error:
        function = getattr(kernel, "__qualname__", repr(kernel))
        inputs = [parameter.name for parameter in op.inputs]
        arguments = ", ".join([*inputs, *(["*", *names] if names else [])])
        return (
            f"the kernel of {op_name!r} is called as {op_name}({arguments}), "
            f"which {function}{signature} does not accept: {error}"
        )
    return None


def check_dtypes(
    dtypes: Iterable[DTypeLike] | None, op_name: str, plugin: str
) -> frozenset[DType] | None:
    """The dtypes that a kernel is restricted to, as a frozenset; None for all.

    Raises:
        PluginError: for an empty set, or a value that is not a dtype.
    """
    if dtypes is None:
        return None
    try:
        public: frozenset[DType] = frozenset(map(as_dtype, dtypes))
    except errors.DTypeError as error:
        raise errors.PluginError(f"{plugin}: the dtypes for {op_name!r}: {error}") from None
    if not public:
        raise errors.PluginError(
            f"{plugin}: the kernel of {op_name!r} is registered for an empty set of dtypes; "
            f"leave dtypes out to register it for all"
        )
    return public


def check_op(function: Callable[..., Any], plugin: str) -> str:
    """The name of the op of a public function.

    Raises:
        PluginError: when it was not made by `pullback.op`.
    """
    for name, op in spec.OPS.items():
        if op.function is function:
            return name
    raise errors.PluginError(
        f"{plugin}: register() takes a function made by pullback.op, got {function!r}; "
        f"decorate it with @pullback.op(shape=..., dtype=..., accuracy=...)"
    )


def nearest(op_name: object) -> str:
    """The end of a message about an unknown op: similar names."""
    near = close_names(str(op_name), spec.OPS, 3, 0.6)
    if near:
        return f"; did you mean {' or '.join(map(repr, near))}?"
    return "; pullback.spec.OPS has all ops"
