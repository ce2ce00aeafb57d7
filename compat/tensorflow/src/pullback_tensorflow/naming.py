"""How names of one framework become those of another: arguments renamed, reordered, left out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pullback as pb
from pullback import errors

#: What TensorFlow's functions and layers take and nothing here needs.
IGNORED = frozenset({"scope", "reuse", "_scope", "_reuse", "use_locking"})


def op(target: str | Callable[..., Any], parameters: str) -> Callable[..., Any]:
    """A function under TensorFlow's names of its first arguments; it takes a `name` and drops it.

    Args:
        target: the name of an op, or a function.
        parameters: TensorFlow's names of the arguments, in the order of the target's.

    >>> from pullback.compat.tensorflow.naming import op
    >>> add = op("add", "x y")
    >>> float(add(1.0, y=2.0, name="sum"))
    3.0
    """
    names = parameters.split()
    function = getattr(pb, target) if isinstance(target, str) else target

    def mapped(*args: Any, name: str | None = None, **kwargs: Any) -> Any:
        given = list(args)
        for parameter in names[len(args) :]:
            if parameter not in kwargs:
                break
            given.append(kwargs.pop(parameter))
        return function(*given, **kwargs)

    mapped.__name__ = mapped.__qualname__ = getattr(function, "__name__", "mapped")
    mapped.__doc__ = function.__doc__
    return mapped


def translate(
    what: str,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    order: Sequence[str],
    renamed: Mapping[str, str],
    dropped: frozenset[str] = frozenset(),
) -> dict[str, Any]:
    """The arguments of a call by pullback's names.

    Args:
        what: what is called, for messages.
        args: the arguments by position.
        kwargs: the arguments by TensorFlow's names.
        order: TensorFlow's names of the arguments by position.
        renamed: pullback's name of those that have another.
        dropped: those that say nothing here, whatever they are.

    Raises:
        InputTypeError: for more arguments than names, or one that is given twice.
    """
    if len(args) > len(order):
        raise errors.InputTypeError(
            f"{what} takes {len(order)} arguments by position ({', '.join(order)}), got {len(args)}"
        )
    given = dict(zip(order, args, strict=False))
    twice = sorted(given.keys() & kwargs.keys())
    if twice:
        raise errors.InputTypeError(f"{what} got {', '.join(twice)} twice")
    given |= kwargs
    return {
        renamed.get(name, name): value
        for name, value in given.items()
        if name not in dropped | IGNORED
    }
