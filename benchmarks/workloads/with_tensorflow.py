"""The workloads in TensorFlow, eager or with `tf.function`: its ops, LSTM and optimizers."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from . import shared
from .shared import Array, Block, Builder, Weights, repeat


def builders(compiled: bool) -> dict[str, Builder]:
    faster = tf.function if compiled else lambda function: function
    x, y = map(tf.constant, shared.pair())
    return {
        "op_add": lambda: plain(faster, tf.add, x, y),
        "op_matmul": lambda: plain(faster, tf.matmul, x, y),
        "op_chain": lambda: plain(faster, chain, x),
        "op_chain_grad": lambda: plain(faster, gradient_of(chain), x),
        "linreg": lambda: linreg(faster),
        "mlp": lambda: train(faster, MLP(shared.MLP), shared.features(32), adam()),
        "mlp_wide": lambda: train(faster, MLP(shared.MLP_WIDE), shared.features(256), adam()),
        "char_rnn": lambda: train(
            faster, CharRNN(), shared.symbols(64, shared.STEPS, shared.SYMBOLS), adam()
        ),
        "cnn_lstm": lambda: train(faster, CNNLSTM(), shared.images(64, 28, 1), adam()),
        "transformer": lambda: train(faster, Transformer(), tokens(8), adamw()),
        "cnn": lambda: train(faster, CNN(), shared.images(32, 32, 3), momentum()),
        "infer_cnn_lstm_b1": lambda: infer(faster, CNNLSTM(), shared.images(1, 28, 1)),
        "infer_cnn_lstm_b64": lambda: infer(faster, CNNLSTM(), shared.images(64, 28, 1)),
        "infer_cnn_b1": lambda: infer(faster, CNN(), shared.images(1, 32, 3)),
        "infer_cnn_b32": lambda: infer(faster, CNN(), shared.images(32, 32, 3)),
        "infer_minilm_b1": lambda: infer(faster, MiniLM(), tokens(1)),
        "infer_resnet50_b1": lambda: infer(faster, ResNet50(), shared.images(1, 224, 3)),
        "infer_resnet50_b8": lambda: infer(faster, ResNet50(), shared.images(8, 224, 3)),
        "resnet50": lambda: train(faster, ResNet50(), shared.images(4, 224, 3), momentum()),
        "infer_transformer_b1": lambda: infer(faster, Transformer(), tokens(1)),
        "infer_transformer_b8": lambda: infer(faster, Transformer(), tokens(8)),
        "fusion_fwd": lambda: plain(faster, fused, tf.constant(shared.vector())),
        "fusion_grad": lambda: plain(faster, gradient_of(fused), tf.constant(shared.vector())),
    }


def tokens(batch: int) -> tuple[Array, Array]:
    return shared.symbols(batch, shared.TOKENS, shared.VOCABULARY)


# ---------------------------------------------------------------------------------------------
# Ops.


def plain(faster: Any, function: Any, *arrays: Any) -> Block:
    run = faster(function)
    return repeat(lambda: run(*arrays))


def gradient_of(function: Any) -> Any:
    def gradient(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            total = tf.reduce_sum(function(x))
        return tape.gradient(total, x)

    return gradient


def chain(x: Any) -> Any:
    return tf.reduce_sum((x * 2 + 1) * x)


def fused(x: Any) -> Any:
    return tf.tanh(x * 1.5 + 0.5) * tf.sigmoid(x) + tf.exp(-x * x)


def linreg(faster: Any) -> Block:
    x, y = map(tf.constant, shared.line())
    w, b = tf.Variable(5.0), tf.Variable(10.0)

    @faster
    def update() -> Any:
        with tf.GradientTape() as tape:
            error = w * x + b - y
            loss = tf.reduce_mean(error * error)
        dw, db = tape.gradient(loss, [w, b])
        w.assign_sub(0.1 * dw)
        b.assign_sub(0.1 * db)
        return loss

    return repeat(lambda: float(update()))


# ---------------------------------------------------------------------------------------------
# Training and inference.


def adam() -> Any:
    return tf.keras.optimizers.Adam(shared.ADAM["rate"], epsilon=shared.ADAM["epsilon"])


def adamw() -> Any:
    how = shared.ADAMW
    return tf.keras.optimizers.AdamW(how["rate"], how["decay"], epsilon=how["epsilon"])


def momentum() -> Any:
    return tf.keras.optimizers.SGD(shared.MOMENTUM["rate"], shared.MOMENTUM["momentum"])


def train(faster: Any, model: Any, data: tuple[Array, Array], optimizer: Any) -> Block:
    x, labels = map(tf.constant, data)
    model(x[:1], False)  # makes the variables of Keras layers
    variables = model.trainable_variables
    optimizer.build(variables)

    @faster
    def update() -> Any:
        with tf.GradientTape() as tape:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, model(x, True))
            loss = tf.reduce_mean(losses)
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    return repeat(lambda: float(update()))


def infer(faster: Any, model: Any, data: tuple[Array, Array]) -> Block:
    x = tf.constant(data[0])
    model(x, False)  # makes the variables of Keras layers
    run = faster(lambda: model(x, False))
    return repeat(lambda: run().numpy())


# ---------------------------------------------------------------------------------------------
# Models.


class Weighted(tf.Module):
    """A model whose variables are the weights, by name; those of an LSTM are its layer's."""

    def __init__(self, weights: Weights) -> None:
        super().__init__()
        self.w = {
            name: tf.Variable(value, trainable=not name.endswith((".mean", ".variance")))
            for name, value in weights.items()
            if not name.startswith("lstm.")
        }
        self.cell: Any = None
        self.cell_weights = [value for name, value in weights.items() if name.startswith("lstm.")]

    @property
    def trainable_variables(self) -> list[Any]:
        cell = [] if self.cell is None else [v.value for v in self.cell.trainable_variables]
        return [v for v in self.w.values() if v.trainable] + cell

    def lstm(self, x: Any, sequences: bool) -> Any:
        if self.cell is None:
            self.cell = tf.keras.layers.LSTM(shared.UNITS, return_sequences=sequences)
            self.cell.build(x.shape)
            self.cell.set_weights(self.cell_weights)
        return self.cell(x)

    def dense(self, name: str, x: Any) -> Any:
        return x @ self.w[f"{name}.kernel"] + self.w[f"{name}.bias"]

    def conv(self, name: str, x: Any, stride: int = 1) -> Any:
        kernel = self.w[f"{name}.kernel"]
        half = kernel.shape[0] // 2
        return tf.nn.conv2d(x, kernel, stride, [[0, 0], [half, half], [half, half], [0, 0]])

    def layer_norm(self, name: str, x: Any) -> Any:
        mean, variance = tf.nn.moments(x, -1, keepdims=True)
        scale, offset = self.w[f"{name}.scale"], self.w[f"{name}.offset"]
        return tf.nn.batch_normalization(
            x, mean, variance, offset, scale, shared.LAYER_NORM_EPSILON
        )

    def normalized(self, name: str, x: Any, training: bool, stride: int = 1) -> Any:
        parts = ("scale", "offset", "mean", "variance")
        scale, offset, mean, variance = (self.w[f"{name}.{part}"] for part in parts)
        x = self.conv(name, x, stride)
        y, new_mean, new_variance = tf.compat.v1.nn.fused_batch_norm(
            x, scale, offset, mean, variance, shared.BATCH_NORM_EPSILON,
            is_training=training, exponential_avg_factor=1 - shared.BATCH_NORM_MOMENTUM,
        )  # fmt: skip
        if training:
            mean.assign(new_mean)
            variance.assign(new_variance)
        return y


