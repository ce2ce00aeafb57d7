"""Traces one call of a captured function, and makes its program."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from types import FunctionType, MethodType
from typing import Any, cast

from pullback._dispatch.convert import from_any
from pullback._dispatch.recording import may_record
from pullback._symbols import Break, Late
from pullback.devices import Device
from pullback.graph.foreign import has_drawn, is_foreign_array, set_state
from pullback.graph.host import Guard, contents, replace
from pullback.graph.joint import JointTape, differentiated
from pullback.graph.program import ARGUMENT, Program
from pullback.graph.record import Recorder
from pullback.graph.signature import Part, Signature, changed, device_of, refilled
from pullback.graph.watch import Watch
from pullback.tensor import Tensor

_NUMBERS = itertools.count()
#: How often a function is traced until all of its code is seen: once, or twice from Python 3.12 on,
#: and once more where the second run takes another way.
_TRIES = 4


def traced(
    f: Callable[..., Any],
    name: str,
    signature: Signature,
    *,
    commit: bool,
    outside: Any = None,
    seen: Callable[[Recorder, list[Any]], None] | None = None,
) -> tuple[Any, Program]:
    """Runs a function in a trace, and makes a program of it.

    Where instructions have run unseen, all is taken back and the function runs once more.

    Args:
        f: the function.
        name: its name, for messages.
        signature: the arguments.
        commit: whether the function's effects are those of a call; else they are undone.
        outside: the tape outside that records the call.
        seen: gets the trace, and the lists and dicts that the call changes, before it does.

    Returns:
        The result of the function, and the program.

    Raises:
        Break: if the function does what a program cannot do.
        Late: for an error that comes when the function has returned.
    """
    for _ in range(_TRIES):
        try:
            return _traced_once(f, name, signature, commit, outside, seen)
        except _Missed:
            continue
    raise Break(
        "runs where this Python does not say what it runs",
        "capture it where no debugger and no other tool has set sys.settrace meanwhile",
    )


class _Missed(Break):
    """Ends a trace that has not seen all that ran."""


def _traced_once(
    f: Callable[..., Any],
    name: str,
    signature: Signature,
    commit: bool,
    outside: Any,
    seen: Callable[[Recorder, list[Any]], None] | None,
) -> tuple[Any, Program]:
    leaves = signature.leaves()
    objects = [(leaf.path, leaf.value) for leaf in leaves if leaf.kind == "object"]
    for path, value in objects:
        if is_foreign_array(type(value)):
            raise Break(
                f"gets the array {path} of another library, whose values may change",
                f"pass pb.asarray({path})",
            )
    recorder = Recorder(device_of(signature), name)
    recorder.traced = None if outside is None else []
    places = recorder.places
    if isinstance(f, MethodType):
        places.register(f.__self__, "self")
    places.register(f, name)
    for path, value in objects:
        places.register(value, path)
    watch = Watch(places)
    names: list[str] = []
    handles: list[tuple[Tensor, Any]] = []
    tracked: list[tuple[Part, Tensor, Any]] = []
    derivative = None

    def fill(leaf: Part) -> Any:
        if leaf.kind == "number":
            number = recorder.number(ARGUMENT, leaf.value)
            names.append(number.name)
            return number
        if leaf.kind not in ("tensor", "array"):
            return leaf.value
        tensor = from_any(leaf.value, None, None if leaf.kind == "tensor" else device)
        recorder.traced_device(tensor._device)
        value = f"x{len(names)}"
        names.append(value)
        handle = recorder.argument(tensor._array, value)
        handles.append((handle, handle._array))
        if leaf.kind == "tensor" and may_record(leaf.value._node):
            tracked.append((leaf, handle, handle._array))
        return handle

    device = recorder.real_device
    try:
        args, kwargs = signature.filled(fill)
        containers = signature.containers(args, kwargs)
        for part, value in zip(signature.parts, (*args, *kwargs.values()), strict=True):
            places.lend(value, part.path)
        with recorder.running():
            if not isinstance(f, (FunctionType, MethodType)):
                places.called(f, [*args], [*kwargs.values()])
            if outside is None:
                with watch:
                    result = f(*args, **kwargs)
                changes = changed(containers)
            else:
                tape = JointTape(outside)
                with tape:
                    tape.watch([handle for _, handle, _ in tracked])
                    with watch:
                        result = f(*args, **kwargs)
                changes = changed(containers)
                # A custom gradient runs the user's code.
                with watch if recorder.custom else nullcontext():
                    derivative = differentiated(
                        recorder, tape, tracked, [result, *(value for _, value in changes)]
                    )
        if watch.missed:
            raise _Missed("has run unseen")
        if recorder.broken is not None:
            raise recorder.broken
        for handle, array in handles:
            if handle._array is not array:
                raise Break(
                    "assigns parts of an argument",
                    "copy it in the function (x = pb.asarray(x, copy=True)), return the copy",
                )
        found = [*places.guards, *recorder.guards.values()]
        _check_changes(changes, containers, found)
        program = Program(
            signature,
            _settled(found, recorder.device),
            recorder,
            [result, *(value for _, value in changes)],
            [part.path for part, _ in changes],
            names,
            derivative,
        )
        program.number = next(_NUMBERS)
    except BaseException as error:
        recorder.undo()
        recorder.forget()
        if watch.missed and isinstance(error, Break):
            raise _Missed("has run unseen") from error
        raise
    try:
        if commit:
            if seen is not None:
                seen(recorder, [part.value for part, _ in changes])
            result = _outside(recorder, result)
            for part, value in changes:
                replace(part.value, _outside(recorder, value))
            recorder.commit()
        else:
            recorder.undo()
    except Exception as error:
        # Such as that of a wrong label, which comes when the step has been taken.
        raise Late(error) from None
    finally:
        recorder.forget()
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
                _put_back(guard)
                kept = guard.what
        found.append(guard)
    if kept is not None:
        raise Break(
            f"keeps a tensor in {kept}, and reads it at the next call",
            "make a pb.Variable before the call, and assign the tensor to it",
        )
    return found


def _put_back(guard: Guard) -> None:
    """Has a place hold what it held before the trace."""
    place, *name = guard.arguments
    before = cast("Any", guard.value)
    if guard.function is getattr:
        setattr(place, name[0], before)
    elif guard.function is operator.getitem:
        place[name[0]] = before
    elif guard.function is not contents:
        cast("Any", guard.function).__self__[place] = before
    else:
        is_dict = isinstance(place, dict)
        replace(place, zip(before[::2], before[1::2], strict=True) if is_dict else before)


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


def _outside(recorder: Recorder, value: object) -> Any:
    """Returns what the traced function returned, with the tensors and numbers of this call."""
    if isinstance(value, dict):
        return refilled(value, [_outside(recorder, item) for item in value.values()])
    if isinstance(value, (list, tuple)):
        return refilled(value, [_outside(recorder, item) for item in value])
    if type(value) is Tensor:
        return recorder.outside(recorder.lift(value))
    return recorder.outside(value)
