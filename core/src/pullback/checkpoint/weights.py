"""Weights as plain safetensors files, which other projects write and read.

A file of weights holds arrays by name and nothing else. `names` maps variables to weights. If a
model has several files, `model.safetensors.index.json` maps names to files, as in Hugging Face's
libraries.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np

from pullback import dtypes, errors
from pullback._array_files import SAFETENSORS, Array, opened, write_file
from pullback._dispatch.arguments import as_list, as_str
from pullback._replacing import as_path, clear, temporary
from pullback.dtypes import DType
from pullback.layers.layer import Layer
from pullback.shapes import Shape
from pullback.state.objects import named_variables, walk
from pullback.variable import Variable

__all__ = ["Loaded", "load_weights", "save_weights"]

_FILE = "model.safetensors"
_INDEX = ".index.json"

#: The name of the weight for the path of a variable; None to skip the variable.
Names = Mapping[str, str | None] | Callable[[str], str | None]

#: Converts a weight, from the path of its variable and the array in the file.
Convert = Callable[[str, Array], Array]


class WeightSlice(Protocol):
    """A weight that has not been read, as safetensors gives it."""

    def get_dtype(self) -> str:
        """Returns the name of its dtype."""

    def get_shape(self) -> list[int]:
        """Returns its shape."""


class WeightFile(Protocol):
    """An open safetensors file."""

    def keys(self) -> list[str]:
        """Returns the names of the weights."""

    def metadata(self) -> Mapping[str, str] | None:
        """Returns the metadata."""

    def get_slice(self, name: str, /) -> WeightSlice:
        """Returns a weight without reading it."""

    def get_tensor(self, name: str, /) -> Array:
        """Reads a weight."""


class Loaded(NamedTuple):
    """The result of `load_weights`, by path and name."""

    #: The paths of the variables that were set.
    loaded: tuple[str, ...]
    #: The paths of the variables without a weight, each with the expected name.
    missing: tuple[str, ...]
    #: The names of the weights that no variable took.
    unexpected: tuple[str, ...]


def load_weights(
    model: object,
    path: str | os.PathLike[str],
    *,
    names: Names | None = None,
    convert: Convert | None = None,
    strict: bool = True,
    ignore: Sequence[str] = (),
) -> Loaded:
    """Sets the variables of a model from safetensors files of any project.

    Floating-point weights are converted to the dtypes of the variables. All are compared with
    their variables first, and then read and assigned one by one.

    Args:
        model: any object that holds variables; a model has them after its first call.
        path: a file, the index of several, or a folder with "model.safetensors" or its index.
        names: the name of the weight for the path of a variable, as a function or a dict; None
            for a path leaves its variable as it is. For paths that are not in the dict, and
            without `names`, it is the path with dots for slashes.
        convert: converts a weight, to compare it with its variable and again to assign it; takes
            the path and a NumPy array. Most projects have the matrices of dense layers transposed:
            `lambda path, x: x.T if path.endswith("kernel") and x.ndim == 2 else x`.
        strict: True to raise for missing or unexpected weights.
        ignore: patterns, such as "pooler.*", of names that may be missing or unexpected, and that
            are not loaded.

    >>> import tempfile
    >>> model = pb.Sequential([pb.layers.Dense(2, input_shape=(3,))])
    >>> path = tempfile.mkdtemp() + "/other.safetensors"
    >>> names = {"layers/0/kernel": "fc.weight", "layers/0/bias": "fc.bias"}
    >>> pb.checkpoint.save_weights(model, path, names=names)
    >>> pb.checkpoint.load_weights(model, path, names=names).loaded
    ('layers/0/kernel', 'layers/0/bias')

    Raises:
        CheckpointError: for layers without variables yet, a file that is missing or damaged, shapes
            that differ and, if strict, missing or unexpected weights; lists all of them. Nothing
            has been changed then.
    """
    patterns = [as_str(each, "ignore: a pattern") for each in as_list(ignore, "ignore", "patterns")]

    def is_ignored(name: str) -> bool:
        return any(fnmatchcase(name, pattern) for pattern in patterns)

    unbuilt = [path for path in _unbuilt(model) if not is_ignored(f"{path.replace('/', '.')}.")]
    if unbuilt:
        raise errors.CheckpointError(
            f"{', '.join(unbuilt)} of {type(model).__name__} have no variables before their first "
            f"call; call the model once, as in model(example), and then load the weights"
        )
    variables = _variables(model)
    wanted = {p: n for p, n in _named(variables, names).items() if not is_ignored(n)}
    wrong = []
    with contextlib.ExitStack() as stack:
        files = _open(as_path(path, "path"), stack)
        for variable_path, name in wanted.items():
            if name not in files:
                continue
            variable = variables[variable_path]
            shape, dtype = _kind_of(files[name], name)
            if convert is not None:
                array = np.asarray(convert(variable_path, files[name].get_tensor(name)))
                shape, dtype = array.shape, array.dtype
            if not _fits(shape, dtype, variable):
                kind = f"{dtype}{list(shape)}"
                wrong.append(f"{variable_path} is {_kind(variable)}, {name!r} is {kind}")
        missing = tuple(f"{p} ({n!r})" for p, n in wanted.items() if n not in files)
        left = sorted(set(files) - set(wanted.values()))
        unexpected = tuple(name for name in left if not is_ignored(name))
        _raise_for(path, wrong, missing if strict else (), unexpected if strict else ())
        loaded = tuple(p for p, name in wanted.items() if name in files)
        for variable_path in loaded:
            name = wanted[variable_path]
            array = files[name].get_tensor(name)
            if convert is not None:
                array = np.asarray(convert(variable_path, array))
            variable = variables[variable_path]
            variable.assign(array.astype(variable.dtype, copy=False))
    return Loaded(loaded, missing, unexpected)


def _raise_for(
    path: str | os.PathLike[str],
    wrong: list[str],
    missing: tuple[str, ...],
    unexpected: tuple[str, ...],
) -> None:
    """Raises for all that does not match, if anything.

    Raises:
        CheckpointError: it lists all of it.
    """
    faults = [f"these do not fit: {'; '.join(wrong)}"] if wrong else []
    if missing:
        faults.append(f"there are no weights for {', '.join(missing)}")
    if unexpected:
        faults.append(f"no variable takes its {', '.join(map(repr, unexpected))}")
    if faults:
        remedy = "pass convert to transpose or cast its arrays" if wrong else (
            "pass names to map paths to weights, ignore=['pooler.*'] for names that may be "
            "missing or unexpected, or load only what matches with strict=False"
        )  # fmt: skip
        raise errors.CheckpointError(f"{os.fspath(path)}: {'; and '.join(faults)}; {remedy}")


def save_weights(
    model: object,
    path: str | os.PathLike[str],
    *,
    names: Names | None = None,
    convert: Convert | None = None,
    max_bytes: int | None = None,
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Writes the variables of a model as safetensors, for other projects to read.

    Args:
        model: any object that holds variables.
        path: the file, which appears once it is complete. Several files are put beside it, and
            "<path>.index.json" maps names to files.
        names: as for `load_weights`.
        convert: converts the array of a variable before it is written.
        max_bytes: the size above which weights are split into several files.
        metadata: the metadata of the files; some projects expect {"format": "pt"}.

    Raises:
        CheckpointError: for a model without variables, two weights of one name, a dtype that
            safetensors lacks, and errors of the file system.
    """
    path = as_path(path, "path")
    if not path.name:
        raise errors.CheckpointError(f"path names no file, got {str(path)!r}")
    index = path.with_name(path.name + _INDEX)
    variables = _variables(model)
    arrays: dict[str, Array] = {}
    for variable_path, name in _named(variables, names).items():
        if name in arrays:
            raise errors.CheckpointError(
                f"{name!r} is the name of {variable_path} and of another "
                f"variable; let names give each its own"
            )
        array = variables[variable_path].numpy()
        if convert is not None:
            array = np.asarray(convert(variable_path, array))
        if array.dtype not in SAFETENSORS.values():
            raise errors.CheckpointError(
                f"{variable_path} is {array.dtype}, which safetensors lacks; convert it, or skip "
                f"it: names={{{variable_path!r}: None}}"
            )
        arrays[name] = np.asarray(array, order="C")
    parts = list(_parts(arrays, max_bytes))
    if len(parts) == 1:
        _write(path, parts[0], metadata)
        _remove(index)
        return
    weight_map = {}
    for number, part in enumerate(parts, 1):
        file = path.with_name(f"{path.stem}-{number:05}-of-{len(parts):05}{path.suffix}")
        _write(file, part, metadata)
        weight_map.update(dict.fromkeys(part, file.name))
    total = sum(array.nbytes for array in arrays.values())
    content = {"metadata": {"total_size": total}, "weight_map": weight_map}
    _replace(index, json.dumps(content, indent=2).encode())
    _remove(path)


