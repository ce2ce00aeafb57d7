"""Kernels that choose one of two functions, and cross entropies of all classes."""

from typing import Any

import numpy as np
import pytest

from pullback.plugins.records import declines
from pullback_native import _native
from pullback_numpy.kernels import KERNELS as NUMPY_KERNELS

rng = np.random.default_rng(0)


def many(*inputs: Any, **attributes: Any) -> tuple[str, Any, Any]:
    return "many", inputs, attributes


def few(*inputs: Any, **attributes: Any) -> tuple[str, Any, Any]:
    return "few", inputs, attributes


def test_by_elements_and_layout() -> None:
    for plain in (False, True):
        kernel = _native.chosen(many, few, 10, plain, True)
        assert declines(kernel)
        for shape in ((9,), (10,), (3, 4), (0, 7), ()):
            x = np.zeros(shape, np.float32)
            name, inputs, attributes = kernel(x, 2, axis=0)
            assert name == ("few" if x.size < 10 or plain else "many")
            assert inputs[0] is x
            assert (inputs[1:], attributes) == ((2,), {"axis": 0})
        x = np.zeros((6, 8), np.float32)
        assert kernel(x[:, ::2])[0] == "many"
        assert kernel(x.T)[0] == ("few" if plain else "many")
    assert kernel(x=1) == ("many", (), {"x": 1})
    assert kernel(None)[0] == "many"


def test_one_function() -> None:
    kernel = _native.chosen(many, None, 0, False, False)
    assert not declines(kernel)
    assert kernel(np.zeros(0))[0] == "many"

    def fails(*_: Any) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        _native.chosen(fails, few, 1, False, False)(np.zeros(3))


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@np.errstate(all="ignore")
def test_cross_entropy_of_all_classes(smoothing: float) -> None:
    name = "softmax_cross_entropy_with_logits"
    # 128 rows of fewer than 32 classes are the most.
    for shape in ((1,), (7,), (128, 31), (129, 31), (129, 32), (3, 5, 17), (2, 4000), (40_000, 3)):
        logits = (rng.standard_normal(shape) * 5).astype("f4")
        labels = rng.random(shape).astype("f4")
        labels[..., ::2] = 0
        logits[..., :1] = -np.inf  # a class of weight 0
        options = {"axis": logits.ndim - 1, "label_smoothing": smoothing}
        found = _native.softmax_cross_entropy_with_logits(logits, labels, **options)
        expected = NUMPY_KERNELS[name](logits.astype("f8"), labels.astype("f8"), **options)
        for one, other in zip(found, expected, strict=True):
            assert (one.shape, one.dtype) == (other.shape, np.float32)
            np.testing.assert_allclose(one, other, rtol=3e-6, atol=1e-5)
