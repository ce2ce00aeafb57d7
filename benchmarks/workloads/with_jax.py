"""The workloads in JAX, each step one compiled function that is waited for."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from . import shared
from .shared import Block, Builder, Weights, repeat


def builders(
    compiled: bool, *, donated: bool = True, dtype: type[np.floating[Any]] = np.float32
) -> dict[str, Builder]:
    """The workloads; `donated` says whether a training step hands its old state over to XLA."""
    assert compiled
    x, y = shared.pair()
    train = partial(_train, donated, dtype)
    return {
        "op_add": lambda: waiting(jnp.add, x, y),
        "op_matmul": lambda: waiting(jnp.matmul, x, y),
        "op_chain": lambda: waiting(chain, x),
        "op_chain_grad": lambda: waiting(jax.grad(chain), x),
        "linreg": linreg,
        "mlp": lambda: train(mlp, shared.mlp_weights(shared.MLP), shared.features(32), adam),
        "mlp_wide": lambda: train(
            mlp, shared.mlp_weights(shared.MLP_WIDE), shared.features(256), adam
        ),
        "char_rnn": lambda: train(
            char_rnn, shared.char_rnn_weights(), shared.symbols(64, shared.STEPS, 32), adam
        ),
        "cnn_lstm": lambda: train(
            cnn_lstm, shared.cnn_lstm_weights(), shared.images(64, 28, 1), adam
        ),
        "transformer": lambda: train(transformer, shared.transformer_weights(), tokens(8), adamw),
        "cnn": lambda: train(cnn, shared.cnn_weights(), shared.images(32, 32, 3), momentum),
        "infer_cnn_lstm_b1": lambda: infer(cnn_lstm, shared.cnn_lstm_weights(), images(1, 28, 1)),
        "infer_cnn_lstm_b64": lambda: infer(cnn_lstm, shared.cnn_lstm_weights(), images(64, 28, 1)),
        "infer_cnn_b1": lambda: infer(cnn, shared.cnn_weights(), images(1, 32, 3)),
        "infer_cnn_b32": lambda: infer(cnn, shared.cnn_weights(), images(32, 32, 3)),
        "infer_minilm_b1": lambda: infer(minilm, shared.minilm_weights(), tokens(1)[0]),
        "infer_resnet50_b1": lambda: infer(resnet50, shared.resnet50_weights(), images(1, 224, 3)),
        "infer_resnet50_b8": lambda: infer(resnet50, shared.resnet50_weights(), images(8, 224, 3)),
        "resnet50": lambda: train(
            resnet50, shared.resnet50_weights(), shared.images(4, 224, 3), momentum
        ),
        "infer_transformer_b1": lambda: infer(
            transformer, shared.transformer_weights(), tokens(1)[0]
        ),
        "infer_transformer_b8": lambda: infer(
            transformer, shared.transformer_weights(), tokens(8)[0]
        ),
        "fusion_fwd": lambda: waiting(fused, shared.vector()),
        "fusion_grad": lambda: waiting(jax.grad(lambda x: fused(x).sum()), shared.vector()),
    }


def tokens(batch: int) -> tuple[Any, Any]:
    return shared.symbols(batch, shared.TOKENS, shared.VOCABULARY)


def images(batch: int, size: int, channels: int) -> Any:
    return shared.images(batch, size, channels)[0]


# ---------------------------------------------------------------------------------------------
# Ops.


def waiting(function: Callable[..., Any], *arrays: Any) -> Block:
    run, inputs = jax.jit(function), [jnp.asarray(one) for one in arrays]
    return repeat(lambda: jax.block_until_ready(run(*inputs)))


def chain(x: Any) -> Any:
    return ((x * 2 + 1) * x).sum()


def fused(x: Any) -> Any:
    return jnp.tanh(x * 1.5 + 0.5) * jax.nn.sigmoid(x) + jnp.exp(-x * x)


def linreg() -> Block:
    x, y = map(jnp.asarray, shared.line())
    state = jnp.float32(5), jnp.float32(10)

    def loss(state: Any) -> Any:
        error = state[0] * x + state[1] - y
        return jnp.mean(error * error)

    @jax.jit
    def update(state: Any) -> Any:
        value, (dw, db) = jax.value_and_grad(loss)(state)
        return value, (state[0] - 0.1 * dw, state[1] - 0.1 * db)

    def step() -> float:
        nonlocal state
        value, state = update(state)
        return float(value)

    return repeat(step)


# ---------------------------------------------------------------------------------------------
# Training and inference. An optimizer maps (weights, gradients, slots) to new weights and slots.


def adam(weights: Any, gradients: Any, slots: Any, decay: float = 0.0) -> Any:
    how = shared.ADAMW if decay else shared.ADAM
    step, m, v = slots or (0, *(jax.tree.map(jnp.zeros_like, weights) for _ in range(2)))
    if gradients is None:
        return step, m, v
    step = step + 1
    beta1, beta2 = how["beta1"], how["beta2"]
    m = jax.tree.map(lambda m, g: beta1 * m + (1 - beta1) * g, m, gradients)
    v = jax.tree.map(lambda v, g: beta2 * v + (1 - beta2) * g * g, v, gradients)

    def moved(w: Any, m: Any, v: Any) -> Any:
        change = m / (1 - beta1**step) / (jnp.sqrt(v / (1 - beta2**step)) + how["epsilon"])
        return w - how["rate"] * (change + decay * w)

    return jax.tree.map(moved, weights, m, v), (step, m, v)


adamw = partial(adam, decay=shared.ADAMW["decay"])


def momentum(weights: Any, gradients: Any, slots: Any) -> Any:
    if gradients is None:
        return jax.tree.map(jnp.zeros_like, weights)
    rate, keep = shared.MOMENTUM["rate"], shared.MOMENTUM["momentum"]
    slots = jax.tree.map(lambda v, g: keep * v + g, slots, gradients)
    return jax.tree.map(lambda w, v: w - rate * v, weights, slots), slots


def _train(
    donated: bool, dtype: Any, model: Any, weights: Weights, data: tuple[Any, Any], optimizer: Any
) -> Block:
    x, labels = map(jnp.asarray, data)
    x = x.astype(dtype) if x.dtype == np.float32 else x
    kept = {name for name in weights if name.endswith((".mean", ".variance"))}
    moving = {name: jnp.asarray(weights[name], dtype) for name in sorted(kept)}
    trained = {name: jnp.asarray(one, dtype) for name, one in weights.items() if name not in kept}
    state = trained, moving, optimizer(trained, None, None)

    def loss_of(trained: Any, moving: Any) -> Any:
        averages = dict(moving)
        logits = model({**trained, **moving}, x, averages)
        chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), labels[..., None], -1)
        return -chosen.mean(), averages

    @partial(jax.jit, donate_argnums=(0,) if donated else ())
    def update(state: Any) -> Any:
        trained, moving, slots = state
        (loss, moving), gradients = jax.value_and_grad(loss_of, has_aux=True)(trained, moving)
        trained, slots = optimizer(trained, gradients, slots)
        return loss, (trained, moving, slots)

    def step() -> float:
        nonlocal state
        loss, state = update(state)
        return float(loss)

    return repeat(step)


def infer(model: Any, weights: Weights, x: Any) -> Block:
    arrays = {name: jnp.asarray(one) for name, one in weights.items()}
    run, x = jax.jit(lambda arrays, x: model(arrays, x, None)), jnp.asarray(x)
    return repeat(lambda: jax.block_until_ready(run(arrays, x)))


# ---------------------------------------------------------------------------------------------
# Models: functions of the weights `w`, an input, and the moving averages to update; None for these
# is inference.


def dense(w: Any, name: str, x: Any) -> Any:
    return x @ w[f"{name}.kernel"] + w[f"{name}.bias"]


def mlp(w: Any, x: Any, averages: Any) -> Any:
    last = len(w) // 2 - 1
    for i in range(last):
        x = jax.nn.relu(dense(w, f"dense{i}", x))
    return dense(w, f"dense{last}", x)


def lstm(w: Any, name: str, x: Any) -> Any:
    """All outputs, time first."""
    gates = jnp.swapaxes(dense(w, name, x), 0, 1)
    zeros = jnp.zeros((x.shape[0], shared.UNITS))

    def step(state: Any, gates: Any) -> Any:
        h, c = state
        i, f, g, o = jnp.split(gates + h @ w[f"{name}.recurrent"], 4, 1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    return jax.lax.scan(step, (zeros, zeros), gates)[1]


def char_rnn(w: Any, ids: Any, averages: Any) -> Any:
    return dense(w, "dense", jnp.swapaxes(lstm(w, "lstm", w["embedding"][ids]), 0, 1))


def conv(w: Any, name: str, x: Any, stride: int = 1) -> Any:
    kernel = w[f"{name}.kernel"]
    around = [(kernel.shape[0] // 2,) * 2] * 2
    return jax.lax.conv_general_dilated(
        x, kernel, (stride, stride), around, dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


def pool(x: Any) -> Any:
    window = (1, 2, 2, 1)
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, window, window, "VALID")


def cnn_lstm(w: Any, x: Any, averages: Any) -> Any:
    for name in ("conv0", "conv1"):
        x = pool(jax.nn.relu(conv(w, name, x) + w[f"{name}.bias"]))
    x = jnp.swapaxes(x.reshape(-1, 49, 64), 1, 2)
    return dense(w, "dense", lstm(w, "lstm", x)[-1])


def normalized(w: Any, name: str, x: Any, averages: Any, stride: int = 1) -> Any:
    x = conv(w, name, x, stride)
    mean, variance = w[f"{name}.mean"], w[f"{name}.variance"]
    if averages is not None:
        mean, variance = x.mean((0, 1, 2)), x.var((0, 1, 2))
        count = x.size // x.shape[-1]
        share = 1 - shared.BATCH_NORM_MOMENTUM
        for part, new in (("mean", mean), ("variance", variance * count / (count - 1))):
            old = averages[f"{name}.{part}"]
            averages[f"{name}.{part}"] = old + share * (jax.lax.stop_gradient(new) - old)
    spread = jax.lax.rsqrt(variance + shared.BATCH_NORM_EPSILON)
    return (x - mean) * spread * w[f"{name}.scale"] + w[f"{name}.offset"]


def cnn(w: Any, x: Any, averages: Any) -> Any:
    x = jax.nn.relu(normalized(w, "stem", x, averages))
    for name, _, _, stride in shared.residual_blocks():
        y = jax.nn.relu(normalized(w, f"{name}.first", x, averages, stride))
        y = normalized(w, f"{name}.second", y, averages)
        if stride > 1:
            x = normalized(w, f"{name}.shortcut", x, averages, stride)
        x = jax.nn.relu(y + x)
    return dense(w, "dense", x.mean((1, 2)))


def resnet50(w: Any, x: Any, averages: Any) -> Any:
    x = jax.nn.relu(normalized(w, "stem", x, averages, 2))
    around = ((0, 0), (1, 1), (1, 1), (0, 0))
    x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), around)
    for name, inputs, size, stride in shared.bottlenecks():
        y = jax.nn.relu(normalized(w, f"{name}.narrow", x, averages))
        y = jax.nn.relu(normalized(w, f"{name}.middle", y, averages, stride))
        y = normalized(w, f"{name}.wide", y, averages)
        if inputs != 4 * size:
            x = normalized(w, f"{name}.shortcut", x, averages, stride)
        x = jax.nn.relu(y + x)
    return dense(w, "dense", x.mean((1, 2)))


def layer_norm(w: Any, name: str, x: Any) -> Any:
    away = x - x.mean(-1, keepdims=True)
    spread = jax.lax.rsqrt((away * away).mean(-1, keepdims=True) + shared.LAYER_NORM_EPSILON)
    return away * spread * w[f"{name}.scale"] + w[f"{name}.offset"]


def transformer(w: Any, ids: Any, averages: Any) -> Any:
    x = w["embedding"][ids] + w["positions"]
    for i in range(shared.LAYERS):
        name = f"layer{i}"
        y = dense(w, f"{name}.attend", layer_norm(w, f"{name}.norm0", x))
        x = x + dense(w, f"{name}.project", attention(y, shared.HEADS, is_causal=True))
        y = jax.nn.gelu(dense(w, f"{name}.widen", layer_norm(w, f"{name}.norm1", x)), True)
        x = x + dense(w, f"{name}.narrow", y)
    return layer_norm(w, "norm", x) @ w["head"]


def attention(x: Any, heads: int, is_causal: bool) -> Any:
    """Attention of queries, keys and values that lie side by side."""
    batch, length, width = x.shape
    split = x.reshape(batch, length, 3, heads, width // (3 * heads))
    query, key, value = (split[:, :, part] for part in range(3))
    y = jax.nn.dot_product_attention(query, key, value, is_causal=is_causal)
    return y.reshape(batch, length, width // 3)


def minilm(w: Any, ids: Any, averages: Any) -> Any:
    x = layer_norm(w, "norm", w["embedding"][ids] + w["positions"])
    for i in range(shared.ENCODERS):
        name = f"layer{i}"
        y = attention(dense(w, f"{name}.attend", x), shared.ENCODER_HEADS, is_causal=False)
        x = layer_norm(w, f"{name}.norm0", x + dense(w, f"{name}.project", y))
        y = dense(w, f"{name}.narrow", jax.nn.gelu(dense(w, f"{name}.widen", x), False))
        x = layer_norm(w, f"{name}.norm1", x + y)
    return x.mean(1)
