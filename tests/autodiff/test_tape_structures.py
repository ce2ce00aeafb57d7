"""Targets, sources and cotangents in every form: nested, unconnected, complex, mixed, Jacobians."""

from typing import NamedTuple

import numpy as np
import pytest

import pullback as pb
from pullback import errors


class Pair(NamedTuple):
    left: object
    right: object


# Structures --------------------------------------------------------------------------------------


def test_nested_sources_come_back_in_their_structure():
    a, b, c, d = (pb.asarray(v) for v in (2.0, 3.0, 4.0, 5.0))
    sources = {"a": a, "list": [b, (c,)], "pair": Pair(d, None)}
    with pb.GradientTape() as tape:
        tape.watch(sources)
        y = a * b * c * d
    found = tape.gradient(y, sources)
    assert float(found["a"]) == 60.0
    assert float(found["list"][0]) == 40.0
    assert isinstance(found["list"][1], tuple)
    assert float(found["list"][1][0]) == 30.0
    assert isinstance(found["pair"], Pair)
    assert float(found["pair"].left) == 24.0
    assert found["pair"].right is None


@pytest.mark.parametrize("empty", [[], (), {}])
def test_no_sources(empty):
    x = pb.asarray(1.0)
    with pb.GradientTape() as tape:
        tape.watch(x)
        y = x * x
    assert tape.gradient(y, empty) == empty


def test_one_source_in_a_list():
    x = pb.asarray(3.0)
    with pb.GradientTape() as tape:
        tape.watch(x)
        y = x * x
    found = tape.gradient(y, [x])
    assert isinstance(found, list)
    assert float(found[0]) == 6.0


def test_same_source_twice():
    x = pb.asarray(3.0)
    with pb.GradientTape() as tape:
        tape.watch(x)
        y = x * x
    first, second = tape.gradient(y, [x, x])
    assert float(first) == float(second) == 6.0


def test_two_handles_on_one_value():
    x = pb.asarray([3.0])
    with pb.GradientTape() as tape:
        tape.watch(x)
        other = x.__copy__()
        y = x * other
    assert tape.gradient(y, x).tolist() == [6.0]


def test_target_is_source():
    x = pb.asarray([3.0, 4.0])
    with pb.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x
    assert tape.gradient(x, x).tolist() == [1.0, 1.0]
    assert tape.gradient(y, y).tolist() == [1.0, 1.0]
    gx, gy = tape.gradient(y, [x, y])
    assert gx.tolist() == [6.0, 8.0]
    assert gy.tolist() == [1.0, 1.0]


def test_intermediates_are_sources():
    x = pb.asarray(2.0)
    with pb.GradientTape() as tape:
        tape.watch(x)
        y = x * x
        z = y * x
        w = z * z
    gx, gy, gz = tape.gradient(w, [x, y, z])
    assert float(gz) == 16.0
    assert float(gy) == 32.0
    assert float(gx) == 6 * 2.0**5


def test_intermediates_alone_are_sources():
    # The way from y to x need not be traversed.
    x = pb.asarray(2.0)
    with pb.GradientTape() as tape:
        tape.watch(x)
        y = x * x
        w = y * y
    assert float(tape.gradient(w, y)) == 8.0


def test_several_targets_are_summed():
    x = pb.asarray([1.0, 2.0])
    with pb.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x
        z = y * x
    assert tape.gradient([y, z], x).tolist() == [2 + 3, 4 + 12]
    assert tape.gradient({"y": y, "z": (z,)}, x).tolist() == [5.0, 16.0]
    assert tape.gradient([y, y], x).tolist() == [4.0, 8.0]
    assert tape.gradient([z, y, x, z], x).tolist() == [3 + 2 + 1 + 3, 12 + 4 + 1 + 12]


def test_a_target_between_another_target_and_the_source():
    x = pb.asarray(3.0)
    with pb.GradientTape() as tape:
        tape.watch(x)
        y = x * x
        z = y * y
    gx, gy = tape.gradient([z, y], [x, y])
    assert float(gy) == 18.0 + 1.0
    assert float(gx) == 19.0 * 6.0


def test_some_targets_do_not_depend_on_the_source():
    x, c = pb.asarray(3.0), pb.asarray(5.0)
    with pb.GradientTape() as tape:
        tape.watch(x)
        y = x * x
        z = c * c
    assert float(tape.gradient([z, y], x)) == 6.0


# What is not connected ---------------------------------------------------------------------------


def test_unconnected_is_none():
    x, other = pb.asarray(3.0), pb.asarray(4.0)
    with pb.GradientTape(persistent=True) as tape:
        tape.watch([x, other])
        y = x * x
        constant = pb.asarray(2.0) * 2.0
    assert tape.gradient(y, other) is None
    assert tape.gradient(constant, x) is None
    gx, go = tape.gradient(y, [x, other])
    assert (float(gx), go) == (6.0, None)


