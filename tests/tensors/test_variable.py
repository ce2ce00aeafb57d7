"""Variables: reading, assigning, and what tapes see of them."""

from __future__ import annotations

import copy
import gc
import weakref

import numpy as np
import pytest

import pullback as pb


class TestReading:
    def test_first_value_decides(self):
        v = pb.Variable(5.0, name="weight")
        assert (v.dtype, v.shape, v.ndim, v.size, v.nbytes) == (pb.float32, (), 0, 1, 4)
        assert v.device is pb.default_device()
        assert v.name == "weight"
        assert pb.Variable(3).dtype == pb.int32
        assert pb.Variable(np.zeros(2)).dtype == pb.float64
        assert pb.Variable([1, 2], dtype=pb.float16).dtype == pb.float16

    def test_goes_in_wherever_a_tensor_may(self):
        v = pb.Variable([1.0, 2.0])
        assert pb.multiply(v, v).tolist() == [1.0, 4.0]
        assert pb.sum(v).item() == 3.0
        assert pb.asarray(v).tolist() == [1.0, 2.0]
        assert np.multiply(v, np.asarray([2.0, 2.0], np.float32)).tolist() == [2.0, 4.0]
        assert pb.stack([v, v]).shape == (2, 2)

    def test_value_stays_when_another_is_assigned(self):
        v = pb.Variable([1.0, 2.0])
        before, array = v.value, v.numpy()
        v.assign([3.0, 4.0])
        assert before.tolist() == [1.0, 2.0]
        assert array.tolist() == [1.0, 2.0]
        assert v.value.tolist() == [3.0, 4.0]

    def test_does_not_share_memory_with_what_it_was_made_of(self):
        array = np.ones(3, np.float32)
        v = pb.Variable(array)
        array[:] = 7
        assert v.numpy().tolist() == [1, 1, 1]
        assert not v.numpy().flags.writeable

    def test_operators(self):
        v, x = pb.Variable([4.0, 9.0]), pb.asarray([2.0, 3.0])
        for a, b in [(v, x), (x, v), (v, 2.0), (2.0, v), (v, v)]:
            left = a.numpy() if isinstance(a, (pb.Variable, pb.Tensor)) else a
            right = b.numpy() if isinstance(b, (pb.Variable, pb.Tensor)) else b
            for got, expected in [
                (a + b, left + right), (a - b, left - right), (a * b, left * right),
                (a / b, left / right), (a // b, left // right), (a % b, left % right),
                (a**b, left**right), (a == b, left == right), (a != b, left != right),
                (a < b, left < right), (a <= b, left <= right), (a > b, left > right),
                (a >= b, left >= right),
            ]:  # fmt: skip
                assert type(got) is pb.Tensor
                np.testing.assert_allclose(got.numpy(), expected, rtol=1e-6)
        assert (v @ x).item() == 35.0
        assert (-v).tolist() == [-4.0, -9.0]
        assert (+v).tolist() == [4.0, 9.0]
        assert abs(-v).tolist() == [4.0, 9.0]

    def test_integer_operators(self):
        v = pb.Variable([6, 3])
        assert (v & 2).tolist() == [2, 2]
        assert (v | 1).tolist() == [7, 3]
        assert (v ^ 1).tolist() == [7, 2]
        assert (~v).tolist() == [-7, -4]
        assert (v << 1).tolist() == [12, 6]
        assert (v >> 1).tolist() == [3, 1]
        assert (1 << v).tolist() == [64, 8]

    def test_as_python_values(self):
        v = pb.Variable(2.5)
        assert (float(v), int(v), bool(v), v.item()) == (2.5, 2, True, 2.5)
        assert f"{v:.3f}" == "2.500"
        assert list(range(5))[pb.Variable(3)] == 3
        m = pb.Variable([[1.0, 2.0], [3.0, 4.0]])
        assert len(m) == 2
        assert [row.tolist() for row in m] == [[1.0, 2.0], [3.0, 4.0]]
        assert m[1, 0].item() == 3.0
        assert m.T.tolist() == m.mT.tolist() == [[1.0, 3.0], [2.0, 4.0]]
        assert 4.0 in m
        assert np.asarray(m).tolist() == m.tolist()
        assert np.asarray(m, np.float64).dtype == np.float64
        assert m.reshape(4).shape == (4,)
        assert m.astype("float64").dtype == pb.float64
        assert (m.sum().item(), m.mean().item(), m.max().item(), m.min().item()) == (10, 2.5, 4, 1)

    def test_repr_tells_name_and_value(self):
        text = repr(pb.Variable([1.0], name="w"))
        assert text == "<Variable 'w' [1.], shape=(1,), dtype=float32, device=cpu:0>"

    def test_is_a_key_by_identity(self):
        a, b = pb.Variable(1.0), pb.Variable(1.0)
        assert {a: "a", b: "b"}[a] == "a"


class TestAssigning:
    def test_assign_returns_the_variable(self):
        v = pb.Variable(5.0)
        assert v.assign(2.0) is v
        assert v.assign_add(3) is v
        assert v.assign_sub(1.0) is v
        assert v.numpy() == 4.0

    def test_broadcasts_what_is_added(self):
        v = pb.Variable([[1.0, 2.0], [3.0, 4.0]])
        assert v.assign_add(1.0).tolist() == [[2.0, 3.0], [4.0, 5.0]]
        assert v.assign_sub([1.0, 2.0]).tolist() == [[1.0, 1.0], [3.0, 3.0]]

    def test_keeps_dtype(self):
        v = pb.Variable(1.0, dtype=pb.float16)
        assert v.assign(2).dtype == pb.float16
        assert v.assign(np.float64(3.0)).dtype == pb.float16
        with pytest.raises(pb.errors.DTypeError, match=r"float16.*float64.*astype\('float16'\)"):
            v.assign(pb.asarray(1.0, dtype=pb.float64))
        with pytest.raises(pb.errors.DTypeError, match="int32"):
            pb.Variable(1).assign_add(0.5)

    def test_keeps_shape(self):
        v = pb.Variable([1.0, 2.0], name="w")
        with pytest.raises(pb.errors.ShapeError, match=r"'w'.assign: .*\(2,\).*\(3,\)"):
            v.assign([1.0, 2.0, 3.0])
        with pytest.raises(pb.errors.ShapeError, match="assign_add"):
            v.assign_add([[1.0, 2.0], [3.0, 4.0]])
        assert v.tolist() == [1.0, 2.0]

    @pytest.mark.parametrize(
        ("statement", "instead"),
        [
            ("v += 1", "v.assign_add(x)"),
            ("v -= 1", "v.assign_sub(x)"),
            ("v *= 2", "v.assign(v * x)"),
            ("v /= 2", "v.assign(v / x)"),
            ("v //= 2", "v.assign(v // x)"),
            ("v %= 2", "v.assign(v % x)"),
            ("v **= 2", "v.assign(v ** x)"),
            ("v[0] = 1", "v.assign(x)"),
        ],
    )
    def test_in_place_operators_name_what_to_write(self, statement, instead):
        names = {"v": pb.Variable([1.0])}
        with pytest.raises(pb.errors.VariableError) as caught:
            exec(statement, names)
        assert instead in str(caught.value)
        assert names["v"].tolist() == [1.0]

    def test_copies_are_variables_of_their_own(self):
        v = pb.Variable([1.0], name="w", trainable=False)
        for other in (copy.copy(v), copy.deepcopy(v)):
            v.assign([5.0])
            assert other.tolist() == [1.0]
            assert (other.name, other.trainable) == ("w", False)
            v.assign([1.0])


class TestTapes:
    def test_watched_by_being_read(self):
        w = pb.Variable([[1.0]])
        with pb.GradientTape() as tape:
            loss = w * w
        assert tape.gradient(loss, w).tolist() == [[2.0]]

    def test_assigning_does_not_disturb_the_tape(self):
        w = pb.Variable(3.0)
        with pb.GradientTape() as tape:
            loss = w * w
            w.assign(10.0)
        assert tape.gradient(loss, w).item() == 6.0

    def test_each_read_counts(self):
        w = pb.Variable(3.0)
        with pb.GradientTape() as tape:
            first = w * 2.0
            w.assign(5.0)
            loss = first * w
        # d (2 w1 w2) with w1 = 3, w2 = 5.
        assert tape.gradient(loss, w).item() == 2 * 5 + 2 * 3

    def test_nested_tapes(self):
        w = pb.Variable(2.0)
        with pb.GradientTape() as outer:
            with pb.GradientTape() as inner:
                loss = w * w * w
            first = inner.gradient(loss, w)
        assert first.item() == 12.0
        assert outer.gradient(first, w).item() == 12.0

    def test_untrainable_is_watched_only_when_asked(self):
        w = pb.Variable(3.0, trainable=False)
        with pb.GradientTape() as tape:
            loss = w * w
        assert tape.gradient(loss, w) is None
        with pb.GradientTape() as tape:
            tape.watch(w)
            loss = w * w
        assert tape.gradient(loss, w).item() == 6.0

    def test_tape_that_watches_nothing_by_itself(self):
        w = pb.Variable(3.0)
        with pb.GradientTape(watch_accessed_variables=False) as tape:
            loss = w * w
        assert tape.gradient(loss, w) is None

    def test_integers_are_never_trained(self):
        count = pb.Variable(3)
        assert not count.trainable
        with pb.GradientTape() as tape:
            count + 1
        assert tape.watched_variables() == ()

    def test_frozen(self):
        w = pb.Variable(3.0)
        w.frozen = True
        assert not w.trainable
        with pb.GradientTape() as tape:
            w * w
        assert tape.watched_variables() == ()
        w.frozen = False
        assert w.trainable
        w.trainable = False
        assert w.frozen
        w.trainable = True
        assert w.trainable
        assert not w.frozen
        for fixed in (pb.Variable(3.0, trainable=False), pb.Variable(3)):
            fixed.trainable = False
            with pytest.raises(pb.errors.VariableError, match="was made with trainable=False"):
                fixed.trainable = True
        constant = pb.Variable(3.0, trainable=False)
        constant.frozen = True
        constant.frozen = False
        assert not constant.trainable

    def test_array_methods_carry_gradients(self):
        w = pb.Variable([[1.0, 2.0]])
        with pb.GradientTape(persistent=True) as tape:
            parts = [w[0, 1], w.T, w.sum(), np.multiply(w, w), w.reshape(2), w.astype("float64")]
        for part in parts:
            assert tape.gradient(part, w) is not None


class TestMemory:
    def test_freed_with_its_last_reference(self):
        gc.disable()
        try:
            v = pb.Variable(np.zeros(1000, np.float32))
            with pb.GradientTape() as tape:
                loss = pb.sum(v * v)
            tape.gradient(loss, v)
            del tape, loss
            alive, array = weakref.ref(v), weakref.ref(v._array)
            del v
            assert alive() is None
            assert array() is None
        finally:
            gc.enable()

    def test_old_value_is_freed(self):
        v = pb.Variable(np.zeros(1000, np.float32))
        old = weakref.ref(v._array)
        v.assign(np.ones(1000, np.float32))
        assert old() is None
