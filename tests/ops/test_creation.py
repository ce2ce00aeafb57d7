"""Tensors from host data and from nothing; dtypes; moves between devices."""

from __future__ import annotations

import copy
import pickle
from typing import ClassVar

import numpy as np
import pytest

import pullback as pb
from pullback import array_api, dtypes, errors


class TestAsarray:
    @pytest.mark.parametrize(
        ("value", "dtype"),
        [
            (1, pb.int32),
            (True, pb.bool),
            (1.5, pb.float32),
            (1j, pb.complex64),
            ([1, 2], pb.int32),
            ([1, 2.5], pb.float32),
            ([True, False], pb.bool),
            ([True, 2], pb.int32),
            ([[1j, 0]], pb.complex64),
            ([], pb.float32),
            ([2**40], pb.int64),
            (2**63, pb.uint64),
            ([0, 2**63], pb.uint64),
            (np.float64(1), pb.float64),
            (np.arange(3), pb.int64),
            (np.ones(2, ">f4"), pb.float32),
            ([np.float64(1), np.float64(2)], pb.float64),
            (memoryview(b"ab"), pb.uint8),
        ],
        ids=lambda value: type(value).__name__ if isinstance(value, memoryview) else str(value),
    )
    def test_default_dtypes(self, value, dtype):
        x = pb.asarray(value)
        assert x.dtype == dtype
        np.testing.assert_array_equal(x.numpy(), np.asarray(value))

    @pytest.mark.parametrize(
        "value",
        [[[1], [1, 2]], ["a", 1], None, object(), [2**64], [2**63, -1], {1: 2}],
        ids=lambda value: type(value).__name__ if type(value) is object else str(value),
    )
    def test_what_is_no_array_raises(self, value):
        with pytest.raises(errors.ConversionError):
            pb.asarray(value)

    @pytest.mark.parametrize(
        ("value", "dtype"), [(300, "uint8"), ([-1], "uint32"), (1j, "float32"), ([1j], "float32")]
    )
    def test_values_that_the_dtype_does_not_hold_raise(self, value, dtype):
        with pytest.raises(errors.ConversionError):
            pb.asarray(value, dtype=dtype)

    def test_float64_digits_survive_an_explicit_dtype(self):
        assert pb.asarray([0.1], dtype="float64").tolist() == [0.1]
        assert pb.asarray(0.1, dtype="float64").item() == 0.1

    def test_host_arrays_are_copied_unless_told_not_to(self):
        a = np.zeros(3)
        x, shared = pb.asarray(a), pb.asarray(a, copy=False)
        a[0] = 1
        assert x.tolist() == [0, 0, 0]
        assert shared.tolist() == [1, 0, 0]

    def test_copy_of_a_tensor(self):
        x = pb.zeros(2)
        assert pb.asarray(x) is x
        assert pb.asarray(x, copy=False) is x
        y = pb.asarray(x, copy=True)
        y[0] = 1.0
        assert x.tolist() == [0.0, 0.0]

    @pytest.mark.parametrize("value", [[1, 2], 1, np.ones(2, "f4")], ids=str)
    def test_no_copy_where_one_is_needed_raises(self, value):
        with pytest.raises(errors.InputValueError, match="copy"):
            pb.asarray(value, dtype="float64", copy=False)
        with pytest.raises(errors.InputValueError, match="copy"):
            pb.asarray(pb.ones(2), dtype="float64", copy=False)

    def test_lists_of_tensors_are_stacked_with_gradients(self):
        a, b = pb.asarray(2.0), pb.asarray(3.0)
        with pb.GradientTape() as tape:
            tape.watch([a, b])
            y = pb.sum(pb.asarray([[a, 1], [b, a * b]]))
        assert [g.item() for g in tape.gradient(y, [a, b])] == [4.0, 3.0]

    def test_numbers_beside_tensors_are_weak(self):
        x = pb.asarray(1.0, dtype="float16")
        assert pb.asarray([x, 2.5]).dtype == pb.float16

    def test_a_variable_gives_its_value(self):
        assert pb.asarray(pb.Variable([1.0, 2.0])).tolist() == [1.0, 2.0]

    def test_dlpack(self):
        a = np.arange(3.0)
        assert pb.from_dlpack(a).tolist() == [0.0, 1.0, 2.0]
        x = pb.arange(3)
        np.testing.assert_array_equal(np.from_dlpack(x), [0, 1, 2])
        assert pb.from_dlpack(x) is x
        with pytest.raises(errors.InputTypeError):
            pb.from_dlpack([1, 2])

    def test_copies_and_pickles(self):
        x = pb.asarray([1.0, 2.0])
        for y in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
            y[0] = 5.0
            assert x.tolist() == [1.0, 2.0]


