"""Packages of other authors: discovered once installed, without a change to anything here.

The quick tests lay a package out as pip leaves it. The slow ones build the wheels and install them
into a new environment, which asks the package index for what they depend on; CI runs them.
"""

from __future__ import annotations

import functools
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import venv
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from pullback import cli
from pullback.plugins.kernel_packs import VARIABLE

ROOT = Path(__file__).parents[2]
PACK = ROOT / "tests" / "packages" / "kernel_pack"
MINIMAL = ROOT / "examples" / "minimal_backend"

#: What a child process must not inherit: it is to see what is installed, as it is by default.
FOREIGN = ("PYTHONPATH", "PULLBACK_DEVICE", VARIABLE, "PYTEST_ADDOPTS", "VIRTUAL_ENV")


def run(*command, cwd, status=0, **environment):
    """Runs a program and gives what it prints."""
    clean = {name: value for name, value in os.environ.items() if name not in FOREIGN}
    done = subprocess.run(
        list(map(str, command)),
        cwd=cwd, env=clean | environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == status, (command, done.stdout[-4000:], done.stderr[-4000:])
    return done.stdout


def scores(out):
    """Of what `pullback conform --json -` prints: whether all passed, and how many checks."""
    found = json.loads(out)
    return found["passed"], found["total"]["checks"], found["failures"]


# As pip leaves them -------------------------------------------------------------------------------


@pytest.fixture
def installed(tmp_path):
    """A folder with packages as pip leaves them, and programs that see it."""
    folder = tmp_path / "site"
    folder.mkdir()

    def add(project):
        settings = tomllib.loads((project / "pyproject.toml").read_text())["project"]
        shutil.copytree(project / "src", folder, dirs_exist_ok=True)
        info = folder / f"{settings['name'].replace('-', '_')}-{settings['version']}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {settings['name']}\nVersion: {settings['version']}\n"
        )
        lines = []
        for group, entries in settings["entry-points"].items():
            lines += [f"[{group}]", *(f"{name} = {value}" for name, value in entries.items())]
        (info / "entry_points.txt").write_text("\n".join(lines) + "\n")

    def pullback(*arguments, **given):
        given = {"cwd": tmp_path, "PYTHONPATH": str(folder), **given}
        return run(sys.executable, "-m", "pullback", *arguments, **given)

    return SimpleNamespace(add=add, pullback=pullback, folder=folder)


def test_a_kernel_pack_serves_before_its_backend(installed):
    installed.add(PACK)
    lines = installed.pullback("backends").splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("numpy "))
    assert lines[at + 1].split() == ["+", "lean", "0.3.0", "ready"]
    # Other packs that are installed are not used.
    lines = serving(installed, **{VARIABLE: "lean"})
    served = [line.split(maxsplit=3) for line in lines if "switched off" not in line]
    assert [row[:3] for row in served] == [
        ["numpy", "lean", "20"],
        ["numpy", "numpy", "0"],
        ["numpy", "decomposition", "-"],
    ]
    assert "float32, float64  a kernel pack, of the highest priority" in served[0][3]
    assert "its own kernel, for the remaining dtypes" in served[1][3]
    assert "never reached: numpy takes every dtype" in served[2][3]


def serving(installed, *arguments, **environment):
    out = installed.pullback("backends", "--kernels", "softmax", *arguments, **environment)
    return [line for line in out.splitlines() if line.startswith("numpy ")]


@pytest.mark.parametrize(
    ("arguments", "environment"), [(["--packs", ""], {}), ([], {VARIABLE: ""})], ids=str
)
def test_a_kernel_pack_is_switched_off(installed, arguments, environment):
    installed.add(PACK)
    lines = serving(installed, *arguments, **environment)
    assert "its own kernel, of the highest priority; " in lines[0]
    assert "kernels/softmax.py:" in lines[0]
    assert lines[-1].endswith("a kernel pack, not used: switched off")


