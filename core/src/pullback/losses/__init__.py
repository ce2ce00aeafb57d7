"""Losses: one number for the distance between predictions and targets.

Each takes `weights`, which broadcast to the losses of the items, and a `reduction`: "mean" (the
weighted sum divided by the number of items), "sum", or "none" for the losses of the items.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pullback import _hints
from pullback.losses.classes import (
    dice,
    hinge,
    kl_divergence,
    negative_log_likelihood,
    sigmoid_cross_entropy,
    sigmoid_focal_cross_entropy,
    softmax_cross_entropy,
    sparse_softmax_cross_entropy,
    squared_hinge,
)
from pullback.losses.distances import (
    gaussian_negative_log_likelihood,
    huber,
    log_cosh,
    mean_absolute_error,
    mean_squared_error,
    pinball,
    poisson,
)
from pullback.losses.embeddings import cosine_distance, info_nce, triplet_margin

__all__ = [
    "cosine_distance",
    "dice",
    "gaussian_negative_log_likelihood",
    "hinge",
    "huber",
    "info_nce",
    "kl_divergence",
    "log_cosh",
    "mean_absolute_error",
    "mean_squared_error",
    "negative_log_likelihood",
    "pinball",
    "poisson",
    "sigmoid_cross_entropy",
    "sigmoid_focal_cross_entropy",
    "softmax_cross_entropy",
    "sparse_softmax_cross_entropy",
    "squared_hinge",
    "triplet_margin",
]

if not TYPE_CHECKING:
    __getattr__ = _hints.answer_module("pullback.losses")
