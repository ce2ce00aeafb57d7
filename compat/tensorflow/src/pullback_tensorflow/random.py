"""`tf.random`."""

from __future__ import annotations

from pullback_tensorflow.arrays import (
    multinomial,
    random_normal,
    random_shuffle,
    random_uniform,
    truncated_normal,
)
from pullback_tensorflow.basics import set_random_seed

__all__ = [
    "categorical",
    "multinomial",
    "normal",
    "set_random_seed",
    "shuffle",
    "truncated_normal",
    "uniform",
]

normal, uniform, shuffle = random_normal, random_uniform, random_shuffle
categorical = multinomial
