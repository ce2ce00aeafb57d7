"""Views: the tensors that one came from, and the error for a write into one.

Buffers are immutable: `x[0] = 1` gives the handle x another array, and so a write into a view would
not reach the tensor that it is a view of. NumPy's idiom of writing there raises, therefore. Ops
that say `view=True`, and indexing, mark their results with weak references.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, TypeAlias

from pullback import errors

if TYPE_CHECKING:
    from pullback.tensor import Tensor

#: What a tensor is a view of; None for a tensor that is no view.
Base: TypeAlias = "weakref.ref[Any] | tuple[weakref.ref[Any], ...] | None"


def base_of(x: Tensor) -> Base:
    """The base of a view of x: x, and what x itself is a view of and lives."""
    behind = _living(x._base)
    return (weakref.ref(x), *behind) if behind else weakref.ref(x)


def refuse_write(x: Tensor) -> None:
    """Raises for a write into a view, if a tensor that it is a view of lives.

    Raises:
        InputValueError: it says what to write instead.
    """
    if not _living(x._base):
        return
    raise errors.InputValueError(
        "x[...] = value: x is a view of another tensor (by indexing, reshape or the like), which "
        "the write would not change; write into that one, as in y[0, 1] = value in place of "
        "x = y[0]; x[1] = value, or into a copy: x = pb.asarray(x, copy=True)"
    )


def _living(base: Base) -> list[weakref.ref[Any]]:
    if base is None:
        return []
    every = base if isinstance(base, tuple) else (base,)
    return [one for one in every if one() is not None]
