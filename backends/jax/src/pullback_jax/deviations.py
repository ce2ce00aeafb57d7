"""Where XLA's arithmetic differs from the specification."""

from __future__ import annotations

from pullback.plugins.records import Deviation

_FLUSHED = Deviation(
    "XLA on the CPU takes subnormal numbers as 0: inputs, results, and what is between",
    checks=("value", "body", "layouts", "compiled"),
    samples=("*every *", "*no numbers *", "*infinities*", "all sizes"),
)

#: The ops that were measured to differ in samples that hold such numbers.
_OPS = """
    add asin atan2 cosh divide dropout equal erf exp floor floor_divide gelu hypot less log
    log10 log1p log2 logaddexp maximum multiply pow reciprocal relu remainder scatter_max
    sigmoid sign sinh sqrt square subtract
"""

DEVIATIONS = dict.fromkeys(_OPS.split(), _FLUSHED)
