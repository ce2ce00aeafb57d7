"""Optimizers: they move variables against gradients, and keep what they need for each."""

from __future__ import annotations

from pullback.optimizers import schedules
from pullback.optimizers.algorithms import SGD, Adam, Adamax, AdamW, Lion, Nadam
from pullback.optimizers.optimizer import Optimizer

__all__ = ["SGD", "Adam", "AdamW", "Adamax", "Lion", "Nadam", "Optimizer", "schedules"]
