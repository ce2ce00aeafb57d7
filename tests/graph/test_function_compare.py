"""`pb.function(compare=False)`: programs that compare arguments alone; `executing_eagerly`."""

from __future__ import annotations

import copy
import pickle

import pytest

import pullback as pb

SETTINGS = {"factor": 2.0}


def scaled(x):
    return x * SETTINGS["factor"]


@pytest.fixture
def factor():
    SETTINGS["factor"] = 2.0
    yield SETTINGS
    SETTINGS["factor"] = 2.0


def called(f, *args, times=3):
    return [f(*args) for _ in range(times)][-1].tolist()


class TestWithout:
    def test_what_is_read_is_a_constant(self, factor):
        compares, constant = pb.function(scaled), pb.function(scaled, compare=False)
        for f in (compares, constant):
            assert called(f, pb.ones(2)) == [2.0, 2.0]
        factor["factor"] = 3.0
        assert called(compares, pb.ones(2)) == [3.0, 3.0]
        assert called(constant, pb.ones(2)) == [2.0, 2.0]

    def test_arguments_have_programs_of_their_own(self):
        f = pb.function(lambda x, n: x * n, compare=False)
        assert [called(f, pb.ones(2), n) for n in (2, 3)] == [[2.0, 2.0], [3.0, 3.0]]
        assert called(f, pb.ones(3), 2) == [2.0, 2.0, 2.0]

    def test_state_is_read_and_written(self):
        v, table = pb.Variable([1.0, 2.0]), pb.asarray([1.0, 1.0])

        @pb.function(compare=False)
        def step(x):
            v.assign_add(x)
            return v + table

        assert called(step, pb.ones(2)) == [5.0, 6.0]
        v.assign([0.0, 0.0])
        table[0] = 10.0
        assert step(pb.ones(2)).tolist() == [11.0, 2.0]

    def test_gradients_and_random_numbers(self):
        def run(**options):
            pb.random.seed(3)
            v = pb.Variable([1.0, 2.0, 3.0])

            @pb.function(**options)
            def step(x):
                with pb.GradientTape() as tape:
                    loss = pb.sum(pb.random.dropout(x * v, 0.5) ** 2)
                v.assign_sub(0.01 * tape.gradient(loss, v))
                return loss

            return [step(pb.ones(3)).item() for _ in range(5)], v.tolist()

        assert run(compare=False) == run()

    def test_what_a_trace_reads_of_many_objects_takes_no_time_of_a_run(self):
        many = [{"value": float(i)} for i in range(50)]

        def total(x):
            return x + sum(item["value"] for item in many)

        compares, constant = pb.function(total), pb.function(total, compare=False)
        for f in (compares, constant):
            called(f, pb.ones(1))
        guards = [len(f._all()[0].guards) for f in (compares, constant)]
        assert guards[0] > 50
        assert not guards[1]

    def test_values_are_not_there(self):
        f = pb.function(lambda x: x if x.item() > 0 else -x, compare=False)
        f(pb.asarray(1.0))
        with pytest.raises(pb.errors.CaptureError, match="looks at the values"):
            f(pb.asarray(1.0))

    def test_beside_a_tape(self, factor):
        f = pb.function(scaled, compare=False)
        x = pb.asarray([1.0, 2.0])
        for _ in range(4):
            with pb.GradientTape() as tape:
                tape.watch(x)
                y = pb.sum(f(x))
            assert tape.gradient(y, x).tolist() == [2.0, 2.0]
        factor["factor"] = 3.0
        with pb.GradientTape() as tape:
            tape.watch(x)
            y = pb.sum(f(x))
        assert tape.gradient(y, x).tolist() == [2.0, 2.0]

    def test_check_and_copies_keep_it(self, factor):
        f = pb.function(scaled, compare=False, check=True)
        assert called(f, pb.ones(2)) == [2.0, 2.0]
        for other in (copy.deepcopy(f), pickle.loads(pickle.dumps(f))):
            assert not other._options.compare
        factor["factor"] = 3.0
        with pytest.raises(pb.errors.CaptureError, match="differs"):
            f(pb.ones(2))

    def test_methods(self):
        class Scaler:
            factor = 2.0

            @pb.function(compare=False)
            def call(self, x):
                return x * self.factor

        scaler = Scaler()
        assert called(scaler.call, pb.ones(1)) == [2.0]
        scaler.factor = 3.0
        assert called(scaler.call, pb.ones(1)) == [2.0]


class TestExecutingEagerly:
    def test_is_false_where_tensors_have_no_values(self):
        found = []

        def f(x):
            found.append(pb.executing_eagerly())
            return x * 2.0

        captured = pb.function(f)
        for _ in range(4):
            captured(pb.ones(1))
        assert found == [True, False]
        pb.eval_shape(f, pb.TensorSpec((2,)))
        assert found == [True, False, False]
        f(pb.ones(1))
        assert found[-1]

    def test_is_true_in_batches_and_tapes(self):
        found = []

        def f(x):
            found.append(pb.executing_eagerly())
            return pb.sum(x * 2.0)

        pb.grad(f)(pb.ones(2))
        pb.vmap(f)(pb.ones((2, 2)))
        assert found == [True, True]
