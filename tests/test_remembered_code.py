"""What is remembered of code and of plugins: rules, kernels, devices."""

from __future__ import annotations

import pullback as pb
from pullback import dtypes
from pullback.devices import as_device
from pullback.tensor import Tensor, TensorLike

CPU = as_device("cpu")


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
        backend.withdraw("test")
        assert served() == [2, 2, 2]


def test_a_kernel_found_while_another_is_offered(offer, monkeypatch, remembered):
    """What one thread looked up is not put where another has just cleared."""
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
    """A gradient function may write into what it is given: others are given the same array."""

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
