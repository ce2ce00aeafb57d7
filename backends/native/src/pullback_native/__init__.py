"""Compiled kernels for the NumPy backend of pullback."""

from __future__ import annotations

from collections.abc import Callable

from pullback.dtypes import bfloat16
from pullback.plugins.hookspecs import hookimpl
from pullback_native import _native
from pullback_native.fusion import FUSIBLE, fuse
from pullback_native.instructions import INSTRUCTION_SETS, INSTRUCTIONS, VARIABLE
from pullback_native.kept import KEEPS
from pullback_native.kernels import KERNELS
from pullback_numpy import threads
from pullback_numpy.kernels import KERNELS as NUMPY_KERNELS

__all__ = [
    "INSTRUCTIONS",
    "INSTRUCTION_SETS",
    "VARIABLE",
    "pullback_register_fuser",
    "pullback_register_kernels",
]

# C passes calls that it does not support to NumPy's kernels.
_native.prepare(NUMPY_KERNELS, threads.threads, bfloat16)

#: The ops whose kernels take bfloat16 beside float32.
ALSO_BFLOAT16 = (
    "abs", "add", "astype", "divide", "exp", "expm1", "gelu", "gelu_gradient", "linear",
    "log_sigmoid", "matmul", "maximum", "mean", "minimum", "multiply", "negative", "relu",
    "relu_gradient", "sigmoid", "sigmoid_gradient", "silu", "silu_gradient", "softplus", "sqrt",
    "square", "subtract", "sum", "tanh", "tanh_gradient",
)  # fmt: skip

#: The ops whose kernels take float64 beside float32.
ALSO_FLOAT64 = (
    "cumulative_prod", "cumulative_sum", "max", "mean", "min", "prod", "sum", "top_k",
    "vector_norm",
)  # fmt: skip
#: Those that take integers too.
ALSO_INTEGERS = ("top_k",)


def _dtypes(name: str) -> tuple[str, ...]:
    """The dtypes of the first input that the kernel of an op takes."""
    if name == "where":
        return ("bool",)
    more = (
        ("bfloat16", ALSO_BFLOAT16),
        ("float64", ALSO_FLOAT64),
        ("int32", ALSO_INTEGERS),
        ("int64", ALSO_INTEGERS),
    )
    return ("float32", *(dtype for dtype, names in more if name in names))


@hookimpl
def pullback_register_kernels(register: Callable[..., None]) -> None:
    """Registers the kernels with the NumPy backend, for float32 and some for bfloat16."""
    compiled = {name: getattr(_native, name) for name in _native.KERNELS}
    for name, kernel in (compiled | KERNELS).items():
        in_place = getattr(_native, f"{name.removesuffix('_update')}_in_place", None)
        register(name, kernel, dtypes=_dtypes(name), in_place=in_place, keep=KEEPS.get(name))


@hookimpl
def pullback_register_fuser(register: Callable[..., None]) -> None:
    """Registers what makes fused kernels of captured functions."""
    register(fuse, FUSIBLE)
