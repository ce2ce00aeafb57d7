"""`tf.keras.activations`."""

from __future__ import annotations

from pullback_tensorflow.naming import op

__all__ = [
    "elu", "hard_sigmoid", "relu", "selu", "sigmoid", "softmax", "softplus", "softsign", "tanh",
]  # fmt: skip

elu, hard_sigmoid, relu, selu, sigmoid, softmax, softplus, softsign, tanh = (
    op(name, "x") for name in __all__
)