class MLP(Weighted):
    def __init__(self, sizes: tuple[int, ...]) -> None:
        super().__init__(shared.mlp_weights(sizes))
        self.last = len(sizes) - 2

    def __call__(self, x: Any, training: bool) -> Any:
        for i in range(self.last):
            x = tf.nn.relu(self.dense(f"dense{i}", x))
        return self.dense(f"dense{self.last}", x)


class CharRNN(Weighted):
    def __init__(self) -> None:
        super().__init__(shared.char_rnn_weights())

    def __call__(self, ids: Any, training: bool) -> Any:
        return self.dense("dense", self.lstm(tf.gather(self.w["embedding"], ids), True))


class CNNLSTM(Weighted):
    def __init__(self) -> None:
        super().__init__(shared.cnn_lstm_weights())

    def __call__(self, x: Any, training: bool) -> Any:
        for name in ("conv0", "conv1"):
            x = tf.nn.relu(self.conv(name, x) + self.w[f"{name}.bias"])
            x = tf.nn.max_pool2d(x, 2, 2, "VALID")
        x = tf.transpose(tf.reshape(x, (-1, 49, 64)), (0, 2, 1))
        return self.dense("dense", self.lstm(x, False))


class CNN(Weighted):
    def __init__(self) -> None:
        super().__init__(shared.cnn_weights())

    def __call__(self, x: Any, training: bool) -> Any:
        x = tf.nn.relu(self.normalized("stem", x, training))
        for name, _, _, stride in shared.residual_blocks():
            y = tf.nn.relu(self.normalized(f"{name}.first", x, training, stride))
            y = self.normalized(f"{name}.second", y, training)
            if stride > 1:
                x = self.normalized(f"{name}.shortcut", x, training, stride)
            x = tf.nn.relu(y + x)
        return self.dense("dense", tf.reduce_mean(x, (1, 2)))


