"""From a definition to a fast function: `@op`, and what happens when an op is called."""

from __future__ import annotations

from pullback._dispatch.definition import Copy, OpFunction, op

__all__ = ["Copy", "OpFunction", "op"]
