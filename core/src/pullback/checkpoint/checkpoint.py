"""`Checkpoint`: saves and restores the state of objects."""

from __future__ import annotations

import os
from typing import Any

from pullback import errors
from pullback.checkpoint import folder, names
from pullback.checkpoint.encoding import decode, is_data
from pullback.checkpoint.manifest import Contents
from pullback.checkpoint.objects import Graph
from pullback.checkpoint.restoration import Restoration
from pullback.state.objects import settle

__all__ = ["Checkpoint"]


class Checkpoint:
    """Objects whose state is saved and restored together, by the paths to it.

    Every variable that is found in them is saved, with the optimizers' slots, and the state of
    what has `checkpoint_state()` and `restore_state(state)`: random generators, dataset
    iterators, metrics. Numbers and strings, and lists and dicts of them, are saved as they are
    and restored as attributes of the checkpoint.

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
        InputValueError: for a name that the checkpoint has a method of.
    """

    def __init__(self, **objects: Any) -> None:
        for name, value in objects.items():
            if hasattr(type(self), name):
                raise errors.InputValueError(
                    f"a checkpoint has a method {name!r}; give the object another name"
                )
            setattr(self, name, value)

    def save(self, prefix: str | os.PathLike[str], *, step: int | None = None) -> str:
        """Saves all state in a new folder, which appears when it is whole.

        Args:
            prefix: a folder ("ckpt/" or one that exists), which gets "ckpt-1" and so on; or a
                folder and a stem ("ckpt/model"), which gives "ckpt/model-1".
            step: the number to append, such as the global step; without it, one more than the
                highest there is. A checkpoint with that number is replaced.

        Returns:
            The path of the checkpoint.

        Raises:
            CheckpointError: when an object has no form in a checkpoint, or the file system does
                not take it.
            InputValueError: for a stem that begins with a dot, and for a number below 0: neither
                is found again.
        """
        path = names.place(prefix, None if step is None else int(step))
        folder.write(path, self.contents(step))
        return str(path)

    def contents(self, step: int | None = None, metric: float | None = None) -> Contents:
        """The state now; later changes do not show in it.

        Raises:
            CheckpointError: when an object has no form in a checkpoint.
        """
        settle()
        measure = None if metric is None else float(metric)
        return Graph(vars(self)).contents(None if step is None else int(step), measure)

    def restore(self, path: str | os.PathLike[str] | None, *, partial: bool = False) -> Restoration:
        """Restores what was saved. What has no variable yet waits until a layer makes it.

        Args:
            path: a checkpoint, as `save` and `pb.latest_checkpoint` give it; with None, which
                the latter gives for an empty folder, nothing happens.
            partial: whether objects that the checkpoint knows nothing of stay as they are, and
                what it has and these objects have no place for is left out.

        Returns:
            What has been restored, what waits, and what did not match either way, by path.

        Raises:
            CheckpointError: when the checkpoint is missing or damaged, when shapes or dtypes
                differ, and, unless partial, when it lacks something, or has something more of
                objects that are built. Nothing is changed then. Last, for a state that its object
                does not take; what came before it has been restored then.
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
                    f"{os.fspath(path)}: it holds data called {name!r}, as no checkpoint that was "
                    f"saved can; it has been made by hand, so do not trust it"
                )
        lacking = [n for n, value in roots.items() if _is_plain(value) and n not in data]
        restoration.begin(partial=partial, data=tuple(lacking))
        for name, value in data.items():
            self._set(name, value)
        return restoration

    def _set(self, name: str, value: Any) -> None:
        """Restores plain data; a list or dict stays the object that others may hold."""
        there = getattr(self, name, None)
        if not is_data(there):
            return
        if isinstance(there, dict) and isinstance(value, dict):
            there.clear()
            there.update(value)
        elif isinstance(there, list) and isinstance(value, list):
            there[:] = value
        else:
            setattr(self, name, value)


def _is_plain(value: Any) -> bool:
    """Whether a value is data and nothing else: an empty list may yet be filled with layers."""
    return is_data(value) and not (isinstance(value, (list, tuple, dict)) and not value)
