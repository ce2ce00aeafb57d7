"""`pb.function`: a Python function whose calls run as programs, captured from one of them."""

from __future__ import annotations

import copy
import functools
import os
import threading
import warnings
from collections.abc import Callable
from types import MethodType
from typing import Any, Generic, ParamSpec, TypeVar, cast, overload

import numpy as np

from pullback import errors
from pullback._dispatch.convert import from_any
from pullback._dispatch.recording import LOCAL, RECORDING
from pullback._symbols import Apart, Break
from pullback.graph.graph import Graph
from pullback.graph.host import line_of_traceback
from pullback.graph.methods import Kept, kept_by
from pullback.graph.program import MISS, Program
from pullback.graph.signature import Signature, check_arrays, device_of, in_place, names_of
from pullback.graph.trace_call import traced

__all__ = ["Function", "function"]

P = ParamSpec("P")
R = TypeVar("R")

#: How many programs, and signatures that were called once, a function has before new ones run op by
#: op; and how many values a float has before it is an input.
LIMIT, VALUES = 8, 3
#: Types of arguments that are NumPy arrays, or may hold some.
_HOLDERS = (np.ndarray, list, tuple, dict)

# One trace at a time: it sets aside what other threads would find. Programs run without it.
_TRACING = threading.RLock()


def _after_fork() -> None:
    """Frees the child of a thread that traces in the parent only."""
    global _TRACING
    _TRACING = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class _Entry:
    """A signature that has been called: its programs, the latest first."""

    def __init__(self, signature: Signature) -> None:
        self.signature = signature
        self.programs: list[Program] = []
        #: True if the last trace made something that only later calls find.
        self.made = False
        #: True for calls that a tape outside must record op by op.
        self.apart = False


