"""Compiled kernels for the NumPy backend of pullback."""

from __future__ import annotations

import sysconfig
from collections.abc import Callable

from pullback.dtypes import bfloat16
from pullback.plugins.hookspecs import hookimpl
from pullback_native import _native
from pullback_native.fusion import FUSIBLE, fuse
from pullback_native.instructions import INSTRUCTION_SETS, INSTRUCTIONS, VARIABLE
from pullback_native.kept import KEEPS
from pullback_native.kernels import FALLBACKS, KERNELS, halves
from pullback_native.kernels.assignment import IN_PLACE
from pullback_native.kernels.halves import IN_FLOAT32, function_in_float32, in_float32
from pullback_numpy import threads
from pullback_numpy.kernels import KERNELS as NUMPY_KERNELS
from pullback_numpy.kernels.indexing import scatter_nd_by

__all__ = [
    "INSTRUCTIONS",
    "INSTRUCTION_SETS",
    "VARIABLE",
    "pullback_register_fuser",
    "pullback_register_kernels",
]

# C passes calls that it does not support to NumPy's kernels.
_native.prepare(NUMPY_KERNELS | FALLBACKS, threads.threads, bfloat16)

#: Without a lock nothing says that what is compared is still so at the call.
_FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
_FLOATS = ("float32", "bfloat16", "float16", "float64")
_HALVES = ("bfloat16", "float16")
#: NumPy's own loops for processors with AVX-512 are the faster ones for some functions.
_NUMPY_LEADS = INSTRUCTIONS == "avx512"
_NUMBERS = (*_FLOATS, "int32", "int64")
#: The dtypes of the first input that the kernel of an op takes; others take float32.
DTYPES: dict[str, tuple[str, ...] | None] = {
    **dict.fromkeys(
        (
            "bell", "bessel_i", "digamma", "divide", "elu", "elu_gradient", "erf", "erfc", "erfinv",
            "celu", "cos", "exp", "expm1", "fixed_power", "hard_shrink", "polygamma", "rsqrt",
            "soft_shrink", "fmod", "gamma_density", "gelu", "gelu_gradient",
            "hard_sigmoid", "hard_silu", "hard_tanh", "huber_loss", "hypot", "leaky_relu",
            "leaky_relu_gradient",
            "lgamma", "log_cosh_loss", "log_sigmoid", "matrix_norm", "logaddexp",
            "logaddexp2", "mish", "mish_gradient",
            "regularized_gamma", "relu", "relu6", "relu_gradient", "selu", "sigmoid",
            "sigmoid_cross_entropy_with_logits", "sigmoid_gradient", "silu",
            "silu_gradient", "sin", "softplus", "softsign", "sqrt", "squared_error", "tanh",
            "tanh_gradient", "threshold", "prelu", "reciprocal", "slope_quotient", "xlogy",
        ),
        _FLOATS,
    ),
    **dict.fromkeys(
        (
            "abs", "add", "clip", "equal", "greater", "greater_equal", "less", "less_equal",
            "maximum", "minimum", "multiply", "negative", "not_equal", "outer", "remainder",
            "sign", "square", "subtract",
        ),
        _NUMBERS,
    ),
    "astype": (*_FLOATS, "bool", "int32", "int64"),
    **dict.fromkeys(("ceil", "floor", "round", "trunc"), _HALVES),
    "floor_divide": ("float32", "bfloat16", "float16", "int32", "int64"),
    **dict.fromkeys(("cosh", "exp2", "log1p", "log2", "sinh"), () if _NUMPY_LEADS else _FLOATS),
    "log": () if _NUMPY_LEADS else (*_HALVES, "float64"),
    "log10": () if _NUMPY_LEADS else (*_HALVES, "float32"),
    "pow": _HALVES,
    "linear": ("float32", "bfloat16"),
    "matmul": ("float32", "bfloat16", "float64"),
    **dict.fromkeys(
        (
            "cdist", "cdist_gradient", "ctc_loss", "ctc_loss_gradient", "cumulative_prod",
            "group_norm", "group_norm_gradient", "layer_norm",
            "layer_norm_gradient", "linear_recurrence", "log_softmax", "log_softmax_gradient",
            "logsumexp", "max", "mean", "min", "place_along_axis",
            "negative_log_likelihood_of_classes", "nextafter", "prod",
            "adaptive_avg_pool", "adaptive_max_pool", "batch_norm_inference",
            "avg_pool", "avg_pool_gradient", "lu_factor", "lu_solve", "max_pool",
            "cross", "max_pool_gradient", "max_pool_with_indices", "resize", "resize_gradient",
            "segment_sum",
            "solve_triangular", "softmax", "softmax_gradient", "std", "sum", "var",
            "vector_norm",
        ),
        ("float32", "float64"),
    ),
    **dict.fromkeys(
        ("cumulative_max", "cumulative_min", "cumulative_sum"), ("float32", "float64", "int64")
    ),
    # Of any dtype, or without inputs.
    **dict.fromkeys(
        (
            "argwhere", "concat", "logical_and", "logical_not", "logical_or", "logical_xor", "pad",
            "random_bits", "random_normal", "random_uniform", "scatter_update", "stack",
            "strided_update", "take_along_axis", "tril", "triu",
        ),
        None,
    ),
    **dict.fromkeys(
        ("scatter_add", "scatter_multiply", "segment_prod", "top_k"),
        ("float32", "float64", "int32", "int64"),
    ),
    **dict.fromkeys(("scatter_max", "scatter_min"), _NUMBERS),
    "where": ("bool",),
    **dict.fromkeys(
        ("fft", "fftn", "hfft", "ifft", "ifftn", "irfft", "irfftn"), ("complex64", "complex128")
    ),
    **dict.fromkeys(("ihfft", "rfft", "rfftn"), ("float32", "float64")),
}  # fmt: skip


