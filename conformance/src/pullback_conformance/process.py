"""The state of the process that kernels share with the program that calls them."""

from __future__ import annotations

import locale
import os
import random
import signal
import sys
import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from pullback_conformance.compare import ConformanceError


def _generator() -> Any:
    name, keys, *rest = np.random.get_state()
    return name, hash(np.asarray(keys).tobytes()), *rest


def _foreign_filters() -> list[int]:
    """The filters but those of pullback's packages, which add theirs when they are imported."""
    return [id(one) for one in warnings.filters if "pullback" not in str(one[3])]


FILTERS = "the filters of warnings"
#: Parts of the state of a process, by name.
_PARTS: dict[str, Callable[[], Any]] = {
    "NumPy's error state (np.seterr)": np.geterr,
    "NumPy's random state (np.random.seed)": _generator,
    "NumPy's print options": np.get_printoptions,
    "the state of Python's random module": lambda: hash(random.getstate()),
    FILTERS: _foreign_filters,
    "the environment": lambda: dict(os.environ),
    "the working directory": os.getcwd,
    "the locale": lambda: locale.setlocale(locale.LC_ALL),
    "the handler of Ctrl-C": lambda: signal.getsignal(signal.SIGINT) if _is_main() else None,
    "the recursion limit": sys.getrecursionlimit,
    "the switch interval of threads": sys.getswitchinterval,
}


def _is_main() -> bool:
    return threading.current_thread() is threading.main_thread()


class ProcessState:
    """A snapshot; `check` compares the process with it.

    >>> state = ProcessState()
    >>> state.check("the op add")
    """

    def __init__(self) -> None:
        self.parts = {name: part() for name, part in _PARTS.items()}
        self._errors = np.geterr()
        self._options = np.get_printoptions()
        self._random = np.random.get_state()
        self._python = random.getstate()
        self._environment = dict(os.environ)
        self._filters = list(warnings.filters)
        self._folder = os.getcwd()

    def check(self, subject: object) -> None:
        """Checks that nothing has changed, and puts back what Python can.

        Raises:
            ConformanceError: with the parts that have changed.
        """
        changed = [name for name, part in _PARTS.items() if part() != self.parts[name]]
        if changed:
            words = self._filters_now() if FILTERS in changed else ""
            self._restore()
            raise ConformanceError(
                f"{subject}: changes {', '.join(changed)} for the whole process{words}; leave it "
                f"as it is, or put it back before the kernel returns"
            )

    def _filters_now(self) -> str:
        """The filters of warnings that are new or gone, and the usual reasons."""
        new = [one for one in warnings.filters if one not in self._filters]
        gone = [one for one in self._filters if one not in warnings.filters]
        shown = ", ".join(
            f"{action} {getattr(kind, '__name__', kind)}{f' of {module.pattern}' if module else ''}"
            for action, _, kind, module, *_ in (new or gone)[:3]
        )
        return (
            f" ({'new' if new else 'gone' if gone else 'moved'}: {shown or 'none'}; a module that "
            f"the library imports at its first call, which the backend can import itself, or "
            f"`warnings.catch_warnings` in several threads)"
        )

    def _restore(self) -> None:
        np.seterr(**self._errors)
        np.set_printoptions(**self._options)
        np.random.set_state(self._random)
        random.setstate(self._python)
        os.environ.clear()
        os.environ.update(self._environment)
        os.chdir(self._folder)
        warnings.filters[:] = self._filters  # type: ignore[index]
