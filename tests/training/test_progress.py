"""The progress of `fit`, `evaluate` and `predict`: a bar on a terminal, lines elsewhere."""

from __future__ import annotations

import io
import re
import sys
import types
from typing import Any

import numpy as np
import pytest

import pullback as pb

X = np.ones((64, 2), np.float32)
Y = np.ones((64, 1), np.float32)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def no_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)


def model() -> pb.Model:
    made = pb.Sequential([pb.layers.Dense(1)])
    made.compile("sgd", "mean_squared_error", ["mae"])
    return made


def test_a_file_gets_one_line_an_epoch(capsys):
    model().fit(X, Y, epochs=3, validation_split=0.5)
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert len(lines) == 3
    for number, line in enumerate(lines, 1):
        assert re.fullmatch(
            rf"epoch {number}/3: 1 step, \S+ s, loss \S+, mean_absolute_error \S+, "
            r"val_loss \S+, val_mean_absolute_error \S+",
            line,
        )
    assert "\r" not in err
    assert out == ""


def test_evaluate_and_predict_get_one_line(capsys):
    trained = model()
    trained.evaluate(X, Y)
    trained.predict(X, verbose=True)
    first, second = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"evaluate: 2 steps, \S+ s, loss \S+, mean_absolute_error \S+", first)
    assert re.fullmatch(r"predict: 2 steps, \S+ s", second)


def test_a_notebook_gets_lines_on_its_output(capsys, monkeypatch):
    # Its standard error stream is shown in red.
    monkeypatch.setitem(sys.modules, "ipykernel", types.ModuleType("ipykernel"))
    model().fit(X, Y, epochs=2)
    out, err = capsys.readouterr()
    assert [line[:10] for line in out.splitlines()] == ["epoch 1/2:", "epoch 2/2:"]
    assert "\r" not in out
    assert err == ""


@pytest.mark.parametrize("notebook", [False, True])
def test_a_terminal_gets_a_bar(capsys, monkeypatch, notebook):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    if notebook:  # imported by a program in a terminal
        monkeypatch.setitem(sys.modules, "ipykernel", types.ModuleType("ipykernel"))
    model().fit(X, Y, epochs=2)
    shown = terminal.getvalue()
    assert "\repoch 1/2: 100%|" in shown
    assert "loss=" in shown
    assert capsys.readouterr().out == ""


def test_nothing_is_shown_where_there_is_no_stream_and_where_none_is_wanted(capsys, monkeypatch):
    model().fit(X, Y, verbose=False)
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr(sys, "stderr", None)
    model().fit(X, Y)
    assert capsys.readouterr().out == ""


def test_a_stream_that_only_writes_is_a_file(monkeypatch):
    written: list[str] = []
    stream = types.SimpleNamespace(write=written.append, flush=lambda: None)
    monkeypatch.setattr(sys, "stderr", stream)
    model().fit(X, Y)
    assert "".join(written).startswith("epoch 1/1: 2 steps")


def test_a_failed_epoch_shows_no_line(capsys):
    class Fails(pb.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any) -> None:
            raise ValueError("wrong")

    with pytest.raises(ValueError, match="wrong"):
        model().fit(X, Y, callbacks=[Fails()])
    assert capsys.readouterr().err == ""


def test_metrics_are_computed_once_an_epoch(capsys):
    reads = []

    class Counted(pb.metrics.MeanAbsoluteError):
        def result(self) -> Any:
            reads.append(1)
            return super().result()

    counted = pb.Sequential([pb.layers.Dense(1)])
    counted.compile("sgd", "mean_squared_error", [Counted()])
    counted.fit(X, Y, epochs=2, batch_size=8)
    assert len(reads) == 2
