"""Trains a small convolutional classifier on handwritten digits.

    uv run examples/digits.py              # train, and draw digits.png
    uv run examples/digits.py --resume     # go on after an interruption

The 1,797 digits ship with scikit-learn: real handwriting, 8x8 grey values each. A checkpoint is
written after each epoch. Stop the program at any moment, start it with --resume, and it ends in
exactly the weights of a run that was never stopped.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from tqdm import tqdm

import pullback as pb

TEST_IMAGES = 360
BATCH_SIZE = 32


def load_data(seed: int) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """(images, labels) to train on, and others to test on, which training never sees."""
    digits = load_digits()
    images = (digits.images / 16).astype(np.float32)[..., np.newaxis]  # (1797, 8, 8, 1)
    labels = digits.target.astype(np.int32)
    order = np.random.default_rng(seed).permutation(len(images))
    test, train = order[:TEST_IMAGES], order[TEST_IMAGES:]
    return (images[train], labels[train]), (images[test], labels[test])


def make_model(seed: int) -> pb.Model:
    """Two convolutions, then two dense layers. Sizes come from the first images."""
    # Each dropout draws from a generator of its own, so that its state is part of the model's.
    return pb.Sequential(
        [
            pb.layers.Conv2D(32, 3, padding="same", activation="relu"),
            pb.layers.Conv2D(64, 3, padding="same", activation="relu"),
            pb.layers.MaxPool2D(2),
            pb.layers.Dropout(0.25, seed=seed),
            pb.layers.Flatten(),
            pb.layers.Dense(128, activation="relu"),
            pb.layers.Dropout(0.5, seed=seed + 1),
            pb.layers.Dense(10),
        ]
    )


def train_epoch(model, optimizer, batches, bar) -> tuple[float, float]:
    """One pass over the training data; gives the mean loss and the accuracy."""
    loss_metric = pb.metrics.Mean("loss")
    accuracy = pb.metrics.SparseCategoricalAccuracy("accuracy")
    for images, labels in batches:
        with pb.GradientTape() as tape:
            logits = model(images, training=True)
            loss = pb.losses.sparse_softmax_cross_entropy(labels, logits)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))

        loss_metric(loss, len(labels))
        accuracy(labels, logits)
        figures = {"loss": loss_metric.result(), "accuracy": accuracy.result()}
        bar.set_postfix({name: f"{value:.4f}" for name, value in figures.items()}, refresh=False)
        bar.update()
    return loss_metric.result(), accuracy.result()


def test(model, images: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
    """The mean loss and the accuracy on images that training has not seen."""
    logits = model(images)
    accuracy = pb.metrics.SparseCategoricalAccuracy()
    accuracy(labels, logits)
    return float(pb.losses.sparse_softmax_cross_entropy(labels, logits)), accuracy.result()


def draw(path: Path, history: dict, images: np.ndarray, labels: np.ndarray, predicted) -> None:
    """Draws the curves, and some test digits with what the model takes them for."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure = plt.figure(figsize=(10, 7), layout="constrained")
    curves, digits = figure.subfigures(2, 1, height_ratios=[1, 1])
    epochs = range(1, len(history["loss"]) + 1)
    for axes, name in zip(curves.subplots(1, 2), ("loss", "accuracy"), strict=True):
        axes.plot(epochs, history[name], label="training")
        axes.plot(epochs, history[f"test {name}"], label="test")
        axes.set(xlabel="epoch", ylabel=name)
        axes.locator_params(axis="x", integer=True)
        axes.legend()
    # The mistakes first: they are worth a look.
    shown = np.argsort(predicted == labels, kind="stable")[:40]
    for axes, i in zip(digits.subplots(4, 10).flat, shown, strict=True):
        axes.imshow(images[i, :, :, 0], cmap="gray_r")
        right = predicted[i] == labels[i]
        title = f"{predicted[i]}" if right else f"{predicted[i]}, not {labels[i]}"
        axes.set_title(title, fontsize=9, color="black" if right else "red")
        axes.axis("off")
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", help="such as cpu or gpu:0; the first GPU if there is one")
    parser.add_argument("--resume", action="store_true", help="go on from the last checkpoint")
    parser.add_argument("--folder", type=Path, default=Path("digits_checkpoints"))
    parser.add_argument("--picture", type=Path, default=Path("digits.png"))
    options = parser.parse_args()
    try:
        pb.set_default_device(options.device)
    except pb.errors.PullbackError as error:
        parser.error(str(error))
    pb.random.seed(options.seed)

    (train_images, train_labels), (test_images, test_labels) = load_data(options.seed)
    dataset = (
        pb.data.Dataset.from_tensor_slices((train_images, train_labels))
        .shuffle(seed=options.seed)  # another order in each epoch
        .batch(BATCH_SIZE)
    )
    model = make_model(options.seed)
    optimizer = pb.optimizers.Adam(0.001)
    history = {"loss": [], "accuracy": [], "test loss": [], "test accuracy": []}

    # Everything that the next epoch depends on: the weights and the generators of the model, the
    # optimizer's moments, and how often the data have been shuffled.
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

    for epoch in range(len(history["loss"]), options.epochs):
        with tqdm(total=len(dataset), desc=f"epoch {epoch + 1}/{options.epochs}") as bar:
            loss, accuracy = train_epoch(model, optimizer, dataset, bar)
        test_loss, test_accuracy = test(model, test_images, test_labels)
        for name, value in zip(history, (loss, accuracy, test_loss, test_accuracy), strict=True):
            history[name].append(value)
        checkpoints.save(step=epoch + 1)

    predicted = pb.argmax(model(test_images), axis=-1).numpy()
    draw(options.picture, history, test_images, test_labels, predicted)
    print(f"checkpoints: {options.folder}  picture: {options.picture}")
    print(f"test accuracy: {np.mean(predicted == test_labels):.4f}")


if __name__ == "__main__":
    main()
