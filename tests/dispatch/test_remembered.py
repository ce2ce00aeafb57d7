"""Caches by key: a call gives the same result whatever was called before it.

`remembered.check` makes calls in random order with all that is remembered in place, and each of
them once with all of it forgotten.
"""

from __future__ import annotations

import itertools
import math
import random
import struct
from fractions import Fraction

import numpy as np
import pytest

import pullback as pb
from pullback import dtypes
from pullback.devices import as_device
from pullback.shapes import broadcast
from pullback.spec import OPS
from pullback_conformance.case import arguments, cases, operands
from pullback_conformance.samples import load

CPU = as_device("cpu")
#: NaNs whose bits differ.
NANS = [
    struct.unpack("<d", struct.pack("<Q", bits))[0] for bits in (0x7FF8 << 48, 0xFFF8000000000001)
]
COMPLEX = [complex(*parts) for parts in itertools.product((1.0, -1.0, 0.0, -0.0, 0.5), repeat=2)]
#: Python's numbers, many of which are equal to others.
NUMBERS = [
    *(False, True, 0, 1, -1, 2, 255, 256, -129, 2**31 - 1, 2**31, 2**40, 2**63, 2**64, 10**400),
    *(0.0, -0.0, 1.0, -1.0, 2.0, 0.1, 1e39, 2.0**31, 2.0**63, math.inf, -math.inf, *NANS),
    *(*COMPLEX, 1j, -1j, 2 + 0j, complex(2, -0.0), complex(math.inf, -0.0), complex(NANS[0], -0.0)),
    *(np.float64(1), np.float32(1), np.int64(1), np.bool_(True), np.complex64(1), np.float64(-0.0)),
]  # fmt: skip


# Numbers ------------------------------------------------------------------------------------------


def beside(remembered, device, names, kinds):
    """Calls of ops with a tensor and a number, on either side."""
    found = {}
    held = {
        kind: pb.asarray([1, 0, 3], dtype=kind, device=device)
        for kind in kinds
        if kind in device.backend.dtypes
    }
    for name, kind, number, left in itertools.product(names, held, NUMBERS, (True, False)):
        x = held[kind]
        pair = (x, number) if left else (number, x)
        key = (str(device), name, str(kind), remembered.label(number), left)
        found[key] = lambda name=name, pair=pair: OPS[name].function(*pair)
    return found


NAMES = ("add", "multiply", "divide", "atan2", "maximum", "pow", "equal", "less", "bitwise_and")


@pytest.mark.parametrize("seed", range(3))
def test_numbers_beside_tensors(seed, minimal, remembered):
    calls = beside(remembered, CPU, NAMES, dtypes.ALL) | beside(
        remembered, minimal, NAMES[:2], dtypes.ALL
    )
    with np.errstate(all="ignore"):
        remembered.check(calls, seed, most=400)


@pytest.mark.parametrize("seed", range(2))
def test_numbers_beside_several_inputs(seed, minimal, remembered):
    calls = {}
    numbers = [False, 0, 1, 0.0, -0.0, 1.0, 2**40, *NANS, 1 + 0j, complex(1, -0.0)]
    for device, kind in ((CPU, "complex64"), (CPU, "int32"), (minimal, "float32")):
        x = pb.asarray([1, 0, 3], dtype=kind, device=device)
        mask = pb.asarray([True, False, True], device=device)
        for number, other in itertools.product(numbers, (0, -0.0, True, None)):
            other = x if other is None else other
            key = (str(device), str(kind), *map(remembered.label, (number, other)))
            pair = number, other
            calls["where", key] = lambda mask=mask, pair=pair: pb.where(mask, *pair)
            calls["other", key] = lambda mask=mask, pair=pair: pb.where(mask, *pair[::-1])
            calls["clip", key] = lambda x=x, pair=pair: pb.clip(x, *pair)
            calls["min", key] = lambda x=x, number=number: pb.clip(x, number)
    with np.errstate(all="ignore"):
        remembered.check(calls, seed, rounds=2)


