"""The CuPy backend of pullback: plain `gpu`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pullback.plugins.backend import Backend
from pullback.plugins.hookspecs import hookimpl
from pullback_cupy import driver

if TYPE_CHECKING:
    from pullback_cupy.backend import CuPyBackend as CuPyBackend
    from pullback_cupy.cuda_graphs import use_cuda_graphs as use_cuda_graphs
    from pullback_cupy.precision import use_tf32 as use_tf32

__all__ = ["pullback_register_backend"]


class Unusable(Backend):
    """The stand-in for the backend on a machine without a GPU, a driver or CuPy."""

    name = "cupy"
    kinds = ("gpu",)

    def __init__(self, problem: str) -> None:
        super().__init__()
        self._problem = problem

    def device_count(self, kind: str) -> int:
        """The number of GPUs, which is 0."""
        return 0

    def unusable(self) -> str:
        """The reason and the fix."""
        return self._problem


@hookimpl
def pullback_register_backend(register: Callable[..., None]) -> None:
    """Registers the backend, or a stand-in that says why it cannot be used."""
    problem = driver.problem()
    if problem is not None:
        register(Unusable(problem))
        return
    from pullback_cupy.backend import CuPyBackend

    register(CuPyBackend())


def __getattr__(name: str) -> Any:
    # CuPy takes half a second to import, and cannot be imported everywhere.
    if name == "CuPyBackend":
        from pullback_cupy.backend import CuPyBackend

        return CuPyBackend
    if name == "use_tf32":
        from pullback_cupy.precision import use_tf32

        return use_tf32
    if name == "use_cuda_graphs":
        from pullback_cupy.cuda_graphs import use_cuda_graphs

        return use_cuda_graphs
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
