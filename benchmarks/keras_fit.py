"""Times `fit` of Keras's models on pullback, beside Keras on PyTorch and JAX and plain pullback.

    python benchmarks/keras_fit.py --threads 2
    python benchmarks/keras_fit.py --only cnn --rounds 9 --python keras-jax=jax-env/bin/python

The environment has keras, keras-pullback and the kernel pack; another one can be given for each
peer. Every peer runs in a process of its own. In each round all of them train for an epoch of some
steps, one peer after the other; the tables have the least processor time of a step, of all threads
of a process and with all that `fit` does, and the median of the ratios within a round.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from peers import Peer, Process

#: Steps of an epoch, and the size of a batch.
MODELS = {"mlp": (50, 128), "cnn": (10, 128), "transformer": (30, 64)}
TORCH, JAX, PULLBACK = (f"KERAS_BACKEND={name}" for name in ("torch", "jax", "pullback"))
PEERS = [
    # Threads that spin while they wait would be counted.
    Peer("keras-torch", "keras", "eager", "keras,torch", (TORCH, "OMP_WAIT_POLICY=PASSIVE")),
    Peer("keras-pullback", "keras", "eager", "keras_pullback", (PULLBACK,)),
    Peer("pullback", "pullback", "eager", "pullback"),
    Peer("keras-jax compiled", "keras", "compiled", "keras,jax", (JAX, "JAX_PLATFORMS=cpu")),
    Peer("keras-pullback compiled", "keras", "compiled", "keras_pullback", (PULLBACK,)),
    Peer("pullback compiled", "pullback", "compiled", "pullback"),
]
#: Pairs of peers: the time of the first is held against that of the second.
RATIOS = [
    ("keras-torch", "keras-pullback"),
    ("keras-pullback", "pullback"),
    ("keras-jax compiled", "keras-pullback compiled"),
    ("keras-pullback compiled", "pullback compiled"),
]


def data(name: str) -> tuple[Any, Any]:
    """Inputs and classes of an epoch."""
    rng = np.random.default_rng(0)
    steps, batch = MODELS[name]
    if name == "transformer":
        letters = rng.integers(0, 8, (steps * batch, 16)).astype("int32")
        return letters, (letters == 1).any(1).astype("int32")
    shape = (28, 28, 1) if name == "cnn" else (784,)
    images = rng.random((steps * batch, *shape), "float32")
    return images, rng.integers(0, 10, steps * batch).astype("int32")


def keras_model(name: str, compiled: bool) -> Any:
    """A model as Keras's examples have it."""
    import keras
    from keras import layers

    keras.utils.set_random_seed(0)
    if name == "mlp":
        body = [
            *(keras.Input((784,)), layers.Dense(512, activation="relu"), layers.Dropout(0.2)),
            *(layers.Dense(512, activation="relu"), layers.Dropout(0.2), layers.Dense(10)),
        ]
        model = keras.Sequential(body)
    elif name == "cnn":
        body = [
            *(keras.Input((28, 28, 1)), layers.Conv2D(32, 3, activation="relu")),
            *(layers.MaxPooling2D(), layers.Conv2D(64, 3, activation="relu")),
            *(layers.MaxPooling2D(), layers.Flatten(), layers.Dropout(0.5), layers.Dense(10)),
        ]
        model = keras.Sequential(body)
    else:
        tokens = keras.Input((16,), dtype="int32")
        x = layers.Embedding(8, 32)(tokens)
        for _ in range(2):
            y = layers.LayerNormalization()(x)
            x = x + layers.MultiHeadAttention(4, 8)(y, y)
            y = layers.LayerNormalization()(x)
            x = x + layers.Dense(32)(layers.Dense(64, activation="gelu")(y))
        model = keras.Model(tokens, layers.Dense(2)(layers.GlobalAveragePooling1D()(x)))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, metrics=["accuracy"], jit_compile=compiled)
    return model


