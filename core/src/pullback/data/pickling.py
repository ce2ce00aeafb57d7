"""Pipelines in pickles and copies."""

from __future__ import annotations

import copy
import os
import pickle
from collections.abc import Callable
from typing import Any, Self

from pullback import errors


class Pickled:
    """An object that is pickled where what users gave it is; an error names what is not.

    It holds functions and objects that can be pickled, such as `functools.partial` of a function
    at the top of a module, in place of closures.
    """

    #: What a user gave, such as "the function of map", and the function or object.
    _given: tuple[str, object] = ("", None)

    def given(self, what: str, part: object) -> Self:
        """Takes note of what a user gave."""
        self._given = (what, part)
        return self

    def __getstate__(self) -> dict[str, Any]:
        what, part = self._given
        if part is not None:
            check(what, part)
        return vars(self)

    def __copy__(self) -> Self:
        made = type(self).__new__(type(self))
        vars(made).update(vars(self))
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        made = memo[id(self)] = type(self).__new__(type(self))
        # As functions are, what users gave is not copied.
        memo[id(self._given[1])] = self._given[1]
        vars(made).update(copy.deepcopy(vars(self), memo))
        return made


def check(what: str, part: object, alternative: str = "") -> None:
    """Checks that what a user gave can be pickled.

    Args:
        what: what it is: "the function of map".
        part: the function or object.
        alternative: what else the user may do.

    Raises:
        InputTypeError: if it cannot; says what to write.
    """
    try:
        with open(os.devnull, "wb") as nowhere:
            pickle.dump(part, nowhere)
    except errors.PullbackError:
        raise  # it names a part of this one
    except Exception as error:
        name = getattr(part, "__name__", type(part).__name__)
        way_out = (
            "define it at the top of a module"
            if isinstance(part, Callable)  # type: ignore[arg-type]
            else "use from_generator(function), and make it in a function at the top of a module"
        )
        raise errors.InputTypeError(
            f"{what}, {name}, cannot be pickled, for copies or other processes: {error}; "
            f"{way_out}{alternative}"
        ) from error
