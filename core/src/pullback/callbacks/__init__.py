"""Callbacks for `model.fit`: checkpoints, logs, learning rates and early stopping."""

from __future__ import annotations

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