class Function(Generic[P, R]):
    """A captured function. Made by `pullback.function`."""

    #: Its programs are made anew; the state of what it calls is saved with that.
    opaque_state = True

    def __init__(self, f: Callable[P, R], *, strict: bool = True) -> None:
        functools.update_wrapper(self, f, updated=())
        self._f: Callable[..., Any] = f
        self._strict = strict
        self._names = names_of(f)
        self._name = getattr(f, "__qualname__", type(f).__name__).rpartition("<locals>.")[2]
        self._forget()

    def _forget(self) -> None:
        self._entries: dict[Any, _Entry] = {}
        self._programs: tuple[Any, ...] = ()
        #: The captured methods of instances without a `__dict__`, by the identities of these.
        self._bound: dict[int, Kept] = {}
        self._floats: dict[str, set[float]] = {}
        self._promoted: frozenset[str] = frozenset()
        self._constant: set[str] = set()
        self._eager_because = ""
        self._full = False
        #: The programs for calls that a tape outside records.
        self._taped: _Taped | None = None

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        """The captured method of an instance, which keeps it."""
        if instance is None:
            return self
        return kept_by(instance, self, lambda: self._bound_to(instance))

    def _bound_to(self, instance: object) -> Function[..., Any]:
        return Function(MethodType(self._f, instance), strict=self._strict)

    def __deepcopy__(self, memo: dict[int, Any]) -> Function[P, R]:
        return Function(copy.deepcopy(self._f, memo), strict=self._strict)

    def __reduce__(self) -> tuple[Any, ...]:
        return _remade, (self._f, self._strict)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Calls the function."""
        if RECORDING.count:
            state = LOCAL.state
            if state.capture is not None:
                # In another captured function this one is a part of it.
                return self._eager(args, kwargs)
            if state.recording:
                if len(state.tapes) > 1:
                    # Derivatives of higher order need every op.
                    return self._eager(args, kwargs)
                if self._taped is None:
                    self._taped = _Taped(self._f, strict=self._strict)
                return cast("R", self._taped.call(args, kwargs))
        for run in self._programs:
            result = run(args, kwargs)
            if result is not MISS:
                return cast("R", result)
        return self._miss(args, kwargs)

    def __repr__(self) -> str:
        return f"<captured {self._name}, {len(self._programs)} programs>"

    # What it consists of -------------------------------------------------------------------------

    @property
    def graph(self) -> Graph:
        """The graph of the program that was made last.

        Raises:
            CaptureError: before there is one.
        """
        programs = self._all()
        if not programs:
            raise errors.CaptureError(
                f"{self._name} has no program yet: the first call of a signature runs op by op, "
                f"the second makes it; call it twice, or write {self._name}.lower(...)"
            )
        return programs[-1].graph

    def explain(self) -> str:
        """Describes what the function runs as: its programs, and why each was made.

        >>> double = pb.function(lambda x: x + x)
        >>> for _ in range(2):
        ...     _ = double(pb.ones(3))
        >>> print(double.explain())
        <lambda>: 1 program
        1. for x: float32[3]; the first
        graph on cpu:0
          input x0: float32[3]
          v0: float32[3] = add(x0, x0)
          return v0
        """
        programs = self._all()
        count = f"{len(programs)} program{'' if len(programs) == 1 else 's'}"
        lines = [f"{self._name}: {count}"]
        for i, program in enumerate(programs, 1):
            lines.append(f"{i}. for {program.signature}; {program.about}")
            lines.append(str(program.fused))
        if self._eager_because:
            lines.append(f"runs op by op, because it {self._eager_because}")
        if self._taped is not None and self._taped._programs:
            lines.append(f"while a tape outside records, {self._taped.explain()}")
        if self._promoted:
            lines.append(f"floats that are inputs: {', '.join(sorted(self._promoted))}")
        return "\n".join(lines)

    def lower(self, *args: P.args, **kwargs: P.kwargs) -> Program:
        """Makes the program for these arguments, and changes nothing else.

        Returns:
            The program: `str` shows it, and `graph` is its graph.

        Raises:
            CaptureError: for a function that cannot be captured, or that makes variables at its
                first call: call it once before.
        """
        signature = self._signature(args, kwargs)
        with _TRACING:
            try:
                return self._trace(signature, commit=False)[1]
            except Break as error:
                raise self._error(error, lowered=True) from None

    def _all(self) -> list[Program]:
        programs = [p for entry in self._entries.values() for p in entry.programs]
        return sorted(programs, key=lambda program: program.number)

    # Calls without a program ---------------------------------------------------------------------

    def _eager(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> R:
        if not kwargs and not any(isinstance(value, _HOLDERS) for value in args):
            return cast("R", self._f(*args))
        signature = self._signature(args, kwargs)
        if not any(leaf.kind == "array" for leaf in signature.leaves()):
            return cast("R", self._f(*args, **kwargs))
        device = device_of(signature)
        filled, named = signature.filled(
            lambda leaf: from_any(leaf.value, None, device) if leaf.kind == "array" else leaf.value
        )
        with in_place(signature, filled, named):
            return cast("R", self._f(*filled, **named))

    def _signature(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Signature:
        signature = Signature(args, kwargs, self._names, self._promoted)
        check_arrays(signature)
        return signature

    def _miss(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> R:
        if self._eager_because:
            return self._eager(args, kwargs)
        known = self._programs
        with _TRACING:
            # Another thread may have made the program while this one waited.
            for run in self._programs if self._programs is not known else ():
                result = run(args, kwargs)
                if result is not MISS:
                    return cast("R", result)
            signature = self._signature(args, kwargs)
            entry = self._entries.get(signature.key)
            if entry is None:
                if self._promote(signature):
                    signature = self._signature(args, kwargs)
                    entry = self._entry(signature)
                elif self._count() < LIMIT:
                    self._entry(signature)
            elif self._count() - (not entry.programs) >= LIMIT:
                self._warn_full()
                entry = None
            if entry is None and not self._full and self._count() >= LIMIT:
                self._warn_full(signature)
            if entry is not None and not entry.apart:
                return self._capture(entry, signature, args, kwargs)
        return self._eager(args, kwargs)

    def _entry(self, signature: Signature) -> _Entry:
        entry = self._entries[signature.key] = _Entry(signature.without_values())
        return entry

    def _count(self) -> int:
        return sum(max(1, len(entry.programs)) for entry in self._entries.values())

    def _promote(self, signature: Signature) -> bool:
        """Makes inputs of the floats that have had enough values; True if there are new ones."""
        new = set()
        for leaf in signature.leaves():
            if leaf.kind == "constant" and type(leaf.value) is float:
                values = self._floats.setdefault(leaf.path, set())
                if len(values) < VALUES:
                    values.add(leaf.value)
                if len(values) >= VALUES and leaf.path not in self._constant:
                    new.add(leaf.path)
        if not new:
            return False
        self._promoted |= new
        # Those for single values serve no more.
        self._entries = {
            key: entry
            for key, entry in self._entries.items()
            if not any(
                leaf.path in new and leaf.kind == "constant" for leaf in entry.signature.leaves()
            )
        }
        self._arrange()
        return True

    def _demote(self, signature: Signature) -> bool:
        """Makes constants again of the floats of a call whose trace failed; True if it had some."""
        paths = {leaf.path for leaf in signature.leaves() if leaf.kind == "number"}
        if paths:
            self._promoted -= paths
            self._constant |= paths
            self._entries.pop(signature.key, None)
        return bool(paths)

    def _arrange(self, first: Program | None = None) -> None:
        runs = [program.run for program in self._all()[::-1] if program is not first]
        self._programs = tuple(runs if first is None else [first.run, *runs])

    # Capturing -----------------------------------------------------------------------------------

    def _capture(
        self, entry: _Entry, signature: Signature, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> R:
        reason = self._reason(entry, signature)
        try:
            result, program = self._trace(signature, commit=True)
        except Break as error:
            if self._demote(signature):
                return self._eager(args, kwargs)
            if isinstance(error, Apart):
                entry.apart = True
                return self._eager(args, kwargs)
            if error.made and not entry.made:
                entry.made = True
                return self._eager(args, kwargs)
            failure = self._error(error)
            if self._strict:
                raise failure from None
            self._eager_because = error.reason
            self._entries.clear()
            self._arrange()
            warnings.warn(f"{failure}; it runs op by op from now on", RuntimeWarning, stacklevel=4)
            return self._eager(args, kwargs)
        except Exception:
            if self._demote(signature):
                return self._eager(args, kwargs)
            raise
        entry.made = False
        program.reason = reason
        entry.programs.append(program)
        self._arrange(program)
        return cast("R", result)

    def _trace(self, signature: Signature, *, commit: bool) -> tuple[Any, Program]:
        """Runs the function in a trace.

        Raises:
            Break: if the function does what a program cannot do.
        """
        return traced(self._f, self._name, signature, commit=commit)

    # Messages ------------------------------------------------------------------------------------

    def _reason(self, entry: _Entry, signature: Signature) -> str:
        programs = self._all()
        if not programs:
            return "the first"
        if entry.programs:
            unmet = [guard.what for guard in entry.programs[-1].unmet()]
            return f"because of another value of {', '.join(unmet) or 'something outside'}"
        return f"because of {signature.difference(programs[-1].signature)}"

    def _error(self, error: Break, *, lowered: bool = False) -> errors.CaptureError:
        line = line_of_traceback(error)
        place = f" at {line}" if line else ""
        way_out = error.way_out or (
            "return it and look at it after the call, or choose between tensors with "
            "pb.where(condition, x, y), between computations with pb.cond"
        )
        if not lowered:
            way_out += "; pb.function(f, strict=False) runs such a function op by op"
        return errors.CaptureError(
            f"{self._name} {error.reason}{place}, which a program cannot repeat; {way_out}"
        )

    def _warn_full(self, signature: Signature | None = None) -> None:
        if self._full:
            return
        self._full = True
        warnings.warn(
            f"{self._name} has been called in {LIMIT} ways, so calls in other ways run op by op: "
            f"{self._varied(signature)} varied; pass arrays for what changes at every call, or "
            f"keep it the same",
            RuntimeWarning,
            stacklevel=4,
        )

    def _varied(self, signature: Signature | None) -> str:
        """The arguments, or values outside, that made the most programs."""
        keys: dict[str, set[Any]] = {}
        signatures = [entry.signature for entry in self._entries.values()]
        for each in [*signatures, *([] if signature is None else [signature])]:
            for leaf in each.leaves():
                keys.setdefault(leaf.path, set()).add(leaf.key)
        varied = [path for path, values in keys.items() if len(values) > 1]
        for program in self._all():
            varied += [guard.what for guard in program.unmet()]
        return ", ".join(dict.fromkeys(varied)) or "the structure of the arguments"


def _remade(f: Callable[..., Any], strict: bool) -> Function[..., Any]:
    return Function(f, strict=strict)


class _Taped(Function[..., Any]):
    """The programs of a captured function for calls that one tape outside records.

    Their results have one node, whose backward pass is a graph as well.
    """

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Calls the function while the tape records."""
        for run in self._programs:
            result = run(args, kwargs)
            if result is not MISS:
                return result
        return self._miss(args, kwargs)

    def _trace(self, signature: Signature, *, commit: bool) -> tuple[Any, Program]:
        outside = LOCAL.state.tapes[0]
        program = traced(self._f, self._name, signature, commit=False, outside=outside)[1]
        arguments = {name: part.value for name, part in signature.named.items()}
        result = program.run(tuple(part.value for part in signature.positional), arguments)
        if result is MISS:
            raise Apart("sees something else when it runs than when it was traced")
        return result, program


