"""Values as JSON and as bytes: what of them JSON or safetensors has no form for gets one here."""

from __future__ import annotations

import hashlib
import math
import re
import reprlib
from collections.abc import Container, Mapping
from typing import Any, TypeAlias

import numpy as np

from pullback import dtypes, errors

Array: TypeAlias = "np.ndarray[Any, Any]"

_BYTE = np.dtype("uint8")
_NOT_FINITE = ("nan", "inf", "-inf")

#: The names of dtypes in a safetensors header. Complex arrays are stored as pairs of reals.
SAFETENSORS: dict[str, dtypes.DType] = {
    "BOOL": dtypes.bool_, "BF16": dtypes.bfloat16, "F16": dtypes.float16,
    "F32": dtypes.float32, "F64": dtypes.float64,
    "I8": dtypes.int8, "I16": dtypes.int16, "I32": dtypes.int32, "I64": dtypes.int64,
    "U8": dtypes.uint8, "U16": dtypes.uint16, "U32": dtypes.uint32, "U64": dtypes.uint64,
}  # fmt: skip


def stored(array: Array) -> Array:
    """The array as it is stored: contiguous, complex numbers as pairs of reals."""
    array = np.asarray(array, order="C")
    if dtypes.is_complex(array.dtype):
        pairs = array.reshape((*array.shape, 1))
        return pairs.view(dtypes.real_of(array.dtype))
    return array


def checksum(array: Array) -> str:
    """The SHA-256 of the bytes of a stored array."""
    return hashlib.sha256(array.reshape(-1).view(_BYTE).data).hexdigest()


def describe(array: Array) -> dict[str, Any]:
    """What a manifest says of an array."""
    return {
        "dtype": array.dtype.name,
        "shape": list(array.shape),
        "sha256": checksum(stored(array)),
    }


def loaded(data: Any, header: Mapping[str, Any], said: Mapping[str, Any]) -> Array:
    """The array in `data`, checked against what the manifest says of it.

    Raises:
        ValueError: when it is not that array; says what differs.
    """
    dtype = dtypes.as_dtype(said["dtype"])
    shape = tuple(said["shape"])
    on_file: tuple[int, ...] = shape
    holds = dtype
    if dtypes.is_complex(dtype):
        on_file, holds = (*shape, 2), dtypes.real_of(dtype)
    if SAFETENSORS.get(header["dtype"]) != holds or tuple(header["shape"]) != on_file:
        raise ValueError(
            f"holds {header['dtype']} {tuple(header['shape'])}, the manifest says {dtype} {shape}"
        )
    array: Array = np.ndarray(on_file, holds, buffer=data)
    if checksum(array) != said["sha256"]:
        raise ValueError("its checksum is not that of what was saved")
    return array.view(dtype).reshape(shape) if holds != dtype else array


# ---------------------------------------------------------------------------------------------
# Plain data.


def is_data(value: Any) -> bool:
    """Whether a value is a number, a string, None, or made of them by lists, tuples and dicts."""
    if isinstance(value, (list, tuple)):
        return all(is_data(item) for item in value)
    if isinstance(value, dict):
        return all(type(key) is str and is_data(item) for key, item in value.items())
    return value is None or isinstance(value, (bool, int, float, str))


def encode(value: Any, arrays: dict[str, Array], what: str) -> Any:
    """A value as JSON; arrays in it are put into `arrays`.

    Raises:
        CheckpointError: for a value that has no such form; `what` says whose it is.
    """
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {"$": "float", "value": repr(float(value))}
    if isinstance(value, (bytes, bytearray)):
        return {"$": "bytes", "value": value.hex()}
    if isinstance(value, (list, tuple)):
        return [encode(item, arrays, what) for item in value]
    if isinstance(value, Mapping):
        return {
            "$": "dict",
            "value": {_key(key, what): encode(item, arrays, what) for key, item in value.items()},
        }
    if hasattr(type(value), "__array__"):
        # A copy, unless it cannot be written to: the state may be saved later, in another thread.
        array = np.array(value) if isinstance(value, np.ndarray) else np.asarray(value)
        if array.dtype in dtypes.ALL:
            # No path begins with a colon, since those begin with the name of an attribute.
            name = f":{len(arrays)}"
            arrays[name] = array
            return {"$": "array", "value": name}
    raise errors.CheckpointError(
        f"{what} holds {type(value).__name__}, which is no number, string or array; "
        f"leave it out of checkpoint_state(), or give its parts"
    )


def _key(key: Any, what: str) -> str:
    if type(key) is not str:
        raise errors.CheckpointError(f"{what} has the key {key!r}; keys of a state are strings")
    return key


def check(value: Any, arrays: Container[str]) -> None:
    """Sees that a value is what `encode` gives.

    Args:
        value: the value, as it is read from JSON.
        arrays: the names of the arrays that it may refer to.

    Raises:
        ValueError: when it is not; says what is wrong.
    """
    left = [value]
    while left:
        value = left.pop()
        if isinstance(value, list):
            left += value
        elif isinstance(value, dict):
            kind: Any = value.get("$")
            held: Any = value.get("value")
            if len(value) != 2 or not _fits(kind, held, arrays):
                raise ValueError(f"it holds {_shortened(value)}, which no state is saved as")
            if kind == "dict":
                left += held.values()
        elif isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"it holds {value}, which is no JSON")


def _fits(kind: Any, held: Any, arrays: Container[str]) -> bool:
    if kind == "dict":
        return isinstance(held, dict)
    if not isinstance(held, str):
        return False
    if kind == "bytes":
        return re.fullmatch("(?:[0-9a-f]{2})*", held) is not None
    return held in _NOT_FINITE if kind == "float" else kind == "array" and held in arrays


def _shortened(value: Any) -> str:
    return reprlib.Repr().repr(value)


def decode(value: Any, arrays: Mapping[str, Array]) -> Any:
    """What `encode` made JSON of; tuples come back as lists.

    Raises:
        CheckpointError: for what is nested more deeply than calls may be.
    """
    try:
        return _decoded(value, arrays)
    except RecursionError:
        raise errors.CheckpointError(
            "the checkpoint holds lists or dicts that are nested too deeply to be read; "
            "sys.setrecursionlimit() allows more"
        ) from None


def _decoded(value: Any, arrays: Mapping[str, Array]) -> Any:
    if isinstance(value, list):
        return [_decoded(item, arrays) for item in value]
    if not isinstance(value, dict):
        return value
    match value["$"]:
        case "float":
            return float(value["value"])
        case "bytes":
            return bytes.fromhex(value["value"])
        case "array":
            return arrays[value["value"]]
    return {key: _decoded(item, arrays) for key, item in value["value"].items()}
