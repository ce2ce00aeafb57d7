"""Tells clothes apart on 28x28 photographs, by convolutions and an LSTM over what they have found.

    uv run examples/fashion_cnn_lstm.py              # train, and draw fashion.png
    uv run examples/fashion_cnn_lstm.py --resume     # go on after an interruption
    tensorboard --logdir fashion_logs                # watch it learn

The photographs are Fashion-MNIST's (Xiao, Rasul and Vollgraf, 2017): 60,000 to train on and 10,000
to test on, in ten classes. After each epoch a checkpoint is written.
"""

from __future__ import annotations

import argparse
import gzip
from pathlib import Path

import numpy as np
from tqdm import tqdm

import pullback as pb

DATA = Path("/usr/share/datasets/fashion-mnist")
CLASSES = (
    "T-shirt", "trousers", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "boot",
)  # fmt: skip


def read_idx(path: Path) -> np.ndarray:
    """An IDX file of bytes: two zeros, the dtype, the number of axes, their sizes, the elements."""
    packed = Path(f"{path}.gz")
    data = path.read_bytes() if path.exists() else gzip.decompress(packed.read_bytes())
    if data[:3] != b"\0\0\x08":
        raise ValueError(f"{path} is not an IDX file of bytes")
    shape = np.frombuffer(data, ">u4", data[3], 4)
    return np.frombuffer(data, np.uint8, offset=4 + 4 * data[3]).reshape(shape)


def load(folder: Path, part: str) -> tuple[np.ndarray, np.ndarray]:
    """Images (n, 28, 28), and the numbers of their classes."""
    images = read_idx(folder / f"{part}-images-idx3-ubyte").astype(np.float32) / 255
    # The photographs' mean and standard deviation: around 0 is where nets learn fastest.
    images = (images - 0.286) / 0.353
    return images, read_idx(folder / f"{part}-labels-idx1-ubyte").astype(np.int32)


def make_model() -> pb.Model:
    return pb.Sequential(
        [
            pb.layers.Reshape((28, 28, 1)),
            pb.layers.Conv2D(32, 5, padding="same", activation="relu"),
            pb.layers.MaxPool2D(2, 2),
            pb.layers.Conv2D(64, 5, padding="same", activation="relu"),
            pb.layers.MaxPool2D(2, 2),
            pb.layers.Reshape((49, 64)),
            # A sequence of 64 steps: where each of the filters has found something.
            lambda x: pb.permute_dims(x, (0, 2, 1)),
            pb.layers.LSTM(128),
            pb.layers.Dense(10),
        ]
    )


def train_epoch(model, optimizer, batches, bar) -> dict[str, float]:
    """One pass over the training data; gives the mean loss and the accuracy."""
    mean = pb.metrics.Mean("loss")
    accuracy = pb.metrics.SparseCategoricalAccuracy("accuracy")
    for images, labels in batches:
        with pb.GradientTape() as tape:
            logits = model(images, training=True)
            loss = pb.losses.sparse_softmax_cross_entropy(labels, logits)
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))

        mean(loss, len(labels))
        accuracy(labels, logits)
        with pb.summary.record_every(20):
            pb.summary.scalar("loss of a batch", loss, step=optimizer.step)
        bar.set_postfix(
            loss=f"{mean.result():.4f}", accuracy=f"{accuracy.result():.4f}", refresh=False
        )
        bar.update()
    return {"loss": mean.result(), "accuracy": accuracy.result()}


def predict(model, images: np.ndarray) -> np.ndarray:
    """The logits of all classes, 500 photographs at a time."""
    return np.concatenate([model(images[i : i + 500]).numpy() for i in range(0, len(images), 500)])


