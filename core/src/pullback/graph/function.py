"""`pb.function`: a Python function whose calls run as programs, captured from one of them."""

from __future__ import annotations

import copy
import functools
import time
import warnings
from collections.abc import Callable, Collection
from types import MethodType
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, cast, overload

from pullback import _hints, errors
from pullback._codegen.lines import depth_of_program, line_of_traceback
from pullback._dispatch.convert import from_any
from pullback._dispatch.recording import LOCAL, RECORDING
from pullback._locks import process_lock
from pullback._symbols import Apart, Break, Late
from pullback.graph.found import (
    OFTEN,
    Caller,
    Kept,
    KnownSignature,
    Options,
    SignatureForm,
    holds_arrays,
)
from pullback.graph.graph import Graph
from pullback.graph.parameters import FunctionParameters
from pullback.graph.program import MISS, Program
from pullback.graph.signature import (
    NUMBERS,
    Numbers,
    Signature,
    check_arrays,
    device_of,
    in_place,
    variations,
)
from pullback.graph.trace_call import Expected, traced

__all__ = ["Function", "function"]

P = ParamSpec("P")
R = TypeVar("R")

#: How many programs, and signatures that were called once, a function has before new ones run op by
#: op; and how many values a number has before it is an input.
LIMIT, VALUES = 8, 3
#: How many instances of a class with `__slots__` a captured method remembers.
KEPT = 4
_NONE: dict[str, Any] = {}

# One trace at a time: it sets aside what other threads would find. Programs run without it.
TRACING = process_lock(globals(), "TRACING")


