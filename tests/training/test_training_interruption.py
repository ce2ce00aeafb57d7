"""Ctrl-C during fit: real signals to a real process, which then goes on exactly."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import pullback as pb
from pullback.training.interruption import Interrupted, Interruption

# Dropout from the default generator, batch normalization, Adam, a schedule, shuffled data, metrics
# in the middle of an epoch. It says each step, so that the test knows when to interrupt it.
PROGRAM = """
import hashlib, signal, sys
import numpy as np
import pullback as pb

# A program that was started in the background would have it ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
folder, talks = sys.argv[1], len(sys.argv) > 2
pb.random.seed(3)
rng = np.random.default_rng(0)
x = rng.standard_normal((96, 6), np.float32)
y = (x[:, 0] > 0).astype("int32")
model = pb.Sequential([
    pb.layers.Dense(8, activation="relu"), pb.layers.BatchNormalization(),
    pb.layers.Dropout(0.3), pb.layers.Dense(2),
])
schedule = pb.optimizers.schedules.cosine_decay(0.05, 30)
model.compile(pb.optimizers.Adam(schedule), "sparse_softmax_cross_entropy", ["accuracy"])

class Talks(pb.callbacks.Callback):
    def on_train_batch_end(self, batch, logs):
        if talks:
            print("step", flush=True)
            sys.stdin.readline()
    on_test_batch_end = on_train_batch_end

history = model.fit(
    x, y, batch_size=16, epochs=4, validation_data=(x[:20], y[:20]), verbose=False,
    callbacks=[
        Talks(),
        pb.callbacks.Checkpoint(folder, resume=True),
        pb.callbacks.CSVLogger(folder + "/log.csv"),
        pb.callbacks.EarlyStopping("val_loss", patience=9, restore_best_weights=True),
    ],
)
digest = hashlib.sha256()
for path, variable in model.named_variables.items():
    digest.update(path.encode() + variable.numpy().tobytes())
print("done", digest.hexdigest(), history.history)
"""


def start(folder, *more):
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(folder), *more],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1,
    )  # fmt: skip


def go_on(process):
    """Lets a step that waits go on."""
    process.stdin.write("\n")
    process.stdin.flush()


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    folder = tmp_path_factory.mktemp("straight")
    out, err = start(folder).communicate(timeout=120)
    assert out.startswith("done"), err
    return out, (folder / "log.csv").read_text()


# Each epoch has six steps and one batch of validation: 28 turns in all.
@pytest.mark.slow
@pytest.mark.parametrize("turns", [(1, 9), (6,), (7, 13)], ids=["steps", "last step", "validation"])
def test_goes_on_exactly(tmp_path, straight, turns):
    for turn in turns:
        process = start(tmp_path, "talks")
        for _ in range(turn):
            assert process.stdout.readline() == "step\n", process.communicate()
            if _ < turn - 1:
                go_on(process)
        process.send_signal(signal.SIGINT)
        # The note comes when the signal is handled, while the step still waits.
        while "Stopping after this step" not in process.stderr.readline():
            pass
        out, err = process.communicate("\n" * 99, timeout=120)
        # As any program that Ctrl-C ends.
        assert process.returncode in (-signal.SIGINT, 130), err
        assert "KeyboardInterrupt" in err
        assert "resume=True) resumes from there" in err
        assert "done" not in out
    out, err = start(tmp_path).communicate(timeout=120)
    assert out == straight[0], err
    assert (tmp_path / "log.csv").read_text() == straight[1]


def test_a_second_one_does_not_wait(tmp_path):
    process = start(tmp_path, "talks")
    assert process.stdout.readline() == "step\n"
    process.send_signal(signal.SIGINT)
    while "again stops at once" not in process.stderr.readline():
        pass
    process.send_signal(signal.SIGINT)
    # The step is still waiting for its line of input.
    process.wait(timeout=120)
    process.communicate()
    assert process.returncode in (-signal.SIGINT, 130)
    assert not list(tmp_path.glob("ckpt-*"))


class TestInterruption:
    @pytest.fixture(autouse=True)
    def _handled(self):
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        yield
        signal.signal(signal.SIGINT, before)

    def raise_one(self):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0)  # the handler runs between two instructions of the interpreter

    def test_is_noted_and_raised_when_asked(self, capfd):
        with Interruption() as interruption:
            interruption.check()
            self.raise_one()
            with pytest.raises(Interrupted):
                interruption.check()
            interruption.asked = False
        assert "Stopping after this step" in capfd.readouterr().err
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler

    def test_is_not_lost_when_nobody_asks(self):
        with pytest.raises(KeyboardInterrupt), Interruption():
            self.raise_one()

    def test_a_handler_of_the_program_stays(self):
        heard = []
        before = signal.signal(signal.SIGINT, lambda number, frame: heard.append(number))
        try:
            with Interruption() as interruption:
                self.raise_one()
                interruption.check()
        finally:
            signal.signal(signal.SIGINT, before)
        assert heard == [signal.SIGINT]

    def test_a_fit_inside_of_a_fit(self):
        inner = pb.Sequential([pb.layers.Dense(1)])
        inner.compile("sgd", "mean_squared_error")
        x = np.ones((4, 1), np.float32)

        class Fits(pb.callbacks.Callback):
            def on_epoch_end(self, epoch, logs):
                if epoch == 1:
                    os.kill(os.getpid(), signal.SIGINT)
                inner.fit(x, x, verbose=False)

        outer = pb.Sequential([pb.layers.Dense(1)])
        outer.compile("sgd", "mean_squared_error")
        with pytest.raises(KeyboardInterrupt):
            outer.fit(x, x, epochs=9, callbacks=[Fits()], verbose=False)
        assert outer.compiled.optimizer.step == 2
        assert inner.compiled.optimizer.step == 2


WORKER = """
import os, signal, time

