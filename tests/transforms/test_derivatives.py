"""Products with derivatives, rules of one's own, implicit functions, and the check of gradients."""

import random

import numpy as np
import pytest

import pullback as pb

rng = np.random.default_rng(0)


def values(*shape):
    return pb.asarray(rng.standard_normal(shape))


MATRIX = values(3, 3)


def f(tree):
    return {"y": pb.tanh(MATRIX @ tree["a"]) * tree["b"], "z": pb.sum(tree["a"] ** 3)}


TREE = {"a": values(3), "b": values(3)}
TANGENT = {"a": values(3), "b": values(3)}


def flat(tree):
    return np.concatenate([leaf.numpy().ravel() for leaf in pb.tree.leaves(tree)])


def program(g):
    """A captured function, called until it is a program."""

    def call(*args):
        captured = pb.function(g)
        for _ in range(2):
            captured(*args)
        return captured(*args)

    return call


@pytest.mark.parametrize("way", [lambda g: g, program])
class TestProducts:
    def test_linearize(self, way):
        _, expected = pb.jvp(f, (TREE,), (TANGENT,))
        value, push = pb.linearize(f, TREE)
        np.testing.assert_array_equal(flat(value), flat(f(TREE)))
        for scale in (1.0, -2.0):
            tangent = pb.tree.map(lambda t, scale=scale: t * scale, TANGENT)
            np.testing.assert_allclose(flat(push(tangent)), scale * flat(expected), rtol=1e-12)
        found = way(lambda x, v: pb.linearize(f, x)[1](v))(TREE, TANGENT)
        np.testing.assert_allclose(flat(found), flat(expected), rtol=1e-12)

    def test_hvp(self, way):
        def loss(x):
            return pb.sum(pb.sin(MATRIX @ x) * x * x)

        x, v = TREE["a"], TANGENT["a"]
        expected = pb.hessian(loss)(x) @ v
        np.testing.assert_allclose(flat(way(lambda x: pb.hvp(loss, x, v))(x)), flat(expected))
        rows = way(lambda basis: pb.vmap(lambda v: pb.hvp(loss, x, v))(basis))(
            pb.eye(3, dtype=x.dtype)
        )
        np.testing.assert_allclose(rows.numpy(), pb.hessian(loss)(x).numpy(), rtol=1e-10)

    def test_gauss_newton(self, way):
        def outputs(x):
            return pb.tanh(MATRIX @ x)

        def loss(y):
            return pb.sum(pb.exp(y))

        x, v = TREE["a"], TANGENT["a"]
        jacobian, inner = pb.jacobian(outputs)(x), pb.hessian(loss)(outputs(x))
        expected = jacobian.T @ (inner @ (jacobian @ v))
        found = way(lambda x: pb.gauss_newton_product(outputs, loss, x, v))(x)
        np.testing.assert_allclose(flat(found), flat(expected))


# Structures ---------------------------------------------------------------------------------------


def random_structure(draw, depth=3):
    """Dicts, lists, tuples and Nones around tensors of different shapes."""
    if depth == 0 or draw.random() < 0.3:
        return values(*draw.choice([(), (2,), (2, 2)]))
    items = [random_structure(draw, depth - 1) for _ in range(draw.randint(2, 3))]
    kind = draw.choice([list, tuple, dict, dict])
    if kind is dict:
        return {**dict(zip("abc", items, strict=False)), "none": None}
    return kind(items)


def shuffled(draw, tree):
    """The same values under the same keys, in another order."""
    if isinstance(tree, dict):
        keys = draw.sample(list(tree), len(tree))
        return {key: shuffled(draw, tree[key]) for key in keys}
    return type(tree)(shuffled(draw, t) for t in tree) if isinstance(tree, (list, tuple)) else tree


def directions(tree):
    return pb.tree.map(lambda x: values(*x.shape), tree)


