"""`tf.keras`, as far as the guides go into it."""

from __future__ import annotations

from pullback_tensorflow import initializers
from pullback_tensorflow.keras import activations, layers, losses, regularizers, utils
from pullback_tensorflow.keras.models import Model, Sequential

__all__ = [
    "Model", "Sequential", "activations", "initializers", "layers", "losses", "regularizers",
    "utils",
]  # fmt: skip
