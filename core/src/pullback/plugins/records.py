"""Kernels and native arrays, and the records that backends and kernel packs give to core."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

from pullback.dtypes import DType

Kernel: TypeAlias = Callable[..., Any]
#: A device of the library below a backend, whatever that is; None where the library has none.
NativeDevice: TypeAlias = Any


class Native(Protocol):
    """An array of the library below a backend."""

    @property
    def shape(self) -> Any:
        """The sizes of its axes: a tuple of ints, or an equal subclass of tuple."""

    @property
    def dtype(self) -> Any:
        """Its dtype, one of the values of `Backend.dtypes`."""


class Memory(NamedTuple):
    """Bytes on a device: used by arrays, held by the allocator, and in total.

    `peak` is the most that arrays used since `Device.reset_peak`, or ever; None if unknown.
    """

    used: int
    held: int
    total: int
    peak: int | None = None


class Deviation:
    """A difference from the op specification that a backend or a kernel pack has on purpose.

    `pullback conform` counts the checks of the op that fail by it apart from other failures.

    Args:
        reason: why it is so, and stays so; it is printed.
        dtypes: the names of the dtypes it is for; empty for all.
        checks: the names of the checks that may fail, as `pullback conform` prints them; empty for
            all.
        samples: the samples, as `pullback conform` prints them, or patterns such as "every *";
            empty for all.

    >>> import pullback as pb
    >>> class Flushing(pb.Backend):
    ...     deviations = {
    ...         "exp": pb.Deviation(
    ...             "the library flushes subnormal results to zero",
    ...             dtypes=("bfloat16",),
    ...             checks=("value",),
    ...         )
    ...     }
    """

    # A plain class: each named tuple takes 0.4 ms of the import.
    def __init__(
        self,
        reason: str,
        dtypes: tuple[str, ...] = (),
        checks: tuple[str, ...] = (),
        samples: tuple[str, ...] = (),
    ) -> None:
        self.reason = reason
        self.dtypes = dtypes
        self.checks = checks
        self.samples = samples

    def __repr__(self) -> str:
        options = "".join(f", {name}={value!r}" for name, value in list(vars(self).items())[1:])
        return f"Deviation({self.reason!r}{options})"


#: Op name to its deviations.
Deviations: TypeAlias = Mapping[str, Deviation | Sequence[Deviation]]


class Kind(NamedTuple):
    """The shape and the native dtype of an array that a kernel gets at every run of a program."""

    shape: tuple[int, ...]
    dtype: Any


class RegisteredKernel(NamedTuple):
    """A kernel that a backend has for an op: who registered it, and for which dtypes."""

    kernel: Kernel
    source: str
    priority: int
    dtypes: frozenset[DType] | None
    #: For an optimizer's update: does the same to variables, as `Backend.in_place` says.
    in_place: Kernel | None = None


class Fuser:
    """Who makes fused kernels for captured functions: a backend or a kernel pack.

    `fuse` is called with a graph of calls of `ops`.
    """

    def __init__(
        self,
        fuse: Callable[[Any], Kernel | None],
        ops: frozenset[str],
        source: str,
        priority: int,
    ) -> None:
        self.fuse = fuse
        self.ops = ops
        self.source = source
        self.priority = priority
