"""The examples run, and come to what they say."""

from __future__ import annotations

import gzip
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import pullback as pb

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
NAMES = EXAMPLES / "data" / "pokemon_names.txt"
NAMED = sorted(path.stem for path in EXAMPLES.glob("*.py"))
GALLERY = sorted(f"gallery/{path.stem}" for path in EXAMPLES.glob("gallery/*.py"))


def start(name, *options, cwd=None):
    # On one thread results, and times on a busy machine, vary less.
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, str(EXAMPLES / f"{name}.py"), *map(str, options)],
        cwd=cwd, env=environment, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip


def run(name, *options, cwd=None):
    """Returns the output of an example."""
    done = start(name, *options, cwd=cwd)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def numbers(line):
    return [float(word) for word in re.findall(r"-?\d+\.\d+(?:e[-+]\d+)?", line)]


def row(text, name):
    (line,) = [line for line in text.splitlines() if line.startswith(name)]
    return numbers(line)


@pytest.mark.slow
@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", NAMED + GALLERY)
def test_says_what_it_is_for(name):
    source = (EXAMPLES / f"{name}.py").read_text(encoding="utf-8")
    first = source.splitlines()[0].removeprefix('"""')
    assert first.endswith(".")
    told = run(name, "--help")
    assert " ".join(first.split()) in " ".join(told.split())
    assert ("--plot" if name in GALLERY else "--device") in told
    assert ("--seed" in told) == ("seed" in source)


@pytest.mark.slow
@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", NAMED)
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


@pytest.mark.slow
def test_linear_fit():
    text = run("linear_fit")
    first = numbers(text.splitlines()[1])
    assert first == pytest.approx([70, 70], abs=7)
    for name, width in (("by hand", 0.3), ("model", 0.15)):
        assert row(text, name) == pytest.approx([1, 3, 2], abs=width)
    assert text == run("linear_fit")
    assert text != run("linear_fit", "--seed", 1)


@pytest.mark.slow
def test_line_search():
    text = run("line_search", "--steps", 200)
    values = [numbers(line) for line in text.splitlines()[1:] if re.match(r" +\d+ ", line)]
    assert [value for value, *_ in values] == sorted((v for v, *_ in values), reverse=True)
    assert values[0] == [6.776, -1.2, 1.0]
    assert values[-1][1:] == pytest.approx([1, 1], abs=0.02)
    (tape,), (difference,) = row(text, "by the tape"), row(text, "by differences")
    assert tape == pytest.approx(difference, abs=1e-6)


@pytest.mark.slow
def test_custom_gradients():
    text = run("custom_gradients")
    assert row(text, "   0.0") == [0.0, 0.5, 0.5]
    assert re.search(r"^ 100\.0 +nan +1\.000000$", text, re.MULTILINE)
    assert row(text, "clipped to 1") == [0.6, 0.8, 1.0]


@pytest.mark.slow
def test_matmul_devices():
    text = run("matmul_devices", "--size", 50, "--steps", 20)
    assert "(50, 50) by itself, 20 times:" in text
    assert re.search(r"^CPU: \d+\.\d{3} s, ", text, re.MULTILINE)
    gpu = r"^GPU: \d+\.\d{3} s, " if pb.devices("gpu") else r"^GPU: not found$"
    assert re.search(gpu, text, re.MULTILINE)


