"""The condition of a problem: what the bounds of stable methods follow from."""

import numpy as np
import pytest

from pullback.devices import as_device
from pullback.spec import OPS
from pullback_conformance import checks, gradients
from pullback_conformance.accuracy import allowed
from pullback_conformance.case import cases
from pullback_conformance.compare import ConformanceError
from pullback_conformance.condition import ELEMENTS, moves
from pullback_conformance.draws import cnormal, normal
from pullback_conformance.sample import Sample, Suite
from pullback_conformance.samples.solvers import _cofactors, _det

CPU = as_device("cpu")


def nearly_singular(kind, smallest=1e-6):
    """A matrix of the singular values 1, 1 and a small one."""
    draw = cnormal if kind is complex else normal
    u, v = (np.linalg.qr(draw(3, 3, seed=seed))[0] for seed in (1, 2))
    return u @ np.diag([1.0, 1.0, smallest]) @ v


def inverse(x):
    """Exact but for the rounding of extended precision."""
    return np.swapaxes(_cofactors(x), -1, -2) / _det(x)[..., None, None]


def case(name, reference, *inputs, dtype="float64", **attributes):
    suite = Suite(name, (Sample(tuple(inputs), attributes),), reference)
    return next(one for one in cases(OPS[name], suite, CPU) if str(one.dtype) == dtype)


def test_a_linear_function_moves_by_its_norm():
    a, x = normal(4, 3), normal(3)
    (found,) = moves(lambda point: [a @ point[0]], [x])
    assert found == pytest.approx(np.linalg.norm(a, 2) * np.linalg.norm(x), rel=1e-4)


def test_a_complex_function_moves_by_its_norm():
    a, x = cnormal(4, 3), cnormal(3, seed=3)
    (found,) = moves(lambda point: [a @ point[0]], [x])
    assert found == pytest.approx(np.linalg.norm(a, 2) * np.linalg.norm(x), rel=1e-4)


def test_several_inputs_and_results():
    x, y = np.array([3.0]), np.array([4.0])
    found = moves(lambda point: [point[0] * point[1], point[0] * 0, point[1] ** 2], [x, y])
    assert found == pytest.approx([24.0, 0.0, 32.0], rel=1e-4)


@pytest.mark.parametrize("kind", [float, complex])
def test_the_inverse_moves_by_its_condition(kind):
    (found,) = moves(lambda point: [np.linalg.inv(point[0])], [nearly_singular(kind)])
    # |x^-1|^2 |x|, where |x| is the root of 1 + 1 + 1e-12.
    assert found == pytest.approx(1e12 * 2**0.5, rel=1e-2)


def test_what_is_of_a_rank_moves_within_it():
    """The pseudoinverse jumps where the rank does: the step is too small for a new one."""
    x = np.outer([1.0, 2.0, 3.0], [1.0, -1.0])
    (found,) = moves(lambda point: [np.linalg.pinv(point[0], rcond=1e-6)], [x])
    # Wedin: of a rank that stays, no more than 2^0.5 |x^+|^2.
    assert found <= 1.01 * 2**0.5 * np.linalg.norm(np.linalg.pinv(x), 2) ** 2 * np.linalg.norm(x)


def test_of_large_inputs_some_elements_are_moved():
    calls = []

    def function(point):
        calls.append(1)
        return [np.fft.fft(point[0])]

    x = normal(300)
    (found,) = moves(function, [x])
    assert found == pytest.approx(300**0.5 * np.linalg.norm(x), rel=1e-4)
    assert len(calls) == 1 + 2 * ELEMENTS


def test_nothing_and_no_numbers_move_nothing():
    assert moves(lambda point: [point[0]], [np.zeros((0, 3))]) == [0.0]
    assert moves(lambda point: [np.array([np.nan, 1.0])], [np.ones(2)]) == [0.0]
    assert moves(lambda point: [point[0] * 2], [np.zeros(2)]) == [0.0]


def test_inputs_in_a_sequence_move_too():
    found = case(
        "concat", lambda xs, *, axis=0: np.concatenate(xs, axis) * 3, [normal(2), normal(3)]
    )
    expected = 3 * (np.linalg.norm(found.inputs[0][0]) + np.linalg.norm(found.inputs[0][1]))
    assert found.moves == pytest.approx([expected], rel=1e-4)


@pytest.mark.parametrize("kind", [float, complex])
@pytest.mark.parametrize("name", ["inv", "pinv"])
def test_a_stable_method_may_be_off_by_the_condition(name, kind):
    """No method that gets x in float64 does better than this: its error is 1e6 n eps |x^-1|."""
    dtype = "complex128" if kind is complex else "float64"
    checks.value(case(name, inverse, nearly_singular(kind), dtype=dtype))


def test_it_may_not_be_off_by_more():
    def kernel(x):
        return np.linalg.inv(x) * (1 + 1e-3)

    found = case("inv", inverse, nearly_singular(float))
    CPU.backend.register_kernel("inv", kernel, source="test", priority=1000)
    try:
        with pytest.raises(ConformanceError, match="ulp, allowed"):
            checks.value(found)
    finally:
        CPU.backend.unregister_kernels("test")


def test_the_bound_of_a_scaled_transform_is_scaled():
    """The inputs' norm alone would allow 17 times this to a transform over its length."""
    found = case("ifft", lambda x: np.fft.ifft(x), normal(300))
    (reference,) = found.reference(np.float64)
    bound = allowed(found, 0, reference, np.dtype(np.complex128), extended=True)
    norm = np.linalg.norm(found.inputs[0]) / 300**0.5
    assert np.all(bound <= 300 * np.finfo(float).eps * 2.001 * norm + np.spacing(norm))


@pytest.mark.parametrize("right", [True, False])
@pytest.mark.parametrize("kind", [float, complex])
def test_gradients_in_float32_may_be_off_by_their_condition(kind, right):
    """That of the pseudoinverse moves by some 3e3 times itself; half of it is too much."""

    def kernel(x, rtol=None):
        return np.linalg.pinv(x) * x.dtype.type(1 if right else 1.5)

    dtype = np.dtype("complex64" if kind is complex else "float32")
    found = case("pinv", np.linalg.pinv, nearly_singular(kind, 1e-3), dtype=str(dtype))
    CPU.backend.register_kernel(
        "pinv", kernel, source="test", priority=1000, dtypes=frozenset([dtype])
    )
    try:
        if right:
            gradients.narrow_gradient(found)
        else:
            with pytest.raises(ConformanceError, match="from the one in float64"):
                gradients.narrow_gradient(found)
    finally:
        CPU.backend.unregister_kernels("test")
