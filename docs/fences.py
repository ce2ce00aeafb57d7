"""For mkdocstrings: the examples in docstrings become blocks of code."""

from __future__ import annotations

import re
from typing import Any

import griffe

_EXAMPLE = re.compile(r"^( *)>>>.*(?:\n(?! *$).*)*", re.MULTILINE)


class Fences(griffe.Extension):
    """Puts fences round the examples of every docstring."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = _EXAMPLE.sub(
                r"```pycon\n\g<0>\n```", obj.docstring.value
            )