class TestFilled:
    @pytest.mark.parametrize("name", ["zeros", "ones", "empty"])
    def test_of_a_shape(self, name):
        x = getattr(pb, name)((2, 3))
        assert x.shape == (2, 3)
        assert x.dtype == pb.float32
        y = getattr(pb, f"{name}_like")(np.ones((2, 1), np.int8))
        assert (y.shape, y.dtype) == ((2, 1), pb.int8)

    @pytest.mark.parametrize(
        ("value", "dtype"),
        [
            *[(1, pb.int32), (1.0, pb.float32), (True, pb.bool), (1j, pb.complex64)],
            *[(100, pb.int32), (2**31 - 1, pb.int32), (-(2**31), pb.int32), (2**63 - 1, pb.int64)],
            *[(2**31, pb.int64), (-(2**31) - 1, pb.int64), (2**40, pb.int64), (2**63, pb.uint64)],
        ],
    )
    def test_full_takes_the_dtype_of_the_number(self, value, dtype):
        assert pb.full(2, value).dtype == dtype

    def test_full_takes_a_0d_tensor(self):
        x = pb.full((2,), pb.asarray(3, dtype="int8"))
        assert (x.dtype, x.tolist()) == (pb.int8, [3, 3])

    def test_full_like_keeps_the_dtype(self):
        assert pb.full_like(pb.zeros(2, dtype="float16"), 1).dtype == pb.float16

    def test_negative_zero_and_nan(self):
        assert np.signbit(pb.full(1, -0.0).numpy()).all()
        assert np.isnan(pb.full(1, float("nan")).numpy()).all()

    @pytest.mark.parametrize("shape", [(-1,), -1, (2, -3)])
    def test_negative_sizes_raise(self, shape):
        for make in (pb.zeros, pb.ones, pb.empty, lambda s: pb.full(s, 1)):
            with pytest.raises(errors.ShapeError):
                make(shape)

    def test_a_shape_of_floats_raises(self):
        with pytest.raises(errors.InputTypeError):
            pb.zeros((2.0,))

    def test_a_device(self):
        assert pb.zeros(2, device="cpu").device is pb.device("cpu")
        with pytest.raises(errors.DeviceError):
            pb.zeros(2, device="tpu")


