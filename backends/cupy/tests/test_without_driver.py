"""A machine without a GPU, a driver or CuPy: the plugin says what is missing, all else works."""

import ctypes
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import pullback as pb
from pullback_cupy import Unusable, driver

HERE = Path(__file__).parent
ROOT = HERE.parents[2]


class Driver:
    """libcuda of a machine."""

    def __init__(self, init=0, devices=0):
        self.init, self.devices = init, devices

    def cuInit(self, flags):
        return self.init

    def cuDeviceGetCount(self, count):
        count._obj.value = self.devices
        return 0


def missing(name):
    raise OSError(f"{name}: cannot open shared object file")


@pytest.mark.parametrize(
    ("library", "there", "says"),
    [
        (missing, True, "no NVIDIA driver was found"),
        (lambda _: Driver(init=100), True, "shows no GPU; see what `nvidia-smi`"),
        (lambda _: Driver(init=999), True, r"does not start \(error 999\); install"),
        (lambda _: Driver(devices=0), True, "shows no GPU"),
        (lambda _: Driver(devices=1), False, r"CuPy is not installed; pip install 'pullback-cupy"),
    ],
)
def test_what_is_missing_is_said_with_what_to_do(library, there, says, monkeypatch):
    monkeypatch.setattr(ctypes, "CDLL", library)
    monkeypatch.setattr(driver.importlib.util, "find_spec", lambda name: there or None)
    assert re.search(says, driver.problem())


def test_nothing_is_missing(monkeypatch):
    monkeypatch.setattr(ctypes, "CDLL", lambda _: Driver(devices=2))
    monkeypatch.setattr(driver.importlib.util, "find_spec", lambda name: object())
    assert driver.problem() is None


def test_what_stands_for_it_cannot_be_used():
    stand_in = Unusable("there is no GPU; buy one")
    assert stand_in.unusable() == "there is no GPU; buy one"
    assert stand_in.device_count("gpu") == 0
    assert not stand_in.kernels


def program(code, tmp_path, python=sys.executable, status=0):
    """Runs a program that finds the plugin as pip leaves it, and nothing else of the tests."""
    site = tmp_path / "site"
    if not site.exists():
        site.mkdir()
        os.symlink(HERE.parent / "src" / "pullback_cupy", site / "pullback_cupy")
        info = site / "pullback_cupy-0.1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: pullback-cupy\nVersion: 0.1\n")
        (info / "entry_points.txt").write_text(
            "[pullback.backends.gpu]\ncupy = pullback_cupy\n"
            "[pullback.default.gpu]\ncupy = pullback_cupy\n"
        )
    given = {**os.environ, "PYTHONPATH": str(site), "CUDA_VISIBLE_DEVICES": ""}
    given.pop("PULLBACK_DEVICE", None)
    done = subprocess.run(
        [python, *code], cwd=tmp_path, env=given, capture_output=True, text=True, check=False
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_it_is_listed_with_its_reason(tmp_path):
    listed = program(["-m", "pullback", "backends"], tmp_path)
    line = next(line for line in listed.splitlines() if line.startswith("cupy"))
    assert "cannot be used: no NVIDIA driver was found (libcuda.so.1); install" in line


def test_everything_else_works(tmp_path):
    code = (
        "import warnings; warnings.simplefilter('error')\n"
        "import sys, pullback as pb\n"
        "x = pb.asarray([1.0, 2.0])\n"
        "print(x.device, pb.sum(x * x).tolist(), 'cupy' in sys.modules)\n"
        "try: pb.device('gpu')\n"
        "except pb.errors.BackendError as error: print(type(error).__name__, error)\n"
    )
    out = program(["-c", code], tmp_path)
    assert out.startswith("cpu:0 5.0 False\n")
    assert "NVIDIA driver" in out
    assert "install" in out or "nvidia-smi" in out


@pytest.mark.slow
def test_the_real_cupy_without_a_driver(tmp_path):
    """A new environment with CuPy and NVRTC from the package index: 100 MB."""
    if driver.problem() is None:
        pytest.skip("there is a driver: tests/gpu/run tests the real CuPy")
    folder = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    python = str(folder / "bin" / "python")
    subprocess.run(
        [python, "-m", "pip", "install", "--quiet", str(ROOT / "core"),
         str(ROOT / "backends" / "numpy"), "cupy-cuda13x>=14,<15",
         "cuda-toolkit[cudart,nvrtc]==13.*"],
        check=True,
    )  # fmt: skip
    listed = program(["-m", "pullback", "backends"], tmp_path, python)
    assert "NVIDIA driver" in listed
    out = program([str(HERE / "real_sources.py"), "80"], tmp_path, python)
    assert out.count("compiles") == 2
    # CuPy's names, to which the stand-in keeps.
    program(["-c", "import pullback_cupy.kernels as k; print(len(k.KERNELS))"], tmp_path, python)


def test_a_named_device_says_why(tmp_path):
    code = "import pullback as pb\npb.device('cupy:gpu')"
    assert "NVIDIA driver" in program(["-c", code], tmp_path, status=1)


def test_the_plugin_of_this_process_is_the_backend(device):
    assert device.backend.name == "cupy"
    assert str(device) in {str(one) for one in pb.devices("gpu")}
