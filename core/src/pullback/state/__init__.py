"""The state of plain objects: a walk over names, and how the objects were made.

>>> import pullback as pb
>>> [path for path in pb.state.named_variables({"a": [pb.Variable(1.0)]})]
['a/0']
"""

from __future__ import annotations

from pullback.state.objects import Place, Stateful, escape, join, named_variables, path_of, walk

__all__ = ["Place", "Stateful", "escape", "join", "named_variables", "path_of", "walk"]