class TestSpaced:
    def test_arange_has_the_length_of_its_rule(self):
        assert pb.arange(0, 1, 0.1).shape == (10,)
        assert pb.arange(1, 0, -0.25).tolist() == [1.0, 0.75, 0.5, 0.25]
        assert pb.arange(3, -3, -2).tolist() == [3, 1, -1]
        assert pb.arange(5, 2).shape == (0,)
        assert pb.arange(0).shape == (0,)

    def test_arange_by_the_types_of_its_arguments(self):
        assert pb.arange(3).dtype == pb.int32
        assert pb.arange(3.0).dtype == pb.float32
        assert pb.arange(0, 3, 0.5).dtype == pb.float32
        assert pb.arange(2**40, 2**40 + 2).tolist() == [2**40, 2**40 + 1]

    def test_arange_is_near_the_true_values(self):
        x = pb.arange(0, 1000, 0.1, dtype="float32").numpy()
        true = np.arange(10_000) / 10
        assert np.abs(x - true).max() <= np.spacing(np.float32(1000)) / 2

    def test_arange_refuses_a_step_of_0(self):
        with pytest.raises(errors.InputValueError):
            pb.arange(1, 2, 0)

    @pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
    @pytest.mark.parametrize("endpoint", [True, False])
    def test_linspace(self, dtype, endpoint):
        x = pb.linspace(-3, 7, 23, dtype=dtype, endpoint=endpoint)
        expected = np.linspace(-3, 7, 23, endpoint=endpoint)
        np.testing.assert_array_equal(x.numpy(), expected.astype(dtypes.as_dtype(dtype)))

    def test_linspace_at_its_edges(self):
        assert pb.linspace(1, 2, 0).shape == (0,)
        assert pb.linspace(1, 2, 1).tolist() == [1.0]
        assert pb.linspace(0, 1, 3, dtype="complex64").dtype == pb.complex64
        np.testing.assert_allclose(pb.linspace(0, 2 + 2j, 3).numpy(), [0, 1 + 1j, 2 + 2j])
        assert pb.linspace(0, 10, 5, dtype="int32").tolist() == [0, 2, 5, 7, 10]
        assert pb.linspace(0.1, 0.3, 7, dtype="float64").tolist()[-1] == 0.3
        for ends in [(0, np.inf), (1, np.inf), (-np.inf, 0), (0, -np.inf), (np.nan, 1)]:
            with np.errstate(invalid="ignore"):
                expected = np.linspace(*ends, 4)
            np.testing.assert_array_equal(pb.linspace(*ends, 4).numpy(), expected)
        with pytest.raises(errors.InputValueError):
            pb.linspace(0, 1, -1)


class TestPatterns:
    @pytest.mark.parametrize("args", [(3,), (2, 4), (4, 2), (0, 3)])
    @pytest.mark.parametrize("k", [-5, -1, 0, 2, 7])
    def test_eye(self, args, k):
        np.testing.assert_array_equal(pb.eye(*args, k=k).numpy(), np.eye(*args, k=k))

    @pytest.mark.parametrize("indexing", ["xy", "ij"])
    @pytest.mark.parametrize("count", [0, 1, 2, 3])
    def test_meshgrid(self, indexing, count):
        axes = [np.arange(n + 2) for n in range(count)]
        ours = pb.meshgrid(*axes, indexing=indexing)
        for mine, theirs in zip(ours, np.meshgrid(*axes, indexing=indexing), strict=True):
            np.testing.assert_array_equal(mine.numpy(), theirs)

    def test_one_hot(self):
        x = pb.one_hot(np.array([[0, 2], [3, -1]]), 3)
        assert x.shape == (2, 2, 3)
        np.testing.assert_array_equal(x.numpy()[0], [[1, 0, 0], [0, 0, 1]])
        assert not x.numpy()[1].any()  # outside: zeros only
        assert pb.one_hot(pb.asarray(1), 3, dtype="int32").tolist() == [0, 1, 0]
        assert pb.one_hot(np.array([0, 1], np.uint8), 300, axis=0).shape == (300, 2)
        with pytest.raises(errors.DTypeError):
            pb.one_hot([0.5], 3)


