"""One version for all distributions of this repository, kept in core.

    python tools/version.py             checks that all agree
    python tools/version.py v0.2.0      checks also that they agree with a tag
    python tools/version.py --set 0.2.0 sets it everywhere, and dates the entry of the changelog

Each distribution is built on its own, from a folder that the others are not in, so each has the
number in its own pyproject.toml. `tests/architecture/test_project.py` runs the check.
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from collections.abc import Iterator
from datetime import date
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NUMBER = re.compile(r"\d+\.\d+\.\d+")
ASSIGNMENT = re.compile(r'^(__version__ = )"(.*)"$', re.MULTILINE)
STATIC = re.compile(r'^(version = )"(.*)"$', re.MULTILINE)
#: What a distribution, an example or a page asks of `pullback` or of one of its backends.
BOUNDS = re.compile(r"(\bpullback(?:-\w+)?(?:\[[\w,]+\])?)(>=\d+\.\d+,<\d+\.\d+)\b")
UNRELEASED = "## [Unreleased]"


def projects(root: Path) -> list[Path]:
    """The settings of the distributions that share the version, except core's."""
    patterns = ("backends", "compat", "integrations")
    members = [path for one in patterns for path in root.glob(f"{one}/*/pyproject.toml")]
    return sorted([*members, *root.glob("conformance/pyproject.toml")])


def source(root: Path) -> Path:
    """The file that has the version: where core's settings say that it is read from."""
    settings = tomllib.loads((root / "core/pyproject.toml").read_text(encoding="utf-8"))
    module = settings["tool"]["setuptools"]["dynamic"]["version"]["attr"].rpartition(".")[0]
    return root / "core" / "src" / Path(*module.split(".")).with_suffix(".py")


def asking(root: Path) -> list[Path]:
    """Every file in which something asks for a range of versions."""
    patterns = [
        *("core/pyproject.toml", "conformance/pyproject.toml"),
        *("backends/*/pyproject.toml", "compat/*/pyproject.toml"),
        *("integrations/*/pyproject.toml", "integrations/*/*.md"),
        *("examples/*/pyproject.toml", "tests/packages/*/pyproject.toml"),
        *("*.md", "core/*.md", "backends/*/*.md", "docs/**/*.md", "examples/*/*.md"),
    ]
    return sorted({path for pattern in patterns for path in root.glob(pattern)})


def bounds(version: str) -> str:
    """The range that goes with a version: as it is, up to the next minor one."""
    major, minor, _ = map(int, version.split("."))
    return f">={major}.{minor},<{major}.{minor + 1}"


def disagreements(root: Path) -> Iterator[str]:
    """The places that do not agree with core's version."""
    version = read(root)
    for path in projects(root):
        found = STATIC.search(path.read_text(encoding="utf-8"))
        if not found or found[2] != version:
            yield f"{path.relative_to(root)}: the version is {found and found[2]}, not {version}"
    for path in asking(root):
        for found in BOUNDS.finditer(path.read_text(encoding="utf-8")):
            if found[2] != bounds(version):
                yield f"{path.relative_to(root)}: {found[0]} leaves out {version}"


def read(root: Path) -> str:
    """The version of core."""
    found = ASSIGNMENT.search(source(root).read_text(encoding="utf-8"))
    assert found, f"{source(root)} has no __version__"
    return found[2]


def write(root: Path, version: str, day: date) -> None:
    """Sets the version everywhere, and gives what was not released its number and date."""
    _replace(source(root), ASSIGNMENT, version)
    for path in projects(root):
        _replace(path, STATIC, version)
    for path in asking(root):
        text = path.read_text(encoding="utf-8")
        path.write_text(BOUNDS.sub(rf"\g<1>{bounds(version)}", text), encoding="utf-8")
    changes = root / "CHANGELOG.md"
    text = changes.read_text(encoding="utf-8")
    if f"## [{version}]" not in text:
        heading = f"{UNRELEASED}\n\n## [{version}] - {day.isoformat()}"
        changes.write_text(text.replace(UNRELEASED, heading, 1), encoding="utf-8")


def _replace(path: Path, pattern: re.Pattern[str], version: str) -> None:
    text = path.read_text(encoding="utf-8")
    path.write_text(pattern.sub(rf'\g<1>"{version}"', text, count=1), encoding="utf-8")


def main(arguments: list[str]) -> int:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description="One version for all distributions.")
    parser.add_argument("tag", nargs="?", help="a tag that must name the version, as v0.2.0")
    parser.add_argument("--set", metavar="VERSION", help="write this version everywhere")
    given = parser.parse_args(arguments)
    if given.set:
        if not NUMBER.fullmatch(given.set):
            parser.error(f"a version is three numbers, as 0.2.0, not {given.set!r}")
        write(ROOT, given.set, date.today())
    wrong = list(disagreements(ROOT))
    if given.tag and given.tag != f"v{read(ROOT)}":
        wrong.append(f"the tag {given.tag} is not v{read(ROOT)}")
    for line in wrong:
        print(line, file=sys.stderr)
    if wrong:
        print("python tools/version.py --set VERSION makes them agree", file=sys.stderr)
        return 1
    print(read(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
