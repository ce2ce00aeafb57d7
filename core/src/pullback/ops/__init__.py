"""The op specification: one family a file, each op one definition.

A family imports from families above it in this list; operators and methods of tensors serve where
a gradient rule needs one from below.
"""

from __future__ import annotations

from pullback.ops import arithmetic, creation, manipulation, reductions

__all__ = ["arithmetic", "creation", "manipulation", "reductions"]