def plain_model(name: str, compiled: bool) -> Any:
    """The same model in pullback's own names."""
    import pullback as pb
    from pullback import layers

    pb.random.seed(0)
    model: Any
    if name == "mlp":
        model = pb.Sequential(
            [
                *(layers.Dense(512, activation="relu"), layers.Dropout(0.2)),
                *(layers.Dense(512, activation="relu"), layers.Dropout(0.2), layers.Dense(10)),
            ]
        )
    elif name == "cnn":
        model = pb.Sequential(
            [
                *(layers.Conv2D(32, 3, activation="relu"), layers.MaxPool2D()),
                *(layers.Conv2D(64, 3, activation="relu"), layers.MaxPool2D()),
                *(layers.Flatten(), layers.Dropout(0.5), layers.Dense(10)),
            ]
        )
    else:
        tokens = pb.Input((16,), dtype="int32")
        x = layers.Embedding(8, 32)(tokens)
        for _ in range(2):
            x = x + layers.MultiHeadAttention(4, 8)(layers.LayerNormalization(epsilon=1e-3)(x))
            y = layers.LayerNormalization(epsilon=1e-3)(x)
            x = x + layers.Dense(32)(layers.Dense(64, activation="gelu")(y))
        model = pb.Model(tokens, layers.Dense(2)(layers.GlobalAveragePool1D()(x)))
    adam = pb.optimizers.Adam(epsilon=1e-7)
    model.compile(adam, "sparse_softmax_cross_entropy", ["accuracy"], capture=compiled)
    return model


def serve(framework: str, mode: str) -> None:
    """Answers on standard output the processor time of a step of each epoch asked for."""
    answers, sys.stdout = sys.stdout, sys.stderr

    def answer(value: Any) -> None:
        print(json.dumps(value), file=answers, flush=True)

    if os.environ.get("KERAS_BACKEND") == "torch":
        import torch

        torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    loaded: dict[str, Callable[[], Any]] = {}
    answer(list(MODELS))
    for line in sys.stdin:
        (name,) = json.loads(line)
        if name not in loaded:
            make = keras_model if framework == "keras" else plain_model
            loaded[name] = epoch(make(name, mode == "compiled"), name)
            loaded[name]()
        start = time.process_time()
        loaded[name]()
        answer((time.process_time() - start) / MODELS[name][0] * 1e3)


def epoch(model: Any, name: str) -> Callable[[], Any]:
    """A function that trains for an epoch."""
    inputs, targets = data(name)
    batch = MODELS[name][1]
    return lambda: model.fit(inputs, targets, batch_size=batch, epochs=1, verbose=0)


def main() -> None:
    """Has the peers take turns, and prints the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--python", action="append", default=[], help="PEER=the Python it runs on")
    options = parser.parse_args()
    pythons = dict(one.split("=", 1) for one in options.python)
    if hasattr(os, "sched_setaffinity"):  # JAX has threads for every core it may use
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.threads])
    workers = {
        peer.name: Process(
            peer, pythons.get(peer.name, sys.executable), options.threads, "keras_fit.py"
        )
        for peer in PEERS
    }
    for model in options.only:
        print(f"{model}: {MODELS[model][0]} steps an epoch, batch {MODELS[model][1]}")
        times: dict[str, list[float]] = {name: [] for name in workers}
        for _ in range(options.rounds):
            for name, worker in workers.items():
                value = worker.ask(model)
                times[name].append(float("nan") if value is None else value)
        for name, found in times.items():
            last = workers[name].last_words() if np.isnan(found).any() else ""
            print(f"  {name:<26} {min(found):8.2f} ms {last}")
        for first, second in RATIOS:
            ratio = statistics.median(np.divide(times[first], times[second]))
            print(f"  {first} / {second}: {ratio:.2f}", flush=True)
    for worker in workers.values():
        worker.close()


if __name__ == "__main__":
    serve(*sys.argv[1:]) if sys.argv[1:2] in (["keras"], ["pullback"]) else main()
