"""Kernels and native arrays, and the records that backends and kernel packs give to core.

These are plain classes: a named tuple takes half a millisecond of the import. The named tuples are
in `pullback.plugins.kind` and `pullback.plugins.memory`, which are loaded when they are needed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from pullback.dtypes import DType

Kernel: TypeAlias = Callable[..., Any]
#: `keep(kernel, kinds, attributes, owners)`, as `Backend.keeper` says.
Keep: TypeAlias = Callable[..., Kernel | None]
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


class Deviation:
    """A difference from the op specification that a backend or a kernel pack has on purpose.

    `pullback conform` counts the checks of the op that fail by it apart from other failures.

    Args:
        reason: why it is so, and stays so; it is printed.
        dtypes: the names of the dtypes it is for; empty for all.
        checks: the names of the checks that may fail, as `pullback conform` prints them; empty for
            all.
        samples: the samples, as `pullback conform` prints them, or patterns such as "every *";
            of random calls what is behind the seed; empty for all.

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


class RegisteredKernel:
    """A kernel that a backend has for an op: who registered it, and for which dtypes."""

    __slots__ = ("dtypes", "in_place", "keep", "kernel", "priority", "source")

    def __init__(
        self,
        kernel: Kernel,
        source: str,
        priority: int,
        dtypes: frozenset[DType] | None,
        in_place: Kernel | None = None,
        keep: Keep | None = None,
    ) -> None:
        self.kernel = kernel
        self.source = source
        self.priority = priority
        self.dtypes = dtypes
        #: For an optimizer's update: does the same to variables, as `Backend.in_place` says.
        self.in_place = in_place
        #: Makes kernels that keep what they make of weights, as `Backend.keeper` says.
        self.keep = keep


class Fuser:
    """Who makes fused kernels for captured functions: a backend or a kernel pack.

    `fuse` is called with a graph of calls of `ops`.
    """

    def __init__(
        self, fuse: Callable[[Any], Kernel | None], ops: frozenset[str], source: str, priority: int
    ) -> None:
        self.fuse = fuse
        self.ops = ops
        self.source = source
        self.priority = priority
