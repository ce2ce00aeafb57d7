"""File systems that fail at any call of a save: what was there stays, and it is said.

`pytest -m slow tests/checkpoint/test_checkpoint_faults.py` lets every call fail in every way.
"""

from __future__ import annotations

import builtins
import errno
import io
import itertools
import os
import shutil
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest

import pullback as pb
from pullback import _replacing
from pullback.checkpoint import folder, reading, together

#: The number of no process.
DEAD = 99_999_999

CODES = (errno.ENOSPC, errno.EIO, errno.ESTALE, errno.EACCES, errno.ENOENT)

#: What is called on the way to the disk, by the names that the standard library finds it under.
CALLS = (
    "open", "stat", "lstat", "fstat", "mkdir", "rename", "replace", "unlink", "rmdir", "fsync",
    "listdir", "scandir", "close",
)  # fmt: skip


class File:
    """A file whose calls are counted as well."""

    def __init__(self, file, count):
        self._file, self._count = file, count

    def __getattr__(self, name):
        if name in ("read", "write", "flush"):
            self._count(name, self._file.name)
        return getattr(self._file, name)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._file.close()


class Faults:
    """Counts the calls that concern a folder, and lets one of them fail."""

    def __init__(self, monkeypatch, place):
        self.place = os.fspath(place)
        self.fail_at, self.code = 0, 0
        self.calls = []
        self.lock = threading.Lock()
        for name in CALLS:
            monkeypatch.setattr(os, name, self._counted(name, getattr(os, name)))
        opening = io.open

        def opened(file, mode="r", *args, **kwargs):
            if isinstance(file, int) or self._is_here(file):
                self._count("open", file)
                return File(opening(file, mode, *args, **kwargs), self._count)
            return opening(file, mode, *args, **kwargs)

        monkeypatch.setattr(io, "open", opened)
        monkeypatch.setattr(builtins, "open", opened)
        # They look at a file descriptor twice to know it for a folder's: no call of the save.
        monkeypatch.setattr(os, "fdopen", opened)

    def _is_here(self, path):
        try:
            return os.fspath(path).startswith(self.place)
        except TypeError:
            return False

    def _counted(self, name, function):
        def call(*args, **kwargs):
            here = args and (isinstance(args[0], int) or self._is_here(args[0]))
            if here or kwargs.get("dir_fd") is not None:
                if name == "close":
                    function(*args)
                self._count(name, args[0])
                if name == "close":
                    return None
            return function(*args, **kwargs)

        return call

    def _count(self, name, what):
        with self.lock:
            self.calls.append((name, what))
            fails = len(self.calls) == self.fail_at
        if fails:
            raise OSError(self.code, os.strerror(self.code), str(what))

    def at(self, number, code):
        self.calls, self.fail_at, self.code = [], number, code


def value(path):
    x = pb.Variable(np.zeros(3))
    pb.Checkpoint(x=x).restore(path).assert_complete()
    assert len(set(x.numpy())) == 1
    return x.numpy()[0]


def over(place):
    """Saves over a checkpoint, and then again."""
    x = pb.Variable(np.ones(3))
    checkpoint = pb.Checkpoint(x=x)
    checkpoint.save(place / "ckpt", step=1)

    def save():
        x.assign(np.full(3, 2.0))
        checkpoint.save(place / "ckpt", step=1)

    def look(raised):
        latest = pb.latest_checkpoint(place)
        assert latest == os.path.join(place, "ckpt-1")
        assert value(latest) in ((1.0, 2.0) if raised else (2.0,))

    def again():
        x.assign(np.full(3, 3.0))
        checkpoint.save(place, step=1)
        assert value(os.path.join(place, "ckpt-1")) == 3.0
        return {"ckpt-1"}

    return save, look, again


