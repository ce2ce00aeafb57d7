"""Summaries, read back with TensorBoard's own reader."""

from __future__ import annotations

import io
import json
import multiprocessing
import os
import runpy
import subprocess
import sys
import time
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
from tensorboard.plugins.hparams import plugin_data_pb2

import pullback as pb

RNG = np.random.default_rng(3)


def read(folder):
    """The values that TensorBoard shows of a run."""
    everything = dict.fromkeys(["scalars", "images", "histograms", "tensors"], 0)
    accumulator = EventAccumulator(str(folder), size_guidance=everything)
    accumulator.Reload()
    return accumulator


def scalars(folder, name):
    return [(one.step, one.value) for one in read(folder).Scalars(name)]


@pytest.fixture
def writer(tmp_path):
    with pb.summary.create_file_writer(tmp_path) as writer, writer.as_default():
        yield writer


class TestScalars:
    def test_values(self, tmp_path, writer):
        before = time.time()
        for step, value in enumerate([0.5, pb.asarray(0.25), np.float32(0.125), pb.Variable(2.0)]):
            assert pb.summary.scalar("loss", value, step=step)
        pb.summary.scalar("group/count", pb.asarray([[7]]), step=pb.Variable(3))
        writer.flush()
        assert scalars(tmp_path, "loss") == [(0, 0.5), (1, 0.25), (2, 0.125), (3, 2.0)]
        assert scalars(tmp_path, "group/count") == [(3, 7.0)]
        assert before <= read(tmp_path).Scalars("loss")[0].wall_time <= time.time()

    def test_what_is_not_finite(self, tmp_path, writer):
        pb.summary.scalar("loss", float("inf"), step=0)
        writer.flush()
        assert scalars(tmp_path, "loss") == [(0, float("inf"))]

    def test_metrics(self, tmp_path, writer):
        mean = pb.metrics.Mean()
        mean([1.0, 3.0])
        pb.summary.scalar("mean", mean, step=1)
        writer.flush()
        assert scalars(tmp_path, "mean") == [(1, 2.0)]

    def test_several_elements(self, writer):
        with pytest.raises(
            pb.errors.InputValueError, match=r"'loss' must have one element, got the shape \(2,\)"
        ):
            pb.summary.scalar("loss", pb.asarray([1.0, 2.0]), step=1)

    def test_no_tape_is_disturbed(self, writer):
        w = pb.Variable(2.0)
        with pb.GradientTape() as tape:
            loss = w * w
            pb.summary.scalar("loss", loss, step=1)
            pb.summary.histogram("loss", loss, step=1)
        assert float(tape.gradient(loss, w)) == 4.0


class TestHistograms:
    def counts(self, folder, name):
        (event,) = read(folder).Histograms(name)
        found = event.histogram_value
        return found, list(zip(found.bucket_limit, found.bucket, strict=True))

    def test_values(self, tmp_path, writer):
        values = RNG.normal(size=(20, 50)).astype(np.float32)
        pb.summary.histogram("weights", values, step=4, buckets=10)
        writer.flush()
        found, buckets = self.counts(tmp_path, "weights")
        wide = values.astype(float)
        expected, edges = np.histogram(wide, bins=10)
        np.testing.assert_allclose([limit for limit, _ in buckets], edges, rtol=1e-12)
        assert [count for _, count in buckets] == [0, *expected]
        assert (found.min, found.max, found.num) == (wide.min(), wide.max(), 1000)
        assert found.sum == pytest.approx(wide.sum())
        assert found.sum_squares == pytest.approx((wide**2).sum())

    @pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning", "ignore:invalid:RuntimeWarning")
    @pytest.mark.parametrize(
        ("values", "num", "low", "high"),
        [
            ([3.0], 1, 3, 3),
            ([2, 2, 2], 3, 2, 2),
            ([1.0, np.nan, np.inf, 5.0, -np.inf], 2, 1, 5),
            ([True, False, True], 3, 0, 1),
            ([-1.7e308, 1.7e308], 2, -1.7e308, 1.7e308),
        ],
    )
    def test_edges(self, tmp_path, writer, values, num, low, high):
        pb.summary.histogram("x", np.asarray(values), step=0)
        writer.flush()
        found, buckets = self.counts(tmp_path, "x")
        assert (found.num, found.min, found.max) == (num, low, high)
        assert sum(count for _, count in buckets) == num

    @pytest.mark.parametrize("values", [[], [np.nan]])
    def test_nothing(self, tmp_path, writer, values):
        assert pb.summary.histogram("x", values, step=0)
        writer.flush()
        found, _ = self.counts(tmp_path, "x")
        assert found.num == 0

    def test_buckets(self, writer):
        with pytest.raises(pb.errors.InputValueError, match="buckets must be at least 1"):
            pb.summary.histogram("x", [1.0], step=0, buckets=0)


