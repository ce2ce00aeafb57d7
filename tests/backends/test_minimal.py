"""The example of a minimal backend: it has the core primitives, and every other op its body."""

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from functools import wraps
from itertools import chain
from pathlib import Path

import numpy as np
import pytest

import pullback as pb
from pullback.devices import as_device
from pullback.spec import OPS, Tier
from pullback_conformance import checks, gradients, plan
from pullback_conformance.samples import load

ROOT = Path(__file__).resolve().parents[2]
PROJECT = ROOT / "examples" / "minimal_backend"


def example():
    """The example's module, from where it lies."""
    path = PROJECT / "src" / "pullback_minimal" / "__init__.py"
    spec = importlib.util.spec_from_file_location("pullback_minimal", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


pb.register_backend(example().MinimalBackend(), replace=True)
MINIMAL = as_device("minimal")

SUITES = load()
NAMES = [name for name in SUITES if name in OPS]

NEURAL = {
    "activations", "softmax", "losses", "convolution", "pooling", "normalization",
    "batch_normalization", "attention", "recurrent", "random", "optimizer_updates",
    "adaptive_updates", "clipping",
}  # fmt: skip


def over(names):
    return pytest.mark.parametrize("name", names)


def of_the_core(check):
    """A check of an op that may ask for a primitive of another tier, never for one of the core."""

    @wraps(check)
    def checked(case):
        missing = None
        try:
            check(case)
        except pb.errors.MissingKernelError as error:
            missing = error.tier
        assert missing not in MINIMAL.backend.tiers

    return checked


def test_it_has_the_core_and_nothing_else():
    core = {op.name for op in OPS.values() if op.primitive and op.tier == Tier.CORE}
    assert set(MINIMAL.backend.kernels) == core


@over(NAMES)
def test_values(name, every, kit):
    every(kit(MINIMAL).once(name), *map(of_the_core, (checks.value, checks.rules)))


# As in a run of the kit: bodies call ops that are measured by themselves.
@over([name for name in NAMES if name in MINIMAL.backend.kernels])
def test_inputs_are_unchanged(name, every, kit):
    every(kit(MINIMAL).once(name), of_the_core(checks.unchanged))


@over([name for name in NAMES if OPS[name].differentiable])
def test_gradients(name, every, kit):
    """One sample of each op; all in the campaign."""
    every(kit(MINIMAL).smooth(name, ["float64"])[:1], of_the_core(gradients.gradient))


@pytest.mark.campaign
@over(NAMES)
def test_everything(name, every, kit):
    every(kit(MINIMAL).cases(name), *(of_the_core(check.function) for check in plan.EACH))


def test_networks_need_the_core_alone(kit):
    beyond = set()
    for case in chain(*map(kit(MINIMAL).once, NAMES)):
        if case.op.family in NEURAL:
            try:
                case.call()
            except pb.errors.MissingKernelError as error:
                beyond.add((case.op.name, str(error.tier)))
    assert beyond == set()


def test_a_primitive_of_another_tier_names_what_is_missing():
    with pytest.raises(
        pb.errors.MissingKernelError,
        match="inv: solve: the backend 'minimal' has no kernel for this primitive of the linalg",
    ):
        pb.linalg.inv(pb.eye(2, device="minimal"))


def test_a_small_network_learns():
    rng = np.random.default_rng(0)
    images = rng.normal(size=(32, 6, 6, 1)).astype(np.float32)
    labels = (images.mean((1, 2, 3)) > 0).astype(np.int32)
    with pb.device("minimal"):
        model = pb.Sequential(
            [
                pb.layers.Conv2D(4, 3, padding="same", activation="relu"),
                pb.layers.MaxPool2D(2),
                pb.layers.Flatten(),
                pb.layers.Dense(2),
            ]
        )
        optimizer = pb.optimizers.Adam(0.02)
        losses = []
        for _ in range(20):
            with pb.GradientTape() as tape:
                loss = pb.losses.sparse_softmax_cross_entropy(labels, model(images))
            variables = model.trainable_variables
            optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
            losses.append(float(loss))
    assert str(loss.device) == "minimal:cpu:0"
    assert losses[-1] < 0.5 * losses[0]


@pytest.mark.slow
def test_its_wheel_trains_the_digits(tmp_path):
    venv.create(tmp_path / "venv")
    python = tmp_path / "venv" / "bin" / "python"
    site = next((tmp_path / "venv").glob("lib/python*/site-packages"))
    # What the example needs comes from here; the example itself is installed.
    parent = sysconfig.get_path("purelib")
    (site / "parent.pth").write_text(f"import site; site.addsitedir({parent!r})\n")
    source = shutil.copytree(PROJECT, tmp_path / "source")
    uv = shutil.which("uv")
    install = [uv, "pip"] if uv else [sys.executable, "-m", "pip", f"--python={python}"]
    install += ["install", "--no-deps", *([f"--python={python}"] if uv else []), source]
    subprocess.run(install, check=True, capture_output=True)

    clean = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PULLBACK_DEVICE")}
    script = [python, ROOT / "examples" / "digits.py", "--device", "minimal:cpu:0", "--epochs", "2"]
    done = subprocess.run(
        script, cwd=tmp_path, env=clean, check=True, capture_output=True, text=True
    )
    assert float(done.stdout.rpartition("test accuracy: ")[2]) > 0.8