def managed(place, background=0):
    """Saves through a manager that tidies up and removes, and then again."""
    x = pb.Variable(np.zeros(3))
    checkpoint = pb.Checkpoint(x=x)
    for step, metric in ((1, 0.1), (2, 0.5), (3, 0.5)):
        x.assign(np.full(3, float(step)))
        folder.write(place / f"ckpt-{step}", checkpoint.contents(step, metric))
    # What a process left that died.
    os.mkdir(_replacing.temporary_name(place / "ckpt-9", DEAD))
    os.rename(place / "ckpt-3", place / ".ckpt-3.old")
    manager = pb.CheckpointManager(checkpoint, place, keep=2, keep_best=1, background=background)

    def save():
        x.assign(np.full(3, 4.0))
        manager.save(step=4, metric=0.4)
        manager.wait()

    def look(raised):
        there = {int(path.rpartition("-")[2]) for path in manager.checkpoints}
        # Nothing is removed when it has failed; otherwise 2 goes, or it is a warning.
        assert there - {4} == {1, 2, 3} if raised else there - {2} == {1, 3, 4}, there
        assert all(value(place / f"ckpt-{step}") == step for step in there)
        assert pb.latest_checkpoint(place) == str(place / f"ckpt-{max(there)}")

    def again():
        x.assign(np.full(3, 5.0))
        manager.save(step=5, metric=0.6)
        manager.close()
        assert value(place / "ckpt-5") == 5.0
        four = (place / "ckpt-4").exists()
        return {"ckpt-1", "ckpt-4" if four else "ckpt-3", "ckpt-5"}

    return save, look, again


def in_background(place):
    """The same with a thread that writes."""
    return managed(place, background=1)


def campaign(tmp_path, monkeypatch, way, codes):
    """Every call fails once with each of the codes, or with the next of them in turn."""
    place = tmp_path / "run"
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    monkeypatch.setattr(together, "SMALL", 0)
    number, faults = 0, 0
    failed = {}
    while True:
        number += 1
        for code in codes(number):
            place.mkdir()
            save, look, again = way(place)
            raised = None
            with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)
                injected = Faults(patch, place)
                injected.at(number, code)
                try:
                    save()
                except pb.errors.CheckpointError as error:
                    raised = error
            what = (number, errno.errorcode[code], injected.calls[number - 1 : number], raised)
            try:
                look(raised)
                expected = again()
                assert set(os.listdir(place)) == expected, sorted(os.listdir(place))
            except BaseException as error:
                error.add_note(str(what))
                raise
            for path in [*place.rglob("*")][::-1]:
                path.rmdir() if path.is_dir() else path.unlink()
            place.rmdir()
            if len(injected.calls) < number:
                return faults, number - 1, failed
            faults += 1
            failed[raised is not None] = failed.get(raised is not None, 0) + 1


def sharded(place):
    """Three ranks write parts; all of them succeed or fail."""

    def saves(number, manage):
        def save():
            x, y = pb.Variable(np.full(3, number)), pb.Variable(np.full(5, number))
            manager = pb.CheckpointManager(
                pb.Checkpoint(x=x, y=y), place, keep=2, sharded=True, **manage
            )
            try:
                return manager.save(step=int(number), metric=-number), None
            except pb.errors.CheckpointError as error:
                return "", error

        def run():
            found = pb.distributed.run_threads(save, 3)
            assert len({path for path, _ in found}) == 1, found
            if found[0][1] is not None:
                raise found[0][1]

        return run

    saves(1.0, {})(), saves(2.0, {})()
    os.mkdir(_replacing.temporary_name(place / "ckpt-9", DEAD))

    def value(path):
        x, y = pb.Variable(np.zeros(3)), pb.Variable(np.zeros(5))
        pb.Checkpoint(x=x, y=y).restore(path).assert_complete()
        (number,) = {*x.tolist(), *y.tolist()}
        return number

    def look(raised):
        manager = pb.CheckpointManager(pb.Checkpoint(), place)
        there = {int(path.rpartition("-")[2]) for path in manager.checkpoints}
        assert there - {3} == {1, 2} if raised else there - {1} == {2, 3}, there
        assert all(value(place / f"ckpt-{step}") == step for step in there)
        assert pb.latest_checkpoint(place) == str(place / f"ckpt-{max(there)}")

    def again():
        saves(4.0, {"keep_best": 1})()
        assert value(place / "ckpt-4") == 4.0
        three = (place / "ckpt-3").exists()
        return {"ckpt-3" if three else "ckpt-2", "ckpt-4"}

    return saves(3.0, {}), look, again


