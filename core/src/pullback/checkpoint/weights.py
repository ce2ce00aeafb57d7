"""Weights as plain safetensors files, as other projects write and read them.

A file of weights has arrays by name and nothing more. Which of them belongs to which variable is
said by `names`; where several files make one set, `model.safetensors.index.json` says which name
is in which, as Hugging Face's libraries write it.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pullback import dtypes, errors
from pullback.checkpoint.encoding import SAFETENSORS, Array
from pullback.checkpoint.names import opened
from pullback.state.objects import named_variables
from pullback.variable import Variable

__all__ = ["Loaded", "load_weights", "save_weights"]

_FILE = "model.safetensors"
_INDEX = ".index.json"

#: The name of a weight for the path of a variable; None for one that is left out.
Names = Mapping[str, str | None] | Callable[[str], str | None]

#: A weight as it is to be, from the path of the variable and the weight as it is in the file.
Convert = Callable[[str, Array], Array]


class Loaded(NamedTuple):
    """What came of `load_weights`, by path and name."""

    #: The paths of the variables that have been set.
    loaded: tuple[str, ...]
    #: The paths of those for which there is no weight, each with the name that was looked for.
    missing: tuple[str, ...]
    #: The names of the weights that no variable took.
    unexpected: tuple[str, ...]


def load_weights(
    model: Any,
    path: str | os.PathLike[str],
    *,
    names: Names | None = None,
    convert: Convert | None = None,
    strict: bool = True,
) -> Loaded:
    """Sets the variables of a model from safetensors files of any project.

    Floating-point weights are converted to the dtypes of the variables.

    Args:
        model: anything that holds variables; a model has them after its first call.
        path: a file, the index of several, or a folder with "model.safetensors" or its index.
        names: the name of the weight for the path of a variable, as a function or a dict; None
            for a path leaves its variable as it is. Those that a dict does not have, or all, are
            named by their paths with dots for slashes.
        convert: what becomes of a weight before it is compared with its variable; gets the path
            and a NumPy array. Most projects have the matrices of dense layers the other way
            round: `lambda path, x: x.T if path.endswith("kernel") and x.ndim == 2 else x`.
        strict: whether it is an error that something is missing or unexpected.

    >>> import tempfile
    >>> model = pb.Sequential([pb.layers.Dense(2, input_shape=(3,))])
    >>> path = tempfile.mkdtemp() + "/other.safetensors"
    >>> names = {"layers/0/kernel": "fc.weight", "layers/0/bias": "fc.bias"}
    >>> pb.checkpoint.save_weights(model, path, names=names)
    >>> pb.checkpoint.load_weights(model, path, names=names).loaded
    ('layers/0/kernel', 'layers/0/bias')

    Raises:
        CheckpointError: for a file that is missing or damaged, shapes that differ, and, if
            strict, weights that are missing or unexpected; lists all of them. Nothing is changed
            then.
    """
    variables = _variables(model)
    wanted = _named(variables, names)
    values: dict[str, Array] = {}
    wrong = []
    with contextlib.ExitStack() as stack:
        there = _open(Path(path), stack)
        for place, name in wanted.items():
            if name not in there:
                continue
            array = _get(there[name], name)
            if convert is not None:
                array = np.asarray(convert(place, array))
            fault = _misfit(array, variables[place])
            if fault:
                wrong.append(f"{place} is {_kind(variables[place])}, {name!r} {fault}")
            else:
                values[place] = array.astype(variables[place].dtype)
        missing = tuple(f"{p} ({n!r})" for p, n in wanted.items() if n not in there)
        unexpected = tuple(sorted(set(there) - set(wanted.values())))
    faults = [f"these do not fit: {'; '.join(wrong)}"] if wrong else []
    if strict and missing:
        faults.append(f"there are no weights for {', '.join(missing)}")
    if strict and unexpected:
        faults.append(f"nothing takes its {', '.join(map(repr, unexpected))}")
    if faults:
        remedy = "say with convert how its arrays are turned" if wrong else (
            "say with names what belongs together, call the model once if it lacks variables, or "
            "take what matches with strict=False"
        )  # fmt: skip
        raise errors.CheckpointError(f"{os.fspath(path)}: {'; and '.join(faults)}; {remedy}")
    for place, array in values.items():
        variables[place].assign(array)
    return Loaded(tuple(values), missing, unexpected)


def save_weights(
    model: Any,
    path: str | os.PathLike[str],
    *,
    names: Names | None = None,
    convert: Convert | None = None,
    max_bytes: int | None = None,
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Writes the variables of a model as safetensors, for other projects to read.

    Args:
        model: anything that holds variables.
        path: the file, which appears when it is whole. With several, those are beside it, and
            "<path>.index.json" says what is where.
        names: as for `load_weights`.
        convert: what becomes of the array of a variable before it is written.
        max_bytes: the size beyond which weights are put into several files.
        metadata: what the files say of themselves; some projects want {"format": "pt"}.

    Raises:
        CheckpointError: for a model without variables, two of one name, a dtype that safetensors
            has not, and when the file system does not take a file.
    """
    path = Path(path)
    index = path.with_name(path.name + _INDEX)
    variables = _variables(model)
    arrays: dict[str, Array] = {}
    for place, name in _named(variables, names).items():
        if name in arrays:
            raise errors.CheckpointError(f"{name!r} is the name of {place} and of another variable")
        array = variables[place].numpy()
        if convert is not None:
            array = np.asarray(convert(place, array))
        if array.dtype not in SAFETENSORS.values():
            raise errors.CheckpointError(
                f"{place} is {array.dtype}, which safetensors has not; say with convert what it "
                f"is to be, or leave it out: names={{{place!r}: None}}"
            )
        arrays[name] = np.asarray(array, order="C")
    parts = list(_parts(arrays, max_bytes))
    if len(parts) == 1:
        _write(path, parts[0], metadata)
        _remove(index)
        return
    where = {}
    for number, part in enumerate(parts, 1):
        file = path.with_name(f"{path.stem}-{number:05}-of-{len(parts):05}{path.suffix}")
        _write(file, part, metadata)
        where.update(dict.fromkeys(part, file.name))
    total = sum(array.nbytes for array in arrays.values())
    said = {"metadata": {"total_size": total}, "weight_map": where}
    _replace(index, json.dumps(said, indent=2).encode())
    _remove(path)


