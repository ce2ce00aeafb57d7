"""What happens around `import pullback`: nothing is looked through for garbage meanwhile.

Nearly all that is made there stays. Python would go through it several times over, in a
fifth of the time that the import takes.
"""

from __future__ import annotations

import gc


class uncollected:
    """No garbage is collected inside `with uncollected():`; afterwards as before, come what may."""

    __slots__ = ("_collecting",)

    def __enter__(self) -> None:
        self._collecting = gc.isenabled()
        gc.disable()

    def __exit__(self, *_: object) -> None:
        if self._collecting:
            gc.enable()
