"""The checks of every change, a session for each part; `uv run nox -l` lists them.

`.ci/run` runs those that every change must pass. Sessions with `HERE` use the environment of the
repository, which `uv sync` makes. The others show what a user gets: they make an environment of
their own and install the wheels that `wheels` builds.
"""

from __future__ import annotations

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import nox

nox.needs_version = ">=2026.2.9"
nox.options.default_venv_backend = "uv"
nox.options.sessions = ["lint", "types", "tests"]
nox.options.stop_on_first_error = True

ROOT = Path(__file__).parent
DIST = ROOT / "dist"
HERE: dict[str, Any] = {"venv_backend": "none"}
#: What is checked by mypy --strict.
TYPED = (
    "core/src",
    "backends/cupy/src",
    "backends/jax/src",
    "backends/mlx/src",
    "backends/native/src",
    "backends/native/tests/fuzz.py",
    "backends/native/tests/sanitize.py",
    "backends/numpy/src",
    "backends/torch/src",
    "compat/tensorflow/src",
    "conformance/src",
    "integrations/mpi/src",
    "integrations/sparse/src",
    "conftest.py",
    "tests/autodiff/replay_graphs.py",
    "tests/autodiff/replay_programs.py",
    "tests/gpu",
    "tests/parity.py",
    "tests/processors.py",
    "tests/remembered.py",
    "typing_tests",
)
#: Holds the times of some ops, over NumPy's of the same, against those that were recorded. The
#: factor is for other processors, whose loops for AVX2 and AVX-512 differ, and for busy machines.
TIMINGS = (
    "benchmarks/ops.py",
    "--growth",
    "4",
    "--against",
    "benchmarks/results/ops-recorded.json",
    "--budget",
    "60",
)
#: Without the caller's modules, devices and kernel packs, which a user does not have.
CLEAN = dict.fromkeys(["PYTHONPATH", *(name for name in os.environ if name[:9] == "PULLBACK_")])


def projects() -> list[Path]:
    """The folders of the distributions, core first."""
    patterns = ("core", "conformance", "backends/*", "compat/*", "integrations/*")
    folders = [folder for pattern in patterns for folder in sorted(ROOT.glob(pattern))]
    return [folder for folder in folders if (folder / "pyproject.toml").is_file()]


def slow_parts() -> dict[str, list[str]]:
    """The folders of each part of the slow lane; `packages` and `native` run the rest."""
    parts = {
        "docs": ["tests/docs"],
        "backends": ["tests/backends", "conformance/tests"],
        "state": ["tests/checkpoint", "tests/data", "tests/layers", "tests/training"],
    }
    named = {folder for folders in parts.values() for folder in folders}
    mine = [path.relative_to(ROOT).as_posix() for path in sorted(ROOT.glob("tests/*/"))]
    alone = ["tests/packages", "tests/gpu", "tests/reference"]
    others = ["backends/numpy/tests", "compat/tensorflow/tests", "integrations/sparse/tests"]
    rest = [folder for folder in mine if folder not in named and folder not in alone]
    # `packages` runs these.
    own = "--deselect=tests/plugins/test_packages.py"
    return parts | {"core": [own, *rest, *others]}


def wheels_of(*names: str) -> list[str]:
    """The wheels of these distributions."""
    return [str(next(DIST.glob(f"{name.replace('-', '_')}-[0-9]*.whl"))) for name in names]


def smoke_test(session: nox.Session) -> None:
    """An op, a gradient and a checkpoint. -P keeps modules of this folder out."""
    session.run("python", "-P", ".ci/smoke.py", env=CLEAN)


def commit(session: nox.Session) -> str:
    """The name of the commit, by which samples are drawn."""
    return str(session.run("git", "rev-parse", "HEAD", external=True, silent=True)).strip()


def conforms(session: nox.Session, name: str, *options: str) -> None:
    """A sample of the checks of a quick run, another one for each commit."""
    seed = str(int(commit(session)[:6], 16))
    drawn = ("--quick", "--budget", "20s", "--jobs", "2", "--seed", seed)
    session.run("pullback", "conform", name, *drawn, *options, env=CLEAN)


@nox.session(**HERE)
def lint(session: nox.Session) -> None:
    """Style and spelling."""
    session.run("uv", "run", "ruff", "check")
    session.run("uv", "run", "ruff", "format", "--check")
    session.run("uv", "run", "codespell")
    sources = sorted(map(str, (ROOT / "backends" / "native" / "c").glob("*.[ch]")))
    session.run("uv", "run", "clang-format", "--dry-run", "-Werror", *sources)


