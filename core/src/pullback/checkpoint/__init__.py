"""Checkpoints: the state of objects in a folder, which is complete or absent."""

from __future__ import annotations

from pullback.checkpoint.checkpoint import Checkpoint
from pullback.checkpoint.manager import CheckpointManager
from pullback.checkpoint.models import load_model, save_model
from pullback.checkpoint.reading import latest_checkpoint
from pullback.checkpoint.restoration import Restoration
from pullback.checkpoint.weights import Loaded, load_weights, save_weights

__all__ = [
    "Checkpoint",
    "CheckpointManager",
    "Loaded",
    "Restoration",
    "latest_checkpoint",
    "load_model",
    "load_weights",
    "save_model",
    "save_weights",
]