class TestDtypes:
    def test_result_type(self):
        x = pb.zeros(2, dtype="float16")
        assert pb.result_type(x, 1.0) == pb.float16
        assert pb.result_type(x, pb.bfloat16) == pb.float32
        assert pb.result_type(pb.int8, 1j) == pb.complex64
        assert pb.result_type(np.ones(1, np.int8), "int32") == pb.int32
        assert pb.result_type(1, 1.5) == pb.float32
        with pytest.raises(errors.DTypeError):
            pb.result_type(pb.uint64, pb.int8)
        for bad in ((), ([1],), (None,)):
            with pytest.raises(errors.PullbackError):
                pb.result_type(*bad)

    def test_can_cast(self):
        assert pb.can_cast(pb.zeros(1, dtype="int8"), pb.int16)
        assert not pb.can_cast(pb.int16, pb.int8)
        assert not pb.can_cast(pb.complex64, pb.float64)
        assert not pb.can_cast(pb.uint64, pb.int64)

    def test_isdtype(self):
        assert pb.isdtype(pb.bfloat16, "real floating")
        assert pb.isdtype(pb.int8, ("bool", "signed integer"))
        assert not pb.isdtype(pb.bool, "numeric")
        assert pb.isdtype(pb.float32, pb.float32)
        with pytest.raises(errors.InputValueError):
            pb.isdtype(pb.float32, "float")

    @pytest.mark.parametrize("name", ["float16", "float32", "float64", "bfloat16"])
    def test_finfo(self, name):
        import ml_dtypes

        mine, theirs = pb.finfo(name), ml_dtypes.finfo(dtypes.as_dtype(name))
        for field in ("bits", "eps", "max", "min", "smallest_normal"):
            assert getattr(mine, field) == getattr(theirs, field), field
            assert type(getattr(mine, field)) in (int, float)
        assert pb.finfo(pb.complex128).dtype == pb.float64
        with pytest.raises(errors.DTypeError):
            pb.finfo(pb.int8)

    @pytest.mark.parametrize("dtype", dtypes.INTEGER, ids=str)
    def test_iinfo(self, dtype):
        mine, theirs = pb.iinfo(pb.zeros(1, dtype=dtype)), np.iinfo(dtype)
        assert (mine.bits, mine.min, mine.max) == (theirs.bits, theirs.min, theirs.max)
        with pytest.raises(errors.DTypeError):
            pb.iinfo(pb.float32)

    def test_astype(self):
        x = pb.asarray([1.5, -1.5])
        assert pb.astype(x, x.dtype, copy=False) is x
        assert pb.astype(x, x.dtype) is not x
        assert x.astype("int8").tolist() == [1, -1]
        with pytest.raises(errors.DTypeError, match="imaginary"):
            pb.asarray([1j]).astype("float32")
        assert pb.asarray([1j, 0]).astype("bool").tolist() == [True, False]

    def test_no_gradient_flows_through_integers(self):
        x = pb.asarray([1.5, 2.5])
        with pb.GradientTape() as tape:
            tape.watch(x)
            y = pb.sum(x.astype("int32").astype("float32"))
        assert tape.gradient(y, x) is None

    def test_gradients_keep_the_dtype_of_the_source(self):
        x = pb.asarray([1.5, 2.5], dtype="float16")
        with pb.GradientTape() as tape:
            tape.watch(x)
            y = pb.sum(x.astype("float64") ** 2)
        g = tape.gradient(y, x)
        assert (g.dtype, g.tolist()) == (pb.float16, [3.0, 5.0])


class TestJoining:
    def test_unstack_and_split(self):
        x = np.arange(12.0).reshape(3, 4)
        for axis in (0, 1, -1):
            found = zip(pb.unstack(x, axis=axis), np.unstack(x, axis=axis), strict=True)
            for mine, theirs in found:
                np.testing.assert_array_equal(mine.numpy(), theirs)
        for cuts in (2, [1, 3], [3, 1], [0, 9, -1], []):
            found = zip(pb.split(x, cuts, axis=1), np.split(x, cuts, axis=1), strict=True)
            for mine, theirs in found:
                np.testing.assert_array_equal(mine.numpy(), theirs)
        with pytest.raises(errors.ShapeError):
            pb.split(x, 5, axis=1)

    @pytest.mark.parametrize("axis", [None, 0, 1, -1])
    @pytest.mark.parametrize("repeats", [0, 1, 3, [2], "each"])
    def test_repeat(self, axis, repeats):
        x = np.arange(6.0).reshape(2, 3)
        if repeats == "each":
            repeats = np.arange(6 if axis is None else x.shape[axis])
        expected = np.repeat(x, repeats, axis)
        np.testing.assert_array_equal(pb.repeat(x, repeats, axis=axis).numpy(), expected)

    def test_repeat_refuses(self):
        x = pb.zeros((2, 3))
        for bad, kind in ((-1, errors.InputValueError), ([1, 2, 3], errors.ShapeError)):
            with pytest.raises(kind):
                pb.repeat(x, bad, axis=0)
        with pytest.raises(errors.InputValueError):
            pb.repeat(x, [1, -2], axis=0)

    def test_broadcast_arrays(self):
        a, b = pb.broadcast_arrays([1, 2], [[3], [4]])
        assert (a.tolist(), b.tolist()) == ([[1, 2], [1, 2]], [[3, 3], [4, 4]])
        with pytest.raises(errors.ShapeError):
            pb.broadcast_arrays([1, 2], [1, 2, 3])

    @pytest.mark.parametrize("n", [0, 1, 2, 4, 6])
    def test_diff(self, n):
        x = np.array([[1.0, 4.0, 9.0, 16.0], [0.0, 1.0, 0.0, 5.0]])
        np.testing.assert_array_equal(pb.diff(x, n=n).numpy(), np.diff(x, n=n))
        np.testing.assert_array_equal(
            pb.diff(x, axis=0, prepend=x[:1], append=x).numpy(),
            np.diff(x, axis=0, prepend=x[:1], append=x),
        )


