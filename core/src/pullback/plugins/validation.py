"""What a plugin may register. Every check names the plugin, what is wrong, and the fix."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from pullback import errors, spec
from pullback.dtypes import DType, DTypeLike, NamedDType, as_dtype
from pullback.plugins.backend import Backend

#: The kinds of device there are. A backend's name must differ from them.
KINDS = ("cpu", "gpu")

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")


def check_spec_version(version: Any, who: str) -> None:
    """Whether a plugin was written for an op specification that this core has.

    Raises:
        PluginError: when it needs a newer one, or `version` is no whole number.
    """
    if not isinstance(version, int):
        raise errors.PluginError(
            f"{who}: spec_version must be an int, the version of the op specification that the "
            f"plugin was written for; got {version!r}"
        )
    if version > spec.SPEC_VERSION:
        raise errors.PluginError(
            f"{who} was written for version {version} of the op specification, and this pullback "
            f"has version {spec.SPEC_VERSION}; upgrade it: pip install --upgrade pullback"
        )


def is_backend_name(name: Any) -> bool:
    """Whether a backend may be called `name`, as in "name:cpu:0"."""
    return isinstance(name, str) and _NAME.fullmatch(name) is not None and name not in KINDS


def check_backend(backend: Any, name: str | None, who: str) -> None:
    """Whether `backend` can be registered under `name` (None: under its own).

    Raises:
        PluginError: saying what is wrong with it.
    """
    if not isinstance(backend, Backend):
        raise errors.PluginError(
            f"{who}: register() takes an instance of pullback.plugins.backend.Backend, "
            f"got {'the class ' + backend.__name__ if isinstance(backend, type) else repr(backend)}"
        )
    own = backend.name
    if not is_backend_name(own):
        raise errors.PluginError(
            f"{who}: {own!r} is no name for a backend; set {type(backend).__name__}.name to "
            f"letters, digits, '_', '.' and '-', other than {' and '.join(map(repr, KINDS))}"
        )
    if name is not None and own != name:
        raise errors.PluginError(
            f"{who}: the entry point is named {name!r} and the backend {own!r}; "
            f"give both one name, or it cannot be found without importing every plugin"
        )
    if not hasattr(backend, "tables"):
        raise errors.PluginError(
            f"{who}: {type(backend).__name__}.__init__ must call super().__init__()"
        )
    check_spec_version(backend.spec_version, f"the backend {own!r}" if name is None else who)
    kinds, tiers = backend.kinds, backend.tiers
    if isinstance(kinds, str) or not kinds or not set(kinds) <= set(KINDS):
        raise errors.PluginError(
            f"{who}: {type(backend).__name__}.kinds must be a tuple of "
            f"{' and '.join(map(repr, KINDS))}; got {kinds!r}"
        )
    if isinstance(tiers, str) or not set(tiers) <= set(spec.Tier):
        raise errors.PluginError(
            f"{who}: {type(backend).__name__}.tiers must be a set of "
            f"{', '.join(repr(one.value) for one in spec.Tier)}; got {tiers!r}"
        )
    for dtype in backend.dtypes:
        if not isinstance(dtype, (np.dtype, NamedDType)):
            raise errors.PluginError(
                f"{who}: the keys of {type(backend).__name__}.dtypes must be public dtypes such as "
                f"pullback.float32, got {dtype!r}"
            )
    held: dict[Any, DType] = {}
    for dtype, native in backend.dtypes.items():
        if held.setdefault(native, dtype) is not dtype:
            raise errors.PluginError(
                f"{who}: {type(backend).__name__}.dtypes has {native} for {held[native]} and for "
                f"{dtype}; leave out those that the library does not hold"
            )


def check_kernel(op_name: str, kernel: Any, who: str) -> None:
    """Whether `kernel` can be called for the op `op_name` as dispatch calls it.

    Raises:
        PluginError: for an unknown op, or a signature that does not take the op's inputs
            positionally and its attributes by keyword.
    """
    problem = kernel_problem(op_name, kernel)
    if problem is not None:
        raise errors.PluginError(f"{who}: {problem}")


def kernel_problem(op_name: str, kernel: Any) -> str | None:
    """Why `kernel` cannot be called for the op `op_name` as dispatch calls it; None when it can.

    Functions written in C whose signature Python cannot read are taken on trust.
    """
    op = spec.OPS.get(op_name)
    if op is None:
        return f"there is no op {op_name!r}{nearest(op_name)}"
    if not callable(kernel):
        return f"the kernel of {op_name!r} is no function: {kernel!r}"
    try:
        signature = inspect.signature(kernel)
    except (TypeError, ValueError):
        return None
    names = [one.name for one in op.attributes]
    try:
        signature.bind(*op.inputs, **dict.fromkeys(names))
    except TypeError as error:
        called = getattr(kernel, "__qualname__", repr(kernel))
        wanted = ", ".join([*(one.name for one in op.inputs), *(["*", *names] if names else [])])
        return (
            f"the kernel of {op_name!r} is called as {op_name}({wanted}), "
            f"which {called}{signature} does not take: {error}"
        )
    return None


def check_dtypes(dtypes: Iterable[DTypeLike] | None, op_name: str, who: str) -> Any:
    """The dtypes that a kernel is restricted to, as a frozenset; None for all.

    Raises:
        PluginError: for an empty set, or something that is no dtype.
    """
    if dtypes is None:
        return None
    try:
        found: frozenset[DType] = frozenset(map(as_dtype, dtypes))
    except errors.DTypeError as error:
        raise errors.PluginError(f"{who}: the dtypes for {op_name!r}: {error}") from None
    if not found:
        raise errors.PluginError(
            f"{who}: the kernel of {op_name!r} is registered for no dtype; "
            f"leave dtypes out to serve all of them"
        )
    return found


def check_op(function: Callable[..., Any], who: str) -> str:
    """The name of the op that `function` calls.

    Raises:
        PluginError: when it was not made by `pullback.op`.
    """
    for name, op in spec.OPS.items():
        if op.function is function:
            return name
    raise errors.PluginError(
        f"{who}: register() takes a function made by pullback.op, got {function!r}; "
        f"decorate it with @pullback.op(shape=..., dtype=..., accuracy=...)"
    )


def nearest(op_name: Any) -> str:
    """How a message goes on that says that there is no such op."""
    import difflib

    near = difflib.get_close_matches(str(op_name), spec.OPS, n=3)
    if near:
        return f"; did you mean {' or '.join(map(repr, near))}?"
    return "; the ops there are: pullback.spec.OPS"
