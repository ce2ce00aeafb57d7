"""Every exception that pullback raises on purpose, one class per kind of mistake.

All of them derive from `PullbackError`, and each also derives from the built-in exception that
Python's own types would raise in its place, so `except ValueError` keeps working.
A message names the op, the shapes, dtypes or devices that met, and the fix.
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "AxisError",
    "BackendError",
    "BackendNotFoundError",
    "CaptureError",
    "CheckpointError",
    "CommunicationError",
    "ConversionError",
    "DTypeError",
    "DataError",
    "DefinitionError",
    "DeviceError",
    "ExchangeError",
    "IndexingError",
    "InputTypeError",
    "InputValueError",
    "LayerError",
    "MissingKernelError",
    "NotDifferentiableError",
    "OutOfMemoryError",
    "PluginError",
    "PullbackError",
    "ShapeError",
    "SummaryError",
    "SymbolicError",
    "TapeError",
    "TrainingError",
    "VariableError",
]


class PullbackError(Exception):
    """The base of every exception raised on purpose."""

    #: The name of the op whose call failed.
    op: str | None = None


class ShapeError(PullbackError, ValueError):
    """Shapes that do not fit together, or a shape that is none."""


class AxisError(PullbackError, IndexError, ValueError):
    """An axis outside the array's rank, or one named twice."""


class DTypeError(PullbackError, TypeError):
    """A dtype that an op does not take, or two that do not promote to a common one."""


class DeviceError(PullbackError, ValueError):
    """An unknown device, or tensors on different ones."""


class InputTypeError(PullbackError, TypeError, ValueError):
    """An argument that cannot be used here: of another type, such as `axis=None` or `ord="fro"`."""


class InputValueError(PullbackError, ValueError):
    """An argument of the right type with a value outside what is allowed."""


class ConversionError(PullbackError, TypeError, ValueError):
    """A host value that cannot be an array: ragged lists, objects, numbers out of range."""


class ExchangeError(ConversionError, BufferError):
    """An array of another library that it does not hand over, or no backend here can take."""


class IndexingError(PullbackError, IndexError):
    """An index out of bounds, or of a form that indexing does not take."""


class OutOfMemoryError(PullbackError, MemoryError):
    """A result that does not fit into the memory of the device."""


class BackendError(PullbackError, RuntimeError):
    """A backend failed, or did not keep its contract."""


class BackendNotFoundError(BackendError):
    """No backend is installed that serves what was asked for."""


class MissingKernelError(BackendError, NotImplementedError):
    """The backend has no kernel for a primitive op."""

    #: The tier of the primitive, such as "linalg"; the backend need not have claimed it.
    tier: str = ""


class PluginError(BackendError):
    """A plugin registered something that cannot be registered."""


class DefinitionError(PullbackError, TypeError):
    """An op definition that contradicts itself."""


class SymbolicError(PullbackError, TypeError):
    """The values of a symbolic tensor, which has none until a model is called with data."""

    #: Keeps a call with symbolic tensors, for dispatch.
    apply: Any = None


class TapeError(PullbackError, RuntimeError):
    """A tape used in a way that it cannot serve, such as twice without persistent=True."""


class NotDifferentiableError(TapeError):
    """A gradient was asked for through something that has none."""


class VariableError(PullbackError, ValueError):
    """A variable used in a way that it does not allow."""


class LayerError(PullbackError, ValueError):
    """A layer called or built with inputs that do not fit it; names the layer's path."""


class CaptureError(PullbackError, RuntimeError):
    """A function that cannot be captured, or a tensor of a trace that was kept; names the line."""


class CheckpointError(PullbackError, RuntimeError):
    """A checkpoint or a saved program that is missing or damaged, or does not fit its objects."""


class CommunicationError(PullbackError, RuntimeError):
    """Processes that do not fit together: collectives that differ, a rank that has failed."""


class TrainingError(PullbackError, RuntimeError):
    """Training that cannot begin or go on: no optimizer, no data, a loss that is not a number."""


class DataError(PullbackError, RuntimeError):
    """Data that are damaged, missing, or of another form than was said; names the place."""


class SummaryError(PullbackError, RuntimeError):
    """Summaries that cannot be written: a folder that is not there, a writer that is closed."""
