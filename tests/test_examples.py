"""The examples run, and come to what they say."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

import pullback as pb

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"
NAMES = EXAMPLES / "data" / "pokemon_names.txt"
SHORT = ["collatz", "custom_gradients", "line_search", "linear_fit", "matmul_devices", "names"]


def start(name, *options, cwd=None):
    # On one thread results, and times on a busy machine, vary less.
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, str(EXAMPLES / f"{name}.py"), *map(str, options)],
        cwd=cwd, env=environment, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip


def run(name, *options, cwd=None):
    """What an example prints."""
    done = start(name, *options, cwd=cwd)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def numbers(line):
    return [float(word) for word in re.findall(r"-?\d+\.\d+(?:e[-+]\d+)?", line)]


def row(text, name):
    (line,) = [line for line in text.splitlines() if line.startswith(name)]
    return numbers(line)


@pytest.mark.parametrize("name", SHORT)
def test_says_what_it_is_for(name):
    source = (EXAMPLES / f"{name}.py").read_text(encoding="utf-8")
    first = source.splitlines()[0].removeprefix('"""')
    assert first.endswith(".")
    told = run(name, "--help")
    assert " ".join(first.split()) in " ".join(told.split())
    assert "--device" in told
    assert ("--seed" in told) == ("seed" in source)


@pytest.mark.parametrize("name", SHORT)
def test_unknown_device_is_refused(name):
    done = start(name, "--device", "abacus")
    assert done.returncode == 2
    assert "abacus" in done.stderr
    assert "Traceback" not in done.stderr


def test_every_example_is_in_the_list():
    listed = (ROOT / "docs" / "examples.md").read_text(encoding="utf-8")
    for path in EXAMPLES.glob("*.py"):
        assert f"examples/{path.name}" in listed


def test_collatz():
    assert "12: 6, 3, 10, 5, 16, 8, 4, 2, 1\n" in run("collatz")
    # Its highest number is more than 32 bits hold.
    assert run("collatz", 1, 837799).splitlines()[-1].split() == ["837799", "524", "2974984576"]


def test_linear_fit():
    text = run("linear_fit")
    first = numbers(text.splitlines()[1])
    assert first == pytest.approx([70, 70], abs=7)
    for name, width in (("by hand", 0.3), ("model", 0.15)):
        assert row(text, name) == pytest.approx([1, 3, 2], abs=width)
    assert text == run("linear_fit")
    assert text != run("linear_fit", "--seed", 1)


def test_line_search():
    text = run("line_search", "--steps", 200)
    values = [numbers(line) for line in text.splitlines()[1:] if re.match(r" +\d+ ", line)]
    assert [value for value, *_ in values] == sorted((v for v, *_ in values), reverse=True)
    assert values[0] == [6.776, -1.2, 1.0]
    assert values[-1][1:] == pytest.approx([1, 1], abs=0.02)
    (tape,), (difference,) = row(text, "by the tape"), row(text, "by differences")
    assert tape == pytest.approx(difference, abs=1e-6)


def test_custom_gradients():
    text = run("custom_gradients")
    assert row(text, "   0.0") == [0.0, 0.5, 0.5]
    assert re.search(r"^ 100\.0 +nan +1\.000000$", text, re.MULTILINE)
    assert row(text, "clipped to 1") == [0.6, 0.8, 1.0]


def test_matmul_devices():
    text = run("matmul_devices", "--size", 50, "--steps", 20)
    assert "(50, 50) by itself, 20 times:" in text
    assert re.search(r"^CPU: \d+\.\d{3} s, ", text, re.MULTILINE)
    gpu = r"^GPU: \d+\.\d{3} s, " if pb.devices("gpu") else r"^GPU: not found$"
    assert re.search(gpu, text, re.MULTILINE)


def made_up(text):
    """The names of the table that stands at the end."""
    _, table = text.split("\n\n")
    return re.findall(r"\S+(?: \S+)*", table)


def test_names_quickly():
    options = ("--epochs", 2, "--units", 32, "--count", 12)
    text = run("names", *options)
    assert re.match(r"loss of a character: \d\.\d+; in names not trained on: \d\.\d+\n", text)
    assert len(made_up(text)) == 12
    assert text == run("names", *options)
    assert text != run("names", *options, "--seed", 1)


@pytest.mark.slow
def test_names():
    begun = time.monotonic()
    text = run("names")
    assert time.monotonic() - begun < 60
    # Chance is log(62) = 4.1, and the frequencies of single characters come to 3.0.
    assert max(numbers(text.splitlines()[0])) < 2.6
    known = {name.strip().lower() for name in NAMES.read_text(encoding="utf-8").splitlines()}
    found = made_up(text)
    assert len(found) == len(set(found)) == 30
    assert not known & {name.lower() for name in found}


@pytest.mark.slow
def test_matmul_devices_at_full_size():
    assert "(1000, 1000) by itself, 200 times:" in run("matmul_devices", "--device", "cpu")


def test_names_come_with_their_license():
    assert len(NAMES.read_text(encoding="utf-8").split()) > 1000
    assert "MIT License" in NAMES.with_name("pokemon_names.LICENSE").read_text(encoding="utf-8")
