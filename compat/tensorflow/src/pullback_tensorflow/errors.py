"""`tf.errors`: what the guides catch."""

from __future__ import annotations

from pullback.errors import (
    CheckpointError,
    InputTypeError,
    InputValueError,
    OutOfMemoryError,
    ShapeError,
)

__all__ = ["InvalidArgumentError", "NotFoundError", "OutOfRangeError", "ResourceExhaustedError"]

#: The end of a dataset.
OutOfRangeError = StopIteration
InvalidArgumentError = (ShapeError, InputValueError)
NotFoundError = CheckpointError
ResourceExhaustedError = OutOfMemoryError


class EagerError(InputTypeError, RuntimeError):
    """What only graphs have was asked for; TensorFlow's eager mode raises a RuntimeError."""
