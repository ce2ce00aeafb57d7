"""pullback: an eager deep-learning framework on an op specification, with pluggable backends.

    import pullback as pb

The namespace of this package is the array API's (`pullback.__array_api_version__`), with what
training needs beside it. What stands on tensors, such as tapes, `pb.layers` and `pb.Checkpoint`, is
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
    from pullback import _einops, _hints, _numpy, errors, ops

import os as _os
from importlib import import_module as _import_module
from math import e, inf, nan, pi
from typing import TYPE_CHECKING, Any

from pullback._dispatch import op
from pullback._namespace.dtypes import (
    bfloat16,
    complex64,
    complex128,
    float8_e4m3fn,
    float8_e5m2,
    float16,
    float32,
    float64,
    int4,
    int8,
    int16,
    int32,
    int64,
    uint4,
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
from pullback.devices import Device, default_device, device, devices, set_default_device
from pullback.dtypes import DType
from pullback.ops.arithmetic import *
from pullback.ops.bessel import *
from pullback.ops.comparison import *
from pullback.ops.complex import *
from pullback.ops.conversion import *
from pullback.ops.creation import *
from pullback.ops.cumulative import *
from pullback.ops.data_types import *
from pullback.ops.difference import *
from pullback.ops.exponential import *
from pullback.ops.fourier.short_time import *
from pullback.ops.incomplete_gamma import *
from pullback.ops.indexing import *
from pullback.ops.integers import *
from pullback.ops.joining import *
from pullback.ops.linalg.distances import *
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
from pullback.ops.nn.decoding import *
from pullback.ops.nn.detection import *
from pullback.ops.nn.integer_products import *
from pullback.ops.nn.losses import *
from pullback.ops.nn.normalization import *
from pullback.ops.nn.patches import *
from pullback.ops.nn.pooling import *
from pullback.ops.nn.recurrent import *
from pullback.ops.nn.recurrent_gru import *
from pullback.ops.nn.recurrent_lstm import *
from pullback.ops.nn.resize import *
from pullback.ops.nn.rotary import *
from pullback.ops.nn.sampling import *
from pullback.ops.nn.shrinking import *
from pullback.ops.nn.softmax import *
from pullback.ops.nn.unpooling import *
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
from pullback.ops.segments import *
from pullback.ops.selection import *
from pullback.ops.sets import *
from pullback.ops.several_axes import *
from pullback.ops.slicing import *
from pullback.ops.sorting import *
from pullback.ops.special import *
from pullback.ops.trigonometric import *
from pullback.plugins.backend import Backend
from pullback.plugins.records import Deviation
from pullback.shapes import broadcast_shapes
from pullback.strings import StringTensor
from pullback.tensor import Tensor, TensorLike

newaxis = None

# The names of _LAZY and _LAZY_MODULES, for type checkers.
if TYPE_CHECKING:
    from pullback import callbacks as callbacks
    from pullback import checkpoint as checkpoint
    from pullback import data as data
    from pullback import distributed as distributed
    from pullback import fft as fft
    from pullback import layers as layers
    from pullback import linalg as linalg
    from pullback import losses as losses
    from pullback import metrics as metrics
    from pullback import numpy as numpy
    from pullback import optimizers as optimizers
    from pullback import random as random
    from pullback import state as state
    from pullback import summary as summary
    from pullback import training as training
    from pullback import tree as tree
    from pullback._autodiff.checking import check_gradients as check_gradients
    from pullback._autodiff.custom_gradient import custom_gradient as custom_gradient
    from pullback._autodiff.functional import *
    from pullback._autodiff.implicit import custom_root as custom_root
    from pullback._autodiff.products import *
    from pullback._autodiff.remat import remat as remat
    from pullback._autodiff.tape import GradientTape as GradientTape
    from pullback._batching.vmap import vmap as vmap
    from pullback._namespace.defaults import default_dtype as default_dtype
    from pullback._namespace.defaults import set_default_dtype as set_default_dtype
    from pullback.checkpoint import Checkpoint as Checkpoint
    from pullback.checkpoint import CheckpointManager as CheckpointManager
    from pullback.checkpoint import latest_checkpoint as latest_checkpoint
    from pullback.graph.control.functions import *
    from pullback.graph.control.py_function import print as print
    from pullback.graph.control.py_function import py_function as py_function
    from pullback.graph.eval_shape import TensorSpec as TensorSpec
    from pullback.graph.eval_shape import eval_shape as eval_shape
    from pullback.graph.function import function as function
    from pullback.graph.padded import padded as padded
    from pullback.graph.saved.program import load_program as load_program
    from pullback.layers import Input as Input
    from pullback.layers import Model as Model
    from pullback.layers import Sequential as Sequential
    from pullback.layers.plot import plot_model as plot_model
    from pullback.plugins.hookspecs import hookimpl as hookimpl
    from pullback.plugins.memory import Memory as Memory
    from pullback.plugins.own_kernels import register_kernel as register_kernel
    from pullback.plugins.public import *
    from pullback.profiling import OpProfile as OpProfile
    from pullback.profiling import Profile as Profile
    from pullback.profiling import profile as profile
    from pullback.random import Generator as Generator
    from pullback.state.functional import functional_call as functional_call
    from pullback.variable import Variable as Variable

#: Names from levels above the tensors: the module that each is imported from on first use.
_LAZY = {
    "BackendInfo": "pullback.plugins.public",
    "Checkpoint": "pullback.checkpoint",
    "CheckpointManager": "pullback.checkpoint",
    "Generator": "pullback.random",
    "GradientTape": "pullback._autodiff.tape",
    "Input": "pullback.layers",
    "Memory": "pullback.plugins.memory",
    "Model": "pullback.layers",
    "OpsInfo": "pullback.plugins.public",
    "OpProfile": "pullback.profiling",
    "PackInfo": "pullback.plugins.public",
    "Profile": "pullback.profiling",
    "Sequential": "pullback.layers",
    "TensorSpec": "pullback.graph.eval_shape",
    "Variable": "pullback.variable",
    "associative_scan": "pullback.graph.control.functions",
    "backends": "pullback.plugins.public",
    "check_gradients": "pullback._autodiff.checking",
    "cond": "pullback.graph.control.functions",
    "custom_gradient": "pullback._autodiff.custom_gradient",
    "custom_jvp": "pullback._autodiff.products",
    "custom_root": "pullback._autodiff.implicit",
    "default_dtype": "pullback._namespace.defaults",
    "eval_shape": "pullback.graph.eval_shape",
    "fori_loop": "pullback.graph.control.functions",
    "function": "pullback.graph.function",
    "functional_call": "pullback.state.functional",
    "gauss_newton_product": "pullback._autodiff.products",
    "grad": "pullback._autodiff.functional",
    "hessian": "pullback._autodiff.functional",
    "hookimpl": "pullback.plugins.hookspecs",
    "hvp": "pullback._autodiff.products",
    "implicit_gradients": "pullback._autodiff.functional",
    "implicit_value_and_gradients": "pullback._autodiff.functional",
    "jacobian": "pullback._autodiff.functional",
    "jvp": "pullback._autodiff.functional",
    "latest_checkpoint": "pullback.checkpoint",
    "linearize": "pullback._autodiff.products",
    "load_program": "pullback.graph.saved.program",
    "map": "pullback.graph.control.functions",
    "ops_plugins": "pullback.plugins.public",
    "plot_model": "pullback.layers.plot",
    "padded": "pullback.graph.padded",
    "print": "pullback.graph.control.py_function",
    "profile": "pullback.profiling",
    "py_function": "pullback.graph.control.py_function",
    "register_backend": "pullback.plugins.public",
    "register_kernel": "pullback.plugins.own_kernels",
    "remat": "pullback._autodiff.remat",
    "scan": "pullback.graph.control.functions",
    "set_default_dtype": "pullback._namespace.defaults",
    "stop_gradient": "pullback._autodiff.functional",
    "switch": "pullback.graph.control.functions",
    "use_kernel_packs": "pullback.plugins.public",
    "value_and_grad": "pullback._autodiff.functional",
    "vjp": "pullback._autodiff.functional",
    "vmap": "pullback._batching.vmap",
    "while_loop": "pullback.graph.control.functions",
}
_LAZY_MODULES = frozenset(
    {
        "array_api",
        "callbacks",
        "checkpoint",
        "data",
        "distributed",
        "fft",
        "layers",
        "linalg",
        "losses",
        "metrics",
        "numpy",
        "optimizers",
        "random",
        "state",
        "summary",
        "training",
        "tree",
    }
)

#: The modules in which a name is looked for that is not in this one, before an error is raised.
_SEARCHED = (
    *("linalg", "fft", "random", "layers", "losses", "metrics", "optimizers", "callbacks"),
    "data",
)

__all__ = [
    *_LAZY,
    "Backend",
    "DType",
    "Deviation",
    "Device",
    "StringTensor",
    "Tensor",
    "TensorLike",
    "__array_api_version__",
    "__array_namespace_info__",
    "__version__",
    "bfloat16",
    "bool",
    "broadcast_shapes",
    "complex64",
    "complex128",
    "default_device",
    "device",
    "devices",
    "e",
    "errors",
    "executing_eagerly",
    "float8_e4m3fn",
    "float8_e5m2",
    "float16",
    "float32",
    "float64",
    "inf",
    "int4",
    "int8",
    "int16",
    "int32",
    "int64",
    "linalg",
    "nan",
    "newaxis",
    "op",
    "ops",
    "pi",
    "random",
    "set_default_device",
    "uint4",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
]

for _family in ops.FAMILIES:
    _module = _import_module(f"pullback.ops.{_family}")
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


# The default dtype may be set from outside.
if _os.environ.get("PULLBACK_DEFAULT_DTYPE"):
    _import_module("pullback._namespace.defaults")

_hints.answer_module_call(_import_module("pullback.tensor"))

del np
