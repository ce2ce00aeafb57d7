"""`CheckpointManager`: which checkpoints stay, and writing them while the program goes on."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import textwrap
import threading
import time
import warnings
import weakref
from pathlib import Path

import numpy as np
import pytest

import pullback as pb
from pullback import _replacing
from pullback.checkpoint import folder, reading


def names(manager):
    return [Path(path).name for path in manager.checkpoints]


def manager_of(tmp_path, **options):
    x = pb.Variable(0.0)
    return x, pb.CheckpointManager(pb.Checkpoint(x=x), tmp_path, **options)


class TestManager:
    def test_keeps_the_last(self, tmp_path):
        x = pb.Variable(0.0)
        manager = pb.CheckpointManager(pb.Checkpoint(x=x), tmp_path, keep=3)
        assert manager.latest is None
        assert manager.restore_latest() is None
        for step in range(1, 13):
            x.assign(float(step))
            manager.save(step=step)
        assert [Path(path).name for path in manager.checkpoints] == [
            "ckpt-10",
            "ckpt-11",
            "ckpt-12",
        ]
        x.assign(0.0)
        manager.restore_latest()
        assert float(x) == 12.0
        manager.clear()
        assert os.listdir(tmp_path) == []

    def test_the_one_just_saved_stays(self, tmp_path):
        manager = pb.CheckpointManager(pb.Checkpoint(x=pb.Variable(0.0)), tmp_path, keep=1)
        manager.save(step=7)
        path = manager.save(step=3)
        assert manager.checkpoints == [path]

    def test_leaves_other_files_alone(self, tmp_path):
        (tmp_path / "notes-1").mkdir()
        (tmp_path / "ckpt-x").mkdir()
        manager = pb.CheckpointManager(pb.Checkpoint(x=pb.Variable(0.0)), tmp_path, keep=1)
        manager.save(), manager.save()
        manager.clear()
        assert sorted(os.listdir(tmp_path)) == ["ckpt-x", "notes-1"]

    def test_keep_none_keeps_all(self, tmp_path):
        manager = pb.CheckpointManager(pb.Checkpoint(x=pb.Variable(0.0)), tmp_path, keep=None)
        for _ in range(7):
            manager.save()
        assert len(manager.checkpoints) == 7
        with pytest.raises(pb.errors.InputValueError, match="at least 1"):
            pb.CheckpointManager(pb.Checkpoint(), tmp_path, keep=0)


class TestBest:
    def save(self, manager, metrics):
        for step, metric in enumerate(metrics, 1):
            manager.save(step=step, metric=metric)

    def test_best_stay_besides_the_last(self, tmp_path):
        _, manager = manager_of(tmp_path, keep=2, keep_best=2)
        self.save(manager, [0.5, 0.1, 0.2, 0.9, 0.8, 0.7])
        assert names(manager) == ["ckpt-2", "ckpt-3", "ckpt-5", "ckpt-6"]
        assert manager.best == str(tmp_path / "ckpt-2")
        assert manager.latest == str(tmp_path / "ckpt-6")

    def test_higher(self, tmp_path):
        x, manager = manager_of(tmp_path, keep=1, keep_best=1, better="higher")
        for step, accuracy in enumerate([0.5, 0.9, 0.7]):
            x.assign(float(step))
            manager.save(step=step, metric=accuracy)
        assert names(manager) == ["ckpt-1", "ckpt-2"]
        manager.restore_best()
        assert float(x) == 1.0
        manager.restore_latest()
        assert float(x) == 2.0

    def test_what_is_no_number_is_never_the_best(self, tmp_path):
        _, manager = manager_of(tmp_path, keep=1, keep_best=1)
        assert manager.best is None
        assert manager.restore_best() is None
        self.save(manager, [float("nan"), None, float("inf"), float("nan")])
        assert names(manager) == ["ckpt-3", "ckpt-4"]
        text = (tmp_path / "ckpt-4" / "manifest.json").read_text()
        json.loads(text, parse_constant=pytest.fail)

    def test_of_equal_ones_the_later(self, tmp_path):
        _, manager = manager_of(tmp_path, keep=1, keep_best=1)
        self.save(manager, [0.5, 0.5, 0.6])
        assert names(manager) == ["ckpt-2", "ckpt-3"]

    def test_another_manager_knows_the_metrics(self, tmp_path):
        _, manager = manager_of(tmp_path, keep=1, keep_best=1)
        self.save(manager, [0.5, 0.1, 0.2])
        _, again = manager_of(tmp_path, keep=1, keep_best=1)
        again.save(step=4, metric=pb.asarray(0.3))
        assert names(again) == ["ckpt-2", "ckpt-4"]

    def test_a_damaged_one_is_not_the_best(self, tmp_path):
        _, manager = manager_of(tmp_path, keep=1, keep_best=2)
        self.save(manager, [0.1, 0.2, 0.3])
        file = tmp_path / "ckpt-1" / "manifest.json"
        file.write_bytes(file.read_bytes()[:-9])
        assert manager.best == str(tmp_path / "ckpt-2")

    def test_bad_arguments(self, tmp_path):
        for options in ({"keep_best": -1}, {"background": -1}, {"better": "more"}):
            with pytest.raises(pb.errors.InputValueError):
                manager_of(tmp_path, **options)


def test_managers_with_two_names_in_one_folder(tmp_path):
    x, manager = manager_of(tmp_path, name="all", keep=1)
    y, other = manager_of(tmp_path, name="few", keep=1)
    x.assign(1.0)
    y.assign(2.0)
    manager.save(step=1), other.save(step=1)
    assert manager.latest == str(tmp_path / "all-1")
    x.assign(0.0)
    manager.restore_latest()
    assert float(x) == 1.0
    manager.clear()
    assert os.listdir(tmp_path) == ["few-1"]


class TestLeftovers:
    """The next process puts right what one that died has left, and touches nothing else."""

    def test_are_removed(self, tmp_path):
        _, manager = manager_of(tmp_path, keep=3)
        manager.save(step=1), manager.save(step=2)
        whole = (tmp_path / "ckpt-2").rename(tmp_path / ".ckpt-2.old")
        assert whole.is_dir()
        # Written half, whole and not renamed, removed half, replaced and not removed.
        dead = 99_999_999
        half = _replacing.temporary_name(tmp_path / "ckpt-7", dead)
        half.mkdir()
        (half / "arrays.safetensors").write_bytes(b"x")
        folder.write(tmp_path / "ckpt-8", pb.Checkpoint(x=pb.Variable(8.0)).contents())
        (tmp_path / "ckpt-8").rename(_replacing.temporary_name(tmp_path / "ckpt-8", dead))
        (tmp_path / "ckpt-5").mkdir()
        (tmp_path / "ckpt-5" / "arrays.safetensors").write_bytes(b"x")
        (tmp_path / ".ckpt-1.old").mkdir()
        other = _replacing.temporary_name(tmp_path / "other-7", dead)
        other.mkdir()
        _, again = manager_of(tmp_path, keep=3)
        assert names(again) == ["ckpt-1", "ckpt-2"]
        assert again.latest == str(tmp_path / "ckpt-2")
        again.restore_latest().assert_complete()
        again.save(step=9)
        # A folder of that name without a manifest may be a copy that somebody makes.
        assert sorted(os.listdir(tmp_path)) == [other.name, "ckpt-1", "ckpt-2", "ckpt-5", "ckpt-9"]

    def test_reading_changes_nothing(self, tmp_path):
        _, manager = manager_of(tmp_path)
        path = manager.save(step=1)
        Path(path).rename(tmp_path / ".ckpt-1.old")
        x = pb.Variable(1.0)
        assert pb.latest_checkpoint(tmp_path) == path
        pb.Checkpoint(x=x).restore(path)
        assert float(x) == 0.0
        assert os.listdir(tmp_path) == [".ckpt-1.old"]

    def test_one_that_is_replaced_while_it_is_read(self, tmp_path, monkeypatch):
        x, manager = manager_of(tmp_path)
        path = manager.save(step=1)
        arrays = reading.read_arrays
        calls = []

        def meanwhile(*args):
            if not calls:
                x.assign(5.0)
                manager.save(step=1)
            calls.append(1)
            return arrays(*args)

        monkeypatch.setattr(reading, "read_arrays", meanwhile)
        assert folder.read(path).arrays["x"].tolist() == 5.0
        assert len(calls) == 2


class Gate:
    """Holds writing up until it is opened."""

    def __init__(self, monkeypatch):
        self.open = threading.Event()
        self.begun = []
        write = folder.write

        def held(path, contents, ranks):
            self.begun.append(path.name)
            assert self.open.wait(20)
            write(path, contents, ranks)

        monkeypatch.setattr(folder, "write", held)


def until(condition):
    deadline = time.monotonic() + 120
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.005)
    return condition()


class TestInBackground:
    @pytest.fixture(autouse=True)
    def nothing_runs_on(self):
        yield
        gc.collect()
        assert until(lambda: all("checkpoints" not in t.name for t in threading.enumerate()))

    def test_what_is_written_is_what_was_saved(self, tmp_path, monkeypatch):
        gate = Gate(monkeypatch)
        x, manager = manager_of(tmp_path, background=4, keep=None)
        history = [0]
        generator, counter = pb.Generator(1), np.zeros(3)

        class Counter:
            def checkpoint_state(self):
                return {"counter": counter}

            def restore_state(self, state):
                counter[:] = state["counter"]

        checkpoint = manager.checkpoint
        checkpoint.history, checkpoint.generator, checkpoint.counter = history, generator, Counter()
        expected = []
        for step in range(1, 4):
            x.assign_add(1.0)
            history.append(step)
            counter += 1
            manager.save(step=step)
            expected.append(generator.normal((2,)).tolist())
        assert manager.checkpoints == []
        gate.open.set()
        manager.wait()
        assert names(manager) == ["ckpt-1", "ckpt-2", "ckpt-3"]
        for step in range(1, 4):
            checkpoint.restore(manager.checkpoints[step - 1])
            assert float(x) == step
            assert history == list(range(step + 1))
            assert counter.tolist() == [step] * 3
            assert generator.normal((2,)).tolist() == expected[step - 1]
        manager.close()

    def test_save_takes_no_copy_and_waits_for_no_disk(self, tmp_path, monkeypatch):
        gate = Gate(monkeypatch)
        big = pb.Variable(np.ones(1000, np.float32))
        manager = pb.CheckpointManager(pb.Checkpoint(x=big), tmp_path, background=1)
        before = big.value
        contents = manager.checkpoint.contents()
        assert np.shares_memory(np.asarray(contents.arrays["x"]), before.numpy())
        path = manager.save()
        assert not Path(path).exists()
        gate.open.set()
        manager.close()
        assert Path(path).exists()

    def test_waits_when_there_is_no_room(self, tmp_path, monkeypatch):
        gate = Gate(monkeypatch)
        _, manager = manager_of(tmp_path, background=2, keep=None)
        saved = []

        def save():
            for step in range(1, 6):
                saved.append(manager.save(step=step))

        thread = threading.Thread(target=save)
        thread.start()
        # One is being written, two wait, the fourth finds no room.
        assert until(lambda: len(saved) == 3)
        time.sleep(0.05)
        assert len(saved) == 3
        assert gate.begun == ["ckpt-1"]
        gate.open.set()
        thread.join(20)
        manager.close()
        assert gate.begun == names(manager) == [f"ckpt-{i}" for i in range(1, 6)]

    def test_numbers_go_on_before_they_are_there(self, tmp_path, monkeypatch):
        gate = Gate(monkeypatch)
        _, manager = manager_of(tmp_path, background=5)
        paths = [manager.save() for _ in range(3)]
        assert [Path(path).name for path in paths] == ["ckpt-1", "ckpt-2", "ckpt-3"]
        gate.open.set()
        manager.close()
        assert manager.checkpoints == paths

    def test_keeps_and_ranks(self, tmp_path):
        _, manager = manager_of(tmp_path, background=1, keep=1, keep_best=1)
        with manager:
            for step, metric in enumerate([0.4, 0.1, 0.3, 0.2]):
                manager.save(step=step, metric=metric)
        assert names(manager) == ["ckpt-1", "ckpt-3"]

    def test_a_number_that_is_given_is_kept(self, tmp_path):
        _, manager = manager_of(tmp_path, background=1)
        with manager:
            manager.save(step=9)
            assert Path(manager.save(step=3)).name == "ckpt-3"
            assert Path(manager.save()).name == "ckpt-10"

    def test_restoring_waits_for_the_newest(self, tmp_path):
        x, manager = manager_of(tmp_path, background=3)
        for step in range(1, 4):
            x.assign(float(step))
            manager.save(step=step)
        x.assign(0.0)
        manager.restore_latest()
        assert float(x) == 3.0
        manager.clear()
        assert manager.checkpoints == []
        assert Path(manager.save()).name == "ckpt-1"
        manager.close()

    @pytest.mark.parametrize("call", ["save", "wait", "close", "restore_latest", "clear"])
    def test_errors_come_with_the_next_call(self, tmp_path, monkeypatch, call):
        _, manager = manager_of(tmp_path, background=1)

        def full(*args):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(folder, "write_file", full)
        manager.save(step=1)
        assert until(lambda: manager._writer._work.errors)
        monkeypatch.undo()
        with pytest.raises(pb.errors.CheckpointError, match=r"ckpt-1.*could not be written.*space"):
            getattr(manager, call)()
        # It has been said; what comes after goes well.
        manager.save(step=2)
        manager.close()
        assert names(manager) == ["ckpt-2"]

    def test_an_error_wakes_who_waits_for_room(self, tmp_path, monkeypatch):
        gate = Gate(monkeypatch)
        _, manager = manager_of(tmp_path, background=1)
        monkeypatch.setattr(folder, "write_file", lambda *args: 1 / 0)
        manager.save(step=1), manager.save(step=2)
        threading.Timer(0.05, gate.open.set).start()
        with pytest.raises(ZeroDivisionError) as first:
            manager.save(step=3)
        # The second save has failed by then, or will have.
        if not hasattr(first.value, "__notes__"):
            with pytest.raises(ZeroDivisionError):
                manager.close()

    def test_an_error_tells_of_later_ones(self, tmp_path, monkeypatch):
        _, manager = manager_of(tmp_path, background=2)
        monkeypatch.setattr(folder, "write_file", lambda *args: 1 / 0)
        gate = Gate(monkeypatch)
        manager.save(step=1), manager.save(step=2)
        gate.open.set()
        with pytest.raises(ZeroDivisionError) as caught:
            manager.close()
        assert caught.value.__notes__ == [
            "a later task failed too: ZeroDivisionError: division by zero"
        ]

    def test_errors_of_the_objects_come_at_once(self, tmp_path):
        manager = pb.CheckpointManager(pb.Checkpoint(x=abs), tmp_path, background=1)
        with pytest.raises(pb.errors.CheckpointError, match="cannot hold x"):
            manager.save()

    def test_a_dropped_manager_finishes_and_warns(self, tmp_path, monkeypatch):
        gate = Gate(monkeypatch)
        _, manager = manager_of(tmp_path, background=2)
        manager.save(step=1)
        gone = weakref.ref(manager._writer)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            del manager
            gate.open.set()
            assert until(lambda: gone() is None)
            assert until(lambda: (tmp_path / "ckpt-1").exists())
            assert until(lambda: all("checkpoints" not in t.name for t in threading.enumerate()))
            assert not caught
            monkeypatch.setattr(folder, "write_file", lambda *args: 1 / 0)
            _, manager = manager_of(tmp_path, background=2)
            manager.save(step=2)
            del manager
            assert until(lambda: caught)
            assert "division by zero" in str(caught[0].message)

    PROGRAM = """
        import numpy as np
        import pullback as pb

        x = pb.Variable(np.ones(200_000, np.float32))
        manager = pb.CheckpointManager(pb.Checkpoint(x=x), {folder!r}, background=8, keep=None)
        for step in range(1, 9):
            manager.save(step=step)
        {end}
    """

    @pytest.mark.parametrize("end", ["pass", "raise KeyError", "import sys; sys.exit(1)"])
    def test_the_interpreter_ends_when_all_is_written(self, tmp_path, end):
        program = textwrap.dedent(self.PROGRAM).format(folder=str(tmp_path), end=end)
        subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=120)
        assert sorted(os.listdir(tmp_path)) == [f"ckpt-{i}" for i in range(1, 9)]
        for step in range(1, 9):
            folder.read(tmp_path / f"ckpt-{step}")


@pytest.mark.parametrize("number", [0, 1, 12])
def test_the_newest_is_found_where_the_only_one_is_replaced_meanwhile(
    number, tmp_path, monkeypatch
):
    """Whatever its number: another process saves the next one, and moves it away."""
    checkpoint = pb.Checkpoint(v=pb.Variable(1.0))
    path = Path(checkpoint.save(tmp_path / "ckpt", step=number))
    seen = reading.seen

    def replaced(asked):
        if path.exists():
            checkpoint.save(tmp_path / "ckpt", step=number + 1)
            path.rename(tmp_path / "elsewhere")
        return seen(asked)

    monkeypatch.setattr(reading, "seen", replaced)
    assert pb.latest_checkpoint(tmp_path) == str(tmp_path / f"ckpt-{number + 1}")
