"""The workloads in pullback."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import numpy as np

import pullback as pb

from . import shared
from .shared import Block, Builder, Weights, repeat

layers = pb.layers


#: How a step is run: as it is, or captured.
Run: TypeAlias = Callable[[Callable[[], Any]], Callable[[], Any]]


def builders(compiled: bool) -> dict[str, Builder]:
    """The workloads; compiled are those of more than an op."""
    if compiled:
        return steps(pb.function)
    single = {"op_add": op_add, "op_add_recorded": op_add_recorded, "op_matmul": op_matmul}
    return {**single, **steps(lambda step: step)}


def settle(block: Block) -> None:
    """Runs steps until the kernels that the pack compiles in a thread are in use."""
    begin = time.perf_counter()
    while time.perf_counter() - begin < 0.5:
        block(1)
    compiling = sys.modules.get("pullback_native.compiled.worker")
    if compiling is not None:
        compiling.wait()


def steps(run: Run) -> dict[str, Builder]:
    """The workloads of more than an op."""
    train, infer = partial(_train, run), partial(_infer, run)
    return {
        "op_chain": partial(op_chain, run),
        "op_chain_grad": partial(op_chain_grad, run),
        "linreg": partial(linreg, run),
        "mlp": lambda: train(mlp(shared.MLP), shared.features(32), adam()),
        "mlp_wide": lambda: train(mlp(shared.MLP_WIDE), shared.features(256), adam()),
        "char_rnn": lambda: train(char_rnn(), shared.symbols(64, shared.STEPS, 32), adam()),
        "cnn_lstm": lambda: train(cnn_lstm(), shared.images(64, 28, 1), adam()),
        "transformer": lambda: train(Transformer(), tokens(8), adamw()),
        "cnn": lambda: train(cnn(), shared.images(32, 32, 3), momentum()),
        "infer_cnn_lstm_b1": lambda: infer(cnn_lstm(), shared.images(1, 28, 1)),
        "infer_cnn_lstm_b64": lambda: infer(cnn_lstm(), shared.images(64, 28, 1)),
        "infer_cnn_b1": lambda: infer(cnn(), shared.images(1, 32, 3)),
        "infer_cnn_b32": lambda: infer(cnn(), shared.images(32, 32, 3)),
        "infer_transformer_b1": lambda: infer(Transformer(), tokens(1)),
        "infer_transformer_b8": lambda: infer(Transformer(), tokens(8)),
        "infer_minilm_b1": lambda: infer(MiniLM(), tokens(1)),
        "infer_resnet50_b1": lambda: infer(resnet50(), shared.images(1, 224, 3)),
        "infer_resnet50_b8": lambda: infer(resnet50(), shared.images(8, 224, 3)),
        "resnet50": lambda: train(resnet50(), shared.images(4, 224, 3), momentum()),
        "fusion_fwd": partial(fusion_fwd, run),
        "fusion_grad": partial(fusion_grad, run),
    }


# ---------------------------------------------------------------------------------------------
# Ops.


def op_add() -> Block:
    x, y = map(pb.asarray, shared.pair())

    def block(n: int) -> Any:
        add = pb.add
        for _ in range(n):
            result = add(x, y)
        return result

    return block


def op_add_recorded() -> Block:
    x, y = map(pb.asarray, shared.pair())

    def block(n: int) -> Any:
        add = pb.add
        with pb.GradientTape() as tape:
            tape.watch(x)
            for _ in range(n):
                result = add(x, y)
        return result

    return block


def op_matmul() -> Block:
    x, y = map(pb.asarray, shared.pair())

    def block(n: int) -> Any:
        matmul = pb.matmul
        for _ in range(n):
            result = matmul(x, y)
        return result

    return block


def op_chain(run: Run) -> Block:
    x = pb.asarray(shared.pair()[0])
    return repeat(run(lambda: ((x * 2 + 1) * x).sum()))


def op_chain_grad(run: Run) -> Block:
    x = pb.asarray(shared.pair()[0])

    def step() -> Any:
        with pb.GradientTape() as tape:
            tape.watch(x)
            total = ((x * 2 + 1) * x).sum()
        return tape.gradient(total, x)

    return repeat(run(step))


def linreg(run: Run) -> Block:
    x, y = map(pb.asarray, shared.line())
    w, b = pb.Variable(5.0), pb.Variable(10.0)

    def step() -> Any:
        with pb.GradientTape() as tape:
            error = w * x + b - y
            loss = pb.mean(error * error)
        dw, db = tape.gradient(loss, [w, b])
        w.assign_sub(0.1 * dw)
        b.assign_sub(0.1 * db)
        return loss

    return waited(run(step))


def fused(x: Any, w: Any, b: Any) -> Any:
    return pb.tanh(x * w + b) * pb.sigmoid(x) + pb.exp(-x * x)


def fusion_fwd(run: Run) -> Block:
    x, w, b = pb.asarray(shared.vector()), pb.asarray(1.5), pb.asarray(0.5)
    return repeat(run(lambda: fused(x, w, b)))


def fusion_grad(run: Run) -> Block:
    x, w, b = pb.asarray(shared.vector()), pb.asarray(1.5), pb.asarray(0.5)

    def step() -> Any:
        with pb.GradientTape() as tape:
            tape.watch(x)
            total = fused(x, w, b).sum()
        return tape.gradient(total, x)

    return repeat(run(step))


# ---------------------------------------------------------------------------------------------
# Training and inference.


def waited(step: Callable[[], Any]) -> Block:
    """Repeats a step and looks at its loss each time."""
    return repeat(lambda: float(step()))


def adam() -> Any:
    return pb.optimizers.Adam(shared.ADAM["rate"], epsilon=shared.ADAM["epsilon"])


def adamw() -> Any:
    how = shared.ADAMW
    return pb.optimizers.AdamW(how["rate"], epsilon=how["epsilon"], weight_decay=how["decay"])


def momentum() -> Any:
    return pb.optimizers.SGD(shared.MOMENTUM["rate"], shared.MOMENTUM["momentum"])


def _train(run: Run, model: Any, data: tuple[Any, Any], optimizer: Any) -> Block:
    x, labels = map(pb.asarray, data)
    variables = model.trainable_variables

    def step() -> Any:
        with pb.GradientTape() as tape:
            loss = pb.losses.sparse_softmax_cross_entropy(labels, model(x, training=True))
        gradients = tape.gradient(loss, variables)
        optimizer.apply_gradients(zip(gradients, variables, strict=True))
        return loss

    return waited(run(step))


def _infer(run: Run, model: Any, data: tuple[Any, Any]) -> Block:
    x = pb.asarray(data[0])
    return repeat(run(lambda: model(x, training=False)))


def tokens(batch: int) -> tuple[Any, Any]:
    return shared.symbols(batch, shared.TOKENS, shared.VOCABULARY)


def set_weights(model: Any, weights: Weights, x: Any) -> Any:
    """The model with these weights, in the order in which its variables come."""
    model(x)
    for variable, value in zip(model.variables, weights.values(), strict=True):
        variable.assign(value)
    return model


# ---------------------------------------------------------------------------------------------
# Models.


def mlp(sizes: tuple[int, ...]) -> Any:
    model = pb.Sequential(
        [layers.Dense(size, "relu") for size in sizes[1:-1]] + [layers.Dense(sizes[-1])]
    )
    return set_weights(model, shared.mlp_weights(sizes), np.zeros((1, sizes[0]), np.float32))


def char_rnn() -> Any:
    model = pb.Sequential(
        [
            layers.Embedding(shared.SYMBOLS, 64),
            layers.LSTM(shared.UNITS, return_sequences=True),
            layers.Dense(shared.SYMBOLS),
        ]
    )
    return set_weights(model, shared.char_rnn_weights(), np.zeros((1, 2), np.int32))


def cnn_lstm() -> Any:
    model = pb.Sequential(
        [
            layers.Conv2D(32, 5, padding="same", activation="relu"),
            layers.MaxPool2D(2),
            layers.Conv2D(64, 5, padding="same", activation="relu"),
            layers.MaxPool2D(2),
            layers.Reshape((49, 64)),
            lambda x: x.mT,
            layers.LSTM(shared.UNITS),
            layers.Dense(10),
        ]
    )
    return set_weights(model, shared.cnn_lstm_weights(), np.zeros((1, 28, 28, 1), np.float32))


class Normalized(pb.Model):
    """A convolution and a batch normalization."""

    def __init__(self, filters: int, window: int, stride: int = 1) -> None:
        super().__init__()
        self.conv = layers.Conv2D(filters, window, stride, padding=window // 2, use_bias=False)
        self.norm = layers.BatchNormalization(
            momentum=shared.BATCH_NORM_MOMENTUM, epsilon=shared.BATCH_NORM_EPSILON
        )

    def call(self, x: Any) -> Any:
        return self.norm(self.conv(x))


class Residual(pb.Model):
    def __init__(self, filters: int, stride: int) -> None:
        super().__init__()
        self.first = Normalized(filters, 3, stride)
        self.second = Normalized(filters, 3)
        self.shortcut = Normalized(filters, 1, stride) if stride > 1 else None

    def call(self, x: Any) -> Any:
        y = self.second(pb.relu(self.first(x)))
        return pb.relu(y + (x if self.shortcut is None else self.shortcut(x)))


def cnn() -> Any:
    blocks = [Residual(size, stride) for _, _, size, stride in shared.residual_blocks()]
    model = pb.Sequential(
        [
            Normalized(shared.STAGES[0], 3),
            pb.relu,
            *blocks,
            layers.GlobalAveragePool2D(),
            layers.Dense(10),
        ]
    )
    return set_weights(model, shared.cnn_weights(), np.zeros((1, 32, 32, 3), np.float32))


class Bottleneck(pb.Model):
    """A residual block of three convolutions, the 3x3 on fewer channels."""

    def __init__(self, inputs: int, size: int, stride: int) -> None:
        super().__init__()
        self.narrow = Normalized(size, 1)
        self.middle = Normalized(size, 3, stride)
        self.wide = Normalized(4 * size, 1)
        self.shortcut = Normalized(4 * size, 1, stride) if inputs != 4 * size else None

    def call(self, x: Any) -> Any:
        y = self.wide(pb.relu(self.middle(pb.relu(self.narrow(x)))))
        return pb.relu(y + (x if self.shortcut is None else self.shortcut(x)))


def resnet50() -> Any:
    model = pb.Sequential(
        [
            Normalized(64, 7, 2),
            pb.relu,
            layers.MaxPool2D(3, 2, padding=1),
            *(Bottleneck(*sizes) for _, *sizes in shared.bottlenecks()),
            layers.GlobalAveragePool2D(),
            layers.Dense(1000),
        ]
    )
    return set_weights(model, shared.resnet50_weights(), np.zeros((1, 64, 64, 3), np.float32))


class Decoder(pb.Model):
    """A layer of the transformer, normalized before each part."""

    def __init__(self) -> None:
        super().__init__()
        self.norm0 = layers.LayerNormalization(epsilon=shared.LAYER_NORM_EPSILON)
        self.attend = layers.Dense(3 * shared.WIDTH)
        self.project = layers.Dense(shared.WIDTH)
        self.norm1 = layers.LayerNormalization(epsilon=shared.LAYER_NORM_EPSILON)
        self.widen = layers.Dense(shared.HIDDEN, gelu)
        self.narrow = layers.Dense(shared.WIDTH)

    def call(self, x: Any) -> Any:
        y = attention(self.attend(self.norm0(x)), shared.HEADS, is_causal=True)
        x = x + self.project(y)
        return x + self.narrow(self.widen(self.norm1(x)))


def attention(x: Any, heads: int, is_causal: bool) -> Any:
    """Attention of queries, keys and values that lie side by side."""
    batch, length, width = x.shape
    split = x.reshape((batch, length, 3, heads, width // (3 * heads)))
    query, key, value = pb.unstack(pb.permute_dims(split, (2, 0, 3, 1, 4)))
    y = pb.scaled_dot_product_attention(query, key, value, is_causal=is_causal)
    return pb.permute_dims(y, (0, 2, 1, 3)).reshape((batch, length, width // 3))


def gelu(x: Any) -> Any:
    return pb.gelu(x, approximate=True)


class Transformer(pb.Model):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = layers.Embedding(shared.VOCABULARY, shared.WIDTH)
        self.positions = pb.Variable(np.zeros((shared.TOKENS, shared.WIDTH), np.float32))
        self.blocks = [Decoder() for _ in range(shared.LAYERS)]
        self.norm = layers.LayerNormalization(epsilon=shared.LAYER_NORM_EPSILON)
        self.head = layers.Dense(shared.VOCABULARY, use_bias=False)
        set_weights(self, shared.transformer_weights(), np.zeros((1, shared.TOKENS), np.int32))

    def call(self, ids: Any) -> Any:
        x = self.embedding(ids) + self.positions
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class Encoder(pb.Model):
    """A layer of MiniLM, normalized after each part."""

    def __init__(self) -> None:
        super().__init__()
        self.attend = layers.Dense(3 * shared.ENCODER_WIDTH)
        self.project = layers.Dense(shared.ENCODER_WIDTH)
        self.norm0 = layers.LayerNormalization(epsilon=shared.LAYER_NORM_EPSILON)
        self.widen = layers.Dense(shared.ENCODER_HIDDEN, "gelu")
        self.narrow = layers.Dense(shared.ENCODER_WIDTH)
        self.norm1 = layers.LayerNormalization(epsilon=shared.LAYER_NORM_EPSILON)

    def call(self, x: Any) -> Any:
        y = attention(self.attend(x), shared.ENCODER_HEADS, is_causal=False)
        x = self.norm0(x + self.project(y))
        return self.norm1(x + self.narrow(self.widen(x)))


class MiniLM(pb.Model):
    """A vector for each text: the mean of what its tokens become."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = layers.Embedding(shared.VOCABULARY, shared.ENCODER_WIDTH)
        self.positions = pb.Variable(np.zeros((shared.TOKENS, shared.ENCODER_WIDTH), np.float32))
        self.norm = layers.LayerNormalization(epsilon=shared.LAYER_NORM_EPSILON)
        self.blocks = [Encoder() for _ in range(shared.ENCODERS)]
        set_weights(self, shared.minilm_weights(), np.zeros((1, shared.TOKENS), np.int32))

    def call(self, ids: Any) -> Any:
        x = self.norm(self.embedding(ids) + self.positions)
        for block in self.blocks:
            x = block(x)
        return pb.mean(x, axis=1)
