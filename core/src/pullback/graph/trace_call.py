"""Traces one call of a captured function, and makes its program; calls that are checked."""

from __future__ import annotations

import copy
import gc
import itertools
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import nullcontext, suppress
from functools import partial
from types import FunctionType, MethodType
from typing import Any

import numpy as np

from pullback import errors
from pullback._dispatch.convert import from_any
from pullback._dispatch.host_state import HostState
from pullback._dispatch.recording import may_record
from pullback._symbols import Apart, Break, Late
from pullback._tree import leaves as leaves_of
from pullback.devices import Device
from pullback.graph.capture import Capture
from pullback.graph.host import (
    Guard,
    contents,
    has_drawn,
    is_foreign_array,
    replace,
    same,
    set_state,
)
from pullback.graph.joint import JointTape, differentiated
from pullback.graph.program import ARGUMENT, Program
from pullback.graph.signature import Part, Signature, changed, device_of, refilled
from pullback.graph.watch import Watch
from pullback.tensor import Tensor

_NUMBERS = itertools.count()
#: How often a function is traced until all of its code is seen: where something else has set
#: `sys.settrace` meanwhile, once more.
_TRIES = 4


def traced(
    f: Callable[..., Any],
    name: str,
    signature: Signature,
    *,
    commit: bool,
    outside: Any = None,
    seen: Callable[[Capture, list[Any]], None] | None = None,
    compares: bool = True,
) -> tuple[Any, Program]:
    """Runs a function in a trace, and makes a program of it.

    Where instructions have run unseen, all is taken back and the function runs once more.

    Args:
        f: the function.
        name: its name, for messages.
        signature: the arguments.
        commit: whether the function's effects are those of a call; else they are undone.
        outside: the tape outside that records the call.
        seen: gets the capture, and the lists and dicts that the call changes, before it does.
        compares: whether the program compares what the function has read besides its arguments.

    Returns:
        The result of the function, and the program.

    Raises:
        Break: if the function does what a program cannot do.
        Late: for an error that comes when the function has returned.
    """
    with _UNCOLLECTED:
        for _ in range(_TRIES):
            with suppress(_Missed):
                return _traced_once(f, name, signature, commit, outside, seen, compares)
    raise Break(
        "runs where this Python does not say what it runs",
        "capture it where no debugger and no other tool has set sys.settrace meanwhile",
    )


class _Uncollected:
    """Blocks in which no garbage is collected: what a collection calls is no part of a function.

    Nearly all that a trace makes ends with it, without a collection. Where one waits for another
    rank, others go on meanwhile: the last one that ends has collections come again.
    """

    def __init__(self) -> None:
        self._count = 0
        self._collected = False

    def __enter__(self) -> None:
        if not self._count:
            self._collected = gc.isenabled()
        self._count += 1
        gc.disable()

    def __exit__(self, *_: object) -> None:
        self._count -= 1
        if self._collected and not self._count:
            gc.enable()


_UNCOLLECTED = _Uncollected()


class _Missed(Break):
    """Ends a trace that has not seen all that ran."""


