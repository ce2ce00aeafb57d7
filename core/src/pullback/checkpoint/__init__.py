"""What outlives a process: the state of objects, in a folder that is whole or not there."""

from __future__ import annotations

from pullback.checkpoint.checkpoint import Checkpoint
from pullback.checkpoint.folder import latest_checkpoint
from pullback.checkpoint.manager import CheckpointManager
from pullback.checkpoint.restoration import Restoration

__all__ = ["Checkpoint", "CheckpointManager", "Restoration", "latest_checkpoint"]
