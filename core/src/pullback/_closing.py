"""The base of objects that a `with` block closes."""

from __future__ import annotations

from typing import Self


class Closing:
    """An object with a `close` method, which a `with` block calls at its end."""

    __slots__ = ()

    def close(self) -> None:
        """Releases what the object holds."""
        raise NotImplementedError(f"{type(self).__name__}.close")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