def test_unconnected_zero():
    x, other = pb.asarray(3.0), pb.asarray(np.ones((2, 3)))
    with pb.GradientTape() as tape:
        tape.watch([x, other])
        y = x * x
    gx, go = tape.gradient(y, [x, other], unconnected_gradients="zero")
    assert float(gx) == 6.0
    assert go.shape == (2, 3)
    assert go.dtype == np.float64
    assert not go.numpy().any()


def test_unwatched_source_is_unconnected():
    x, other = pb.asarray(3.0), pb.asarray(4.0)
    with pb.GradientTape() as tape:
        tape.watch(x)
        y = x * other
    assert tape.gradient(y, other) is None


def test_source_made_after_the_target():
    x = pb.asarray(3.0)
    with pb.GradientTape() as tape:
        tape.watch(x)
        y = x * x
        z = y * y
    assert tape.gradient(y, z) is None


def test_unconnected_of_an_unknown_name():
    x = pb.asarray(3.0)
    with pb.GradientTape() as tape:
        tape.watch(x)
    with pytest.raises(errors.InputValueError, match="zero"):
        tape.gradient(x, x, unconnected_gradients="zeros")


def test_integers_in_between_cut_the_way():
    x = pb.asarray([1.5, 2.5])
    with pb.GradientTape(persistent=True) as tape:
        tape.watch(x)
        whole = x.astype("int32")
        y = whole.astype("float32") * 2.0
        z = x * whole
    assert tape.gradient(y, x) is None
    assert tape.gradient(z, x).tolist() == [1.0, 2.0]


# Cotangents --------------------------------------------------------------------------------------


def test_output_gradients():
    x = pb.asarray([1.0, 2.0, 3.0])
    with pb.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x
        z = x * 2.0
    for seed in (pb.asarray([1.0, 10.0, 100.0]), np.array([1.0, 10.0, 100.0]), [1.0, 10.0, 100.0]):
        assert tape.gradient(y, x, seed).tolist() == [2.0, 40.0, 600.0]
    both = tape.gradient([y, z], x, [[1.0, 10.0, 100.0], [1.0, 1.0, 1.0]])
    assert both.tolist() == [4.0, 42.0, 602.0]


@pytest.mark.parametrize("seed", [1.0, [1.0], [[1.0, 2.0, 3.0]], np.ones((3, 1))])
def test_output_gradient_of_another_shape(seed):
    x = pb.asarray([1.0, 2.0, 3.0])
    with pb.GradientTape() as tape:
        tape.watch(x)
        y = x * x
    with pytest.raises(errors.ShapeError, match="output_gradient"):
        tape.gradient(y, x, seed)


def test_second_order_through_the_output_gradient():
    x, seed = pb.asarray([1.0, 2.0]), pb.asarray([3.0, 5.0])
    with pb.GradientTape() as outer:
        outer.watch(seed)
        with pb.GradientTape() as inner:
            inner.watch(x)
            y = x * x
        g = inner.gradient(y, x, seed)
    assert outer.gradient(g, seed).tolist() == [2.0, 4.0]


# Dtypes ------------------------------------------------------------------------------------------


def test_mixed_dtypes():
    x, y = pb.asarray(np.array([1.0, 2.0], np.float32)), pb.asarray(np.array([3.0, 4.0]))
    with pb.GradientTape() as tape:
        tape.watch([x, y])
        z = x * y
    gx, gy = tape.gradient(z, [x, y])
    assert (z.dtype, gx.dtype, gy.dtype) == (np.float64, np.float32, np.float64)
    assert gx.tolist() == [3.0, 4.0]
    assert gy.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float64"])
def test_gradient_has_the_dtype_of_its_source(dtype):
    x = pb.asarray([1.0, 2.0], dtype=dtype)
    with pb.GradientTape() as tape:
        tape.watch(x)
        y = x.astype("float32") * 2.0
    g = tape.gradient(y, x)
    assert g.dtype.name == dtype
    assert g.tolist() == [2.0, 2.0]


def test_output_gradient_takes_the_dtype_of_the_target():
    x = pb.asarray([1.0, 2.0])
    with pb.GradientTape() as tape:
        tape.watch(x)
        y = x * x
    g = tape.gradient(y, x, np.array([1, 2]))
    assert g.dtype == np.float32
    assert g.tolist() == [2.0, 8.0]


# Complex numbers ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("f", "expected"),
    [
        # The convention of TensorFlow and PyTorch: dL = Re(conj(g) dz); values from PyTorch.
        (lambda z: (z * z).real, 2 * (1 - 2j)),
        (lambda z: (z * z).imag, 4 + 2j),
        (lambda z: abs(z) * abs(z), 2 * (1 + 2j)),
        (lambda z: z.real, 1 + 0j),
        (lambda z: z.imag, 0 + 1j),
        (lambda z: (z * (3 + 4j)).real, 3 - 4j),
        (lambda z: (1.0 / z).real, complex(-1 / (1 - 2j) ** 2)),
    ],
)
def test_complex_gradients(f, expected):
    z = pb.asarray(1 + 2j, dtype="complex128")
    with pb.GradientTape() as tape:
        tape.watch(z)
        y = f(z)
    g = tape.gradient(y, z)
    assert g.dtype == np.complex128
    assert complex(g) == pytest.approx(expected)


