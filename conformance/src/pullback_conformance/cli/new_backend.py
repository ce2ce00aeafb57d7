"""`pullback new-backend NAME`: writes the package of a working backend, to start from."""

from __future__ import annotations

import argparse
import re
from importlib import resources
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

from pullback import errors
from pullback._version import __version__
from pullback.plugins.backend import KINDS
from pullback.plugins.public import registry
from pullback.plugins.validation import is_backend_name
from pullback.spec import SPEC_VERSION

if TYPE_CHECKING:
    from pullback.cli.table import Subcommands

#: The files of the package, and the templates in `skeleton/` that they are made of.
FILES = {
    "pyproject.toml": "pyproject.toml.in",
    "README.md": "README.md.in",
    ".gitignore": "gitignore.in",
    ".github/workflows/ci.yml": "ci.yml.in",
    "src/$module/__init__.py": "backend.py.in",
    "tests/conformance/test_conformance.py": "test_conformance.py.in",
}


def add(subcommands: Subcommands) -> None:
    """Adds the subcommand to those of the command line."""
    parser = subcommands.add_parser(
        "new-backend",
        help="write the package of a new backend, to start from",
        description="Writes a package with a working backend over NumPy, to be replaced by your "
        "own array library. It can be installed, passes its tests and has a score as it is.",
    )
    parser.add_argument(
        "name", metavar="NAME", help="the name of the backend, as in its devices: NAME:cpu:0"
    )
    parser.add_argument(
        "--folder", metavar="FOLDER", help="where to write it (without it: pullback-NAME)"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Writes the package, and prints the next commands."""
    words = _words(arguments.name)
    folder = Path(arguments.folder or words["distribution"])
    if folder.exists():
        raise errors.InputValueError(
            f"new-backend: {folder} exists; remove it, or choose another --folder"
        )
    skeleton = resources.files("pullback_conformance.cli") / "skeleton"
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


def _words(name: str) -> dict[str, str]:
    """Returns the words for the templates.

    Raises:
        InputValueError: if a backend cannot have the name, or an installed backend has it.
    """
    if not is_backend_name(name):
        raise errors.InputValueError(
            f"new-backend: {name!r} is not a valid name of a backend; use letters, digits, "
            f"'_', '.' and '-', beginning with a letter, and not {' or '.join(map(repr, KINDS))}"
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
