"""The workloads: their names, inputs and initial weights, the same for every framework.

Everything is NumPy, float32. Kernels of dense layers are (inputs, outputs), of convolutions
(height, width, channels, filters); gates of an LSTM come in the order i, f, g, o; images are
(batch, height, width, channels). A framework's file turns them into its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
#: Runs a workload n times and gives the last result: a loss, or an output.
Block = Callable[[int], Any]
#: Makes a block, with fresh weights.
Builder = Callable[[], Block]

#: Name and description, in the order of the table.
WORKLOADS = {
    "op_add": "x + y, 10x10",
    "op_add_recorded": "the same, recorded for a gradient",
    "op_matmul": "x @ y, 10x10",
    "op_chain": "((x*2+1)*x).sum(), 10x10",
    "op_chain_grad": "the same with its gradient",
    "linreg": "y = 3x + 2, 1000 points, mean squared error, SGD 0.1",
    "mlp": "784-128-10, relu, cross entropy, batch 32, Adam",
    "mlp_wide": "784-1024-1024-10, batch 256, Adam",
    "char_rnn": "embedding 64, LSTM 128 over 20 steps, dense 32, batch 64, Adam",
    "cnn_lstm": "two 5x5 convolutions and pools, LSTM 128 over 64 steps, batch 64, Adam",
    "transformer": "2 layers, d 256, 4 heads, 128 tokens, vocabulary 1000, batch 8, AdamW",
    "cnn": "residual net, 3 stages of 2 blocks, 32x32x3, batch 32, SGD with momentum",
    "infer_cnn_lstm_b1": "forward, batch 1",
    "infer_cnn_lstm_b64": "forward, batch 64",
    "infer_cnn_b1": "forward, batch 1",
    "infer_cnn_b32": "forward, batch 32",
    "infer_transformer_b1": "forward, batch 1",
    "infer_transformer_b8": "forward, batch 8",
    "infer_minilm_b1": "encoder of 6 layers, d 384, 12 heads, 128 tokens, mean, forward, batch 1",
    "infer_resnet50_b1": "50 layers (He et al., 2015; the stride in the 3x3), 224x224x3, forward",
    "infer_resnet50_b8": "the same, batch 8",
    "resnet50": "the same, batch 4, SGD with momentum",
    "fusion_fwd": "tanh(x*w+b)*sigmoid(x)+exp(-x*x), 1,000,000 elements",
    "fusion_grad": "the same with the gradient of its sum",
}
TRAINING = ("mlp", "mlp_wide", "char_rnn", "cnn_lstm", "transformer", "cnn")

ADAM = {"rate": 1e-3, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8}
ADAMW = {**ADAM, "rate": 3e-4, "decay": 0.01}
MOMENTUM = {"rate": 0.01, "momentum": 0.9}

MLP = (784, 128, 10)
MLP_WIDE = (784, 1024, 1024, 10)
UNITS = 128  # of both LSTMs
SYMBOLS, STEPS = 32, 20  # of char_rnn
STAGES = (32, 64, 128)  # of cnn, two residual blocks each
BOTTLENECKS = ((3, 64), (4, 128), (6, 256), (3, 512))  # of resnet50: blocks, channels
LAYERS, WIDTH, HEADS, HIDDEN, TOKENS, VOCABULARY = 2, 256, 4, 1024, 128, 1000  # of transformer
ENCODERS, ENCODER_WIDTH, ENCODER_HEADS, ENCODER_HIDDEN = 6, 384, 12, 1536  # of minilm
BATCH_NORM_EPSILON, BATCH_NORM_MOMENTUM, LAYER_NORM_EPSILON = 1e-5, 0.9, 1e-5


def repeat(step: Callable[[], Any]) -> Block:
    def block(n: int) -> Any:
        result = None
        for _ in range(n):
            result = step()
        return result

    return block


# ---------------------------------------------------------------------------------------------
# Inputs.


def pair() -> Array:
    """Two 10x10 matrices."""
    return np.random.default_rng(0).standard_normal((2, 10, 10), np.float32)


def line() -> tuple[Array, Array]:
    """1000 points about y = 3x + 2."""
    x, noise = np.random.default_rng(0).standard_normal((2, 1000), np.float32)
    return x, 3 * x + 2 + noise


def vector() -> Array:
    """A million numbers."""
    return np.random.default_rng(0).standard_normal(1_000_000, np.float32)


def features(batch: int) -> tuple[Array, Array]:
    """Rows of 784 and their classes."""
    rng = np.random.default_rng(0)
    return rng.standard_normal((batch, 784), np.float32), _classes(rng, 10, (batch,))


def images(batch: int, size: int, channels: int) -> tuple[Array, Array]:
    """Images and their classes."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((batch, size, size, channels), np.float32)
    return x, _classes(rng, 10, (batch,))


