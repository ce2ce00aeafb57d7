"""Trains a classifier of handwritten digits on several processes, which divide each batch.

    pip install "pullback[cpu,mpi]" scikit-learn
    pullback launch -n 2 examples/many_processes.py

    uv run examples/many_processes.py --threads 2   # ranks as threads, without MPI

The batches are those of one process, and so is what the model learns, but for the last bits. Each
rank reads all digits and takes its items of each batch. After a failure
`pullback launch -n 2 --restarts 3 examples/many_processes.py --folder run` resumes from the newest
checkpoint.
"""

from __future__ import annotations

import argparse

import numpy as np
from sklearn.datasets import load_digits

import pullback as pb


def load_data() -> tuple[np.ndarray, np.ndarray]:
    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.target))
    images = (digits.images / 16).astype(np.float32)[..., np.newaxis]
    return images[order], digits.target.astype(np.int32)[order]


def make_model(seed: int) -> pb.Model:
    return pb.Sequential(
        [
            pb.layers.Conv2D(16, 3, padding="same", use_bias=False),
            pb.layers.BatchNormalization(),  # over the batches of all ranks
            pb.layers.Activation("relu"),
            pb.layers.MaxPool2D(2),
            pb.layers.Flatten(),
            pb.layers.Dropout(0.25, seed=seed),
            pb.layers.Dense(10),
        ]
    )


def train(epochs: int, folder: str | None, seed: int) -> float:
    """Trains on this rank and all others; returns the accuracy on 360 digits of its own."""
    images, labels = load_data()
    model = make_model(seed)
    model.compile(
        pb.optimizers.Adam(0.003),
        "sparse_softmax_cross_entropy",
        ["accuracy"],
        capture=True,
        distributed=True,
    )
    callbacks = [pb.callbacks.Checkpoint(folder, resume=True)] if folder else []
    first = pb.distributed.rank() == 0
    model.fit(
        images[360:], labels[360:], batch_size=64, epochs=epochs, callbacks=callbacks, verbose=first
    )
    return model.evaluate(images[:360], labels[:360], verbose=False)["accuracy"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--folder", help="where checkpoints are written")
    parser.add_argument("--threads", type=int, help="ranks that are threads of this process")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", help="such as cpu or gpu:0; the first GPU if there is one")
    arguments = parser.parse_args()
    try:
        pb.set_default_device(arguments.device)
    except pb.errors.PullbackError as error:
        parser.error(str(error))
    pb.random.seed(arguments.seed)

    def run() -> float:
        return train(arguments.epochs, arguments.folder, arguments.seed)

    if arguments.threads:
        accuracy = pb.distributed.run_threads(run, arguments.threads)[0]
    else:
        pb.distributed.init()
        accuracy = run()
    if pb.distributed.rank() == 0:
        print(f"accuracy on 360 other digits: {accuracy:.3f}")


if __name__ == "__main__":
    main()