@pytest.mark.parametrize("seed", range(12))
def test_keys_say_which_tangent_is_whose(seed):
    draw = random.Random(seed)
    x = {"first": random_structure(draw), "second": random_structure(draw), "last": values(2)}
    weights = values(50)

    def outputs(tree):
        count = iter(range(50))
        return pb.tree.map(lambda leaf: pb.sin(leaf * weights[next(count)]), tree)

    def loss(tree):
        return sum(pb.sum(leaf) ** 3 * weights[i] for i, leaf in enumerate(pb.tree.leaves(tree)))

    for way in (
        lambda v: pb.jvp(outputs, (x,), (v,))[1],
        lambda v: pb.linearize(outputs, x)[1](v),
        lambda v: pb.vjp(outputs, x)[1](v)[0],
        lambda v: pb.hvp(loss, x, v),
        lambda v: pb.gauss_newton_product(outputs, loss, x, v),
    ):
        v = directions(x)
        np.testing.assert_array_equal(flat(way(shuffled(draw, v))), flat(way(v)))
        for wrong in ({**v, "more": values(2)}, {k: v[k] for k in ("first", "last")}):
            with pytest.raises(pb.errors.InputValueError, match="another structure"):
                way(wrong)


def test_tangents_of_numbers():
    """Python's numbers and lists stand for tensors on either side."""
    f = lambda d: d["a"] + d["b"] * 3  # noqa: E731
    push = pb.linearize(f, {"a": 2.0, "b": 3.0})[1]
    assert float(push({"b": 0.0, "a": 1.0})) == float(push({"a": 1.0, "b": 0})) == 1.0
    for x in ([2.0, 3.0], [pb.asarray(2.0), pb.asarray(3.0)]):
        assert float(pb.jvp(lambda x: x[0] * x[1], (x,), ([1, 0.0],))[1]) == 3.0
        assert [float(g) for g in pb.hvp(lambda x: x[0] * x[1], x, [1.0, 0.0])] == [0.0, 1.0]
    # As exact as the argument.
    _, tangent = pb.jvp(lambda x: x * 1.0, (values(),), (0.1,))
    assert float(tangent) == 0.1


def test_products_reject():
    with pytest.raises(pb.errors.InputValueError, match="1 arguments and 2 tangents"):
        pb.linearize(pb.sin, 1.0)[1](1.0, 2.0)
    for product in (
        lambda: pb.linearize(pb.sin, values(3)),
        lambda: pb.jvp(pb.sin, [values(3)], [values(2)]),
    ):
        with pytest.raises(
            pb.errors.ShapeError, match=r"a tangent of shape .2,. for an argument of"
        ):
            product()[1](values(2))
    for v in (values(2), values(1), 1.0):
        with pytest.raises(pb.errors.ShapeError, match=r"a v of shape .* for an x of shape .3,."):
            pb.hvp(lambda x: pb.sum(x * x), values(3), v)
    with pytest.raises(pb.errors.DTypeError, match="complex numbers is not symmetric"):
        pb.hvp(lambda z: pb.abs(z), pb.asarray(1j), pb.asarray(1j))
    with pytest.raises(pb.errors.DTypeError):
        pb.hvp(lambda x: x, pb.asarray(1), pb.asarray(1))


class TestCustomJvp:
    @staticmethod
    def both():
        @pb.custom_jvp
        def product(x, tree):
            y = x * tree["a"]
            return (y, pb.sin(y)), lambda dx, dtree: (
                d := dx * tree["a"] + x * dtree["a"], pb.cos(y) * d,
            )  # fmt: skip

        def plain(x, tree):
            y = x * tree["a"]
            return y, pb.sin(y)

        return product, plain

    def test_is_the_derivative(self):
        def loss(f):
            def total(x, a):
                y, z = f(x, {"a": a, "b": None})
                return pb.sum(y * y + z * a)

            return total

        x, a = TREE["a"], TREE["b"]
        of_custom, of_plain = map(loss, self.both())
        for derivative in (
            lambda f: pb.grad(f, (0, 1))(x, a),
            lambda f: [pb.grad(lambda x: pb.sum(pb.grad(f, 1)(x, a) ** 2))(x)],
            lambda f: [pb.jvp(f, (x, a), (a, x))[1]],
            lambda f: [pb.vmap(pb.grad(f))(pb.stack([x, a]), pb.stack([a, x]))],
            lambda f: [pb.grad(lambda x: pb.sum(pb.vmap(f)(x, x)))(pb.stack([x, a]))],
            lambda f: [program(pb.grad(f))(x, a)],
        ):
            np.testing.assert_allclose(flat(derivative(of_custom)), flat(derivative(of_plain)))

    def test_is_its_own(self):
        @pb.custom_jvp
        def twice(x):
            return x * 1.0, lambda dx: 2.0 * dx

        assert pb.grad(lambda x: pb.sum(twice(x)))(values(3)).tolist() == [2.0] * 3
        with pytest.raises(pb.errors.InputTypeError, match="return the result and the function of"):
            pb.custom_jvp(lambda x: x)(1.0)
        with pytest.raises(pb.errors.InputTypeError, match="custom_jvp takes a function"):
            pb.custom_jvp(1)

    def test_variables_are_arguments(self):
        w = pb.Variable(3.0)
        scaled = pb.custom_jvp(lambda x: (x * w, lambda dx: dx * w))
        given = pb.custom_jvp(lambda x, w: (x * w, lambda dx, dw: dx * w + x * dw))
        assert float(pb.grad(scaled)(2.0)) == 3.0
        with pb.GradientTape() as tape:
            with pytest.raises(pb.errors.TapeError, match="pass their values as arguments"):
                scaled(2.0)
            y = given(2.0, w)
        assert float(tape.gradient(y, w)) == 2.0

    @pytest.mark.parametrize("place", range(3))
    def test_arguments_without_a_tensor(self, place):
        args = [pb.asarray(2.0), pb.asarray(3.0)]
        args.insert(place, None)

        @pb.custom_jvp
        def product(*args):
            x, y = pb.tree.leaves(args)
            return x * y, lambda *d: pb.tree.leaves(d)[0] * y + x * pb.tree.leaves(d)[1]

        at = [i for i in range(3) if i != place]
        assert [float(g) for g in pb.grad(product, at)(*args)] == [3.0, 2.0]


