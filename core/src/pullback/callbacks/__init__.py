"""Callbacks for `model.fit`: checkpoints, logs, learning rates and early stopping."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from pullback import _hints
from pullback._foreign_names.objects import CALLBACK
from pullback.callbacks.checkpoint import Checkpoint
from pullback.callbacks.csv_logger import CSVLogger
from pullback.callbacks.rates import LearningRateSchedule, ReduceLearningRateOnPlateau
from pullback.callbacks.stopping import EarlyStopping, TerminateOnNaN
from pullback.callbacks.tensorboard import TensorBoard
from pullback.training.callback import Callback, History
from pullback.training.progress import ProgressBar

__all__ = [
    "CSVLogger",
    "Callback",
    "Checkpoint",
    "EarlyStopping",
    "History",
    "LearningRateSchedule",
    "ProgressBar",
    "ReduceLearningRateOnPlateau",
    "TensorBoard",
    "TerminateOnNaN",
]


if not TYPE_CHECKING:
    __getattr__ = _hints.answer_module("pullback.callbacks")
    _hints.answer_calls(sys.modules[__name__])
    _hints.answer_attributes(Callback, CALLBACK)
