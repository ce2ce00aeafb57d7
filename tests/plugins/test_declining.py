"""Kernels that decline calls, and kernels that leave residuals out where nothing reads them."""

from __future__ import annotations

from collections import Counter
from typing import ClassVar

import numpy as np
import pytest

import pullback as pb
from pullback import array_api, errors
from pullback.plugins.public import registry
from pullback.plugins.records import may_decline
from pullback.spec import OPS

#: How often a kernel of `Choosy` has served and declined, and how it was asked for residuals.
CALLS: Counter[object] = Counter()
KERNELS = array_api.kernels(np)


def choosy(name):
    """A kernel that serves contiguous arrays of two rows, and declines all other calls."""
    own = KERNELS[name]

    @may_decline
    def kernel(*inputs, **attributes):
        arrays = inputs[0] if isinstance(inputs[0], list) else inputs[:1]
        served = all(a.shape[:1] == (2,) and a.flags.c_contiguous for a in arrays)
        CALLS[name, served] += 1
        return own(*inputs, **attributes) if served else NotImplemented

    return kernel


@may_decline
def full(*, shape, fill_value, dtype, device):
    CALLS["full", shape == (2,)] += 1
    if shape != (2,):
        return NotImplemented
    return KERNELS["full"](shape=shape, fill_value=fill_value, dtype=dtype, device=device)


def body_of_norm(x, scale, offset, axis, epsilon):
    center = x.mean(axis=axis, keepdims=True)
    spread = np.sqrt(((x - center) ** 2).mean(axis=axis, keepdims=True) + epsilon)
    out = (x - center) / spread
    out = out if scale is None else out * scale
    out = out if offset is None else out + offset
    return out, center, (1 / spread).astype(x.dtype)


@may_decline
def layer_norm(x, scale, offset, *, axis, epsilon, residuals=True):
    """One kernel with both: it declines what is transposed, and is asked for residuals."""
    CALLS["layer_norm", residuals, x.flags.c_contiguous] += 1
    if not x.flags.c_contiguous:
        return NotImplemented
    out, *others = body_of_norm(x, scale, offset, axis, epsilon)
    return (out, *others) if residuals else out


class Choosy(pb.Backend):
    name = "choosy"
    dtypes: ClassVar = {d: d.dtype for d in (pb.float32, pb.float64, pb.int32, pb.int64, pb.bool)}
    kernels: ClassVar = {
        **KERNELS,
        **{name: choosy(name) for name in ("exp", "matmul", "concat")},
        "full": full,
        "silu": may_decline(lambda x: NotImplemented),
        "layer_norm": layer_norm,
    }

    def from_host(self, array, device, *, copy):
        return np.array(array)

    def to_host(self, array):
        host = array.view()
        host.flags.writeable = False
        return host

    def native(self, value):
        return np.asarray(value)


@pytest.fixture
def backend():
    CALLS.clear()
    pb.register_backend(made := Choosy(), replace=True)
    # Under the choosy kernels of primitives, which are the pack's here, are the plain ones.
    for name in ("exp", "concat", "full"):
        made.register_kernel(name, KERNELS[name], source="plain", priority=-1)
    yield made
    registry._slots.pop("choosy", None)
    registry.ready.pop("choosy", None)


def values(*shape):
    return np.random.default_rng(3).standard_normal(shape, np.float32)


@pytest.mark.parametrize("rows", [2, 3])
def test_what_a_kernel_declines_goes_to_the_next_or_to_the_body(backend, rows):
    x = pb.asarray(values(rows, 3), device="choosy:cpu:0")
    for _ in range(3):
        np.testing.assert_array_equal(pb.exp(x), np.exp(values(rows, 3)))
        both = np.concatenate([values(rows, 3)] * 2)
        np.testing.assert_array_equal(pb.concat([x, x]), both)
        here = pb.full((rows,), 7.0, device="choosy:cpu:0")
        np.testing.assert_array_equal(here, np.full(rows, 7.0))
        np.testing.assert_allclose(pb.silu(x), pb.silu(values(rows, 3)), rtol=2e-6)
    for name in ("exp", "concat", "full"):
        assert CALLS[name, rows == 2] >= 3
        assert CALLS[name, rows != 2] == 0


def test_calls_that_are_served_are_the_kernel_itself(backend):
    x = pb.asarray(values(2, 3), device="choosy:cpu:0")
    pb.exp(x)
    table = backend.tables[OPS["exp"].index]
    assert list(table.values()) == [backend.kernels_for("exp")[0].kernel]