# Implicit functions -------------------------------------------------------------------------------


def newton(f, x, *args, steps=7):
    for _ in range(steps):
        x = x - pb.linalg.solve(pb.jacobian(f)(x, *args), f(x, *args))
    return x


def equations(x, a, tree):
    return x + 0.3 * pb.sin(MATRIX @ x) * a - tree["b"]


def by_columns(a, b):
    """Solves a(y) = b for vectors, with what a makes of the unit vectors."""
    rows = pb.stack([a(row) for row in pb.unstack(pb.eye(3, dtype=b.dtype))])
    return pb.linalg.solve(rows.T, b)


class TestCustomRoot:
    root = staticmethod(pb.custom_root(equations, newton))

    def loss(self, root):
        return lambda a, b: pb.sum(root(pb.zeros_like(a), a, {"b": b}) ** 2 * a)

    def unrolled(self, x0, *args):
        return newton(equations, x0, *args)

    def test_gradients(self):
        a, b = TREE["a"], TREE["b"]
        with_solver = pb.custom_root(equations, newton, linear_solver=by_columns)
        for derivative in (
            lambda f: pb.grad(f, (0, 1))(a, b),
            lambda f: [pb.grad(lambda a: pb.sum(pb.grad(f, 1)(a, b) ** 2))(a)],
            lambda f: [pb.vmap(pb.grad(f))(pb.stack([a, b]), pb.stack([b, a]))],
            lambda f: [pb.grad(lambda a: pb.sum(pb.vmap(f)(a, a)))(pb.stack([a, b]))],
            lambda f: [program(pb.grad(f))(a, b)],
        ):
            expected = flat(derivative(self.loss(self.unrolled)))
            for root in (self.root, with_solver):
                found = flat(derivative(self.loss(root)))
                np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-10)

    def test_structures(self):
        def residual(x, a):
            return {"u": x["u"] * x["u"] - a[0], "w": (x["w"][0] - a[1:] * x["u"],)}

        def solver(f, x0, a):
            u = pb.sqrt(a[0])
            return {"u": u, "w": (a[1:] * u,)}

        root = pb.custom_root(residual, solver)
        start = {"u": 1.0, "w": (pb.zeros(2, dtype="float64"),)}
        found = pb.jacobian(lambda a: root(start, a)["w"][0])(pb.asarray(np.array([4.0, 1.0, 3.0])))
        np.testing.assert_allclose(found.numpy(), [[0.25, 2.0, 0.0], [0.75, 0.0, 2.0]])

    def test_variables(self):
        """A layer whose output is a fixed point: its weights have gradients."""
        w = pb.Variable(0.3 * MATRIX.numpy())

        def step(x, u):
            return pb.tanh(w @ x + u)

        def iterate(f, x, u):
            for _ in range(100):
                x = x - f(x, u)
            return x

        root = pb.custom_root(lambda x, u: x - step(x, u), iterate)
        gradients = []
        for solve in (root, lambda x, u: iterate(lambda x, u: x - step(x, u), x, u)):
            with pb.GradientTape() as tape:
                loss = pb.sum(solve(pb.zeros(3, dtype="float64"), TREE["a"]) ** 2)
            gradients.append(tape.gradient(loss, w).numpy())
        np.testing.assert_allclose(*gradients, rtol=1e-8)

    @pytest.mark.parametrize("place", [1, 2, 3])
    @pytest.mark.parametrize("nothing", [None, {}, {"a": None}])
    def test_arguments_without_a_tensor(self, place, nothing):
        args = [pb.asarray(4.0), pb.asarray(2.0)]
        args.insert(place - 1, nothing)

        def residual(x, *args):
            a, b = pb.tree.leaves(args)
            return x * x * b - a

        root = pb.custom_root(residual, lambda f, x, *args: pb.sqrt(2.0) + x * 0.0)
        at = [i for i in (1, 2, 3) if i != place]
        found = [float(g) for g in pb.grad(root, at)(1.0, *args)]
        np.testing.assert_allclose(found, [0.25 / 2**0.5, -0.5 / 2**0.5], rtol=1e-6)

    def test_numbers(self):
        """Python's numbers, of the solver and as residuals, stand for tensors."""
        root = pb.custom_root(lambda x, a: x * x - a, lambda f, x, a: 2.0)
        assert float(root(1.0, 4.0)) == 2.0
        assert float(pb.grad(root, 1)(1.0, 4.0)) == 0.25
        structured = pb.custom_root(
            lambda x, a: {"u": x["u"] - a, "w": 0.0},
            lambda f, x, a: {"u": a, "w": 1.0},
            linear_solver=lambda a, b: b,
        )
        start = {"u": 0.0, "w": 0.0}
        assert float(structured(start, 4.0)["w"]) == 1.0
        assert float(pb.grad(lambda a: structured(start, a)["u"])(4.0)) == 1.0

    def test_rejects(self):
        with pytest.raises(pb.errors.ShapeError, match="as many equations as unknowns"):
            pb.custom_root(lambda x, a: x[:1], lambda f, x, a: x)(values(2), 1.0)
        with pytest.raises(pb.errors.InputTypeError, match="solver is a function"):
            pb.custom_root(lambda x: x, None)