def _traced_once(
    f: Callable[..., Any],
    name: str,
    signature: Signature,
    commit: bool,
    outside: Any,
    seen: Callable[[Capture, list[Any]], None] | None,
    compares: bool,
) -> tuple[Any, Program]:
    leaves = signature.leaves()
    objects = [(leaf.path, leaf.value) for leaf in leaves if leaf.kind == "object"]
    for path, value in objects:
        if is_foreign_array(type(value)):
            raise Break(
                f"gets the array {path} of another library, whose values may change",
                f"pass pb.asarray({path})",
            )
    capture = Capture(device_of(signature), name)
    capture.trace.traced = None if outside is None else []
    places = capture.places
    if isinstance(f, MethodType):
        places.register(f.__self__, "self")
    places.register(f, name)
    for path, value in objects:
        places.register(value, path)
    watch = Watch(places)
    following = watch if compares else nullcontext()
    names: list[str] = []
    handles: list[tuple[Tensor, Any]] = []
    tracked: list[tuple[Part, Tensor, Any]] = []
    derivative = None

    def fill(leaf: Part) -> Any:
        if leaf.kind == "number":
            number = capture.number(ARGUMENT, leaf.value)
            names.append(number.name)
            return number
        if leaf.kind not in ("tensor", "array"):
            return leaf.value
        tensor = from_any(leaf.value, None, None if leaf.kind == "tensor" else device)
        capture.traced_device(tensor._device)
        value = f"x{len(names)}"
        names.append(value)
        handle = capture.trace.argument(tensor._array, value)
        handles.append((handle, handle._array))
        if leaf.kind == "tensor" and may_record(leaf.value._node):
            tracked.append((leaf, handle, handle._array))
        return handle

    device = capture.real_device
    try:
        args, kwargs = signature.filled(fill)
        containers = signature.containers(args, kwargs)
        for part, value in zip(signature.parts, (*args, *kwargs.values()), strict=True):
            places.lend(value, part.path)
        with capture.running():
            if not isinstance(f, (FunctionType, MethodType)):
                places.called(f, [*args], [*kwargs.values()])
            if outside is None:
                with following:
                    result = f(*args, **kwargs)
                changes = changed(containers)
            else:
                tape = JointTape(outside)
                with tape:
                    tape.watch([handle for _, handle, _ in tracked])
                    with following:
                        result = f(*args, **kwargs)
                changes = changed(containers)
                # A custom gradient runs the user's code.
                with following if capture.custom else nullcontext():
                    derivative = differentiated(
                        capture, tape, tracked, [result, *(value for _, value in changes)]
                    )
        if watch.missed:
            raise _Missed("has run unseen")
        if capture.trace.broken is not None:
            raise capture.trace.broken
        for handle, array in handles:
            if handle._array is not array:
                raise Break(
                    "assigns parts of an argument",
                    "copy it in the function (x = pb.asarray(x, copy=True)), return the copy",
                )
        found = [*places.guards, *capture.guards.values()]
        _check_changes(changes, containers, found)
        program = Program(
            signature,
            _settled(found, capture.device),
            capture,
            [result, *(value for _, value in changes)],
            [part.path for part, _ in changes],
            names,
            derivative,
        )
        program.number = next(_NUMBERS)
    except BaseException as error:
        capture.undo()
        if isinstance(error, Break) or any(leaf.kind == "number" for leaf in leaves):
            places.take_back()  # the function runs once more, or the call has failed
        capture.forget()
        if watch.missed and isinstance(error, Break):
            raise _Missed("has run unseen") from error
        raise
    try:
        if commit:
            if seen is not None:
                seen(capture, [part.value for part, _ in changes])
            result = _outside(capture, result)
            for part, value in changes:
                replace(part.value, _outside(capture, value))
            capture.commit()
        else:
            capture.undo()
        program.overwrites, program.outer = places.changed, [*places.outer]
        if not commit and (outside is None or program.overwrites):
            places.take_back()
    except Exception as error:
        # Such as that of a wrong label, which comes when the step has been taken.
        raise Late(error) from None
    finally:
        capture.forget()
    if program.overwrites and outside is not None:
        raise Apart(f"changes {', '.join(program.overwrites)}")
    if derivative is not None:
        derivative.asleep.release()
    return result, program


def _settled(
    guards: Iterable[Guard],
    device: Device,
) -> list[Guard]:
    """Sorts the guards of a trace that has ended.

    Args:
        guards: those of the function, with the values that it read.
        device: the device of the trace.

    Returns:
        What each run compares.

    Raises:
        Break: if the function has put a tensor of the trace where it read one, or has drawn from a
            generator that is not the framework's.
    """
    found: list[Guard] = []
    kept = None
    for guard in guards:
        if guard.function is has_drawn:
            if not guard.holds():
                set_state(*guard.arguments)
                raise Break(
                    f"draws random numbers from {guard.what}",
                    "draw with pb.random or a pb.Generator, or pass the numbers as arguments",
                )
            continue
        if not guard.holds():
            try:
                now = guard.function(*guard.arguments)
            except Exception:  # such as an attribute that the function has deleted
                now = None
            parts = now if guard.function is contents else (now,)
            if any(type(part) is Tensor and part._device is device for part in parts):
                kept = guard.what
        found.append(guard)
    if kept is not None:
        raise Break(
            f"keeps a tensor in {kept}, and reads it at the next call",
            "make a pb.Variable before the call, and assign the tensor to it",
        )
    return found


def _check_changes(
    changes: list[tuple[Part, Any]],
    containers: list[tuple[Part, Any, tuple[Any, ...]]],
    guards: list[Guard],
) -> None:
    """Checks that what the function changes is in one place.

    Raises:
        Break: if a list or dict is given twice, or is read from outside as well.
    """
    given = [id(part.value) for part, _, _ in containers]
    read = {id(guard.arguments[0]) for guard in guards if guard.arguments}
    for part, _ in changes:
        if given.count(id(part.value)) > 1 or id(part.value) in read:
            raise Break(
                f"changes its argument {part.path}, which it also has from elsewhere",
                "pass it once, or a copy, or return the new values",
            )


