"""Arguments that the scripts share, and the backend where it is not installed."""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def arguments(about: str | None, *more: str) -> argparse.Namespace:
    """--device, --json and --quick, and what is named in `more`."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--device", default="cupy:gpu:0")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--quick", action="store_true")
    for name in more:
        parser.add_argument(name)
    return parser.parse_args()


def use_cupy() -> None:
    """Registers the backend of this repository, whatever is installed."""
    import pullback as pb
    import pullback_cupy

    pb.register_backend(pullback_cupy.CuPyBackend(), replace=True)


def module(path: str) -> ModuleType:
    """A file of this repository as a module."""
    name = Path(path).stem
    spec = importlib.util.spec_from_file_location(name, ROOT / path)
    assert spec is not None and spec.loader is not None  # noqa: PT018
    found = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def finish(given: argparse.Namespace, values: dict[str, Any], passed: bool) -> None:
    """Prints the table, writes what was found, and ends."""
    print("\n".join(values["table"]))
    if given.json:
        given.json.write_text(json.dumps(values))
    sys.exit(0 if passed else 1)
