"""`CheckpointManager`: the latest checkpoints of a run, and the best ones."""

from __future__ import annotations

import functools
import math
import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pullback import errors
from pullback._closing import Closing
from pullback._dispatch.arguments import as_bool
from pullback._replacing import as_path
from pullback.checkpoint import folder, names, reading
from pullback.checkpoint.checkpoint import Checkpoint
from pullback.checkpoint.manifest import Contents
from pullback.checkpoint.restoration import Restoration
from pullback.checkpoint.together import agreed, number_of, several
from pullback.checkpoint.writer import CheckpointWriter
from pullback.shapes import as_int, check_choice

if TYPE_CHECKING:
    from pullback.distributed.world import World

__all__ = ["CheckpointManager"]


class CheckpointManager(Closing):
    """Saves checkpoints into one folder, and keeps the latest and the best of them.

    Use one manager for a folder and a name: it cleans up after processes that died while they
    saved.

    Args:
        checkpoint: the checkpoint to save.
        directory: the folder, which is made when it is first needed.
        keep: the number of newest checkpoints to keep; None keeps all.
        keep_best: the number of checkpoints with the best metrics to keep as well.
        better: the better metrics, "lower" or "higher".
        background: the number of checkpoints that may wait while a thread writes them. `save` then
            takes a snapshot, which costs almost nothing since buffers never change, and returns;
            if there is no room, it waits. 0 writes them in `save`.
        name: the beginning of their names.
        sharded: True if all ranks of `pb.distributed` save together, each a part of a checkpoint,
            into a folder that all of them see; the first rank removes old ones.

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
        InputTypeError: for a name that is not a str.
        InputValueError: for a `keep` below 1, for negative numbers, for a name that begins with a
            dot, has a slash, or has neither letter nor digit, and for `sharded` in the background.
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
        sharded: bool = False,
    ) -> None:
        if keep is not None and as_int(keep, "keep: an integer") < 1:
            raise errors.InputValueError(f"keep must be at least 1, or None for all, got {keep}")
        if (
            min(
                as_int(keep_best, "keep_best: an integer"),
                as_int(background, "background: an integer"),
            )
            < 0
        ):
            raise errors.InputValueError(
                f"keep_best and background must be at least 0, got {keep_best} and {background}"
            )
        if as_bool(sharded, "sharded") and background:
            raise errors.InputValueError(
                "sharded: ranks that write together wait for each other, which a thread beside "
                "training cannot; leave background out"
            )
        check_choice(better, "better", ("lower", "higher"))
        self.checkpoint = checkpoint
        self._sharded = sharded
        self._prefix = as_path(directory, "directory") / names.checked(name)
        # The thread refers to the shelf, not to the manager, and ends with it.
        self._shelf = _Shelf(self._prefix, keep, keep_best, 1 if better == "lower" else -1)
        self._writer = CheckpointWriter(background) if background else None
        #: The highest number of a checkpoint that may not have been written yet.
        self._highest = 0

    # Finding -------------------------------------------------------------------------------------

    @property
    def checkpoints(self) -> list[str]:
        """The paths of all checkpoints, by number."""
        return [str(path) for path in names.numbered(self._prefix)]

    @property
    def latest(self) -> str | None:
        """The path of the newest complete checkpoint of this name; None if there is none."""
        return reading.newest(self._prefix)

    @property
    def best(self) -> str | None:
        """The path of the checkpoint with the best metric; None if none has a metric."""
        ranked, _ = self._shelf.ranked(names.numbered(self._prefix))
        return str(ranked[0]) if ranked else None

    # Saving --------------------------------------------------------------------------------------

    def save(self, step: int | None = None, *, metric: float | None = None) -> str:
        """Saves a checkpoint, removes old ones, and returns the path.

        If an old one cannot be removed, that is a warning; the next save tries again.

        Args:
            step: the number of the checkpoint; if None, one more than the highest.
            metric: the metric of the state, for `keep_best`. NaN is never the best.

        Raises:
            CheckpointError: as `Checkpoint.save`, and if a checkpoint could not be written in the
                background since the last call. Nothing is removed then.
            InputValueError: for a number below 0.
        """
        number = None if step is None else as_int(step, "an integer for step")
        ranks = self._ranks
        path, contents = agreed(
            ranks,
            functools.partial(self._place, number),
            functools.partial(self.checkpoint.contents, number, metric),
        )
        if self._writer is None:
            self._shelf.write(path, contents, ranks)
        else:
            self._writer.put(functools.partial(self._shelf.write, path, contents))
            self._highest = max(self._highest, int(path.name.rpartition("-")[2]))
        return str(path)

    @property
    def _ranks(self) -> World | None:
        return several() if self._sharded else None

    def _place(self, number: int | None) -> Path:
        path = names.place(self._prefix, number)
        if number is None and self._highest:
            following = max(self._highest + 1, int(path.name.rpartition("-")[2]))
            path = names.place(self._prefix, following)
        return path

    def wait(self) -> None:
        """Returns once everything saved has been written.

        Raises:
            CheckpointError: if a checkpoint could not be written.
        """
        if self._writer is not None:
            self._writer.wait()

    def close(self) -> None:
        """Waits, and ends the thread that writes; saving again starts another.

        Raises:
            CheckpointError: if a checkpoint could not be written.
        """
        if self._writer is not None:
            self._writer.close()

    # Restoring -----------------------------------------------------------------------------------

    def restore_latest(self, *, partial: bool = False) -> Restoration | None:
        """Restores the newest complete checkpoint; returns None if there is none.

        Raises:
            CheckpointError: as `Checkpoint.restore`, and as `wait`.
        """
        return self._restore("latest", partial)

    def restore_best(self, *, partial: bool = False) -> Restoration | None:
        """Restores the checkpoint with the best metric; returns None if there is none.

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
                # Another process that saves may have removed it since.
                if path is None or reading.seen(Path(path)) is not None:
                    raise

    def clear(self) -> None:
        """Removes every checkpoint of this name from the folder; if sharded, the first rank does.

        Raises:
            CheckpointError: as `wait`, and for errors of the file system.
        """
        self.wait()
        self._highest = 0
        if number_of(self._ranks):
            return
        for path in names.numbered(self._prefix):
            folder.remove(path)
        folder.tidy_all(self._prefix)


