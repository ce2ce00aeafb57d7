"""`tf.errors`: the exceptions that the guides catch."""

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
    """A call that only graphs have; TensorFlow's eager mode raises a RuntimeError."""
