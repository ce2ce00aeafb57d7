"""Derivatives of functions: grad and its kin, custom gradients, directions and matrices."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import pullback as pb


def square(x):
    return x * x


def quartic(x):
    return x * x * x * x


def central(f, x, step=1e-5):
    """The gradient of a real function of a float64 array, by central differences."""
    x = np.asarray(x, np.float64)
    result = np.zeros_like(x)
    for index in np.ndindex(x.shape):
        ahead, behind = x.copy(), x.copy()
        ahead[index] += step
        behind[index] -= step
        result[index] = (float(f(pb.asarray(ahead))) - float(f(pb.asarray(behind)))) / (2 * step)
    return result


class TestGrad:
    def test_square_to_fourth_order(self):
        functions = [square]
        for _ in range(4):
            functions.append(pb.grad(functions[-1]))
        assert [float(f(3.0)) for f in functions] == [9.0, 6.0, 2.0, 0.0, 0.0]

    def test_quartic_to_third_order(self):
        first = pb.grad(quartic)
        second = pb.grad(first)
        third = pb.grad(second)
        assert [float(f(2.0)) for f in (first, second, third)] == [32.0, 48.0, 48.0]

    def test_branches_on_values(self):
        def absolute(x):
            return x if x > 0.0 else -x

        gradient = pb.grad(absolute)
        assert float(gradient(3.0)) == 1.0
        assert float(gradient(-3.0)) == -1.0

    def test_python_integers_count_as_floats(self):
        assert float(pb.grad(square)(3)) == 6.0

    def test_integer_tensors_have_none(self):
        with pytest.raises(pb.errors.DTypeError, match=r"square in argument 0.*int32.*astype"):
            pb.grad(square)(pb.asarray([1, 2]))

    def test_value_as_well(self):
        value, gradient = pb.value_and_grad(square)(3.0)
        assert (float(value), float(gradient)) == (9.0, 6.0)

    def test_several_arguments(self):
        def f(x, y, *, scale):
            return scale * x * x * y

        assert float(pb.grad(f, 1)(2.0, 3.0, scale=10.0)) == 40.0
        assert float(pb.grad(f, -1)(2.0, 3.0, scale=10.0)) == 40.0
        by_x, by_y = pb.grad(f, (0, 1))(2.0, 3.0, scale=10.0)
        assert (float(by_x), float(by_y)) == (120.0, 40.0)

    def test_argument_that_was_not_given(self):
        with pytest.raises(pb.errors.InputValueError, match="argument 2"):
            pb.grad(square, 2)(3.0)

    def test_structures(self):
        def f(parameters):
            return (parameters["w"] * parameters["layers"][0]).sum() + parameters["b"]

        gradient = pb.grad(f)(
            {"w": pb.asarray([1.0, 2.0]), "layers": [pb.asarray([3.0, 4.0])], "b": pb.asarray(0.0)}
        )
        assert gradient["w"].tolist() == [3.0, 4.0]
        assert gradient["layers"][0].tolist() == [1.0, 2.0]
        assert gradient["b"].tolist() == 1.0

    def test_nested_lists_are_arrays(self):
        assert pb.grad(square)([[1.0, 2.0]]).tolist() == [[2.0, 4.0]]

    def test_independent_results_have_zero(self):
        assert pb.grad(lambda x: pb.asarray(3.0))([1.0, 2.0]).tolist() == [0.0, 0.0]
        assert float(pb.grad(lambda x: 3)(1.0)) == 0.0
        assert float(pb.grad(lambda x, y: x, 1)(1.0, 2.0)) == 0.0

    def test_function_without_result(self):
        with pytest.raises(pb.errors.InputTypeError, match="None"):
            pb.grad(lambda x: None)(1.0)

    def test_variables_are_arguments_too(self):
        v = pb.Variable(3.0)
        assert float(pb.grad(square)(v)) == 6.0
        assert float(pb.grad(pb.grad(square))(v)) == 2.0

    def test_leaves_the_callers_handle_alone(self):
        x = pb.asarray(3.0)
        pb.grad(square)(x)
        with pb.GradientTape() as tape:
            tape.watch(x)
            y = pb.grad(square)(x)
        assert float(tape.gradient(y, x)) == 2.0

    def test_keeps_the_name(self):
        assert pb.grad(square).__name__ == "square"

    def test_line_search_is_differentiable(self):
        def f(x):
            return (x - 3.0) * (x - 3.0)

        def descend(x):
            for _ in range(20):
                slope = pb.grad(f)(x)
                step = 1.0
                while f(x - step * slope) > f(x) - 0.5 * step * slope * slope:
                    step = step / 2.0
                x = x - step * slope
            return x

        assert float(descend(pb.asarray(0.0))) == pytest.approx(3.0, abs=1e-3)
        assert float(pb.grad(descend)(10.0)) == pytest.approx(0.0, abs=1e-3)


class TestImplicit:
    def test_pairs_of_every_variable_read(self):
        w, b, other = pb.Variable(2.0), pb.Variable(1.0), pb.Variable(0.0)
        constant = pb.Variable(5.0, trainable=False)

        def loss(x):
            return (w * x + b) * constant

        pairs = pb.implicit_gradients(loss)(3.0)
        assert [(float(g), v) for g, v in pairs] == [(15.0, w), (5.0, b)]
        assert other not in [v for _, v in pairs]
        value, pairs = pb.implicit_value_and_gradients(loss)(3.0)
        assert float(value) == 35.0
        assert [float(g) for g, _ in pairs] == [15.0, 5.0]

    def test_vector_losses_are_summed(self):
        w = pb.Variable(2.0)
        ((gradient, _),) = pb.implicit_gradients(lambda x: w * x)([1.0, 2.0, 3.0])
        assert float(gradient) == 6.0

    def test_no_variable(self):
        with pytest.raises(pb.errors.TapeError, match="read no trainable variable"):
            pb.implicit_gradients(square)(3.0)

    def test_differentiable_again(self):
        w = pb.Variable(2.0)
        with pb.GradientTape() as tape:
            ((gradient, _),) = pb.implicit_gradients(lambda: w * w * w)()
        assert float(tape.gradient(gradient, w)) == 12.0


class TestStopGradient:
    def test_is_a_constant(self):
        assert float(pb.grad(lambda x: x * pb.stop_gradient(x))(3.0)) == 3.0
        assert float(pb.grad(pb.stop_gradient)(3.0)) == 0.0

    def test_structures_and_host_data(self):
        a, b = pb.stop_gradient((pb.asarray(1.0), pb.asarray([2.0])))
        assert (float(a), b.tolist()) == (1.0, [2.0])
        assert pb.stop_gradient([1.0, 2.0]).tolist() == [1.0, 2.0]

    def test_variables(self):
        w = pb.Variable(3.0)
        with pb.GradientTape() as tape:
            y = w * pb.stop_gradient(w)
        assert float(tape.gradient(y, w)) == 3.0


class TestMatrices:
    def test_jacobian(self):
        def f(x):
            return pb.stack([x[0] * x[1], x[1] * x[1], x[0]])

        assert pb.jacobian(f)([2.0, 3.0]).tolist() == [[3.0, 2.0], [0.0, 6.0], [1.0, 0.0]]

    def test_jacobian_of_several_arguments(self):
        by_x, by_y = pb.jacobian(lambda x, y: x * y, (0, 1))([2.0, 3.0], [5.0, 7.0])
        assert by_x.tolist() == [[5.0, 0.0], [0.0, 7.0]]
        assert by_y.tolist() == [[2.0, 0.0], [0.0, 3.0]]

    def test_jacobian_of_a_constant(self):
        assert pb.jacobian(lambda x: pb.asarray([1.0]))([2.0, 3.0]).tolist() == [[0.0, 0.0]]

    def test_hessian(self):
        def f(x):
            return x[0] * x[0] * x[1] + x[1] * x[1] * x[1]

        assert pb.hessian(f)([1.0, 2.0]).tolist() == [[4.0, 2.0], [2.0, 12.0]]

    def test_hessian_against_finite_differences(self):
        def f(x):
            return (pb.exp(x[0] * x[1]) + pb.sin(x[1]) * x[2]).sum()

        x = np.asarray([0.3, -0.7, 1.2])
        rows = [central(lambda p, i=i: pb.grad(f)(p)[i], x) for i in range(3)]
        np.testing.assert_allclose(pb.hessian(f)(x).numpy(), rows, atol=1e-8)

    def test_third_derivative_through_jacobians(self):
        third = pb.jacobian(pb.hessian(lambda x: (x * x * x).sum()))
        expected = np.zeros((2, 2, 2))
        expected[0, 0, 0] = expected[1, 1, 1] = 6
        assert third([1.0, 2.0]).tolist() == expected.tolist()


class TestDirections:
    def test_vjp(self):
        value, pull = pb.vjp(lambda x, y: (x * y, x), 2.0, 3.0)
        assert [float(v) for v in value] == [6.0, 2.0]
        assert [float(g) for g in pull((10.0, 100.0))] == [130.0, 20.0]
        assert [float(g) for g in pull((1.0, 0.0))] == [3.0, 2.0]

    def test_jvp(self):
        value, tangent = pb.jvp(lambda x, y: x * x * y, [2.0, 3.0], [1.0, 10.0])
        assert (float(value), float(tangent)) == (12.0, 52.0)

    def test_jvp_is_the_jacobian_times_the_tangent(self):
        def f(x):
            return pb.stack([pb.sin(x[0]) * x[1], pb.exp(x[1])])

        x, t = np.asarray([0.5, -1.5]), np.asarray([0.3, 2.0])
        expected = pb.jacobian(f)(x).numpy() @ t
        np.testing.assert_allclose(pb.jvp(f, [x], [t])[1].numpy(), expected, rtol=1e-12)

    def test_jvp_of_structures_and_constants(self):
        value, tangent = pb.jvp(lambda x: {"a": x * x, "b": pb.asarray(1.0)}, [3.0], [1.0])
        assert (float(value["a"]), float(tangent["a"]), float(tangent["b"])) == (9.0, 6.0, 0.0)

    def test_jvp_is_differentiable(self):
        def slope(x):
            return pb.jvp(quartic, [x], [1.0])[1]

        assert [float(f(2.0)) for f in (slope, pb.grad(slope))] == [32.0, 48.0]
        assert float(pb.jvp(slope, [2.0], [1.0])[1]) == 48.0

    def test_jvp_of_complex_functions(self):
        z, t = np.asarray(1.0 + 2.0j), np.asarray(0.5 - 1.0j)
        assert pb.jvp(square, [z], [t])[1].item() == pytest.approx(2 * z * t)

    def test_needs_one_tangent_each(self):
        with pytest.raises(pb.errors.InputValueError, match="2 arguments and 1 tangents"):
            pb.jvp(lambda x, y: x, [1.0, 2.0], [1.0])


class TestCustomGradient:
    def test_variables_that_nobody_asks_for(self):
        v = pb.Variable(2.0)
        f = pb.custom_gradient(lambda x: (x * v, lambda g: g * 7))
        assert float(pb.grad(f)(3.0)) == 7.0

    def test_no_gradient_function(self):
        for f in (lambda x: x * x, lambda x: (x, x), lambda x: None):
            for call in (pb.custom_gradient(f), pb.grad(pb.custom_gradient(f))):
                with pytest.raises(pb.errors.InputTypeError, match="must return its result and"):
                    call(pb.ones(()))

    def test_clips_on_the_way_back(self):
        @pb.custom_gradient
        def clip_gradient_by_norm(x, norm):
            def grad_fn(g):
                size = pb.sqrt(pb.sum(g * g))
                return [g * (norm / pb.maximum(size, norm)), None]

            return x * 1.0, grad_fn

        x = pb.asarray([3.0, 4.0])
        with pb.GradientTape() as tape:
            tape.watch(x)
            y = (clip_gradient_by_norm(x, 0.5) * pb.asarray([3.0, 4.0])).sum()
        np.testing.assert_allclose(tape.gradient(y, x).numpy(), [0.3, 0.4], rtol=1e-6)

    def test_log1pexp(self):
        def plain(x):
            return pb.log(1.0 + pb.exp(x))

        @pb.custom_gradient
        def log1pexp(x):
            e = pb.exp(x)
            return pb.log(1.0 + e), lambda g: g * (1.0 - 1.0 / (1.0 + e))

        assert float(pb.grad(plain)(0.0)) == 0.5
        assert np.isnan(float(pb.grad(plain)(100.0)))
        assert float(pb.grad(log1pexp)(0.0)) == 0.5
        assert float(pb.grad(log1pexp)(100.0)) == 1.0

    def test_higher_orders_see_what_grad_fn_captured(self):
        @pb.custom_gradient
        def cube(x):
            squared = x * x
            return squared * x, lambda g: g * (3.0 * squared)

        first = pb.grad(cube)
        second = pb.grad(first)
        third = pb.grad(second)
        assert [float(f(2.0)) for f in (cube, first, second, third)] == [8.0, 12.0, 12.0, 6.0]

    def test_what_is_inside_is_no_part_of_it(self):
        @pb.custom_gradient
        def f(x):
            return pb.exp(x), lambda g: g * 7.0

        assert float(pb.grad(f)(1.0)) == 7.0
        assert float(f(0.0)) == 1.0

    def test_several_inputs_and_outputs(self):
        @pb.custom_gradient
        def f(x, y):
            def grad_fn(g_sum, g_product):
                return [10.0 * g_sum + g_product * y, 100.0 * g_sum + g_product * x]

            return (x + y, x * y), grad_fn

        def total(x, y):
            a, b = f(x, y)
            return a + 2.0 * b

        assert [float(g) for g in pb.grad(total, (0, 1))(3.0, 5.0)] == [20.0, 106.0]
        # Only one output is used: the other's cotangent is zero.
        assert [float(g) for g in pb.grad(lambda x, y: f(x, y)[1], (0, 1))(3.0, 5.0)] == [5.0, 3.0]

    def test_structures_of_inputs(self):
        @pb.custom_gradient
        def f(pair):
            return pair[0] * pair[1], lambda g: [g * 2.0, g * 3.0]

        gradient = pb.grad(f)([pb.asarray(1.0), pb.asarray(1.0)])
        assert [float(g) for g in gradient] == [2.0, 3.0]

    def test_keyword_arguments(self):
        @pb.custom_gradient
        def f(x, *, factor=2.0):
            return x * factor, lambda g: g * factor * 10.0

        assert float(pb.grad(lambda x: f(x, factor=3.0))(1.0)) == 30.0
        with pytest.raises(pb.errors.InputTypeError, match="'factor'"):
            pb.grad(lambda x: f(1.0, factor=x))(1.0)

    def test_variables_read_inside(self):
        v = pb.Variable(2.0)

        @pb.custom_gradient
        def f(x):
            def grad_fn(g, variables):
                assert variables == [v] or variables[0] is v
                return g * 100.0, [g * 7.0]

            return x * v, grad_fn

        with pb.GradientTape() as tape:
            x = pb.asarray(3.0)
            tape.watch(x)
            y = f(x)
        by_x, by_v = tape.gradient(y, [x, v])
        assert (float(by_x), float(by_v)) == (100.0, 7.0)

    def test_variables_without_a_parameter_for_them(self):
        v = pb.Variable(2.0, name="v")

        @pb.custom_gradient
        def f(x):
            return x * v, lambda g: g

        with pytest.raises(pb.errors.TapeError, match=r"f reads the variables v.*variables="):
            pb.implicit_gradients(lambda: f(pb.asarray(1.0)))()

    def test_variables_as_arguments(self):
        v = pb.Variable(2.0)

        @pb.custom_gradient
        def f(x):
            return x * x, lambda g: g * 5.0

        ((gradient, variable),) = pb.implicit_gradients(lambda: f(v))()
        assert (float(gradient), variable is v) == (5.0, True)

    def test_wrong_number_of_gradients(self):
        @pb.custom_gradient
        def f(x, y):
            return x * y, lambda g: g

        with pytest.raises(pb.errors.InputValueError, match="1 gradients for 2 inputs"):
            pb.grad(f)(1.0, 2.0)

    def test_wrong_shape(self):
        @pb.custom_gradient
        def f(x):
            return x.sum(), lambda g: g

        with pytest.raises(pb.errors.ShapeError, match=r"\(\) for input 0, which has shape \(2,\)"):
            pb.grad(f)([1.0, 2.0])

    def test_complex_convention(self):
        @pb.custom_gradient
        def custom(z):
            return z * z, lambda g: g * pb.conj(2.0 * z)

        def loss(f):
            return lambda z: pb.real(f(z) * (1.0 - 3.0j))

        z = np.asarray(1.0 + 2.0j)
        assert pb.grad(loss(custom))(z).item() == pytest.approx(pb.grad(loss(square))(z).item())

    def test_without_a_tape(self):
        calls = []

        @pb.custom_gradient
        def f(x):
            return x * 2.0, lambda g: calls.append(g)

        assert float(f(3.0)) == 6.0
        assert calls == []

    def test_lets_go(self):
        kept = []

        @pb.custom_gradient
        def f(x):
            inner = x * 2.0
            kept.append(weakref.ref(inner))
            return inner * 3.0, lambda g: g * inner

        gc.disable()
        try:
            assert float(pb.grad(f)(1.0)) == 2.0
            assert kept[0]() is None
        finally:
            gc.enable()


class TestSeveralValues:
    """A function that returns more than the value that is differentiated."""

    RETURNS = (
        lambda x: (x**2, x),
        lambda x: {"loss": x**2, "x": x},
        lambda x: [x**2],
    )

    @pytest.mark.parametrize("f", RETURNS)
    @pytest.mark.parametrize("transform", [pb.grad, pb.value_and_grad, pb.jacobian, pb.hessian])
    def test_without_has_aux_they_raise(self, f, transform):
        with pytest.raises(pb.errors.InputTypeError, match=r"return the value alone.*has_aux=True"):
            transform(f)(1.0)

    @pytest.mark.parametrize("f", RETURNS)
    @pytest.mark.parametrize("transform", [pb.implicit_gradients, pb.implicit_value_and_gradients])
    def test_those_of_variables_too(self, f, transform):
        v = pb.Variable(1.0)
        with pytest.raises(pb.errors.InputTypeError, match="has_aux=True"):
            transform(lambda: f(v))()

    def test_with_has_aux(self):
        def f(x):
            return pb.sum(x**3), {"twice": 2 * x, "name": "f"}

        x = [1.0, 2.0]
        gradient, aux = pb.grad(f, has_aux=True)(x)
        assert gradient.tolist() == [3, 12]
        assert aux["twice"].tolist() == [2, 4]
        assert aux["name"] == "f"
        (value, aux), gradient = pb.value_and_grad(f, has_aux=True)(x)
        assert (float(value), aux["name"], gradient.tolist()) == (9, "f", [3, 12])
        rows, aux = pb.jacobian(lambda x: (x**2, "aux"), has_aux=True)(x)
        assert (rows.tolist(), aux) == ([[2, 0], [0, 4]], "aux")
        second, aux = pb.hessian(f, has_aux=True)(x)
        assert (second.tolist(), aux["name"]) == ([[6, 0], [0, 12]], "f")

        v = pb.Variable(3.0)
        (pair,), aux = pb.implicit_gradients(lambda: (v * v, 7), has_aux=True)()
        assert (float(pair[0]), pair[1] is v, aux) == (6, True, 7)
        (value, aux), _ = pb.implicit_value_and_gradients(lambda: (v * v, 7), has_aux=True)()
        assert (float(value), aux) == (9, 7)

    def test_gradients_of_gradients_keep_it(self):
        inner = pb.grad(lambda x: (x**3, x), has_aux=True)
        outer, aux = pb.grad(inner, has_aux=True)(2.0)
        assert (float(outer), float(aux)) == (12, 2)

    @pytest.mark.parametrize("f", [lambda x: x, lambda x: (x, 1, 2), lambda x: [x, 1]])
    def test_has_aux_needs_a_pair(self, f):
        with pytest.raises(pb.errors.InputTypeError, match=r"must return a pair \(value, aux\)"):
            pb.grad(f, has_aux=True)(1.0)