def symbols(batch: int, steps: int, vocabulary: int) -> tuple[Array, Array]:
    """Sequences of symbols, and the symbols that follow."""
    text = _classes(np.random.default_rng(0), vocabulary, (batch, steps + 1))
    return text[:, :-1].copy(), text[:, 1:].copy()


def _classes(rng: np.random.Generator, count: int, shape: tuple[int, ...]) -> Array:
    return rng.integers(0, count, shape, np.int32)


# ---------------------------------------------------------------------------------------------
# Weights, in the order in which a model uses them.


class Weights(dict[str, Array]):
    """Arrays by name."""

    def __init__(self) -> None:
        super().__init__()
        self.rng = np.random.default_rng(1)

    def draw(self, name: str, *shape: int) -> None:
        """Uniform numbers whose size keeps that of what goes through (Glorot and Bengio, 2010)."""
        taps = int(np.prod(shape[:-2]))
        limit = (6 / (taps * (shape[-2] + shape[-1]))) ** 0.5
        self[name] = self.rng.uniform(-limit, limit, shape).astype(np.float32)

    def fill(self, name: str, value: float, *shape: int) -> None:
        self[name] = np.full(shape, value, np.float32)

    def dense(self, name: str, inputs: int, outputs: int) -> None:
        self.draw(f"{name}.kernel", inputs, outputs)
        self.fill(f"{name}.bias", 0, outputs)

    def conv(self, name: str, window: int, inputs: int, outputs: int) -> None:
        self.draw(f"{name}.kernel", window, window, inputs, outputs)

    def lstm(self, name: str, inputs: int) -> None:
        self.draw(f"{name}.kernel", inputs, 4 * UNITS)
        self.draw(f"{name}.recurrent", UNITS, 4 * UNITS)
        self.fill(f"{name}.bias", 0, 4 * UNITS)

    def norm(self, name: str, size: int) -> None:
        self.fill(f"{name}.scale", 1, size)
        self.fill(f"{name}.offset", 0, size)

    def batch_norm(self, name: str, size: int) -> None:
        self.norm(name, size)
        self[f"{name}.mean"] = self.rng.uniform(-0.5, 0.5, size).astype(np.float32)
        self[f"{name}.variance"] = self.rng.uniform(0.5, 1.5, size).astype(np.float32)


def mlp_weights(sizes: tuple[int, ...]) -> Weights:
    weights = Weights()
    for i, (inputs, outputs) in enumerate(pairwise(sizes)):
        weights.dense(f"dense{i}", inputs, outputs)
    return weights


def cnn_lstm_weights() -> Weights:
    weights = Weights()
    for name, inputs, outputs in (("conv0", 1, 32), ("conv1", 32, 64)):
        weights.conv(name, 5, inputs, outputs)
        weights.fill(f"{name}.bias", 0, outputs)
    weights.lstm("lstm", 49)
    weights.dense("dense", UNITS, 10)
    return weights


def char_rnn_weights() -> Weights:
    weights = Weights()
    weights.draw("embedding", SYMBOLS, 64)
    weights.lstm("lstm", 64)
    weights.dense("dense", UNITS, SYMBOLS)
    return weights


