"""The worked examples learn what their pages say, and their pages show all of them."""

from __future__ import annotations

import importlib.util
import re
import runpy
from pathlib import Path

import numpy as np
import pytest

import pullback as pb

ROOT = Path(__file__).parents[2]


def load(path: Path):
    spec = importlib.util.spec_from_file_location(f"of_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


examples = load(Path(__file__).with_name("test_examples.py"))
gallery = load(ROOT / "docs" / "gallery.py")
blocks = load(Path(__file__).with_name("test_docs.py")).blocks


def said(name, *options):
    """The numbers of each line of the output, by what stands before its first colon."""
    lines = examples.run(f"gallery/{name}", *options).splitlines()
    return {line.partition(":")[0]: examples.numbers(line) for line in lines if ":" in line}


def test_each_program_has_a_page_and_a_picture():
    programs = {path.stem for path in gallery.PROGRAMS.glob("*.py")}
    assert set(gallery.NAMES) == programs
    listed = (ROOT / "docs" / "examples.md").read_text("utf-8")
    for name in programs:
        assert f"](gallery/{name}.md)" in listed
        assert (ROOT / "docs" / "images" / "gallery" / f"{name}.png").is_file()


@pytest.mark.parametrize("name", gallery.NAMES)
def test_pages_show_all_of_a_program(name, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(gallery.page(name), encoding="utf-8")
    shown = [text for language, _, text in blocks(page) if language == "python"]
    source = (gallery.PROGRAMS / f"{name}.py").read_text("utf-8")
    code = re.sub(r"^# .*\n", "", source.split('"""', 2)[2], flags=re.MULTILINE)
    assert "".join("".join(shown).split()) == "".join(code.split())
    assert max(map(len, source.splitlines())) <= 95
    assert "# %%" not in page.read_text("utf-8")


@pytest.mark.slow
class TestResults:
    def test_gpt(self):
        found = said("gpt", "--steps", 700)
        one, two = found["entropy of a character"]
        (loss,) = found["loss in text not trained on"]
        # A table of pairs of letters comes to the second; only more context is better.
        assert loss < two < one

    def test_gpt_caches_what_it_computes(self, monkeypatch):
        monkeypatch.setattr("sys.argv", ["gpt"])
        program = runpy.run_path(str(gallery.PROGRAMS / "gpt.py"))
        model, length = program["GPT"](7, width=16), program["LENGTH"]
        ids = np.random.default_rng(0).integers(0, 7, (2, length)).astype(np.int32)
        whole, cache = model(ids).numpy(), model.empty(2)
        for i in range(length):
            logits, cache = model.step(ids[:, i : i + 1], cache, pb.asarray(i))
            np.testing.assert_allclose(logits.numpy(), whole[:, i], atol=1e-5)

    def test_resnet(self):
        found = said("resnet", "--epochs", 10)
        # As good as a linear classifier, and well above what is common: 9 of 10.
        assert found["linear"][0] > 0.9
        assert found["ResNet"][0] > found["linear"][0] - 0.01

    def test_diffusion(self):
        found = said("diffusion", "--steps", 2500)
        # Noise is near the spiral by chance; half of what is not has to come there.
        (noise,), (made,), (true,) = found["noise"], found["made"], found["true"]
        assert noise < 0.3
        assert made > (noise + true) / 2 + 0.1

    def test_ppo(self):
        line = examples.run("gallery/ppo", "--rounds", 30)
        first, last = map(int, re.findall(r": (\d+)", line))
        # Random pushes come to some 22.
        assert first < 40
        assert last > 4 * first

    def test_graph_attention(self):
        found = said("graph_attention")
        # Chance is a quarter.
        assert found["without"][0] > 0.3
        assert found["with citations"][0] > found["without"][0] + 0.15

    def test_pinn(self):
        found = said("pinn", "--steps", 1000)
        # Of the start alone, which the model has without training, the error is above a half.
        assert found["error beside the true solution"][0] < 1

    def test_neural_ode(self):
        line = examples.run("gallery/neural_ode").splitlines()[-1]
        error, swing = examples.numbers(line)
        assert error < swing / 5

    def test_maml(self):
        alike, (before, after) = (
            said("maml", "--steps", 1500)[name] for name in ("on all alike", "MAML")
        )
        # The mean over heights from 0.1 to 5 of a sine's square: what a constant 0 comes to.
        assert alike[0] < 5
        assert after < before / 3
        assert after < alike[1] / 3

    def test_dp_sgd(self):
        text = examples.run("gallery/dp_sgd", "--noise", 0, 2, "--steps", 100)
        plain, private = (examples.numbers(line)[-1] for line in text.splitlines())
        assert plain > 0.9
        assert 0.5 < private <= plain + 0.02

    def test_epsilon_of_the_whole_batch_is_that_of_the_gaussian_mechanism(self, monkeypatch):
        monkeypatch.setattr("sys.argv", ["dp_sgd"])
        program = runpy.run_path(str(gallery.PROGRAMS / "dp_sgd.py"))
        noise, steps = 5.0, 10
        # Where each example is in each batch, the divergence of order a is a / (2 noise^2).
        orders = np.arange(2, 33)
        told = steps * orders / (2 * noise**2) + np.log(1 / program["DELTA"]) / (orders - 1)
        assert program["epsilon"](noise, 1.0, steps) == pytest.approx(told.min())
        assert program["epsilon"](noise, 0.1, steps) < told.min() / 3

    def test_fine_tuning(self):
        found = said("fine_tuning")
        assert found["from the file"][0] > max(0.8, found["from nothing"][0])

    def test_plot(self, tmp_path):
        options = ("--steps", 30, "--plot", tmp_path / "picture.png")
        examples.run("gallery/pinn", *options)
        assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
