"""The op specification: one family per file, one definition per op.

A family imports from the families before it in `FAMILIES`. Where a gradient rule needs an op of a
later family, it uses operators and methods of tensors, or `late`.

The functions are in `pullback` and its namespaces. Here are those that only gradient rules and
optimizers call, such as `pullback.ops.softmax_gradient` and `pullback.ops.adam_update`.
"""

from __future__ import annotations

from importlib import import_module

from pullback.spec import OPS

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
    "bessel",
    "incomplete_gamma",
    "selection",
    "integers",
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
    "fourier.short_time",
    "linalg.einsum",
    "cumulative",
    "searching",
    "subscript",
    "sorting",
    "scattering",
    "several_axes",
    "segments",
    "sets",
    "linalg.solvers",
    "linalg.lu",
    "linalg.eigenvalues",
    "linalg.decompositions",
    "linalg.norms",
    "linalg.distances",
    "linalg.matrix_functions",
    "nn.activations",
    "nn.shrinking",
    "nn.softmax",
    "nn.losses",
    "nn.convolution",
    "nn.convolution_transpose",
    "nn.integer_products",
    "nn.pooling",
    "nn.unpooling",
    "nn.adaptive_pooling",
    "nn.patches",
    "nn.resize",
    "nn.sampling",
    "nn.detection",
    "nn.alignment",
    "nn.decoding",
    "random",
    "nn.normalization",
    "nn.batch_normalization",
    "nn.attention",
    "nn.rotary",
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

# Ops that gradient rules and optimizers are made of, so that a backend can fuse them. They are here
# by name, and not in `pullback`.
globals().update({op.name: op.function for op in OPS.values() if not op.public})
