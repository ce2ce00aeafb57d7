"""`Checkpoint`: saves and restores the state of objects."""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping

from pullback import errors
from pullback._dispatch.arguments import as_bool
from pullback.checkpoint import folder, names
from pullback.checkpoint.encoding import decode, is_data
from pullback.checkpoint.manifest import Contents
from pullback.checkpoint.objects import ObjectGraph
from pullback.checkpoint.restoration import Restoration
from pullback.checkpoint.together import agreed, several
from pullback.shapes import as_int, check_number
from pullback.state.objects import restore_pending

__all__ = ["Checkpoint"]


class Checkpoint:
    """Objects whose state is saved and restored together, by path.

    A checkpoint holds every variable in them, the optimizers' slots, and the state of objects with
    `checkpoint_state()` and `restore_state(state)`: random generators, dataset iterators, metrics.
    Numbers and strings, and lists and dicts of them, are saved as they are and restored as
    attributes of the checkpoint.

    Args:
        objects: models, optimizers, variables, ... each by a name of your choice.

    >>> import tempfile
    >>> x = pb.Variable(10.0)
    >>> checkpoint = pb.Checkpoint(x=x, epoch=3)
    >>> path = checkpoint.save(tempfile.mkdtemp())
    >>> checkpoint.epoch, _ = 0, x.assign(11.0)
    >>> _ = checkpoint.restore(path)
    >>> float(x), checkpoint.epoch
    (10.0, 3)

    Raises:
        InputValueError: for the name of a method of the checkpoint.
    """

    def __init__(self, **objects: object) -> None:
        for name, value in objects.items():
            if hasattr(type(self), name):
                raise errors.InputValueError(
                    f"{name!r} is a method of a checkpoint; give the object another name"
                )
            setattr(self, name, value)

    def save(
        self, prefix: str | os.PathLike[str], *, step: int | None = None, sharded: bool = False
    ) -> str:
        """Saves all state in a new folder, which appears once it is complete.

        Args:
            prefix: a folder ("ckpt/" or an existing one), which gets "ckpt-1" and so on; or a
                folder and a stem ("ckpt/model"), for "ckpt/model-1".
            step: the number to append, such as the global step; if None, one more than the
                highest. A checkpoint with that number is replaced.
            sharded: True for a checkpoint that all ranks of `pb.distributed` write together, each a
                part, into a folder that all of them see. Any number of ranks restores it.

        Returns:
            The path of the checkpoint.

        >>> import tempfile
        >>> folder = tempfile.mkdtemp()
        >>> def train():
        ...     v = pb.Variable(1.0)
        ...     return pb.Checkpoint(v=v).save(folder, sharded=True)
        >>> first, second = pb.distributed.run_threads(train, 2)
        >>> v = pb.Variable(0.0)
        >>> pb.Checkpoint(v=v).restore(first).restored, float(v)
        (('v',), 1.0)

        Raises:
            CheckpointError: for an object that cannot be saved, and errors of the file system; if
                sharded, on all ranks.
            InputValueError: for a stem that begins with a dot, and for a number below 0: neither
                could be found again.
        """
        number = None if step is None else as_int(step, "an integer for step")
        ranks = several() if as_bool(sharded, "sharded") else None
        path, contents = agreed(
            ranks, lambda: names.place(prefix, number), lambda: self.contents(number)
        )
        folder.write(path, contents, ranks)
        return str(path)

    def contents(self, step: int | None = None, metric: float | None = None) -> Contents:
        """Returns a snapshot of the state; later changes do not affect it.

        Raises:
            CheckpointError: for an object that cannot be saved.
        """
        restore_pending()
        if metric is not None:
            check_number(metric, "metric")
        measure = None if metric is None else float(metric)
        number = None if step is None else as_int(step, "an integer for step")
        return ObjectGraph(vars(self)).contents(number, measure)

    def restore(self, path: str | os.PathLike[str] | None, *, partial: bool = False) -> Restoration:
        """Restores saved values. Those of variables that do not exist yet wait until they are made.

        Args:
            path: a checkpoint, from `save` or `pb.latest_checkpoint`. With None, which the latter
                returns for an empty folder (and raises for none), nothing happens.
            partial: True to restore only the paths that match: objects that the checkpoint lacks
                stay as they are, and saved values that no object takes are ignored.

        Returns:
            A report by path: restored, waiting, missing and unexpected.

        Raises:
            CheckpointError: for a missing or damaged checkpoint, for shapes or dtypes that differ
                and, unless partial, if it lacks values, or has more values than objects that are
                built can take. Also for a state that its object rejects. Nothing has been changed
                then.
        """
        roots = dict(vars(self))
        if path is None:
            return Restoration("", Contents({}, {}, {}, {}, {}, None, None), roots)
        contents = folder.read(path)
        try:
            data = {name: decode(value, contents.arrays) for name, value in contents.data.items()}
            restoration = Restoration(os.fspath(path), contents, roots)
        except errors.CheckpointError as error:
            raise errors.CheckpointError(f"{os.fspath(path)}: {error}") from None
        for name in data:
            if hasattr(Checkpoint, name) and name not in roots:
                raise errors.CheckpointError(
                    f"{os.fspath(path)}: it holds data called {name!r}, which no saved checkpoint "
                    f"can; it was made manually, so do not trust it"
                )
        missing = [n for n, value in roots.items() if _is_plain(value) and n not in data]
        restoration.begin(partial=partial, data=tuple(missing), last=lambda: self._set_all(data))
        return restoration

    def _set_all(self, data: Mapping[str, object]) -> None:
        """Restores plain data: all of it, or none if that fails."""
        before = {name: copy.deepcopy(getattr(self, name, None)) for name in data}
        try:
            for name, value in data.items():
                self._set(name, value)
        except BaseException:
            for name, value in before.items():
                self._set(name, value)
            raise

    def _set(self, name: str, value: object) -> None:
        """Restores plain data; a list or dict is changed in place, as others may refer to it."""
        old = getattr(self, name, None)
        if not is_data(old):
            return
        if isinstance(old, dict) and isinstance(value, dict):
            old.clear()
            old.update(value)
        elif isinstance(old, list) and isinstance(value, list):
            old[:] = value
        else:
            setattr(self, name, value)


def _is_plain(value: object) -> bool:
    """True if a value is data only; an empty list may yet be filled with layers."""
    return is_data(value) and not (isinstance(value, (list, tuple, dict)) and not value)
