"""Central differences: what they cost, and that one wrong element among many is found and named."""

import re

import numpy as np
import pytest

from pullback.devices import as_device
from pullback.spec import OPS
from pullback_conformance import differences
from pullback_conformance.case import cases
from pullback_conformance.compare import ConformanceError
from pullback_conformance.samples import load


@pytest.fixture
def case():
    return next(iter(cases(OPS["softmax"], load()["softmax"], as_device("cpu"))))


def measure(case, point, gradients, loss, *, elements=32):
    calls = []

    def counted(x):
        calls.append(x)
        return loss(x)

    differences.differences(
        case, counted, point, gradients, ["x", "w"], elements=elements, tolerance=1e-6,
        quantity="the gradient",
    )  # fmt: skip
    return len(calls)


def cubes(arrays):
    return float(sum(np.sum((x**3).real) for x in arrays))


def slopes(arrays):
    # As the convention for complex numbers has it: dL = Re(conj(g) dz).
    return [np.conj(3 * x**2) for x in arrays]


@pytest.fixture(params=["float64", "complex128"])
def point(request):
    rng = np.random.default_rng(0)
    draw = [rng.standard_normal((5, 4)), rng.standard_normal(6)]
    if request.param == "complex128":
        draw = [x + 1j * rng.standard_normal(x.shape) for x in draw]
    return draw


def test_right_gradients_take_few_calls(case, point):
    assert measure(case, point, slopes(point), cubes) == 2 * differences.TOGETHER


def test_few_elements_are_measured_one_by_one(case):
    point = [np.array([0.5, 2.0]), np.array(3.0)]
    assert measure(case, point, slopes(point), cubes) == 6


@pytest.mark.parametrize("off", [3e-5, 1.0, np.nan, np.inf])
def test_each_element_that_is_wrong_is_named(case, point, off):
    for k, x in enumerate(point):
        for index in np.ndindex(x.shape):
            for unit in (1.0, 1j) if x.dtype.kind == "c" else (1.0,):
                wrong = slopes(point)
                wrong[k][index] += off * unit if np.isfinite(off) else off
                place = re.escape(f"with respect to {'xw'[k]} at {index} is")
                with np.errstate(invalid="ignore"), pytest.raises(ConformanceError, match=place):
                    measure(case, point, wrong, cubes)


def test_errors_that_would_cancel_are_found(case):
    point = [np.ones((4, 4))]
    for at in np.ndindex(4, 4):
        for other in np.ndindex(4, 4):
            for sign in (1, -1):
                wrong = slopes(point)
                wrong[0][at] += 0.01
                wrong[0][other] += sign * 0.01
                if at == other and sign == -1:
                    continue
                with pytest.raises(ConformanceError, match="by central differences"):
                    measure(case, point, wrong, cubes)


def test_of_many_elements_those_that_are_not_measured_alone_count_too(case):
    point = [np.ones((40, 40))]
    wrong = slopes(point)
    wrong[0][17, 23] += 1.0
    with pytest.raises(ConformanceError, match="by central differences"):
        measure(case, point, wrong, cubes, elements=3)
