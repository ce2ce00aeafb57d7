"""`program.save` and `pb.load_program`: what is saved, where it runs, and what is rejected."""

from __future__ import annotations

import collections
import copy
import json
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest

import pullback as pb
from pullback.devices import as_device
from pullback.dtypes import as_dtype
from pullback.graph.emit import emit
from pullback.graph.saved.data_form import content_of, data_of, decode, encode, graph_of
from pullback.graph.saved.program import program_of
from pullback.graph.trace import Trace
from pullback.spec import OPS
from pullback_conformance.case import cases
from pullback_conformance.samples import load

SUITES = load()
X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
IMAGES = np.random.default_rng(0).standard_normal((2, 6, 6, 1)).astype(np.float32)
Pair = collections.namedtuple("Pair", "low high")


def saved(f, folder, *args, device=None, **kwargs):
    """Lowers a function for arguments, saves the program, and loads it."""
    pb.function(f).lower(*args, **kwargs).save(folder)
    return pb.load_program(folder, device=device)


def passed_on(f, *args):
    """The same through JSON, without files."""
    content, arrays = content_of(pb.function(f).lower(*args))
    return program_of(json.loads(json.dumps(content)), arrays, as_device(None))


def bits(value):
    if isinstance(value, dict):
        return {key: bits(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [bits(item) for item in value]
    if not isinstance(value, pb.Tensor):
        return value
    return value.shape, value.dtype, value.numpy().tobytes()


def small_model():
    pb.random.seed(0)
    model = pb.Sequential(
        [
            pb.layers.Conv2D(4, 3, activation="relu"),
            pb.layers.BatchNormalization(),
            pb.layers.MaxPool2D(2),
            pb.layers.Flatten(),
            pb.layers.Dropout(0.5),
            pb.layers.Dense(3, activation="softmax"),
        ]
    )
    model(IMAGES)
    return model


class TestRuns:
    def test_a_model(self, tmp_path):
        model = small_model()
        expected = bits(model(IMAGES))
        program = saved(model, tmp_path / "program", IMAGES)
        for _ in range(3):
            assert bits(program(IMAGES)) == expected
            assert bits(program(pb.asarray(IMAGES))) == expected

    def test_what_was_trained_without_the_class_in_a_new_process(self, tmp_path):
        (tmp_path / "train.py").write_text(
            textwrap.dedent("""
            import numpy as np
            import pullback as pb

            class Mine(pb.Model):
                def __init__(self):
                    super().__init__()
                    self.hidden = pb.layers.Dense(8, activation="tanh")
                    self.out = pb.layers.Dense(1)

                def call(self, x):
                    return self.out(self.hidden(x))

            pb.random.seed(0)
            model, optimizer = Mine(), pb.optimizers.Adam(0.05)
            x = np.linspace(-1, 1, 32, dtype=np.float32)[:, None]
            for _ in range(30):
                optimizer.minimize(lambda: pb.mean((model(x) - x**2) ** 2))
            pb.function(model).lower(x).save("program")
            np.save("expected.npy", model(x).numpy())
            """)
        )
        (tmp_path / "run.py").write_text(
            textwrap.dedent("""
            import numpy as np
            import pullback as pb

            program = pb.load_program("program")
            x = np.linspace(-1, 1, 32, dtype=np.float32)[:, None]
            for _ in range(3):
                assert np.array_equal(program(x).numpy(), np.load("expected.npy"))
            print("equal")
            """)
        )
        for script in ("train.py", "run.py"):
            done = subprocess.run(
                [sys.executable, script], cwd=tmp_path, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stderr
        assert done.stdout == "equal\n"

    def test_every_argument_and_every_kind_of_result(self, tmp_path):
        table = pb.asarray([10.0, 20.0, 30.0])

        def f(batch, scale, *, mode, flag=None):
            x, more = batch["x"], batch["more"]
            y = x * scale + table if mode == "add" else x
            return {"y": y, "pair": Pair(more[0], [y, None, 2, "text", 1.5]), "empty": ()}

        arguments = {"x": pb.asarray(X), "more": [pb.asarray([1, 2])]}
        program = saved(f, tmp_path / "program", arguments, 2.0, mode="add")
        result = program(arguments, 2.0, mode="add")
        assert bits(result) == bits(f(arguments, 2.0, mode="add"))
        assert type(result["pair"]) is tuple
        # What is not a tensor may be left out.
        assert bits(program(arguments)) == bits(result)
        assert bits(program(batch=arguments, scale=2.0)) == bits(result)

    def test_a_float_that_is_an_input(self, tmp_path):
        @pb.function
        def f(x, factor):
            return x * factor, x.astype("float64") + factor

        for factor in (0.1, 0.2, 0.3, 0.4):
            for _ in range(2):
                f(pb.asarray(X), factor)
        f.lower(pb.asarray(X), 0.5).save(tmp_path / "program")
        program = pb.load_program(tmp_path / "program")
        for factor in (0.25, -3.0, 2):
            assert bits(program(X, factor)) == bits(f(pb.asarray(X), float(factor)))
        with pytest.raises(pb.errors.InputTypeError, match=r"factor .* must be a float"):
            program(X, "0.5")

    def test_gradients_that_it_computes(self, tmp_path):
        norm = pb.layers.LayerNormalization()
        norm(X)

        def score(x):
            return pb.grad(lambda x: pb.sum(pb.softmax(norm(x)) ** 3))(x)

        program = saved(score, tmp_path / "program", pb.asarray(X))
        for _ in range(2):
            assert bits(program(X)) == bits(score(pb.asarray(X)))

    def test_gradients_through_it(self, tmp_path):
        model = small_model()
        program = saved(model, tmp_path / "program", IMAGES)
        x = pb.asarray(IMAGES)
        for _ in range(3):
            found = pb.grad(lambda x: pb.sum(program(x) ** 2))(x)
            assert bits(found) == bits(pb.grad(lambda x: pb.sum(model(x) ** 2))(x))

    def test_inside_another_captured_function(self, tmp_path):
        program = saved(small_model(), tmp_path / "program", IMAGES)
        captured = pb.function(lambda x: program(x) * 2)
        for _ in range(4):
            assert bits(captured(IMAGES)) == bits(program(IMAGES) * 2)
        assert len(captured.graph.calls) > 4

    def test_in_threads(self, tmp_path):
        program = saved(small_model(), tmp_path / "program", IMAGES)
        results = []
        threads = [
            threading.Thread(target=lambda: results.append(bits(program(IMAGES)))) for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert results == [bits(program(IMAGES))] * 4

    def test_on_a_device_that_has_no_kernels_but_for_primitives(self, tmp_path, minimal):
        model = small_model()
        expected = model(IMAGES).numpy()
        program = saved(model, tmp_path / "program", IMAGES, device=minimal)
        for _ in range(2):
            y = program(IMAGES)
            assert y.device is minimal
            np.testing.assert_allclose(y.numpy(), expected, rtol=1e-5)
        assert bits(program(pb.asarray(IMAGES, device=minimal))) == bits(y)
        with pytest.raises(pb.errors.DeviceError, match=r"x\.to\("):
            program(pb.asarray(IMAGES, device="cpu:0"))

    def test_with_the_kernels_of_the_moment(self, tmp_path, offer):
        program = saved(lambda x: pb.tanh(x), tmp_path / "program", pb.asarray(X))
        before = bits(program(X))
        offer("tanh", lambda x: np.tanh(x) * 2)
        assert bits(program(X)) == bits(pb.asarray(np.tanh(X) * 2))
        assert bits(program(X)) != before

    @pytest.mark.parametrize("dtype", pb.dtypes.STORAGE, ids=str)
    def test_dtypes_that_store_values(self, tmp_path, dtype):
        stored, x = pb.asarray([1.0, 2.0]).astype(dtype), pb.asarray([0.0, 3.0])

        def f(x):
            return stored, stored.astype("float32") * x, x.astype(dtype)

        for now, then in zip(saved(f, tmp_path, x)(x), f(x), strict=True):
            assert now.dtype == then.dtype
            assert now.astype("float32").tolist() == then.astype("float32").tolist()

    def test_branches_and_loops(self, tmp_path):
        table = pb.asarray([1.0, 2.0, 3.0])

        def f(x, n):
            x = pb.cond(pb.sum(x) > 0, lambda x: x * table, lambda x: pb.exp(x), x)
            x = pb.fori_loop(0, n, lambda i, x: x + i, x)
            total, rows = pb.scan(lambda c, row: (c + row, c * row), pb.sum(x, axis=0), x)
            return pb.while_loop(lambda c: pb.sum(c) < 100, lambda c: c * 2 + 1, total), rows

        n = pb.asarray(3)
        program = saved(f, tmp_path / "program", pb.asarray(X), n)
        captured = pb.function(lambda x, n: program(x, n))
        for x in (pb.asarray(X), pb.asarray(X + 1), pb.asarray(X - 3)):
            for count in (n, pb.asarray(0)):
                assert bits(program(x, count)) == bits(f(x, count))
                assert bits(captured(x, count)) == bits(f(x, count))

    def test_errors_of_an_op_are_those_of_the_op(self, tmp_path):
        program = saved(lambda i: pb.take(pb.arange(3), i), tmp_path / "p", pb.asarray([0, 1]))
        for _ in range(2):
            program(pb.asarray([2, 1]))
            with pytest.raises(pb.errors.IndexingError, match="take") as caught:
                program(pb.asarray([0, 7]))
            assert any("test_saved_program.py" in note for note in caught.value.__notes__)

    @pytest.mark.parametrize("name", [name for name in SUITES if name in OPS])
    def test_every_op(self, name):
        op, tried = OPS[name], 0
        if op.creates or not op.inputs:
            return
        for case in cases(op, SUITES[name], as_device("cpu")):
            try:
                program = passed_on(lambda *given, case=case: case.call([*given]), *case.tensors())
            except pb.errors.CaptureError:
                continue  # a result whose shape depends on values, or an object
            expected = bits(case.call())
            assert bits(program(*case.tensors())) == expected, str(case)
            assert bits(program(*case.tensors())) == expected, str(case)
            tried += 1
            if tried == 3:
                break


class TestDoesNotSave:
    def rejected(self, f, tmp_path, *args, match):
        captured = pb.function(f)
        captured(*args)
        with pytest.raises(pb.errors.CaptureError, match=match):
            captured.lower(*args).save(tmp_path / "program")
        assert not [*tmp_path.iterdir()]

    def test_writes(self, tmp_path):
        v = pb.Variable(1.0, name="count")
        self.rejected(lambda x: v.assign_add(x), tmp_path, pb.ones(()), match="writes count; save")

    def test_a_training_step(self, tmp_path):
        v, optimizer = pb.Variable(1.0), pb.optimizers.SGD(0.1)
        self.rejected(
            lambda: optimizer.minimize(lambda: v * v), tmp_path, match="writes a variable"
        )

    def test_metrics(self, tmp_path):
        mean = pb.metrics.Mean()
        self.rejected(lambda x: mean(x), tmp_path, pb.ones(()), match="cannot be saved")

    def test_random_numbers(self, tmp_path):
        dropout = pb.layers.Dropout(0.5)
        self.rejected(
            lambda x: dropout(x, training=True), tmp_path, pb.ones(8), match="draws random numbers"
        )

    def test_numbers_of_the_host(self, tmp_path):
        @pb.function
        def f(x, factor):
            return x * (factor + 1)

        for factor in (0.1, 0.2, 0.3, 0.4):
            for _ in range(2):
                f(pb.ones(3), factor)
        with pytest.raises(pb.errors.CaptureError, match="pass it as a tensor"):
            f.lower(pb.ones(3), 0.5).save(tmp_path / "program")

    def test_objects(self, tmp_path):
        v = pb.Variable(1.0)
        self.rejected(lambda x, v: x * v, tmp_path, pb.ones(3), v, match="has the argument v")
        self.rejected(lambda x: (x, object()), tmp_path, pb.ones(3), match="which is not data")
        self.rejected(lambda d: d[1] * 2, tmp_path, {1: pb.ones(3)}, match="not texts")

    def test_python_functions(self, tmp_path):
        kind = pb.zeros(3)
        self.rejected(
            lambda x: pb.py_function(lambda x: x, x, result=kind), tmp_path, pb.ones(3),
            match=r"calls Python with pb.py_function",
        )  # fmt: skip

    def test_ops_that_are_not_in_the_op_table(self, tmp_path):
        program = pb.function(lambda x: x + 1).lower(pb.ones(3))
        call = program.graph.calls[0]
        program.graph = program.graph._replace(calls=(call._replace(op=copy.copy(call.op)),))
        with pytest.raises(pb.errors.CaptureError, match="not an op of the op table"):
            program.save(tmp_path / "program")

    def test_what_has_changed_since(self, tmp_path):
        factor = 2.0
        program = pb.function(lambda x: x * factor).lower(pb.ones(3))
        factor = 3.0
        with pytest.raises(pb.errors.CaptureError, match=r"another value of .*lower it again"):
            program.save(tmp_path / "program")


class TestFolder:
    def test_an_older_program_is_replaced(self, tmp_path):
        folder = tmp_path / "program"
        saved(lambda x: x + 1, folder, pb.ones(3))
        assert saved(lambda x: x * 5, folder, pb.ones(3))(pb.ones(3)).tolist() == [5.0] * 3
        assert [path.name for path in tmp_path.iterdir()] == ["program"]
        assert {path.name for path in folder.iterdir()} == {"program.json", "arrays.safetensors"}

    def test_other_files_are_left_alone(self, tmp_path):
        (tmp_path / "mine.txt").write_text("mine")
        with pytest.raises(pb.errors.CheckpointError, match="choose another folder"):
            saved(lambda x: x + 1, tmp_path, pb.ones(3))
        assert (tmp_path / "mine.txt").read_text() == "mine"

    def test_where_nothing_can_be_written(self, tmp_path):
        (tmp_path / "file").write_text("")
        with pytest.raises(pb.errors.CheckpointError, match="could not be saved"):
            saved(lambda x: x + 1, tmp_path / "file" / "program", pb.ones(3))

    def test_where_there_is_none(self, tmp_path):
        with pytest.raises(pb.errors.CheckpointError, match="there is no saved program"):
            pb.load_program(tmp_path)

    def test_one_of_a_later_version(self, tmp_path):
        saved(lambda x: x + 1, tmp_path / "p", pb.ones(3))
        file = tmp_path / "p" / "program.json"
        file.write_text(file.read_text().replace('"version": 1', '"version": 2'))
        with pytest.raises(pb.errors.CheckpointError, match="upgrade"):
            pb.load_program(tmp_path / "p")

    def test_arrays_have_the_names_of_variables(self, tmp_path):
        from safetensors.numpy import load_file

        model = small_model()
        saved(model, tmp_path / "program", IMAGES)
        arrays = load_file(tmp_path / "program" / "arrays.safetensors")
        assert {"kernel", "kernel.2", "moving_mean"} <= arrays.keys()


class TestRejectsCalls:
    @pytest.fixture
    def program(self, tmp_path):
        return saved(lambda x, k=1: x * k, tmp_path / "program", pb.asarray(X), 3)

    @pytest.mark.parametrize(
        ("args", "kwargs", "error", "match"),
        [
            ((), {}, "InputTypeError", r"takes \(x: float32\[2, 3\], k: 3\); x is missing"),
            ((X, 3, 4), {}, "InputTypeError", "got 3 positional arguments"),
            ((X,), {"x": X}, "InputTypeError", "got x twice"),
            ((X,), {"y": X}, "InputTypeError", "got y as well"),
            ((X, 4), {}, "InputValueError", "k .* must be 3, got 4; .* save one for each value"),
            ((X, 3.0), {}, "InputValueError", "must be 3, got 3.0"),
            ((X[:1],), {}, "ShapeError", r"x .* must be float32\[2, 3\], got .*\[1, 3\]; .*shapes"),
            (
                (X.astype("float64"),),
                {},
                "DTypeError",
                r"got float64; write x\.astype\('float32'\)",
            ),
            (([X],), {}, "ShapeError", "must be"),
            ((object(),), {}, "ConversionError", "object"),
        ],
    )
    def test_of_another_kind(self, program, args, kwargs, error, match):
        for _ in range(2):
            with pytest.raises(getattr(pb.errors, error), match=match):
                program(*args, **kwargs)
        assert program(X).tolist() == (X * 3).tolist()

    def test_of_structures(self, tmp_path):
        program = saved(lambda b: b["x"] + b["y"][0], tmp_path / "p", {"x": X, "y": [X]})
        for wrong in ({"x": X}, {"x": X, "y": X}, {"x": X, "y": [X, X]}, X):
            with pytest.raises(pb.errors.InputTypeError, match="must be a"):
                program(wrong)


class TestData:
    @pytest.mark.parametrize(
        "value",
        [
            None, True, 3, -0.0, float("inf"), float("-inf"), 2 - 1j, complex("nan+1j"), "text",
            ..., slice(1, None, -1), np.dtype("float32"), as_dtype("bfloat16"), (1, [3, (None,)]),
            {"a": (1,), "$": {"value": 2}}, [], (), {},
        ],
    )  # fmt: skip
    def test_of_every_kind(self, value):
        text = json.dumps(encode(value, lambda _: None), allow_nan=False)
        assert repr(decode(json.loads(text), {})) == repr(value)

    def test_graphs_in_graphs(self):
        device = as_device("cpu")
        trace = Trace(device)
        x = trace.argument(pb.asarray(X)._array, "x")
        graph = trace.graph([(pb.exp(x) * pb.asarray(X, device=trace.device))._array.value])
        arrays = {}
        text = json.dumps({"$": "graph", "value": data_of(graph, arrays)})
        found = decode(json.loads(text), {"graph": lambda data: graph_of(data, arrays, device)})
        assert str(found) == str(graph)
        # A graph that is an attribute runs as any graph does: its kernels call the ops.
        expected = emit(graph)(x._array.array)[0]
        assert emit(found)(x._array.array)[0].tobytes() == expected.tobytes()


def test_gradients_have_the_rules_of_composites(tmp_path):
    x = pb.asarray([1.0, -1.0, 0.3, 2.0])
    pb.function(lambda x: pb.clip(x, -1.0, 1.0)).lower(x).save(tmp_path / "program")
    program = pb.load_program(tmp_path / "program")
    assert pb.grad(program)(x).tolist() == [1, 1, 1, 0]
