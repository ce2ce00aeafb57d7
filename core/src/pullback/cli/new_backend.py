"""`pullback new-backend NAME`: writes the package of a backend that works, to start from."""

from __future__ import annotations

import argparse
import re
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

from pullback import errors
from pullback._version import __version__
from pullback.plugins.public import registry
from pullback.plugins.validation import KINDS, is_backend_name
from pullback.spec import SPEC_VERSION

#: The files of the package, and the templates in `skeleton/` that they are made of.
FILES = {
    "pyproject.toml": "pyproject.toml.in",
    "README.md": "README.md.in",
    ".gitignore": "gitignore.in",
    ".github/workflows/ci.yml": "ci.yml.in",
    "src/$module/__init__.py": "backend.py.in",
    "tests/conformance/test_conformance.py": "test_conformance.py.in",
}


def add(subcommands: Any) -> None:
    """Adds the subcommand to those of the command line."""
    parser = subcommands.add_parser(
        "new-backend",
        help="write the package of a new backend, to start from",
        description="Writes a package with a backend that works: over NumPy, where your own array "
        "library is to go. It installs, passes its tests and scores as it is.",
    )
    parser.add_argument("name", metavar="NAME", help="what devices will be called: NAME:cpu:0")
    parser.add_argument(
        "--folder", metavar="FOLDER", help="where to write it (without it: pullback-NAME)"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Writes the package, and prints what to do with it."""
    words = _words(arguments.name)
    folder = Path(arguments.folder or words["distribution"])
    if folder.exists():
        raise errors.InputValueError(
            f"new-backend: {folder} is there already; remove it, or choose another --folder"
        )
    skeleton = resources.files("pullback.cli") / "skeleton"
    try:
        for name, template in FILES.items():
            path = folder / Template(name).substitute(words)
            path.parent.mkdir(parents=True, exist_ok=True)
            text = (skeleton / template).read_text(encoding="utf-8")
            path.write_text(Template(text).substitute(words), encoding="utf-8")
            print(path)
    except OSError as error:
        raise errors.InputValueError(f"new-backend: {folder}: {error.strerror}") from error
    name = arguments.name
    print(f"\nIt works as it is. Next (README.md in {folder} says more):\n")
    print(f'  pip install -e "{folder}[test]"')
    print(f"  pytest {folder}")
    print(f"  pullback conform {name} --quick")
    return 0


def _words(name: str) -> dict[str, Any]:
    """What the templates are filled in with.

    Raises:
        InputValueError: for what can be no name of a backend, or is one that is installed.
    """
    if not is_backend_name(name):
        raise errors.InputValueError(
            f"new-backend: {name!r} is no name for a backend; use letters, digits, '_', '.' and "
            f"'-', beginning with a letter, other than {' and '.join(map(repr, KINDS))}"
        )
    if name in registry.names():
        raise errors.InputValueError(
            f"new-backend: a backend named {name!r} is installed; choose another name"
        )
    plain = re.sub(r"[-_.]+", "_", name).strip("_").lower()
    module = f"pullback_{plain}"
    major, minor = map(int, __version__.split(".")[:2])
    return {
        "name": name,
        "module": module,
        "distribution": f"pullback-{plain.replace('_', '-')}",
        "title": "".join(part.capitalize() for part in plain.split("_")),
        "spec_version": SPEC_VERSION,
        "compatible": f">={major}.{minor},<{major}.{minor + 1}",
    }