# The check ----------------------------------------------------------------------------------------


class TestCheckGradients:
    def test_right_ones_pass(self):
        def complex_valued(z, x):
            return z * z * x, pb.abs(z) ** 2

        pb.check_gradients(f, TREE)
        pb.check_gradients(lambda x, i: pb.exp(x)[i], TREE["a"], pb.asarray([0, 2]), order=3)
        pb.check_gradients(complex_valued, pb.asarray([1.0 + 2.0j, -0.3j]), 2.0)
        pb.check_gradients(lambda x: pb.sin(x), pb.asarray(0.5))  # float32 is wide meanwhile

    @pytest.mark.parametrize("place", [(0, 1), (2, 0), (1, 2)])
    @pytest.mark.parametrize("size", [1e-4, float("nan")])
    def test_names_what_is_wrong(self, place, size):
        wrong = np.zeros((3, 3))
        wrong[place] = size

        @pb.custom_gradient
        def cubed(x):
            return x**3, lambda g: g * 3 * x * x + pb.asarray(wrong)

        def loss(first, pair):
            return cubed(pair["right"]) * first

        with pytest.raises(pb.errors.InputValueError) as error:
            pb.check_gradients(loss, 1.5, {"left": values(2), "right": values(3, 3)})
        assert f"of order 1 in argument 1['right'] at {place} is" in str(error.value)

    def test_second_order(self):
        @pb.custom_gradient
        def cubed(x):
            return x**3, lambda g: g * 3 * pb.stop_gradient(x) * x

        pb.check_gradients(cubed, values(2), order=1)
        with pytest.raises(pb.errors.InputValueError, match="derivative of order 2 in argument 0"):
            pb.check_gradients(cubed, values(2))

    def test_rejects(self):
        with pytest.raises(pb.errors.DTypeError, match="no argument is floating"):
            pb.check_gradients(lambda x: x, pb.asarray([1, 2]))
        for f in (lambda x: x > 0, lambda x: (pb.argmax(x), x.astype("int32")), lambda x: None):
            with pytest.raises(pb.errors.DTypeError, match=r"f returns .*no gradient"):
                pb.check_gradients(f, [1.0])
        pb.check_gradients(lambda x: (x > 0, x * x), [1.0])
