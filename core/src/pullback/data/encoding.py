"""Elements as bytes: the structure as JSON, then the arrays as they are in memory."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from pullback import dtypes, errors
from pullback.data.elements import Element, as_arrays
from pullback.strings import StringTensor


def encode(element: Element) -> bytes:
    """Converts an element to bytes. Named tuples become plain tuples.

    Raises:
        ConversionError: for keys that are not strings.
    """
    buffers: list[bytes] = []
    structure = json.dumps(_describe(as_arrays(element), buffers)).encode()
    return b"".join([len(structure).to_bytes(8, "little"), structure, *buffers])


def decode(data: bytes) -> Element:
    """Converts bytes from `encode` back to the element."""
    begin = 8 + int.from_bytes(data[:8], "little")
    return _build(json.loads(data[8:begin]), data, [begin])


def _describe(value: Element, buffers: list[bytes]) -> dict[str, Any]:
    if isinstance(value, dict):
        if any(type(key) is not str for key in value):
            raise errors.ConversionError(f"keys of elements must be strings, got {list(value)}")
        return {"dict": [[key, _describe(item, buffers)] for key, item in value.items()]}
    if isinstance(value, (list, tuple)):
        kind = "list" if isinstance(value, list) else "tuple"
        return {kind: [_describe(item, buffers) for item in value]}
    if value is None or isinstance(value, str):
        return {"value": value}
    if isinstance(value, bytes):
        buffers.append(value)
        return {"bytes": len(value)}
    if value.dtype.kind in "USO":
        items = [_describe(item, buffers) for item in value.reshape(-1).tolist()]
        return {"strings": list(value.shape), "items": items}
    buffers.append(np.ascontiguousarray(value).tobytes())
    return {"array": value.dtype.name, "shape": list(value.shape)}


def _build(description: dict[str, Any], data: bytes, at: list[int]) -> Element:
    """Builds a value from its description; `at` is where its bytes begin, and moves on."""
    if "dict" in description:
        return {key: _build(item, data, at) for key, item in description["dict"]}
    if "list" in description:
        return [_build(item, data, at) for item in description["list"]]
    if "tuple" in description:
        return tuple([_build(item, data, at) for item in description["tuple"]])
    if "value" in description:
        return description["value"]
    begin = at[0]
    if "bytes" in description:
        at[0] += description["bytes"]
        return data[begin : at[0]]
    if "strings" in description:
        flat = np.empty(len(description["items"]), dtype=object)
        flat[:] = [_build(item, data, at) for item in description["items"]]
        return StringTensor(flat.reshape(description["strings"]))
    array = np.ndarray(description["shape"], dtypes.as_dtype(description["array"]), data, begin)
    at[0] += array.nbytes
    return array
