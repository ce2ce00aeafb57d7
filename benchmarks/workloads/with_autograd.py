"""The workloads that NumPy autograd has ops for."""

from __future__ import annotations

from typing import Any

import autograd.numpy as np
from autograd import grad, value_and_grad

from . import shared
from .shared import Block, Builder, repeat


def builders(compiled: bool) -> dict[str, Builder]:
    assert not compiled
    x, y = shared.pair()
    return {
        "op_add": lambda: repeat(lambda: np.add(x, y)),
        "op_matmul": lambda: repeat(lambda: np.matmul(x, y)),
        "op_chain": lambda: repeat(lambda: chain(x)),
        "op_chain_grad": lambda: repeat(lambda: grad(chain)(x)),
        "linreg": linreg,
        "mlp": lambda: mlp(shared.MLP, 32),
        "mlp_wide": lambda: mlp(shared.MLP_WIDE, 256),
        "fusion_fwd": fusion_fwd,
        "fusion_grad": fusion_grad,
    }


def chain(x: Any) -> Any:
    return np.sum((x * 2 + 1) * x)


def linreg() -> Block:
    x, y = shared.line()
    state = [np.float32(5), np.float32(10)]

    def loss(state: Any) -> Any:
        error = state[0] * x + state[1] - y
        return np.mean(error * error)

    both = value_and_grad(loss)

    def step() -> float:
        value, gradients = both(state)
        state[:] = [w - np.float32(0.1) * g for w, g in zip(state, gradients, strict=True)]
        return float(value)

    return repeat(step)


def fused(x: Any) -> Any:
    return np.tanh(x * 1.5 + 0.5) * (1 / (1 + np.exp(-x))) + np.exp(-x * x)


def fusion_fwd() -> Block:
    x = shared.vector()
    return repeat(lambda: fused(x))


def fusion_grad() -> Block:
    x, gradient = shared.vector(), grad(lambda x: np.sum(fused(x)))
    return repeat(lambda: gradient(x))


def mlp(sizes: tuple[int, ...], batch: int) -> Block:
    x, labels = shared.features(batch)
    weights = list(shared.mlp_weights(sizes).values())
    m, v = ([np.zeros_like(w) for w in weights] for _ in range(2))
    rows, how, count = np.arange(batch), shared.ADAM, 0

    def loss(weights: Any) -> Any:
        y = x
        for i in range(0, len(weights), 2):
            y = np.dot(y, weights[i]) + weights[i + 1]
            if i + 2 < len(weights):
                y = np.maximum(y, 0)
        away = y - np.max(y, axis=1, keepdims=True)
        return np.mean(np.log(np.sum(np.exp(away), axis=1)) - away[rows, labels])

    both = value_and_grad(loss)

    def step() -> float:
        nonlocal count
        count += 1
        value, gradients = both(weights)
        for i, g in enumerate(gradients):
            m[i] = how["beta1"] * m[i] + (1 - how["beta1"]) * g
            v[i] = how["beta2"] * v[i] + (1 - how["beta2"]) * g * g
            root = np.sqrt(v[i] / (1 - how["beta2"] ** count)) + how["epsilon"]
            weights[i] = weights[i] - how["rate"] * m[i] / (1 - how["beta1"] ** count) / root
        return float(value)

    return repeat(step)
