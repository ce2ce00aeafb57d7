"""Optimizers: they move variables against gradients, and keep state for each variable."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from pullback import _hints
from pullback._foreign_names.objects import OPTIMIZER
from pullback.optimizers import schedules
from pullback.optimizers.adaptive import Adadelta, Adafactor, Adagrad, RMSprop
from pullback.optimizers.algorithms import LAMB, SGD, Adam, Adamax, AdamW, Lion, Nadam
from pullback.optimizers.lbfgs import LBFGS
from pullback.optimizers.loss_scale import LossScale
from pullback.optimizers.optimizer import Optimizer, OptimizerOptions

__all__ = [
    "LAMB",
    "LBFGS",
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


if not TYPE_CHECKING:
    __getattr__ = _hints.answer_module("pullback.optimizers")
    _hints.answer_calls(sys.modules[__name__])
    _hints.answer_attributes(Optimizer, OPTIMIZER, settings=("lr", "param_groups"))
