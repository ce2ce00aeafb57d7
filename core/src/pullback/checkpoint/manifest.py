"""What a manifest says of a checkpoint, as JSON, and that it is what `written` makes.

Anyone can make a checksum that is right, so what is read is checked for its kinds as well.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any, NamedTuple, NoReturn

from pullback import dtypes
from pullback.checkpoint.encoding import check

FORMAT = "pullback checkpoint"
VERSION = 1

#: Times are nanoseconds since 1970, and smaller than this.
LAST = 2**64 - 1

_DTYPES = frozenset(dtype.name for dtype in dtypes.ALL)


class Contents(NamedTuple):
    """What a checkpoint holds."""

    #: Variables under their paths, and the arrays of states; tensors until they are written.
    arrays: dict[str, Any]
    #: For each object its type by path; the states; plain data; other paths of shared objects.
    objects: dict[str, str]
    aliases: dict[str, str]
    states: dict[str, Any]
    data: dict[str, Any]
    step: int | None
    #: How good it is, by whatever measure its manager was given.
    metric: float | None


class LaterVersion(ValueError):
    """A manifest of a version that is not known here."""


def written(contents: Contents, arrays: Mapping[str, Any], saved: int) -> bytes:
    """The manifest of a checkpoint.

    Args:
        contents: what it holds.
        arrays: what is said of each array.
        saved: when it is saved.
    """
    content: dict[str, Any] = {
        "saved": saved,
        "step": contents.step,
        "objects": contents.objects,
        "aliases": contents.aliases,
        "states": contents.states,
        "data": contents.data,
        "arrays": dict(arrays),
    }
    if contents.metric is not None:
        # JSON has no form for infinity and for what is no number.
        finite = math.isfinite(contents.metric)
        content["metric"] = contents.metric if finite else repr(contents.metric)
    manifest = {
        "format": FORMAT,
        "version": VERSION,
        "sha256": _digest(content),
        "content": content,
    }
    return json.dumps(manifest, indent=1).encode()


def parsed(data: bytes) -> dict[str, Any]:
    """The content of a manifest, in which every part is of its kind.

    Raises:
        LaterVersion: for one that a later pullback has written.
        ValueError: for what is no manifest; says why.
    """
    try:
        manifest = _mapping(json.loads(data, parse_constant=_no_constant), "it")
        if manifest.get("format") != FORMAT:
            raise ValueError(f"its format is {manifest.get('format')!r}")
        version = manifest.get("version")
        if type(version) is not int or version < 1:
            raise ValueError(f"its version is {version!r}")
        if version > VERSION:
            raise LaterVersion(str(version))
        content = _mapping(manifest.get("content"), "its content")
        if manifest.get("sha256") != _digest(content):
            raise ValueError("its checksum is not that of what was saved")
        _check(content)
        return content
    except RecursionError as error:
        raise ValueError(str(error)) from None


def time_of(data: bytes) -> int | None:
    """When a checkpoint says that it was saved; None for what is no manifest."""
    try:
        saved = json.loads(data)["content"]["saved"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return saved if _is_time(saved) else None


def measure(content: Mapping[str, Any]) -> float | None:
    """How good a checkpoint is."""
    return float(content["metric"]) if "metric" in content else None


def _digest(content: dict[str, Any]) -> str:
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


# ---------------------------------------------------------------------------------------------
# Kinds.


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _is_time(value: Any) -> bool:
    return type(value) is int and 0 <= value <= LAST


def _mapping(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{what} is no object")
    return value


def _check(content: dict[str, Any]) -> None:
    """Raises ValueError unless every part of a content is of its kind."""
    if not _is_time(content.get("saved")):
        raise ValueError("it does not say when it was saved")
    step = content.get("step", "")
    if step is not None and type(step) is not int:
        raise ValueError("its step is no integer")
    for part in ("objects", "aliases"):
        for name, value in _mapping(content.get(part), part).items():
            if not name or type(value) is not str or not value:
                raise ValueError(f"{part}: {name!r} is no path, or has no string")
    arrays = _mapping(content.get("arrays"), "arrays")
    for name, said in arrays.items():
        _check_array(name, said)
    for part in ("states", "data"):
        for name, value in _mapping(content.get(part), part).items():
            try:
                if part == "states" and not _is_encoded_dict(value):
                    raise ValueError("it is no state")
                check(value, arrays)
            except ValueError as error:
                raise ValueError(f"{part}: {name!r}: {error}") from None
    metric = content.get("metric", 0)
    finite = type(metric) in (int, float) and abs(metric) < math.inf and _as_float(metric)
    if not finite and metric not in ("nan", "inf", "-inf"):
        raise ValueError("its metric is no number")


def _as_float(value: float) -> bool:
    try:
        float(value)
    except OverflowError:
        return False
    return True


def _is_encoded_dict(value: Any) -> bool:
    return isinstance(value, dict) and value.get("$") == "dict"


def _check_array(name: str, said: Any) -> None:
    if not name:
        raise ValueError("arrays: one has no name")
    said = _mapping(said, f"arrays: {name!r}")
    shape = said.get("shape")
    if not isinstance(shape, list) or not all(type(n) is int and n >= 0 for n in shape):
        raise ValueError(f"arrays: {name!r} has no shape")
    if type(said.get("sha256")) is not str or type(said.get("dtype")) is not str:
        raise ValueError(f"arrays: {name!r} has no checksum or no dtype")
    if said["dtype"] not in _DTYPES:
        raise ValueError(f"arrays: {name!r} has the dtype {said['dtype']!r}")
