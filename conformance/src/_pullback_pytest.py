"""The options of `pytest --pyargs pullback_conformance --backend NAME`.

pytest takes options from installed plugins, not from packages that `--pyargs` names, so this is a
plugin. Every run of pytest loads it where pullback is installed. Therefore it stands beside the
package, does not import it, and adds nothing to runs that do not name the kit.
"""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Adds the options to a run of the conformance kit."""
    config = pluginmanager.get_plugin("pytestconfig")
    words = config.invocation_params.args if isinstance(config, pytest.Config) else ()
    if not any(str(word).startswith("pullback_conformance") for word in words):
        return
    group = parser.getgroup("pullback", "conformance of a backend of pullback")
    group.addoption("--backend", metavar="NAME", help="the backend, or one of its devices")
    group.addoption("--ops", metavar="GLOB,...", default="", help="only these ops")
    group.addoption(
        "--quick", action="store_true", help="each sample in one dtype, and few gradients"
    )
