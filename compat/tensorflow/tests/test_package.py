"""The package as a distribution: what it imports, and what happens where it is not installed."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SOURCES = sorted((ROOT / "compat" / "tensorflow" / "src").rglob("*.py"))

# A finder ahead of all others hides the package, as if it were not installed.
HIDDEN = """
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "pullback_tensorflow":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Hidden())
"""


def python(program):
    return subprocess.run(
        [sys.executable, "-P", "-c", program], capture_output=True, text=True, check=False
    )


def public_modules():
    """The modules for programs, as the documentation lists them."""
    page = (ROOT / "docs" / "api-stability.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`pullback.*?) \|", page, re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`(pullback[\w.]*)`", row)}


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: "/".join(path.parts[-2:]))
def test_imports_public_names_only(path):
    public = public_modules()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        else:
            continue
        for name in names:
            first, *rest = name.split(".")
            if first != "pullback":
                continue
            private = [part for part in rest if part.startswith("_") and part != "__version__"]
            assert not private, f"{path.name}:{node.lineno}: {name} is private"
            if isinstance(node, ast.Import) or name == node.module:
                top = ".".join(name.split(".")[:2])
                assert top in public, f"{path.name}:{node.lineno}: {name} is not public"


def test_without_the_package_the_import_says_what_to_install():
    done = python(HIDDEN + "import pullback.compat.tensorflow")
    assert done.returncode
    assert done.stderr.splitlines()[-1] == (
        "ModuleNotFoundError: pullback.compat.tensorflow needs the package pullback-tensorflow, "
        "which is not installed; run: pip install pullback-tensorflow"
    )
    # It can be caught like any module that is missing, and pullback works without it.
    done = python(
        HIDDEN + "import pullback\n"
        "try:\n    import pullback.compat.tensorflow\n"
        "except ImportError as error:\n    print(error.name)\n"
    )
    assert done.stdout.split() == ["pullback.compat.tensorflow"], done.stderr


def test_an_error_inside_the_package_is_not_hidden():
    program = HIDDEN.replace('"pullback_tensorflow"', '"pullback.losses"').replace(
        'name.partition(".")[0]', "name"
    )
    done = python(program + "import pullback.compat.tensorflow")
    assert "No module named 'pullback.losses'" in done.stderr.splitlines()[-1]


def test_one_module_under_two_names():
    done = python(
        "import pullback.compat.tensorflow as tf, pullback_tensorflow\n"
        "import pullback.compat.tensorflow.contrib.eager as tfe\n"
        "print(tf is pullback_tensorflow, tfe is tf.contrib.eager)"
    )
    assert done.stdout.split() == ["True", "True"], done.stderr
