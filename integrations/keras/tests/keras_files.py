"""Writes `.keras` files on Keras's backends and reads them on others: predictions and state.

python integrations/keras/tests/keras_files.py
python integrations/keras/tests/keras_files.py --peers torch jax --models cnn recurrent
python integrations/keras/tests/keras_files.py --python torch=other-env/bin/python

Each backend trains and saves each model in a process of its own. Pullback reads what the peers
wrote, and the peers read what pullback wrote. It is an error where a prediction differs by more
than 1e-5, or where a variable of the model or of its optimizer has other bits than before.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

PEERS = ("tensorflow", "jax", "torch")
MODELS = ("cnn", "transformer", "recurrent", "depthwise", "custom")
LARGEST = 1e-5
ROWS, CLASSES = 24, 4


def inputs(name):
    """Inputs and classes, the same on each backend."""
    rng = np.random.default_rng(MODELS.index(name))
    if name == "transformer":
        x = rng.integers(0, 9, (ROWS, 16)).astype("int32")
    else:
        shape = (12, 5) if name in ("recurrent", "custom") else (16, 16, 3)
        x = rng.standard_normal((ROWS, *shape)).astype("float32")
    return x, rng.integers(0, CLASSES, ROWS).astype("int32")


def custom_layers():
    """Layers of the user's, registered, so that a file has their names alone."""
    import keras
    from keras import ops

    @keras.saving.register_keras_serializable("keras_files")
    class Positions(keras.layers.Layer):
        def __init__(self, **options):
            super().__init__(**options)
            self.table = keras.layers.Embedding(16, 12)

        def build(self, shape):
            self.table.build(shape[:-1])

        def call(self, x):
            return x + self.table(ops.arange(16))

    @keras.saving.register_keras_serializable("keras_files")
    class Gated(keras.layers.Layer):
        def __init__(self, units, **options):
            super().__init__(**options)
            self.units = units
            self.gate = keras.layers.Dense(units, activation="sigmoid")

        def build(self, shape):
            self.gate.build(shape)
            self.kernel = self.add_weight(shape=(shape[-1], self.units), initializer="he_normal")
            self.scale = self.add_weight(shape=(self.units,), initializer="ones")

        def call(self, x):
            mixed = ops.einsum("...i,ij->...j", x, self.kernel)
            return self.scale * ops.tanh(mixed) * self.gate(x)

        def get_config(self):
            return super().get_config() | {"units": self.units}

    return Positions, Gated


def model_of(name, positions, gated):
    """The model, with first weights by a seed."""
    import keras
    from keras import layers

    keras.utils.set_random_seed(MODELS.index(name))
    start = x = keras.Input(inputs(name)[0].shape[1:], dtype=inputs(name)[0].dtype.name)
    if name == "cnn":
        for filters in (8, 16):
            x = layers.Conv2D(filters, 3, use_bias=False)(x)
            x = layers.Activation("relu")(layers.BatchNormalization(momentum=0.5)(x))
        x = layers.Flatten()(layers.MaxPooling2D()(x))
    elif name == "transformer":
        x = positions()(layers.Embedding(9, 12)(x))
        for _ in range(2):
            y = layers.MultiHeadAttention(3, 4, dropout=0.1)(x, x)
            x = layers.LayerNormalization()(x + y)
            y = layers.Dense(12)(layers.Dense(24, activation="gelu")(x))
            x = layers.LayerNormalization()(x + layers.Dropout(0.1)(y))
        x = layers.GlobalAveragePooling1D()(x)
    elif name == "recurrent":
        x = layers.Bidirectional(layers.LSTM(6, return_sequences=True))(x)
        x = layers.GRU(7, return_sequences=True)(x)
        x = layers.Concatenate()([layers.GRU(5, reset_after=False)(x), layers.SimpleRNN(3)(x)])
    elif name == "depthwise":
        for filters, strides in ((8, 1), (12, 2), (12, 1)):
            y = layers.Conv2D(4 * filters, 1, use_bias=False)(x)
            y = layers.Activation("swish")(layers.BatchNormalization(momentum=0.5)(y))
            y = layers.DepthwiseConv2D(3, strides, padding="same", use_bias=False)(y)
            y = layers.Activation("swish")(layers.BatchNormalization(momentum=0.5)(y))
            z = layers.GlobalAveragePooling2D(keepdims=True)(y)
            z = layers.Conv2D(4 * filters, 1, activation="sigmoid")(
                layers.Conv2D(4, 1, activation="swish")(z)
            )
            y = layers.BatchNormalization(momentum=0.5)(
                layers.Conv2D(filters, 1)(layers.Multiply()([y, z]))
            )
            x = layers.Add()([x, y]) if x.shape == y.shape else y
        x = layers.GlobalAveragePooling2D()(x)
    else:
        shared = gated(6)
        x = shared(layers.Conv1D(5, 3, padding="causal")(x)) + shared(x)
        x = gated(8)(layers.GroupNormalization(3)(x))
        x = layers.GlobalMaxPooling1D()(x)
    return keras.Model(start, layers.Dense(CLASSES, activation="softmax")(x), name=name)


