"""Kernels and native arrays, and the records that backends and kernel packs give to core.

These are plain classes: a named tuple takes half a millisecond of the import. The named tuples are
in `pullback.plugins.kind` and `pullback.plugins.memory`, which are loaded when they are needed.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from pullback.dtypes import DType

if TYPE_CHECKING:
    from pullback.spec import Op

Kernel: TypeAlias = Callable[..., Any]
K = TypeVar("K", bound=Callable[..., Any])
#: `keep(kernel, kinds, attributes, owners)`, as `Backend.keeper` says.
Keep: TypeAlias = Callable[..., Kernel | None]
#: Makes what a call of a small program runs, of its fields: see `Fuser`.
Direct: TypeAlias = Callable[..., Callable[..., Any]]
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


def may_decline(kernel: K) -> K:
    """Says of a kernel that it may return NotImplemented for calls that it does not serve.

    It decides by shapes, attributes and layouts, before it computes. Such a call goes to the next
    kernel of the op that takes the dtype, by priority, then to a fallback, then to the op's body;
    for a primitive without any of these it is a MissingKernelError. Calls that it serves cost
    nothing more.

    Args:
        kernel: a function whose attributes can be set.

    >>> import pullback as pb
    >>> from pullback.plugins.records import may_decline
    >>> @may_decline
    ... def softmax(x, *, axis):
    ...     if axis != len(x.shape) - 1:
    ...         return NotImplemented
    ...     return fast_softmax_of_rows(x)
    """
    kernel.may_decline = True  # type: ignore[attr-defined]
    return kernel


def declines(kernel: Kernel) -> bool:
    """True if a kernel, or the one that an observer's function is around, may decline calls."""
    return getattr(getattr(kernel, "__wrapped__", kernel), "may_decline", False)


def converts(kernel: K, **dtypes: str) -> K:
    """Says of a kernel that it takes inputs of dtypes that its op converts.

    Dispatch converts inputs to the dtypes of an op's rule before it calls a kernel. Such a kernel
    has the same result without that, as NumPy's `logical_and` has of numbers.

    Args:
        kernel: a function whose attributes can be set.
        dtypes: the dtypes that it takes, each with the one that it stands for: a Fourier transform
            may take `float32="complex64"`. By default all that the op converts.
    """
    kernel.converts = dtypes or True  # type: ignore[attr-defined]
    return kernel


def takes(kernel: Kernel | None, dtype: str, instead: str) -> bool:
    """True if a kernel takes an input of a dtype as it is, where its op converts it to another."""
    taken = getattr(kernel, "converts", None)
    return taken is True or (taken is not None and taken.get(dtype) == instead)


def leaves_out_residuals(op: Op, kernel: Kernel) -> bool:
    """True if a kernel takes `residuals=False` for a call whose residuals nothing reads."""
    if not op.residuals:
        return False
    try:
        return "residuals" in inspect.signature(kernel).parameters
    except (TypeError, ValueError):  # some functions in C
        return False


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

    `fuse` is called with a graph of calls of `ops`, and `direct` with a
    `pullback.graph.direct.DirectProgram`: it returns what a call of the program runs.
    """

    def __init__(
        self,
        fuse: Callable[[Any], Kernel | None],
        ops: frozenset[str],
        source: str,
        priority: int,
        direct: Direct | None = None,
    ) -> None:
        self.fuse = fuse
        self.direct = direct
        self.ops = ops
        self.source = source
        self.priority = priority