class TestImages:
    @pytest.mark.parametrize("channels", [1, 2, 3, 4])
    def test_pixels(self, tmp_path, writer, channels):
        images = RNG.integers(0, 256, (2, 5, 7, channels)).astype(np.uint8)
        pb.summary.image("bytes", images, step=1)
        pb.summary.image("floats", images[:1] / 255, step=1)
        writer.flush()
        found = read(tmp_path)
        for tag, expected in [
            ("bytes/image/0", images[0]),
            ("bytes/image/1", images[1]),
            ("floats/image", images[0]),
        ]:
            (event,) = found.Images(tag)
            assert (event.width, event.height, event.step) == (7, 5, 1)
            pixels = matplotlib.image.imread(io.BytesIO(event.encoded_image_string))
            pixels = np.round(pixels * 255).astype(np.uint8).reshape(5, 7, -1)
            if channels == 2:  # matplotlib reads these as colours
                pixels = pixels[..., [0, -1]]
            np.testing.assert_array_equal(pixels, expected)

    def test_values_are_cut_off(self, tmp_path, writer):
        pb.summary.image("x", np.array([-1.0, 0.0, 1.0, 7.0]).reshape(1, 1, 4, 1), step=0)
        writer.flush()
        (event,) = read(tmp_path).Images("x/image")
        pixels = matplotlib.image.imread(io.BytesIO(event.encoded_image_string))
        assert pixels.ravel().tolist() == [0, 0, 1, 1]

    def test_at_most_some(self, tmp_path, writer):
        pb.summary.image("x", np.zeros((9, 2, 2, 1)), step=0, max_outputs=2)
        writer.flush()
        assert read(tmp_path).Tags()["images"] == ["x/image/0", "x/image/1"]

    @pytest.mark.parametrize("shape", [(5, 5), (1, 5, 5), (1, 5, 5, 5)])
    def test_of_another_shape(self, writer, shape):
        with pytest.raises(pb.errors.ShapeError, match="images must have the shape"):
            pb.summary.image("x", np.zeros(shape), step=0)


class TestText:
    def test_values(self, tmp_path, writer):
        pb.summary.text("sample", "einmal **über** 火", step=2)
        writer.flush()
        (event,) = read(tmp_path).Tensors("sample/text_summary")
        assert event.step == 2
        assert event.tensor_proto.string_val[0].decode() == "einmal **über** 火"


class TestHyperparameters:
    def test_values(self, tmp_path, writer):
        pb.summary.hparams(
            {"rate": 0.1, "layers": 3, "bias": True, "kind": "cnn", "sizes": [3, 4],
             "decay": pb.asarray(0.5)},
            {"accuracy": 0.75},
        )  # fmt: skip
        writer.flush()
        metadata = read(tmp_path).summary_metadata
        start = plugin_data_pb2.HParamsPluginData.FromString(
            metadata["_hparams_/session_start_info"].plugin_data.content
        ).session_start_info
        experiment = plugin_data_pb2.HParamsPluginData.FromString(
            metadata["_hparams_/experiment"].plugin_data.content
        ).experiment
        values = {name: getattr(v, v.WhichOneof("kind")) for name, v in start.hparams.items()}
        assert values == {
            "rate": 0.1, "layers": 3.0, "bias": True, "kind": "cnn", "sizes": "[3, 4]",
            "decay": 0.5,
        }  # fmt: skip
        assert [info.name.tag for info in experiment.metric_infos] == ["accuracy"]
        assert scalars(tmp_path, "accuracy") == [(0, 0.75)]


class Branched(pb.Model):
    def __init__(self):
        super().__init__()
        self.shared = pb.layers.Dense(3, activation="relu")
        self.inner = pb.Sequential([pb.layers.Dense(3), pb.layers.BatchNormalization()])

    def call(self, x):
        h = self.shared(x) + 1
        return {"sum": self.inner(h) * h, "twice": self.shared(h)}