def test_a_kernel_pack_is_switched_off_in_a_program(installed, tmp_path):
    installed.add(PACK)
    program = """
        import sys, warnings
        import pullback as pb
        from pullback.devices import as_device
        backend = as_device("cpu").backend
        x = pb.asarray([1.0, 2.0])
        for packs in (None, [], ["lean"]):
            pb.use_kernel_packs(packs)
            kernel = backend.kernel("softmax", pb.float32)
            print(kernel.__module__, pb.softmax(x).shape)
    """
    script = tmp_path / "script.py"
    script.write_text("\n".join(line[8:] for line in program.splitlines()))
    out = run(sys.executable, script, cwd=tmp_path, PYTHONPATH=str(installed.folder))
    assert [line.split()[0].partition(".")[0] for line in out.splitlines()] == [
        "pullback_numpy_lean",
        "pullback_numpy",
        "pullback_numpy_lean",
    ]


@pytest.mark.slow
def test_a_kernel_pack_is_held_to_the_same_conformance(installed):
    installed.add(PACK)
    call = ("conform", "numpy", "--quick", "--ops", "softmax,square")
    out = installed.pullback(*call)
    assert "kernel packs: lean" in out
    assert "score: 100 %" in out
    module = installed.folder / "pullback_numpy_lean" / "__init__.py"
    module.write_text(module.read_text().replace("np.multiply(x, x)", "np.multiply(x, -x)"))
    passed, _, failures = scores(installed.pullback(*call, "--json", "-", status=1))
    assert not passed
    assert {one["op"] for one in failures} == {"square"}
    assert "100 %" in installed.pullback(*call, "--packs", "")


# A new backend ------------------------------------------------------------------------------------


@pytest.fixture
def generated(tmp_path, monkeypatch, capsys):
    """The package that `pullback new-backend` writes."""
    monkeypatch.chdir(tmp_path)
    assert cli.main(["new-backend", "a-mill"]) == 0
    capsys.readouterr()
    return tmp_path / "pullback-a-mill"


def test_a_new_backend_is_a_whole_package(generated):
    found = {path.relative_to(generated).as_posix() for path in generated.rglob("*")}
    assert found > {
        "README.md", "pyproject.toml", ".github/workflows/ci.yml", ".gitignore",
        "src/pullback_a_mill/__init__.py", "tests/conformance/test_conformance.py",
    }  # fmt: skip
    settings = tomllib.loads((generated / "pyproject.toml").read_text())
    assert settings["project"]["entry-points"]["pullback.backends.cpu"] == {
        "a-mill": "pullback_a_mill"
    }
    for path in generated.rglob("*"):
        if path.is_file():
            text = path.read_text()
            # What is left is GitHub's own, in the workflow.
            assert "$" not in text.replace("${{ matrix.python }}", ""), path
            assert text.endswith("\n")


class Odd:
    """NumPy with an `equal` of whole arrays, and a `maximum` of some dtypes."""

    equal = staticmethod(np.array_equal)

    def __getattr__(self, name):
        return getattr(np, name)

    @staticmethod
    def maximum(x1, x2):
        if x1.dtype.kind == "u":
            raise NotImplementedError
        return np.maximum(x1, x2)


