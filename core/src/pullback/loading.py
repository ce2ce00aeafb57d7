"""What happens around `import pullback`: nothing is looked through for garbage meanwhile.

Nearly all that is made there stays. Python would go through it several times over, in a
fifth of the time that the import takes.
"""

from __future__ import annotations

import gc

# What may be missing is missed before anything is switched off.
import ml_dtypes  # noqa: F401

_collecting = gc.isenabled()
gc.disable()


def done() -> None:
    """The import is over."""
    if _collecting:
        gc.enable()