class Function(Caller, Generic[P, R]):
    """A captured function. Made by `pullback.function`."""

    #: Its programs are made anew; the state of what it calls is saved with that.
    opaque_state = True

    def __init__(self, f: Callable[P, R], options: Options) -> None:
        super().__init__(FunctionParameters.of(f), enters=not options.check)
        functools.update_wrapper(self, f, updated=())
        self._f: Callable[..., Any] = f
        self._options = options
        self._name = getattr(f, "__qualname__", type(f).__name__).rpartition("<locals>.")[2]
        # With the name of the class: a method may call that of its base class.
        self._kept_as = f"_captured_{self._name}"
        self._forms: dict[Any, SignatureForm] = {}
        #: The captured methods of the last instances without a `__dict__`, which have no place for
        #: them, by their identities.
        self._bound: dict[int, Kept] = {}
        #: Of numbers that are arguments, by path and type: values, those that are inputs, and
        #: those that the function looks at.
        self._values: dict[tuple[str, type], set[float]] = {}
        self._inputs: Numbers = frozenset()
        self._looked_at: set[tuple[str, type]] = set()
        self._eager_because = ""
        #: True when there are signatures for which no program is made.
        self._full = False
        self._overwrites = ""  # what it changes that it reads
        self._asks = False  # whether a warning has said what it asks the outer world
        #: The programs for calls that a tape outside records.
        self._taped: _Taped | None = None

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        """The captured method of an instance, which keeps it."""
        if instance is None:
            return self
        kept = getattr(instance, "__dict__", _NONE).get(self._kept_as)
        # A copy of an instance has what the instance kept, which is bound to that.
        if kept is None or kept[0] is not self or kept[1]._f.__self__ is not instance:
            kept = self._bound.get(id(instance)) or self._keep(instance)
        return kept[1]

    def _keep(self, instance: object) -> Kept:
        """Makes the captured method of an instance or, for a class method, of a class."""
        kept = Kept((self, self._like(MethodType(self._f, instance))))
        keep = type.__setattr__ if isinstance(instance, type) else object.__setattr__
        try:
            keep(instance, self._kept_as, kept)
        except (AttributeError, TypeError):  # a class with __slots__
            self._bound[id(instance)] = kept
            while len(self._bound) > KEPT:
                del self._bound[next(iter(self._bound))]
        return kept

    def _like(self, f: Callable[..., Any]) -> Function[..., Any]:
        return Function(f, self._options)

    def __deepcopy__(self, memo: dict[int, Any]) -> Function[P, R]:
        return Function(copy.deepcopy(self._f, memo), self._options)

    def __reduce__(self) -> tuple[Any, ...]:
        return Function, (self._f, self._options)

    if TYPE_CHECKING:

        def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
            """Calls the function."""

    def call(self, /, *args: Any, **kwargs: Any) -> R:
        """Does a call, in whatever way."""
        if RECORDING.count:
            state = LOCAL.state
            if state.capture is not None or state.runs or state.values or state.again is not None:
                # In another captured function this one is a part of it; in a batch, with other
                # values of variables, and in a call that is repeated, programs read other values.
                return self.run_eagerly(args, kwargs)
            if state.recording:
                if len(state.tapes) > 1:
                    # Derivatives of higher order need every op.
                    return self.run_eagerly(args, kwargs)
                if self._taped is None:
                    self._taped = _Taped(self._f, self._options._replace(check=False))
                return cast("R", self._taped.call(*args, **kwargs))
        if self._options.check and self._all():
            return self._compared(args, kwargs)
        result = self.first(*args, **kwargs)
        return self._find(args, kwargs) if result is MISS else result

    def _compared(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> R:
        """Does a call that is compared with the function op by op."""
        with TRACING:
            expected = Expected(
                self._f, self._name, self._signature(args, kwargs), self._options.compare
            )
            result: R = self.first(*args, **kwargs)
            if result is MISS:
                result = self._find(args, kwargs)
        if expected.is_known:
            expected.check(result)
        return result

    def __repr__(self) -> str:
        return f"<captured {self._name}, {len(self._all())} programs>"

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
        """Describes what the function runs as: its programs, why each was made, and how long.

        >>> double = pb.function(lambda x: x + x)
        >>> for _ in range(2):
        ...     _ = double(pb.ones(3))
        >>> print(double.explain())  # doctest: +ELLIPSIS
        <lambda>: 1 program
        1. for x: float32[3]; the first
        graph on cpu:0
          input x0: float32[3]
          v0: float32[3] = add(x0, x0)
          return v0
        captured in ... ms
        """
        programs = self._all()
        count = f"{len(programs)} program{'' if len(programs) == 1 else 's'}"
        lines = [f"{self._name}: {count}"]
        for i, program in enumerate(programs, 1):
            lines.append(f"{i}. for {program.signature}; {program.about}")
            lines.append(str(program.fused))
        if because := self._eager_because or self._overwrites:
            lines.append(f"runs op by op, because it {because}")
        if self._taped is not None and self._taped._all():
            lines.append(f"while a tape outside records, {self._taped.explain()}")
        if self._inputs:
            lines.append(
                f"numbers that are inputs: {', '.join(sorted({p for p, _ in self._inputs}))}"
            )
        if programs:
            seconds = sum(program.seconds for program in programs)
            lines.append(f"captured in {1e3 * seconds:.1f} ms")
        return "\n".join(lines)

    def lower(self, *args: P.args, **kwargs: P.kwargs) -> Program:
        """Makes the program for these arguments, and changes nothing else.

        A tensor that is given twice counts as two, as the arguments of a saved program do.

        Returns:
            The program: `str` shows it, and `graph` is its graph.

        Raises:
            CaptureError: for a function that cannot be captured, or that makes variables at its
                first call: call it once before.
        """
        signature = Signature(args, kwargs, self._parameters, self._inputs, distinct=True)
        check_arrays(signature)
        with TRACING:
            try:
                return self._trace(signature, commit=False)[1]
            except Break as error:
                raise self._error(error, lowered=True) from None

    def _all(self) -> list[Program]:
        found = (p for each in self._entries() for p in each.programs)
        return sorted(found, key=lambda p: p.number)

    def _entries(self) -> list[KnownSignature]:
        return [entry for form in list(self._forms.values()) for entry in [*form.entries.values()]]

    # Calls ---------------------------------------------------------------------------------------

    def _find(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> R:
        """Calls the program for the arguments, or does without."""
        result: R
        for form in list(self._forms.values()):  # one for a late call comes first at the next
            self.try_first(form.run)
            result = form.run(*args, **kwargs)
            if result is not MISS:
                return result
        return self.run_eagerly(args, kwargs) if self._full else self.miss(args, kwargs)

    def run_eagerly(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> R:
        """Calls the function op by op, with tensors in place of NumPy arrays."""
        if not any(map(holds_arrays, (*args, *kwargs.values()) if kwargs else args)):
            return cast("R", self._f(*args, **kwargs))
        signature = self._signature(args, kwargs)
        device = device_of(signature)
        filled, named = signature.filled(
            lambda leaf: from_any(leaf.value, None, device) if leaf.kind == "array" else leaf.value
        )
        with in_place(signature, filled, named):
            return cast("R", self._f(*filled, **named))

    def _signature(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], more: Numbers = frozenset()
    ) -> Signature:
        signature = Signature(args, kwargs, self._parameters, self._inputs | more)
        check_arrays(signature)
        return signature

    def miss(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> R:
        """Does a call for which there is no program: op by op, or in a trace."""
        known = len(self._all())
        with TRACING:
            if len(self._all()) != known:
                # Another thread has made one while this one waited.
                return self._find(args, kwargs)
            try:
                result = MISS if self._eager_because else self._missed(args, kwargs)
            except Late as late:
                raise late.error from late.error.__cause__
        return self.run_eagerly(args, kwargs) if result is MISS else cast("R", result)

    def _missed(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result of a call that is traced; MISS for one to run op by op."""
        signature = self._signature(args, kwargs)
        form = self._forms.get(signature.form)
        entry = None if form is None else form.entries.get(signature.key)
        if entry is None:
            numbers = self._varying(signature)
            if numbers:
                more = self._signature(args, kwargs, numbers)
                result = self._capture_numbers(more, numbers)
                if result is not MISS:
                    return result
            if self._count() < self._options.limit:
                self._add(signature)
                return MISS
            self._fill(signature)
            return MISS
        entry.full = self._count() - (not entry.programs) >= self._options.limit
        if entry.full:
            self._fill()
            return MISS
        if entry.apart or (entry.late and entry.missed % OFTEN):
            return MISS
        return self._capture(entry, signature)

    def _add(self, signature: Signature) -> KnownSignature:
        form = self._forms.get(signature.form)
        if form is None:
            form = self._forms[signature.form] = SignatureForm(self, self._f, signature)
            if self._full:
                form.fill()
        return form.add(self, signature)

    def _count(self) -> int:
        return sum(max(1, len(entry.programs)) for entry in self._entries())

    # Numbers that are inputs ---------------------------------------------------------------------

    def _varying(self, signature: Signature) -> Numbers:
        """The numbers of a call that have had enough values to become inputs."""
        found = []
        for leaf in signature.leaves():
            key = leaf.path, type(leaf.value)
            if leaf.kind == "constant" and key[1] in NUMBERS and key not in self._looked_at:
                values = self._values.setdefault(key, set())
                if len(values) < VALUES:
                    values.add(leaf.value)
                if len(values) >= VALUES:
                    found.append(key)
        return frozenset(found)

    def _capture_numbers(self, signature: Signature, numbers: Numbers) -> Any:
        """Captures a call with further numbers as inputs; MISS if the function looks at them."""
        entry = KnownSignature(self, signature.without_values())
        try:
            result = self._traced(entry, signature)
        except (Break, Exception):
            # One of them at a time: the others are tried again.
            self._looked_at.add(min(numbers, key=lambda number: (number[1] is float, number[0])))
            return MISS
        self._inputs |= numbers
        self._drop("constant", numbers)
        known = self._add(signature)
        for program in entry.programs:
            program.reason = self._reason(known, signature)
            known.programs = [program]
        return result

    # Capturing -----------------------------------------------------------------------------------

    def _capture(self, entry: KnownSignature, signature: Signature) -> Any:
        """The result of a call that is traced; MISS if it has to run op by op."""
        try:
            return self._traced(entry, signature)
        except Break as error:
            if self._look_at(signature):
                return MISS
            if isinstance(error, Apart):
                self._leave(entry, error.reason)
                return MISS
            if error.made and not entry.made:
                entry.made = True
                return MISS
            failure = self._error(error)
            if self._options.strict:
                raise failure from None
            self._eager_because = error.reason
            self._forms = {}
            self.try_first(lambda *args, **kwargs: self.run_eagerly(args, kwargs))
            self._warn(f"{failure}; it runs op by op from now on")
            return MISS
        except Exception:
            if self._look_at(signature):
                return MISS
            raise

    def _traced(self, entry: KnownSignature, signature: Signature) -> Any:
        """The result of a call that is traced, for which the entry has a program then."""
        reason = self._reason(entry, signature)
        begin = time.perf_counter()
        result, program = self._trace(signature, commit=True)
        program.fall_back_on(self.run_eagerly)
        program.reason = reason
        program.seconds = time.perf_counter() - begin
        entry.made = False
        if program.overwrites:
            self._leave(entry, f"changes {', '.join(program.overwrites)}")
            return result
        entry.programs = [program, *entry.programs]
        self.prefer(program.run, program.direct)
        if program.outer and not self._asks:
            said = f"{self._name} {' and '.join(program.outer)}. Its program has what that gave, "
            self._warn(f"{said}not what it gives later: do it before the call, and pass the result")
        self._asks |= bool(program.outer)
        return result

    def _trace(self, signature: Signature, *, commit: bool) -> tuple[Any, Program]:
        """Runs the function in a trace.

        Raises:
            Break: if the function does what a program cannot do.
        """
        return traced(self._f, self._name, signature, commit=commit, compares=self._options.compare)

    def _look_at(self, signature: Signature) -> bool:
        """Makes constants again of the numbers of a call whose trace failed; False if none."""
        numbers = {
            (leaf.path, type(leaf.value)) for leaf in signature.leaves() if leaf.kind == "number"
        }
        self._inputs -= numbers
        self._looked_at |= numbers
        self._drop("number", numbers)
        return bool(numbers)

    def _drop(self, kind: str, numbers: Collection[tuple[str, type]]) -> None:
        """Drops the programs of signatures that have one of these numbers as an input, or not."""
        self._forms = {
            key: form
            for key, form in self._forms.items()
            if not any(
                leaf.kind == kind and (leaf.path, leaf.type) in numbers for leaf in form.leaves
            )
        }

    # Messages ------------------------------------------------------------------------------------

    def _reason(self, entry: KnownSignature, signature: Signature) -> str:
        programs = self._all()
        if not programs:
            return "the first"
        if entry.programs:
            unmet = [guard.what for guard in entry.programs[0].unmet()]
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

    def _fill(self, signature: Signature | None = None) -> None:
        """Has calls in other ways run op by op, and says so once."""
        if self._full:
            return
        self._full = True
        for form in self._forms.values():
            form.fill()
        signatures = [entry.signature for entry in self._entries()]
        varied = variations([*signatures, *([] if signature is None else [signature])])
        guards = [guard for program in self._all() for guard in program.unmet()]
        # What the framework keeps has names of its own.
        names = dict.fromkeys(guard.what for guard in guards if "._" not in guard.what)
        varied += [f"{name}: pass it as an argument" for name in names]
        limit = self._options.limit
        self._warn(
            f"{self._name} has been called in {limit} ways, so calls in other ways run op "
            f"by op. What varies: {'; '.join(varied) or 'something outside of its arguments'}. Or "
            f"have more programs made: pb.function(..., limit={2 * limit})"
        )

    def _leave(self, entry: KnownSignature, reason: str) -> None:
        """Has calls of a signature run op by op, such as those that change what they read."""
        entry.apart = True
        if reason.startswith("changes ") and not self._overwrites:
            self._overwrites = f"{reason}, which it reads"
            self._warn(
                f"{self._name} {self._overwrites}, so it runs op by op. Make a number a "
                f"pb.Variable and assign to it, or pass what varies as an argument"
            )

    def _warn(self, message: str) -> None:
        warnings.warn(message, RuntimeWarning, stacklevel=depth_of_program())


class _Taped(Function[..., Any]):
    """The programs of a captured function for calls that one tape outside records.

    Their results have one node, whose backward pass is a graph as well.
    """

    def __init__(self, f: Callable[..., Any], options: Options) -> None:
        super().__init__(f, options)
        self._enters = False

    def call(self, /, *args: Any, **kwargs: Any) -> Any:
        """Calls the function while the tape records."""
        result = self.first(*args, **kwargs)
        return self._find(args, kwargs) if result is MISS else result

    def _trace(self, signature: Signature, *, commit: bool) -> tuple[Any, Program]:
        outside = LOCAL.state.tapes[0]
        _, program = traced(
            self._f,
            self._name,
            signature,
            commit=False,
            outside=outside,
            compares=self._options.compare,
        )
        arguments = {name: part.value for name, part in signature.named.items()}
        try:
            result = program.run(*(part.value for part in signature.positional), **arguments)
        except Exception as error:
            raise Late(error) from None
        if result is MISS:
            raise Apart("sees something else when it runs than when it was traced")
        return result, program


@overload
def function(
    f: Callable[P, R],
    /,
    *,
    strict: bool = True,
    limit: int = LIMIT,
    check: bool = False,
    compare: bool = True,
) -> Function[P, R]: ...
@overload
def function(
    *,
    strict: bool = True,
    limit: int = LIMIT,
    check: bool = False,
    compare: bool = True,
) -> Callable[[Callable[P, R]], Function[P, R]]: ...
@_hints.answering
def function(
    f: Callable[..., Any] | None = None,
    /,
    *,
    strict: bool = True,
    limit: int = LIMIT,
    check: bool = False,
    compare: bool = True,
) -> Any:
    """Captures a function: from its third call on it runs as one program.

    The first call with arguments of new shapes, dtypes or Python values runs op by op; the second
    is recorded while it runs; later ones run the record, without Python between the kernels. What
    the function does besides computing is part of the program: reads and writes of variables,
    optimizer steps, random numbers, metrics. `docs/capture.md` says what is not.

    Args:
        f: a function, a method, or an object with `__call__`, such as a model.
        strict: whether a function that looks at values raises; otherwise it runs op by op, with a
            warning.
        limit: how many programs it has at most. Calls in other ways, such as with tensors of
            further shapes, run op by op.
        check: whether each call also runs op by op, and compares the bits of results, variables,
            the state of optimizers and metrics, and generators. It finds what no program can see.
        compare: whether each run compares what the function has read besides its arguments, and
            makes another program where that has changed. Without it, all but arguments, variables
            and tensors is a constant of the program, as in JAX: for functions that read a lot, such
            as the objects of another library, whose owner makes a new function when they change.

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
        CaptureError: with `check`, for a call whose program has other bits.
        InputTypeError: for something that cannot be called, and a limit that is not an int.
        InputValueError: for a limit below 1.
    """
    if type(limit) is not int:
        raise errors.InputTypeError(f"limit is {limit!r}; write an int, such as limit=16")
    if limit < 1:
        raise errors.InputValueError(f"limit is {limit}; a captured function has 1 program or more")
    options = Options(strict, limit, check, compare)
    capture = functools.partial(function, **options._asdict())
    if f is None:
        return capture
    if isinstance(f, (staticmethod, classmethod)):
        return type(f)(capture(f.__func__))
    if not callable(f):
        raise errors.InputTypeError(
            f"pb.function captures a function, got {type(f).__name__}; write pb.function(f)"
        )
    return f if isinstance(f, Function) else Function(f, options)
