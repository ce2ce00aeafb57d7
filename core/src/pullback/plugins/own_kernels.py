"""`pullback.register_kernel`: a kernel of a program or a notebook, without a package."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar, overload

from pullback import errors
from pullback.devices import DeviceLike, as_device
from pullback.dtypes import DTypeLike
from pullback.plugins.records import Kernel
from pullback.plugins.validation import check_dtypes, check_kernel, check_op

__all__ = ["register_kernel"]

_K = TypeVar("_K", bound=Kernel)

#: Who registers kernels here, in lists of kernels.
SOURCE = "this program"
#: Before the kernels of packs, which have 10 unless they say otherwise.
PRIORITY = 100


@overload
def register_kernel(
    op: str | Callable[..., Any],
    kernel: _K,
    /,
    *,
    device: DeviceLike | None = None,
    dtypes: Iterable[DTypeLike] | None = None,
    priority: int = PRIORITY,
) -> _K: ...
@overload
def register_kernel(
    op: str | Callable[..., Any],
    /,
    *,
    device: DeviceLike | None = None,
    dtypes: Iterable[DTypeLike] | None = None,
    priority: int = PRIORITY,
) -> Callable[[_K], _K]: ...
def register_kernel(
    op: str | Callable[..., Any],
    kernel: Any = None,
    /,
    *,
    device: DeviceLike | None = None,
    dtypes: Iterable[DTypeLike] | None = None,
    priority: int = PRIORITY,
) -> Any:
    """Registers a kernel of an op in the backend of a device, for this process.

    It takes the place of an earlier one that this program has registered for the same op, dtypes
    and priority, so a cell of a notebook can be run again. `device.backend.unregister_kernels("this
    program")` removes all of them. `pullback backends --kernels` knows installed packages only.

    Args:
        op: a function made by `pullback.op`, or the name of an op.
        kernel: a function of native arrays; without it, a decorator is returned.
        device: any device of the backend; the active one if not given.
        dtypes: the dtypes of the first input that it is for; None for all.
        priority: of all kernels that take a dtype, that with the highest is called. A backend's own
            have 0, kernel packs 10.

    Returns:
        The kernel, as it is.

    >>> @pb.register_kernel("square", device="cpu", dtypes=["float32"])
    ... def square(x):
    ...     return x * x
    >>> print(pb.square(pb.asarray([1.0, 2.0], device="cpu")))
    [1. 4.] shape=(2,) dtype=float32 device=cpu:0
    >>> pb.device("cpu").backend.unregister_kernels("this program")

    Raises:
        PluginError: for something that is not an op, a kernel that cannot be called as the op calls
            it, and dtypes that are not some.
    """
    if kernel is None:
        return lambda function: register_kernel(
            op, function, device=device, dtypes=dtypes, priority=priority
        )
    caller = "register_kernel"
    name = op if isinstance(op, str) else check_op(op, caller)
    check_kernel(name, kernel, caller)
    supported = check_dtypes(dtypes, name, caller)
    if type(priority) is not int:
        raise errors.PluginError(f"{caller}: priority must be an int, got {priority!r}; write 100")
    backend = as_device(device).backend
    backend.replace_kernel(name, kernel, source=SOURCE, priority=priority, dtypes=supported)
    return kernel
