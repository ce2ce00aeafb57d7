"""Layers that bring numbers, categories and text into the form of a model."""

from __future__ import annotations

import json
import string
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pullback as pb

L = pb.layers
RNG = np.random.default_rng(3)
WORDS = ["the cat sat.", "On the mat!", "a CAT, the dog", "", "mat mat mat"]


def datasets(x):
    """The same data in the forms that adapt takes."""
    slices = pb.data.Dataset.from_tensor_slices
    return [x, pb.asarray(x), slices(x).batch(3), slices((x, np.arange(len(x)))).batch(7)]


# Numbers -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("axis", "over"), [(-1, (0, 1, 2)), (None, (0, 1, 2, 3)), ((1, 3), (0, 2)), (2, (0, 1, 3))]
)
def test_normalization(axis, over):
    # Far from zero: a sum of squares in float32 would lose the variance.
    x = RNG.normal(1e4, 2, (20, 3, 4, 5))
    wanted = (x - x.mean(over, keepdims=True)) / x.std(over, keepdims=True)
    for data in datasets(x):
        layer = L.Normalization(axis, dtype="float64")
        layer.adapt(data)
        np.testing.assert_allclose(layer(x).numpy(), wanted, rtol=1e-9, atol=1e-9)
        back = L.Normalization(
            axis, mean=layer.mean, variance=layer.variance, invert=True, dtype="float64"
        )
        np.testing.assert_allclose(back(wanted).numpy(), x, rtol=1e-9)
    layer.adapt(x[:2])
    np.testing.assert_allclose(
        layer(x[:2]).numpy(),
        (x[:2] - x[:2].mean(over, keepdims=True)) / x[:2].std(over, keepdims=True),
        atol=1e-9,
    )


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 8), st.integers(1, 40), st.integers(0, 2**31))
def test_discretization(bins, size, seed):
    x = np.random.default_rng(seed).integers(-5, 6, size).astype(np.float32) / 2
    layer = L.Discretization(num_bins=bins)
    layer.adapt(x)
    ends = np.sort(x)[[i * size // bins for i in range(1, bins)]]
    assert layer.boundaries.tolist() == ends.tolist()
    assert layer(x).tolist() == np.digitize(x, ends).tolist()
    unique = sorted({*ends.tolist()})
    given_ = L.Discretization(unique, output_mode="one_hot")
    assert given_(x).tolist() == np.eye(len(unique) + 1)[np.digitize(x, unique)].tolist()


def split_mix(value, salt, bins):
    mask = (1 << 64) - 1
    z = (value + (salt + 1) * 0x9E3779B97F4A7C15) & mask
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
    return ((z ^ (z >> 31)) & ((1 << 63) - 1)) % bins


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8"])
def test_hashing(dtype):
    low = -100 if dtype != "uint8" else 0
    x = np.arange(low, 100).astype(dtype)
    for salt in (0, 1, -7):
        found = L.Hashing(11, salt=salt)(x).tolist()
        assert found == [split_mix(int(value), salt, 11) for value in x]
        assert L.Hashing(11, salt=salt)(x[3]).item() == found[3]
    counts = np.bincount(L.Hashing(10)(np.arange(10_000)).numpy())
    assert counts.min() > 850


@pytest.mark.parametrize("mode", ["one_hot", "multi_hot", "count"])
def test_categories(mode):
    x = RNG.integers(-1, 6, (4, 3))
    rows = [[[float(token == c) for c in range(5)] for token in row] for row in x]
    found = L.CategoryEncoding(5, output_mode=mode)(x).numpy()
    wanted = {"one_hot": rows, "multi_hot": np.max(rows, 1), "count": np.sum(rows, 1)}[mode]
    assert found.tolist() == np.asarray(wanted).tolist()
    captured = pb.function(lambda x: L.CategoryEncoding(5, output_mode=mode)(x))
    for _ in range(3):
        assert captured(x).tolist() == found.tolist()


# Text --------------------------------------------------------------------------------------------


def reference(texts, size=None):
    """The vocabulary and the rows, word by word."""
    rows = ["".join(c for c in t.lower() if c.isalnum() or c == " ").split() for t in texts]
    counts = Counter(word for row in rows for word in row)
    words = ["", "[UNK]", *sorted(counts, key=lambda w: (-counts[w], w))][:size]
    length = max(map(len, rows))
    places = [[words.index(w) if w in words else 1 for w in row] for row in rows]
    return words, [row + [0] * (length - len(row)) for row in places]


@pytest.mark.parametrize("size", [None, 4])
def test_words(size):
    words, rows = reference(WORDS, size)
    slices = pb.data.Dataset.from_tensor_slices
    for data in (WORDS, np.array(WORDS), slices(WORDS), slices((WORDS, [0] * 5)).batch(2)):
        layer = L.TextVectorization(size)
        layer.adapt(data)
        assert layer.get_vocabulary() == words
        assert layer(WORDS).tolist() == layer(np.array(WORDS)).tolist() == rows
        assert layer(WORDS[2]).tolist() == layer([WORDS[2]]).tolist()[0]
        assert layer.vocabulary_size == len(words)
    short = L.TextVectorization(vocabulary=words[2:], output_sequence_length=2)
    assert short(WORDS).tolist() == [row[:2] for row in rows]
    long = L.TextVectorization(vocabulary=words[2:], output_sequence_length=7)
    assert [row[:4] for row in long(WORDS).tolist()] == [row[:4] for row in rows]
    for mode, reduce in (("count", list.count), ("multi_hot", lambda row, p: p in row)):
        bag = L.TextVectorization(vocabulary=words[2:], output_mode=mode)
        wanted = [[0.0, *[float(reduce(r, p)) for p in range(1, len(words))]] for r in rows]
        assert bag(WORDS).tolist() == wanted
    assert long([""] * 2).tolist() == [[0] * 7] * 2


@pytest.mark.parametrize("size", [None, 4])
def test_frequencies_of_words_in_documents(size):
    words, rows = reference(WORDS, size)
    bag = L.TextVectorization(size, output_mode="tf_idf")
    bag.adapt(WORDS)
    having = [sum(place in row for row in rows) for place in range(2, len(words))]
    weights = [np.log(1 + len(WORDS) / (1 + count)) for count in having]
    weights = np.array([0.0, np.mean(weights), *weights])
    counts = np.array([[row.count(place) for place in range(len(words))] for row in rows])
    np.testing.assert_allclose(bag(WORDS).numpy(), counts * weights, rtol=1e-6)
    # The same words one by one, by datasets, as a copy, and with the weights given.
    split = [text.translate(str.maketrans("", "", string.punctuation)).lower() for text in WORDS]
    lookup = L.StringLookup(max_tokens=None if size is None else size - 1, output_mode="tf_idf")
    lookup.adapt(text.split() for text in split)
    assert lookup.get_vocabulary() == words[1:]
    given = L.TextVectorization(
        vocabulary=words[2:], idf_weights=weights[2:].tolist(), output_mode="tf_idf"
    )
    again = L.TextVectorization.from_config(json.loads(json.dumps(bag.get_config())))
    slices = L.TextVectorization(size, output_mode="tf_idf")
    slices.adapt(pb.data.Dataset.from_tensor_slices(WORDS).batch(2))
    for layer in (given, again, slices):
        np.testing.assert_allclose(layer(WORDS).numpy(), bag(WORDS).numpy(), rtol=1e-6)
    for row, text in zip(bag(WORDS).numpy(), split, strict=True):
        if text:
            np.testing.assert_allclose(lookup(text.split()).numpy(), row[1:], rtol=1e-6)


@pytest.mark.parametrize("mode", ["count", "multi_hot", "tf_idf"])
def test_texts_without_words_have_vectors_of_0(mode):
    bag = L.TextVectorization(output_mode=mode)
    bag.adapt(["a b", "b"])
    assert bag(["", ""]).tolist() == [[0.0] * 4] * 2
    assert bag(np.array([], str)).shape == (0, 4)
    assert bag("").shape == (4,)


def test_ways_to_make_words():
    two = L.TextVectorization(vocabulary=["a", "b", "a b"], ngrams=2)
    assert two("a b a").tolist() == [2, 3, 2, 4, 1]
    letters = L.TextVectorization(split="character", standardize=None, vocabulary=["a", "B"])
    assert letters("aBA").tolist() == [2, 3, 1]
    own = L.TextVectorization(standardize=str.upper, split=lambda t: t.split("-"), vocabulary=["X"])
    assert own(["x-y"]).tolist() == [[2, 1]]


def test_lookups():
    layer = L.StringLookup(["x", "y"], num_oov_indices=3, mask_token="")
    found = layer([["x", "", "q"], ["y", "q", "z"]]).numpy()
    assert found[0, :2].tolist() == [4, 0]
    assert found[1, 0] == 5
    assert found[0, 2] == found[1, 1]
    assert {*found[1, 1:].tolist()} <= {1, 2, 3}
    names = L.StringLookup(["x", "y"], invert=True)
    assert names(pb.asarray([[2, 0], [1, 9]])).tolist() == [["y", "[UNK]"], ["x", "[UNK]"]]
    numbers = L.IntegerLookup(max_tokens=3)
    numbers.adapt(np.array([[7, 7, 3], [3, 7, 1]]))
    assert numbers.get_vocabulary() == [-1, 7, 3]
    assert numbers(np.array([3, 1, 7])).tolist() == [2, 0, 1]
    assert L.IntegerLookup([5], invert=True)(np.array([1])).tolist() == [5]
    bag = L.StringLookup(["x", "y"], output_mode="multi_hot")
    assert bag([["x", "x"], ["y", "q"]]).tolist() == [[0, 1, 0], [1, 0, 1]]


# Use ---------------------------------------------------------------------------------------------


def model():
    return pb.Sequential(
        [
            L.TextVectorization(output_sequence_length=4),
            L.Embedding(12, 3),
            L.Lambda(lambda x: pb.mean(x, axis=1)),
            L.Dense(1),
        ]
    )


def test_a_model_of_texts_is_trained_saved_and_made_again(tmp_path):
    texts, targets = np.array(WORDS), np.arange(5.0, dtype=np.float32).reshape(-1, 1)
    first = model()
    first.layers[0].adapt(texts)
    first.compile(pb.optimizers.Adam(0.05), "mse")
    losses = first.fit(texts, targets, epochs=40, batch_size=5, verbose=0).history["loss"]
    assert losses[-1] < losses[0] / 4
    saved = pb.Checkpoint(model=first).save(tmp_path / "c")
    other = model()
    pb.Checkpoint(model=other).restore(saved)
    assert other(texts).tolist() == first.predict(texts).tolist()
    text = json.dumps(first.layers[0].get_config())
    again = L.TextVectorization.from_config(json.loads(text))
    assert again(WORDS).tolist() == first.layers[0](WORDS).tolist()


def test_weights_of_words_are_saved(tmp_path):
    first, other = (L.TextVectorization(output_mode="tf_idf") for _ in range(2))
    first.adapt(WORDS)
    pb.Checkpoint(layer=other).restore(pb.Checkpoint(layer=first).save(tmp_path / "c"))
    assert other(WORDS).tolist() == first(WORDS).tolist()


def test_what_was_learned_is_saved(tmp_path):
    x = RNG.normal(3, 2, (50, 2)).astype(np.float32)
    made = lambda: [L.Normalization(), L.Discretization(num_bins=4)]  # noqa: E731
    first = made()
    for layer in first:
        layer.adapt(x)
    saved = pb.Checkpoint(layers=first).save(tmp_path / "c")
    other = made()
    pb.Checkpoint(layers=other).restore(saved)
    for one, two in zip(first, other, strict=True):
        assert one(x).tolist() == two(x).tolist()
        captured = pb.function(two)
        for _ in range(3):
            assert captured(x).tolist() == one(x).tolist()
        two.adapt(x * 2)
        assert captured(x * 2).tolist() == two(x * 2).tolist()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: L.Normalization()([[1.0]]), "LayerError", "call layer.adapt"),
        (lambda: L.Normalization(mean=1.0), "InputValueError", "both mean and variance"),
        (lambda: L.Normalization().adapt(np.zeros((0, 2))), "InputValueError", "no data"),
        (lambda: L.Discretization(num_bins=2)([1.0]), "LayerError", "call layer.adapt"),
        (lambda: L.Discretization([1.0, 0.0]), "InputValueError", "must ascend"),
        (lambda: L.Discretization(), "InputValueError", "either boundaries or num_bins"),
        (lambda: L.Discretization(num_bins=3).adapt([]), "InputValueError", "no data"),
        (lambda: L.CategoryEncoding(3)([1.0]), "DTypeError", "must be integers"),
        (lambda: L.CategoryEncoding(3, output_mode="int"), "InputValueError", "the inputs"),
        (lambda: L.CategoryEncoding(3)(np.int32(1)), "LayerError", "needs an axis"),
        (lambda: L.Hashing(0), "InputValueError", "1 or more"),
        (lambda: L.Hashing(3)([1.5]), "DTypeError", "must be integers"),
        (lambda: L.StringLookup()(["a"]), "LayerError", "call layer.adapt"),
        (lambda: L.StringLookup(["a", "a"]), "InputValueError", "'a' twice"),
        (lambda: L.StringLookup(["a"], num_oov_indices=0)("b"), "InputValueError", "'b' is not"),
        (lambda: L.StringLookup(["a"])(3.0), "InputTypeError", "takes strings"),
        (lambda: L.IntegerLookup([1])(3.0), "InputTypeError", "takes integers"),
        (lambda: L.TextVectorization(split="x"), "InputValueError", "or a function"),
        (lambda: L.TextVectorization().adapt([]), "InputValueError", "no data"),
        (lambda: L.TextVectorization(output_mode="one_hot"), "InputValueError", "multi_hot"),
        (
            lambda: L.StringLookup(["a"], output_mode="tf_idf"),
            "InputValueError",
            "give idf_weights",
        ),
        (lambda: L.StringLookup(["a"], idf_weights=[1.0]), "InputValueError", "output_mode"),
        (
            lambda: L.IntegerLookup([1, 2], output_mode="tf_idf", idf_weights=[1.0]),
            "InputValueError",
            "1 idf_weights for 2 tokens",
        ),
        (lambda: L.CategoryEncoding(3, output_mode="tf_idf"), "InputValueError", "_mode must be"),
        (lambda: pb.function(L.StringLookup(["a"])).lower("a"), "CaptureError", "Dataset.map"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(getattr(pb.errors, error), match=message):
        call()
