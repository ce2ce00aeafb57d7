"""`tf.test`: what the guides ask of it."""

from __future__ import annotations

from pullback.devices import devices
from pullback_tensorflow.basics import is_gpu_available

__all__ = ["gpu_device_name", "is_gpu_available"]


def gpu_device_name() -> str:
    """The name of the first GPU; nothing if there is none."""
    return str(devices("gpu")[0]) if is_gpu_available() else ""
