"""Checks whether this machine can run CuPy without importing it, which takes half a second."""

from __future__ import annotations

import ctypes
import importlib.util
import sys

_DRIVER = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"

#: How to install what is missing.
INSTALL_DRIVER = "install NVIDIA's driver, and see that `nvidia-smi` lists a GPU"
INSTALL_CUPY = (
    "pip install 'pullback-cupy[cuda13]', or [cuda12] where `nvidia-smi` shows CUDA Version 12"
)

_NO_DEVICE = 100  # CUDA_ERROR_NO_DEVICE


def problem() -> str | None:
    """The reason why CuPy cannot be used here, with the fix; None if CuPy can be imported."""
    try:
        driver = ctypes.CDLL(_DRIVER)
    except OSError:
        return f"no NVIDIA driver was found ({_DRIVER}); {INSTALL_DRIVER}"
    code = driver.cuInit(0)
    count = ctypes.c_int(0)
    if code == 0:
        code = driver.cuDeviceGetCount(ctypes.byref(count))
    if code not in (0, _NO_DEVICE):
        return f"the NVIDIA driver does not start (error {code}); {INSTALL_DRIVER}"
    if not count.value:
        return (
            "the NVIDIA driver shows no GPU; see what `nvidia-smi` and CUDA_VISIBLE_DEVICES say, "
            "and give a container its GPUs (docker run --gpus all)"
        )
    if importlib.util.find_spec("cupy") is None:
        return f"CuPy is not installed; {INSTALL_CUPY}"
    return None