@overload
def function(f: Callable[P, R], /, *, strict: bool = True) -> Function[P, R]: ...
@overload
def function(*, strict: bool = True) -> Callable[[Callable[P, R]], Function[P, R]]: ...
def function(f: Callable[..., Any] | None = None, /, *, strict: bool = True) -> Any:
    """Captures a function: from its third call on it runs as one program.

    The first call with arguments of new shapes, dtypes or Python values runs op by op; the second
    is recorded while it runs; later ones run the record, without Python between the kernels. What
    the function does besides computing is part of the program: reads and writes of variables,
    optimizer steps, random numbers, metrics. `docs/capture.md` says what is not.

    Args:
        f: a function, a method, or an object with `__call__`, such as a model.
        strict: whether a function that looks at values raises; otherwise it runs op by op, with a
            warning.

    Returns:
        The captured function. Without `f`, a decorator.

    >>> v = pb.Variable(1.0)
    >>> @pb.function
    ... def step(x):
    ...     v.assign_add(x)
    ...     return v * 2.0
    >>> [float(step(pb.asarray(1.0))) for _ in range(4)]
    [4.0, 6.0, 8.0, 10.0]

    Raises:
        InputTypeError: for something that cannot be called.
    """
    if f is None:
        return functools.partial(function, strict=strict)
    if isinstance(f, (staticmethod, classmethod)):
        # In the order in which other decorators take them.
        return type(f)(function(f.__func__, strict=strict))
    if not callable(f):
        raise errors.InputTypeError(
            f"pb.function captures a function, got {type(f).__name__}; write pb.function(f)"
        )
    return f if isinstance(f, Function) else Function(f, strict=strict)
