"""The installed backends, kernel packs and ops, and how they are loaded.

Plugins are found by their entry points and implement pluggy's hooks
(`pullback.plugins.hookspecs`):

    pullback.backends.cpu       name = "module"     backends that drive CPUs
    pullback.backends.gpu       name = "module"     backends that drive GPUs (one may be in both)
    pullback.default.cpu        name = "module"     the only backend that plain "cpu" means
    pullback.default.gpu        name = "module"     the only backend that plain "gpu" means
    pullback.kernels.<backend>  name = "module"     kernel packs for a backend
    pullback.ops                name = "module"     ops of other packages

The name of an entry is the name of the backend or pack, so the meaning of plain "cpu" is known
without an import. The metadata is read once, at the first use. Each plugin is loaded on its own at
its first use. A plugin that fails is listed with the reason, and all others work. Loaded plugins
are kept in plain dicts.
"""

from __future__ import annotations

from collections.abc import Iterable

from pullback.plugins.backend import Backend
from pullback.plugins.kernel_packs import OpsInfo, PackInfo
from pullback.plugins.registry import BackendInfo, Registry

__all__ = [
    "BackendInfo",
    "OpsInfo",
    "PackInfo",
    "backends",
    "ops_plugins",
    "register_backend",
    "use_kernel_packs",
]

#: The plugins of this process.
registry = Registry()


def register_backend(backend: Backend, *, replace: bool = False) -> None:
    """Registers a backend that is not installed, as in a notebook or a test.

    Its devices are named in full ("mine:cpu:0"). Plain "cpu" and "gpu" mean a backend registered
    here only where no installed backend claims them. A kernel that cannot be called is an error
    here; of an installed backend only that kernel is left out.

    Args:
        backend: an instance of a subclass of `pullback.plugins.backend.Backend`.
        replace: True to replace a backend of the same name. Tensors on the devices of the replaced
            backend stay there.

    Raises:
        PluginError: when the name is taken, or the backend is invalid.
    """
    registry.register_backend(backend, replace=replace)


def backends() -> list[BackendInfo]:
    """All installed and registered backends, with their states.

    Loads all of them, and never raises: the `state` of a backend that cannot be used is the reason.
    """
    return registry.info()


def ops_plugins() -> list[OpsInfo]:
    """All installed plugins with ops, with their states.

    Loads all of them, and never raises: the `state` of a plugin that failed is the reason.
    """
    return registry.ops()


def use_kernel_packs(names: Iterable[str] | None) -> None:
    """Chooses the kernel packs that are used from now on; None for all.

    Overrides the environment variable PULLBACK_KERNEL_PACKS (a comma list; empty: none).

    Raises:
        PluginError: for the name of a pack that is not installed.
    """
    registry.use_kernel_packs(names)