def state(model):
    """Each variable of a model and of its optimizer, as an array."""
    import keras

    # Keras writes no states of random numbers, on any backend.
    found = [v for v in model.variables if "seed_generator" not in v.path]
    return [np.asarray(keras.ops.convert_to_numpy(v)) for v in [*found, *model.optimizer.variables]]


def write(backend, folder, names):
    """Trains and saves each model, with what it predicts."""
    own = custom_layers()
    for name in names:
        x, y = inputs(name)
        model = model_of(name, *own)
        model.compile("adam", "sparse_categorical_crossentropy")
        model.fit(x, y, batch_size=8, epochs=2, verbose=0)
        model.save(folder / f"{backend}-{name}.keras")
        arrays = {str(i): array for i, array in enumerate(state(model))}
        np.savez(folder / f"{backend}-{name}.npz", y=model.predict(x, verbose=0), **arrays)


def read(backend, folder, names, writers):
    """Loads each file, and prints how far its predictions are from those of its writer."""
    import keras

    custom_layers()
    status = 0
    for writer in writers:
        for name in names:
            model = keras.models.load_model(folder / f"{writer}-{name}.keras")
            with np.load(folder / f"{writer}-{name}.npz") as saved:
                before = [saved[str(i)] for i in range(len(saved.files) - 1)]
                expected = saved["y"]
            far = np.abs(model.predict(inputs(name)[0], verbose=0) - expected).max()
            now = state(model)
            same = len(now) == len(before) and all(map(np.array_equal, now, before))
            # What is the same for each row could not be told from another model's.
            told = expected.std(0).max() > 1e-3
            good = far <= LARGEST and same and told
            status |= not good
            bits = "the same bits" if same else "OTHER BITS"
            print(
                f"{name:12} {writer:>10} to {backend:10} {far:.1e}  {len(now)} variables, {bits}"
                + ("" if told else "  PREDICTIONS ARE ALL THE SAME")
                + ("" if good else "  FAILS"),
                flush=True,
            )
    return int(status)


def main():
    """Starts a process for each backend, twice: to write, and to read."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peers", nargs="+", default=PEERS, choices=(*PEERS, "pullback"))
    parser.add_argument("--models", nargs="+", default=MODELS, choices=MODELS)
    parser.add_argument("--python", action="append", default=[], help="PEER=ITS-PYTHON")
    parser.add_argument("--folder", type=Path, help="where files go, which then stay")
    parser.add_argument("--one", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        backend, task, *writers = options.one
        if task == "write":
            return write(backend, options.folder, options.models)
        return read(backend, options.folder, options.models, writers)
    pythons = dict(one.split("=", 1) for one in options.python)
    with tempfile.TemporaryDirectory() as made:
        folder = options.folder or Path(made)
        folder.mkdir(parents=True, exist_ok=True)

        def start(backend, *task):
            environment = os.environ | {"KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3"}
            python = pythons.get(backend, sys.executable)
            command = [python, __file__, "--folder", folder, "--models", *options.models]
            return subprocess.run([*command, "--one", backend, *task], env=environment, check=False)

        peers = list(dict.fromkeys(options.peers))
        for backend in dict.fromkeys(["pullback", *peers]):
            start(backend, "write").check_returncode()
        tasks = [("pullback", *peers), *((peer, "pullback") for peer in peers)]
        return max(start(reader, "read", *of).returncode for reader, *of in tasks)


if __name__ == "__main__":
    sys.exit(main())
