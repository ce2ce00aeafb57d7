"""The HTML by which notebooks show tensors, variables, layers and what training returns."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import pullback as pb


def parsed(value: Any) -> ElementTree.Element:
    """Its HTML, which is XML too."""
    return ElementTree.fromstring(f"<div>{value._repr_html_()}</div>")


def cells(value: Any) -> list[list[str]]:
    """The text of the cells of its table, without the header."""
    rows = parsed(value).iter("tr")
    return [["".join(cell.itertext()) for cell in row] for row in rows][1:]


def test_a_matrix_is_a_table():
    assert cells(pb.asarray([[1.0, 2.0], [3.0, 4.5]])) == [["0", "1.", "2."], ["1", "3.", "4.5"]]
    title = parsed(pb.asarray([[1.0, 2.0]]))[0].text
    assert title == "Tensor of shape (1, 2), float32, on cpu:0"


def test_a_vector_is_a_row():
    assert cells(pb.asarray([True, False])) == [["", "True", "False"]]
    assert cells(pb.asarray([0.5, 1], dtype="bfloat16")) == [["", "0.5", "1."]]
    assert cells(pb.asarray([1j])) == [["", "0.+1.j"]]


@pytest.mark.parametrize("x", [pb.asarray(2.5), pb.zeros((2, 2, 2)), pb.zeros((0, 3))])
def test_other_shapes_are_text(x):
    assert parsed(x).find("pre").text in str(x)


def test_of_a_large_tensor_the_edges_are_shown():
    x = pb.reshape(pb.arange(3_000_000), (1000, 3000))
    shown = cells(x)
    assert len(shown) == 11
    assert shown[0][:3] == ["0", "0", "1"]
    assert shown[0][-1] == "2999"
    assert shown[5] == ["…"] * 12
    assert shown[-1][-1] == "2999999"
    for large in (x, pb.zeros((10**6,)), pb.zeros((50, 200, 300))):
        assert len(large._repr_html_()) < 20_000


def test_values_are_fetched_once_as_for_text(monkeypatch):
    fetched = []
    numpy = pb.Tensor.numpy
    monkeypatch.setattr(pb.Tensor, "numpy", lambda self: fetched.append(1) or numpy(self))
    pb.ones((2, 2))._repr_html_()
    assert fetched == [1]


def test_a_variable_has_its_name_and_no_tape_sees_it():
    v = pb.Variable([[1.0]], name="<b>w</b>")
    with pb.GradientTape() as tape:
        html = v._repr_html_()
        assert not tape.watched_variables()
    assert "Variable &#x27;&lt;b&gt;w&lt;/b&gt;&#x27; of shape (1, 1), float32, on cpu:0" in html
    v.frozen = True
    assert "frozen" in v._repr_html_()


def model() -> pb.Model:
    inner = pb.Sequential([pb.layers.Dense(3, activation="relu")])
    made = pb.Sequential([inner, pb.layers.Dense(2)], name="<script>")
    made(pb.ones((1, 2)))
    return made


def test_a_model_is_the_table_of_its_summary():
    made = model()
    lines: list[str] = []
    made.summary(lines.append, variables=True)
    for row, line in zip(cells(made), lines[2:-1], strict=True):
        assert "".join(row).split() == re.sub(r"  +", " ", line).split() or all(
            cell.strip() in line for cell in row
        )
    assert "<script>" not in made._repr_html_()
    assert "17 parameters, 17 of them trained" in parsed(made)[0].text
    # The nested layer is indented.
    assert cells(made)[1][0].startswith("  ")


def test_a_layer_before_its_first_call():
    assert cells(pb.layers.Dense(3)) == [["", "Dense", "?", "?", ""]]


def test_a_model_of_many_layers_is_cut():
    many = pb.Sequential([pb.layers.Flatten() for _ in range(500)])
    assert len(cells(many)) == 201


def test_variables_are_listed_without_values():
    assert cells(model().variables)[:2] == [
        ["kernel", "(2, 3)", "float32", "6"],
        ["bias", "(3,)", "float32", "3"],
    ]


def test_the_history_and_an_evaluation():
    trained = pb.Sequential([pb.layers.Dense(1, kernel_initializer="zeros")])
    trained.compile("sgd", "mean_squared_error")
    x, y = np.ones((1, 1), np.float32), np.ones((1, 1), np.float32)
    history = trained.fit(x, y, epochs=2, validation_data=(x, y), validation_freq=2, verbose=False)
    assert [row[:2] for row in cells(history)] == [["1", "1"], ["2", "0.9216"]]
    assert cells(history)[0][2] == ""
    result = trained.evaluate(x, y, verbose=False)
    assert cells(result) == [[str(result.loss)]]
