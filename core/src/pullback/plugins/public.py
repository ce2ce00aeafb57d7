"""Which backends, kernel packs and ops are installed, and how they are loaded.

Plugins are found by their entry points and speak through pluggy's hooks
(`pullback.plugins.hookspecs`):

    pullback.backends.cpu       name = "module"     backends that drive CPUs
    pullback.backends.gpu       name = "module"     backends that drive GPUs (one may be in both)
    pullback.default.cpu        name = "module"     the one backend that plain "cpu" means
    pullback.default.gpu        name = "module"     the one backend that plain "gpu" means
    pullback.kernels.<backend>  name = "module"     kernel packs for a backend
    pullback.ops                name = "module"     ops of other packages

The name of an entry is the name of the backend or pack, so what plain "cpu" means is known without
importing anything. The metadata is read once, at the first use. Each plugin is loaded on its own
when it is asked for; one that fails is kept with its reason and takes nothing else down. What has
been loaded stands in plain dicts.
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
    """Makes a backend usable that is not installed, as in a notebook or a test.

    Its devices are named in full ("mine:cpu:0"). A backend registered by hand is what plain "cpu"
    or "gpu" means only where no installed one is. What is wrong with a kernel is an error here; of
    an installed backend only that kernel is left out.

    Args:
        backend: an instance of a subclass of `pullback.plugins.backend.Backend`.
        replace: whether it may take the place of a backend of the same name. Tensors that are
            on the other's devices stay there.

    Raises:
        PluginError: when the name is taken, or something is wrong with the backend.
    """
    registry.register_backend(backend, replace=replace)


def backends() -> list[BackendInfo]:
    """Every backend that is installed or registered, with its state.

    Loads all of them, and never raises: a backend that cannot be used says why in its `state`.
    """
    return registry.info()


def ops_plugins() -> list[OpsInfo]:
    """Every installed plugin that brings ops, with its state.

    Loads all of them, and never raises: one that fails says why in its `state`.
    """
    return registry.ops()


def use_kernel_packs(names: Iterable[str] | None) -> None:
    """Chooses the kernel packs that are used from now on: those named, or None for all.

    Takes the place of the environment variable PULLBACK_KERNEL_PACKS (a comma list; empty: none).

    Raises:
        PluginError: when no such pack is installed.
    """
    registry.use_kernel_packs(names)
