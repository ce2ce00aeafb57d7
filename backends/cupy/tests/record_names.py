"""Writes names.json: every public function of the CuPy that is installed, with its keywords.

Needs CuPy, and no GPU: `python record_names.py`, where `cupy` is the real one.
"""

from __future__ import annotations

import inspect
import json
from pathlib import Path

import cupy


def keywords(function):
    """The names of its parameters; None where Python cannot tell."""
    try:
        return list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return None


found = {}
for prefix, module in (("", cupy), ("linalg.", cupy.linalg), ("fft.", cupy.fft)):
    for name in sorted(dir(module)):
        value = getattr(module, name)
        if not name.startswith("_") and not inspect.ismodule(value):
            found[prefix + name] = keywords(value)
Path(__file__).with_name("standin").joinpath("cupy", "names.json").write_text(
    "{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in found.items()) + "\n}\n"
)
