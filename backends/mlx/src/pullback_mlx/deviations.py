"""The differences of MLX from the specification that stay."""

from __future__ import annotations

from pullback.plugins.records import Deviation

_COSINE = Deviation(
    "MLX's cos of float32 is off by up to 6 ulp near its zeros",
    dtypes=("float32",),
    checks=(
        *("value", "body", "layouts", "compiled", "shared"),
        *("alone_laid_out", "laid_out_there"),
    ),
)

DEVIATIONS = {"cos": _COSINE, "tan": _COSINE}
