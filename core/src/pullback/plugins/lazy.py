"""Backends of libraries that compute later than they are called.

Such a library notes the calls and computes when a value is read, or when it is told to. Its arrays
may belong to the thread that made them, and its errors come when the call at fault has returned.
"""

from __future__ import annotations

import copy
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import wraps
from typing import ClassVar, NamedTuple, TypeVar

from pullback import errors
from pullback.dtypes import DType
from pullback.plugins.backend import Backend
from pullback.plugins.late_errors import LATE_ERRORS
from pullback.plugins.records import Keep, Kernel, NativeDevice
from pullback.spec import Op

__all__ = ["LazyBackend"]

T = TypeVar("T")
_FAILURES = (*LATE_ERRORS, MemoryError)


class _Noted(NamedTuple):
    """A call whose results have not been computed yet, or not been seen to be."""

    op: str
    inputs: tuple[int, ...]
    results: Sequence[Callable[[], object | None]]

    def alive(self) -> list[object]:
        """The results that somebody may still read."""
        return [array for result in self.results if (array := result()) is not None]


class LazyBackend(Backend):
    """The base class of a backend whose library computes later than it is called.

    A subclass says how the library computes: `evaluate`, and `begin` where it can compute while
    Python goes on. Around every kernel this class takes a lock, and begins what has been called
    after `every` results, at the end of a step and before anything waits. What fails is
    raised once where a program waits for all, and wherever a result is used that cannot be
    computed, with the name of the op at fault; results of other calls are as they would be.

    A subclass does the rest that touches the library in `turn`, such as a transfer.

    >>> import numpy as np
    >>> from pullback.plugins.lazy import LazyBackend
    >>> class Slow(LazyBackend):
    ...     name = "slow"
    ...     kernels = {"negative": lambda x: np.negative(x)}
    ...     def evaluate(self, arrays):
    ...         print("computes", len(arrays))
    >>> backend = Slow()
    >>> y = backend.kernel("negative", None)(np.ones(3))
    >>> backend.synchronize(None)
    computes 1
    """

    #: The number of results after which computing begins: graphs that nobody reads grow for ever.
    every: ClassVar[int] = 32
    #: True if the library's arrays are of use in the thread alone that made them: all calls are
    #: then made in one thread of the backend's own.
    one_thread: ClassVar[bool] = False

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._tracing = threading.local()
        self._thread = ThreadPoolExecutor(1, self.name) if self.one_thread else None
        self._home: int | None = None
        #: Calls that the library has noted, and calls that it has been told to compute.
        self._noted: list[_Noted] = []
        self._begun: list[_Noted] = []
        #: What cannot be computed, and why; arrays that are not on the default device: by `id`.
        self._failed: dict[int, tuple[object, Exception]] = {}
        self._places: dict[int, tuple[object, NativeDevice]] = {}
        self._late: Exception | None = None
        super().__init__()

    # What a subclass says ------------------------------------------------------------------------

    def evaluate(self, arrays: Sequence[object]) -> None:
        """Computes arrays of the library, and waits for them."""
        raise NotImplementedError(f"{type(self).__name__}.evaluate")

    def begin(self, arrays: Sequence[object]) -> None:
        """Begins to compute arrays without waiting; by default it waits, as `evaluate` does."""
        self.evaluate(arrays)

    def within(self, device: NativeDevice) -> AbstractContextManager[object]:
        """A context that calls for a device are made in, such as one of its streams."""
        return nullcontext()

    # What a subclass uses ------------------------------------------------------------------------

    def turn(self, call: Callable[[], T], device: NativeDevice = None) -> T:
        """Calls the library alone, in its thread if it has one, on a device."""
        if self._thread is not None and threading.get_ident() != self._home:
            with self._lock:
                return self._thread.submit(self._at_home, call, device).result()
        with self._lock if self._thread is None else nullcontext(), self.within(device):
            return call()

    def _at_home(self, call: Callable[[], T], device: NativeDevice) -> T:
        self._home = threading.get_ident()
        with self.within(device):
            return call()

    def computed(self, array: T) -> T:
        """The array, when its value is there: what `to_host` and `item` begin with, before `turn`.

        Raises:
            BackendError: if it cannot be computed, with the name of the op at fault.
        """
        self.flush(None)
        self._refuse([array])
        try:
            self.turn(lambda: self.evaluate([array]))
        except _FAILURES as error:
            with self._lock:
                calls, self._begun, self._noted = [*self._begun, *self._noted], [], []
                self._blame(calls, error)
            self._refuse([array])
            self.turn(lambda: self.evaluate([array]))
        return array

    def placed(self, array: T, device: NativeDevice) -> T:
        """The array, as one on a device that shares its memory with the default device's."""
        if device is not None:
            self._remember(self._places, array, device)
        return array

    @contextmanager
    def tracing(self) -> Iterator[None]:
        """Says that what kernels get in this thread stands for values, as within `compile`."""
        before = self.is_tracing()
        self._tracing.on = True
        try:
            yield
        finally:
            self._tracing.on = before

    def is_tracing(self) -> bool:
        """True where arrays stand for values: nothing may be computed."""
        return getattr(self._tracing, "on", False)

    # What core calls -----------------------------------------------------------------------------

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
        """Adds a kernel, whose calls take their turn; what has been noted is not written into."""
        own = self._in_turn(op_name, kernel)
        super().register_kernel(op_name, own, source=source, priority=priority, dtypes=dtypes)

    def prepare(
        self,
        op: Op,
        kernel: Kernel,
        kinds: Sequence[object],
        attributes: Mapping[str, object],
    ) -> Kernel | None:
        """A kernel made ready for the shapes of a program, whose calls take their turn."""
        prepared = super().prepare(op, kernel, kinds, attributes)
        return None if prepared is None else self._in_turn(op.name, prepared)

    def flush(self, device: NativeDevice) -> None:
        """Begins what has been called, and waits for what was begun before: no error is raised."""
        with self._lock:
            waiting, self._begun, self._noted = self._begun, self._noted, []
            self._judge(waiting, self.evaluate)
            self._begun = [call for call in self._begun if call.alive()]
            self._judge(self._begun, self.begin)

    def synchronize(self, device: NativeDevice) -> None:
        """Computes all that has been called, and raises what failed since the last time.

        Raises:
            BackendError: with the name of the op at fault.
        """
        self._settle()
        late, self._late = self._late, None
        if late is not None:
            raise _again(late)

    # ---------------------------------------------------------------------------------------------

    def _in_turn(self, op_name: str, kernel: Kernel) -> Kernel:
        @wraps(kernel)
        def call(*inputs: object, **attributes: object) -> object:
            if self.is_tracing():
                return kernel(*inputs, **attributes)
            with self._lock:
                if self._failed:
                    self._refuse(_each(inputs))
                device = attributes.get("device")
                if self._places and device is None:
                    device = self._place(_each(inputs))
                result: object = self.turn(lambda: kernel(*inputs, **attributes), device)
                if result is not NotImplemented:
                    self._note(op_name, inputs, result, device)
                return result

        return call

    def _note(
        self, op: str, inputs: Sequence[object], result: object, device: NativeDevice
    ) -> None:
        results = list(_each([result]))
        if device is not None:
            for array in results:
                self._remember(self._places, array, device)
        self._noted.append(_Noted(op, tuple(map(id, _each(inputs))), [_weakly(x) for x in results]))
        if len(self._noted) >= self.every:
            self.flush(device)

    def _place(self, inputs: Iterable[object]) -> NativeDevice:
        return next((self._places[id(x)][1] for x in inputs if id(x) in self._places), None)

    def _refuse(self, arrays: Iterable[object]) -> None:
        for array in arrays:
            if id(array) in self._failed:
                raise _again(self._failed[id(array)][1])

    def _settle(self) -> None:
        """Computes all that has been called, and notes what fails."""
        with self._lock:
            waiting, self._begun, self._noted = [*self._begun, *self._noted], [], []
            self._judge(waiting, self.evaluate)

    def _judge(self, calls: list[_Noted], compute: Callable[[Sequence[object]], None]) -> None:
        """Computes the results of calls; if something fails, one call after the other."""
        arrays = [array for call in calls for array in call.alive()]
        if not arrays:
            return
        try:
            self.turn(lambda: compute(arrays))
        except _FAILURES as error:
            self._blame(calls, error)

    def _blame(self, calls: list[_Noted], error: Exception) -> None:
        """Finds which of some calls fails; all of them where the library does not say it again."""
        failed = [self._fails(call) for call in calls]
        if not any(failed):
            ops = ", ".join(dict.fromkeys(call.op for call in calls)) or "an op"
            cause = self._named(error, ops)
            self._late = self._late or cause
            for array in (array for call in calls for array in call.alive()):
                self._remember(self._failed, array, cause)

    def _fails(self, call: _Noted) -> bool:
        """Computes the results of one call, and notes why it fails: by itself, or by an input."""
        arrays = call.alive()
        cause = next((self._failed[i][1] for i in call.inputs if i in self._failed), None)
        if cause is None and arrays:
            try:
                self.turn(lambda: self.evaluate(arrays))
            except _FAILURES as error:
                cause = self._named(error, call.op)
                self._late = self._late or cause
        if cause is not None:
            for array in arrays:
                self._remember(self._failed, array, cause)
        return cause is not None

    def _named(self, error: Exception, ops: str) -> Exception:
        error = _again(error)
        if isinstance(error, errors.PullbackError):
            return error
        kind = errors.OutOfMemoryError if isinstance(error, MemoryError) else errors.BackendError
        named = kind(
            f"{ops}: {type(error).__name__}: {error}; {self.name} computed it later than it was "
            f"called: what it was computed from, and nothing else refers to, may be at fault; in "
            f"`with pb.profile(synchronize=True):` each call waits, and the one at fault raises"
        )
        named.__cause__ = error
        return named

    def _remember(self, table: dict[int, tuple[object, T]], array: object, value: T) -> None:
        """Keeps a value beside an array, as long as that lives."""
        key = id(array)

        def gone(_: object) -> None:
            table.pop(key, None)

        table[key] = (_weakly(array, gone), value)


def _weakly(array: T, gone: Callable[[object], None] | None = None) -> Callable[[], T | None]:
    try:
        return weakref.ref(array, gone)
    except TypeError:  # held until it has been computed
        return lambda: array


def _each(values: Iterable[object]) -> Iterator[object]:
    """The arrays among inputs or results, in sequences too."""
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from value
        elif value is not None:
            yield value


def _again(error: Exception) -> Exception:
    """The error without the places that it was raised at, whose frames hold arrays."""
    same = copy.copy(error)
    same.__cause__, same.__context__ = error.__cause__, None
    return same.with_traceback(None)