def program(place):
    """A saved program takes the place of an older one."""
    x = pb.Variable(np.zeros(3))
    plus = pb.function(lambda: x + 1)
    plus.lower().save(place / "program")

    def saved(number):
        x.assign(np.full(3, float(number)))
        plus.lower().save(place / "program")

    def look(raised):
        number = pb.load_program(place / "program")().tolist()[0] - 1
        assert number in (0.0, 2.0) if raised else number == 2.0

    def again():
        saved(3)
        assert pb.load_program(place / "program")().tolist() == [4.0] * 3
        return {"program"}

    return lambda: saved(2), look, again


def weights(place):
    """A file of weights takes the place of an older one."""
    x, file = pb.Variable(np.zeros(3)), place / "weights.safetensors"
    pb.checkpoint.save_weights([x], file)

    def saved(number):
        x.assign(np.full(3, float(number)))
        pb.checkpoint.save_weights([x], file)

    def number():
        other = pb.Variable(np.ones(3))
        pb.checkpoint.load_weights([other], file)
        return other.tolist()[0]

    def look(raised):
        assert number() in (0.0, 2.0) if raised else number() == 2.0

    def again():
        saved(3)
        assert number() == 3.0
        return {file.name}

    return lambda: saved(2), look, again


WAYS = (over, managed, in_background, sharded, program, weights)


@pytest.mark.parametrize("way", WAYS)
def test_every_call_fails(tmp_path, monkeypatch, way):
    every = 11 if way is sharded else 1  # three threads take their time
    faults, calls, failed = campaign(
        tmp_path,
        monkeypatch,
        way,
        lambda number: [CODES[number % len(CODES)]] * (number % every == 0),
    )
    least, raised = {weights: (5, 5), sharded: (5, 3)}.get(way, (30, 10))
    assert faults == calls // every > least
    assert failed[True] > raised


@pytest.mark.campaign
@pytest.mark.parametrize("code", CODES, ids=errno.errorcode.get)
@pytest.mark.parametrize("way", WAYS)
def test_every_call_fails_in_every_way(tmp_path, monkeypatch, way, code):
    faults, calls, failed = campaign(tmp_path, monkeypatch, way, lambda number: [code])
    print(way.__name__, f"{calls} calls, {faults} faults, errors: {failed}")
    # What fails may be tried in another way, with calls of its own.
    assert faults == calls > (5 if way is weights else 30)


# ---------------------------------------------------------------------------------------------


def denied(*args, **kwargs):
    raise PermissionError(errno.EACCES, "Permission denied")


