"""Kernels whose library warns of infinities, where a filter of the user's makes errors of warnings.

1/0 and log(-1) are inf and nan on every backend, and no error: a test suite with
`filterwarnings = error` gets the same results. A call costs nothing more where no kernel raises.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Any

from pullback.plugins.records import Kernel


def run_unwarned(kernel: Callable[..., Any], *inputs: Any, **attributes: Any) -> Any:
    """Calls a kernel, with what its library warns of ignored."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return kernel(*inputs, **attributes)


def unwarned(kernel: Kernel, *, updates: bool = False) -> Kernel:
    """A kernel for generated code: itself, unless warnings of numbers are errors now.

    Args:
        kernel: the kernel.
        updates: whether it writes its inputs, so that it cannot be called twice.
    """
    if not are_errors():
        return kernel

    def run(*inputs: Any, **attributes: Any) -> Any:
        if updates:
            return run_unwarned(kernel, *inputs, **attributes)
        try:
            return kernel(*inputs, **attributes)
        except RuntimeWarning:
            return run_unwarned(kernel, *inputs, **attributes)

    return run


def are_errors() -> bool:
    """Returns whether warnings of numbers are errors now."""
    for action, message, category, module, _ in warnings.filters:
        # The filters that the interpreter begins with have texts, such as "__main__".
        ours = module is None or re.match(module, __name__)
        if issubclass(RuntimeWarning, category) and ours:
            if action == "error":
                return True
            if message is None or module is not None:
                return False  # nothing behind it is looked at, or it is the NumPy backend's own
    return False
