"""The state of plain objects, by path, and the configurations that make them again.

>>> import pullback as pb
>>> [path for path in pb.state.named_variables({"a": [pb.Variable(1.0)]})]
['a/0']
"""

from __future__ import annotations

from pullback.state.objects import (
    StateEntry,
    Stateful,
    VariableList,
    escape,
    join,
    named_variables,
    path_of,
    walk,
)

__all__ = [
    "StateEntry",
    "Stateful",
    "VariableList",
    "escape",
    "join",
    "named_variables",
    "path_of",
    "walk",
]
