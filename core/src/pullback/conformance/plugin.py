"""The options of pytest for `pullback.conformance.test_backend`.

    pytest -p pullback.conformance.plugin --pyargs pullback.conformance --backend NAME

`-p` is needed: pytest reads no options from a package that it is told of by `--pyargs`, and an
entry point would be loaded into everybody's test runs.
"""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options."""
    group = parser.getgroup("pullback", "conformance of a backend of pullback")
    group.addoption("--backend", metavar="NAME", help="the backend, or one of its devices")
    group.addoption("--ops", metavar="GLOB,...", default="", help="only these ops")
    group.addoption(
        "--quick", action="store_true", help="each sample in one dtype, and few gradients"
    )