class TestWhatCannotBeRemoved:
    @pytest.fixture
    def manager(self, tmp_path):
        return pb.CheckpointManager(pb.Checkpoint(x=pb.Variable(1.0)), tmp_path, keep=1)

    def test_is_a_warning_and_goes_with_the_next(self, tmp_path, monkeypatch, manager):
        manager.save()
        monkeypatch.setattr(shutil, "rmtree", denied)
        with pytest.warns(RuntimeWarning, match=r"ckpt-1.*could not be removed.*denied"):
            manager.save()
        assert manager.latest == str(tmp_path / "ckpt-2")
        monkeypatch.undo()
        manager.save()
        assert os.listdir(tmp_path) == ["ckpt-3"]

    def test_one_that_stays_does_not_keep_the_others(self, tmp_path, monkeypatch, manager):
        for step in (1, 2, 3):
            manager.checkpoint.save(tmp_path, step=step)
        rename = Path.rename
        monkeypatch.setattr(
            Path, "rename", lambda p, to: denied() if p.name == "ckpt-1" else rename(p, to)
        )
        with pytest.warns(RuntimeWarning, match="ckpt-1"):
            manager.save(step=4)
        assert sorted(os.listdir(tmp_path)) == ["ckpt-1", "ckpt-4"]

    def test_that_was_replaced(self, tmp_path, monkeypatch, manager):
        manager.save(step=1)
        monkeypatch.setattr(shutil, "rmtree", denied)
        with pytest.warns(RuntimeWarning, match=r"ckpt-1\.old.*next checkpoint"):
            manager.save(step=1)
        monkeypatch.undo()
        manager.save(step=1)
        assert os.listdir(tmp_path) == ["ckpt-1"]

    def test_to_clear_a_folder_is_an_error(self, monkeypatch, manager):
        manager.save()
        monkeypatch.setattr(Path, "rename", denied)
        with pytest.raises(pb.errors.CheckpointError, match=r"could not be removed.*manually"):
            manager.clear()

    def test_a_best_one_that_cannot_be_read_stays(self, tmp_path, monkeypatch):
        manager = pb.CheckpointManager(
            pb.Checkpoint(x=pb.Variable(1.0)), tmp_path, keep=1, keep_best=1
        )
        manager.save(step=1, metric=0.0), manager.save(step=2, metric=1.0)
        metric = reading.metric
        monkeypatch.setattr(
            reading, "metric", lambda p: denied() if p.name == "ckpt-1" else metric(p)
        )
        manager.save(step=3, metric=2.0)
        monkeypatch.undo()
        assert manager.best == str(tmp_path / "ckpt-1")


class TestFoldersThatCannotBeListed:
    def test_nothing_is_written_beside_one(self, tmp_path, monkeypatch):
        place = tmp_path / "run"
        place.mkdir()
        stat = os.stat

        def fails(path, **options):
            if path == place:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return stat(path, **options)

        monkeypatch.setattr(os, "stat", fails)
        with pytest.raises(pb.errors.CheckpointError, match="could not be written"):
            pb.Checkpoint(x=pb.Variable(1.0)).save(place)
        monkeypatch.undo()
        assert os.listdir(tmp_path) == ["run"]

    @pytest.mark.parametrize("code", [errno.EACCES, errno.EIO, errno.ESTALE])
    def test_are_an_error_of_ours(self, tmp_path, monkeypatch, code):
        checkpoint = pb.Checkpoint(x=pb.Variable(1.0))
        manager = pb.CheckpointManager(checkpoint, tmp_path)
        path = manager.save()

        def fails(path):
            raise OSError(code, os.strerror(code))

        monkeypatch.setattr(os, "listdir", fails)
        for call in (
            lambda: pb.latest_checkpoint(tmp_path),
            lambda: manager.latest,
            lambda: manager.best,
            lambda: manager.checkpoints,
            manager.save,
            manager.clear,
            lambda: checkpoint.save(tmp_path),
        ):
            with pytest.raises(pb.errors.CheckpointError, match="cannot be listed"):
                call()
        # What is there can be read, and what is not there is said.
        checkpoint.restore(path)
        with pytest.raises(pb.errors.CheckpointError, match="there is no checkpoint"):
            checkpoint.restore(tmp_path / "ckpt-7")

    def test_a_folder_that_cannot_be_listed_for_a_moment(self, tmp_path, monkeypatch):
        manager = pb.CheckpointManager(pb.Checkpoint(x=pb.Variable(1.0)), tmp_path, keep=2)
        listdir, failed = os.listdir, []
        for failing in range(8):
            count = itertools.count()

            def once(path, count=count, failing=failing):
                if next(count) == failing:
                    failed.append(failing)
                    raise OSError(errno.EIO, os.strerror(errno.EIO))
                return listdir(path)

            with monkeypatch.context() as patch, warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                patch.setattr(os, "listdir", once)
                try:
                    manager.save(step=failing)
                    outcome = [str(one.message) for one in said]
                except pb.errors.CheckpointError as error:
                    outcome = [str(error)]
            # Never in silence.
            told = any(os.strerror(errno.EIO) in one for one in outcome)
            assert told == (failing in failed), outcome
        assert len(failed) > 1

    def test_what_a_failed_one_leaves_goes_with_the_next(self, tmp_path, monkeypatch):
        manager = pb.CheckpointManager(pb.Checkpoint(x=pb.Variable(1.0)), tmp_path)
        manager.save(step=1)
        monkeypatch.setattr(os, "rename", denied)
        monkeypatch.setattr(os, "replace", denied)
        monkeypatch.setattr(Path, "rename", denied)
        monkeypatch.setattr(shutil, "rmtree", denied)
        with pytest.raises(pb.errors.CheckpointError):
            manager.save(step=2)
        assert len(os.listdir(tmp_path)) == 2
        monkeypatch.undo()
        manager.save(step=3)
        assert sorted(os.listdir(tmp_path)) == ["ckpt-1", "ckpt-3"]

    @pytest.mark.parametrize("name", ["x" * 300, "a\0b", "\udc80"])
    def test_names_that_no_file_has(self, tmp_path, name):
        checkpoint = pb.Checkpoint(x=pb.Variable(1.0))
        with pytest.raises(pb.errors.CheckpointError, match="there is no folder"):
            pb.latest_checkpoint(tmp_path / name)
        with pytest.raises(pb.errors.CheckpointError, match="there is no checkpoint"):
            checkpoint.restore(tmp_path / name)
        with pytest.raises(pb.errors.CheckpointError, match="there is no file of weights"):
            pb.checkpoint.load_weights([checkpoint.x], tmp_path / name)
        if name != "\udc80":
            with pytest.raises(pb.errors.CheckpointError, match="could not be written"):
                checkpoint.save(tmp_path / name / "ckpt")


