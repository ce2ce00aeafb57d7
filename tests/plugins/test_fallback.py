"""`Backend.fallback`: ops that another device runs, listed and counted as such."""

from __future__ import annotations

import json
from typing import ClassVar

import numpy as np
import pytest

import pullback as pb
from pullback import array_api, cli, errors
from pullback.plugins.public import registry
from pullback.plugins.registry import Registry
from pullback_conformance.runner import conform

#: A primitive, one on a device, one of a sequence, and composites with and without residuals.
LEFT = ("exp", "full", "concat", "matmul", "sort", "layer_norm", "silu", "eigh", "adam_update")


class Boxed:
    """An array that NumPy does not take by itself: nothing moves unless it is moved."""

    def __init__(self, array):
        self.array = np.asarray(array)

    shape = property(lambda self: self.array.shape)
    dtype = property(lambda self: self.array.dtype)


def boxing(kernel):
    def opened(value):
        return (
            [opened(x) for x in value]
            if isinstance(value, list)
            else getattr(value, "array", value)
        )

    def call(*inputs, **attributes):
        result = kernel(*map(opened, inputs), **attributes)
        return tuple(map(Boxed, result)) if isinstance(result, (tuple, list)) else Boxed(result)

    return call


class Without(pb.Backend):
    """A small backend that lacks some kernels."""

    name = "lathe"
    dtypes: ClassVar = {d: d.dtype for d in (pb.float32, pb.float64, pb.int32, pb.int64, pb.bool)}
    kernels: ClassVar = {
        name: boxing(kernel) for name, kernel in array_api.kernels(np).items() if name not in LEFT
    }

    def from_host(self, array, device, *, copy):
        return Boxed(np.array(array))

    def to_host(self, array):
        host = array.array.view()
        host.flags.writeable = False
        return host

    def native(self, value):
        return Boxed(value)


class With(Without):
    fallback: ClassVar = dict.fromkeys(LEFT, "cpu")


def registered(kind):
    pb.register_backend(made := kind(), replace=True)
    return made


@pytest.fixture(autouse=True)
def _forget():
    yield
    registry._slots.pop("lathe", None)
    registry.ready.pop("lathe", None)


def program(device, capture=False):
    """Values and gradients of ops that the backend has, and of those that it leaves."""
    rng = np.random.default_rng(0)
    x, w = (pb.asarray(rng.standard_normal(s, np.float32), device=device) for s in ((4, 3), (3, 3)))

    def loss(x, w):
        y = pb.exp(pb.concat([x, pb.full((1, 3), 0.5, device=x.device)], axis=0) @ w)
        y = pb.layer_norm(y, pb.ones_like(w[0]), w[0], axis=(-1,), epsilon=1e-5)
        y = pb.silu(y) * pb.sin(y)
        # The gradient of a sort looks at its positions here, which a program cannot repeat.
        return pb.sum(y if capture else pb.sort(y))

    gradient = pb.value_and_grad(loss, argnums=(0, 1))
    run = pb.function(gradient) if capture else gradient
    for _ in range(3):
        value, gradients = run(x, w)
    assert {str(t.device) for t in (value, *gradients)} == {str(x.device)}
    return [value.numpy(), *(g.numpy() for g in gradients)]


@pytest.mark.parametrize("capture", [False, True])
def test_values_and_gradients_are_those_of_the_other_device(capture):
    registered(With)
    for mine, theirs in zip(program("lathe", capture), program("cpu"), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6)


def test_without_it_a_primitive_is_missing_and_a_composite_has_its_body():
    registered(Without)
    x = pb.asarray([1.0, 2.0], device="lathe")
    with pytest.raises(errors.MissingKernelError, match="no kernel for this primitive"):
        pb.exp(x)
    with pytest.raises(errors.MissingKernelError, match="exp"):
        pb.silu(x)


def test_several_results_errors_and_optimizers():
    registered(With)
    a = pb.asarray(np.diag([2.0, 1.0]), device="lathe")
    assert pb.linalg.eigh(a).eigenvalues.tolist() == [1.0, 2.0]
    with pytest.raises(errors.PullbackError, match=r"^matmul: inner sizes differ"):
        a @ pb.ones((3, 3), dtype=pb.float64, device="lathe")
    with pb.device("lathe"):
        w = pb.Variable([1.0, 2.0])
        pb.optimizers.Adam(0.1).apply_gradients([(pb.asarray([1.0, -1.0]), w)])
    np.testing.assert_allclose(w.numpy(), [0.9, 2.1], rtol=1e-5)


def test_a_profile_has_the_op_on_both_devices():
    registered(With)
    x = pb.asarray([1.0, 2.0], device="lathe")
    with pb.profile() as profile:
        pb.exp(x)
    cpu = pb.device("cpu").backend.name
    assert {(row.op, row.backend) for row in profile.ops} == {("exp", "lathe"), ("exp", cpu)}


def test_a_fallback_that_lacks_it_too_or_is_the_backend_itself():
    class Circle(With):
        fallback: ClassVar = {"exp": "lathe"}

    registered(Circle)
    with pytest.raises(
        errors.BackendError, match=r"exp: .*same backend; name one of another in Ci"
    ):
        pb.exp(pb.asarray([1.0], device="lathe"))

    class Other(Without):
        name = "other"

    class Nobody(With):
        fallback: ClassVar = {"exp": "other"}

    pb.register_backend(Other(), replace=True)
    registered(Nobody)
    with pytest.raises(errors.MissingKernelError, match=r"the fallback other:cpu:0 has no kernel"):
        pb.exp(pb.asarray([1.0], device="lathe"))
    registry._slots.pop("other")
    registry.ready.pop("other")


@pytest.mark.parametrize(
    ("fallback", "message"),
    [
        ({"exq": "cpu"}, r"unknown op 'exq'; did you mean"),
        ({"exp": pb.device}, r"must be the name of a device, such as 'cpu'; got"),
        (("exp",), r"must be a dict of ops and devices, such as \{'eigh': 'cpu'\}; got"),
    ],
)
def test_fallbacks_that_are_rejected(fallback, message):
    wrong = type("Wrong", (Without,), {"fallback": fallback})()
    with pytest.raises(errors.PluginError, match=message):
        Registry(lambda: []).register_backend(wrong)


def test_the_list_of_kernels_says_so(capsys):
    registered(With)
    for op_name, why in (("exp", "a fallback: runs there"), ("silu", "a fallback: runs there")):
        cli.main(["backends", "--kernels", op_name, "--json"])
        servers = {
            server["source"]: server
            for server in json.loads(capsys.readouterr().out)
            if server["backend"] == "lathe"
        }
        assert servers["cpu"]["used"]
        assert servers["cpu"]["why"].startswith(why)
        assert "decomposition" not in servers or not servers["decomposition"]["used"]
    cli.main(["backends", "--kernels", "sin", "--json"])
    assert "a fallback" not in capsys.readouterr().out


def test_conformance_counts_them_apart():
    registered(With)
    report = conform("lathe", ops=["exp", "sign"], quick=True)
    assert report.passed, report.failures
    assert report.fallbacks() == {"exp": "cpu"}
    assert report.as_dict()["fallback"] == {"exp": "cpu"}
    assert report.rows["sign"].kernel
    assert not report.rows["exp"].kernel
    assert list(report.missing()) == []
    registered(Without)
    assert [op.name for op in conform("lathe", ops=["exp"], quick=True).missing()] == ["exp"]
