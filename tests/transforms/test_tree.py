"""`pb.tree`: structures taken apart and put together."""

import copy
import pickle
import random
from collections import OrderedDict, namedtuple

import pytest

import pullback as pb

Pair = namedtuple("Pair", "left right")


def draw(source, depth=3):
    kind = source.choice(["leaf", "leaf", "none", "list", "tuple", "dict", "pair"])
    if depth == 0 or kind == "leaf":
        return source.random()
    parts = [draw(source, depth - 1) for _ in range(source.randrange(4))]
    return {
        "none": None,
        "list": parts,
        "tuple": tuple(parts),
        "dict": {source.choice("abcdef"): part for part in parts},
        "pair": Pair(draw(source, depth - 1), draw(source, depth - 1)),
    }[kind]


def test_random_structures():
    source = random.Random(0)
    for _ in range(300):
        tree = draw(source)
        leaves = pb.tree.leaves(tree)
        assert pb.tree.unflatten(tree, leaves) == tree
        assert pb.tree.unflatten(pb.tree.structure(tree), leaves) == tree
        assert pb.tree.structure(pb.tree.map(str, tree)) == pb.tree.structure(tree)
        for how in (copy.copy, copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))):
            assert how(pb.tree.structure(tree)) == pb.tree.structure(tree)
        assert pb.tree.leaves(pb.tree.map(lambda x, y: x - y, tree, tree)) == [0] * len(leaves)
        with pytest.raises(pb.errors.InputValueError, match="leaves for a structure of"):
            pb.tree.unflatten(tree, [*leaves, 1])


def test_order_and_kinds():
    assert pb.tree.leaves({"b": 1, "a": 2}) == [1, 2]
    assert pb.tree.map(lambda x, y: (x, y), {"b": 1, "a": 2}, {"a": 3, "b": 4}) == {
        "b": (1, 4), "a": (2, 3),
    }  # fmt: skip
    assert type(pb.tree.map(abs, Pair(-1, [2]))) is Pair
    t = pb.asarray([1.0, 2.0])
    assert pb.tree.leaves((t, "text"))[0] is t


@pytest.mark.parametrize(
    ("one", "other", "place"),
    [
        ({"a": [1, 2]}, {"a": [1]}, "['a']"),
        ([1, (2,)], [1, [2]], "[1]"),
        ([1, {"a": None}], [1, {"a": 2}], "[1]['a']"),
        ([1, {"a": 2}], [1, {"b": 2}], "[1]"),
        (Pair(1, [2]), Pair(1, 2), "[1]"),
        ({"a": 1}, OrderedDict(a=1), ""),
    ],
)
def test_differences_are_named(one, other, place):
    with pytest.raises(pb.errors.InputValueError) as error:
        pb.tree.map(lambda x, y: x, one, other)
    assert f"differ{f' at {place}' if place else ''}: " in str(error.value)


def test_takes_a_function():
    with pytest.raises(pb.errors.InputTypeError, match="takes a function and structures"):
        pb.tree.map([1], [1])
