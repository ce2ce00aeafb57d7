"""Programs from guides to eager execution: data, summaries, and models of the usual size."""

from __future__ import annotations

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import pullback as pb

RNG = np.random.default_rng(5)


@pytest.fixture(autouse=True, params=["default", "minimal"])
def here(request, minimal):
    """Everything on the default device, and on the smallest of all backends."""
    with pb.default_device() if request.param == "default" else minimal as device:
        yield device


class TestData:
    def test_images_as_the_guides_feed_them(self, here):
        images = RNG.integers(0, 256, (100, 28, 28)).astype(np.float32)
        labels = np.arange(100) % 10
        dataset = pb.data.Dataset.from_tensor_slices((images, labels))
        dataset = dataset.map(lambda image, label: (image / 255, label))
        dataset = dataset.shuffle(1000, seed=1).batch(32).prefetch(2)
        shapes = [(x.shape, y.shape) for x, y in dataset]
        assert shapes == [((32, 28, 28), (32,))] * 3 + [((4, 28, 28), (4,))]
        for step, (x, _) in enumerate(dataset.take(2)):
            assert step in (0, 1)
            assert x.device is here
            assert float(pb.max(x)) <= 1

    def test_two_passes_differ_and_a_seed_decides_both(self):
        def passes(seed):
            dataset = pb.data.Dataset.range(20).shuffle(20, seed=seed)
            return [[int(x) for x in dataset] for _ in range(2)]

        first, second = passes(3)
        assert first != second
        assert sorted(first) == sorted(second) == list(range(20))
        assert passes(3) == [first, second]

    def test_tfrecord_files(self, tmp_path):
        path = tmp_path / "digits.tfrecord"
        images = RNG.normal(size=(5, 4, 4)).astype(np.float32)
        with pb.data.TFRecordWriter(path) as writer:
            for number, image in enumerate(images):
                writer.write(pb.data.encode_example({"image": image, "label": number}))
        features = {
            "image": pb.data.Feature((4, 4), "float32"),
            "label": pb.data.Feature((), "int64"),
        }
        dataset = pb.data.Dataset.from_tfrecord(path, features).batch(2)
        batches = list(dataset)
        assert [b["image"].shape for b in batches] == [(2, 4, 4), (2, 4, 4), (1, 4, 4)]
        assert [b["label"].tolist() for b in batches] == [[0, 1], [2, 3], [4]]
        np.testing.assert_array_equal(np.concatenate([b["image"] for b in batches]), images)

    def test_lines_of_text(self, tmp_path):
        (tmp_path / "names.txt").write_text("cat\ndog\n")
        lines = pb.data.Dataset.from_text_lines(tmp_path / "names.txt")
        assert [str(line) for line in lines] == ["cat", "dog"]


def read(folder):
    """Reads a folder with TensorBoard's own reader."""
    accumulator = EventAccumulator(str(folder))
    accumulator.Reload()
    return accumulator


class TestSummaries:
    def test_a_loss_every_n_steps(self, tmp_path):
        model, optimizer = pb.Sequential([pb.layers.Dense(1)]), pb.optimizers.SGD(0.1)
        x = RNG.normal(size=(16, 3)).astype(np.float32)
        y = x.sum(1, keepdims=True)
        step = pb.Variable(0, trainable=False)
        writer = pb.summary.create_file_writer(tmp_path, flush_millis=10000)
        losses = []
        with writer.as_default():
            for _ in range(30):
                step.assign_add(1)
                loss = optimizer.minimize(lambda: pb.losses.mean_squared_error(y, model(x)))
                losses.append(float(loss))
                with pb.summary.record_every(10):
                    pb.summary.scalar("loss", loss, step=step)
                pb.summary.scalar("always", loss, step=step)
        writer.close()
        found = read(tmp_path)
        assert [(e.step, e.value) for e in found.Scalars("loss")] == [
            (n, pytest.approx(losses[n - 1])) for n in (10, 20, 30)
        ]
        assert len(found.Scalars("always")) == 30

    def test_the_other_kinds(self, tmp_path):
        model = pb.Sequential([pb.layers.Dense(4, activation="relu"), pb.layers.Dense(2)])
        with pb.summary.create_file_writer(tmp_path) as writer, writer.as_default():
            pb.summary.histogram("weights", RNG.normal(size=100), step=1)
            pb.summary.image("digits", RNG.random((2, 8, 8, 1)).astype(np.float32), step=1)
            pb.summary.text("notes", "*a note*", step=1)
            pb.summary.graph(model, pb.zeros((1, 3)))
        found = read(tmp_path)
        (histogram,) = found.Histograms("weights")
        assert histogram.histogram_value.num == 100
        (image, *_) = found.Images(found.Tags()["images"][0])
        assert (image.width, image.height) == (8, 8)
        assert any(tag.startswith("notes") for tag in found.Tags()["tensors"])
        assert any("linear" in node.name for node in found.Graph().node)


class TestMatmulChain:
    def test_numpy_waits_for_all_of_it(self):
        x = pb.Generator(0).normal((50, 50)) / 50**0.5
        product = x
        for _ in range(20):
            product = product @ x
        expected = np.linalg.matrix_power(x.numpy().astype(np.float64), 21)
        np.testing.assert_allclose(product.numpy(), expected, rtol=1e-3, atol=1e-5)


class Bottleneck(pb.Model):
    """Three convolutions and a way around them (He et al., 2016)."""

    def __init__(self, filters, stride, shortcut):
        super().__init__()
        conv, norm = pb.layers.Conv2D, pb.layers.BatchNormalization
        self.steps = [
            (conv(filters, 1, use_bias=False), norm()),
            (conv(filters, 3, stride, "same", use_bias=False), norm()),
            (conv(4 * filters, 1, use_bias=False), norm()),
        ]
        self.shortcut = (conv(4 * filters, 1, stride, use_bias=False), norm()) if shortcut else None

    def call(self, x):
        y = x
        for number, (conv, norm) in enumerate(self.steps):
            y = norm(conv(y))
            if number < 2:
                y = pb.relu(y)
        if self.shortcut is not None:
            conv, norm = self.shortcut
            x = norm(conv(x))
        return pb.relu(x + y)


def resnet50(classes):
    blocks = [
        Bottleneck(filters, 2 if filters > 64 and number == 0 else 1, number == 0)
        for filters, count in ((64, 3), (128, 4), (256, 6), (512, 3))
        for number in range(count)
    ]
    return pb.Sequential(
        [
            pb.layers.Conv2D(64, 7, 2, "same", use_bias=False),
            pb.layers.BatchNormalization(),
            pb.layers.Activation("relu"),
            pb.layers.MaxPool2D(3, 2, padding="same"),
            *blocks,
            pb.layers.GlobalAveragePool2D(),
            pb.layers.Dense(classes),
        ]
    )


@pytest.mark.campaign
@pytest.mark.parametrize("here", ["default"], indirect=True)
def test_resnet50_trains(here):
    pb.random.seed(0)
    model, optimizer = resnet50(1000), pb.optimizers.SGD(0.01, momentum=0.9)
    labels = np.array([3, 500, 7, 999], np.int32)
    images = RNG.normal(size=(4, 64, 64, 3)).astype(np.float32)
    losses = [
        float(
            optimizer.minimize(
                lambda: pb.losses.sparse_softmax_cross_entropy(labels, model(images, training=True))
            )
        )
        for _ in range(6)
    ]
    trained = sum(variable.size for variable in model.trainable_variables)
    assert trained == 25_557_032
    assert losses[0] == pytest.approx(np.log(1000), abs=2)
    assert losses[-1] < 0.5 * losses[0]
