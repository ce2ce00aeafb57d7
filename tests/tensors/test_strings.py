"""Tensors of strings."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb

NAMES = [["cat", "dog"], ["cow", "été"]]


@pytest.fixture
def names():
    return pb.StringTensor(NAMES)


def test_hold_and_print(names):
    assert type(names) is pb.StringTensor
    assert (names.shape, names.ndim, names.size, len(names)) == ((2, 2), 2, 4, 2)
    assert names.tolist() == names.numpy().tolist() == NAMES
    assert repr(names) == "StringTensor([['cat', 'dog'], ['cow', 'été']], shape=(2, 2))"
    assert f"{names[0]}" == "['cat' 'dog'] shape=(2,) dtype=str device=host"
    assert f"{pb.StringTensor('cat'):>5}" == "  cat"


@pytest.mark.parametrize(
    "value",
    ["cat", b"cat", ["cat", "dog"], ("cat",), np.array(["cat"]), np.array(["a", "bc"], object)],
)
def test_what_becomes_one(value):
    held = pb.StringTensor(value)
    assert held.tolist() == pb.StringTensor(held).tolist() == np.asarray(value).tolist()
    for dtype in (None, "float32"):
        with pytest.raises(pb.errors.ConversionError, match=r"pb\.StringTensor"):
            pb.asarray(value, dtype=dtype)
    with pytest.raises(TypeError):
        pb.asarray(held)


@pytest.mark.parametrize("value", [["cat", 1], [["cat"], ["cat", "dog"]], [object()], [None]])
def test_what_does_not(value):
    with pytest.raises(pb.errors.ConversionError):
        pb.StringTensor(value)


def test_text_is_no_tensor_of_a_dtype():
    with pytest.raises(pb.errors.ConversionError):
        pb.asarray("1.5", dtype="float32")


def test_slices(names):
    assert names[1, 0] == "cow"
    assert type(names[1, 0]) is str
    assert names[:, 1].tolist() == ["dog", "été"]
    assert names[0, ::-1].tolist() == ["dog", "cat"]
    assert names[pb.asarray([1, 0])].tolist() == NAMES[::-1]
    assert names[names == "dog"].tolist() == ["dog"]
    with pytest.raises(pb.errors.IndexingError):
        names[2]


def test_iterates(names):
    assert [list(row) for row in names] == NAMES
    assert "cow" in names
    with pytest.raises(TypeError):
        len(pb.StringTensor("cat"))


def test_comparisons(names):
    same = names == "cat"
    assert type(same) is pb.Tensor
    assert same.tolist() == [[True, False], [False, False]]
    assert (names != names).tolist() == [[False, False], [False, False]]
    assert (names < ["cow", "d"]).tolist() == [[True, False], [False, False]]
    assert (names[0] >= names[0][0]).tolist() == [True, True]
    assert (names == 1) is False
    with pytest.raises(pb.errors.ShapeError, match=r"\(2, 2\) and \(3,\)"):
        names == ["a", "b", "c"]  # noqa: B015


@pytest.mark.parametrize(
    "arithmetic",
    [
        lambda x: x + "s",
        lambda x: "s" + x,
        lambda x: x * 2,
        lambda x: 2 * x,
        lambda x: -x,
        lambda x: x + np.ones(2),
        lambda x: np.ones(2) + x,
        lambda x: x @ x,
        lambda x: pb.ones(2) + x,
        lambda x: x + pb.ones(2),
        lambda x: float(x),
        lambda x: bool(x),
        pb.exp,
        pb.sum,
    ],
)
def test_arithmetic_raises(names, arithmetic):
    with pytest.raises((pb.errors.DTypeError, pb.errors.ConversionError)):
        arithmetic(names)


def test_cannot_be_written_to(names):
    with pytest.raises(ValueError, match="read-only"):
        names.numpy()[0] = "x"
    given = np.array(["a", "b"])
    held = pb.StringTensor(given)
    given[0] = "z"
    assert held[0] == "a"


def test_through_a_dataset():
    dataset = pb.data.Dataset.from_tensor_slices(
        (pb.StringTensor(["cat", "dog", "cow"]), [1, 2, 3])
    )
    seen = [(name, int(number)) for name, number in dataset]
    assert seen == [("cat", 1), ("dog", 2), ("cow", 3)]
    batches = dataset.map(lambda name, number: (name.upper(), number)).batch(2)
    assert [names.tolist() for names, _ in batches] == [["CAT", "DOG"], ["COW"]]
    lengths = dataset.batch(2).map(lambda names, _: [len(name) for name in names])
    assert [len(one) for one in lengths] == [2, 1]