def interrupt(x, y):
    # As Ctrl-C at a terminal where the workers cannot be kept from it.
    os.kill(os.getppid(), signal.SIGINT)
    time.sleep(0.3)
    os._exit(1)

def die(x, y):
    os._exit(1)
"""


class TestWorkers:
    @pytest.fixture
    def worker(self, tmp_path, monkeypatch):
        (tmp_path / "pullback_test_interrupted.py").write_text(WORKER)
        monkeypatch.syspath_prepend(tmp_path)
        import pullback_test_interrupted

        yield pullback_test_interrupted
        del sys.modules["pullback_test_interrupted"]

    @pytest.fixture
    def model(self):
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        model = pb.Sequential([pb.layers.Dense(1)])
        model.compile("sgd", "mean_squared_error")
        yield model
        signal.signal(signal.SIGINT, before)

    def data(self, function):
        x = np.ones((4, 1), np.float32)
        return pb.data.Dataset.from_tensor_slices((x, x)).map(function, parallel=1, processes=True)

    @pytest.mark.parametrize("where", ["training", "validation"])
    def test_that_it_ends_too_are_no_error_of_the_data(self, worker, model, where):
        broken, x = self.data(worker.interrupt).batch(2), np.ones((4, 1), np.float32)
        data = {"x": broken} if where == "training" else {"x": x, "y": x, "validation_data": broken}
        with pytest.raises(KeyboardInterrupt) as caught:
            model.fit(**data, verbose=False)
        assert type(caught.value) is KeyboardInterrupt
        assert "ended by itself" in str(caught.value.__cause__)

    def test_that_end_by_themselves_are(self, worker, model):
        with pytest.raises(pb.errors.DataError, match="ended by itself"):
            model.fit(self.data(worker.die).batch(2), verbose=False)


class TestSeveralRanks:
    """`agree` tells all of them that one was asked."""

    @pytest.fixture(autouse=True)
    def ctrl_c(self):
        """Python's own handler: what a shell starts in the background ignores Ctrl-C."""
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        yield
        signal.signal(signal.SIGINT, before)

    def test_a_signal_amid_an_agreement_counts_at_the_next_step(self):
        seen = []

        def agree(asked):
            seen.append(asked)
            if len(seen) == 1:
                os.kill(os.getpid(), signal.SIGINT)
            return asked

        def run():
            with Interruption(agree) as interruption:
                interruption.check()
                interruption.check()

        with pytest.raises(Interrupted):
            run()
        assert seen == [False, True]

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_a_signal_that_comes_after_the_agreement_does_not_break_the_save(self, number):
        saved = []

        def run():
            with Interruption(lambda asked: True) as interruption:
                try:
                    interruption.check()
                except Interrupted:
                    os.kill(os.getpid(), number)
                    saved.append(1)
                    raise

        with pytest.raises(Interrupted):
            run()
        assert saved

    def test_a_second_ctrl_c_stops_at_once(self):
        def run():
            with Interruption(lambda asked: asked):
                os.kill(os.getpid(), signal.SIGINT)
                os.kill(os.getpid(), signal.SIGINT)

        with pytest.raises(KeyboardInterrupt) as caught:
            run()
        assert type(caught.value) is KeyboardInterrupt
