"""The description of the machine in the report."""

from __future__ import annotations

import importlib.metadata
import platform


def describe() -> str:
    """The GPU, the driver, and the versions of what is used."""
    import cupy

    runtime = cupy.cuda.runtime
    properties = runtime.getDeviceProperties(0)
    name = properties["name"].decode()
    capability = f"{properties['major']}.{properties['minor']}"
    memory = properties["totalGlobalMem"] >> 20
    versions = ", ".join(
        f"{package} {version}"
        for package in (
            "cupy-cuda12x",
            "cupy-cuda13x",
            "nvidia-cudnn-frontend",
            "numpy",
            "torch",
            "jax",
        )
        if (version := _version(package))
    )
    return (
        f"{runtime.getDeviceCount()} x {name} (sm {capability}, {memory} MiB); "
        f"driver for CUDA {runtime.driverGetVersion()}, runtime {runtime.runtimeGetVersion()}; "
        f"Python {platform.python_version()}; {versions}"
    )


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