@nox.session(**HERE)
def types(session: nox.Session) -> None:
    """Types, in the bodies of ops too, and that their stubs are up to date."""
    session.run("uv", "run", "tools/stubs.py", "--check")
    session.run("uv", "run", "tools/check_types.py", *TYPED)


@nox.session(**HERE)
def wheels(session: nox.Session) -> None:
    """Source distributions and, from them, wheels of everything, in `dist`."""
    shutil.rmtree(DIST, ignore_errors=True)
    # Two at a time: compiling one takes as long as all others.
    with ThreadPoolExecutor(2) as pool:
        commands = [
            ("uv", "build", "-q", "--out-dir", str(DIST), str(folder)) for folder in projects()
        ]
        list(pool.map(lambda command: session.run(*command), commands))
    session.log("\n".join(sorted(path.name for path in DIST.glob("pullback*"))))


@nox.session(requires=["wheels"])
def smoke(session: nox.Session) -> None:
    """The wheels as a user installs them: core alone, with a backend, beside an unusable one."""
    session.install(*wheels_of("pullback"))
    session.run("python", "-P", ".ci/core_alone.py", env=CLEAN)
    session.run("pullback", "--version", env=CLEAN)

    session.install(*wheels_of("pullback-numpy"))
    smoke_test(session)
    session.run("pullback", "backends", env=CLEAN)
    session.run("pullback", "conform", "numpy", success_codes=[1], env=CLEAN)
    session.install(*wheels_of("pullback-conformance"))
    session.run("pullback", "conform", "numpy", "--quick", "--ops", "softmax", env=CLEAN)

    session.install(*wheels_of("pullback-sparse"))
    session.run("python", "-P", ".ci/sparse.py", env=CLEAN)

    # Without a driver the GPU backend says so, and the rest works.
    session.install(*wheels_of("pullback-cupy"))
    listed = session.run("pullback", "backends", env=CLEAN, silent=True)
    session.log(listed)
    if not shutil.which("nvidia-smi"):
        rows = [row for row in str(listed).splitlines() if "cupy" in row]
        assert any("cannot be used" in row for row in rows), "the CuPy backend needs a driver"
    smoke_test(session)


@nox.session(requires=["wheels"])
def native(session: nox.Session) -> None:
    """Compiled kernels, as `pip install "pullback[cpu]"` installs them."""
    (core,) = wheels_of("pullback")
    session.install(
        *("--find-links", str(DIST), f"pullback[cpu] @ {Path(core).as_uri()}"),
        # By their paths: what uv keeps of a folder of wheels is older than a wheel built again.
        *wheels_of("pullback_conformance", "pullback_numpy", "pullback_native"),
        *("pytest", "pytest-xdist", "hypothesis", "scipy"),
    )
    session.run("pullback", "backends", "--kernels", "gelu", env=CLEAN)
    smoke_test(session)
    # By file: its tests draw from one generator, in their order.
    workers = ("-n", "auto", "--dist", "loadfile")
    session.run("python", "-m", "pytest", "-q", *workers, "backends/native/tests", env=CLEAN)
    session.run("python", *TIMINGS, "--peers", "pullback-native,numpy", env=CLEAN)
    conforms(session, "cpu")
    conforms(session, "cpu", "--packs", "")
    # Some tests as another processor would run them, others for each commit.
    sample = ("--quick", "--sample", commit(session), "--workers", str(os.cpu_count()))
    session.run("python", "tests/processors.py", *sample, env=CLEAN)


@nox.session(requires=["wheels"])
def sanitizers(session: nox.Session) -> None:
    """Compiled kernels under sanitizers, with hostile arrays and faults: half an hour."""
    session.install(
        *wheels_of("pullback", "pullback-conformance", "pullback-numpy", "pullback-native"),
        "scipy",
    )
    sanitize = ("python", "backends/native/tests/sanitize.py")
    session.run(*sanitize, "--calls", "5000", env=CLEAN)
    session.run(*sanitize, "--thread", "--calls", "2000", env=CLEAN)
    session.run("python", "-m", "pytest", "-q", "-m", "slow", "backends/native/tests", env=CLEAN)


@nox.session(**HERE)
def packages(session: nox.Session) -> None:
    """Packages of other authors: found once their wheels are installed."""
    workers = ("-n", "2", "--dist", "worksteal")
    session.run("uv", "run", "pytest", *workers, "-m", "slow", "tests/plugins/test_packages.py")


