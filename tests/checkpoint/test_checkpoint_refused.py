"""Restores that fail at any step: the process is as it was, and the next restore works."""

import functools

import numpy as np
import pytest

import pullback as pb
from pullback import Variable
from pullback.checkpoint import checkpoint as checkpoints
from pullback.checkpoint import restoration
from pullback.checkpoint.objects import ObjectGraph
from pullback.optimizers import Adam
from pullback.random import Generator
from pullback.state import objects

#: What a restore calls, in any order.
STEPS = (
    (Variable, "assign"),
    (Adam, "restore_slot"),
    (Adam, "restore_state"),
    (Generator, "restore_state"),
    (pb.metrics.Sum, "restore_state"),
    (pb.metrics.ConfusionMatrix, "restore_state"),
    (pb.Checkpoint, "_set"),
    (ObjectGraph, "unbuilt"),
    (ObjectGraph, "__init__"),
    (restoration, "decode"),
    (checkpoints, "decode"),
)


class Fault(Exception):
    """An error of a step."""


class Faults:
    """Counts the steps of a restore, and lets one of them fail, before it or when it is done."""

    def __init__(self, monkeypatch):
        self.count = self.fail_at = 0
        self.behind = False
        for owner, name in STEPS:
            monkeypatch.setattr(owner, name, self.watched(getattr(owner, name)))

    def watched(self, function):
        @functools.wraps(function)
        def step(*args, **kwargs):
            self.count += 1
            fails = self.count == self.fail_at
            if fails and not self.behind:
                raise Fault
            result = function(*args, **kwargs)
            if fails:
                raise Fault
            return result

        return step


class Objects:
    """Objects with every kind of state: those of a training run, and a layer that is not built."""

    def __init__(self, seed):
        self.layer = pb.layers.Dense(3, input_shape=(2,))
        self.later = pb.layers.Dense(2)
        self.optimizer = Adam(0.1, ema_decay=0.9, accumulate_steps=2)
        self.generator = pb.Generator(seed)
        self.mean, self.matrix = pb.metrics.Sum(), pb.metrics.ConfusionMatrix(2)
        self.checkpoint = pb.Checkpoint(**vars(self), epoch=seed, log={"loss": [seed]})

    def train(self, steps):
        for _ in range(steps):
            x = self.generator.normal((4, 2))
            self.optimizer.minimize(lambda x=x: pb.mean(self.layer(x) ** 2), self.layer.variables)
            self.mean(x)
            self.matrix([0, 1, 1], [1, 1, 0])

    def state(self):
        parts = (self.optimizer, self.generator, self.mean, self.matrix)
        values = [variable.numpy().tolist() for variable in self.layer.variables]
        own = {id(v): number for number, v in enumerate(self.layer.variables)}
        slots = sorted(
            (own[id(v)], n, s.numpy().tolist()) for v, n, s in self.optimizer.slot_variables()
        )
        states = [
            {name: np.asarray(value).tolist() for name, value in part.checkpoint_state().items()}
            for part in parts
        ]
        plain = (self.checkpoint.epoch, {**self.checkpoint.log}, [*self.checkpoint.log["loss"]])
        return values, slots, states, plain


@pytest.mark.parametrize("behind", [False, True], ids=["before", "behind"])
@pytest.mark.parametrize("trained", [0, 3])
def test_a_restore_that_fails_leaves_all_as_it_was(tmp_path, monkeypatch, behind, trained):
    saved = Objects(1)
    saved.train(5)
    saved.later(pb.ones((1, 3)))
    path = saved.checkpoint.save(tmp_path)
    right = saved.state()

    there = Objects(2)
    there.train(trained)
    earlier = Objects(3)
    pending = [earlier.checkpoint.restore(path)]  # it waits for its layer
    pending += objects.PENDING_RESTORES[:-1]
    before, waiting = there.state(), objects.PENDING_RESTORES[:]

    faults = Faults(monkeypatch)
    faults.behind = behind
    failed = 0
    while True:
        faults.count, faults.fail_at = 0, failed + 1
        try:
            there.checkpoint.restore(path)
        except (Fault, pb.errors.CheckpointError):
            failed += 1
            faults.fail_at = 0
            assert there.state() == before, f"step {failed}"
            assert waiting == objects.PENDING_RESTORES, f"step {failed}"
        else:
            break
    faults.fail_at = 0
    assert failed > 20
    assert there.state() == right
    # Both wait for their layers still.
    for owner in (there, earlier):
        owner.later(pb.ones((1, 3)))
        np.testing.assert_array_equal(owner.later.kernel.numpy(), saved.later.kernel.numpy())


def test_a_restore_that_waits_does_not_disturb_a_trace(tmp_path):
    """A layer that is built in a trace says so, whatever waits for values of others."""
    saved = pb.layers.Dense(2, input_shape=(3,))
    path = pb.Checkpoint(layer=saved).save(tmp_path)
    other = pb.layers.Dense(2)
    waiting = pb.Checkpoint(layer=other).restore(path)
    assert waiting in objects.PENDING_RESTORES
    model = pb.Sequential([pb.layers.Dense(2)])
    with pytest.raises(pb.errors.CaptureError, match="makes a variable"):
        pb.function(model).lower(pb.ones((1, 3)))
    other(pb.ones((1, 3)))
    np.testing.assert_array_equal(other.kernel.numpy(), saved.kernel.numpy())
