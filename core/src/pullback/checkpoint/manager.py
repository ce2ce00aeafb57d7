"""`CheckpointManager`: the last few checkpoints of a run, and the best of them."""

from __future__ import annotations

import functools
import math
import os
import warnings
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from pullback import errors
from pullback.checkpoint import folder, names, reading
from pullback.checkpoint.checkpoint import Checkpoint
from pullback.checkpoint.manifest import Contents
from pullback.checkpoint.restoration import Restoration
from pullback.checkpoint.writer import Writer

__all__ = ["CheckpointManager"]


class CheckpointManager:
    """Saves checkpoints into one folder, and keeps the last and the best of them.

    There is one manager for a folder and a name: it removes what processes left that died while
    they saved.

    Args:
        checkpoint: what is saved.
        directory: where; the folder is made when it is first needed.
        keep: how many checkpoints stay, the newest; None keeps all.
        keep_best: how many stay besides, those with the best metrics.
        better: which metrics are better, the "lower" or the "higher" ones.
        background: how many checkpoints may wait while a thread writes them. `save` then takes a
            snapshot, which costs next to nothing since buffers never change, and returns; when
            there is no room, it waits. 0 writes them in `save`.
        name: what their names begin with.

    >>> import tempfile
    >>> model = pb.Sequential([pb.layers.Dense(1)])
    >>> checkpoint = pb.Checkpoint(model=model)
    >>> folder = tempfile.mkdtemp()
    >>> with pb.CheckpointManager(checkpoint, folder, keep=1, keep_best=1, background=2) as manager:
    ...     for step, loss in enumerate([0.5, 0.1, 0.3]):
    ...         _ = manager.save(step=step, metric=loss)
    >>> [path[-6:] for path in manager.checkpoints], manager.best[-6:]
    (['ckpt-1', 'ckpt-2'], 'ckpt-1')

    Raises:
        InputValueError: for numbers below 1, or 0 where that is allowed, and for a name that
            begins with a dot, has a slash, or has neither letter nor digit.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        directory: str | os.PathLike[str],
        *,
        keep: int | None = 5,
        keep_best: int = 0,
        better: Literal["lower", "higher"] = "lower",
        background: int = 0,
        name: str = "ckpt",
    ) -> None:
        if keep is not None and keep < 1:
            raise errors.InputValueError(f"keep is at least 1, or None for all, got {keep}")
        if keep_best < 0 or background < 0:
            raise errors.InputValueError(
                f"keep_best and background are at least 0, got {keep_best} and {background}"
            )
        if better not in ("lower", "higher"):
            raise errors.InputValueError(f"better is 'lower' or 'higher', got {better!r}")
        self.checkpoint = checkpoint
        self._prefix = Path(directory) / names.checked(name)
        # What the thread works with: it does not hold the manager, and ends with it.
        self._shelf = _Shelf(self._prefix, keep, keep_best, 1 if better == "lower" else -1)
        self._writer = Writer(background) if background else None
        #: The highest number given to a checkpoint that may not have been written yet.
        self._given = 0

    # What there is -------------------------------------------------------------------------------

    @property
    def checkpoints(self) -> list[str]:
        """The paths of the checkpoints there are, by number."""
        return [str(path) for path in names.numbered(self._prefix)]

    @property
    def latest(self) -> str | None:
        """The path of the newest whole checkpoint of this name; None when there is none."""
        return reading.newest(self._prefix)

    @property
    def best(self) -> str | None:
        """The path of the checkpoint with the best metric; None when none has one."""
        ranked, _ = self._shelf.ranked(names.numbered(self._prefix))
        return str(ranked[0]) if ranked else None

    # Saving --------------------------------------------------------------------------------------

    def save(self, step: int | None = None, *, metric: float | None = None) -> str:
        """Saves, then removes what is not kept; gives the path, now or soon.

        What cannot be removed is a warning; the next save tries it again.

        Args:
            step: the number of the checkpoint; without it, one more than the highest there is.
            metric: how good the state is, for `keep_best`. What is no number is never the best.

        Raises:
            CheckpointError: as `Checkpoint.save`, and for a checkpoint that could not be written
                in the background since the last call. Nothing is removed then.
            InputValueError: for a number below 0.
        """
        number = step if step is None else int(step)
        contents = self.checkpoint.contents(number, metric)
        path = names.place(self._prefix, number)
        if number is None and self._given:
            following = max(self._given + 1, int(path.name.rpartition("-")[2]))
            path = names.place(self._prefix, following)
        if self._writer is None:
            self._shelf.write(path, contents)
        else:
            self._writer.put(functools.partial(self._shelf.write, path, contents))
            self._given = max(self._given, int(path.name.rpartition("-")[2]))
        return str(path)

    def wait(self) -> None:
        """Returns when all that has been saved is written.

        Raises:
            CheckpointError: for a checkpoint that could not be written.
        """
        if self._writer is not None:
            self._writer.wait()

    def close(self) -> None:
        """Waits, and ends the thread that writes; saving again begins another one.

        Raises:
            CheckpointError: for a checkpoint that could not be written.
        """
        if self._writer is not None:
            self._writer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    # Restoring -----------------------------------------------------------------------------------

    def restore_latest(self, *, partial: bool = False) -> Restoration | None:
        """Restores the newest whole checkpoint; None when there is none.

        Raises:
            CheckpointError: as `Checkpoint.restore`, and as `wait`.
        """
        return self._restore("latest", partial)

    def restore_best(self, *, partial: bool = False) -> Restoration | None:
        """Restores the checkpoint with the best metric; None when there is none.

        Raises:
            CheckpointError: as `Checkpoint.restore`, and as `wait`.
        """
        return self._restore("best", partial)

    def _restore(self, which: str, partial: bool) -> Restoration | None:
        self.wait()
        while True:
            path: str | None = getattr(self, which)
            try:
                return None if path is None else self.checkpoint.restore(path, partial=partial)
            except errors.CheckpointError:
                # Another process, which saves, may have removed it since.
                if path is None or reading.seen(Path(path)) is not None:
                    raise

    def clear(self) -> None:
        """Removes every checkpoint of this name from the folder.

        Raises:
            CheckpointError: as `wait`, and for one that the file system does not let go.
        """
        self.wait()
        self._given = 0
        for path in names.numbered(self._prefix):
            folder.remove(path)
        folder.tidy(self._prefix)


class _Shelf:
    """Where checkpoints are written, and which of them stay."""

    def __init__(self, prefix: Path, keep: int | None, keep_best: int, sign: int) -> None:
        self.prefix = prefix
        self.keep = keep
        self.keep_best = keep_best
        self.sign = sign
        self.is_tidy = False

    def write(self, path: Path, contents: Contents) -> None:
        """Writes a checkpoint, then removes what does not stay."""
        was_tidy = self.is_tidy or folder.tidy(self.prefix)
        self.is_tidy = False
        is_alone = folder.write(path, contents)
        self.is_tidy = self._remove_others(path) and is_alone and was_tidy

    def _remove_others(self, path: Path) -> bool:
        """Removes what does not stay; whether that could be done.

        What has been saved is safe, and a training need not end for what is too much.
        """
        is_done = True
        if self.keep is None:
            return is_done
        try:
            there = names.numbered(self.prefix)
        except errors.CheckpointError as error:
            warnings.warn(f"nothing is removed: {error}", RuntimeWarning, stacklevel=2)
            return False
        others = [one for one in there if one != path]
        kept = {path, *others[max(len(others) - self.keep + 1, 0) :]}
        if self.keep_best:
            best, unknown = self.ranked(there)
            # It may be the best, for all that can be seen now.
            kept.update([*best[: self.keep_best], *unknown])
        for old in there:
            if old not in kept:
                try:
                    folder.remove(old)
                except errors.CheckpointError as error:
                    warnings.warn(str(error), RuntimeWarning, stacklevel=2)
                    is_done = False
        return is_done

    def ranked(self, paths: list[Path]) -> tuple[list[Path], list[Path]]:
        """Those with a metric, the best first, and those that cannot be read.

        Of equal ones the later comes first.
        """
        numbers, unknown = [], []
        for path in reversed(paths):
            try:
                metric = reading.metric(path)
            except OSError:
                unknown.append(path)
                continue
            if metric is not None and not math.isnan(metric):
                numbers.append((self.sign * metric, path))
        return [path for _, path in sorted(numbers, key=lambda pair: pair[0])], unknown