def test_numbers_as_tensors(minimal, remembered):
    calls = {
        (
            str(device),
            str(kind),
            remembered.label(number),
        ): lambda number=number, kind=kind, device=device: pb.asarray(
            number, dtype=kind, device=device
        )
        for device in (CPU, minimal)
        for kind in (None, *dtypes.ALL)
        for number in NUMBERS
    }
    with np.errstate(all="ignore"):
        remembered.check(calls, 0, most=600)


@pytest.mark.campaign
@pytest.mark.parametrize("seed", range(4))
def test_all_numbers(seed, minimal, remembered):
    names = [
        name for name, op in OPS.items()
        if len(op.inputs) == 2 and getattr(op.dtype, "uniform", False) and op.shape is broadcast
        and not op.attributes
    ]  # fmt: skip
    assert len(names) > 25
    calls = beside(remembered, CPU, names, dtypes.ALL) | beside(
        remembered, minimal, names, dtypes.ALL
    )
    with np.errstate(all="ignore"):
        remembered.check(calls, seed, most=4000)


def test_the_sign_of_a_complex_zero_counts():
    """1 + 0j == 1 - 0j, and a root or a logarithm is on two sides of the cut."""
    for _ in range(2):
        assert pb.sqrt(pb.asarray(complex(-1, 0.0))).item() == 1j
        assert pb.sqrt(pb.asarray(complex(-1, -0.0))).item() == -1j
        for number, part in ((1, 0.0), (1, -0.0), (-1, 0.0), (-1, -0.0)):
            for one in (complex(number, part), complex(part, number)):
                x = np.array([-1 + 0j, 1j, complex(2, -0.0)], np.complex64)
                found = (pb.asarray(x) * one).numpy(), (one * pb.asarray(x)).numpy()
                assert [y.tobytes() for y in found] == [(x * np.complex64(one)).tobytes()] * 2


# Attributes ---------------------------------------------------------------------------------------


def alike(value):
    """Values that are equal to one, or stand for it; some of them are errors."""
    found = [value]
    if isinstance(value, (bool, int, float)):
        found += [np.float64(value), np.float32(value), float(value)]
        if value in (0, 1):
            found += [bool(value), int(value), np.bool_(value)]
        if abs(value) < 100 and value == int(value):
            found += [Fraction(value), int(value), np.int64(value), np.int8(value)]
        if value == 0:
            found += [0.0, -0.0]
    elif isinstance(value, (list, tuple)):
        parts = [alike(one) for one in value]
        for i in range(max(map(len, parts), default=0)):
            chosen = [options[i % len(options)] for options in parts]
            found += [chosen, tuple(chosen)]
        if len(value) == 1:
            found += parts[0]
    elif isinstance(value, (np.dtype, dtypes.NamedDType, type)):
        one = dtypes.as_dtype(value)
        found += [one, one.name, one.type, dtypes.named(one.name), one.newbyteorder(">")]
    elif isinstance(value, str):
        found += [np.str_(value), value.upper()]
    return found


SUITES = load()
CASES = [
    case
    for name, suite in SUITES.items()
    for case in cases(OPS[name], suite, CPU)
    if str(case.dtype) in ("None", "float32", "complex64") and OPS[name].attributes
]


def calls_of(remembered, case, order, few):
    """A sample's call, and others whose attributes are equal to its own."""
    kinds = {name: alike(value) for name, value in case.sample.attributes.items()}
    found = {}
    for i in range(few):
        attributes = {name: order.choice(options) for name, options in kinds.items()}
        if not i:
            attributes = case.sample.attributes

        def call(attributes=attributes):
            args, kwargs = arguments(case.op, case.tensors(), attributes)
            with case._active_device():
                return case.op.function(*args, **kwargs)

        key = (id(case), str(case), str({k: remembered.label(v) for k, v in attributes.items()}))
        found[key] = call
    return found


