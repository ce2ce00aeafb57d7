"""Inspection of the array API standard: version, dtypes, devices and capabilities."""

from __future__ import annotations

import sys
from typing import Any

from pullback import dtypes, errors
from pullback._dispatch.recording import capturing
from pullback._operators import OPERATORS
from pullback.devices import Device, DeviceLike, as_device, default_device, devices
from pullback.dtypes import DType
from pullback.ops.data_types import isdtype

__all__ = ["__array_api_version__", "__array_namespace_info__"]

#: The version of the array API standard that this namespace follows.
__array_api_version__ = "2025.12"

_VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12", __array_api_version__)


class NamespaceInfo:
    """The result of `__array_namespace_info__()` (array API standard, inspection)."""

    def capabilities(self) -> dict[str, Any]:
        """The optional capabilities of the standard that this namespace has.

        >>> pb.__array_namespace_info__().capabilities()["boolean indexing"]
        True
        """
        return {
            "boolean indexing": True,
            "data-dependent shapes": True,
            # None: no limit of the namespace's own.
            "max dimensions": 64,
        }

    def default_device(self) -> Device:
        """The device of new tensors, unless another one is named."""
        return default_device()

    def default_dtypes(self, *, device: DeviceLike | None = None) -> dict[str, DType]:
        """The default dtypes, which are the same on all devices (`set_default_dtype`)."""
        return {
            "real floating": dtypes.DEFAULT_FLOAT,
            "complex floating": dtypes.DEFAULT_COMPLEX,
            "integral": dtypes.DEFAULT_INT,
            "indexing": dtypes.int64,
        }

    def dtypes(self, *, device: DeviceLike | None = None, kind: Any = None) -> dict[str, DType]:
        """The dtypes of the standard (not float16 and bfloat16) that a device supports, by name.

        Args:
            device: the device; the active device if not given.
            kind: only dtypes of this kind, as `isdtype` takes it.

        >>> pb.__array_namespace_info__().dtypes(kind="complex floating")
        {'complex64': dtype('complex64'), 'complex128': dtype('complex128')}
        """
        held = as_device(device).backend.dtypes
        return {
            dtype.name: dtype
            for dtype in dtypes.ALL
            if dtype in held
            and dtype not in (dtypes.bfloat16, dtypes.float16)
            and (kind is None or isdtype(dtype, kind))
        }

    def devices(self) -> tuple[Device, ...]:
        """All usable devices: a tuple since version 2025.12 of the standard, a list before."""
        return tuple(devices())


def __array_namespace_info__() -> NamespaceInfo:
    """Dtypes, devices and capabilities of this namespace (array API standard)."""
    return NamespaceInfo()


def _namespace(api_version: str | None) -> Any:
    """The namespace of tensors, for `Tensor.__array_namespace__`."""
    if api_version is not None and api_version not in _VERSIONS:
        raise errors.InputValueError(
            f"unknown version {api_version!r} of the array API standard; "
            f"use one of {', '.join(_VERSIONS)}"
        )
    return sys.modules["pullback"]


OPERATORS.array_namespace = _namespace


def executing_eagerly() -> bool:
    """Returns whether ops run when they are called, on tensors that have values to look at.

    False where a captured function is traced, and in `pb.eval_shape`. What a library chooses by it
    must not change what a program computes.

    >>> pb.executing_eagerly()
    True
    >>> @pb.function
    ... def double(x):
    ...     print(pb.executing_eagerly())
    ...     return 2.0 * x
    >>> [double(pb.ones(())).item() for _ in range(3)]  # op by op, traced, as a program
    True
    False
    [2.0, 2.0, 2.0]
    """
    return capturing() is None
