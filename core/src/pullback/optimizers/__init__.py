"""Optimizers: they move variables against gradients, and keep state for each variable."""

from __future__ import annotations

from pullback.optimizers import schedules
from pullback.optimizers.adaptive import Adadelta, Adafactor, Adagrad, RMSprop
from pullback.optimizers.algorithms import LAMB, SGD, Adam, Adamax, AdamW, Lion, Nadam
from pullback.optimizers.loss_scale import LossScale
from pullback.optimizers.optimizer import Optimizer, OptimizerOptions

__all__ = [
    "LAMB",
    "SGD",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Lion",
    "LossScale",
    "Nadam",
    "Optimizer",
    "OptimizerOptions",
    "RMSprop",
    "schedules",
]
