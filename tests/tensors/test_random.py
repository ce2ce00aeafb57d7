"""Random numbers: what a seed fixes, and the distributions."""

import copy
import math
import pickle
import threading

import numpy as np
import pytest
from scipy import stats

import pullback as pb
from pullback._numerics.philox import philox


def fits(x, distribution):
    """Returns whether counts of integers are those that are expected, by the test of chi square."""
    values = np.arange(x.max() + 2)
    expected = distribution.pmf(values) * x.size
    often = expected > 5
    found = np.bincount(x, minlength=values.size)
    rest = max(x.size - expected[often].sum(), 1e-6)
    terms = (found[often] - expected[often]) ** 2 / expected[often]
    total = terms.sum() + (found[~often].sum() - rest) ** 2 / max(rest, 1)
    return stats.chi2(max(often.sum(), 1)).sf(total) > 1e-3


class TestState:
    def test_a_seed_fixes_what_comes(self):
        a, b = pb.Generator(7), pb.Generator(7)
        for _ in range(3):
            np.testing.assert_array_equal(a.normal((5,)).numpy(), b.normal((5,)).numpy())
        assert not np.array_equal(a.normal((5,)).numpy(), pb.Generator(8).normal((5,)).numpy())

    def test_uniform_numbers_are_numpys(self):
        host = np.random.Generator(np.random.Philox(key=7, counter=0))
        ours = pb.Generator(7)
        np.testing.assert_array_equal(ours.uniform((8,)).numpy(), host.random(8, np.float32))
        np.testing.assert_array_equal(ours.uniform((4,), dtype="float64").numpy(), host.random(4))

    def test_calls_take_whole_blocks_and_never_overlap(self):
        generator = pb.Generator(3)
        first, second = generator.bits((3,), dtype="uint64"), generator.bits((8,), dtype="uint64")
        words = np.random.Philox(key=3, counter=0).random_raw(12)
        np.testing.assert_array_equal(first.numpy(), words[:3])
        np.testing.assert_array_equal(second.numpy(), words[4:])
        assert generator.state == (3, 3)

    def test_normal_numbers_of_one_call_do_not_return_in_the_next(self):
        generator = pb.Generator(3)
        drawn = [generator.normal((n,)).numpy() for n in (1, 3, 5, 8, 9, 2)]
        assert len(np.unique(np.concatenate(drawn))) == 28

    def test_state_goes_in_and_out(self):
        generator = pb.Generator(11)
        generator.uniform((100,))
        state, ahead = generator.state, generator.normal((4,)).numpy()
        saved = generator.checkpoint_state()
        for again in (pb.Generator(0), pb.Generator(1)):
            again.state = state
            np.testing.assert_array_equal(again.normal((4,)).numpy(), ahead)
            assert again.checkpoint_state() == saved
            again.restore_state(saved)
            assert again.state == generator.state

    def test_copies_go_their_own_way(self):
        generator = pb.Generator(5)
        generator.uniform((9,))
        for twin in (copy.deepcopy(generator), pickle.loads(pickle.dumps(generator))):
            assert twin.state == generator.state
            twin.uniform((9,))
            assert twin.state != generator.state

    def test_split(self):
        children = pb.Generator(5).split(3)
        assert [c.state for c in children] == [c.state for c in pb.Generator(5).split(3)]
        assert len({child.state for child in children}) == 3
        parent = pb.Generator(5)
        parent.split(3)
        assert parent.state == (5, 3)

    def test_philox_is_numpys(self):
        for key, counter in ((0, 0), (2**128 - 1, 2**256 - 2), (12345, 2**64 - 1)):
            words = np.random.Philox(key=key, counter=counter).random_raw(4)
            assert list(philox(key, counter + 1)) == [int(word) for word in words]

    @pytest.mark.parametrize("state", [(-1, 0), (2**128, 0), (0, -1), (0, 2**256)])
    def test_no_state_out_of_range(self, state):
        with pytest.raises(pb.errors.InputValueError, match="key in"):
            pb.Generator(0).state = state

    def test_threads_share_a_generator(self):
        generator, drawn = pb.Generator(1), []

        def draw():
            for _ in range(50):
                drawn.append(generator.bits((4,), dtype="uint64").numpy())

        threads = [threading.Thread(target=draw) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        words = np.random.Philox(key=1, counter=0).random_raw(800)
        assert sorted(np.concatenate(drawn).tolist()) == sorted(words.tolist())

    def test_the_default_generator_is_seeded(self):
        pb.random.seed(4)
        first = pb.random.normal((3,)).numpy()
        pb.random.seed(4)
        np.testing.assert_array_equal(pb.random.normal((3,)).numpy(), first)


class TestDistributions:
    n = 200_000

    @pytest.fixture
    def generator(self):
        return pb.Generator(2024)

    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    def test_uniform(self, generator, dtype):
        x = generator.uniform((self.n,), -1, 3, dtype=dtype).numpy()
        assert x.dtype == dtype
        assert -1 <= x.min() < -0.999
        assert 2.999 < x.max() < 3
        assert abs(x.mean() - 1) < 0.02

    @pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
    def test_short_floats_stay_below_one(self, generator, dtype):
        assert generator.uniform((self.n,), dtype=dtype).numpy().astype(float).max() < 1

    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    def test_normal(self, generator, dtype):
        x = generator.normal((self.n,), 2.0, 3.0, dtype=dtype).numpy()
        assert x.dtype == dtype
        z = (x - 2) / 3
        assert abs(z.mean()) < 0.01
        assert abs(z.std() - 1) < 0.01
        assert abs((z**4).mean() - 3) < 0.1

    def test_truncated_normal(self, generator):
        z = generator.truncated_normal((self.n,)).numpy()
        assert abs(z).max() <= 2
        assert abs(z.mean()) < 0.01
        assert abs(z.std() - 0.8796) < 0.005

    def test_bernoulli(self, generator):
        p = np.array([0.0, 0.25, 1.0])
        assert generator.bernoulli(p=p).shape == (3,)
        np.testing.assert_allclose(
            generator.bernoulli((self.n, 3), p).numpy().mean(0), p, atol=0.01
        )

    def test_integers(self, generator):
        x = generator.integers((self.n,), -2, 3).numpy()
        assert x.dtype == np.int32
        np.testing.assert_allclose(np.bincount(x + 2) / self.n, 0.2, atol=0.01)
        wide = generator.integers((self.n,), -(2**63), 2**63, dtype="int64").numpy()
        assert abs((wide < 0).mean() - 0.5) < 0.01
        assert set(generator.integers((99,), 2, dtype="uint8").numpy()) == {0, 1}
        with pytest.raises(pb.errors.InputValueError, match="low < high"):
            generator.integers((3,), 300, dtype="uint8")
        with pytest.raises(pb.errors.DTypeError):
            generator.integers((3,), 3, dtype="float32")

    def test_categorical(self, generator):
        p = np.array([0.1, 0.0, 0.7, 0.2])
        with np.errstate(divide="ignore"):
            drawn = generator.categorical(np.log(p), (self.n,)).numpy()
        np.testing.assert_allclose(np.bincount(drawn, minlength=4) / self.n, p, atol=0.01)
        assert generator.categorical(np.zeros((3, 5)), axis=0).shape == (5,)
        with pytest.raises(pb.errors.ShapeError):
            generator.categorical(np.zeros((3, 5)), (4,))

    @pytest.mark.parametrize("alpha", [0.3, 1.0, 4.5])
    def test_gamma(self, generator, alpha):
        x = generator.gamma((self.n,), alpha, 2.0).numpy()
        assert x.min() >= 0
        assert abs(x.mean() / (2 * alpha) - 1) < 0.02
        assert abs(x.var() / (4 * alpha) - 1) < 0.05

    @pytest.mark.parametrize("mean", [0.3, 3.0, 9.99, 10.0, 25.0, 400.0])
    def test_poisson(self, mean):
        x = pb.Generator(7).poisson((self.n,), mean).numpy()
        assert x.dtype == np.int32
        assert fits(x, stats.poisson(mean))

    @pytest.mark.parametrize(
        ("count", "p"), [(1, 0.3), (30, 0.2), (30, 0.8), (100, 0.5), (1000, 0.001), (500, 0.97)]
    )
    def test_binomial(self, count, p):
        x = pb.Generator(7).binomial((self.n,), count, p).numpy()
        assert 0 <= x.min() <= x.max() <= count
        assert fits(x, stats.binom(count, p))

    @pytest.mark.parametrize(("alpha", "beta"), [(0.5, 0.5), (2.0, 3.0), (0.1, 4.0), (100.0, 1.0)])
    def test_beta(self, generator, alpha, beta):
        x = generator.beta((20_000,), alpha, beta, dtype="float64").numpy()
        assert stats.kstest(x, stats.beta(alpha, beta).cdf).pvalue > 1e-3

    def test_parameters_far_out(self, generator):
        x = generator.poisson((self.n,), 1e9, dtype="float64").numpy()
        assert abs((x - 1e9).mean()) < 4 * math.sqrt(1e9 / self.n)
        assert abs(x.var() / 1e9 - 1) < 0.02
        y = generator.binomial((self.n,), 1e9, 0.9, dtype="float64").numpy()
        assert abs((y - 9e8).mean()) < 4 * math.sqrt(9e7 / self.n)
        assert abs(y.var() / 9e7 - 1) < 0.02
        # Both numbers of the quotient are too small for a float.
        z = generator.beta((self.n,), 1e-6, 1e-6).numpy()
        assert 0 <= z.min() <= z.max() <= 1
        assert abs(z.mean() - 0.5) < 0.02

    def test_parameters_broadcast_and_are_checked(self, generator):
        assert generator.poisson(mean=np.array([0.0, 50.0])).tolist()[0] == 0
        assert generator.binomial(count=np.array([[0], [3]]), p=[0.0, 1.0]).tolist() == [
            [0, 0],
            [0, 3],
        ]
        assert generator.beta(alpha=np.ones((2, 1)), beta=np.ones(3)).shape == (2, 3)
        assert generator.poisson((0, 3), 2.0).shape == (0, 3)
        for wrong in (
            lambda: generator.poisson((2,), -1.0),
            lambda: generator.poisson((2,), math.inf),
            lambda: generator.binomial((2,), -1, 0.5),
            lambda: generator.binomial((2,), 3, 1.5),
            lambda: generator.binomial((2,), 3, math.nan),
            lambda: generator.beta((2,), 0.0, 1.0),
            lambda: generator.beta((2,), 1.0, math.nan),
        ):
            with pytest.raises(pb.errors.InputValueError):
                wrong()

    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    @pytest.mark.parametrize(
        ("name", "theirs"),
        [("laplace", stats.laplace), ("gumbel", stats.gumbel_r), ("logistic", stats.logistic)],
    )
    def test_of_a_place_and_a_scale(self, generator, name, theirs, dtype):
        draw = getattr(generator, name)
        x = draw((self.n,), 1.5, 2.0, dtype=dtype).numpy()
        assert x.dtype == dtype
        assert stats.kstest(x.astype(float), theirs(1.5, 2.0).cdf).pvalue > 1e-3
        assert draw((0, 3)).shape == (0, 3)
        placed = draw((3, 2), pb.asarray([0.0, 1e3]), pb.asarray([[1.0], [1.0], [0.0]]))
        assert (placed[:, 1].numpy() > 900).all()
        assert placed[2].tolist() == [0.0, 1e3]
        # What is drawn is scaled after it: gradients go to place and scale.
        slopes = pb.grad(lambda loc, scale: pb.sum(draw((5,), loc, scale)), argnums=(0, 1))(
            0.0, 1.0
        )
        assert slopes[0].item() == 5.0
        with pytest.raises(pb.errors.InputTypeError, match="scale"):
            draw((2,), 0.0, "wide")

    @pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
    @pytest.mark.parametrize("name", ["laplace", "gumbel", "logistic"])
    def test_the_ends_of_the_uniform_numbers_are_finite(self, name, dtype, monkeypatch):
        generator = pb.Generator(0)
        for u in (0.0, 0.5, 0.5 - 2**-25, 1 - 2**-24):
            monkeypatch.setattr(
                generator, "uniform", lambda shape, u=u, **how: pb.full(shape, u, **how)
            )
            assert pb.isfinite(getattr(generator, name)((1,), dtype=dtype)).all()

    def test_dirichlet(self, generator):
        alpha = np.array([0.5, 1.0, 4.0])
        x = generator.dirichlet(alpha, (20_000,), dtype="float64").numpy()
        np.testing.assert_allclose(x.sum(axis=-1), 1, rtol=1e-12)
        for i, a in enumerate(alpha):
            assert stats.kstest(x[:, i], stats.beta(a, alpha.sum() - a).cdf).pvalue > 1e-3
        # Of tiny concentrations one class has it all, and no number is NaN.
        tiny = generator.dirichlet(np.full((4, 3), 1e-6)).numpy()
        np.testing.assert_allclose(tiny.max(axis=-1), 1)
        for wrong in (0.0, [1.0, -1.0], [math.inf, 1.0]):
            with pytest.raises((pb.errors.InputValueError, pb.errors.ShapeError)):
                generator.dirichlet(wrong)
        with pytest.raises(pb.errors.ShapeError):
            generator.dirichlet(np.ones((2, 3)), (4,))

    def test_scores_with_gumbel_numbers_are_drawn_classes(self, generator):
        scores = np.log([0.1, 0.7, 0.2])
        drawn = np.argmax(scores + generator.gumbel((self.n, 3)).numpy(), axis=-1)
        np.testing.assert_allclose(np.bincount(drawn) / self.n, [0.1, 0.7, 0.2], atol=0.01)

    def test_exponential(self, generator):
        x = generator.exponential((self.n,), 3.0).numpy()
        assert x.min() >= 0
        assert abs(x.mean() - 3) < 0.05
        assert abs((x > 3).mean() - math.exp(-1)) < 0.01

    def test_permutation(self, generator):
        np.testing.assert_array_equal(np.sort(generator.permutation(50).numpy()), np.arange(50))
        x = np.arange(12).reshape(3, 4)
        moved = generator.permutation(x, axis=1).numpy()
        np.testing.assert_array_equal(np.sort(moved, axis=1), x)

    def test_dropout(self, generator):
        y = generator.dropout(np.ones((400, 500), np.float32), 0.25).numpy()
        assert set(np.unique(y)) == {0, np.float32(1 / 0.75)}
        assert abs(y.mean() - 1) < 0.01
        whole = generator.dropout(np.ones((8, 5, 4), np.float32), 0.5, noise_shape=(None, 1, None))
        assert np.all(np.ptp(whole.numpy(), axis=1) == 0)


class TestArgumentsInNumPysOrder:
    @pytest.mark.parametrize(
        ("call", "write"),
        [
            (lambda r: r.normal(2, 3), "normal((), mean=2, stddev=3)"),
            (lambda r: r.normal(0, 1, (2, 3)), "normal((2, 3), mean=0, stddev=1)"),
            (lambda r: r.normal(0.0, 1.0, 5), "normal(5, mean=0.0, stddev=1.0)"),
            (lambda r: r.uniform(-1, 1, (3,)), "uniform((3,), low=-1, high=1)"),
            (lambda r: r.integers(0, 5, (3,)), "integers((3,), low=0, high=5)"),
            (lambda r: r.integers(0, 5), "integers((), low=0, high=5)"),
            (lambda r: r.exponential(2.0), "exponential((), scale=2.0)"),
            (lambda r: r.bernoulli(0.3), "bernoulli((), p=0.3)"),
            (lambda r: r.gamma(2.0, 1.0, (3,)), "gamma((3,), alpha=2.0, scale=1.0)"),
            (lambda r: r.truncated_normal(0, 1, (3,)), "truncated_normal((3,), mean=0, stddev=1)"),
            (lambda r: r.normal(pb.ones(2), 1.0), "normal((), mean=tensor, stddev=1.0)"),
        ],
    )
    def test_they_raise_and_say_what_to_write(self, call, write):
        for place in (pb.random, pb.Generator(0)):
            with pytest.raises(pb.errors.InputTypeError) as error:
                call(place)
            assert str(error.value).endswith(f"write {write}")

    def test_the_shape_first(self):
        r = pb.Generator(0)
        assert r.normal(2).shape == r.normal((2,), 3, 4).shape == r.normal(2, mean=3).shape == (2,)
        assert r.uniform([2, 3], -1, 1).shape == (2, 3)
        assert r.integers((3,), 5).shape == r.integers((3,), 0, 5).shape == (3,)
        assert r.bernoulli(None, [0.5, 0.5]).shape == (2,)
        with pytest.raises(pb.errors.InputValueError, match=r"integers\(shape, high\)"):
            r.integers(5)
