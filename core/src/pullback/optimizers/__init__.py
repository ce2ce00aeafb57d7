"""Optimizers: they move variables against gradients, and keep what they need for each."""

from __future__ import annotations

from pullback.optimizers import schedules
from pullback.optimizers.adaptive import Adadelta, Adagrad, RMSprop
from pullback.optimizers.algorithms import SGD, Adam, Adamax, AdamW, Lion, Nadam
from pullback.optimizers.optimizer import Optimizer

__all__ = [
    "SGD",
    "Adadelta",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Lion",
    "Nadam",
    "Optimizer",
    "RMSprop",
    "schedules",
]
