"""`CheckpointManager`: the last few checkpoints of a run."""

from __future__ import annotations

import os
from pathlib import Path

from pullback import errors
from pullback.checkpoint import folder
from pullback.checkpoint.checkpoint import Checkpoint
from pullback.checkpoint.restoration import Restoration

__all__ = ["CheckpointManager"]


class CheckpointManager:
    """Saves checkpoints into one folder and keeps the last of them.

    Args:
        checkpoint: what is saved.
        directory: where; the folder is made when it is first needed.
        keep: how many checkpoints stay; None keeps all.
        name: what their names begin with.

    >>> import tempfile
    >>> manager = pb.CheckpointManager(pb.Checkpoint(epoch=1), tempfile.mkdtemp(), keep=2)
    >>> paths = [manager.save(step=step) for step in (1, 2, 3)]
    >>> manager.checkpoints == paths[1:]
    True

    Raises:
        InputValueError: for `keep` below 1.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        directory: str | os.PathLike[str],
        *,
        keep: int | None = 5,
        name: str = "ckpt",
    ) -> None:
        if keep is not None and keep < 1:
            raise errors.InputValueError(f"keep is at least 1, or None for all, got {keep}")
        self.checkpoint = checkpoint
        self.keep = keep
        self._prefix = Path(directory) / name

    @property
    def checkpoints(self) -> list[str]:
        """The paths of the checkpoints there are, by number."""
        return [str(path) for path in folder.numbered(self._prefix)]

    @property
    def latest(self) -> str | None:
        """The path of the newest whole checkpoint; None when there is none."""
        return folder.latest_checkpoint(self._prefix.parent)

    def save(self, step: int | None = None) -> str:
        """Saves, then removes the oldest beyond what is kept; gives the path.

        Raises:
            CheckpointError: as `Checkpoint.save`. Nothing is removed then.
        """
        path = self.checkpoint.save(self._prefix, step=step)
        if self.keep is not None:
            others = [one for one in self.checkpoints if one != path]
            for old in others[: max(len(others) - self.keep + 1, 0)]:
                folder.remove(Path(old))
        return path

    def restore_latest(self, *, partial: bool = False) -> Restoration | None:
        """Restores the newest whole checkpoint; None when there is none.

        Raises:
            CheckpointError: as `Checkpoint.restore`.
        """
        latest = self.latest
        return None if latest is None else self.checkpoint.restore(latest, partial=partial)

    def clear(self) -> None:
        """Removes every checkpoint of this name from the folder."""
        for path in self.checkpoints:
            folder.remove(Path(path))