def test_complex_target_is_the_sum_of_its_conjugate_cotangent():
    # With a complex target and cotangent c, the loss is Re(conj(c) y).
    z, c = pb.asarray(1 + 2j, dtype="complex128"), 3 - 1j
    with pb.GradientTape() as tape:
        tape.watch(z)
        y = z * z
    assert complex(tape.gradient(y, z, c)) == pytest.approx(c * np.conj(2 * (1 + 2j)))


def test_real_source_of_a_complex_target_has_a_real_gradient():
    x = pb.asarray(2.0, dtype="float64")
    with pb.GradientTape() as tape:
        tape.watch(x)
        y = (x * (1 + 1j)).real
    g = tape.gradient(y, x)
    assert g.dtype == np.float64
    assert float(g) == 1.0


# Jacobians ---------------------------------------------------------------------------------------


def test_jacobian():
    x, w = np.array([1.0, 2.0, 3.0]), np.arange(6.0).reshape(2, 3)
    xs, ws = pb.asarray(x), pb.asarray(w)
    with pb.GradientTape() as tape:
        tape.watch([xs, ws])
        y = (ws * xs).sum(axis=1)
    by_x, by_w = tape.jacobian(y, [xs, ws])
    np.testing.assert_allclose(by_x.numpy(), w)
    np.testing.assert_allclose(by_w.numpy(), np.einsum("ij,k->ijk", np.eye(2), x))


def test_jacobian_of_a_scalar_is_its_gradient():
    x = pb.asarray([1.0, 2.0])
    with pb.GradientTape() as tape:
        tape.watch(x)
        y = (x * x).sum()
    assert tape.jacobian(y, x).tolist() == [2.0, 4.0]


def test_jacobian_uses_the_tape_up_unless_persistent():
    x = pb.asarray([1.0, 2.0])
    for persistent in (False, True):
        with pb.GradientTape(persistent=persistent) as tape:
            tape.watch(x)
            y = x * x
        assert tape.jacobian(y, x).tolist() == [[2.0, 0.0], [0.0, 4.0]]
        if persistent:
            assert tape.gradient(y, x).tolist() == [2.0, 4.0]
        else:
            with pytest.raises(errors.TapeError, match="persistent"):
                tape.gradient(y, x)


def test_jacobian_of_nothing_and_of_the_unconnected():
    x, empty = pb.asarray([1.0, 2.0]), pb.asarray(np.zeros((0,), np.float32))
    with pb.GradientTape(persistent=True) as tape:
        tape.watch([x, empty])
        y, none = x * x, empty * 2.0
    assert tape.jacobian(none, x).shape == (0, 2)
    assert tape.jacobian(y, empty) is None
    assert tape.jacobian(y, empty, unconnected_gradients="zero").shape == (2, 0)


def test_batch_jacobian():
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((4, 3)), rng.standard_normal((3, 2))
    xs, ws = pb.asarray(x), pb.asarray(w)
    with pb.GradientTape() as tape:
        tape.watch(xs)
        y = xs @ ws
        z = y * y
    found = tape.batch_jacobian(z, xs)
    assert found.shape == (4, 2, 3)
    np.testing.assert_allclose(found.numpy(), np.einsum("bo,io->boi", 2 * (x @ w), w))


@pytest.mark.parametrize("width", [0, 1, 2])
def test_batch_jacobian_of_what_does_not_depend_on_the_source(width):
    x = pb.ones((4, 3))
    with pb.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = pb.ones((4, width)) * 2
    found = tape.batch_jacobian(y, x)
    assert found is None if width else found.shape == (4, 0, 3)
    zeros = tape.batch_jacobian(y, x, unconnected_gradients="zero")
    np.testing.assert_array_equal(zeros.numpy(), np.zeros((4, width, 3)))


def test_batch_jacobian_of_unequal_batches():
    x, y = pb.asarray(np.ones((4, 3))), pb.asarray(np.ones((3, 3)))
    with pb.GradientTape() as tape:
        tape.watch([x, y])
        z = y * 2.0
    with pytest.raises(errors.ShapeError, match="batch"):
        tape.batch_jacobian(z, x)


def test_jacobian_is_differentiated_again():
    x = pb.asarray([1.0, 2.0])
    with pb.GradientTape() as outer:
        outer.watch(x)
        with pb.GradientTape() as inner:
            inner.watch(x)
            y = x * x * x
        j = inner.jacobian(y, x)
    hessian = outer.jacobian(j, x)
    assert hessian.shape == (2, 2, 2)
    assert hessian[0, 0, 0].tolist() == 6.0
    assert hessian[1, 1, 1].tolist() == 12.0
    assert float(hessian.sum()) == 18.0