# Registers the backend of `examples/minimal_backend`, and runs an example.
ON_MINIMAL = """
import runpy, pullback as pb
minimal = runpy.run_path(sys.argv.pop(1))
pb.register_backend(minimal["MinimalBackend"]())
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("collatz", ()),
        ("custom_gradients", ()),
        ("line_search", ("--steps", "20")),
        ("linear_fit", ()),
        ("matmul_devices", ("--size", "20", "--steps", "5")),
    ],
)
def test_runs_on_the_smallest_backend(name, options):
    code = f"import sys; sys.argv[0] = {str(EXAMPLES / f'{name}.py')!r}; {ON_MINIMAL}"
    backend = EXAMPLES / "minimal_backend" / "src" / "pullback_minimal" / "__init__.py"
    done = subprocess.run(
        [sys.executable, "-c", code, str(backend), *options, "--device", "minimal"],
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    if name in ("collatz", "custom_gradients"):
        assert done.stdout == run(name, *options)


def made_up(text):
    """The names of the table that stands at the end."""
    _, table = text.split("\n\n")
    return re.findall(r"\S+(?: \S+)*", table)


@pytest.mark.slow
def test_names_quickly():
    options = ("--epochs", 2, "--units", 32, "--count", 12)
    text = run("names", *options)
    assert re.match(r"loss of a character: \d\.\d+; in names not trained on: \d\.\d+\n", text)
    assert len(made_up(text)) == 12
    assert text == run("names", *options)
    assert text != run("names", *options, "--seed", 1)


@pytest.mark.campaign
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
def test_words():
    text = run("words", "--epochs", 3, "--say", "the tea was not cold", "--say", "the tea was cold")
    accuracy, praise, complaint = text.splitlines()
    assert numbers(accuracy)[0] > 0.95
    assert numbers(praise)[0] > 90
    assert numbers(complaint)[0] < 10


@pytest.mark.slow
def test_gan_ring(tmp_path):
    text = run("gan_ring", "--epochs", 20, "--picture", "ring.png", cwd=tmp_path)
    assert row(text, "points near a centre")[0] > 0.9
    assert min(row(text, "of each centre")) > 0.05
    assert (tmp_path / "ring.png").read_bytes().startswith(b"\x89PNG")


def idx(array):
    """An array of bytes as an IDX file."""
    sizes = b"".join(size.to_bytes(4, "big") for size in array.shape)
    return bytes([0, 0, 8, array.ndim]) + sizes + array.tobytes()


@pytest.fixture(scope="module")
def clothes(tmp_path_factory):
    """A folder of IDX files like Fashion-MNIST's, with few images that are easy to tell apart."""
    folder = tmp_path_factory.mktemp("clothes")
    rng = np.random.default_rng(0)
    for part, count in (("train", 60), ("t10k", 30)):
        labels = (np.arange(count) % 10).astype(np.uint8)
        images = rng.integers(0, 50, (count, 28, 28), dtype=np.uint8)
        for image, label in zip(images, labels, strict=True):
            image[2 * label : 2 * label + 9] += 200
        # One part as Debian has it, the other unpacked.
        for name, array in (("images-idx3", images), ("labels-idx1", labels)):
            file = folder / f"{part}-{name}-ubyte"
            if part == "train":
                file.with_name(f"{file.name}.gz").write_bytes(gzip.compress(idx(array)))
            else:
                file.write_bytes(idx(array))
    return folder


@pytest.mark.slow
def test_fashion_quickly(clothes, tmp_path):
    options = ("--data", clothes, "--batch-size", 5, "--seed", 3)
    straight, resumed = tmp_path / "straight", tmp_path / "resumed"
    straight.mkdir()
    resumed.mkdir()
    text = run("fashion_cnn_lstm", *options, "--epochs", 2, cwd=straight)
    assert re.search(r"^T-shirt +\d+\.\d%", text, re.MULTILINE)
    assert "checkpoints: fashion_checkpoints  logs: fashion_logs  picture: fashion.png" in text
    assert re.search(r"^test accuracy: [01]\.\d{4}$", text.splitlines()[-1])
    assert (straight / "fashion.png").read_bytes().startswith(b"\x89PNG")
    logs = EventAccumulator(str(straight / "fashion_logs"))
    logs.Reload()
    assert [event.step for event in logs.Scalars("test accuracy")] == [12, 24]
    assert {"loss of a batch", "loss", "accuracy", "test loss"} <= {*logs.Tags()["scalars"]}

    # Stopped after one epoch of two, and gone on with.
    code = f"import sys; sys.argv[0] = {str(EXAMPLES / 'fashion_cnn_lstm.py')!r}; {INTERRUPTED}"
    stopped = [sys.executable, "-c", code, *map(str, options), "--epochs", "2"]
    done = subprocess.run(stopped, cwd=resumed, capture_output=True, text=True, check=False)
    assert "interrupted after an epoch" in done.stderr, done.stderr[-2000:]
    again = run("fashion_cnn_lstm", *options, "--epochs", 2, "--resume", cwd=resumed)
    assert again.startswith("resumed after epoch 1\n")
    assert again.partition("\n")[2] == text
    done = start("fashion_cnn_lstm", "--data", clothes, "--epochs", 2, "--resume", cwd=resumed)
    assert done.returncode == 2
    assert "had --seed 3" in done.stderr


