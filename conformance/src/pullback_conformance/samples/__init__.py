"""The samples of every op: one file per family, beside the op table."""

from __future__ import annotations

import importlib
import pkgutil

from pullback_conformance.sample import SUITES, Suite


def load() -> dict[str, Suite]:
    """Every suite, by op name."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    return SUITES
