"""Readers beside a writer: nothing that is complete is lost or hidden, whatever its clock says.

`pytest -m slow tests/checkpoint/test_checkpoint_readers.py` looks more than ten thousand times.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
import types

import pytest

import pullback as pb
from pullback.checkpoint import folder, names, reading

#: One process saves, four look on; prints what they have seen.
CAMPAIGN = r"""
import collections, json, mmap, os, random, struct, sys, time, traceback, types
from pathlib import Path

import numpy as np
import pullback as pb
from pullback.checkpoint import folder, reading

place, looks, keep, naming, background, seed = Path(sys.argv[1]), *map(int, sys.argv[2:])
# The last step that is known to be complete, and one byte for each reader that has ended.
shared = mmap.mmap(-1, 64)


def complete():
    return struct.unpack_from("q", shared)[0]


def write():
    randomly = random.Random(seed)
    now = 10**18

    def jumping():
        # Back and forth by up to a day, and standing still.
        nonlocal now
        now += randomly.choice([0, 0, 1, -1, 10**9, -(10**9), 10**14, -(10**14)])
        return now

    folder.time = types.SimpleNamespace(time_ns=jumping)
    # No machine fails here: saves follow each other as fast as they can.
    os.fsync = lambda descriptor: None
    x = pb.Variable(np.zeros(100))
    checkpoint = pb.Checkpoint(x=x, step=0)
    manager = pb.CheckpointManager(
        checkpoint, place, keep=keep, keep_best=seed % 2, background=background
    )
    while not all(shared[8:12]):
        checkpoint.step += 1
        step = checkpoint.step
        x.assign(np.full(100, float(step)))
        # Counting up, over the same names, and down.
        manager.save(step=(step, step % 3, 10**9 - step)[naming], metric=step % 5)
        if not background or step % 3 == 0:
            manager.wait()
            struct.pack_into("q", shared, 0, step)
    manager.close()


def look(reader, report):
    seen = collections.Counter()
    whole = reading._whole
    found = []

    def watched(path):
        contents = whole(path)
        found[:] = [path, contents]
        return contents

    reading._whole = watched
    manager = pb.CheckpointManager(pb.Checkpoint(), place)
    while not complete():
        time.sleep(0.001)
    for number in range(looks):
        floor = complete()
        try:
            path = manager.latest if number % 2 else pb.latest_checkpoint(place)
            if path is None:
                seen["none"] += 1
                continue
            assert str(found[0]) == path
            step = found[1].data["step"]
            assert (found[1].arrays["x"] == step).all()
            seen["older" if step < floor else "right"] += 1
        except pb.errors.CheckpointError:
            seen["refused"] += 1
        except Exception:
            seen["error " + traceback.format_exc()] += 1
        # What is restored may be gone since: that is said, as an error of ours.
        if number % 5 == 0:
            try:
                manager.checkpoint.restore(path, partial=True)
                manager.best, manager.checkpoints
            except pb.errors.CheckpointError:
                seen["gone when it was restored"] += 1
            except Exception:
                seen["error " + traceback.format_exc()] += 1
    os.write(report, json.dumps(seen).encode())
    shared[8 + reader] = 1


def fork(task, *args):
    pid = os.fork()
    if not pid:
        try:
            task(*args)
            os._exit(0)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    return pid


