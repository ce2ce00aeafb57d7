"""The workloads in MLX, each step one compiled function that is waited for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mlx.core as mx
import numpy as np

from . import shared
from .shared import Block, Builder, Weights, repeat

Model = Callable[[Weights, Any], Any]


def builders(compiled: bool) -> dict[str, Builder]:
    """Those that are compared on MLX."""
    assert compiled

    def tokens() -> tuple[Any, Any]:
        return shared.symbols(8, shared.TOKENS, shared.VOCABULARY)

    mlps = ("mlp", shared.MLP, 32), ("mlp_wide", shared.MLP_WIDE, 256)
    return {
        **{
            name: lambda sizes=sizes, count=count: train(
                mlp, shared.mlp_weights(sizes), shared.features(count), shared.ADAM
            )
            for name, sizes, count in mlps
        },
        "transformer": lambda: train(
            transformer, shared.transformer_weights(), tokens(), shared.ADAMW
        ),
    }


def train(model: Model, weights: Weights, data: tuple[Any, Any], how: dict[str, float]) -> Block:
    x, labels = (mx.array(np.asarray(one)) for one in data)
    trained = {name: mx.array(one) for name, one in weights.items()}
    m, v = ({name: mx.zeros_like(w) for name, w in trained.items()} for _ in range(2))
    state = [trained, m, v, mx.array(0.0)]

    def loss_of(w: Weights) -> Any:
        logits = model(w, x)
        chosen = mx.take_along_axis(logits, labels[..., None], -1)[..., 0]
        return (mx.logsumexp(logits, -1) - chosen).mean()

    gradient_of = mx.value_and_grad(loss_of)
    beta1, beta2, rate = how["beta1"], how["beta2"], how["rate"]

    def update(state: Any) -> Any:
        trained, m, v, step = state
        loss, gradients = gradient_of(trained)
        step = step + 1
        first, second = 1 - beta1**step, 1 - beta2**step
        m = {name: beta1 * m[name] + (1 - beta1) * g for name, g in gradients.items()}
        v = {name: beta2 * v[name] + (1 - beta2) * g * g for name, g in gradients.items()}
        trained = {
            name: w
            - rate
            * (
                m[name] / first / (mx.sqrt(v[name] / second) + how["epsilon"])
                + how.get("decay", 0.0) * w
            )
            for name, w in trained.items()
        }
        return loss, [trained, m, v, step]

    compiled = mx.compile(update)

    def step() -> float:
        nonlocal state
        loss, state = compiled(state)
        mx.eval(loss, state)
        return float(loss)

    return repeat(step)


def dense(w: Weights, name: str, x: Any) -> Any:
    return x @ w[f"{name}.kernel"] + w[f"{name}.bias"]


def mlp(w: Weights, x: Any) -> Any:
    last = len(w) // 2 - 1
    for i in range(last):
        x = mx.maximum(dense(w, f"dense{i}", x), 0)
    return dense(w, f"dense{last}", x)


def layer_norm(w: Weights, name: str, x: Any) -> Any:
    scale, offset = w[f"{name}.scale"], w[f"{name}.offset"]
    return mx.fast.layer_norm(x, scale, offset, shared.LAYER_NORM_EPSILON)


def gelu(x: Any) -> Any:
    inner = 0.7978845608028654 * (x + 0.044715 * x * x * x)
    return 0.5 * x * (1 + mx.tanh(inner))


def transformer(w: Weights, ids: Any) -> Any:
    x = w["embedding"][ids] + w["positions"]
    for i in range(shared.LAYERS):
        name = f"layer{i}"
        y = dense(w, f"{name}.attend", layer_norm(w, f"{name}.norm0", x))
        x = x + dense(w, f"{name}.project", attention(y, shared.HEADS))
        y = gelu(dense(w, f"{name}.widen", layer_norm(w, f"{name}.norm1", x)))
        x = x + dense(w, f"{name}.narrow", y)
    return layer_norm(w, "norm", x) @ w["head"]


def attention(x: Any, heads: int) -> Any:
    batch, length, width = x.shape
    size = width // (3 * heads)
    query, key, value = x.reshape(batch, length, 3, heads, size).transpose(2, 0, 3, 1, 4)
    y = mx.fast.scaled_dot_product_attention(query, key, value, scale=size**-0.5, mask="causal")
    return y.transpose(0, 2, 1, 3).reshape(batch, length, width // 3)
