"""What a backend is: the few methods a plugin provides, and its table of kernels.

A kernel is a function of native arrays. It gets the op's inputs positionally (native arrays of the
dtypes that the op's rule decides, on one device; None for an absent optional input; a list for a
sequence) and the op's attributes as normalised keywords. It returns a native array, or a tuple of
them for several outputs and residuals. It never writes into an array it was given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np

from pullback import errors
from pullback.dtypes import DType, as_dtype
from pullback.spec import SPEC_VERSION, Tier

Kernel: TypeAlias = Callable[..., Any]
Native: TypeAlias = Any


class Memory(NamedTuple):
    """Bytes on a device: used by arrays, held by the allocator, and in all."""

    used: int
    held: int
    total: int


class Offer(NamedTuple):
    """A kernel that somebody offers for an op of a backend."""

    kernel: Kernel
    source: str
    priority: int
    dtypes: frozenset[DType] | None


class _PublicDTypes(dict[Any, DType]):
    """The public dtype of each native one."""

    def __init__(self, backend: Backend) -> None:
        super().__init__((native, as_dtype(one)) for one, native in backend.dtypes.items())
        self._backend = backend

    def __missing__(self, native: Any) -> DType:
        # `from_host` or a kernel gave it: what a caller asks for is checked before.
        name, own = type(self._backend).__name__, ", ".join(map(repr, self))
        raise errors.DTypeError(
            f"an array of the backend {self._backend.name!r} has the dtype {native!r}, which is "
            f"none of the values of {name}.dtypes: {own}; a value there has to be what `.dtype` of "
            f"an array is, or equal to it and of one hash, and a kernel has to give one of them"
        )


class Backend:
    """The base of every backend. A plugin subclasses it, fills `kernels`, registers an instance.

    Native arrays must have `.shape` and `.dtype`; `dtypes` maps public dtypes to what that is.
    """

    #: The name that qualified devices use, such as "torch" in "torch:cpu:0".
    name: ClassVar[str] = ""
    #: The version shown by `pullback backends`.
    version: ClassVar[str] = ""
    #: The version of the op specification that the plugin was written for.
    spec_version: ClassVar[int] = SPEC_VERSION
    #: The kinds of device it drives: "cpu", "gpu" or both.
    kinds: ClassVar[tuple[str, ...]] = ("cpu",)
    #: The tiers of primitives that it claims to serve in full.
    tiers: ClassVar[frozenset[Tier]] = frozenset(Tier)
    #: Public dtype to native dtype, for every dtype that it can hold.
    dtypes: Mapping[DType, Any] = {}
    #: Op name to kernel.
    kernels: Mapping[str, Kernel] = {}

    def __init__(self) -> None:
        self._offers: dict[str, tuple[Offer, ...]] = {}
        self.public_dtypes: dict[Any, DType] = _PublicDTypes(self)
        #: Filled by dispatch: for each op, native dtype to the kernel that serves it.
        self.tables: list[dict[Any, Any]] = []
        #: How often what serves an op has changed.
        self.changes = 0
        for op_name, kernel in self.kernels.items():
            self.offer(op_name, kernel, source=self.name, priority=0)

    # What a plugin provides ----------------------------------------------------------------------

    def device_count(self, kind: str) -> int:
        """The number of devices of `kind` that can be used now; 0 when there is none."""
        return 1 if kind in self.kinds else 0

    def unusable(self) -> str | None:
        """Why this backend cannot be used on this machine, and what to do; None when it can."""
        return None

    def native_device(self, kind: str, index: int) -> Any:
        """What kernels of creation ops get as `device`."""
        return None

    def from_host(self, array: np.ndarray[Any, Any], device: Any, *, copy: bool) -> Native:
        """A native array on the native `device` with the values of a NumPy array.

        With `copy=False` it may share memory with `array`; with `copy=True` it must not.
        """
        raise NotImplementedError(f"{type(self).__name__}.from_host")

    def to_host(self, array: Native) -> np.ndarray[Any, Any]:
        """A NumPy array with the values, once they are there; a read-only view where possible."""
        raise NotImplementedError(f"{type(self).__name__}.to_host")

    def item(self, array: Native) -> Any:
        """The only element as a Python number, once it is there."""
        return self.to_host(array).item()

    def copy_to_device(self, array: Native, device: Any) -> Native:
        """The array on another native device of this backend."""
        return array

    def synchronize(self, device: Any) -> None:
        """Returns when all work given to `device` is done."""

    def memory(self, device: Any) -> Memory | None:
        """Figures of the memory of `device`, where the backend has them."""
        return None

    def native(self, value: Any) -> Native:
        """A native array from what a kernel returned in place of one, such as a NumPy scalar."""
        raise errors.BackendError(
            f"a kernel of the backend {self.name!r} returned {type(value).__name__}, "
            f"not one of its arrays; override {type(self).__name__}.native to accept that"
        )

    def to_dlpack(self, array: Native, **kwargs: Any) -> Any:
        """A DLPack capsule on the array, read-only where the backend can say so."""
        if not hasattr(array, "__dlpack__"):
            raise errors.BackendError(
                f"the backend {self.name!r} gives no DLPack capsules; take x.numpy()"
            )
        return array.__dlpack__(**kwargs)

    def from_dlpack(self, value: Any, device: Any, *, copy: bool | None) -> Native:
        """A native array from an object with `__dlpack__`, sharing memory where `copy` allows."""
        raise errors.BackendError(f"the backend {self.name!r} does not take DLPack objects")

    def holds_no(self, dtype: Any) -> str:
        """What to say of a dtype that this backend does not hold."""
        held = ", ".join(map(str, self.dtypes))
        message = f"the backend {self.name!r} holds no {dtype}; it holds {held}"
        if getattr(dtype, "kind", "") == "c" and not any(one.kind == "c" for one in self.dtypes):
            message += (
                ". Keep the real and the imaginary part in two tensors, or use a device that holds "
                "complex numbers"
            )
        return message

    # Kernels -------------------------------------------------------------------------------------

    def offer(
        self,
        op_name: str,
        kernel: Kernel,
        *,
        source: str,
        priority: int,
        dtypes: frozenset[DType] | None = None,
    ) -> None:
        """Adds a kernel; the highest priority that takes the dtype serves it."""
        offers = (*self._offers.get(op_name, ()), Offer(kernel, source, priority, dtypes))
        # A new tuple in one step: another thread may be looking a kernel up.
        self._offers[op_name] = tuple(sorted(offers, key=lambda offer: -offer.priority))
        self._forget()

    def withdraw(self, source: str) -> None:
        """Takes back every kernel that `source` has offered."""
        for op_name, offers in self._offers.items():
            self._offers[op_name] = tuple(offer for offer in offers if offer.source != source)
        self._forget()

    def refuse(self, problem: Callable[[str, Kernel], str | None]) -> tuple[str, ...]:
        """Leaves out every kernel that `problem` has something to say of, and says it."""
        found: list[str] = []
        for op_name, offers in self._offers.items():
            said = [problem(op_name, offer.kernel) for offer in offers]
            kept = zip(offers, said, strict=True)
            self._offers[op_name] = tuple(offer for offer, why in kept if why is None)
            found.extend(why for why in said if why is not None)
        self._forget()
        return tuple(found)

    def _forget(self) -> None:
        self.changes += 1
        for i in range(len(self.tables)):
            # Another thread may have looked up what it is about to put into the table of before.
            self.tables[i] = {}

    def offered(self) -> tuple[tuple[str, Kernel], ...]:
        """Every kernel that it has, with the name of its op."""
        return tuple(
            (op_name, offer.kernel) for op_name, offers in self._offers.items() for offer in offers
        )

    def offers(self, op_name: str) -> tuple[Offer, ...]:
        """Who serves `op_name`, in order."""
        return self._offers.get(op_name, ())

    def kernel(self, op_name: str, dtype: DType | None) -> Kernel | None:
        """The kernel that serves `op_name` for inputs whose first dtype is `dtype`."""
        for offer in self._offers.get(op_name, ()):
            if offer.dtypes is None or dtype in offer.dtypes:
                return offer.kernel
        return None

    def __repr__(self) -> str:
        return f"<backend {self.name} {self.version}>"
