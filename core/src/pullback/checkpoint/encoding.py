"""Values as JSON and as bytes, including those that JSON or safetensors cannot hold directly."""

from __future__ import annotations

import hashlib
import math
import re
import reprlib
from collections.abc import Container, Mapping
from typing import Any, TypeAlias

import numpy as np

from pullback import dtypes, errors
from pullback._storage_dtypes import float8_e4m3fn, float8_e5m2, int4, uint4

Array: TypeAlias = "np.ndarray[Any, Any]"
#: A value as JSON holds it.
JSON: TypeAlias = Any

_BYTE = np.dtype("uint8")
_NOT_FINITE = ("nan", "inf", "-inf")

#: The names of dtypes in a safetensors header. Complex arrays are stored as pairs of reals.
SAFETENSORS: dict[str, dtypes.DType] = {
    "BOOL": dtypes.bool_, "BF16": dtypes.bfloat16, "F16": dtypes.float16,
    "F32": dtypes.float32, "F64": dtypes.float64,
    "I8": dtypes.int8, "I16": dtypes.int16, "I32": dtypes.int32, "I64": dtypes.int64,
    "U8": dtypes.uint8, "U16": dtypes.uint16, "U32": dtypes.uint32, "U64": dtypes.uint64,
}  # fmt: skip


#: The same for arrays of checkpoints; those of four bits are stored as bytes.
_IN_CHECKPOINTS = {
    **SAFETENSORS, "F8_E4M3": float8_e4m3fn, "F8_E5M2": float8_e5m2,
}  # fmt: skip
_BYTES = {int4: dtypes.int8, uint4: dtypes.uint8}


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
    if _IN_CHECKPOINTS.get(header["dtype"]) != holds or tuple(header["shape"]) != on_file:
        raise ValueError(
            f"holds {header['dtype']} {tuple(header['shape'])}, the manifest says {dtype} {shape}"
        )
    array: Array = np.ndarray(on_file, holds, buffer=data)
    if checksum(array) != description["sha256"]:
        raise ValueError("its checksum is wrong")
    if dtype in _BYTES:
        return array.astype(dtype)
    return array.view(dtype).reshape(shape) if holds != dtype else array


# ---------------------------------------------------------------------------------------------
# Plain data.


def is_data(value: object) -> bool:
    """True for numbers, strings, None, and lists, tuples and dicts of them."""
    if isinstance(value, (list, tuple)):
        return all(is_data(item) for item in value)
    if isinstance(value, dict):
        return all(type(key) is str and is_data(item) for key, item in value.items())
    return value is None or isinstance(value, (bool, int, float, str))


def encode(value: object, arrays: dict[str, Array], owner: str) -> JSON:
    """Converts a value to JSON; arrays in it are put into `arrays`.

    Raises:
        CheckpointError: for a value that cannot be saved; names its `owner`.
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
        return [encode(item, arrays, owner) for item in value]
    if isinstance(value, Mapping):
        return {
            "$": "dict",
            "value": {_key(key, owner): encode(item, arrays, owner) for key, item in value.items()},
        }
    if hasattr(type(value), "__array__"):
        # A copy: the state may be saved later, in another thread.
        array = np.array(value) if isinstance(value, np.ndarray) else np.asarray(value)
        if array.dtype in dtypes.ALL:
            # No path begins with a colon: paths begin with the name of an attribute.
            name = f":{len(arrays)}"
            arrays[name] = array
            return {"$": "array", "value": name}
    raise errors.CheckpointError(
        f"the state of {owner} must hold numbers, strings and arrays, got "
        f"{type(value).__name__}; leave it out of checkpoint_state(), or return its parts"
    )


def _key(key: object, owner: str) -> str:
    if type(key) is not str:
        raise errors.CheckpointError(
            f"keys of the state of {owner} must be strings, got {key!r}; convert them"
        )
    return key


def check(value: JSON, arrays: Container[str]) -> None:
    """Checks that a value has the form of `encode`.

    Args:
        value: the value, from JSON.
        arrays: the names of the arrays that it may refer to.

    Raises:
        ValueError: if it does not; names the fault.
    """
    left = [value]
    while left:
        value = left.pop()
        if isinstance(value, list):
            left += value
        elif isinstance(value, dict):
            kind = value.get("$")
            held = value.get("value")
            if len(value) != 2 or not _fits(kind, held, arrays):
                raise ValueError(f"it holds {_shortened(value)}, which is not a saved state")
            if kind == "dict":
                left += value["value"].values()
        elif isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"it holds {value}, which is not JSON")


def _fits(kind: object, held: object, arrays: Container[str]) -> bool:
    if kind == "dict":
        return isinstance(held, dict)
    if not isinstance(held, str):
        return False
    if kind == "bytes":
        return re.fullmatch("(?:[0-9a-f]{2})*", held) is not None
    return held in _NOT_FINITE if kind == "float" else kind == "array" and held in arrays


def _shortened(value: object) -> str:
    return reprlib.Repr().repr(value)


def decode(value: JSON, arrays: Mapping[str, Array]) -> Any:
    """Converts JSON from `encode` back to a value; tuples become lists.

    Raises:
        CheckpointError: for values that are nested too deeply.
    """
    try:
        return _decoded(value, arrays)
    except RecursionError:
        raise errors.CheckpointError(
            "the checkpoint holds lists or dicts that are nested too deeply to be read; "
            "sys.setrecursionlimit() allows more"
        ) from None


def _decoded(value: JSON, arrays: Mapping[str, Array]) -> Any:
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
