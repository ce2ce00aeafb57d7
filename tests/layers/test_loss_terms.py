"""Models without losses of layers do not look for them; all others find them, also unpickled."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys

import pytest

import pullback as pb
from pullback.layers.loss_terms import LossTerms
from pullback.state import objects


def regularized() -> pb.Model:
    model = pb.Sequential([pb.layers.Dense(1, kernel_initializer="ones", kernel_regularizer="l2")])
    model(pb.ones((1, 3)))
    return model


class Adds(pb.layers.Layer):
    """A layer that adds a loss."""

    def call(self, x):
        self.add_loss(pb.sum(x))
        return x


def test_nothing_is_looked_for_before_a_layer_adds_a_loss(monkeypatch):
    monkeypatch.setattr(LossTerms, "ever", False)
    model = pb.Sequential([pb.layers.Dense(1)])
    model(pb.ones((1, 3)))
    with monkeypatch.context() as patch:
        patch.setattr(objects, "walk", None)
        assert model.losses == []
    adding = pb.Sequential([Adds()])
    adding(pb.ones((1, 3)))
    assert [loss.item() for loss in adding.losses] == [3.0]
    assert model.losses == []


@pytest.mark.parametrize("ever", [False, True])
def test_copies_have_their_losses(monkeypatch, ever):
    model = regularized()
    for make in (copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))):
        monkeypatch.setattr(LossTerms, "ever", ever)
        assert [loss.item() for loss in make(model).losses] == pytest.approx([0.03])


def test_a_process_that_only_unpickles_finds_them(tmp_path):
    file = tmp_path / "model.pickle"
    file.write_bytes(pickle.dumps(regularized()))
    program = (
        "import pickle, sys\n"
        "model = pickle.load(open(sys.argv[1], 'rb'))\n"
        "print(len(model.losses))\n"
    )
    out = subprocess.run(
        [sys.executable, "-c", program, str(file)], capture_output=True, text=True, check=True
    )
    assert out.stdout == "1\n"