def test_a_primitive_that_all_kernels_decline_is_an_error_that_says_so(backend):
    x = pb.asarray(values(3, 3), device="choosy:cpu:0")
    for _ in range(2):
        with pytest.raises(errors.MissingKernelError, match=r"matmul.*'choosy'.*declined"):
            pb.matmul(x, x)
    x = pb.asarray(values(2, 2), device="choosy:cpu:0")
    np.testing.assert_array_equal(pb.matmul(x, x), values(2, 2) @ values(2, 2))


def test_undeclared_it_is_an_error_that_says_what_to_write(backend):
    backend.register_kernel("tanh", lambda x: NotImplemented, source="odd", priority=9)
    x = pb.asarray(values(2, 3), device="choosy:cpu:0")
    for _ in range(2):
        with pytest.raises(errors.BackendError, match=r"tanh.*'odd'.*NotImplemented.*may_decline"):
            pb.tanh(x)


@pytest.mark.parametrize("rows", [2, 3])
def test_gradients_are_those_of_the_op(backend, rows):
    def f(x):
        return pb.sum(pb.silu(pb.exp(x)) * pb.layer_norm(pb.concat([x, x]), axis=-1)[:rows])

    x = pb.asarray(values(rows, 3), device="choosy:cpu:0")
    reference = values(rows, 3)
    np.testing.assert_allclose(pb.grad(f)(x), pb.grad(f)(reference), rtol=2e-5, atol=1e-6)
    np.testing.assert_allclose(
        pb.hvp(f, x, x), pb.hvp(f, reference, reference), rtol=2e-4, atol=1e-5
    )


def test_programs_ask_at_each_call(backend):
    """A layout may differ between calls of one program, which is for shapes and dtypes."""

    @pb.function
    def f(x):
        return pb.exp(x) * 2.0

    plain = pb.asarray(values(2, 2), device="choosy:cpu:0")
    turned = pb.matrix_transpose(plain)
    for x in (plain, plain, plain, turned, plain, turned):
        np.testing.assert_array_equal(f(x), np.exp(np.asarray(x)) * np.float32(2))
    assert CALLS["exp", False] >= 2
    assert "1 program" in f.explain()


def test_profilers_see_one_call(backend):
    x = pb.asarray(values(3, 3), device="choosy:cpu:0")
    with pb.profile() as profile:
        pb.exp(x)
    assert [(row.op, row.calls) for row in profile.ops] == [("exp", 1)]


class TestResiduals:
    def test_they_are_left_out_where_nothing_records(self, backend):
        x = pb.asarray(values(4, 3), device="choosy:cpu:0")
        expected = body_of_norm(values(4, 3), None, None, -1, 1e-5)[0]
        for _ in range(3):
            np.testing.assert_array_equal(pb.layer_norm(x), expected)
        assert CALLS["layer_norm", False, True] >= 2
        before = CALLS["layer_norm", True, True]
        with pb.GradientTape() as tape:
            tape.watch(x)
            loss = pb.sum(pb.layer_norm(x) ** 3)
        assert CALLS["layer_norm", True, True] == before + 1
        found = tape.gradient(loss, x)
        wanted = pb.grad(lambda x: pb.sum(pb.layer_norm(x) ** 3))(values(4, 3))
        np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=2e-5)

    def test_programs_compute_those_that_they_read(self, backend):
        x = pb.asarray(values(4, 3), device="choosy:cpu:0")
        infer = pb.function(lambda x: pb.layer_norm(x) * 2.0)
        train = pb.function(pb.grad(lambda x: pb.sum(pb.layer_norm(x) ** 3)))
        inferred, trained = infer(x), train(x)
        infer(x), train(x)
        CALLS.clear()
        np.testing.assert_array_equal(infer(x), inferred)
        assert dict(CALLS) == {("layer_norm", False, True): 1}
        CALLS.clear()
        np.testing.assert_array_equal(train(x), trained)
        assert CALLS["layer_norm", True, True] == 1

    def test_a_body_in_its_place_returns_no_more(self, backend):
        x = pb.matrix_transpose(pb.asarray(values(3, 4), device="choosy:cpu:0"))
        infer = pb.function(lambda x: pb.layer_norm(x))
        for _ in range(4):
            for f in (pb.layer_norm, infer):
                np.testing.assert_allclose(
                    f(x), pb.layer_norm(np.ascontiguousarray(values(3, 4).T)), atol=1e-6
                )
        assert CALLS["layer_norm", False, False] >= 6

    def test_a_kernel_without_a_default_cannot_be_registered(self, backend):
        def kernel(x, scale, offset, *, axis, epsilon, residuals):
            return x

        class Wrong(Choosy):
            name = "wrong"
            kernels: ClassVar = {**KERNELS, "layer_norm": kernel}

        with pytest.raises(errors.PluginError, match="residuals"):
            pb.register_backend(Wrong())