def attributes_of(remembered, seed, most, few):
    order = random.Random(seed)
    found = {}
    for case in order.sample(CASES, min(most, len(CASES))):
        found |= calls_of(remembered, case, order, few)
    return found


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(2))
def test_attributes_that_are_equal(seed, remembered):
    remembered.check(attributes_of(remembered, seed, 120, 3), seed, rounds=2)


@pytest.mark.campaign
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(2, 6))
def test_all_attributes_that_are_equal(seed, remembered):
    remembered.check(attributes_of(remembered, seed, len(CASES), 4), seed)


WINDOWS = (1, 2, True, 1.0, 2.0, np.int64(2), (2, 2), [2, 2], (2, 2.0), (True, 2), (2.0, 2.0),
           np.array([2, 2]), np.array(2), Fraction(2), "2", None, {1, 2}, {2: 1, 3: 1}, b"\2\2",
           range(2, 4))  # fmt: skip
PADDING = ("valid", "same", "SAME", "causal", 0, 1, True, False, 0.0, 1.0, ((0, 1), (1, 0)),
           [[0, 1], [1, 0]], ((0, 1.0), (1, 0)), ((False, True), (1, 0)), np.int8(1),
           ((0, np.int64(1)), (1, 0)), None, {0, 1})  # fmt: skip


def windows(remembered):
    """Pooling, convolution and what takes axes and widths, by all that stands for integers."""
    x = pb.asarray(np.random.default_rng(0).standard_normal((1, 5, 5, 2), np.float32))
    kernel = pb.ones((2, 2, 2, 2))
    found = {}
    for one, padding in itertools.product(WINDOWS, PADDING):
        key = (remembered.label(one), remembered.label(padding))
        found["max_pool", key] = lambda one=one, padding=padding: pb.max_pool(
            x, window=one, padding=padding
        )
        found["avg_pool", key] = lambda one=one, padding=padding: pb.avg_pool(
            x, window=2, strides=one, padding=padding, count_include_pad=True
        )
        for name in ("strides", "dilation", "groups"):
            found[name, key] = lambda one=one, padding=padding, name=name: pb.conv(
                x, kernel, padding=padding, **{name: one}
            )
            found["transpose", name, key] = lambda one=one, padding=padding, name=name: (
                pb.conv_transpose(x, kernel, padding=padding, **{name: one})
            )
    for name, call in {
        "moveaxis": lambda one: pb.moveaxis(x, one, 1 if np.ndim(one) == 0 else (0, 1)),
        "expand_dims": lambda one: pb.expand_dims(x, one),
        "roll": lambda one: pb.roll(x, one, axis=1),
        "roll along": lambda one: pb.roll(x, 1, axis=one),
        "pad": lambda one: pb.pad(x, one),
        "tensordot": lambda one: pb.tensordot(kernel, kernel, axes=one),
        "fftn": lambda one: pb.fft.fftn(x, s=one),
        "fftn along": lambda one: pb.fft.fftn(x, axes=one),
        "resize": lambda one: pb.resize(x, one),
    }.items():
        for one in WINDOWS:
            found[name, remembered.label(one)] = lambda one=one, call=call: call(one)
    return found


@pytest.mark.parametrize("seed", range(2))
def test_windows_that_are_equal(seed, remembered):
    remembered.check(windows(remembered), seed, rounds=2, most=500)


@pytest.mark.campaign
def test_all_windows_that_are_equal(remembered):
    remembered.check(windows(remembered), 7, rounds=4)


def test_a_float_is_no_window_after_an_integer():
    x = pb.ones((1, 4, 4, 1))
    for _ in range(2):
        assert pb.max_pool(x, window=2).shape == (1, 2, 2, 1)
        with pytest.raises(pb.errors.InputTypeError, match=r"window is expected, got 2\.0 of type"):
            pb.max_pool(x, window=2.0)
        assert type(pb.max_pool.spec.normalize((x.shape,), window=True, strides=None,
                    padding="valid", data_format="channels_last")["window"][0]) is int  # fmt: skip


