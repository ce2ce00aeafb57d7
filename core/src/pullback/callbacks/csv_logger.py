"""The metrics of each epoch in a CSV file."""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping
from typing import TextIO

from pullback._replacing import as_path
from pullback.training.callback import Callback
from pullback.training.types import Logs

__all__ = ["CSVLogger"]


class CSVLogger(Callback):
    """Writes one line for each epoch, with its number and its metrics.

    A resumed run keeps the lines of the interrupted one; lines of epochs that are trained again
    are replaced.

    Args:
        path: the file; its folder is made.
        separator: the separator of columns.
        append: True to keep existing lines when a run begins at its first epoch.

    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "log.csv"
    >>> model = pb.Sequential([pb.layers.Dense(1, kernel_initializer="zeros")])
    >>> model.compile(pb.optimizers.SGD(0.0), "mean_squared_error")
    >>> log = pb.callbacks.CSVLogger(path)
    >>> _ = model.fit([[1.0]], [[2.0]], epochs=2, callbacks=[log], verbose=False)
    >>> path.read_text().split()
    ['epoch,loss', '0,4.0', '1,4.0']
    """

    writes = True

    def __init__(
        self, path: str | os.PathLike[str], *, separator: str = ",", append: bool = False
    ) -> None:
        self.path = as_path(path, "path")
        self.separator = separator
        self.append = append
        self._file: TextIO | None = None
        self._names: list[str] = []
        self._kept: list[dict[str, str]] = []

    def on_train_begin(self, logs: Logs) -> None:
        """Reads the lines to keep."""
        self._kept, self._names = [], []
        if self.path.is_file() and (self.append or self.run.epoch):
            with self.path.open(newline="", encoding="utf-8") as file:
                reader = csv.DictReader(file, delimiter=self.separator)
                self._kept = list(reader)
                self._names = list(reader.fieldnames or ())
            if not self.append:
                self._kept = [row for row in self._kept if _epoch(row) < self.run.epoch]

    def on_epoch_end(self, epoch: int, logs: Logs) -> None:
        """Writes the line of the epoch."""
        row = {"epoch": epoch, **logs}
        new = [name for name in row if name not in self._names]
        if self._file is None or new:
            # Metrics that begin later, such as those of a validation, add columns.
            self._names += new
            self._rewrite()
        assert self._file is not None
        csv.DictWriter(self._file, self._names, delimiter=self.separator).writerow(row)
        self._file.flush()
        self._kept.append({name: str(value) for name, value in row.items()})

    def _rewrite(self) -> None:
        self.close()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self.path.open("w", newline="", encoding="utf-8")
        writer = csv.DictWriter(self._file, self._names, delimiter=self.separator)
        writer.writeheader()
        writer.writerows(self._kept)

    def close(self) -> None:
        """Closes the file."""
        if self._file is not None:
            self._file.close()
            self._file = None


def _epoch(row: Mapping[str, str]) -> float:
    try:
        return float(row["epoch"])
    except (KeyError, TypeError, ValueError):
        return float("inf")