def _unbuilt(model: object) -> list[str]:
    """Returns the paths of layers that make their variables at a first call still to come."""
    return [
        entry.path or type(entry.value).__name__
        for entry in walk(model)
        if entry.first is None
        and isinstance(entry.value, Layer)
        and not entry.value.built
        and type(entry.value).build is not Layer.build
    ]


def _variables(model: object) -> dict[str, Variable]:
    variables = named_variables(model)
    if not variables:
        raise errors.CheckpointError(
            f"{type(model).__name__} has no variables; call the model once to make them"
        )
    return variables


def _named(variables: Mapping[str, Variable], names: Names | None) -> dict[str, str]:
    """Returns the name of the weight for each path that is not skipped.

    Raises:
        CheckpointError: for a path in `names` that no variable has.
    """
    renamed: Mapping[str, str | None]
    dotted = {path: path.replace("/", ".") for path in variables}
    if isinstance(names, Mapping):
        unknown = [path for path in names if path not in variables]
        if unknown:
            raise errors.CheckpointError(
                f"names: there is no variable {', '.join(unknown)}; "
                f"there are {', '.join(variables)}"
            )
        renamed = {path: names.get(path, name) for path, name in dotted.items()}
    else:
        renamed = dotted if names is None else {path: names(path) for path in variables}
    return {path: name for path, name in renamed.items() if name is not None}