class Away(pb.Backend):
    """A second backend, whose arrays the first one's kernels must not meet."""

    name = "away"
    dtypes: ClassVar = {one: one for one in dtypes.ALL if one != dtypes.bfloat16}
    kernels = array_api.kernels(np)

    def from_host(self, array, device, *, copy):
        return np.array(array)

    def to_host(self, array):
        return np.array(array)

    def native(self, value):
        return np.asarray(value)


class TestDevices:
    @pytest.fixture(autouse=True)
    def away(self):
        pb.register_backend(Away(), replace=True)
        return pb.device("away:cpu")

    def test_gradients_flow_back_through_a_move(self, away):
        x = pb.asarray([1.0, 2.0])
        with pb.GradientTape() as outer:
            outer.watch(x)
            with pb.GradientTape() as inner:
                inner.watch(x)
                y = x.to(away)
                loss = pb.sum(y * y * y)
            assert loss.device is away
            first = inner.gradient(loss, x)
            assert first.device is x.device
            total = pb.sum(first)
        assert first.tolist() == [3.0, 12.0]
        assert outer.gradient(total, x).tolist() == [6.0, 12.0]

    def test_lists_of_tensors_stay_where_these_are(self, away):
        x = pb.ones((), device=away)
        assert pb.asarray([x, 1]).device is away
        assert pb.asarray([x, 1], device="cpu").device is pb.device("cpu")

    def test_host_data_follows_the_tensor(self, away):
        x = pb.arange(4, device=away)
        assert x[[0, 1]].device is away
        x[[0, 1]] = np.array([5, 6])
        assert (x.device, x.tolist()) == (away, [5, 6, 2, 3])

    def test_tensors_on_two_devices_do_not_mix(self, away):
        x, y = pb.ones(2), pb.ones(2, device=away)
        for mixed in (lambda: x + y, lambda: pb.concat([x, y]), lambda: x[y.astype("int32")]):
            with pytest.raises(errors.DeviceError, match=r"x\.to\("):
                mixed()

    def test_a_dtype_that_is_not_there_raises(self, away):
        with pytest.raises(errors.DTypeError, match="bfloat16"):
            pb.ones(2, dtype="bfloat16").to(away)
        with pytest.raises(errors.DTypeError, match="bfloat16"):
            pb.ones(2, dtype="bfloat16", device=away)

    def test_new_tensors_go_to_the_device_in_force(self, away):
        with away:
            made = [pb.zeros(2), pb.arange(3), pb.eye(2), pb.linspace(0, 1, 3), pb.asarray([1])]
        assert {x.device for x in made} == {away}
        assert pb.zeros_like(made[0]).device is away
        assert pb.one_hot(made[1], 3).device is away
        assert pb.tril(made[2]).device is away

    def test_a_tensor_on_its_device_is_itself(self):
        x = pb.ones(2)
        assert x.to("cpu:0") is x
        assert x.to_device(x.device) is x
        assert x.cpu() is x

    def test_host_data_moves(self):
        assert pb.to_device([1.0], "cpu").device is pb.device("cpu")