class TestLinks:
    """Nothing is changed where a link leads to."""

    @pytest.fixture
    def outside(self, tmp_path):
        path = Path(pb.Checkpoint(x=pb.Variable(7.0)).save(tmp_path / "outside" / "ckpt"))
        (tmp_path / "run").mkdir()
        yield path
        assert sorted(os.listdir(path)) == ["arrays.safetensors", "manifest.json"]
        assert float(folder.read(path).arrays["x"]) == 7.0

    def test_a_checkpoint_that_is_one_is_read_replaced_and_removed(self, tmp_path, outside):
        place = tmp_path / "run"
        (place / "ckpt-1").symlink_to(outside)
        x = pb.Variable(0.0)
        manager = pb.CheckpointManager(pb.Checkpoint(x=x), place, keep=1)
        manager.restore_latest()
        assert float(x) == 7.0
        for _ in range(3):
            manager.save(step=1)
        assert os.listdir(place) == ["ckpt-1"]
        (place / "ckpt-2").symlink_to(outside)
        manager.save(step=3)
        assert os.listdir(place) == ["ckpt-3"]

    def test_of_leftovers(self, tmp_path, outside):
        place = tmp_path / "run"
        for process in (os.getpid(), DEAD):
            _replacing.temporary_name(place / "ckpt-1", process).symlink_to(outside)
        (place / ".ckpt-1.old").symlink_to(outside)
        manager = pb.CheckpointManager(pb.Checkpoint(x=pb.Variable(1.0)), place)
        manager.save(step=1)
        assert os.listdir(place) == ["ckpt-1"]

    def test_pipes_and_devices_hold_nobody_up(self, tmp_path, outside):
        place = tmp_path / "run"
        path = pb.Checkpoint(x=pb.Variable(1.0)).save(place, step=1)
        for name in ("manifest.json", "arrays.safetensors"):
            for make in (os.mkfifo, lambda p: os.symlink("/dev/zero", p), os.mkdir):
                other = place / "ckpt-2"
                pb.Checkpoint(x=pb.Variable(2.0)).save(place, step=2)
                (other / name).unlink()
                make(other / name)
                with pytest.raises(pb.errors.CheckpointError, match="damaged"):
                    folder.read(other)
                assert pb.latest_checkpoint(place) == path
