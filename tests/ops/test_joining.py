"""Gradients of what is taken apart: `split`, `unstack` and `split_at`."""

import numpy as np
import pytest

import pullback as pb

# Large enough for parts to be cut one from the other.
X = np.random.default_rng(0).standard_normal((27, 25, 30))
CUTS = {
    "equal": lambda size: size,
    "cut": lambda size: [1, 2],
    "empty parts": lambda size: [0, 0, size, size],
    "one": lambda size: 1,
    "none": lambda size: [],
    "beyond the end": lambda size: [2, size + 3],
    "out of order": lambda size: [2, 1],
}


def gradient(f, x):
    with pb.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    return tape.gradient(y, x)


def weighed(parts):
    """A sum to which each part contributes in its own way."""
    return sum((part * part * (i + 1)).sum() for i, part in enumerate(parts))


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("cuts", CUTS)
def test_split_of_a_watched_tensor(cuts, axis):
    how = CUTS[cuts](X.shape[axis])
    expected = np.split(X, how, axis)
    x = pb.asarray(X)
    with pb.GradientTape() as tape:
        tape.watch(x)
        parts = pb.split(x, how, axis=axis)
        total = weighed(parts)
    for part, wanted in zip(parts, expected, strict=True):
        np.testing.assert_array_equal(part.numpy(), wanted)
    wanted = np.zeros_like(X)
    marks = np.split(np.arange(X.size).reshape(X.shape), how, axis)
    for i, mark in enumerate(marks):
        np.add.at(wanted.reshape(-1), mark.ravel(), 2 * (i + 1) * X.reshape(-1)[mark.ravel()])
    np.testing.assert_allclose(tape.gradient(total, x).numpy(), wanted, rtol=1e-12)


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_unstack_of_a_watched_tensor(axis):
    size = X.shape[axis]
    along = np.arange(1, size + 1).reshape([size if a == axis % 3 else 1 for a in range(3)])
    found = gradient(lambda x: weighed(pb.unstack(x, axis=axis)), pb.asarray(X))
    np.testing.assert_allclose(found.numpy(), 2 * X * along, rtol=1e-12)


def test_parts_that_nobody_uses_have_gradient_zero():
    found = gradient(lambda x: (pb.unstack(x)[1] ** 3).sum(), pb.asarray(X))
    np.testing.assert_allclose(found[1].numpy(), 3 * X[1] ** 2, rtol=1e-12)
    assert not found.numpy()[[0, *range(2, 27)]].any()


def test_second_derivatives():
    def cubes(x):
        first, *_, last = pb.unstack(x, axis=1)
        return (first**3 * last).sum()

    found = gradient(lambda x: (gradient(cubes, x) ** 2).sum(), pb.asarray(X))
    a, b = X[:, 0], X[:, -1]
    np.testing.assert_allclose(found.numpy()[:, 0], 36 * a**3 * b**2 + 6 * a**5, rtol=1e-12)
    np.testing.assert_allclose(found.numpy()[:, -1], 18 * a**4 * b, rtol=1e-12)
    assert not found.numpy()[:, 1:-1].any()


@pytest.mark.parametrize("take", [lambda x: pb.split(x, 1)[0], lambda x: pb.unstack(x[None])[0]])
def test_a_part_is_a_handle_of_its_own(take):
    x = pb.asarray([1.0, 2.0])
    with pb.GradientTape() as tape:
        tape.watch(x)
        part = take(x)
        with pytest.raises(pb.errors.InputValueError, match="view of another"):
            part[0] = 7.0
        part = pb.asarray(part, copy=True)
        part[0] = 7.0
    assert (x.tolist(), part.tolist()) == ([1.0, 2.0], [7.0, 2.0])
    assert tape.gradient(part, x).tolist() == [0.0, 1.0]


def test_edges():
    assert pb.unstack(pb.zeros((0, 3))) == ()
    x = pb.asarray(np.zeros((0, 3)))
    with pb.GradientTape() as tape:
        tape.watch(x)
        assert pb.unstack(x) == ()
        rows = pb.unstack(x, axis=1)
    assert [row.shape for row in rows] == [(0,)] * 3
    assert tape.gradient(rows[0], x).shape == (0, 3)


def test_the_gradient_of_parts_that_meet_is_one_copy():
    x = pb.asarray(X)
    with pb.GradientTape() as tape:
        tape.watch(x)
        before, behind = pb.split(x, [3])
    assert before._node.parents == behind._node.parents
    assert before._node.parents[0].op.name == "split_at"
    assert tape.gradient([before, behind], x).shape == X.shape