def _outside(capture: Capture, value: object) -> Any:
    """Returns what the traced function returned, with the tensors and numbers of this call."""
    if isinstance(value, dict):
        return refilled(value, [_outside(capture, item) for item in value.values()])
    if isinstance(value, (list, tuple)):
        return refilled(value, [_outside(capture, item) for item in value])
    if type(value) is Tensor:
        return capture.outside(capture.lift(value))
    return capture.outside(value)


# Calls that are compared with the function op by op -----------------------------------------------


class Expected:
    """The results and the state that a call has op by op; what it changes is taken back.

    Args:
        f: the function.
        name: its name, for messages.
        signature: the arguments.
        compares: as `traced` takes it.
    """

    def __init__(
        self, f: Callable[..., Any], name: str, signature: Signature, compares: bool
    ) -> None:
        self._name = name
        #: A name, what reads a state, and what puts its value of before the call back.
        self._places: list[tuple[str, Callable[[], Any], Callable[[], object]]] = []
        #: False for a call that fails: the call itself says why.
        self.is_known = True
        try:
            result, _ = traced(f, name, signature, commit=True, seen=self._see, compares=compares)
            self._results = [_bits(leaf) for leaf in leaves_of(result)]
            self._after = [read() for _, read, _ in self._places]
        except (Break, Late, Exception):
            self.is_known = False
        for _, _, put_back in self._places:
            put_back()

    def _see(self, capture: Capture, containers: list[Any]) -> None:
        places = capture.places
        self._places.append(("what is outside", lambda: None, places.take_back))
        for held in capture.written:
            variable = held.place
            name = f"the variable {variable.name!r}" if variable.name else "a variable"
            array = variable._array
            put_back = partial(setattr, variable, "_array", array)
            self._places.append((name, partial(_value_of, variable), put_back))
        for state in capture.states:
            put_back = partial(setattr, state, "value", copy.copy(state.value))
            self._places.append((state.name, partial(_value_of, state), put_back))
        owners = [getattr(function, "__self__", None) for function, _ in capture.in_order]
        for owner in {id(owner): owner for owner in owners if hasattr(owner, "__dict__")}.values():
            kept = {name: _copied(value) for name, value in vars(owner).items()}
            read = partial(_attributes_of, owner)
            put_back = partial(vars(owner).update, kept)
            self._places.append((f"the state of {type(owner).__name__}", read, put_back))
        for generator, before in capture.drawn_from:
            read, put_back = partial(getattr, generator, "state"), partial(_set, generator, before)
            self._places.append(("the state of a generator", read, put_back))
        for container in containers:
            items = copy.copy(container)
            put_back = partial(replace, container, items)
            self._places.append(("an argument", partial(_items_of, container), put_back))

    def check(self, result: Any) -> None:
        """Compares a call with what it is op by op.

        Raises:
            CaptureError: for results or state of other bits.
        """
        differs = [*self._differences(result)]
        if differs:
            raise errors.CaptureError(
                f"{self._name} as a program differs from {self._name} op by op in "
                f"{', '.join(differs)}: it reads something that no program can see, or the program "
                f"is wrong; pass what changes as an argument, or report this with the function"
            )

    def _differences(self, result: Any) -> Iterator[str]:
        found = [_bits(leaf) for leaf in leaves_of(result)]
        if len(found) != len(self._results):
            yield "the structure of its result"
        elif not all(map(same, found, self._results)):
            yield "its result"
        for (name, read, _), value in zip(self._places, self._after, strict=True):
            if not same(read(), value):
                yield name


def _bits(value: Any) -> Any:
    """Returns what is compared of a value: of a tensor its shape, dtype and memory."""
    if isinstance(value, Tensor):
        return value.shape, value.dtype.name, np.asarray(value.numpy()).tobytes()
    if isinstance(value, np.ndarray):
        return value.shape, value.dtype.name, value.tobytes()
    if isinstance(value, HostState):
        return _bits(value.value)
    if type(value) in (list, tuple, dict):
        return tuple(map(_bits, contents(value)))
    return value


def _copied(value: Any) -> Any:
    return copy.copy(value) if type(value) in (list, dict, set) else value


def _value_of(place: Any) -> Any:
    return _bits(place.value)


def _attributes_of(owner: object) -> Any:
    return _bits(vars(owner))


def _items_of(container: Collection[Any]) -> Any:
    return tuple(map(_bits, contents(container)))


def _set(generator: Any, state: object) -> None:
    generator.state = state
