"""The base class of backends: the few methods that a plugin provides, and its table of kernels.

A kernel is a function of native arrays. It gets the op's inputs by position (native arrays of the
dtypes that the op's rule decides, on one device; None for an absent optional input; a list for a
sequence) and the op's attributes by keyword, in canonical form. It returns a native array, or a
tuple of them for several results and residuals. It never writes into its inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from pullback import errors
from pullback._settings import SETTINGS
from pullback.dtypes import DType, DTypeLike, as_dtype, named_dtype
from pullback.plugins.observation import observed
from pullback.plugins.records import (
    Deviation,
    Deviations,
    Direct,
    Fuser,
    Keep,
    Kernel,
    Native,
    NativeDevice,
    RegisteredKernel,
)
from pullback.spec import SPEC_VERSION, Op, Tier

if TYPE_CHECKING:
    from pullback.plugins.memory import Memory

#: The kinds of devices.
KINDS = ("cpu", "gpu")


class _PublicDTypes(dict[Any, DType]):
    """The public dtype of each native dtype."""

    def __init__(self, backend: Backend, form: Callable[[DTypeLike], DType]) -> None:
        every = {**backend.dtypes, **backend.storage_dtypes}
        super().__init__((native, form(dtype)) for dtype, native in every.items())
        self._backend = backend

    def __missing__(self, native: Any) -> DType:
        # It came from `from_host` or a kernel: the dtypes that callers ask for are checked before.
        name, own = type(self._backend).__name__, ", ".join(map(repr, self))
        raise errors.DTypeError(
            f"an array of the backend {self._backend.name!r} has the dtype {native!r}, which is "
            f"not among the values of {name}.dtypes: {own}; each value must equal the `.dtype` of "
            f"arrays and have the same hash, and kernels must return arrays of these dtypes"
        )


class Backend:
    """The base class of backends. A plugin subclasses it, fills `kernels`, registers an instance.

    Native arrays must have `.shape` and `.dtype`; `dtypes` maps public dtypes to values of the
    latter. Methods that take an array get one of this backend, so a subclass annotates them with
    its own array type.
    """

    #: The name that qualified devices use, such as "torch" in "torch:cpu:0".
    name: ClassVar[str] = ""
    #: The version shown by `pullback backends`.
    version: ClassVar[str] = ""
    #: The version of the op specification that the plugin was written for.
    spec_version: ClassVar[str] = SPEC_VERSION
    #: The kinds of device it drives: "cpu", "gpu" or both.
    kinds: ClassVar[tuple[str, ...]] = ("cpu",)
    #: The tiers of primitives that it claims to support in full.
    tiers: ClassVar[frozenset[Tier]] = frozenset(Tier)
    #: Public dtype to native dtype, for every dtype that it supports.
    dtypes: Mapping[DType, Any] = {}
    #: The same for dtypes of `pullback.dtypes.STORAGE`, which its `astype` and `to_host` take.
    storage_dtypes: Mapping[DType, Any] = {}
    #: Op name to kernel.
    kernels: Mapping[str, Kernel] = {}
    #: Op name to the differences from the specification that are there on purpose.
    deviations: Mapping[str, Deviation | Sequence[Deviation]] = {}
    #: Op name to the device that runs the op where no kernel takes the dtype, such as "cpu".
    fallback: Mapping[str, str] = {}
    #: The ops whose kernels have had the host compute a call, as far as they note it.
    on_host: Collection[str] = ()
    #: The calls beside ops that `compile` takes: of "cond", "switch", "scan", "while_loop" and
    #: "stop_gradient". Graphs with others run call by call.
    control_flow: Collection[str] = ()
    #: False for a trace, which records the calls in a body: its tables have no bodies.
    keeps_bodies: ClassVar[bool] = True

    def __init__(self) -> None:
        self._pack_deviations: dict[str, Deviations] = {}
        self._registered: dict[str, tuple[RegisteredKernel, ...]] = {}
        self._fusers: tuple[Fuser, ...] = ()
        self.public_dtypes: dict[Any, DType] = _PublicDTypes(self, as_dtype)
        #: The same as the namespace has them: what a tensor shows.
        self.named_dtypes: dict[Any, DType] = _PublicDTypes(self, named_dtype)
        #: Filled by dispatch: for each op, native dtype to the kernel that is called for it.
        self.tables: list[dict[Any, Any]] = []
        #: Changes whenever kernels have to be looked up anew; below 0 while they are observed.
        self.changes = 0
        for op_name, kernel in self.kernels.items():
            self.register_kernel(op_name, kernel, source=self.name, priority=0)

    # What a plugin provides ----------------------------------------------------------------------

    def device_count(self, kind: str) -> int:
        """The number of devices of `kind` that can be used now."""
        return 1 if kind in self.kinds else 0

    def unusable(self) -> str | None:
        """The reason why it cannot be used on this machine, and the fix; None when it can be."""
        return None

    def native_device(self, kind: str, index: int) -> NativeDevice:
        """The value of `device` that `from_host` and kernels of creation ops get."""
        return None

    def from_host(self, array: np.ndarray[Any, Any], device: NativeDevice, *, copy: bool) -> Native:
        """A native array on the native `device` with the values of a NumPy array.

        With `copy=False` it may share memory with `array`; with `copy=True` it must not.
        """
        raise NotImplementedError(f"{type(self).__name__}.from_host")

    def to_host(self, array: Any) -> np.ndarray[Any, Any]:
        """Waits for the values and returns them in NumPy; a read-only view where possible."""
        raise NotImplementedError(f"{type(self).__name__}.to_host")

    def item(self, array: Any) -> Any:
        """Waits for the only element and returns it as a Python number."""
        return self.to_host(array).item()

    def copy_to_device(self, array: Any, device: NativeDevice) -> Native:
        """The array on another native device of this backend."""
        moved: Native = array
        return moved

    def synchronize(self, device: NativeDevice) -> None:
        """Waits until all work on `device` is done."""

    def flush(self, device: NativeDevice) -> None:
        """Begins what has been called and is not computed yet, without waiting for it.

        An optimizer calls it at the end of a step, before the program may wait for data.
        """

    def event(self, device: NativeDevice) -> Any:
        """A point in the work of `device`, after all that it was given; None without a clock there.

        Profilers take one before and one after each kernel. It must not wait for the device.
        """
        return None

    def elapsed(self, start: Any, end: Any) -> float:
        """The seconds of the device between two events of it; waits until the second is reached."""
        raise NotImplementedError(f"{type(self).__name__}.elapsed, beside event")

    def clear_caches(self) -> None:
        """Frees what is kept for shapes that may not come again, such as compiled kernels.

        `pullback conform` calls it after each op.
        """

    def annotate(self, op_name: str) -> AbstractContextManager[Any] | None:
        """A range of the vendor's profiler around a kernel; called while a profiler runs only."""
        return None

    def compile(self, graph: Any) -> Callable[..., Sequence[Any]] | None:
        """A function that runs a whole captured graph; None to have its calls run one by one.

        Args:
            graph: a `pullback.graph.graph.Graph`; what is to be written to variables is among its
                outputs, and `graph.writes` says which ones that are.
                `pullback.plugins.compiling.as_function` makes a Python function of it.

        Returns:
            A function of the graph's inputs in their order. It returns the outputs in theirs, and
            may return one boolean more: false if values are not what kernels `require`.
        """
        return None

    def compiles_kernels(self) -> bool:
        """True if `compile` calls the kernels: its graphs then have fused and prepared ones."""
        return False

    def memory(self, device: NativeDevice) -> Memory | None:
        """The memory of `device` in bytes; None where the backend does not know."""
        return None

    def reset_peak(self, device: NativeDevice) -> None:
        """Begins to measure the peak of `memory` anew.

        Raises:
            BackendError: if the backend does not measure it.
        """
        raise errors.BackendError(
            f"the backend {self.name!r} does not measure the peak of memory; read "
            f"device.memory.peak without a reset: it is None there"
        )

    def native(self, value: Any) -> Native:
        """Converts the result of a kernel that is not a native array, such as a NumPy scalar."""
        raise errors.BackendError(
            f"a kernel of the backend {self.name!r} returned {type(value).__name__}, "
            f"not one of its arrays; override {type(self).__name__}.native to accept that"
        )

    def to_dlpack(self, array: Any, **kwargs: Any) -> Any:
        """A DLPack capsule of the array, marked read-only where the backend can do so."""
        if not hasattr(array, "__dlpack__"):
            raise errors.BackendError(
                f"the backend {self.name!r} does not export DLPack; use x.numpy()"
            )
        return array.__dlpack__(**kwargs)

    def from_dlpack(self, value: Any, device: NativeDevice, *, copy: bool | None) -> Native:
        """A native array from an object with `__dlpack__`, sharing memory where `copy` allows."""
        raise errors.BackendError(f"the backend {self.name!r} does not import DLPack")

    def prepare(
        self, op: Op, kernel: Kernel, kinds: Sequence[Any], attributes: Mapping[str, Any]
    ) -> Kernel | None:
        """A kernel made ready for the shapes of a program, in place of `kernel`; None for none.

        It is called as the kernel is, with arrays of these shapes and dtypes in any layout and with
        these attributes, and gives the same bits. By default it is what the kernel's own attribute
        `prepare` returns, if it has that: `kernel.prepare(kinds, attributes)`.

        Args:
            op: the op.
            kernel: its kernel, of the backend or of a pack.
            kinds: a `Kind` for each input; None for one that is absent, a list for a sequence.
            attributes: the attributes, as the kernel gets them.
        """
        prepare = getattr(kernel, "prepare", None)
        if prepare is None:
            return None
        prepared: Kernel | None = prepare(kinds, attributes)
        return prepared

    def fusible(self) -> Collection[str]:
        """The names of the ops whose calls `fuse` takes; none by default."""
        return ()

    def fuse(self, region: Any) -> Kernel | None:
        """A kernel for all calls of a `pullback.graph.passes.regions.Region`; None for none.

        The kernel gets the inputs of the region by position, and returns its output, or a tuple of
        several. Its results are those of the calls one by one, for inputs of any layout:
        `region.op_by_op` is a kernel that makes these calls.
        """
        return None

    def holds(self, dtype: DType) -> bool:
        """True if an array can have the dtype, if only to store values."""
        return dtype in self.dtypes or dtype in self.storage_dtypes

    def unsupported_dtype_message(self, dtype: object) -> str:
        """The message for a dtype that this backend does not support."""
        if dtype in self.storage_dtypes:
            return (
                f"{dtype} stores values and does not compute; make a tensor of float32, and "
                f"convert it with x.astype(pb.{dtype})"
            )
        supported = ", ".join(map(str, self.dtypes))
        message = f"the backend {self.name!r} does not support {dtype}; it supports {supported}"
        complex_dtypes = [known for known in self.dtypes if known.kind == "c"]
        if getattr(dtype, "kind", "") == "c" and not complex_dtypes:
            message += (
                ". Keep the real and the imaginary part in two tensors, or use a device that "
                "supports complex numbers"
            )
        return message

    # Kernels -------------------------------------------------------------------------------------

    def register_kernel(
        self,
        op_name: str,
        kernel: Kernel,
        *,
        source: str,
        priority: int,
        dtypes: frozenset[DType] | None = None,
        in_place: Kernel | None = None,
        keep: Keep | None = None,
    ) -> None:
        """Adds a kernel of an op.

        Of all kernels that take a dtype, the one with the highest priority is called.

        Args:
            source: the name of who registers it, for `unregister_kernels` and lists.
            dtypes: the public dtypes of the first input that it is for; None for all.
            in_place: for an optimizer's update, what `in_place` returns for the kernel.
            keep: what `keeper` returns for the kernel.
        """
        added = RegisteredKernel(kernel, source, priority, dtypes, in_place, keep)
        kernels = (*self._registered.get(op_name, ()), added)
        # A new tuple in one step: another thread may be looking a kernel up.
        self._registered[op_name] = tuple(sorted(kernels, key=lambda entry: -entry.priority))
        self.forget_kernels()

    def register_fuser(
        self,
        fuse: Callable[[Any], Kernel | None],
        ops: Collection[str],
        *,
        source: str,
        priority: int,
        direct: Direct | None = None,
    ) -> None:
        """Adds who makes fused kernels, as a kernel pack does: see `fuse` and `fusible`."""
        fusers = (*self._fusers, Fuser(fuse, frozenset(ops), source, priority, direct))
        self._fusers = tuple(sorted(fusers, key=lambda fuser: -fuser.priority))
        self.forget_kernels()

    def fusers(self) -> Iterator[Fuser]:
        """Who makes fused kernels, the highest priority first."""
        yield from self._fusers
        own = frozenset(self.fusible())
        if own:
            yield Fuser(self.fuse, own, self.name, 0)

    def replace_kernel(
        self,
        op_name: str,
        kernel: Kernel,
        *,
        source: str,
        priority: int,
        dtypes: frozenset[DType] | None = None,
    ) -> None:
        """Adds a kernel as `register_kernel` does, in place of that of the same source.

        Args:
            source: the name of who registers it: one kernel for the same dtypes and priority.
            dtypes: the public dtypes of the first input that it is for; None for all.
        """
        own = (source, priority, dtypes)
        self._registered[op_name] = tuple(
            entry
            for entry in self._registered.get(op_name, ())
            if (entry.source, entry.priority, entry.dtypes) != own
        )
        self.register_kernel(op_name, kernel, source=source, priority=priority, dtypes=dtypes)

    def unregister_kernels(self, source: str) -> None:
        """Removes every kernel that `source` has registered, and its fused kernels."""
        self._fusers = tuple(fuser for fuser in self._fusers if fuser.source != source)
        for op_name, kernels in self._registered.items():
            self._registered[op_name] = tuple(entry for entry in kernels if entry.source != source)
        self._pack_deviations.pop(source, None)
        self.forget_kernels()

    def declare_deviations(self, deviations: Deviations, *, source: str) -> None:
        """Adds the deviations of a kernel pack, until `unregister_kernels(source)`."""
        self._pack_deviations[source] = deviations

    def all_deviations(self) -> Iterator[tuple[str, Deviations]]:
        """The deviations of the backend and of its kernel packs, each after the name of its source.

        They are as their authors wrote them; `pullback conform` validates them.
        """
        yield self.name, self.deviations
        yield from self._pack_deviations.items()

    def reject_kernels(self, problem: Callable[[str, Kernel], str | None]) -> tuple[str, ...]:
        """Removes every kernel that has a problem.

        Args:
            problem: `problem(op_name, kernel)` returns what is wrong with the kernel, or None.

        Returns:
            The problems.
        """
        problems: list[str] = []
        for op_name, kernels in self._registered.items():
            kept: list[RegisteredKernel] = []
            for entry in kernels:
                message = problem(op_name, entry.kernel)
                if message is None:
                    kept.append(entry)
                else:
                    problems.append(message)
            self._registered[op_name] = tuple(kept)
        self.forget_kernels()
        return tuple(problems)

    def forget_kernels(self) -> None:
        """Has dispatch look all kernels up again."""
        self.changes += 1 if self.changes >= 0 else -1
        self._clear_tables()

    def observe(self, on: bool) -> None:
        """Hands out kernels whose calls profilers are told of, or the plain ones again.

        What was made of the kernels before, such as a program of `pullback.function`, is good again
        afterwards: `changes` has the value that it had.
        """
        if on is not (self.changes < 0):
            self.changes = ~self.changes
            self._clear_tables()

    def _clear_tables(self) -> None:
        for i in range(len(self.tables)):
            # A new dict: another thread may be about to write into the old one.
            self.tables[i] = {}
        SETTINGS.change()

    def all_kernels(self) -> Iterator[tuple[str, Kernel]]:
        """Every registered kernel, after the name of its op."""
        for op_name, kernels in self._registered.items():
            for entry in kernels:
                yield op_name, entry.kernel

    def kernels_for(self, op_name: str) -> tuple[RegisteredKernel, ...]:
        """The kernels of an op, the highest priority first."""
        return self._registered.get(op_name, ())

    def kernel(self, op_name: str, dtype: DType | None) -> Kernel | None:
        """The kernel that is called for `op_name` where the first input has `dtype`."""
        for entry in self._registered.get(op_name, ()):
            if entry.dtypes is None or dtype in entry.dtypes:
                kernel = entry.kernel
                return kernel if self.changes >= 0 else observed(self, op_name, kernel)
        return None

    def kernels_taking(self, op_name: str, dtype: DType | None) -> list[Kernel]:
        """The kernels of `op_name` for `dtype` of the first input, the highest priority first."""
        return [
            entry.kernel
            for entry in self._registered.get(op_name, ())
            if entry.dtypes is None or dtype in entry.dtypes
        ]

    def in_place(self, op_name: str, kernel: Kernel) -> Kernel | None:
        """A function that does to variables what the kernel of an optimizer's update does.

        It is called with the inputs of the kernel, but for the parameter and its slots with objects
        that have their native arrays in `_array`. It gives each of them its new array, which may be
        the old one with new contents if nobody else refers to that. The kernels of `strided_update`
        and `scatter_update` may have such a function too, for a tensor: `x[key] = value`.
        """
        entry = self._entry(op_name, kernel)
        return None if entry is None else entry.in_place

    def keeper(self, op_name: str, kernel: Kernel) -> Keep | None:
        """A function that makes kernels that keep what they make of weights between calls.

        `keep(kernel, kinds, attributes, owners)` gets what `prepare` gets, and by the position of
        an input the variable whose array it is, which the program does not write: others may. It
        returns a kernel for that call of a program, with the same bits; None for none.
        """
        entry = self._entry(op_name, kernel)
        return None if entry is None else entry.keep

    def _entry(self, op_name: str, kernel: Kernel) -> RegisteredKernel | None:
        """Returns the entry of a registered kernel; None for one of the backend's own."""
        for entry in self._registered.get(op_name, ()):
            if entry.kernel is kernel:
                return entry
        return None

    def __repr__(self) -> str:
        return f"<backend {self.name} {self.version}>"
