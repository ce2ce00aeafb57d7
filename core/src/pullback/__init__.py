"""pullback: an eager deep-learning framework on an op specification, with pluggable backends.

    import pullback as pb

The namespace of this package is the array API's (`pullback.__array_api_version__`), with what
training needs beside it. What stands on tensors, such as `pb.layers` and `pb.Checkpoint`, is
imported when it is first asked for.
"""
# ruff: noqa: F401, F403  (a namespace: every family of ops brings its own `__all__`)

from __future__ import annotations

# NumPy first, and from here: each import nests some ten frames, and where CPython's stack grows by
# a piece in the midst of NumPy's own, that takes half as long again.
import numpy as np  # isort: skip
import pullback._loading as _loading  # isort: skip

# All that is imported; what is below gives names to it.
with _loading.uncollected():
    from pullback import _hints, _numpy, errors, fft, linalg, ops, random
    from pullback._autodiff.functional import *
    from pullback.variable import Variable

from importlib import import_module as _import_module
from math import e, inf, nan, pi
from typing import TYPE_CHECKING, Any

from pullback._autodiff.tape import GradientTape
from pullback._dispatch import op
from pullback._foreign_names.tensors import TAPE as _TAPE
from pullback._namespace.defaults import default_dtype, set_default_dtype
from pullback._namespace.dtypes import (
    bfloat16,
    complex64,
    complex128,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from pullback._namespace.dtypes import bool_ as bool
from pullback._namespace.info import (
    __array_api_version__,
    __array_namespace_info__,
    executing_eagerly,
)
from pullback._version import __version__
from pullback.devices import (
    Device,
    default_device,
    device,
    devices,
    set_default_device,
)
from pullback.dtypes import DType
from pullback.ops.arithmetic import *
from pullback.ops.comparison import *
from pullback.ops.complex import *
from pullback.ops.conversion import *
from pullback.ops.creation import *
from pullback.ops.cumulative import *
from pullback.ops.data_types import *
from pullback.ops.difference import *
from pullback.ops.exponential import *
from pullback.ops.indexing import *
from pullback.ops.joining import *
from pullback.ops.linalg.einsum import *
from pullback.ops.linalg.linear_algebra import *
from pullback.ops.logical import *
from pullback.ops.manipulation import *
from pullback.ops.nn.activations import *
from pullback.ops.nn.adaptive_pooling import *
from pullback.ops.nn.alignment import *
from pullback.ops.nn.attention import *
from pullback.ops.nn.batch_normalization import *
from pullback.ops.nn.convolution import *
from pullback.ops.nn.convolution_transpose import *
from pullback.ops.nn.losses import *
from pullback.ops.nn.normalization import *
from pullback.ops.nn.pooling import *
from pullback.ops.nn.recurrent import *
from pullback.ops.nn.recurrent_gru import *
from pullback.ops.nn.recurrent_lstm import *
from pullback.ops.nn.resize import *
from pullback.ops.nn.softmax import *
from pullback.ops.optim.adaptive_updates import *
from pullback.ops.optim.clipping import *
from pullback.ops.optim.optimizer_updates import *
from pullback.ops.optim.scaled_updates import *
from pullback.ops.padding import *
from pullback.ops.patterns import *
from pullback.ops.random import *
from pullback.ops.reductions import *
from pullback.ops.repeating import *
from pullback.ops.rounding import *
from pullback.ops.scattering import *
from pullback.ops.searching import *
from pullback.ops.selection import *
from pullback.ops.sets import *
from pullback.ops.slicing import *
from pullback.ops.sorting import *
from pullback.ops.special import *
from pullback.ops.trigonometric import *
from pullback.plugins.backend import Backend, Memory
from pullback.plugins.hookspecs import hookimpl
from pullback.plugins.public import *
from pullback.shapes import broadcast_shapes
from pullback.strings import StringTensor
from pullback.tensor import Tensor, TensorLike

newaxis = None

# The names of _LAZY and _LAZY_MODULES, for type checkers.
if TYPE_CHECKING:
    from pullback import callbacks as callbacks
    from pullback import checkpoint as checkpoint
    from pullback import conformance as conformance
    from pullback import data as data
    from pullback import layers as layers
    from pullback import losses as losses
    from pullback import metrics as metrics
    from pullback import optimizers as optimizers
    from pullback import state as state
    from pullback import summary as summary
    from pullback import training as training
    from pullback._autodiff.custom_gradient import custom_gradient as custom_gradient
    from pullback.checkpoint import Checkpoint as Checkpoint
    from pullback.checkpoint import CheckpointManager as CheckpointManager
    from pullback.checkpoint import latest_checkpoint as latest_checkpoint
    from pullback.graph.function import function as function
    from pullback.layers import Model as Model
    from pullback.layers import Sequential as Sequential
    from pullback.random import Generator as Generator

#: Names from levels above the tensors: the module that each is imported from on first use.
_LAZY = {
    "Checkpoint": "pullback.checkpoint",
    "CheckpointManager": "pullback.checkpoint",
    "Generator": "pullback.random",
    "Model": "pullback.layers",
    "Sequential": "pullback.layers",
    "custom_gradient": "pullback._autodiff.custom_gradient",
    "function": "pullback.graph.function",
    "latest_checkpoint": "pullback.checkpoint",
}
_LAZY_MODULES = frozenset(
    {
        "array_api",
        "callbacks",
        "checkpoint",
        "conformance",
        "data",
        "fft",
        "layers",
        "linalg",
        "losses",
        "metrics",
        "optimizers",
        "random",
        "state",
        "summary",
        "training",
    }
)

#: The modules in which a name is looked for that is not in this one, before an error is raised.
_SEARCHED = ("linalg", "fft", "random", "layers", "losses", "metrics", "optimizers", "callbacks")

__all__ = [
    "Backend",
    "Checkpoint",
    "CheckpointManager",
    "DType",
    "Device",
    "Generator",
    "GradientTape",
    "Memory",
    "Model",
    "Sequential",
    "StringTensor",
    "Tensor",
    "TensorLike",
    "Variable",
    "__array_api_version__",
    "__array_namespace_info__",
    "__version__",
    "bfloat16",
    "bool",
    "broadcast_shapes",
    "complex64",
    "complex128",
    "custom_gradient",
    "default_device",
    "default_dtype",
    "device",
    "devices",
    "e",
    "errors",
    "executing_eagerly",
    "float16",
    "float32",
    "float64",
    "function",
    "hookimpl",
    "inf",
    "int8",
    "int16",
    "int32",
    "int64",
    "latest_checkpoint",
    "linalg",
    "nan",
    "newaxis",
    "op",
    "ops",
    "pi",
    "random",
    "set_default_device",
    "set_default_dtype",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
]

for _family in (
    "_autodiff.functional",
    "plugins.public",
    *(f"ops.{_name}" for _name in ops.FAMILIES),
):
    _module = _import_module(f"pullback.{_family}")
    # Those of some families are in a namespace of their own, such as `linalg`.
    __all__ += [n for n in _module.__all__ if globals().get(n) is getattr(_module, n)]


# A type checker knows all names from above, and reports any other one.
if not TYPE_CHECKING:
    _missing = _hints.answer_module(
        "pullback",
        [*(f"pullback.{part}" for part in _SEARCHED), "pullback.ops"],
    )

    def __getattr__(name: str) -> Any:
        module = _LAZY.get(name)
        if module is not None:
            value = getattr(_import_module(module), name)
        elif name in _LAZY_MODULES:
            value = _import_module(f"pullback.{name}")
        else:
            _missing(name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*__all__, *_LAZY_MODULES})


_hints.answer_module_call(_import_module("pullback.tensor"))
_hints.answer_module_call(_import_module("pullback.variable"))
_hints.answer_calls(Variable)
_hints.answer_attributes(GradientTape, _TAPE)

del np
