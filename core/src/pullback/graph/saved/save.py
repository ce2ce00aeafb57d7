"""Writes a program to a folder: its graph as JSON, the arrays that it reads as safetensors.

    folder/
        program.json            arguments, graph and result
        arrays.safetensors      variables, tensors from outside, and constants

Nothing in it is code.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from pullback import errors
from pullback._array_files import Array, array_bytes, describe, sealed, sync, write_file
from pullback._replacing import as_path, put, settle, temporary, tidy
from pullback._symbols import HostNumber
from pullback.graph.graph import AttributeEntry, Draw, Handle, HostArray, State
from pullback.graph.returned import ResultItems, ResultTensor
from pullback.graph.saved.data_form import JSON, CannotBeSavedError, data_of, encode
from pullback.graph.signature import Part

if TYPE_CHECKING:
    from pullback.graph.program import Program

FORMAT = "pullback program"
VERSION = 1
PROGRAM, ARRAYS = "program.json", "arrays.safetensors"


def save(program: Program, folder: str | os.PathLike[str]) -> None:
    """Writes a program to a folder, in place of an older one.

    Raises:
        CaptureError: for a program that does more than compute results from its arguments.
        CheckpointError: for errors of the file system, and a folder that holds other files.
    """
    content, arrays = content_of(program)
    content["arrays"] = {name: describe(array) for name, array in arrays.items()}
    path = as_path(folder, "folder")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        tidy(path)
        if _holds_other_files(path):
            raise errors.CheckpointError(
                f"{str(path)!r} holds other files than a saved program; choose another folder"
            )
        with temporary(path) as new:
            new.mkdir()
            write_file(new / ARRAYS, array_bytes(arrays))
            write_file(new / PROGRAM, sealed(FORMAT, VERSION, content))
            sync(new)
            put(new, path)
        sync(path.parent)
        settle(path)
    except (OSError, ValueError) as error:
        raise errors.CheckpointError(
            f"the program could not be saved to {str(path)!r}: {error}"
        ) from error


def _holds_other_files(path: Path) -> bool:
    try:
        files = os.listdir(path)
    except FileNotFoundError:
        return False
    return any(name not in (PROGRAM, ARRAYS) for name in files if not name.startswith("."))


def content_of(program: Program) -> tuple[dict[str, Any], dict[str, Array]]:
    """Returns a program as JSON, and its arrays by name.

    Raises:
        CaptureError: for a program that does more than compute results from its arguments.
    """
    changed = [guard.what for guard in program.unmet()]
    if changed:
        _reject(program, f"was made for another value of {', '.join(changed)}", "lower it again")
    if program.changes:
        names = ", ".join(program.changes)
        _reject(program, f"changes its argument {names}", "return the new values instead")
    arrays: dict[str, Array] = {}
    numbers = _check_inputs(program)
    stored = {}
    for entry in program.graph.inputs:
        name = entry.value.name
        if isinstance(entry, State):
            stored[name] = getattr(entry.owner, "name", "") or name, entry.owner._array
        elif isinstance(entry, Handle):
            stored[name] = name, entry.tensor._array
    try:
        graph = data_of(program.graph, arrays, stored)
        content = {
            "name": program.name,
            "arguments": _arguments(program, numbers),
            "graph": graph,
            "result": encode(program.result, _result_data),
        }
    except CannotBeSavedError as error:
        _reject(program, str(error), "pass and return tensors, numbers and texts")
    return content, arrays


def _reject(program: Program, reason: str, way_out: str) -> NoReturn:
    raise errors.CaptureError(f"{program.name} cannot be saved, because it {reason}; {way_out}")


def _check_inputs(program: Program) -> dict[str, list[str]]:
    """Returns the inputs of the graph that are an argument's number, by the number's name.

    Raises:
        CaptureError: for a program that is more than a function of arguments and saved arrays.
    """
    graph = program.graph
    inference = "save what only reads, such as a model called with training=False"
    if graph.writes:
        names = [_label(target) for target, _ in graph.writes[:3]]
        _reject(program, f"writes {', '.join(names)}", inference)
    if graph.after:
        _reject(program, "sets what is outside of it when it has run", inference)
    numbers: dict[str, list[str]] = {}
    for entry in graph.inputs:
        if isinstance(entry, Draw):
            _reject(
                program,
                "draws random numbers",
                "draw them outside and pass them as an argument, or call it with training=False",
            )
        if isinstance(entry, AttributeEntry):
            _reject(program, f"reads the state of {type(entry.owner).__name__}", inference)
        if isinstance(entry, HostArray):
            if entry.number not in program.arguments:
                _reject(
                    program,
                    "computes with a number that Python works out at each call",
                    "pass it as a tensor",
                )
            numbers.setdefault(entry.number, []).append(entry.value.name)
    return numbers


def _label(target: Any) -> str:
    return getattr(getattr(target, "owner", None), "name", "") or "a variable"


# ---------------------------------------------------------------------------------------------
# Arguments and results.


def _arguments(program: Program, numbers: dict[str, list[str]]) -> list[JSON]:
    """Returns the parameters with what each of them was, tensors by their names in the graph."""
    names = iter(program.arguments)

    def form(part: Part) -> Any:
        if part.kind in ("list", "tuple"):
            items = [form(item) for item in part.parts]
            return items if part.kind == "list" else tuple(items)
        if part.kind == "dict":
            keys = [name for _, name in part.form[1]]
            return dict(zip(keys, map(form, part.parts), strict=True))
        if part.kind in ("tensor", "array"):
            return _SavedTensor("tensor", next(names))
        if part.kind == "number":
            return _SavedTensor("number", numbers.get(next(names), []))
        if part.kind == "object":
            raise CannotBeSavedError(f"has the argument {part.path}, an object of {part}")
        return part.value

    signature = program.signature
    parts = [(p.path, False, p) for p in signature.positional]
    parts += [(name, True, p) for name, p in signature.named.items()]
    return [
        {"name": name, "keyword": keyword, "of": _encoded(form(part))}
        for name, keyword, part in parts
    ]


class _SavedTensor:
    """An argument that differs from call to call."""

    def __init__(self, kind: str, value: JSON) -> None:
        self.data = {"$": kind, "value": value}


def _encoded(form: object) -> JSON:
    return encode(form, lambda value: value.data if type(value) is _SavedTensor else None)


def _result_data(value: object) -> JSON | None:
    if type(value) is ResultTensor:
        return {"$": "output", "value": value.position}
    if type(value) is ResultItems:
        if isinstance(value.template, dict):
            return encode(dict(zip(value.template, value.items, strict=True)), _result_data)
        items = [encode(item, _result_data) for item in value.items]
        return items if isinstance(value.template, list) else {"$": "tuple", "value": items}
    if type(value) is HostNumber:
        raise CannotBeSavedError("returns a number that Python works out at each call")
    return None