# pip takes the build for CPUs where that is the index's; uv would take CUDA's, which is gigabytes.
@nox.session(requires=["wheels"], venv_params=["--seed"])
def torch(session: nox.Session) -> None:
    """The torch backend, as installed."""
    session.run_install(
        *("python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"),
        *wheels_of("pullback", "pullback-conformance", "pullback-numpy", "pullback-torch"),
        *("torch==2.13.0", "pytest", "pytest-xdist", "scikit-learn", "matplotlib", "scipy"),
    )
    session.run("pytest", "backends/torch/tests", "-n", "auto", env=CLEAN)
    conforms(session, "torch")


@nox.session(requires=["wheels"], venv_params=["--seed"])
def jax(session: nox.Session) -> None:
    """The JAX backend, as installed."""
    session.run_install(
        *("python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"),
        *wheels_of("pullback", "pullback-conformance", "pullback-numpy", "pullback-jax"),
        *("jax==0.10.2", "pytest", "scipy"),
    )
    session.run("pytest", "backends/jax/tests", "tests/backends/test_jax_compile.py", env=CLEAN)
    conforms(session, "jax")


@nox.session(requires=["wheels"])
def mpi(session: nox.Session) -> None:
    """The communicator of MPI, as installed, on processes that mpiexec starts."""
    session.install(
        *wheels_of("pullback", "pullback-conformance", "pullback-numpy", "pullback-mpi")
    )
    session.install("mpich", "pytest")
    session.run("python", "-P", "-m", "pytest", "-q", "integrations/mpi/tests", env=CLEAN)


@nox.session(requires=["wheels"])
def keras(session: nox.Session) -> None:
    """Keras on pullback, as installed: `keras-pullback` with the Keras that it is for."""
    session.install(
        *wheels_of("pullback", "pullback-numpy", "keras-pullback"),
        *("keras==3.15.1", "pytest", "scikit-learn"),
    )
    tests = ("integrations/keras/tests", "--import-mode=importlib", "-p", "no:cacheprovider")
    session.run("python", "-m", "pytest", "-q", "-c", "/dev/null", *tests, env=CLEAN)


@nox.session(requires=["wheels"], venv_params=["--seed"])
def mlx(session: nox.Session) -> None:
    """The MLX backend, as installed, on a CPU."""
    session.run_install(
        *("python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"),
        *wheels_of("pullback", "pullback-conformance", "pullback-numpy", "pullback-mlx"),
        *("pytest", "pytest-xdist", "scipy", "hypothesis"),
    )
    session.run("pytest", "backends/mlx/tests", "-n", "2", env=CLEAN)
    conforms(session, "mlx")


@nox.session(**HERE)
def tests(session: nox.Session) -> None:
    """The fast lane, as the README has it; what follows `--` goes to pytest."""
    session.run("uv", "run", "pytest", *session.posargs)


@nox.session(**HERE)
def slow(session: nox.Session) -> None:
    """The slow lane, part by part, and the times of ops; `-- docs` runs one part."""
    workers = ("-n", "auto", "--dist", "worksteal")
    for part in session.posargs or slow_parts():
        session.run("uv", "run", "pytest", "-m", "slow", *workers, *slow_parts()[part])
    if not session.posargs:
        session.run("uv", "run", *TIMINGS, "--peers", "pullback,numpy")


@nox.session(**HERE)
def coverage(session: nox.Session) -> None:
    """The tests with the lines that they run counted; fails below the minimum in pyproject.toml."""
    arguments = session.posargs or ["-n", "2"]
    session.run("uv", "run", "pytest", "--cov", "--cov-report=term", "--cov-report=xml", *arguments)


@nox.session(**HERE)
def docs(session: nox.Session) -> None:
    """The site, in `site`; a broken link or an undocumented name fails."""
    session.run(
        *("uv", "run", "--isolated", "--group", "docs", "mkdocs", "build", "--strict"),
        env={"UV_NO_SYNC": None},
    )


@nox.session(**HERE)
def version(session: nox.Session) -> None:
    """Checks that all distributions have one version; `-- --set 0.2.0` sets it."""
    session.run("uv", "run", "tools/version.py", *session.posargs)


@nox.session(venv_backend="none", default=False)
def pack(session: nox.Session) -> None:
    """Wheels of the compiled kernels for this platform and every Python, in `dist`."""
    session.run(
        *("uvx", "cibuildwheel>=4,<5", "--output-dir", str(DIST), "backends/native"),
        *session.posargs,
    )
