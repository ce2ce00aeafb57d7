"""Functions in double: their coefficients, and their errors beside extended precision."""

import re
from pathlib import Path

import numpy as np
import pytest

from pullback._numerics import bessel, error_function, gamma_function, incomplete_gamma
from pullback_native import _native

SERIES = {
    "erf_near": error_function._NEAR,
    "erfc_scaled": error_function._SCALED_COMPLEMENT,
    "erfinv_middle": error_function._INVERSE_MIDDLE,
    "erfinv_tail": error_function._INVERSE_TAIL,
    "lgamma_near": gamma_function._LGAMMA_NEAR,
    "lgamma_far": gamma_function._LGAMMA_FAR,
    "digamma_near": gamma_function._DIGAMMA_NEAR,
    "digamma_far": gamma_function._DIGAMMA_FAR,
    **{f"bessel_near_{n}": bessel._series(n) for n in range(3)},
    **{f"bessel_far_{n}": bessel._SCALED[n] for n in range(2)},
    "gamma_near_one": incomplete_gamma._near_one(),
    "stirling": incomplete_gamma._STIRLING,
    "atanh_rest": tuple(1 / (2 * k + 3) for k in range(24, -1, -1)),
    **{f"temme_{k}": row for k, row in enumerate(incomplete_gamma.temme())},
    "erf_near32": error_function._NEAR_32,
    "erf_far32": error_function._FAR_32,
}


def test_coefficients_are_those_of_core():
    text = (Path(__file__).parents[1] / "c" / "series.h").read_text()
    found: dict[str, tuple[float, ...]] = {}
    for name, body in re.findall(
        r"^(?:RATIO|SERIES)\((?:\w+, )?(\w+),\n(.*?\))\)$", text, re.M | re.S
    ):
        lists = [
            tuple(float(number) for number in re.findall(r"\((-?[\d.e-]+)f?\)", each))
            for each in body.split("FIRST")[1:]
        ]
        names = [name] if len(lists) == 1 else [f"{name}_above", f"{name}_below"]
        found |= dict(zip(names, lists, strict=True))
    expected = {}
    for name, table in SERIES.items():
        if isinstance(table[0], tuple):
            expected |= {f"{name}_above": table[0], f"{name}_below": table[1]}
        else:
            expected[name] = table
    assert found == expected


def everywhere():
    """Doubles of all sizes and signs, and those between which most functions change."""
    bits = np.random.default_rng(0).integers(0, 2**64, 20000, dtype=np.uint64)
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, -5e-324, 1.0, -1.0]
    return np.concatenate([bits.view(np.float64), np.linspace(-760, 760, 20001), special])


def _mish(x):
    e = np.exp(np.minimum(x, 100))
    return np.maximum(x, -12000) * (e * (e + 2) / (e * (e + 2) + 2))


def _silu(x):
    below = np.maximum(x, -12000)
    return np.where(x < 0, below * np.exp(below) / (1 + np.exp(x)), x / (1 + np.exp(-x)))


REFERENCES = {
    **{name: getattr(np, name) for name in ("exp", "exp2", "expm1", "log", "log1p", "log2")},
    **{name: getattr(np, name) for name in ("log10", "sinh", "cosh", "tanh", "sqrt")},
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "softplus": lambda x: np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))),
    "log_sigmoid": lambda x: np.minimum(x, 0) - np.log1p(np.exp(-np.abs(x))),
    "silu": _silu,
    "mish": _mish,
    "sin": np.sin,
    "cos": np.cos,
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 60, reason="references need more digits")
@pytest.mark.parametrize("name", REFERENCES)
def test_within_four_ulp_over_all_doubles(name, instructions):
    x = everywhere()
    y, reference = getattr(_native, name)(x), REFERENCES[name](x.astype(np.longdouble))
    rounded = reference.astype(np.float64)
    finite = np.isfinite(rounded)
    np.testing.assert_array_equal(y[~finite], rounded[~finite])
    error = np.abs(y[finite] - reference[finite]) / np.spacing(np.abs(rounded[finite]))
    assert error.max() <= 4


@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 60, reason="references need more digits")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["sin", "cos"])
def test_angles_near_multiples_of_a_quarter_turn(name, dtype, instructions):
    """Nearly all digits of an angle cancel there, up to where the library's functions take over."""
    n = np.concatenate([np.arange(-5000, 5000), np.geomspace(5000, 2**22, 5000).round()])
    x = (n * (np.pi / 2)).astype(dtype)
    x = np.concatenate([x, np.nextafter(x, -x), np.nextafter(x, 2 * x)])
    y, exact = getattr(_native, name)(x), getattr(np, name)(x.astype(np.longdouble))
    assert y.dtype == x.dtype
    assert (np.abs(y - exact) <= np.spacing(np.abs(y))).all()
