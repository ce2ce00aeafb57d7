"""Values as JSON, including those that JSON cannot hold directly."""

from __future__ import annotations

import math
import re
import reprlib
from collections.abc import Container, Mapping
from typing import Any, TypeAlias

import numpy as np

from pullback import dtypes, errors
from pullback._array_files import Array

#: A value as JSON holds it.
JSON: TypeAlias = Any

_NOT_FINITE = ("nan", "inf", "-inf")


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
