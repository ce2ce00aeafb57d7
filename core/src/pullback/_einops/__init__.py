"""einops on tensors and variables: `einops.rearrange(x, "n h w c -> n c h w")` and its kin.

einops looks for a backend among the subclasses of its own `AbstractBackend`, and has no other way
for a library to make itself known. So the subclass is made when there are tensors and einops: at
the first tensor, or by `Watch` when einops is imported after it. A program without tensors, such as
one that only reads `pullback.__version__`, imports as it did before.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from pullback.devices import BEFORE_TENSORS

if TYPE_CHECKING:
    from importlib.abc import Loader
    from importlib.machinery import ModuleSpec
    from types import ModuleType

MODULE = "einops._backends"


def _register(backends: ModuleType) -> None:
    from pullback._einops.backend import register

    register(backends)


class ImportWatch:
    """Finds nothing of its own: it registers the backend once einops has been imported."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name != MODULE:
            return None
        import importlib.util

        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = Registering(spec.loader)  # type: ignore[assignment]
        return spec


class Registering:
    """A loader that hands the module over to the backend, and leaves no trace in it."""

    def __init__(self, loader: Loader) -> None:
        self.loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self.loader
        if module.__spec__ is not None:
            module.__spec__.loader = self.loader
        self.loader.exec_module(module)
        _register(module)


def _make_known() -> None:
    if MODULE in sys.modules:
        _register(sys.modules[MODULE])
    else:
        sys.meta_path.insert(0, ImportWatch())


BEFORE_TENSORS.append(_make_known)