class _Shelf:
    """Writes checkpoints, and removes those that are not kept."""

    def __init__(self, prefix: Path, keep: int | None, keep_best: int, sign: int) -> None:
        self.prefix = prefix
        self.keep = keep
        self.keep_best = keep_best
        self.sign = sign
        self.is_tidy = False

    def write(self, path: Path, contents: Contents, ranks: World | None = None) -> None:
        """Writes a checkpoint, then removes those that are not kept: the first rank does."""
        if number_of(ranks):
            folder.write(path, contents, ranks)
            return
        was_tidy = self.is_tidy or folder.tidy_all(self.prefix)
        self.is_tidy = False
        is_alone = folder.write(path, contents, ranks)
        self.is_tidy = self._remove_others(path) and is_alone and was_tidy

    def _remove_others(self, path: Path) -> bool:
        """Removes checkpoints that are not kept; returns False if some could not be removed.

        The saved ones are safe, so that training goes on.
        """
        is_done = True
        if self.keep is None:
            return is_done
        try:
            paths = names.numbered(self.prefix)
        except errors.CheckpointError as error:
            warnings.warn(f"nothing is removed: {error}", RuntimeWarning, stacklevel=2)
            return False
        others = [other for other in paths if other != path]
        kept = {path, *others[max(len(others) - self.keep + 1, 0) :]}
        if self.keep_best:
            best, unknown = self.ranked(paths)
            # An unknown one may be the best.
            kept.update([*best[: self.keep_best], *unknown])
        for old in paths:
            if old not in kept:
                try:
                    folder.remove(old)
                except errors.CheckpointError as error:
                    warnings.warn(str(error), RuntimeWarning, stacklevel=2)
                    is_done = False
        return is_done

    def ranked(self, paths: list[Path]) -> tuple[list[Path], list[Path]]:
        """Returns the paths with a metric, best first, and those that cannot be read.

        Among equal metrics the later comes first.
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