class ResNet50(Weighted):
    def __init__(self) -> None:
        super().__init__(shared.resnet50_weights())

    def __call__(self, x: Any, training: bool) -> Any:
        x = tf.nn.relu(self.normalized("stem", x, training, 2))
        x = tf.nn.max_pool2d(x, 3, 2, [[0, 0], [1, 1], [1, 1], [0, 0]])
        for name, inputs, size, stride in shared.bottlenecks():
            y = tf.nn.relu(self.normalized(f"{name}.narrow", x, training))
            y = tf.nn.relu(self.normalized(f"{name}.middle", y, training, stride))
            y = self.normalized(f"{name}.wide", y, training)
            if inputs != 4 * size:
                x = self.normalized(f"{name}.shortcut", x, training, stride)
            x = tf.nn.relu(y + x)
        return self.dense("dense", tf.reduce_mean(x, (1, 2)))


class Transformer(Weighted):
    def __init__(self) -> None:
        super().__init__(shared.transformer_weights())

    def __call__(self, ids: Any, training: bool) -> Any:
        x = tf.gather(self.w["embedding"], ids) + self.w["positions"]
        length = x.shape[1]
        unseen = tf.constant(-1e9) * (1 - tf.linalg.band_part(tf.ones((length, length)), -1, 0))
        for i in range(shared.LAYERS):
            name = f"layer{i}"
            y = self.dense(f"{name}.attend", self.layer_norm(f"{name}.norm0", x))
            x = x + self.dense(f"{name}.project", attention(y, shared.HEADS, unseen))
            y = self.dense(f"{name}.widen", self.layer_norm(f"{name}.norm1", x))
            x = x + self.dense(f"{name}.narrow", tf.nn.gelu(y, approximate=True))
        return self.layer_norm("norm", x) @ self.w["head"]


def attention(x: Any, heads: int, unseen: Any = None) -> Any:
    """Attention of queries, keys and values that lie side by side; `unseen` is added to scores."""
    batch, length, width = x.shape
    size = width // (3 * heads)
    split = tf.reshape(x, (batch, length, 3, heads, size))
    query, key, value = tf.unstack(tf.transpose(split, (2, 0, 3, 1, 4)))
    scores = tf.matmul(query, key, transpose_b=True) * size**-0.5
    scores = scores if unseen is None else scores + unseen
    y = tf.transpose(tf.nn.softmax(scores) @ value, (0, 2, 1, 3))
    return tf.reshape(y, (batch, length, width // 3))


class MiniLM(Weighted):
    def __init__(self) -> None:
        super().__init__(shared.minilm_weights())

    def __call__(self, ids: Any, training: bool) -> Any:
        x = self.layer_norm("norm", tf.gather(self.w["embedding"], ids) + self.w["positions"])
        for i in range(shared.ENCODERS):
            name = f"layer{i}"
            y = attention(self.dense(f"{name}.attend", x), shared.ENCODER_HEADS)
            x = self.layer_norm(f"{name}.norm0", x + self.dense(f"{name}.project", y))
            y = self.dense(f"{name}.narrow", tf.nn.gelu(self.dense(f"{name}.widen", x)))
            x = self.layer_norm(f"{name}.norm1", x + y)
        return tf.reduce_mean(x, 1)