# Runs an example, and raises when it has saved its first checkpoint.
INTERRUPTED = """
import runpy, pullback as pb
save = pb.CheckpointManager.save
def stop(self, *args, **kwargs):
    save(self, *args, **kwargs)
    raise RuntimeError("interrupted after an epoch")
pb.CheckpointManager.save = stop
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.mark.slow
def test_fashion_says_where_the_data_are_to_be_had(tmp_path):
    done = start("fashion_cnn_lstm", "--data", tmp_path)
    assert done.returncode == 2
    told = " ".join(done.stderr.split())
    assert f"not in {tmp_path}: there is no train-images-idx3-ubyte" in told
    assert "apt install dataset-fashion-mnist" in told
    assert "--data" in told
    (tmp_path / "train-images-idx3-ubyte").write_bytes(b"no such thing")
    done = start("fashion_cnn_lstm", "--data", tmp_path)
    assert done.returncode == 2
    assert "is not an IDX file" in done.stderr


@pytest.mark.campaign
def test_fashion(tmp_path):
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "2", "OMP_NUM_THREADS": "2"}
    begun = time.monotonic()
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "fashion_cnn_lstm.py")],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    print(f"{time.monotonic() - begun:.0f} s", done.stdout, sep="\n")
    assert float(done.stdout.split()[-1]) >= 0.89


def told(text, title):
    """The stories under a title."""
    stories = text.partition(f"{title}:\n")[2].partition("\n\n")[0]
    return [line.strip() for line in stories.splitlines()]


@pytest.mark.slow
def test_transformer_quickly():
    options = ("--steps", 3, "--width", 16, "--count", 2, "--batch-size", 8)
    text = run("transformer", *options)
    assert len(told(text, "Before training")) == len(told(text, "After training")) == 2
    assert re.search(r"^loss of a word: \d\.\d+; in stories not trained on: \d", text, re.MULTILINE)
    assert row_of_shares(text, "are stories") == [0, 0]
    assert text == run("transformer", *options)
    done = start("transformer", *options, "--prompt", "Anna has a unicorn.")
    assert done.returncode == 2
    assert "--prompt: a, unicorn" in done.stderr


def row_of_shares(text, name):
    (line,) = [line for line in text.splitlines() if line.startswith(name)]
    return [int(share) for share in re.findall(r"(\d+)%", line)]


@pytest.mark.slow
def test_many_processes():
    """On ranks that are threads; the tests of pullback-mpi start processes."""
    text = run("many_processes", "--threads", 2, "--epochs", 4)
    assert numbers(text.splitlines()[-1])[-1] > 0.85


@pytest.mark.campaign
def test_transformer():
    prompt = "Anna has nine eggs. She loses four."
    text = run("transformer", "--prompt", prompt)
    assert f"{prompt} Now she has five eggs." in told(text, "After training")
    text = run("transformer")
    assert row_of_shares(text, "are stories")[1] >= 95
    assert row_of_shares(text, "keep to one person and thing")[1] >= 90
    assert [share >= 90 for share in row_of_shares(text, "add up")] == [False, True]
    # They are not learned by heart.
    assert row_of_shares(text, "are none of those")[1] >= 50


@pytest.mark.campaign
def test_matmul_devices_at_full_size():
    assert "(1000, 1000) by itself, 200 times:" in run("matmul_devices", "--device", "cpu")


def test_names_come_with_their_license():
    assert len(NAMES.read_text(encoding="utf-8").split()) > 1000
    assert "MIT License" in NAMES.with_name("pokemon_names.LICENSE").read_text(encoding="utf-8")