pipes = [os.pipe() for _ in range(4)]
readers = [fork(look, n, pipe[1]) for n, pipe in enumerate(pipes)]
writer = fork(write)
status = [os.waitpid(pid, 0)[1] for pid in (*readers, writer)]
assert not any(status), status
seen = sum((collections.Counter(json.loads(os.read(p[0], 10**6))) for p in pipes), collections.Counter())
print(json.dumps({"saves": complete(), **seen}))
"""  # noqa: E501

KEEPS = (1, 2, 5)
NAMINGS = {"up": 0, "over": 1, "down": 2}
BACKGROUNDS = (0, 2)
#: For each of four readers, in each of eighteen ways: 10,800 in all.
LOOKS = 150


def campaign(place, looks, keep, naming, background, seed):
    arguments = [place, looks, keep, NAMINGS[naming], background, seed]
    done = subprocess.run(
        [sys.executable, "-c", CAMPAIGN, *map(str, arguments)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    seen = json.loads(done.stdout)
    print(keep, naming, background, seen)
    assert seen["right"] == 4 * looks, seen
    assert not any(kind.startswith("error") for kind in seen), seen
    return seen


@pytest.mark.parametrize(
    ("keep", "naming", "background"), [(1, "up", 0), (2, "over", 0), (2, "down", 2)]
)
def test_some_looks(tmp_path, keep, naming, background):
    campaign(tmp_path / "run", 40, keep, naming, background, keep)


@pytest.mark.campaign
@pytest.mark.parametrize(
    "way",
    [pytest.param(way, id=str(way)) for way in itertools.product(KEEPS, NAMINGS, BACKGROUNDS)],
)
def test_ten_thousand_looks_in_all(tmp_path, way):
    campaign(tmp_path / "run", LOOKS, *way, seed=way[0] + NAMINGS[way[1]])


# ---------------------------------------------------------------------------------------------
# The moments that a campaign hits by chance.


@pytest.fixture
def x():
    return pb.Variable(0.0)


def save(tmp_path, x, step):
    x.assign(float(step))
    return pb.Checkpoint(x=x).save(tmp_path, step=step)


class Clock(types.SimpleNamespace):
    def __init__(self, monkeypatch, now=10**18):
        super().__init__(now=now, time_ns=lambda: self.now)
        monkeypatch.setattr(folder, "time", self)


def rotating(monkeypatch, function, moments):
    """Does something before some of the calls of a function of `reading` or `names`."""
    module, name = function
    inner = getattr(module, name)
    calls = itertools.count(1)

    def meanwhile(*args):
        action = moments.get(next(calls))
        if action is not None:
            action()
        return inner(*args)

    monkeypatch.setattr(module, name, meanwhile)


class TestBesideAWriter:
    @pytest.mark.parametrize(
        ("function", "call"), [("seen", 1), ("seen", 2), ("seen", 3), ("_whole", 1)]
    )
    def test_what_was_listed_is_gone(self, tmp_path, monkeypatch, x, function, call):
        manager = pb.CheckpointManager(pb.Checkpoint(x=x), tmp_path, keep=2)
        manager.save(), manager.save()

        def rotate():
            manager.save(), manager.save(), manager.save()

        # Saving reads manifests as well, and is no reader.
        monkeypatch.setattr(folder, "seen", reading.seen)
        rotating(monkeypatch, (reading, function), {call: rotate})
        first = pb.latest_checkpoint(tmp_path)
        assert first in (str(tmp_path / "ckpt-2"), str(tmp_path / "ckpt-5"))
        assert manager.latest == pb.latest_checkpoint(tmp_path) == str(tmp_path / "ckpt-5")

    def test_the_best_does_not_stand_in_for_the_newest(self, tmp_path, monkeypatch, x):
        manager = pb.CheckpointManager(pb.Checkpoint(x=x), tmp_path, keep=1, keep_best=1)
        manager.save(metric=0.0), manager.save(metric=1.0)
        rotating(monkeypatch, (reading, "_whole"), {1: lambda: manager.save(metric=2.0)})
        assert pb.latest_checkpoint(tmp_path) == str(tmp_path / "ckpt-3")

    def test_aside_when_listed_and_in_its_place_since(self, tmp_path, monkeypatch, x):
        path = save(tmp_path, x, 1)
        os.rename(path, tmp_path / ".ckpt-1.old")
        listed = names.listed

        def slow(place):
            found = listed(place)
            if (tmp_path / ".ckpt-1.old").exists():
                os.rename(tmp_path / ".ckpt-1.old", path)
            return found

        monkeypatch.setattr(names, "listed", slow)
        assert pb.latest_checkpoint(tmp_path) == path

    def test_the_folder_goes(self, tmp_path, monkeypatch, x):
        place = tmp_path / "run"
        place.mkdir()
        save(place, x, 1)
        rotating(monkeypatch, (os, "listdir"), {1: lambda: shutil.rmtree(place)})
        assert pb.latest_checkpoint(place) is None

    def test_a_folder_that_never_rests_is_an_error_of_ours(self, tmp_path, monkeypatch, x):
        path = save(tmp_path, x, 1)

        def gone(path):
            raise reading._Fault("gone", path, None)

        monkeypatch.setattr(reading, "_whole", gone)
        with pytest.raises(pb.errors.CheckpointError, match="keep more of them"):
            pb.latest_checkpoint(tmp_path)
        monkeypatch.undo()
        assert pb.latest_checkpoint(tmp_path) == path

    def test_litter_is_no_change(self, tmp_path, x):
        path = save(tmp_path, x, 1)
        (tmp_path / "ckpt-2").mkdir()
        (tmp_path / "ckpt-3").symlink_to(tmp_path / "nowhere")
        (tmp_path / "ckpt-4").write_text("no folder")
        assert pb.latest_checkpoint(tmp_path) == path

    def test_restoring_the_latest_when_it_has_gone_since(self, tmp_path, monkeypatch, x):
        manager = pb.CheckpointManager(pb.Checkpoint(x=x), tmp_path, keep=1)
        manager.save()
        reader = pb.CheckpointManager(pb.Checkpoint(x=pb.Variable(9.0)), tmp_path)
        rotating(monkeypatch, (reading, "read"), {1: manager.save})
        monkeypatch.setattr(folder, "read", reading.read)
        assert reader.restore_latest().path == str(tmp_path / "ckpt-2")

    def test_removing_takes_the_name_away_first(self, tmp_path, monkeypatch, x):
        path = save(tmp_path, x, 1)

        def dies(path):
            raise KeyboardInterrupt

        monkeypatch.setattr(shutil, "rmtree", dies)
        with pytest.raises(KeyboardInterrupt):
            folder.remove(tmp_path / "ckpt-1")
        assert not os.path.exists(path)
        assert names.numbered(tmp_path / "ckpt") == []
        monkeypatch.undo()
        assert folder.tidy_all(tmp_path / "ckpt")
        assert os.listdir(tmp_path) == []

    def test_removing_does_not_bring_the_replaced_one_back(self, tmp_path, x):
        save(tmp_path, x, 1)
        shutil.copytree(tmp_path / "ckpt-1", tmp_path / ".ckpt-1.old")
        folder.remove(tmp_path / "ckpt-1")
        assert os.listdir(tmp_path) == []


class TestClock:
    def test_set_back_between_saves(self, tmp_path, monkeypatch, x):
        clock = Clock(monkeypatch)
        manager = pb.CheckpointManager(pb.Checkpoint(x=x), tmp_path, keep=2)
        for step in range(1, 5):
            path = manager.save(step=step)
            assert manager.latest == pb.latest_checkpoint(tmp_path) == path
            clock.now -= 10**9

    def test_set_back_after_a_save_that_failed(self, tmp_path, monkeypatch, x):
        clock = Clock(monkeypatch)
        save(tmp_path, x, 1)
        with monkeypatch.context() as patch:
            for name in ("rename", "replace"):
                patch.setattr(os, name, lambda *_, **__: 1 / 0)
                patch.setattr(type(tmp_path), name, lambda *_, **__: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                save(tmp_path, x, 2)
        clock.now -= 10**9
        path = save(tmp_path, x, 3)
        assert pb.latest_checkpoint(tmp_path) == path

    def test_another_process_with_another_clock(self, tmp_path, monkeypatch, x):
        clock = Clock(monkeypatch)
        for step, now in enumerate([10**18, 10, 2**63, 5, 2**64 + 5, 0, -7, 10**18], 1):
            clock.now = now
            monkeypatch.setattr(folder, "_TIMES", {})
            path = save(tmp_path, x, step)
            assert pb.latest_checkpoint(tmp_path) == path

    def test_the_last_saved_is_the_latest_whatever_its_number_and_stem(
        self, tmp_path, monkeypatch, x
    ):
        clock = Clock(monkeypatch)
        checkpoint = pb.Checkpoint(x=x)
        for stem, step in [("a", 7), ("b", 3), ("a", 2), ("a", 7), ("c", 0), ("b", 3)]:
            path = checkpoint.save(tmp_path / stem, step=step)
            assert pb.latest_checkpoint(tmp_path) == path
            clock.now -= 10**12

    def test_a_manifest_is_read_once_as_long_as_it_is_the_same(self, tmp_path, monkeypatch, x):
        for step in range(5):
            save(tmp_path, x, step)
        read = []
        monkeypatch.setattr(folder, "seen", lambda path: read.append(path) or reading.seen(path))
        for step in range(5, 8):
            save(tmp_path, x, step)
        assert [path.name for path in read] == ["ckpt-4", "ckpt-5", "ckpt-6"]
        clock = Clock(monkeypatch, 5)
        path = save(tmp_path, x, 2)
        assert pb.latest_checkpoint(tmp_path) == path
        assert clock.now == 5

    def test_the_time_is_that_of_the_clock_when_that_goes_right(self, tmp_path, monkeypatch, x):
        clock = Clock(monkeypatch)
        for step in (1, 2):
            clock.now += 10**9
            file = os.path.join(save(tmp_path, x, step), "manifest.json")
            with open(file) as manifest:
                assert json.load(manifest)["content"]["saved"] == clock.now


class TestNames:
    REFUSED = (".hidden", "..", ".", "", "-", "_-_", " ", "a/b", "../a", "/a", "a\0b")

    @pytest.mark.parametrize("name", REFUSED)
    def test_of_managers_that_nothing_is_found_by(self, tmp_path, name):
        with pytest.raises(pb.errors.InputValueError, match=r"begins with no dot.*'ckpt'"):
            pb.CheckpointManager(pb.Checkpoint(), tmp_path, name=name)
        assert os.listdir(tmp_path) == []

    @pytest.mark.parametrize(
        "name", ["ckpt", "7", "a b", "a.b", "a-1", "[*]a", "ключ", "a\n", "a\udc80", "a.old"]
    )
    def test_that_are_found_again(self, tmp_path, x, name):
        manager = pb.CheckpointManager(pb.Checkpoint(x=x), tmp_path, name=name, keep=1)
        for number in (1, 2):
            path = manager.save()
            assert path == os.path.join(tmp_path, f"{name}-{number}")
            assert manager.latest == pb.latest_checkpoint(tmp_path) == path
            assert manager.checkpoints == [path]
        manager.clear()
        assert os.listdir(tmp_path) == []

    @pytest.mark.parametrize("stem", [".hidden", "---"])
    def test_of_checkpoints(self, tmp_path, x, stem):
        with pytest.raises(pb.errors.InputValueError, match="begins with no dot"):
            pb.Checkpoint(x=x).save(tmp_path / stem)
        assert os.listdir(tmp_path) == []

    def test_numbers_that_are_not_found_again(self, tmp_path, x):
        with pytest.raises(pb.errors.InputValueError, match="at least 0, got -1"):
            pb.Checkpoint(x=x).save(tmp_path, step=-1)
        with pytest.raises(pb.errors.InputValueError, match="at least 0, got -1"):
            pb.CheckpointManager(pb.Checkpoint(x=x), tmp_path).save(step=-1)
        assert os.listdir(tmp_path) == []

    def test_numbers_that_are_written_otherwise(self, tmp_path, x):
        path = save(tmp_path, x, 7)
        for other in ("ckpt-07", "ckpt-٧", "ckpt-7 "):
            os.rename(path, tmp_path / other)
            manager = pb.CheckpointManager(pb.Checkpoint(x=x), tmp_path)
            assert manager.checkpoints == []
            assert manager.latest is None
            assert pb.latest_checkpoint(tmp_path) == str(tmp_path / other)
            os.rename(tmp_path / other, path)