class TestGraph:
    def nodes(self, folder):
        return {node.name: node for node in read(folder).Graph().node}

    def test_of_a_model(self, tmp_path, writer):
        model = Branched()
        assert pb.summary.graph(model, pb.zeros((2, 3)))
        writer.flush()
        nodes = self.nodes(tmp_path)
        for path in model.named_variables:
            assert nodes[f"model/{path}"].op == "Variable"
        assert nodes["input"].op == "Placeholder"
        first = nodes["model/shared/linear"]
        assert list(first.input) == ["input", "model/shared/kernel", "model/shared/bias"]
        assert nodes["model/inner/layers/0/linear"].op == "linear"
        # A layer that is called twice computes twice, with one variable.
        assert "model/shared/kernel" in nodes["model/shared/linear_2"].input
        # What is computed beside the layers is the model's own.
        assert list(nodes["model/add"].input) == ["model/shared/relu"]
        assert [nodes[f"output/{i}"].input[0] for i in range(2)] == [
            "model/multiply",
            "model/shared/relu_2",
        ]
        shape = nodes["model/shared/kernel"].attr["_output_shapes"].list.shape[0]
        assert [one.size for one in shape.dim] == [3, 3]
        known = set(nodes)
        assert all(source in known for node in nodes.values() for source in node.input)

    def test_leaves_the_model_as_it_was(self, writer):
        model = Branched()
        model(pb.zeros((2, 3)))
        before = {path: dict(vars(layer)) for path, layer in model.sublayers.items()}
        pb.summary.graph(model, pb.zeros((2, 3)), name="other")
        assert {path: dict(vars(layer)) for path, layer in model.sublayers.items()} == before

    def test_of_integers(self, tmp_path, writer):
        model = pb.Sequential([pb.layers.Embedding(5, 3), pb.layers.LSTM(2), pb.layers.Dense(1)])
        pb.summary.graph(model, pb.asarray([[1, 2, 3]]))
        writer.flush()
        nodes = self.nodes(tmp_path)
        assert nodes["input"].attr["dtype"].s == b"int32"
        assert nodes["output"].input[0].startswith("model/layers/2/")

    def test_of_what_is_none(self, writer):
        with pytest.raises(pb.errors.InputTypeError, match="takes a model or layer, got function"):
            pb.summary.graph(lambda x: x, 1.0)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("layer", [pb.layers.Dropout(0.5), pb.layers.BatchNormalization()])
def test_a_graph_is_of_inference(tmp_path, layer):
    model = pb.Sequential([pb.layers.Dense(3), layer])
    with pb.summary.create_file_writer(tmp_path).as_default():
        assert pb.summary.graph(model, pb.zeros((2, 3)))