def residual_blocks() -> Iterator[tuple[str, int, int, int]]:
    """(name, channels in, channels out, stride) of each block of cnn."""
    channels = STAGES[0]
    for stage, size in enumerate(STAGES):
        for number, stride in enumerate((2, 1)):
            yield f"stage{stage}.block{number}", channels, size, stride
            channels = size


def cnn_weights() -> Weights:
    weights = Weights()
    weights.conv("stem", 3, 3, STAGES[0])
    weights.batch_norm("stem", STAGES[0])
    for name, inputs, outputs, stride in residual_blocks():
        parts = [("first", 3, inputs), ("second", 3, outputs)]
        if stride > 1:
            parts.append(("shortcut", 1, inputs))
        for part, window, channels in parts:
            weights.conv(f"{name}.{part}", window, channels, outputs)
            weights.batch_norm(f"{name}.{part}", outputs)
    weights.dense("dense", STAGES[-1], 10)
    return weights


def bottlenecks() -> Iterator[tuple[str, int, int, int]]:
    """(name, channels in, channels inside, stride) of each block of resnet50."""
    channels = 64
    for stage, (count, size) in enumerate(BOTTLENECKS):
        for number in range(count):
            yield f"stage{stage}.block{number}", channels, size, 2 if stage and not number else 1
            channels = 4 * size


def resnet50_weights() -> Weights:
    weights = Weights()
    weights.conv("stem", 7, 3, 64)
    weights.batch_norm("stem", 64)
    for name, inputs, size, _ in bottlenecks():
        parts = [
            ("narrow", 1, inputs, size),
            ("middle", 3, size, size),
            ("wide", 1, size, 4 * size),
        ]
        if inputs != 4 * size:
            parts.append(("shortcut", 1, inputs, 4 * size))
        for part, window, channels, outputs in parts:
            weights.conv(f"{name}.{part}", window, channels, outputs)
            weights.batch_norm(f"{name}.{part}", outputs)
        # Small at first (Goyal et al., 2017): at 1 the losses of two steps hang on rounding.
        weights.fill(f"{name}.wide.scale", 0.2, 4 * size)
    weights.dense("dense", 4 * BOTTLENECKS[-1][1], 1000)
    return weights


def transformer_weights() -> Weights:
    weights = Weights()
    weights.draw("embedding", VOCABULARY, WIDTH)
    weights.draw("positions", TOKENS, WIDTH)
    for i in range(LAYERS):
        name = f"layer{i}"
        weights.norm(f"{name}.norm0", WIDTH)
        weights.dense(f"{name}.attend", WIDTH, 3 * WIDTH)  # queries, keys, values
        weights.dense(f"{name}.project", WIDTH, WIDTH)
        weights.norm(f"{name}.norm1", WIDTH)
        weights.dense(f"{name}.widen", WIDTH, HIDDEN)
        weights.dense(f"{name}.narrow", HIDDEN, WIDTH)
    weights.norm("norm", WIDTH)
    weights.draw("head", WIDTH, VOCABULARY)
    return weights


def minilm_weights() -> Weights:
    weights = Weights()
    weights.draw("embedding", VOCABULARY, ENCODER_WIDTH)
    weights.draw("positions", TOKENS, ENCODER_WIDTH)
    weights.norm("norm", ENCODER_WIDTH)
    for i in range(ENCODERS):
        name = f"layer{i}"
        weights.dense(f"{name}.attend", ENCODER_WIDTH, 3 * ENCODER_WIDTH)
        weights.dense(f"{name}.project", ENCODER_WIDTH, ENCODER_WIDTH)
        weights.norm(f"{name}.norm0", ENCODER_WIDTH)
        weights.dense(f"{name}.widen", ENCODER_WIDTH, ENCODER_HIDDEN)
        weights.dense(f"{name}.narrow", ENCODER_HIDDEN, ENCODER_WIDTH)
        weights.norm(f"{name}.norm1", ENCODER_WIDTH)
    return weights
