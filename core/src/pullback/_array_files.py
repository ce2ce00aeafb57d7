"""Files of arrays, and the JSON beside them, with checks that find damage.

Arrays are in a safetensors file; the JSON describes each and has a checksum of all it says. Nothing
in them is code. Checkpoints and saved programs are folders of the two.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, TypeAlias

import numpy as np

from pullback import dtypes
from pullback._storage_dtypes import float8_e4m3fn, float8_e5m2, int4, uint4

Array: TypeAlias = "np.ndarray[Any, Any]"

_BYTE = np.dtype("uint8")

#: The names of dtypes in a safetensors header. Complex arrays are stored as pairs of reals.
SAFETENSORS: dict[str, dtypes.DType] = {
    "BOOL": dtypes.bool_, "BF16": dtypes.bfloat16, "F16": dtypes.float16,
    "F32": dtypes.float32, "F64": dtypes.float64,
    "I8": dtypes.int8, "I16": dtypes.int16, "I32": dtypes.int32, "I64": dtypes.int64,
    "U8": dtypes.uint8, "U16": dtypes.uint16, "U32": dtypes.uint32, "U64": dtypes.uint64,
}  # fmt: skip

#: The same for files of arrays; those of four bits are stored as bytes.
_ON_FILE = {**SAFETENSORS, "F8_E4M3": float8_e4m3fn, "F8_E5M2": float8_e5m2}
_BYTES = {int4: dtypes.int8, uint4: dtypes.uint8}

_DTYPES = frozenset(dtype.name for dtype in (*dtypes.ALL, *dtypes.STORAGE))


class LaterVersion(ValueError):
    """JSON of a version later than this library's."""


# ---------------------------------------------------------------------------------------------
# Arrays.


def stored(array: Array) -> Array:
    """Converts an array to its stored form: contiguous, complex numbers as pairs of reals."""
    array = np.asarray(array, order="C")
    if array.dtype in _BYTES:
        return array.astype(_BYTES[array.dtype])
    if dtypes.is_complex(array.dtype):
        pairs = array.reshape((*array.shape, 1))
        return pairs.view(dtypes.real_of(array.dtype))
    return array


def checksum(array: Array) -> str:
    """Returns the SHA-256 of the bytes of a stored array."""
    return hashlib.sha256(array.reshape(-1).view(_BYTE).data).hexdigest()


def describe(array: Array) -> dict[str, Any]:
    """Returns the description of an array in a manifest."""
    return {
        "dtype": array.dtype.name,
        "shape": list(array.shape),
        "sha256": checksum(stored(array)),
    }


def check_description(name: str, description: object) -> None:
    """Checks that what JSON says of an array has the form of `describe`.

    Raises:
        ValueError: if it does not; names the fault.
    """
    if not name:
        raise ValueError("arrays: a name is empty")
    if not isinstance(description, dict):
        raise ValueError(f"arrays: {name!r} is not an object")
    shape = description.get("shape")
    if not isinstance(shape, list) or not all(type(n) is int and n >= 0 for n in shape):
        raise ValueError(f"arrays: {name!r} has no shape")
    if type(description.get("sha256")) is not str or type(description.get("dtype")) is not str:
        raise ValueError(f"arrays: {name!r} has no checksum or no dtype")
    if description["dtype"] not in _DTYPES:
        raise ValueError(f"arrays: {name!r} has the dtype {description['dtype']!r}")


def loaded(data: bytes, header: Mapping[str, Any], description: Mapping[str, Any]) -> Array:
    """Returns the array in `data`, checked against its description in the manifest.

    Raises:
        ValueError: if it is another array; names the difference.
    """
    dtype = dtypes.as_dtype(description["dtype"])
    shape = tuple(description["shape"])
    on_file: tuple[int, ...] = shape
    holds = _BYTES.get(dtype, dtype)
    if dtypes.is_complex(dtype):
        on_file, holds = (*shape, 2), dtypes.real_of(dtype)
    if _ON_FILE.get(header["dtype"]) != holds or tuple(header["shape"]) != on_file:
        raise ValueError(
            f"holds {header['dtype']} {tuple(header['shape'])}, the manifest says {dtype} {shape}"
        )
    array: Array = np.ndarray(on_file, holds, buffer=data)
    if checksum(array) != description["sha256"]:
        raise ValueError("its checksum is wrong")
    if dtype in _BYTES:
        return array.astype(dtype)
    return array.view(dtype).reshape(shape) if holds != dtype else array


def read_arrays(files: Sequence[Path], descriptions: Mapping[str, Any]) -> dict[str, Array]:
    """Returns the arrays of one or more files, each checked against its description.

    Raises:
        ValueError: for a file that cannot be read, or holds other arrays; names the fault.
    """
    from safetensors import SafetensorError, deserialize

    on_file = {}
    for file in files:
        try:
            with opened(file) as stream:
                data = stream.read()
            on_file.update(deserialize(data))  # type: ignore[no-untyped-call]
        except (OSError, SafetensorError) as error:
            raise ValueError(f"{file.name}: {error}") from None
    arrays = {}
    for name, description in descriptions.items():
        if name not in on_file:
            raise ValueError(
                f"{file.name} lacks {name!r}"
                if len(files) == 1
                else f"none of the {len(files)} files of arrays has {name!r}"
            )
        header = on_file[name]
        try:
            arrays[name] = loaded(header["data"], header, description)
        except (ValueError, TypeError) as error:
            raise ValueError(f"{name!r}: {error}") from None
    return arrays


def array_bytes(arrays: Mapping[str, Array]) -> bytes:
    """Returns the content of a file of arrays."""
    from safetensors.numpy import save

    data: bytes = save({name: stored(array) for name, array in arrays.items()})
    return data


# ---------------------------------------------------------------------------------------------
# JSON.


def sealed(form: str, version: int, content: dict[str, Any]) -> bytes:
    """Returns JSON that says what it is, with a checksum."""
    return json.dumps(
        {"format": form, "version": version, "sha256": _digest(content), "content": content},
        indent=1,
    ).encode()


def unsealed(data: bytes, form: str, version: int) -> dict[str, Any]:
    """Returns the content of JSON from `sealed`.

    Raises:
        LaterVersion: for JSON of a later version.
        ValueError: for anything else; names the fault.
    """
    try:
        whole = mapping(json.loads(data, parse_constant=_no_constant), "it")
        if whole.get("format") != form:
            raise ValueError(f"its format is {whole.get('format')!r}")
        its = whole.get("version")
        if type(its) is not int or its < 1:
            raise ValueError(f"its version is {its!r}")
        if its > version:
            raise LaterVersion(str(its))
        content = mapping(whole.get("content"), "its content")
        if whole.get("sha256") != _digest(content):
            raise ValueError("its checksum is wrong")
        return content
    except RecursionError as error:
        raise ValueError(str(error)) from None


def mapping(value: object, what: str) -> dict[str, Any]:
    """Returns a value of JSON that must be an object.

    Raises:
        ValueError: if it is something else.
    """
    if not isinstance(value, dict):
        raise ValueError(f"{what} is not an object")
    return value


def _digest(content: dict[str, Any]) -> str:
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


# ---------------------------------------------------------------------------------------------
# Files.


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Opens a file to read. Pipes and devices are rejected, as reading them could block."""
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    descriptor = os.open(path, flags)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        file = os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise
    with file:
        yield file


def write_file(path: Path, data: bytes) -> None:
    """Writes a file, and waits until it is on the disk."""
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def sync(folder: Path) -> None:
    """Makes the names in a folder as durable as their files."""
    # Systems that cannot open a folder need no sync.
    with suppress(PermissionError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
