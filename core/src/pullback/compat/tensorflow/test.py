"""`tf.test`: what the guides ask of it."""

from __future__ import annotations

from pullback.compat.tensorflow.basics import is_gpu_available
from pullback.devices import devices

__all__ = ["gpu_device_name", "is_gpu_available"]


def gpu_device_name() -> str:
    """The name of the first GPU; nothing if there is none."""
    return str(devices("gpu")[0]) if is_gpu_available() else ""
