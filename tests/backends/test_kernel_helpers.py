"""Helpers for kernel authors: geometry of windows, and 16-bit floats computed in float32."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
from pullback import dtypes
from pullback.casting import HALF, casts_to_float32, compute_dtype, narrowed, widened
from pullback.shapes import (
    channels_last_shape,
    channels_of,
    image_shape,
    output_sizes,
    spatial_of,
)

SHAPES = {"channels_last": (8, 5, 6, 3), "channels_first": (8, 3, 5, 6)}


@pytest.mark.parametrize("data_format", SHAPES)
def test_parts_of_images(data_format):
    shape = SHAPES[data_format]
    assert spatial_of(shape, data_format) == (5, 6)
    assert channels_of(shape, data_format) == 3
    assert image_shape(8, (5, 6), 3, data_format) == shape
    assert channels_last_shape(shape, data_format) == SHAPES["channels_last"]


@pytest.mark.parametrize("size", range(1, 9))
@pytest.mark.parametrize("window", [1, 2, 3])
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("dilation", [1, 2])
def test_windows_are_counted(size, window, stride, dilation):
    reach = dilation * (window - 1) + 1
    for before, after in ((0, 0), (1, 0), (1, 2)):
        length = before + size + after
        starts = [start for start in range(0, length, stride) if start + reach <= length]
        found = output_sizes((size,), (window,), (stride,), ((before, after),), (dilation,))
        assert found == (len(starts),)


@pytest.mark.parametrize("dtype", dtypes.REAL_FLOATING)
def test_half_precision_is_computed_in_float32(dtype):
    x = np.asarray([1.0, 2.0, 3.0], dtype)
    wide = widened(x)
    assert wide.dtype == compute_dtype(dtype) == (np.float32 if dtype in HALF else dtype)
    assert (wide is x) == (dtype not in HALF)
    assert narrowed(wide, x).dtype == dtype
    assert narrowed(x, x) is x


def test_the_same_for_tensors():
    x = pb.asarray([1.0, 2.0], dtype="bfloat16", device="cpu")
    assert widened(x).dtype == dtypes.float32
    assert narrowed(widened(x), x).dtype == dtypes.bfloat16


def test_arrays_without_astype():
    class Array:
        def __init__(self, dtype):
            self.dtype = dtype

    def astype(x, dtype):
        return Array(dtype)

    widened, narrowed = casts_to_float32(("half",), "single", astype)
    half, double = Array("half"), Array("double")
    assert widened(half).dtype == "single"
    assert widened(double) is double
    assert narrowed(widened(half), half).dtype == "half"
    assert narrowed(double, double) is double