def _fits(shape: Shape, dtype: DType, variable: Variable) -> bool:
    """True if a weight can be assigned to a variable."""
    floating = dtypes.is_floating(variable.dtype) and dtype in dtypes.ALL
    same = dtype == variable.dtype or (floating and dtypes.is_floating(dtype))
    return shape == variable.shape and same


def _kind(variable: Variable) -> str:
    return f"{variable.dtype}{list(variable.shape)}"


# ---------------------------------------------------------------------------------------------
# Files.


def _open(path: Path, stack: contextlib.ExitStack) -> dict[str, WeightFile]:
    """Opens the files of weights, and returns the file of each weight by its name.

    Raises:
        CheckpointError: if files are missing or damaged.
    """
    if os.path.isdir(path):
        file = path / _FILE
        path = file if os.path.exists(file) else path / (_FILE + _INDEX)
    if not os.path.exists(path):
        index = path.with_name((path.name or _FILE) + _INDEX)
        if not os.path.exists(index):
            raise errors.CheckpointError(
                f"there is no file of weights {str(path)!r}; check the path"
            )
        path = index
    if not path.name.endswith(".json"):
        weights = opened_file(path, stack)
        return dict.fromkeys(weights.keys(), weights)
    try:
        with opened(path) as index_file:
            weight_map: dict[str, str] = json.loads(index_file.read())["weight_map"]
        files = {name: path.with_name(Path(name).name) for name in set(weight_map.values())}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise errors.CheckpointError(
            f"{path} is not an index of weights: {error!r}; fetch it again"
        ) from error
    opened_files = {name: opened_file(file, stack) for name, file in files.items()}
    held = {name: set(file.keys()) for name, file in opened_files.items()}
    missing = sorted(name for name, file in weight_map.items() if name not in held[file])
    if missing:
        raise errors.CheckpointError(
            f"{path}: the files lack {', '.join(map(repr, missing[:10]))}; fetch them again"
        )
    return {name: opened_files[file] for name, file in weight_map.items()}


def opened_file(path: Path, stack: contextlib.ExitStack) -> WeightFile:
    """A file of weights, which is closed with a stack.

    Raises:
        CheckpointError: if it is missing or damaged.
    """
    from safetensors import SafetensorError, safe_open

    if not os.path.isfile(path):
        raise errors.CheckpointError(f"there is no file of weights {str(path)!r}; check the path")
    try:
        file: WeightFile = stack.enter_context(safe_open(path, framework="np"))
    except (SafetensorError, OSError) as error:
        raise errors.CheckpointError(
            f"{str(path)!r} is not a safetensors file, or is damaged: {error}; fetch it again"
        ) from error
    return file


def _kind_of(file: WeightFile, name: str) -> tuple[Shape, DType]:
    """Returns the shape and the dtype of a weight that has not been read.

    Raises:
        CheckpointError: for a dtype that no tensor has.
    """
    weight = file.get_slice(name)
    kind = weight.get_dtype()
    if kind not in SAFETENSORS:
        raise errors.CheckpointError(
            f"{name!r} is {kind}, which no tensor here can be; skip its variable: "
            f"names={{path: None}}"
        )
    return tuple(weight.get_shape()), SAFETENSORS[kind]


def _parts(arrays: dict[str, Array], max_bytes: int | None) -> Iterator[dict[str, Array]]:
    """Yields the arrays in order, in parts of at most `max_bytes`, at least one array each."""
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
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        clear(path)
        with temporary(path) as new:
            write_file(new, data)
            new.replace(path)
    except (OSError, ValueError) as error:
        raise errors.CheckpointError(f"{str(path)!r} could not be written: {error}") from error


def _remove(path: Path) -> None:
    """Removes an old file that would be read in place of the new ones."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise errors.CheckpointError(
            f"the old file {str(path)!r} could not be removed: {error}; remove it manually"
        ) from error
