"""Views: the tensors that one came from, and what is said of a write into one.

Buffers are immutable: `x[0] = 1` gives the handle x another array, and so a write into a view would
not reach the tensor that it is a view of. NumPy's idiom of writing there raises, therefore, and
`v += 1` warns, which binds v to a new tensor. Ops that say `view=True`, and indexing, mark their
results with weak references.
"""

from __future__ import annotations

import sys
import warnings
import weakref
from collections.abc import Callable
from opcode import opmap
from types import CodeType
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


def in_place(operator: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """The method of `v += w` from that of `v + w`, whose result takes the place of v."""

    def method(self: Tensor, other: object) -> Any:
        if self._base is not None and _living(self._base):
            caller = sys._getframe(1)
            if _binds_a_name(caller.f_code, caller.f_lasti):
                warnings.warn(_BINDS, RuntimeWarning, stacklevel=2)
        return operator(self, other)

    return method


_BINDS = (
    "v is a view of another tensor (by indexing, reshape or the like), and an operator in place, "
    "as in v += w, binds v to a new tensor: the other one stays as it is. Write v = v + w, or "
    "y[0] += w to change that one, y"
)
#: What may stand between an operator and the instruction that stores its result.
_BETWEEN = frozenset(opmap[name] for name in ("CACHE", "EXTENDED_ARG", "NOP", "SWAP"))
#: Those that store it as an item, as in `x[0] += 1`: it is written, and nothing is lost.
_ITEMS = frozenset(opmap[name] for name in ("STORE_SUBSCR", "STORE_SLICE") if name in opmap)
_OPERATOR = opmap["BINARY_OP"]
#: The answers for statements by the identity of their code, which is kept while its answer is.
_ANSWERS: dict[tuple[int, int], tuple[CodeType, bool]] = {}
_MOST_ANSWERS = 1000


def _binds_a_name(code: CodeType, last: int) -> bool:
    """Returns whether a frame is at a statement such as `v += w`, not at `x[0] += w` or a call."""
    known = _ANSWERS.get((id(code), last))
    if known is not None:
        return known[1]
    opcodes = code.co_code[last::2]
    answer = False
    if opcodes[0] == _OPERATOR:
        stored = next((one for one in opcodes[1:] if one not in _BETWEEN), None)
        answer = stored not in _ITEMS
    if len(_ANSWERS) >= _MOST_ANSWERS:
        _ANSWERS.clear()
    _ANSWERS[id(code), last] = code, answer
    return answer


def _living(base: Base) -> list[weakref.ref[Any]]:
    if base is None:
        return []
    every = base if isinstance(base, tuple) else (base,)
    return [one for one in every if one() is not None]