def test(model, images: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    logits = predict(model, images)
    return {
        "test loss": float(pb.losses.sparse_softmax_cross_entropy(labels, logits)),
        "test accuracy": float(np.mean(logits.argmax(axis=1) == labels)),
    }


def print_table(labels: np.ndarray, predicted: np.ndarray) -> None:
    """For each class: how much of it was recognized, and what it was taken for most often."""
    counts = np.zeros((10, 10), int)
    np.add.at(counts, (labels, predicted), 1)
    print(f"{'class':10}  {'right':>6}  most often taken for")
    for i, name in enumerate(CLASSES):
        right = counts[i, i] / max(counts[i].sum(), 1)
        others = counts[i].copy()
        others[i] = 0
        other = CLASSES[others.argmax()] if others.any() else ""
        print(f"{name:10}  {right:6.1%}  {other}".rstrip())


def draw(path: Path, history: dict, images: np.ndarray, labels: np.ndarray, predicted) -> None:
    """Draws the curves, and photographs that the model classifies wrongly."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure = plt.figure(figsize=(10, 8), layout="constrained")
    curves, photographs = figure.subfigures(2, 1, height_ratios=[2, 3])
    epochs = range(1, len(history["loss"]) + 1)
    for axes, name in zip(curves.subplots(1, 2), ("loss", "accuracy"), strict=True):
        axes.plot(epochs, history[name], label="training")
        axes.plot(epochs, history[f"test {name}"], label="test")
        axes.set(xlabel="epoch", ylabel=name)
        axes.locator_params(axis="x", integer=True)
        axes.legend()
    wrong = np.flatnonzero(predicted != labels)
    photographs.suptitle(f"taken for something else: {len(wrong)} of {len(labels)}")
    for axes, i in zip(photographs.subplots(4, 8).flat, [*wrong[:32], *[None] * 32], strict=False):
        axes.axis("off")
        if i is not None:
            axes.imshow(images[i], cmap="gray_r")
            axes.set_title(f"{CLASSES[labels[i]]}: {CLASSES[predicted[i]]}?", fontsize=7)
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=DATA, help="the folder of the IDX files")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--rate", type=float, default=0.003, help="the highest learning rate")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", help="such as cpu or gpu:0; the first GPU if there is one")
    parser.add_argument("--resume", action="store_true", help="go on from the last checkpoint")
    parser.add_argument("--folder", type=Path, default=Path("fashion_checkpoints"))
    parser.add_argument("--logs", type=Path, default=Path("fashion_logs"), help="for TensorBoard")
    parser.add_argument("--picture", type=Path, default=Path("fashion.png"))
    options = parser.parse_args()
    try:
        pb.set_default_device(options.device)
        train, tested = load(options.data, "train"), load(options.data, "t10k")
    except FileNotFoundError as error:
        parser.error(
            f"Fashion-MNIST is not in {options.data}: there is no {Path(error.filename).name}. On "
            f"Debian and Ubuntu `apt install dataset-fashion-mnist` puts it in {DATA}; elsewhere "
            f"get the four files from github.com/zalandoresearch/fashion-mnist and say where they "
            f"are with --data"
        )
    except (pb.errors.PullbackError, ValueError) as error:
        parser.error(str(error))
    pb.random.seed(options.seed)

    dataset = (
        pb.data.Dataset.from_tensor_slices(train)
        .shuffle(seed=options.seed)  # another order in each epoch
        .batch(options.batch_size)
    )
    model = make_model()
    steps = options.epochs * len(dataset)
    optimizer = pb.optimizers.Adam(
        pb.optimizers.schedules.cosine_decay(options.rate, steps, warmup_steps=steps // 50)
    )
    history = {"loss": [], "accuracy": [], "test loss": [], "test accuracy": []}

    # Everything that the next epoch depends on: the weights, the optimizer's moments and step, and
    # how often the data have been shuffled.
    checkpoint = pb.Checkpoint(
        model=model, optimizer=optimizer, dataset=dataset, history=history, seed=options.seed
    )
    checkpoints = pb.CheckpointManager(checkpoint, options.folder, keep=3)
    if not options.resume:
        checkpoints.clear()
    elif checkpoints.restore_latest():
        print(f"resumed after epoch {len(history['loss'])}")
        if checkpoint.seed != options.seed:
            parser.error(f"the run to resume had --seed {checkpoint.seed}")

    # What a run that was stopped has logged after its last checkpoint comes again.
    writer = pb.summary.create_file_writer(options.logs, purge_step=optimizer.step + 1)
    with writer, writer.as_default():
        for epoch in range(len(history["loss"]), options.epochs):
            with tqdm(total=len(dataset), desc=f"epoch {epoch + 1}/{options.epochs}") as bar:
                figures = train_epoch(model, optimizer, dataset, bar)
            figures |= test(model, *tested)
            for name, value in figures.items():
                history[name].append(value)
                pb.summary.scalar(name, value, step=optimizer.step)
            checkpoints.save(step=epoch + 1)

    images, labels = tested
    predicted = predict(model, images).argmax(axis=1)
    print_table(labels, predicted)
    draw(options.picture, history, images, labels, predicted)
    print(f"checkpoints: {options.folder}  logs: {options.logs}  picture: {options.picture}")
    print(f"test accuracy: {np.mean(predicted == labels):.4f}")


if __name__ == "__main__":
    main()
