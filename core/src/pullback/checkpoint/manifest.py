"""Manifests of checkpoints as JSON, and their validation.

Anyone can write a correct checksum, so the types of a manifest are validated as well.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from pullback._array_files import check_description, mapping, sealed, unsealed
from pullback.checkpoint.encoding import JSON, check

FORMAT = "pullback checkpoint"
#: Checkpoints of a single file of arrays have the version 1, which older programs read.
VERSION = 2

#: The highest number of files of arrays.
MOST_PARTS = 99_999

#: Times are nanoseconds since 1970, and smaller than this.
LAST = 2**64 - 1


class Contents(NamedTuple):
    """The contents of a checkpoint."""

    #: Variables under their paths, and the arrays of states; tensors until they are written.
    arrays: dict[str, Any]
    #: The type of each object by path; other paths of shared objects; the states; plain data.
    objects: dict[str, str]
    aliases: dict[str, str]
    states: dict[str, JSON]
    data: dict[str, JSON]
    step: int | None
    #: The metric that it was saved with.
    metric: float | None


def written(contents: Contents, arrays: Mapping[str, Any], saved: int, parts: int) -> bytes:
    """Returns the manifest of a checkpoint.

    Args:
        contents: the contents.
        arrays: the description of each array.
        saved: the time of the save.
        parts: the number of files that the arrays are in.
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
        # JSON has neither infinity nor NaN.
        finite = math.isfinite(contents.metric)
        content["metric"] = contents.metric if finite else repr(contents.metric)
    if parts == 1:
        return sealed(FORMAT, 1, content)
    return sealed(FORMAT, VERSION, {**content, "parts": parts})


def parsed(data: bytes) -> dict[str, Any]:
    """Parses a manifest, and validates the type of every part.

    Raises:
        LaterVersion: for a manifest of a later version.
        ValueError: for anything else that is not a manifest; names the fault.
    """
    content = unsealed(data, FORMAT, VERSION)
    try:
        _check(content)
    except RecursionError as error:
        raise ValueError(str(error)) from None
    return content


def time_of(data: bytes) -> int | None:
    """Returns the time of the save in a manifest; None if it cannot be read."""
    try:
        saved = json.loads(data)["content"]["saved"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return saved if _is_time(saved) else None


def measure(content: Mapping[str, Any]) -> float | None:
    """Returns the metric of a checkpoint."""
    return float(content["metric"]) if "metric" in content else None


# ---------------------------------------------------------------------------------------------
# Validation.


def _is_time(value: JSON) -> bool:
    return type(value) is int and 0 <= value <= LAST


def _check(content: dict[str, Any]) -> None:
    """Raises ValueError unless every part of a content has its type."""
    if not _is_time(content.get("saved")):
        raise ValueError("it lacks the time of the save")
    step = content.get("step", "")
    if step is not None and type(step) is not int:
        raise ValueError("its step is not an integer")
    parts = content.get("parts", 1)
    if type(parts) is not int or not 1 <= parts <= MOST_PARTS:
        raise ValueError("its number of files of arrays is not one")
    for part in ("objects", "aliases"):
        for name, value in mapping(content.get(part), part).items():
            if not name or type(value) is not str or not value:
                raise ValueError(f"{part}: {name!r} is not a path, or its value not a string")
    arrays = mapping(content.get("arrays"), "arrays")
    for name, description in arrays.items():
        check_description(name, description)
    for part in ("states", "data"):
        for name, value in mapping(content.get(part), part).items():
            try:
                if part == "states" and not _is_encoded_dict(value):
                    raise ValueError("it is not a state")
                check(value, arrays)
            except ValueError as error:
                raise ValueError(f"{part}: {name!r}: {error}") from None
    metric = content.get("metric", 0)
    finite = type(metric) in (int, float) and abs(metric) < math.inf and _as_float(metric)
    if not finite and metric not in ("nan", "inf", "-inf"):
        raise ValueError("its metric is not a number")


def _as_float(value: float) -> bool:
    try:
        float(value)
    except OverflowError:
        return False
    return True


def _is_encoded_dict(value: JSON) -> bool:
    return isinstance(value, dict) and value.get("$") == "dict"
