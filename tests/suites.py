"""The tests of other projects, with pullback as the namespace of their arrays.

    uv run tests/suites.py ../suites einops array_api_extra.tests.main
    uv run tests/suites.py ../suites scipy.special scipy.signal -- -k window
    uv run tests/suites.py ../suites sklearn.metrics sklearn.mixture

The folder gets an environment with the projects as they are released, copies of those that are
tested, and a report of each suite. A suite has a list of the libraries that it knows, so a copy is
changed in a few lines: `PATCHES`. What follows `--` goes to pytest.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
INSTALLED = (
    *("array-api-extra", "array-api-strict", "einops", "scikit-learn", "scipy"),
    *("hypothesis", "pandas", "pytest", "pytest-timeout", "typing_extensions"),
)

#: By project: a file, a text in it, and what stands there in the copy, where {} is that text.
PATCHES = {
    "einops": (
        ("tests/__init__.py", "from einops import _backends\n", "import pullback\n{}"),
        ("tests/__init__.py", "_backends.CupyBackend,\n", "{}_backends.PullbackBackend,\n"),
        ("tests/test_einsum.py", '    "mlx",\n', '{}    "pullback",\n'),
        ("tests/test_ops.py", "import numpy as xp", "import pullback as xp"),
        ("tests/test_ops.py", 'xp.__version__ < "2.0.0"', "False"),
        ("tests/test_packing.py", "import numpy as xp", "import pullback as xp"),
        ("tests/test_packing.py", 'xp.__version__ < "2.0.0"', "False"),
    ),
    "array_api_extra": (("_lib/_backends.py", '    TORCH = "torch"\n', '{}    PB = "pullback"\n'),),
    "scipy": (
        ("conftest.py", "xp_known_backends = {", "{}'pullback', "),
        (
            "conftest.py",
            "    xp_available_backend_ids =",
            "    import pullback\n    xp_available_backends.append(pytest.param(\n"
            "        pullback, id='pullback', marks=pytest.mark.array_api_backends))\n{}",
        ),
    ),
    "sklearn": (
        ("utils/_array_api.py", '        "dpnp",\n    ]', '        "pullback",\n{}'),
        (
            "utils/_array_api.py",
            '        elif array_namespace == "dpnp":',
            '        elif array_namespace == "pullback":\n'
            '            for dtype in ("float64", "float32"):\n'
            '                yield array_namespace, "cpu:0", dtype\n{}',
        ),
    ),
}
#: What chooses the tests of arrays of pullback: arguments of pytest, and variables.
CHOSEN: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
    "einops": ((), {"EINOPS_TEST_BACKENDS": "pullback"}),
    "array_api_extra": (("-k", "pb", "-W", "error::DeprecationWarning"), {}),
    "scipy": (("-m", "array_api_backends"), {"SCIPY_ARRAY_API": '["pullback"]'}),
    "sklearn": (("-k", "pullback"), {"SCIPY_ARRAY_API": "1"}),
}


def environment(folder: Path) -> Path:
    """The Python of an environment with the projects and with pullback as it is here."""
    python = folder / "env" / "bin" / "python"
    if not python.exists():
        subprocess.run(["uv", "venv", "-q", "-p", sys.executable, folder / "env"], check=True)
        command = ["uv", "pip", "install", "-q", "-p", python, *INSTALLED]
        command += ["-e", ROOT / "core", "-e", ROOT / "backends" / "numpy"]
        subprocess.run(command, check=True)
    return python


def copy(python: Path, project: str, copies: Path) -> None:
    """Copies an installed project, with its compiled libraries, and changes the copy."""
    if (copies / project).exists():
        return
    program = "import sysconfig; print(sysconfig.get_path('platlib'))"
    listed = subprocess.run([python, "-c", program], capture_output=True, text=True, check=True)
    site = Path(listed.stdout.strip())
    shutil.copytree(site / project, copies / project)
    for libraries in site.glob(f"*{project.removeprefix('sk')}*.libs"):
        shutil.copytree(libraries, copies / libraries.name, dirs_exist_ok=True)
    for name, before, after in PATCHES[project]:
        path = copies / project / name
        text = path.read_text("utf-8")
        if before not in text:
            sys.exit(f"{path} has no {before!r}: write PATCHES for this version of {project}")
        path.write_text(text.replace(before, after.replace("{}", before)), "utf-8")


def main() -> None:
    words = sys.argv[1:]
    ours = words.index("--") if "--" in words else len(words)
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("folder", type=Path, help="for the environment, copies and reports")
    arguments.add_argument("suites", nargs="+", help=f"modules of {', '.join(PATCHES)}")
    options = arguments.parse_args(words[:ours])
    folder = options.folder.resolve()
    copies = folder / "copies"
    python = environment(folder)
    for suite in options.suites:
        project = suite.partition(".")[0]
        copy(python, project, copies)
        chosen, variables = CHOSEN[project]
        command = [python, "-m", "pytest", "-q", "-c", os.devnull, "--rootdir", copies, "-rfE"]
        command += ["--tb=short", "--timeout=300", *chosen, *words[ours + 1 :]]
        module = copies.joinpath(*suite.split("."))
        command.append(module if module.is_dir() else module.with_suffix(".py"))
        wanted = {"PYTHONPATH": str(copies), "PULLBACK_DEFAULT_DTYPE": "float64", **variables}
        report = folder / f"{suite}.txt"
        with report.open("w", encoding="utf-8") as file:
            subprocess.run(command, env=os.environ | wanted, stdout=file, stderr=file, cwd=copies)
        print(f"{suite}: {report.read_text('utf-8').splitlines()[-1]}; see {report}")


if __name__ == "__main__":
    main()
