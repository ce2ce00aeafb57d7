"""A small model of everything: tokens, attention, norms, convolution, dropout, AdamW."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import pullback as pb


def make_step(device: pb.Device | str) -> Callable[[], pb.Tensor]:
    """A function that takes one training step on a device and gives the loss, unread."""
    layers = pb.layers
    rng = np.random.default_rng(0)
    with pb.device(device):
        pb.random.seed(0)
        embed = layers.Embedding(50, 16)
        attend = layers.MultiHeadAttention(2, 8)
        convolve = layers.Conv1D(16, 3, padding="same", activation="gelu")
        norms = [layers.LayerNormalization(), layers.BatchNormalization()]
        drop, dense = layers.Dropout(0.2), layers.Dense(10)
        tokens = pb.asarray(rng.integers(0, 50, (4, 12)))
        labels = pb.asarray(rng.integers(0, 10, (4, 12)))
    optimizer = pb.optimizers.AdamW(0.01)
    parts = [embed, attend, convolve, *norms, drop, dense]

    def step() -> pb.Tensor:
        with pb.device(device), pb.GradientTape() as tape:
            x = embed(tokens)
            x = norms[0](x + attend(x, x))
            x = norms[1](convolve(x), training=True)
            logits = dense(drop(x, training=True))
            loss = pb.losses.sparse_softmax_cross_entropy(labels, logits)
        variables = [v for part in parts for v in part.trainable_variables]
        gradients = tape.gradient(loss, variables)
        optimizer.apply_gradients(zip(gradients, variables, strict=True))
        return loss

    return step


def losses(device: pb.Device | str, count: int) -> list[float]:
    """The losses of the first steps."""
    step = make_step(device)
    return [float(step()) for _ in range(count)]
