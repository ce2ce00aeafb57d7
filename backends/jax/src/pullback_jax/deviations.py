"""Differences of XLA's arithmetic from the specification."""

from __future__ import annotations

from collections.abc import Sequence

from pullback.plugins.records import Deviation

_FLUSHED = Deviation(
    "XLA on the CPU takes subnormal numbers as 0: inputs, results, and what is between",
    checks=(
        *("value", "body", "layouts", "compiled", "shared"),
        *("alone_laid_out", "laid_out_there", "prepared_again"),
    ),
    samples=("*every *", "*no numbers *", "*infinities*", "all sizes"),
)

#: The ops that were measured to differ in samples that hold such numbers.
_OPS = """
    absolute_error add all any argmax argmin argsort argwhere asin asinh atan atan2 atanh ceil
    celu clip clip_by_norm cumulative_prod cumulative_sum digamma divide dropout elu equal erf
    erfinv exp floor floor_divide gamma_density gammainc gammaincc gelu gelu_gradient greater
    greater_equal hard_silu hard_tanh hinge_loss hypot i1 i1e ldexp leaky_relu less less_equal
    lgamma log log10 log1p log2 log_sigmoid logaddexp logical_not logical_or logical_xor maximum
    minimum mish multiply nextafter not_equal polygamma pow prelu reciprocal regularized_gamma
    relu relu6 relu_gradient remainder rsqrt scatter_max selu sigmoid
    sigmoid_cross_entropy_with_logits sigmoid_gradient sign silu silu_gradient sinh softplus
    softsign sqrt square squareplus subtract tan tanh tanh_gradient unique_counts unique_values
    xlogy
"""

#: P(30, 0.5) and its derivatives are subnormal in float32, and the density in bfloat16 too.
_FLUSHED_EDGES = Deviation(
    _FLUSHED.reason, checks=_FLUSHED.checks, samples=("edges", "edges of the second")
)

_TWICE_ROUNDED = Deviation(
    "XLA multiplies by the reciprocal of a divisor that it broadcasts, which rounds the quotient "
    "twice; the body takes it to be rounded once",
    checks=("body",),
    samples=("large quotients",),
)

DEVIATIONS: dict[str, Deviation | Sequence[Deviation]] = {
    **dict.fromkeys(_OPS.split(), _FLUSHED),
    "astype": Deviation(
        _FLUSHED.reason,
        checks=("value", "unchanged", "layouts", "laid_out_there"),
        samples=(
            *("* to bool", "* to float64", "* to complex64", "* to complex128", "* to bfloat16"),
            *("*no numbers *", "subnormal, *"),
        ),
    ),
    "floor_divide": (_FLUSHED, _TWICE_ROUNDED),
    **dict.fromkeys(("gamma_density", "gammainc"), (_FLUSHED, _FLUSHED_EDGES)),
    "gamma_order_slope": _FLUSHED_EDGES,
}
