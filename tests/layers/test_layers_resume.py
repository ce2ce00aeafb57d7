"""Exact resume: 200 steps straight are 100 steps, an end, and 100 steps, bit for bit.

With dropout, shuffling, batch normalization, Adam and a schedule in play. As a program this file
trains: `python tests/layers/test_layers_resume.py FOLDER STEPS [KILL_AT]`.
"""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import pullback as pb

L, O = pb.layers, pb.optimizers  # noqa: E741


class Training:
    """Everything that a run of training consists of, and its state in one checkpoint."""

    def __init__(self):
        rng = np.random.default_rng(0)
        images = rng.normal(size=(300, 6, 8)).astype(np.float32)
        labels = (images[:, 0, 0] > 0).astype(np.int32)
        data = pb.data.Dataset.from_tensor_slices((images, labels))
        self.batches = iter(data.shuffle(100).batch(16).repeat())
        self.model = pb.Sequential(
            [
                L.Conv1D(8, 3, padding="same"),
                L.BatchNormalization(momentum=0.9),
                L.Activation("relu"),
                L.SpatialDropout1D(0.2),
                L.GRU(8, return_sequences=True),
                L.MultiHeadAttention(2, 4, dropout=0.1, seed=5),
                L.Flatten(),
                L.Dropout(0.3),
                L.Dense(2),
            ]
        )
        self.optimizer = O.Adam(
            O.schedules.cosine_restarts(0.01, 30, t_mul=1.5, warmup_steps=10),
            clip_global_norm=1.0, ema_decay=0.95,
        )  # fmt: skip
        self.loss = pb.metrics.Mean("loss")
        self.checkpoint = pb.Checkpoint(
            batches=self.batches, model=self.model, optimizer=self.optimizer, loss=self.loss,
            random=pb.random.default_generator,
        )  # fmt: skip

    def train(self, steps):
        while self.optimizer.step < steps:
            x, y = next(self.batches)
            loss = self.optimizer.minimize(
                lambda x=x, y=y: pb.losses.sparse_softmax_cross_entropy(
                    y, self.model(x, training=True)
                )
            )
            self.loss(loss)

    def digest(self):
        """Of all weights, averages, slots, the mean loss and where the generator is."""
        found = hashlib.sha256()
        for name, array in sorted(self.checkpoint.contents().arrays.items()):
            found.update(name.encode() + np.ascontiguousarray(array).tobytes())
        found.update(repr((float(self.loss.result()), pb.random.default_generator.state)).encode())
        return found.hexdigest()


def straight(steps, seed=3):
    pb.random.seed(seed)
    training = Training()
    training.train(steps)
    return training.digest()


def test_in_one_process(tmp_path):
    expected = straight(40)
    pb.random.seed(3)
    first = Training()
    first.train(20)
    path = first.checkpoint.save(tmp_path)
    # Draws more, and makes everything anew from another seed, before it is restored.
    first.train(25)
    pb.random.seed(99)
    second = Training()
    status = second.checkpoint.restore(path)
    second.train(40)
    status.assert_complete()
    assert second.digest() == expected


class TestFirstValues:
    """Layers are built after a restoration, and draw first values: that must not be seen."""

    def make(self):
        return pb.Sequential([L.Dense(4), L.Dropout(0.5), L.Dense(4)])

    def test_values_that_are_replaced_have_not_been_drawn(self, tmp_path):
        pb.random.seed(1)
        model, random, x = self.make(), pb.random.default_generator, pb.ones((2, 4))
        model(x)
        path = pb.Checkpoint(model=model, random=random).save(tmp_path)
        expected = model(x, training=True).tolist()
        pb.random.seed(2)
        other = self.make()
        pb.Checkpoint(model=other, random=random).restore(path)
        assert other(x, training=True).tolist() == expected

    def test_layers_made_while_others_wait_draw_their_own(self, tmp_path):
        model, x = self.make(), pb.ones((2, 4))
        model(x)
        path = pb.Checkpoint(model=model).save(tmp_path)
        waits = self.make()
        pb.Checkpoint(model=waits).restore(path)
        one, two = L.Dense(4), L.Dense(4)
        one(x)
        two(x)
        assert one.kernel.tolist() != two.kernel.tolist()
        waits(x)
        assert waits.layers[0].kernel.tolist() == model.layers[0].kernel.tolist()


@pytest.mark.slow
def test_with_a_process_that_is_killed(tmp_path):
    def run(*args):
        return subprocess.run(
            [sys.executable, __file__, *map(str, args)],
            capture_output=True, text=True, timeout=600, check=False,
        )  # fmt: skip

    whole = run(tmp_path / "whole", 200)
    assert not whole.returncode, whole.stderr
    killed = run(tmp_path / "parts", 200, 100)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    resumed = run(tmp_path / "parts", 200)
    assert resumed.stdout.startswith("resumed after step 100\n"), resumed.stderr
    assert resumed.stdout.splitlines()[-1] == whole.stdout.splitlines()[-1]


def main(folder, steps, kill_at=0):
    Path(folder).mkdir(exist_ok=True)
    pb.random.seed(3)
    training = Training()
    newest = pb.latest_checkpoint(folder)
    if newest:
        training.checkpoint.restore(newest)
        print(f"resumed after step {training.optimizer.step}", flush=True)
    if int(kill_at):
        training.train(int(kill_at))
        training.checkpoint.save(folder)
        training.train(int(kill_at) + 7)
        os.kill(os.getpid(), signal.SIGKILL)
    training.train(int(steps))
    print(training.digest())


if __name__ == "__main__":
    main(*sys.argv[1:])