class TestWhether:
    def test_without_a_writer_nothing_happens(self):
        assert not pb.summary.should_record(1)
        assert not pb.summary.scalar("x", 1.0, step=1)
        assert not pb.summary.scalar("x", 1.0)
        assert not pb.summary.histogram("x", [1.0])
        assert not pb.summary.image("x", np.zeros((1, 1, 1, 1)))
        assert not pb.summary.text("x", "y")
        assert not pb.summary.hparams({})
        assert not pb.summary.graph(pb.layers.Dense(1), [[1.0]])

    def test_writers_nest(self, tmp_path):
        outer = pb.summary.create_file_writer(tmp_path / "outer")
        inner = pb.summary.create_file_writer(tmp_path / "inner")
        with outer.as_default():
            with inner.as_default():
                pb.summary.scalar("x", 1.0, step=1)
            pb.summary.scalar("x", 2.0, step=1)
        for writer in (outer, inner):
            writer.close()
        assert scalars(tmp_path / "inner", "x") == [(1, 1.0)]
        assert scalars(tmp_path / "outer", "x") == [(1, 2.0)]

    def test_for_good(self, tmp_path):
        import contextvars

        def program():
            writer = pb.summary.create_file_writer(tmp_path)
            writer.set_as_default()
            pb.summary.scalar("x", 1.0, step=1)
            writer.close()

        contextvars.copy_context().run(program)
        assert scalars(tmp_path, "x") == [(1, 1.0)]
        assert not pb.summary.should_record(1)

    def test_conditions(self, tmp_path, writer):
        for step in range(7):
            with pb.summary.record_every(3):
                pb.summary.scalar("third", step, step=step)
                with pb.summary.record_if(True):
                    pb.summary.scalar("always", step, step=step)
                with pb.summary.record_if(lambda step: step > 4):
                    pb.summary.scalar("late", step, step=step)
            with pb.summary.record_if(False):
                assert not pb.summary.should_record(step)
                pb.summary.scalar("never", step, step=step)
        writer.flush()
        steps = {
            name: [s for s, _ in scalars(tmp_path, name)] for name in ("third", "always", "late")
        }
        assert steps == {"third": [0, 3, 6], "always": list(range(7)), "late": [5, 6]}
        assert "never" not in read(tmp_path).Tags()["scalars"]
        with pytest.raises(pb.errors.InputValueError), pb.summary.record_every(0):
            pass

    def test_steps(self, tmp_path):
        counter = pb.Variable(5)
        writer = pb.summary.create_file_writer(tmp_path)
        with writer.as_default(step=counter):
            pb.summary.scalar("x", 1.0)
            counter.assign_add(1)
            pb.summary.scalar("x", 2.0)
            pb.summary.scalar("x", 3.0, step=9)
        with writer.as_default():
            with pytest.raises(pb.errors.InputValueError, match=r"needs a step.*set_step"):
                pb.summary.scalar("x", 4.0)
            assert pb.summary.should_record()
            pb.summary.set_step(lambda: 11)
            try:
                pb.summary.scalar("x", 5.0)
            finally:
                pb.summary.set_step(None)
        writer.close()
        assert scalars(tmp_path, "x") == [(5, 1.0), (6, 2.0), (9, 3.0), (11, 5.0)]


