"""`map` and `associative_scan` beside Python's loops."""

import functools

import numpy as np
import pytest

import pullback as pb

rng = np.random.default_rng(0)


def values(*shape):
    return pb.asarray(rng.standard_normal(shape))


def recurrence(x, y):
    """h = a h + b, as pairs (a, b)."""
    return x[0] * y[0], x[1] * y[0] + y[1]


def by_loop(f, xs, axis, reverse):
    rows = [pb.unstack(x, axis=axis) for x in xs]
    items = [*zip(*rows, strict=True)][:: -1 if reverse else 1]
    found = [items[0]]
    for item in items[1:]:
        found.append(f(found[-1], item))
    return [
        pb.stack(column[:: -1 if reverse else 1], axis=axis) for column in zip(*found, strict=True)
    ]


def program(g):
    def call(*args):
        captured = pb.function(g)
        for _ in range(2):
            captured(*args)
        return captured(*args)

    return call


def close(found, expected):
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_allclose(x.numpy(), y.numpy(), rtol=1e-10, atol=1e-12)


class TestAssociativeScan:
    @pytest.mark.parametrize("way", [lambda g: g, program])
    @pytest.mark.parametrize("reverse", [False, True])
    def test_values(self, way, reverse):
        for size in (1, 2, 3, 4, 7, 16, 33):
            for axis in (0, 1, -1):
                shape = [2, 3, 2]
                shape[axis] = size
                xs = values(*shape), values(*shape)
                scan = functools.partial(
                    pb.associative_scan, recurrence, axis=axis, reverse=reverse
                )
                if size in (1, 7) or way is not program:
                    close(way(scan)(xs), by_loop(recurrence, xs, axis, reverse))

    def test_matrices(self):
        xs = values(9, 3, 3)
        found = pb.associative_scan(pb.matmul, xs)
        close([found], by_loop(lambda x, y: [x[0] @ y[0]], [xs], 0, False))

    def test_nothing(self):
        assert pb.associative_scan(pb.add, pb.zeros((0, 2))).shape == (0, 2)

    def test_gradients(self):
        def loss(scan):
            return lambda a, b: pb.sum(pb.sin(scan((a, b))[1]) * b)

        fast = loss(lambda xs: pb.associative_scan(recurrence, xs))
        slow = loss(lambda xs: by_loop(recurrence, xs, 0, False))
        a, b = values(7, 2), values(7, 2)
        close(pb.grad(fast, (0, 1))(a, b), pb.grad(slow, (0, 1))(a, b))
        close(program(pb.grad(fast, (0, 1)))(a, b), pb.grad(slow, (0, 1))(a, b))
        of_slopes = lambda f: pb.grad(lambda a: pb.sum(pb.grad(f)(a, b) ** 2))(a)  # noqa: E731
        close([of_slopes(fast)], [of_slopes(slow)])
        rows = pb.stack([a, b]), pb.stack([b, a])
        close([pb.vmap(pb.grad(fast))(*rows)], [pb.vmap(pb.grad(slow))(*rows)])

    def test_work(self):
        """Some 2 n elements in some 2 log2(n) calls."""
        for size in (8, 100, 1000):
            sizes = []

            def add(x, y, sizes=sizes):
                sizes.append(x.shape[0])
                return x + y

            pb.associative_scan(add, pb.ones(size))
            assert sum(sizes) < 2 * size
            assert len(sizes) <= 2 * np.log2(size)

    def test_rejects(self):
        with pytest.raises(pb.errors.ShapeError, match="the sizes \\[2, 3\\] along axis 0"):
            pb.associative_scan(recurrence, (pb.ones(2), pb.ones(3)))
        with pytest.raises(pb.errors.AxisError):
            pb.associative_scan(pb.add, pb.ones(2), axis=1)
        with pytest.raises(pb.errors.InputValueError, match="has no tensor"):
            pb.associative_scan(pb.add, [])
        with pytest.raises(pb.errors.ShapeError, match="f combines element by element"):
            pb.associative_scan(lambda x, y: pb.sum(x + y), pb.ones(4))
        with pytest.raises(pb.errors.InputTypeError, match="two structures like xs"):
            pb.associative_scan(lambda x: x, pb.ones(4))


class TestMap:
    @pytest.mark.parametrize("way", [lambda g: g, program])
    def test_values(self, way):
        def f(item):
            return {"y": pb.sin(item[0]) @ item[1], "z": item[0][0]}

        xs = values(7, 3), values(7, 3)
        expected = pb.vmap(f)(xs)
        for size in (None, 1, 2, 3, 7, 20):
            found = way(lambda xs, size=size: pb.map(f, xs, batch_size=size))(xs)
            assert found.keys() == expected.keys()
            close(pb.tree.leaves(found), pb.tree.leaves(expected))

    def test_gradients(self):
        def loss(mapped):
            return lambda x: pb.sum(mapped(x) ** 2)

        f = lambda row: pb.exp(row) * pb.sum(row)  # noqa: E731
        x = values(5, 3)
        expected = pb.grad(loss(pb.vmap(f)))(x)
        for size in (None, 2):
            mapped = functools.partial(pb.map, f, batch_size=size)
            close([pb.grad(loss(mapped))(x)], [expected])
            close([program(pb.grad(loss(mapped)))(x)], [expected])
            batched = pb.vmap(pb.grad(loss(mapped)))(pb.stack([x, x]))
            close([batched[1]], [expected])

    def test_rejects(self):
        with pytest.raises(pb.errors.InputTypeError, match="called with an element of xs"):
            pb.map(lambda x, y: x, pb.ones(3))
        with pytest.raises(pb.errors.PullbackError):
            pb.map(lambda x: x, pb.ones(3), batch_size=0)
        for size in (None, 1, 2, 3, 4, 20):
            for xs in ((5, 3), (3, 5), (4, 4, 2), (0, 3)):
                with pytest.raises(pb.errors.ShapeError, match=r"pb\.map: the first axes"):
                    pb.map(lambda x: x[0] * 1.0, tuple(map(pb.ones, xs)), batch_size=size)
            for xs in ((pb.ones(3), 1.0), (1.0, pb.ones(3)), 1.0):
                with pytest.raises(pb.errors.ShapeError, match=r"pb\.map: xs holds"):
                    pb.map(lambda x: x, xs, batch_size=size)
            with pytest.raises(pb.errors.InputValueError, match=r"pb\.map: xs has no tensor"):
                pb.map(lambda x: 1.0, [], batch_size=size)
