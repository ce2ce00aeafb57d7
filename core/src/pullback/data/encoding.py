"""Elements as bytes: the structure as JSON, then the arrays as they are in memory."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from pullback import dtypes, errors
from pullback.data.elements import Element, as_arrays
from pullback.strings import StringTensor


def encode(element: Element) -> bytes:
    """An element as bytes. Named tuples become plain ones.

    Raises:
        ConversionError: for keys that are no strings.
    """
    buffers: list[bytes] = []
    structure = json.dumps(_describe(as_arrays(element), buffers)).encode()
    return b"".join([len(structure).to_bytes(8, "little"), structure, *buffers])


def decode(data: bytes) -> Element:
    """The element that `encode` made the bytes of."""
    begin = 8 + int.from_bytes(data[:8], "little")
    return _build(json.loads(data[8:begin]), data, [begin])


def _describe(value: Any, buffers: list[bytes]) -> Any:
    if isinstance(value, dict):
        if any(type(key) is not str for key in value):
            raise errors.ConversionError(f"keys of elements are strings, got {list(value)}")
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


def _build(said: Any, data: bytes, at: list[int]) -> Element:
    """The value that a description is of; `at` is where its bytes begin, and moves on."""
    if "dict" in said:
        return {key: _build(item, data, at) for key, item in said["dict"]}
    if "list" in said:
        return [_build(item, data, at) for item in said["list"]]
    if "tuple" in said:
        return tuple([_build(item, data, at) for item in said["tuple"]])
    if "value" in said:
        return said["value"]
    begin = at[0]
    if "bytes" in said:
        at[0] += said["bytes"]
        return data[begin : at[0]]
    if "strings" in said:
        flat = np.empty(len(said["items"]), dtype=object)
        flat[:] = [_build(item, data, at) for item in said["items"]]
        return StringTensor(flat.reshape(said["strings"]))
    array = np.ndarray(said["shape"], dtypes.as_dtype(said["array"]), data, begin)
    at[0] += array.nbytes
    return array