@hookimpl
def pullback_register_kernels(register: Callable[..., None]) -> None:
    """Registers the kernels with the NumPy backend, for the dtypes that they take."""
    compiled = {name: getattr(_native, name) for name in _native.KERNELS}
    if _NUMPY_LEADS:
        compiled["pow"] = halves.large_in_float32("pow", compiled["pow"])
    for name, kernel in (compiled | KERNELS).items():
        in_place = getattr(_native, f"{name.removesuffix('_update')}_in_place", IN_PLACE.get(name))
        dtypes = DTYPES.get(name, ("float32",))
        if dtypes is None or dtypes:
            register(name, kernel, dtypes=dtypes, in_place=in_place, keep=KEEPS.get(name))
        if name in IN_FLOAT32:
            narrow = [dtype for dtype in _HALVES if dtype not in (dtypes or ())]
            make = halves.MAKERS.get(name, in_float32)
            register(name, make(name, kernel), dtypes=narrow)
    short = {name: halves.scatter_in_float32(name, compiled[name]) for name in halves.SCATTERS}
    for name, scatter in short.items():
        register(name, scatter, dtypes=_HALVES)
    for scatters, taken in ((compiled, DTYPES["scatter_add"]), (compiled | short, _HALVES)):
        modes = {
            mode: scatters.get(f"scatter_{mode}", NUMPY_KERNELS[f"scatter_{mode}"])
            for mode in ("add", "max", "min", "multiply", "update")
        }
        register("scatter_nd", scatter_nd_by(modes), dtypes=taken)
    vecdot = halves.products_in_float32("vecdot", NUMPY_KERNELS["vecdot"])
    register("vecdot", vecdot, dtypes=_HALVES)
    for name in (*halves.OF_NUMPY, *halves.OF_FLOAT16):
        dtypes = _HALVES if name in halves.OF_NUMPY else ("float16",)
        register(name, in_float32(name, NUMPY_KERNELS[name], halves.WORTH_A_COPY), dtypes=dtypes)
    for name in (*halves.FUNCTIONS, *(halves.IN_DOUBLE if _NUMPY_LEADS else ())):
        register(name, function_in_float32(name, leads=_NUMPY_LEADS), dtypes=("float16",))
        register(name, function_in_float32(name, compiled.get(name)), dtypes=("bfloat16",))


@hookimpl
def pullback_register_fuser(register: Callable[..., None]) -> None:
    """Registers what makes fused kernels of captured functions, and calls of small ones."""
    register(fuse, FUSIBLE, direct=None if _FREE_THREADED else _native.direct)