EQUATIONS = ("ij,jk->ik", "ij,jk", "ij,jk->ki", " ij , jk -> ik ", "...i,...i->...", "ij,kl->ijkl",
             "ij,ij->", "ij,ji->ij", "ij,jk->ii", "aj,jk->ak")  # fmt: skip


def test_equations(remembered):
    sizes = ((2, 3), (3, 2), (3, 3), (1, 3), (3, 1), (0, 3))
    x = {size: pb.asarray(np.arange(9, dtype=np.float32)[: math.prod(size)].reshape(size))
         for size in sizes}  # fmt: skip
    calls = {
        (equation, a, b): lambda equation=equation, a=a, b=b: pb.einsum(equation, x[a], x[b])
        for equation in EQUATIONS for a in sizes for b in sizes
    }  # fmt: skip
    remembered.check(calls, 0, rounds=2, most=250)


PLACES = (0, 1, True, False, 1.0, np.int64(1), np.bool_(True), np.array(1), np.array(True), None,
          ..., -1, slice(0, 2), slice(0, 2.0), slice(False, 2), slice(None), slice(np.int8(0), 2),
          [0, 1], [False, True], [0.0, 1.0], np.array([0, 1]), np.array([False, True]))  # fmt: skip


def test_places(remembered):
    x = pb.asarray(np.arange(4, dtype=np.float32).reshape(2, 2))
    calls = {
        (remembered.label(a), remembered.label(b)): lambda key=(a, b): x[key]
        for a in PLACES
        for b in PLACES
    }
    calls |= {remembered.label(a): lambda a=a: x[a] for a in PLACES}
    remembered.check(calls, 0, rounds=2)


# Dtypes -------------------------------------------------------------------------------------------


def test_conversions_do_not_depend_on_attributes():
    """The conversions of inputs are cached by their dtypes alone."""
    seen = 0
    for name, suite in SUITES.items():
        for case in cases(OPS[name], suite, CPU):
            if not case.op.inputs:
                continue
            given = case.tensors()
            resolved = case.resolved(given)
            key = operands(tuple(given))
            if len(key) == len(operands(tuple(resolved.inputs))):
                assert case.op.dtype(key, **resolved.attributes).inputs == case.op.dtype(key).inputs
                seen += 1
    assert seen > 3000


def mixed(names):
    found = {}
    for name in names:
        for a, b in itertools.product((*dtypes.ALL, bool, int, float, complex), repeat=2):
            pair = [one(1) if isinstance(one, type) else pb.ones(2, dtype=one) for one in (a, b)]
            found[name, str(a), str(b)] = lambda name=name, pair=pair: OPS[name].function(*pair)
    return found


def test_mixed_dtypes(remembered):
    with np.errstate(all="ignore"):
        remembered.check(mixed(("add", "divide", "less", "pow", "matmul")), 0, rounds=2, most=500)


def test_one_input_and_three_of_other_dtypes(remembered):
    """Dtypes that an op converts before its kernel, alone, in threes and as arrays of NumPy's."""
    calls = {}
    for kind in dtypes.ALL:
        x = pb.asarray([1, 0, 3, 2], dtype=kind)
        for name in ("sqrt", "exp", "mean", "fft", "softmax", "logical_not"):
            calls[name, str(kind)] = lambda name=name, x=x: OPS[name].function(x)
        for other in ("bool", "int32", "float16", "float32", "complex64"):
            y = pb.ones(4, dtype=other)
            calls["where", str(kind), other] = lambda x=x, y=y: pb.where(y > 0, x, y)
            calls["array", str(kind), other] = lambda x=x, y=y: (x + y.numpy(), y.numpy()[1] * x)
    with np.errstate(all="ignore"):
        remembered.check(calls, 0, rounds=2, most=300)
