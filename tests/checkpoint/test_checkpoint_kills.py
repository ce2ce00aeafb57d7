"""Processes that save in a loop are killed at random moments; what they had finished is there.

`pytest -m slow tests/checkpoint/test_checkpoint_kills.py` kills a thousand for each way of saving.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

#: Forks a process that saves in a loop, kills it, looks at what it has left, and forks the next
#: one, which goes on from there. Prints what it has seen.
CAMPAIGN = r"""
import collections, json, os, random, select, signal, sys, time
from pathlib import Path

import numpy as np
import pullback as pb
from pullback.checkpoint import folder

place, kills, background, renumber, seed = Path(sys.argv[1]), *map(int, sys.argv[2:])
random.seed(seed)


def objects():
    small, large = pb.Variable(np.zeros(3)), pb.Variable(np.zeros((100, 500), np.float32))
    return pb.Checkpoint(small=small, large=large, generator=pb.Generator(0), step=0)


def save_in_a_loop(report):
    checkpoint = objects()
    manager = pb.CheckpointManager(
        checkpoint, place, keep=3 if renumber else 2, keep_best=1, background=background
    )
    manager.restore_latest()
    os.write(report, (0).to_bytes(8, "little"))
    while True:
        checkpoint.step = step = checkpoint.step + 1
        checkpoint.small.assign(np.full(3, step, float))
        checkpoint.large.assign(np.full((100, 500), step, np.float32))
        checkpoint.generator.seed(step)
        manager.save(step=step % 3 if renumber else step, metric=step % 7)
        if background and step % 3:
            continue
        manager.wait()
        os.write(report, step.to_bytes(8, "little"))


def step_of(contents):
    # Whatever is taken for whole is of one moment.
    step = contents.data["step"]
    assert (contents.arrays["small"] == step).all(), contents.arrays["small"]
    assert (contents.arrays["large"] == step).all()
    assert contents.states["generator"]["value"]["key"] == hex(step)
    return step


def reported(read):
    steps = []
    while select.select([read], [], [], 0)[0]:
        data = os.read(read, 8)
        if not data:
            break
        steps.append(int.from_bytes(data, "little"))
    return steps


def awaited(number):
    # How many reports a process may make before its time runs: that it has begun, and a step.
    return 2 if number % 10 == 0 else int(random.random() < 0.9)


seen = collections.Counter()
finished = 0
pace = 0.02
begin = time.monotonic()
for number in range(kills):
    read, write = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            save_in_a_loop(write)
        finally:
            os._exit(1)
    os.close(write)
    # Most have begun to save, one in ten has finished something: it goes on, however slow the disk.
    steps = [int.from_bytes(os.read(read, 8), "little") for _ in range(awaited(number))]
    began = time.monotonic()
    time.sleep(random.uniform(0, 3 * pace))
    os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    assert os.WIFSIGNALED(status), "it ended by itself"
    later = reported(read)
    os.close(read)
    # Delays about as long as saving takes.
    pace = 0.9 * pace + 0.1 * (time.monotonic() - began) / len(later) if later else 1.1 * pace
    finished = max([finished, *steps, *later])

    latest = pb.latest_checkpoint(place)
    if latest is None:
        assert finished == 0, f"{finished} was finished, and there is none"
        continue
    contents = folder.read(latest)
    step = step_of(contents)
    assert step >= finished, f"{finished} was finished, the newest is {step}"
    # One was under way, and those that were waiting or not reported yet.
    assert step <= finished + 1 + (background + 3 if background else 0)
    checkpoint = objects()
    checkpoint.restore(latest).assert_complete()
    assert checkpoint.step == step
    seen["newest was finished" if step == finished else "newest was whole, not reported"] += 1
    finished = step
    for entry in sorted(place.iterdir()):
        if entry.name.startswith("."):
            seen["left: " + entry.name.rpartition(".")[2]] += 1
            continue
        try:
            step_of(folder.read(entry))
            seen["whole"] += 1
        except pb.errors.CheckpointError:
            seen["partial, refused"] += 1
            assert str(entry) != latest
print(json.dumps({"seconds": time.monotonic() - begin, "steps": finished, **seen}))
"""

WAYS = {
    "in save": (0, 0),
    "in save, replacing": (0, 1),
    "in the background": (2, 0),
    "in the background, replacing": (2, 1),
}


def campaign(tmp_path, way, kills):
    background, renumber = WAYS[way]
    arguments = [str(tmp_path / "run"), kills, background, renumber, len(way)]
    done = subprocess.run(
        [sys.executable, "-c", CAMPAIGN, *map(str, arguments)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    seen = json.loads(done.stdout)
    print(way, seen)
    assert seen["steps"] > 0
    return seen


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_some_kills(tmp_path, way):
    campaign(tmp_path, way, 10)


@pytest.mark.campaign
@pytest.mark.parametrize("way", WAYS)
def test_a_thousand_kills(tmp_path, way):
    seen = campaign(tmp_path, way, 1000)
    # They have hit what is worth hitting.
    assert seen["left: tmp"] > 50
