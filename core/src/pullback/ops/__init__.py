"""The op specification: one family a file, each op one definition.

A family imports from families above it in `FAMILIES`; operators and methods of tensors, and
`CALL`, serve where a gradient rule needs an op from below.
"""

from __future__ import annotations

from importlib import import_module

#: The families in order. Each has an `__all__`, which `pullback` takes over (see its `__init__`).
FAMILIES = (
    "data_types",
    "creation",
    "conversion",
    "arithmetic",
    "exponential",
    "trigonometric",
    "comparison",
    "logical",
    "rounding",
    "complex",
    "special",
    "selection",
    "slicing",
    "manipulation",
    "joining",
    "indexing",
    "padding",
    "repeating",
    "difference",
    "reductions",
    "patterns",
    "linear_algebra",
    "fft",
    "fft_multidimensional",
    "einsum",
    "cumulative",
    "searching",
    "subscript",
    "sorting",
    "scattering",
    "sets",
    "solvers",
    "eigenvalues",
    "decompositions",
    "norms",
    "activations",
    "softmax",
    "losses",
    "convolution",
    "convolution_transpose",
    "pooling",
    "adaptive_pooling",
    "resize",
    "alignment",
    "random",
    "normalization",
    "batch_normalization",
    "attention",
    "recurrent",
    "recurrent_lstm",
    "recurrent_gru",
    "optimizer_updates",
    "adaptive_updates",
    "scaled_updates",
    "clipping",
)

for _family in FAMILIES:
    import_module(f"pullback.ops.{_family}")
