"""The training loop of models: `compile`, `fit`, `evaluate`, `predict`."""

from __future__ import annotations

from pullback.training.trainable import Trainable

__all__ = ["Trainable"]