def test_what_the_library_of_a_new_backend_cannot_is_computed_by_numpy(generated):
    source = (generated / "src" / "pullback_a_mill" / "__init__.py").read_text()
    line = "\nimport numpy as xp\n"
    assert line in source
    module = {"Odd": Odd}
    exec(source.replace(line, "\nxp = Odd()\n"), module)
    kernels = module["AMillBackend"].kernels
    ones, counts = np.ones(3, np.float32), np.arange(3, dtype=np.uint16)
    assert kernels["add"](ones, ones).tolist() == [2, 2, 2]
    assert kernels["relu"](-ones).tolist() == [0, 0, 0]
    assert module["ON_HOST"] == set()
    assert kernels["equal"](ones, np.asarray([1, 2, 1], np.float32)).tolist() == [True, False, True]
    assert kernels["relu"](counts).dtype == np.uint16
    assert module["ON_HOST"] == {"equal", "maximum"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["numpy"], "a backend named 'numpy' is installed"),
        (["gpu"], "'gpu' is not a valid name of a backend"),
        (["a b"], "use letters, digits"),
        (["-x"], None),
        (["mine", "--folder", "."], "exists; remove it"),
        (["mine", "--folder", "file/inside"], "file/inside: Not a directory"),
    ],
)
def test_what_can_be_no_new_backend(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    if message is None:
        with pytest.raises(SystemExit):
            cli.main(["new-backend", *arguments])
    else:
        assert cli.main(["new-backend", *arguments]) == 1
        assert message in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


# Wheels -------------------------------------------------------------------------------------------


def create(environment, *, with_pip):
    """A new virtual environment, of the Python that runs the tests."""
    uv = shutil.which("uv")
    if uv is None:
        venv.create(environment, with_pip=with_pip)
    else:
        seed = ["--seed"] if with_pip else []
        run(uv, "venv", *seed, "--python", sys.executable, environment, cwd=environment.parent)


@pytest.fixture(scope="module")
def new(tmp_path_factory):
    """A new environment with core and NumPy's backend, from their wheels."""
    place = tmp_path_factory.mktemp("new")
    uv = shutil.which("uv")

    @functools.cache
    def build(project):
        # A copy, so that nothing is left in the repository.
        source = shutil.copytree(
            project, place / "sources" / project.name,
            ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__"),
        )  # fmt: skip
        out = place / "wheels" / project.name
        tool = [uv, "build", "--wheel", "--out-dir", out, source]
        if uv is None:
            tool = [sys.executable, "-m", "pip", "wheel", "--no-deps", "-w", out, source]
        run(*tool, cwd=place)
        (wheel,) = out.glob("*.whl")
        return wheel

    environment = place / "venv"
    create(environment, with_pip=uv is None)

    def pip(command, *arguments):
        python = environment / "bin" / "python"
        tool = [uv, "pip"] if uv else [python, "-m", "pip"]
        run(*tool, command, *([f"--python={python}"] if uv else []), *arguments, cwd=place)

    def call(program, *arguments, **given):
        return run(environment / "bin" / program, *arguments, **{"cwd": place, **given})

    wheels = [build(ROOT / one) for one in ("core", "conformance", "backends/numpy")]
    pip("install", *wheels, "pytest", "pytest-xdist")
    return SimpleNamespace(build=build, pip=pip, call=call, place=place)


@pytest.mark.slow
def test_the_wheel_of_a_backend_is_found(new):
    assert "minimal" not in new.call("pullback", "backends")
    new.pip("install", new.build(MINIMAL))
    lines = new.call("pullback", "backends").splitlines()
    assert [line.split()[0] for line in lines] == ["backend", "numpy", "minimal"]
    assert lines[2].split()[2:] == ["minimal:cpu:0", "ready"]
    program = "import pullback as pb; print(pb.softmax(pb.zeros(2, device='minimal')))"
    assert "device=minimal:cpu:0" in new.call("python", "-c", program)
    assert "core     " in new.call("pullback", "conform", "minimal", "--quick", "--ops", "conv*")
    new.pip("uninstall", *([] if shutil.which("uv") else ["-y"]), "pullback-minimal")
    assert "minimal" not in new.call("pullback", "backends")


@pytest.mark.slow
def test_the_wheel_of_a_kernel_pack_is_used(new):
    new.pip("install", new.build(PACK))
    show = ("backends", "--kernels", "softmax", "--json")
    sources = [row["source"] for row in json.loads(new.call("pullback", *show)) if row["used"]]
    assert sources == ["lean", "numpy"]
    off = json.loads(new.call("pullback", *show, **{VARIABLE: ""}))
    assert [row["source"] for row in off if row["used"]] == ["numpy"]
    out = new.call("pullback", "conform", "numpy", "--ops", "softmax,square", "--json", "-")
    assert json.loads(out)["kernel_packs"] == ["lean"]
    assert scores(out)[0]


#: The pages whose commands make one story, in the order in which a reader comes to them.
STORY = ("installing", "publishing", "conformance", "packs")


#: Makes the generated test measure what is drawn.
DRAWN = """\
import sys
from pathlib import Path
path, seed = Path("tests/conformance/test_conformance.py"), sys.argv[1]
whole = path.read_text()
part = whole.replace("quick=True", f"mode=Mode(quick=True, budget=20, seed={seed})")
assert part != whole
path.write_text("from pullback_conformance.mode import Mode\\n" + part)
"""


def commands(seed):
    """The commands of the pages; where they measure all ops, a sample for each seed but None."""
    script = ["set -euxo pipefail"]
    for page in STORY:
        text = (ROOT / "docs" / "backends" / f"{page}.md").read_text()
        script += re.findall(r"^```sh\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    script = "\n".join(script)
    if seed is not None:
        drawn = {
            "\npytest\n": f"\npython -c {shlex.quote(DRAWN)} {seed}\npytest\n",
            "--quick --jobs 2\n": f"--quick --jobs 2 --budget 20s --seed {seed}\n",
        }
        for whole, part in drawn.items():
            assert script.count(whole) == 1, whole
            script = script.replace(whole, part)
    return script


def test_the_commands_that_measure_all_ops_are_drawn():
    assert "--budget" not in commands(None)
    assert commands(7).count("budget=20") == 1
    assert "pullback conform mill --quick --jobs 2 --budget 20s --seed 7\n" in commands(7)


def runs_the_documentation(new, folder, seed):
    packages = folder / "packages"
    packages.mkdir()
    for project in (ROOT / "core", ROOT / "conformance", ROOT / "backends" / "numpy"):
        shutil.copy(new.build(project), packages)
    create(folder / "venv", with_pip=True)
    # Its packages from here, all others from the index.
    paths = os.pathsep.join([str(folder / "venv" / "bin"), os.environ["PATH"]])
    given = {"PATH": paths, "PIP_FIND_LINKS": str(packages), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    out = run("bash", "-c", commands(seed), cwd=folder, **given)
    assert "3 passed" in out
    assert out.count("mill:cpu:0") >= 2
    assert out.count("score: 100 %") == 4


@pytest.mark.slow
def test_every_command_of_the_documentation_runs(new, tmp_path):
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    # Another sample for each commit; the same one where this is no clone.
    runs_the_documentation(new, tmp_path, seed=int(head.stdout[:6] or "0", 16))


@pytest.mark.campaign
def test_every_command_of_the_documentation_runs_as_written(new, tmp_path):
    runs_the_documentation(new, tmp_path, seed=None)


@pytest.mark.slow
def test_the_wheel_of_a_new_backend_is_found_and_scores(new):
    new.call("pullback", "new-backend", "a-mill")
    source = new.place / "pullback-a-mill"
    new.pip("install", new.build(source))
    (line,) = [one for one in new.call("pullback", "backends").splitlines() if "a-mill " in one]
    assert line.split()[2:] == ["a-mill:cpu:0", "ready"]
    assert "2 passed" in new.call("pytest", "-q", "-k", "installed or gradient", cwd=source)
    # All ops are measured where the commands of the documentation run.
    ops = "add,relu,softmax,scatter_add,conv,sort,sum,cumulative_sum,matmul,solve,fft,astype,take"
    measured = ("--quick", "--ops", f"{ops},lstm", "--json", "-")
    out = new.call("pullback", "conform", "a-mill", *measured)
    assert scores(out)[0], scores(out)[2][:3]
    kit = ("--pyargs", "pullback_conformance", "--backend", "a-mill", "--quick")
    for workers in ("0", "2"):
        assert " passed" in new.call("pytest", "-q", "-n", workers, *kit, "--ops", "relu,exp")
