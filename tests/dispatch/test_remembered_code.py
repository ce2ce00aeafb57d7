"""Caches of code and of plugins: rules, kernels, devices."""

from __future__ import annotations

from importlib import import_module
from types import SimpleNamespace

import pytest

import pullback as pb
from pullback import dtypes
from pullback.devices import as_device
from pullback.plugins.hookspecs import hookimpl
from pullback.plugins.registry import Registry
from pullback.tensor import Tensor, TensorLike

CPU = as_device("cpu")
#: The module; the package has a function of its name.
devices = import_module("pullback.devices")


def test_a_rule_counts_from_the_moment_that_it_is_given(define):
    """The code of an op is made at its first call, for the rules that there are."""

    @define(dtype=dtypes.real_floating)
    def remembered_product(a: TensorLike, b: TensorLike, /) -> Tensor:
        """A product."""
        return a * b

    def gradients():
        a, b = pb.asarray(2.0), pb.asarray(3.0)
        with pb.GradientTape() as tape:
            tape.watch([a, b])
            y = remembered_product(a, b)
        return [None if one is None else one.item() for one in tape.gradient(y, [a, b])]

    assert gradients() == [3.0, 2.0]
    remembered_product.vjp(a=lambda g, b: g * b * 10)
    assert gradients() == [30.0, None]
    remembered_product.vjp(b=lambda g, a: g * a * 100)
    assert gradients() == [30.0, 200.0]
    assert remembered_product(2.0, 3.0).item() == 6.0


def test_no_gradient_counts_from_the_moment_that_it_is_declared(define):
    @define(dtype=dtypes.real_floating)
    def remembered_quotient(a: TensorLike, b: TensorLike, /) -> Tensor:
        """A quotient."""
        return a / b

    def gradients():
        a, b = pb.asarray(6.0), pb.asarray(2.0)
        with pb.GradientTape() as tape:
            tape.watch([a, b])
            y = remembered_quotient(a, b)
        return [None if one is None else one.item() for one in tape.gradient(y, [a, b])]

    assert gradients() == [0.5, -1.5]
    remembered_quotient.vjp(a=None)
    assert gradients() == [None, None]
    remembered_quotient.vjp(b=lambda g, b: g * b * 10)
    assert gradients() == [None, 20.0]


def test_kernels_that_come_and_go(offer):
    """A kernel serves from the moment that it is offered until it is taken back, for its dtypes."""
    x = {kind: pb.ones(2, dtype=kind) for kind in ("float32", "float64", "int32")}
    backend = CPU.backend

    def served():
        return [(x[kind] + x[kind]).numpy()[0].item() for kind in x]

    assert served() == [2, 2, 2]
    for _ in range(2):
        offer("add", lambda a, b: a * 0 + 7, dtypes=frozenset({dtypes.float64}))
        assert served() == [2, 7, 2]
        offer("add", lambda a, b: a * 0 + 8, dtypes=frozenset({dtypes.int32}))
        assert served() == [2, 7, 8]
        backend.unregister_kernels("test")
        assert served() == [2, 2, 2]


def test_a_kernel_found_while_another_is_offered(offer, monkeypatch, remembered):
    """A kernel that one thread looked up is not cached after another thread cleared the cache."""
    backend = CPU.backend
    x = pb.ones(2, dtype="uint8")
    remembered.forget()
    real = type(backend).kernel

    def slowly(self, name, dtype):
        found = real(self, name, dtype)
        if name == "bitwise_xor":
            monkeypatch.undo()
            offer("bitwise_xor", lambda a, b: a * 0 + 9)  # as another thread would just now
        return found

    monkeypatch.setattr(type(backend), "kernel", slowly)
    assert (x ^ x).tolist() == [0, 0]
    assert (x ^ x).tolist() == [9, 9]


def test_a_cotangent_that_is_written_into():
    """A gradient function may write into its argument: others get the same array."""

    @pb.custom_gradient
    def marked(x):
        def gradient(g):
            g[...] = 7.0
            return g

        return x * 1.0, gradient

    def gradient(f):
        x = pb.asarray(1.0)
        with pb.GradientTape() as tape:
            tape.watch(x)
            y = f(x)
        return tape.gradient(y, x).item()

    for _ in range(2):
        assert gradient(marked) == 7.0
        assert gradient(lambda x: x * 2.0) == 2.0
        assert gradient(lambda x: marked(x) + x * 2.0) == 9.0


