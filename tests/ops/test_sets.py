"""Gradients of the distinct elements, and sums of booleans."""

import numpy as np
import pytest

import pullback as pb

X = pb.asarray([3.0, 1.0, 3.0, -1.0])
WEIGHTS = pb.asarray([10.0, 20.0, 30.0])


@pytest.mark.parametrize(
    "values",
    [
        pb.unique_values,
        lambda x: pb.unique_all(x).values,
        lambda x: pb.unique_counts(x).values,
        lambda x: pb.unique_inverse(x).values,
        np.unique,
    ],
    ids=["values", "all", "counts", "inverse", "np.unique"],
)
def test_the_gradient_of_a_distinct_value_goes_to_its_first_occurrence(values):
    # The values are -1, 1 and 3; of the two 3s the first one is taken.
    gradient = pb.grad(lambda x: pb.sum(values(x) * WEIGHTS))(X)
    assert gradient.tolist() == [30.0, 20.0, 0.0, 10.0]


def test_it_is_that_of_taking_the_elements_by_their_indices():
    indices = pb.unique_all(X).indices
    by_take = pb.grad(lambda x: pb.sum(pb.take(x, indices) ** 3))(X)
    assert pb.grad(lambda x: pb.sum(pb.unique_values(x) ** 3))(X).tolist() == by_take.tolist()


def test_a_variable_and_a_matrix():
    v = pb.Variable([[2.0, 1.0], [1.0, 2.0]])
    with pb.GradientTape() as tape:
        loss = pb.sum(pb.unique_values(v) ** 2)
    assert tape.gradient(loss, v).tolist() == [[4.0, 2.0], [0.0, 0.0]]


def test_second_derivatives():
    def third_powers(x):
        return pb.sum(pb.unique_values(x) ** 3)

    assert pb.hessian(third_powers)(X[:2]).tolist() == [[18.0, 0.0], [0.0, 6.0]]


@pytest.mark.parametrize(
    "call",
    [
        lambda a: a + a,
        lambda a: a - a,
        lambda a: -a,
        lambda a: a + True,
        lambda a: pb.add(True, False),
    ],
)
def test_arithmetic_of_booleans_says_what_to_write(call):
    with pytest.raises(pb.errors.DTypeError, match=r'astype\("int32"\).*pb\.logical_or') as caught:
        call(pb.asarray([True, False]))
    assert "got bool" in str(caught.value)