def _variables(model: Any) -> dict[str, Variable]:
    found = named_variables(model)
    if not found:
        raise errors.CheckpointError(
            f"{type(model).__name__} has no variables; call the model once to make them"
        )
    return found


def _named(variables: Mapping[str, Variable], names: Names | None) -> dict[str, str]:
    """The name of the weight for each path; those that are left out are not there.

    Raises:
        CheckpointError: for a path in `names` that no variable has.
    """
    given: Mapping[str, str | None]
    dots = {place: place.replace("/", ".") for place in variables}
    if isinstance(names, Mapping):
        unknown = [place for place in names if place not in variables]
        if unknown:
            raise errors.CheckpointError(
                f"names: there is no variable {', '.join(unknown)}; "
                f"there are {', '.join(variables)}"
            )
        given = {place: names.get(place, dotted) for place, dotted in dots.items()}
    else:
        given = dots if names is None else {place: names(place) for place in variables}
    return {place: name for place, name in given.items() if name is not None}


def _misfit(array: Array, variable: Variable) -> str | None:
    """What of a weight does not fit its variable."""
    floating = dtypes.is_floating(variable.dtype) and array.dtype in dtypes.ALL
    same = array.dtype == variable.dtype or (floating and dtypes.is_floating(array.dtype))
    if array.shape == variable.shape and same:
        return None
    return f"{array.dtype}{list(array.shape)}"


def _kind(variable: Variable) -> str:
    return f"{variable.dtype}{list(variable.shape)}"


# ---------------------------------------------------------------------------------------------
# Files.


def _open(path: Path, stack: contextlib.ExitStack) -> dict[str, Any]:
    """The open file in which each weight is, by the weight's name.

    Raises:
        CheckpointError: when files are missing or damaged.
    """
    if os.path.isdir(path):
        file = path / _FILE
        path = file if os.path.exists(file) else path / (_FILE + _INDEX)
    if not os.path.exists(path):
        index = path.with_name((path.name or _FILE) + _INDEX)
        if not os.path.exists(index):
            raise errors.CheckpointError(f"there is no file of weights {str(path)!r}")
        path = index
    if not path.name.endswith(".json"):
        file = _file(path, stack)
        return dict.fromkeys(file.keys(), file)
    try:
        with opened(path) as index_file:
            where = json.loads(index_file.read())["weight_map"]
        files = {name: path.with_name(Path(name).name) for name in set(where.values())}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise errors.CheckpointError(f"{path} is no index of weights: {error!r}") from error
    files_there = {name: _file(file, stack) for name, file in files.items()}
    held = {name: set(file.keys()) for name, file in files_there.items()}
    lacking = sorted(name for name, file in where.items() if name not in held[file])
    if lacking:
        raise errors.CheckpointError(
            f"{path}: the files lack {', '.join(map(repr, lacking[:10]))}; fetch them again"
        )
    return {name: files_there[file] for name, file in where.items()}


def _file(path: Path, stack: contextlib.ExitStack) -> Any:
    from safetensors import SafetensorError, safe_open

    if not os.path.isfile(path):
        raise errors.CheckpointError(f"there is no file of weights {str(path)!r}")
    try:
        return stack.enter_context(safe_open(path, framework="np"))
    except (SafetensorError, OSError) as error:
        raise errors.CheckpointError(
            f"{str(path)!r} is no safetensors file, or is damaged: {error}"
        ) from error


def _get(file: Any, name: str) -> Array:
    kind = file.get_slice(name).get_dtype()
    if kind not in SAFETENSORS:
        raise errors.CheckpointError(
            f"{name!r} is {kind}, which no tensor here can be; leave its variable out: names=..."
        )
    array: Array = file.get_tensor(name)
    return array


def _parts(arrays: dict[str, Array], max_bytes: int | None) -> Iterator[dict[str, Array]]:
    """The arrays in order, in parts of at most so many bytes, each of one array at least."""
    part: dict[str, Array] = {}
    size = 0
    for name, array in arrays.items():
        if part and max_bytes is not None and size + array.nbytes > max_bytes:
            yield part
            part, size = {}, 0
        part[name] = array
        size += array.nbytes
    yield part


def _write(path: Path, arrays: dict[str, Array], metadata: Mapping[str, str] | None) -> None:
    from safetensors.numpy import save

    _replace(path, save(arrays, None if metadata is None else dict(metadata)))


def _replace(path: Path, data: bytes) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            temporary.write_bytes(data)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except (OSError, ValueError) as error:
        raise errors.CheckpointError(f"{str(path)!r} could not be written: {error}") from error


def _remove(path: Path) -> None:
    """Removes what was there before, and would be taken for what has been written now."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise errors.CheckpointError(
            f"{str(path)!r} is there from before, and could not be removed: {error}; remove it"
        ) from error
