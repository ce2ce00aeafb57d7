"""Lines of programs: the frames that run now, or a traceback, without the framework's."""

from __future__ import annotations

import linecache
import os
import sys
from pathlib import Path
from types import FrameType

#: Frames of files below this folder are the framework's, and those of generated code.
_FRAMEWORK = str(Path(__file__).parents[1]), "<pullback "


def line_of_program() -> str:
    """The innermost line that runs now and is not the framework's: "train.py:12"."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = _PROGRAMS[frame.f_code.co_filename]
        if name:
            return f"{name}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


_MANY_FILES = 1 << 12


class _Programs(dict[str, str]):
    """The names of files without their folders; "" for those of the framework."""

    def __missing__(self, file: str) -> str:
        name = "" if file.startswith(_FRAMEWORK) else file.rpartition(os.sep)[2]
        if len(self) > _MANY_FILES:  # each function that is generated has one
            self.clear()
        self[file] = name
        return name


_PROGRAMS = _Programs()


def depth_of_program() -> int:
    """The number of frames of the framework that run now: `stacklevel` for a warning."""
    depth, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_FRAMEWORK):
        depth, frame = depth + 1, frame.f_back
    return depth


def line_of_traceback(error: BaseException) -> str:
    """The innermost line in an error's traceback that is not the framework's, with its text."""
    line = ""
    at = error.__traceback__
    while at is not None:
        file = at.tb_frame.f_code.co_filename
        if not file.startswith(_FRAMEWORK):
            text = linecache.getline(file, at.tb_lineno).strip()
            line = f"{os.path.basename(file)}:{at.tb_lineno}" + f" ({text})" * bool(text)
        at = at.tb_next
    return line