# Plugins and devices ------------------------------------------------------------------------------


def backend_of(kernel):
    """A backend called `remembered` that adds in a way of its own."""

    kernels = {**CPU.backend.kernels, "add": kernel}
    kind = type(CPU.backend)
    return type("Remembered", (kind,), {"name": "remembered", "kernels": kernels})()


@pytest.fixture
def chosen():
    before = pb.default_device()
    yield
    pb.set_default_device(None)
    assert pb.default_device() is before


def test_a_backend_takes_the_place_of_another(chosen):
    """Names, and the default that was chosen by one, mean the backend that is there now."""
    chosen_yet = False
    ones = [backend_of(lambda a, b, n=n: a * 0 + n) for n in (5, 6)]
    for i in (0, 1, 0, 1):
        pb.register_backend(ones[i], replace=True)
        x = pb.ones(2, device="remembered")
        assert x.device is pb.device("remembered:cpu:0") is pb.device("remembered")
        assert x.device.backend is ones[i]
        assert (x + x).tolist() == [5 + i, 5 + i]
        if i:
            pb.set_default_device("remembered")
        # What was chosen by a name follows that name.
        assert pb.default_device() is (x.device if chosen_yet or i else CPU)
        chosen_yet = chosen_yet or bool(i)


def test_a_default_found_while_another_is_chosen(chosen, monkeypatch):
    """Who looks the default up does not undo what another thread has chosen meanwhile."""
    pb.register_backend(backend_of(CPU.backend.kernels["add"]), replace=True)
    other, real = pb.device("remembered"), devices._first

    def slowly():
        pb.set_default_device(other)  # as another thread would just now
        return real()

    monkeypatch.setattr(devices, "_default", None)
    monkeypatch.setattr(devices, "_first", slowly)
    pb.default_device()
    assert pb.default_device() is other


def test_a_name_found_while_its_backend_is_replaced(monkeypatch):
    old, new = (backend_of(CPU.backend.kernels["add"]) for _ in range(2))
    pb.register_backend(old, replace=True)
    real = devices._resolve

    def slowly(spec):
        found = real(spec)
        if found.backend is old:
            pb.register_backend(new, replace=True)
        return found

    monkeypatch.setattr(devices, "_resolve", slowly)
    assert pb.device("remembered").backend is old
    assert pb.device("remembered").backend is new


def test_packs_of_a_backend_that_comes_back():
    """It has the packs that are used now, once each, however often it was there before."""

    @hookimpl
    def pullback_register_kernels(register):
        register("flip", lambda x, *, axis: x)

    pack = SimpleNamespace(pullback_register_kernels=pullback_register_kernels)
    entry = SimpleNamespace(
        group="pullback.kernels.remembered", name="extra", value="module", load=lambda: pack,
        dist=SimpleNamespace(name="some-dist", version="1"),
    )  # fmt: skip
    plugins = Registry(lambda: [entry])
    one, two = (backend_of(CPU.backend.kernels["add"]) for _ in range(2))
    for backend in (one, two, one, one, two):
        plugins.register_backend(backend, replace=True)
        assert [pack.state for pack in plugins.about("remembered").packs] == ["ready"]
        assert [offer.source for offer in backend.kernels_for("flip")] == ["extra", "remembered"]
    plugins.use_kernel_packs([])
    assert [offer.source for offer in two.kernels_for("flip")] == ["remembered"]
    plugins.register_backend(one, replace=True)
    assert [offer.source for offer in one.kernels_for("flip")] == ["remembered"]


# Layers -------------------------------------------------------------------------------------------


def test_a_call_that_takes_training_from_now_on():
    class Remembering(pb.layers.Layer):
        def call(self, x):
            return x

    layer = Remembering()
    assert layer(pb.ones(2), training=True).tolist() == [1, 1]
    Remembering.call = lambda self, x, training=False: x * (5 if training else 2)
    assert layer(pb.ones(2), training=True).tolist() == [5, 5]
    assert layer(pb.ones(2)).tolist() == [2, 2]
    Remembering.call = lambda self, x: x * 3
    assert layer(pb.ones(2), training=True).tolist() == [3, 3]
