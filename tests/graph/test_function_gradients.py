"""Gradients through captured functions, from tapes outside: one node for all of the function."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import pullback as pb
from pullback._autodiff import replay
from pullback.graph.call_graph import CallGraph

X = np.array([0.5, -1.0, 2.0], np.float32)
RNG = np.random.default_rng(3)


def node_of(tensor):
    return tensor._node.parents[0].op if tensor._node.parents else tensor._node.op


def gradients(function, *arguments, variables=(), watch=True):
    tensors = [argument for argument in arguments if isinstance(argument, pb.Tensor)]
    with pb.GradientTape() as tape:
        if watch:
            tape.watch(tensors)
        results = function(*arguments)
        loss = sum((part * part).sum() for part in results)
    found = tape.gradient(loss, [*tensors, *variables], unconnected_gradients="zero")
    return [gradient.numpy() for gradient in found], results


def test_the_gradients_of_a_captured_function_are_those_of_the_function():
    v, w = pb.Variable(2.0), pb.Variable(X)
    frozen = pb.Variable(3.0, trainable=False)

    def f(x, y):
        return pb.sin(x) * v * y, [pb.exp(w) * x + frozen, x > 0, y][0], y * 2

    captured = pb.function(f)
    for step in range(6):
        x, y = pb.asarray(X + step), pb.asarray(X * 2)
        found, results = gradients(captured, x, y, variables=[v, w, frozen])
        expected, others = gradients(f, x, y, variables=[v, w, frozen])
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-6)
        for one, other in zip(results, others, strict=True):
            assert one.numpy().tobytes() == other.numpy().tobytes()
        v.assign_add(0.5)
    assert isinstance(node_of(results[0]), CallGraph)
    assert "while a tape outside records, f: 1 program" in captured.explain()


def test_only_what_a_tape_watches_has_a_gradient():
    v = pb.Variable(2.0)
    captured = pb.function(lambda x: (x * v,))
    for _ in range(4):
        x = pb.asarray(X)
        with pb.GradientTape() as tape:
            (y,) = captured(x)
        assert tape.gradient(y, [v, x])[1] is None
        with pb.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(x)
            (y,) = captured(x)
        by_x, by_v = tape.gradient(y, [x, v])
        assert by_x.tolist() == [2.0] * 3
        assert by_v is None
        with pb.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(v)
            (y,) = captured(x)
        assert tape.gradient(y, v).item() == pytest.approx(1.5)
        with pb.GradientTape(watch_accessed_variables=False) as tape:
            (y,) = captured(x)
        assert y.tolist() == (pb.asarray(X) * 2).tolist()


def model_and_step(capture):
    pb.random.seed(3)
    model = pb.Sequential(
        [
            pb.layers.Conv2D(4, 3, padding="same"), pb.layers.BatchNormalization(),
            pb.layers.ReLU(), pb.layers.Flatten(), pb.layers.Dropout(0.2), pb.layers.Dense(3),
        ]
    )  # fmt: skip
    optimizer = pb.optimizers.Adam(0.01)
    forward = pb.function(model) if capture else model

    def step(x, y):
        with pb.GradientTape() as tape:
            loss = pb.losses.sparse_softmax_cross_entropy(y, forward(x, training=True))
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    return model, forward, step


def test_a_captured_model_trains_under_an_eager_tape_with_the_same_bits():
    x, y = pb.asarray(RNG.standard_normal((4, 6, 6, 2), np.float32)), pb.asarray([0, 1, 2, 0])
    results = []
    for capture in (False, True):
        model, forward, step = model_and_step(capture)
        losses = [step(x, y).numpy().tobytes() for _ in range(20)]
        results.append((losses, [v.numpy().tobytes() for v in model.variables]))
    assert results[0] == results[1]
    assert len(forward._taped._all()) == 1


def test_the_backward_pass_is_compiled_as_any_other():
    v = pb.Variable(2.0)
    captured = pb.function(lambda x: (pb.tanh(x * v), x + 1))
    replay.forget()
    x = pb.asarray(X)
    found = []
    for _ in range(8):
        with pb.GradientTape() as tape:
            tape.watch(x)
            y, z = captured(x)
            loss = (y * z).sum()
        found.append([g.tolist() for g in tape.gradient(loss, [x, v])])
    assert found == [found[0]] * 8
    assert any(form.passes for form in replay._forms.values())
    replay.forget()


def test_second_order_from_outside():
    v = pb.Variable(2.0)

    def f(x):
        return pb.sin(x) * v * x

    captured = pb.function(f)
    for _ in range(5):
        found = []
        for function in (captured, f):
            x = pb.asarray(X)
            with pb.GradientTape(persistent=True) as tape:
                tape.watch(x)
                first = tape.gradient(function(x), x)
                second = tape.gradient(first, [x, v])
            found.append([part.tolist() for part in second])
        for one, other in zip(*found, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5)
        hessians = [pb.hessian(lambda x, g=g: g(x).sum())(x).numpy() for g in (captured, f)]
        np.testing.assert_allclose(*hessians, rtol=1e-5, atol=1e-7)
        value, tangent = pb.jvp(captured, [x], [pb.ones(3)])
        expected = pb.jvp(f, [x], [pb.ones(3)])
        np.testing.assert_allclose(tangent.numpy(), expected[1].numpy(), rtol=1e-5)
        assert value.tolist() == expected[0].tolist()


def test_functions_of_gradients():
    v = pb.Variable(2.0)
    captured = pb.function(lambda x: (pb.exp(x) * v).sum())
    x = pb.asarray(X)
    for _ in range(4):
        np.testing.assert_allclose(pb.grad(captured)(x).numpy(), 2 * np.exp(X), rtol=1e-6)
        ((gradient, variable),) = pb.implicit_gradients(captured)(x)
        assert variable is v
        assert float(gradient) == pytest.approx(float(np.exp(X).sum()))
        value, pullback = pb.vjp(captured, x)
        np.testing.assert_allclose(pullback(3.0)[0].numpy(), 6 * np.exp(X), rtol=1e-6)
        assert value.item() == pytest.approx(2 * float(np.exp(X).sum()))


def test_effects_happen_once_and_a_tape_inside_may_be_there():
    v, generator = pb.Variable(1.0), pb.Generator(3)
    metric = pb.metrics.Mean()

    def f(x):
        with pb.GradientTape() as inner:
            inner.watch(x)
            y = pb.tanh(x) * v
        slope = inner.gradient(y, x)
        v.assign_add(1.0)
        metric(x)
        return (generator.dropout(x * v, 0.5) + slope,)

    captured = pb.function(f)
    results = []
    for function in (f, captured):
        v.assign(1.0)
        generator.state = (3, 0)
        metric.reset()
        for _ in range(6):
            found, values = gradients(function, pb.asarray(X), variables=[v])
            results.append((found, values[0].tolist(), float(v), metric.result()))
    for one, other in zip(results[:6], results[6:], strict=True):
        assert one[1:] == other[1:]
        for a, b in zip(one[0], other[0], strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_tensors_from_outside_that_a_tape_has_recorded():
    table = pb.asarray(X)
    captured = pb.function(lambda x: (x * table,))
    for _ in range(4):
        x = pb.asarray(X)
        with pb.GradientTape() as tape:
            tape.watch([x, table])
            (y,) = captured(x)
        assert [g.tolist() for g in tape.gradient(y, [x, table])] == [X.tolist()] * 2
        with pb.GradientTape() as tape:
            tape.watch(x)
            (y,) = captured(x)
        assert tape.gradient(y, x).tolist() == X.tolist()


def test_arrays_are_released_after_the_backward_pass():
    v = pb.Variable(X)
    captured = pb.function(lambda x: (pb.exp(x * v),))
    seen = []
    for _ in range(5):
        x = pb.asarray(X * 1.5)
        seen.append(weakref.ref(x._array))
        found, results = gradients(captured, x, variables=[v])
        seen += [weakref.ref(results[0]._array), weakref.ref(found[0])]
        del x, found, results
    gc.collect()
    assert all(reference() is None for reference in seen)


def test_one_tensor_for_two_parameters():
    captured = pb.function(lambda a, b: a * a * b)
    x, y = pb.asarray(3.0), pb.asarray(4.0)
    # The program is made for a tensor that is given twice, and serves two as well.
    for first, second in [(x, x)] * 3 + [(x, y)] * 3 + [(x, x)]:
        with pb.GradientTape() as tape:
            tape.watch([x, y])
            result = captured(first, second)
        found = [None if g is None else float(g) for g in tape.gradient(result, [x, y])]
        assert found == ([27.0, None] if second is x else [24.0, 9.0])


def test_a_source_has_no_gradient_from_a_result_that_does_not_depend_on_it():
    """Else an optimizer would decay the weights of a head that the loss does not have."""
    v, w = pb.Variable(2.0), pb.Variable(3.0)
    captured = pb.function(lambda x: (x * v, pb.exp(w * v), w * 2.0))
    x = pb.asarray(5.0)
    for _ in range(4):
        for chosen in ([0], [2], [0, 2], [0, 1]):
            found = []
            for f in (captured, captured._f):
                with pb.GradientTape(persistent=True) as outer, pb.GradientTape() as tape:
                    tape.watch(x)
                    results = f(x)
                gradients = tape.gradient([results[i] for i in chosen], [x, v, w])
                assert outer.gradient(results[0], w) is None
                found.append([None if g is None else g.tolist() for g in gradients])
            assert found[0] == found[1]
