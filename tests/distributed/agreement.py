"""A program that many ranks run: training that must be that of one process. Prints its losses.

    pullback launch -n 2 tests/distributed/agreement.py MODEL exact

Each of 52 steps, every fourth with 6 items of 16, prints the mean loss of its epoch so far; the
last line is a digest of all weights. `pieces` in place of a model's name compares bits: steps on
ranks that add exactly, and those that one process makes of the gradients of as many pieces.
`checkpoint FOLDER` goes on from the newest checkpoint there, prints digests of what it has read and
of the next one, and saves that: each rank writes a part.
"""

from __future__ import annotations

import hashlib
import sys

import numpy as np

import pullback as pb

MODELS = ("mlp", "cnn", "transformer")


class Transformer(pb.Model):
    """A block of attention with dropout over sequences of 8 tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = pb.layers.Embedding(11, 16)
        self.attention = pb.layers.MultiHeadAttention(2, 8, dropout=0.1, seed=5)
        self.norms = [pb.layers.LayerNormalization() for _ in range(2)]
        self.hidden = pb.layers.Dense(32, activation="gelu")
        self.back = pb.layers.Dense(16)
        self.dropout = pb.layers.Dropout(0.2, seed=6)
        self.last = pb.layers.Dense(3)

    def call(self, tokens, training=False):
        x = self.embedding(tokens)
        x = self.norms[0](x + self.attention(x, x, training=training))
        x = self.norms[1](x + self.dropout(self.back(self.hidden(x)), training=training))
        return self.last(pb.mean(x, axis=1))


def make(name):
    """The model, and its inputs of 54 items."""
    rng = np.random.default_rng(0)
    if name == "transformer":
        return Transformer(), rng.integers(0, 11, (54, 8))
    x = rng.normal(size=(54, 8, 8, 2)).astype("float32")
    if name == "mlp":
        layers = [pb.layers.Flatten(), pb.layers.Dense(16, activation="tanh")]
    else:
        layers = [
            pb.layers.Conv2D(4, 3, use_bias=False),
            pb.layers.BatchNormalization(),
            pb.layers.Activation("relu"),
            pb.layers.Flatten(),
            pb.layers.Dropout(0.3, seed=7),
        ]
    return pb.Sequential([*layers, pb.layers.Dense(3)]), x


def assign(model, seed):
    """Gives a model weights that do not depend on what other threads draw."""
    draws = np.random.default_rng(seed)
    for variable in model.trainable_variables:
        variable.assign((draws.normal(size=variable.shape) * 0.3).astype("float32"))


def digest(model):
    found = hashlib.sha256()
    for variable in model.variables:
        found.update(np.ascontiguousarray(variable.numpy()).tobytes())
    return found.hexdigest()


def train(name, exact, *, shuffle=True):
    """The losses of 52 steps, and the digest of the weights."""
    generator = np.random.default_rng(3)
    pb.random.seed(1)
    model, x = make(name)
    model(x[:1])
    assign(model, 8)
    y = generator.integers(0, 3, 54)
    optimizer = pb.distributed.DataParallel(pb.optimizers.SGD(0.05), exact=exact)
    model.compile(optimizer, "sparse_softmax_cross_entropy", capture=True, distributed=True)
    losses = []

    class Heard(pb.callbacks.Callback):
        def on_train_batch_end(self, batch, logs):
            losses.append(float(logs["loss"]))

    model.fit(x, y, batch_size=16, epochs=13, shuffle=shuffle, callbacks=[Heard()], verbose=False)
    return losses, digest(model)


def pieces(ranks=None):
    """The digests of the weights after steps on ranks, and after those of one process."""
    size = pb.distributed.size() if ranks is None else ranks
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(24, 6)).astype("float32"), rng.integers(0, 3, 24)

    def start():
        model = pb.Sequential([pb.layers.Dense(8, activation="tanh"), pb.layers.Dense(3)])
        model(x[:1])
        assign(model, 4)
        return model, pb.optimizers.Adam(0.01)

    def loss(model, x, y):
        return pb.losses.sparse_softmax_cross_entropy(y, model(x))

    model, optimizer = start()
    if ranks is None:
        optimizer = pb.distributed.DataParallel(optimizer, exact=True)
        for _ in range(3):
            own = pb.distributed.share((pb.asarray(x), pb.asarray(y)))
            optimizer.minimize(lambda own=own: loss(model, *own))
        return digest(model)
    count = len(x) // size
    for _ in range(3):
        parts = []
        for start_ in range(0, len(x), count):
            own = x[start_ : start_ + count], y[start_ : start_ + count]
            with pb.GradientTape() as tape:
                value = loss(model, *map(pb.asarray, own)) * count
            parts.append(tape.gradient(value, model.trainable_variables))
        while len(parts) > 1:
            parts = [
                [a + b for a, b in zip(*pair, strict=True)]
                for pair in zip(parts[::2], parts[1::2], strict=True)
            ]
        means = [gradient / len(x) for gradient in parts[0]]
        optimizer.apply_gradients(zip(means, model.trainable_variables, strict=True))
    return digest(model)


def checkpoint(folder):
    """The digest of what the newest checkpoint has, and of what the next one has."""
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(24, 300)).astype("float32"), rng.integers(0, 3, 24)
    model = pb.Sequential([pb.layers.Dense(200), pb.layers.Dense(100), pb.layers.Dense(3)])
    model(x[:1])
    assign(model, 4)
    adam = pb.optimizers.Adam(0.01)
    optimizer = pb.distributed.DataParallel(adam, exact=True, shard_slots=True)
    saved = pb.Checkpoint(model=model, optimizer=optimizer)
    manager = pb.CheckpointManager(saved, folder, keep=None, sharded=True)
    manager.restore_latest()

    def found():
        with optimizer.whole_slots():
            arrays = saved.contents().arrays
        sum_of = hashlib.sha256()
        for name in sorted(arrays):
            sum_of.update(name.encode() + np.asarray(arrays[name]).tobytes())
        return sum_of.hexdigest()

    begun = found()
    for _ in range(3):
        own = pb.distributed.share((pb.asarray(x), pb.asarray(y)))
        optimizer.minimize(
            lambda own=own: pb.losses.sparse_softmax_cross_entropy(own[1], model(own[0]))
        )
    ended = found()
    assert manager.save() == manager.latest
    return begun, ended


if __name__ == "__main__":
    pb.distributed.init()
    if sys.argv[1] == "pieces":
        print("same" if pieces() == pieces(pb.distributed.size()) else "other", flush=True)
    elif sys.argv[1] == "checkpoint":
        found = checkpoint(sys.argv[2])
        # In one piece: launchers mix what ranks write.
        sys.stdout.write(" ".join(["digests", *found]) + "\n")
        sys.stdout.flush()
    else:
        losses, weights = train(sys.argv[1], sys.argv[2] == "exact")
        if pb.distributed.rank() == 0:
            print("losses", *map(repr, losses))
            print("weights", weights, flush=True)