class TestFiles:
    def test_are_written_in_time(self, tmp_path):
        writer = pb.summary.create_file_writer(tmp_path, flush_millis=20)
        with writer.as_default():
            pb.summary.scalar("x", 1.0, step=1)
            deadline = time.monotonic() + 120
            while "x" not in read(tmp_path).Tags()["scalars"]:
                assert time.monotonic() < deadline
                time.sleep(0.01)
        writer.close()

    def test_at_once(self, tmp_path):
        writer = pb.summary.create_file_writer(tmp_path, flush_millis=0)
        with writer.as_default():
            for step in range(3):
                pb.summary.scalar("x", step, step=step)
                assert len(scalars(tmp_path, "x")) == step + 1

    def test_large_events_do_not_wait(self, tmp_path):
        writer = pb.summary.create_file_writer(tmp_path, flush_millis=10**9)
        with writer.as_default():
            pb.summary.text("x", "a" * (1 << 21), step=0)
            pb.summary.scalar("y", 1.0, step=0)
        assert read(tmp_path).Tags()["tensors"] == ["x/text_summary"]
        assert os.path.getsize(writer.path) > 1 << 21
        writer.close()
        assert scalars(tmp_path, "y") == [(0, 1.0)]

    def test_a_writer_that_is_dropped_has_written(self, tmp_path):
        writer = pb.summary.create_file_writer(tmp_path)
        with writer.as_default():
            pb.summary.scalar("x", 1.0, step=1)
        del writer
        assert scalars(tmp_path, "x") == [(1, 1.0)]

    def test_a_closed_one_is_refused(self, tmp_path):
        writer = pb.summary.create_file_writer(tmp_path)
        writer.close()
        writer.close()
        writer.flush()
        with writer.as_default(), pytest.raises(pb.errors.SummaryError, match="has been closed"):
            pb.summary.scalar("x", 1.0, step=1)
        assert str(tmp_path) in repr(writer)

    def test_two_writers_have_two_files(self, tmp_path):
        paths = {pb.summary.create_file_writer(tmp_path, filename_suffix=".a").path for _ in "12"}
        assert len(paths) == 2
        assert all(path.endswith(".a") for path in paths)

    def test_where_there_can_be_none(self, tmp_path):
        (tmp_path / "file").write_text("")
        with pytest.raises(pb.errors.SummaryError, match="cannot make an event file"):
            pb.summary.create_file_writer(tmp_path / "file")
        with pytest.raises(pb.errors.InputValueError):
            pb.summary.create_file_writer(tmp_path, flush_millis=-1)

    def test_every_record_has_its_checksums(self, tmp_path, writer):
        for step in range(20):
            pb.summary.text("x", "a" * step * 100, step=step)
        writer.flush()
        # This reader checks them, and stops at one that is wrong.
        events = list(EventFileLoader(writer.path).Load())
        assert len(events) == 21
        assert events[0].file_version == "brain.Event:2"

    def test_an_earlier_run_is_not_shown_beyond_where_the_next_begins(self, tmp_path):
        for begin, end in [(0, 6), (3, 8)]:
            writer = pb.summary.create_file_writer(tmp_path, purge_step=begin or None)
            with writer.as_default():
                for step in range(begin, end):
                    pb.summary.scalar("x", 100 * begin + step, step=step)
            writer.close()
        assert [value for _, value in scalars(tmp_path, "x")] == [
            0, 1, 2, 303, 304, 305, 306, 307,
        ]  # fmt: skip

    def test_other_threads(self, tmp_path, writer):
        import threading

        def program(number):
            with writer.as_default():
                for step in range(100):
                    pb.summary.scalar(f"x{number}", step, step=step)

        threads = [threading.Thread(target=program, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        writer.flush()
        for number in range(4):
            assert [s for s, _ in scalars(tmp_path, f"x{number}")] == list(range(100))


class TestPrograms:
    def run(self, program, *arguments):
        done = subprocess.run(
            [sys.executable, "-c", program, *map(str, arguments)],
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        return done

    BEGIN = (
        "import sys\nimport pullback as pb\n"
        "writer = pb.summary.create_file_writer(sys.argv[1], flush_millis=10**8)\n"
        "writer.set_as_default()\n"
        "for step in range(100): pb.summary.scalar('x', step, step=step)\n"
    )

    @pytest.mark.parametrize("end", ["", "raise RuntimeError"])
    def test_nothing_is_lost_at_the_end(self, tmp_path, end):
        self.run(self.BEGIN + end, tmp_path)
        assert [s for s, _ in scalars(tmp_path, "x")] == list(range(100))

    def test_a_child_leaves_the_file_to_its_parent(self, tmp_path):
        program = self.BEGIN + (
            "import os\n"
            "child = os.fork()\n"
            "pb.summary.scalar('child' if child == 0 else 'parent', 1.0, step=1)\n"
            "if child: os.waitpid(child, 0)\n"
        )
        done = self.run(program, tmp_path)
        assert not done.returncode, done.stderr
        files = sorted(tmp_path.iterdir())
        assert len(files) == 2
        found = []
        for file in files:
            events = [e for e in EventFileLoader(str(file)).Load() if e.HasField("summary")]
            found.append([value.tag for event in events for value in event.summary.value])
        assert sorted(found) == [["child"], ["x"] * 100 + ["parent"]]

    @pytest.mark.parametrize("method", ["fork", "spawn"])
    def test_workers(self, tmp_path, method):
        writer = pb.summary.create_file_writer(tmp_path)
        with writer.as_default():
            pb.summary.scalar("x", 1.0, step=1)
            script = tmp_path / "worker.py"
            script.write_text(
                "import pullback as pb\n"
                f"with pb.summary.create_file_writer({str(tmp_path)!r}) as writer:\n"
                "    with writer.as_default():\n"
                "        pb.summary.scalar('worker', 2.0, step=2)\n"
            )
            context = multiprocessing.get_context(method)
            # A spawned process may not find this file, wherever the tests are run from.
            worker = context.Process(target=runpy.run_path, args=(str(script),))
            worker.start()
            worker.join(60)
            assert worker.exitcode == 0
        writer.close()
        assert scalars(tmp_path, "x") == [(1, 1.0)]
        assert scalars(tmp_path, "worker") == [(2, 2.0)]

    def test_without_the_libraries(self, tmp_path):
        program = (
            "import sys\n"
            "sys.modules['tensorboardX.proto'] = sys.modules['tensorboardX'] = None\n"
            "import pullback as pb\nassert not pb.summary.scalar('x', 1.0)\n"
            "try: pb.summary.create_file_writer(sys.argv[1])\n"
            "except pb.errors.SummaryError as error: print(error)\n"
        )
        done = self.run(program, tmp_path)
        assert "pip install 'pullback[tensorboard]'" in done.stdout, done.stderr


class TestCallback:
    def train(self, folder, epochs=3, **more):
        pb.random.seed(0)
        x = RNG.normal(size=(40, 3)).astype(np.float32)
        y = (x[:, 0] > 0).astype(np.int32)
        model = pb.Sequential([pb.layers.Dense(4), pb.layers.Dense(2)])
        model.compile(pb.optimizers.SGD(0.5), "sparse_softmax_cross_entropy", ["accuracy"])
        save = pb.callbacks.Checkpoint(folder / "ckpt", resume=True)
        return model.fit(
            x, y, batch_size=10, epochs=epochs, validation_data=(x, y), verbose=False,
            callbacks=[save, pb.callbacks.TensorBoard(folder, **more)],
        ).history  # fmt: skip

    def test_curves(self, tmp_path):
        history = self.train(
            tmp_path, every_steps=3, histograms_every=2, graph=True, hparams={"units": 4}
        )
        for run, prefix in (("train", ""), ("validation", "val_")):
            for name in ("loss", "accuracy"):
                steps, values = zip(*scalars(tmp_path / run, f"epoch_{name}"), strict=True)
                assert steps == (4, 8, 12)
                np.testing.assert_allclose(values, history[prefix + name], rtol=1e-6)
        train = read(tmp_path / "train")
        assert [s for s, _ in scalars(tmp_path / "train", "batch_loss")] == [3, 6, 9, 12]
        assert scalars(tmp_path / "train", "epoch_learning_rate") == [(4, 0.5), (8, 0.5), (12, 0.5)]
        assert [h.step for h in train.Histograms("layers/1/kernel")] == [8]
        assert "model/layers/0/linear" in {node.name for node in train.Graph().node}
        assert "_hparams_/session_start_info" in train.summary_metadata
        assert json.loads(json.dumps(history)) == history

    def test_a_run_that_goes_on(self, tmp_path):
        self.train(tmp_path, epochs=2)
        self.train(tmp_path, epochs=4)
        for run in ("train", "validation"):
            assert [s for s, _ in scalars(tmp_path / run, "epoch_loss")] == [4, 8, 12, 16]

    def test_nothing_is_recorded_of_a_program_without_one(self, tmp_path):
        x = np.zeros((4, 1), np.float32)
        model = pb.Sequential([pb.layers.Dense(1)])
        model.compile("sgd", "mean_squared_error")
        with pb.summary.create_file_writer(tmp_path) as writer, writer.as_default():
            model.fit(x, x, verbose=False)
        (path,) = Path(tmp_path).iterdir()
        assert len(list(EventFileLoader(str(path)).Load())) == 1


def test_a_captured_step_records_what_an_eager_one_does(tmp_path):
    """Values, steps from a variable, conditions and writers are those of each run."""

    def run(folder, wrap):
        step, weights = pb.Variable(0), pb.Variable([1.0, 2.0])

        def train(x, rate):
            weights.assign_sub(rate * x)
            step.assign_add(1)
            pb.summary.scalar("loss", pb.sum(weights), step)
            pb.summary.scalar("rate", rate, step)
            pb.summary.histogram("weights", weights, step, buckets=3)
            pb.summary.image("picture", pb.reshape(weights, (1, 1, 2, 1)), step)
            pb.summary.text("note", "same", step)

        call = wrap(train)
        call(pb.asarray([0.1, 0.2]), 1.0)
        writer = pb.summary.create_file_writer(folder)
        with writer.as_default(), pb.summary.record_every(2):
            for i in range(7):
                call(pb.asarray([0.1, 0.2]) * i, 0.25 * i)
        writer.close()
        shown = read(folder)
        histograms = [(h.step, h.histogram_value) for h in shown.Histograms("weights")]
        images = [(i.step, i.encoded_image_string) for i in shown.Images("picture/image")]
        texts = [t.step for t in shown.Tensors("note/text_summary")]
        return scalars(folder, "loss"), scalars(folder, "rate"), histograms, images, texts

    eager = run(tmp_path / "eager", lambda f: f)
    assert run(tmp_path / "captured", pb.function) == eager
    assert [step for step, _ in eager[0]] == [2, 4, 6, 8]
