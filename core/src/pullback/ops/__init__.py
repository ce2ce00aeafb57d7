"""The op specification: one family a file, each op one definition.

A family imports from families above it in `FAMILIES`; operators and methods of tensors, and
`late`, serve where a gradient rule needs an op from below.
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
    "linalg.linear_algebra",
    "fourier.fft",
    "fourier.fft_multidimensional",
    "linalg.einsum",
    "cumulative",
    "searching",
    "subscript",
    "sorting",
    "scattering",
    "sets",
    "linalg.solvers",
    "linalg.eigenvalues",
    "linalg.decompositions",
    "linalg.norms",
    "nn.activations",
    "nn.softmax",
    "nn.losses",
    "nn.convolution",
    "nn.convolution_transpose",
    "nn.pooling",
    "nn.adaptive_pooling",
    "nn.resize",
    "nn.alignment",
    "random",
    "nn.normalization",
    "nn.batch_normalization",
    "nn.attention",
    "nn.recurrent",
    "nn.recurrent_lstm",
    "nn.recurrent_gru",
    "optim.optimizer_updates",
    "optim.adaptive_updates",
    "optim.scaled_updates",
    "optim.clipping",
)

for _family in FAMILIES:
    import_module(f"pullback.ops.{_family}")
