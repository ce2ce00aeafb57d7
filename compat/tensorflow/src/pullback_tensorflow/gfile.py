"""`tf.gfile`: files by the names of Google's library."""

from __future__ import annotations

import glob
import os
import shutil

__all__ = [
    "DeleteRecursively",
    "Exists",
    "GFile",
    "Glob",
    "IsDirectory",
    "ListDirectory",
    "MakeDirs",
]

GFile = Open = open
Exists, IsDirectory, ListDirectory, Remove = os.path.exists, os.path.isdir, os.listdir, os.remove
Glob, DeleteRecursively = glob.glob, shutil.rmtree


def MakeDirs(dirname: str) -> None:
    """Makes a folder and those that it is in."""
    os.makedirs(dirname, exist_ok=True)
