"""Checks that tests of MPI and of gloo share, on ranks that they start."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

#: Prints what must not depend on the number of ranks.
AGREEMENT = Path(__file__).with_name("agreement.py")


def check_training(start, model, sums):
    """Checks that the losses of 52 steps, every fourth with 6 items, agree on 1, 2 and 4 ranks.

    Args:
        start: runs a program with arguments on so many ranks, and returns the finished process.
        model: the model in `agreement.py`.
        sums: "exact" or "plain".
    """
    losses = {}
    for ranks in (1, 2, 4):
        found = start(ranks, AGREEMENT, model, sums)
        assert found.returncode == 0, found.stderr
        (line,) = (line for line in found.stdout.splitlines() if line.startswith("losses"))
        losses[ranks] = [float(number) for number in line.split()[1:]]
    for ranks in (2, 4):
        assert len(losses[ranks]) == 52
        assert losses[ranks] == pytest.approx(losses[1], rel=1e-6)


def check_pieces(start, ranks):
    """Checks that exact sums have the bits of one process that adds pieces in pairs."""
    found = start(ranks, AGREEMENT, "pieces")
    assert found.returncode == 0, found.stderr
    assert "".join(found.stdout.split()) == "same" * ranks


def check_checkpoints(start, folder):
    """Checks that 1, 2 and 4 ranks read, bit for bit, what other numbers of them have written."""
    before = None
    for number, ranks in enumerate((2, 4, 1, 2), 1):
        found = start(ranks, AGREEMENT, "checkpoint", str(folder))
        assert found.returncode == 0, found.stderr
        words = found.stdout.replace("digests", " digests ").split()
        lines = {tuple(words[i + 1 : i + 3]) for i, word in enumerate(words) if word == "digests"}
        assert len(lines) == 1, found.stdout
        ((begun, ended),) = lines
        assert before in (None, begun)
        before = ended
        saved = folder / f"ckpt-{number}"
        assert len(list(saved.glob("*.safetensors"))) == ranks
        assert [path.name for path in folder.iterdir() if path.name.startswith(".")] == []


def meeting(ranks: int) -> dict[str, str]:
    """Returns the variables that torchrun would set for so many ranks."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    return {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(ranks)}


def start(
    ranks: int, command: list[str], folder: Path, name: str, package: str
) -> list[tuple[int, str]]:
    """Runs a command on ranks that torchrun would number; their exit codes and what they print.

    Args:
        ranks: the number of ranks.
        command: the command.
        folder: where a distribution with the entry point is written, if none is installed.
        name: the communicator.
        package: the package that has it.
    """
    if not entry_points(group="pullback.communicators", name=name):
        here = folder / "here-1.dist-info"
        here.mkdir()
        (here / "METADATA").write_text("Metadata-Version: 2.1\nName: here\nVersion: 1\n")
        entry = f"[pullback.communicators]\n{name} = {package}.communicator\n"
        (here / "entry_points.txt").write_text(entry)
    paths = os.pathsep.join([str(folder), *sys.path])
    shared = {**os.environ, **meeting(ranks), "PYTHONPATH": paths}
    started = [
        subprocess.Popen(
            command, env={**shared, "RANK": str(rank)}, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )
        for rank in range(ranks)
    ]  # fmt: skip
    return [(one.wait(), text) for one in started for text in one.communicate()[:1]]


def trained_on(device: str) -> str:
    """Returns the text that trains on a device, after `init`, and prints the losses."""
    return f"""
        with pb.device({device!r}):
            layers = [pb.layers.Dense(8, activation="tanh"), pb.layers.Dense(1)]
            model = pb.layers.Sequential(layers)
            x = pb.random.normal((8, 4))
            y = pb.sum(x, axis=1, keepdims=True)
            model.compile(pb.optimizers.SGD(0.1), "mean_squared_error", distributed=True)
            history = model.fit(x, y, batch_size=4, epochs=3, verbose=0)
        print("losses", history.history["loss"])
    """


def check_alike(found: list[tuple[int, str]]) -> None:
    """Checks that two ranks have ended well, and printed the same losses."""
    losses = [line for _, shown in found for line in shown.splitlines() if line[:6] == "losses"]
    assert [code for code, _ in found] == [0, 0], found
    assert len(losses) == 2
    assert losses[0] == losses[1]


def check_alone(communicator: str, *paths: str) -> None:
    """Checks that a communicator, as "package.module.Class", has one rank without a launcher.

    Args:
        communicator: where its class is.
        paths: folders that are searched before those of this process.
    """
    module, _, name = communicator.rpartition(".")
    code = f"from {module} import {name}; print({name}().size)"
    kept = {k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE")}
    kept["PYTHONPATH"] = os.pathsep.join([*paths, *sys.path])
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=kept)
    assert found.stdout == "1\n", found.stderr
