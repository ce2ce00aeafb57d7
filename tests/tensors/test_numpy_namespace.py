"""`pb.numpy`: NumPy's functions by its names, and what is new among them on random draws."""

import importlib.util
import warnings
from pathlib import Path

import numpy as np
import pytest

import pullback as pb
from pullback import errors


class Either:
    """NumPy with the functions of `pb.numpy` in place of its own: what `numpy_calls` calls."""

    def __getattr__(self, name):
        if name in ("linalg", "fft"):
            return getattr(pb.numpy, name)
        if name in dir(pb.numpy) and not callable(getattr(np, name)):
            return getattr(np, name)
        if name in ("array", "ones", "zeros", "eye", "asarray"):  # makes what a call is given
            return getattr(np, name)
        ufunc = isinstance(getattr(np, name), np.ufunc)
        return getattr(pb.numpy if name in dir(pb.numpy) else np, name, ufunc)


def _calls():
    path = Path(__file__).with_name("numpy_calls.py")
    spec = importlib.util.spec_from_file_location("numpy_calls_of_pb", path)
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    calls = {**found.CALLS, **found.MORE}
    return {name: call for name, call in calls.items() if "." not in name}, found


CALLS, MODULE = _calls()
X = np.array([[0.31, 0.72, 0.11], [0.84, 0.23, 0.97], [0.47, 0.66, 0.58]])
#: Names of calls in NumPy's namespace that `pb.numpy` has, and of others of its functions.
NAMED = [name for name in CALLS if name.partition(",")[0].split()[0] in dir(pb.numpy)]


def parts(result):
    if isinstance(result, (list, tuple)):
        return [part for one in result for part in parts(one)]
    return [result]


@pytest.mark.each("name", NAMED)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_gives_what_numpy_gives_as_tensors(name, monkeypatch):
    expected = CALLS[name](X.copy())
    monkeypatch.setattr(MODULE, "np", Either())
    found = CALLS[name](pb.asarray(X))
    for one, other in zip(parts(found), parts(expected), strict=True):
        if np.asarray(other).dtype.kind in "fciub":
            assert isinstance(one, (pb.Tensor, bool, int, tuple))
            np.testing.assert_allclose(np.asarray(one), other, rtol=1e-6, atol=1e-9)


def test_names_are_numpys():
    for prefix, space, numpys in (
        ("", pb.numpy, np), ("linalg.", pb.numpy.linalg, np.linalg), ("fft.", pb.numpy.fft, np.fft),
    ):  # fmt: skip
        assert len(dir(space)) > 10
        for name in dir(space):
            assert hasattr(numpys, name), prefix + name
            value = getattr(space, name)
            if callable(value):
                assert value.__name__ == name
                assert value.__doc__.startswith(f"NumPy's `{prefix}{name}` on tensors")
    assert pb.numpy.sum is pb.numpy.sum


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: pb.numpy.sum([1.0], out=np.zeros(())), errors.InputTypeError, r"not take out="),
        (lambda: pb.numpy.add(1.0, 2.0, out=np.zeros(())), errors.InputTypeError, r"not take out="),
        (
            lambda: pb.numpy.sum([1.0], axes=0),
            errors.InputTypeError,
            r"takes a, axis, .*\['axes'\]",
        ),
        (lambda: pb.numpy.ptp([1.0], 0, None, False, 1), errors.InputTypeError, r"5 arguments"),
        (lambda: pb.numpy.spacing, AttributeError, r"np\.spacing of x\.numpy\(\) computes"),
        (lambda: pb.numpy.concatenat, AttributeError, r"did you mean 'concatenate'"),
    ],
)
def test_what_it_does_not_have_says_what_to_write(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_fills_with_tensors():
    x = pb.asarray([1.0, 2.0])
    assert pb.numpy.full((3, 2), x).tolist() == [[1.0, 2.0]] * 3
    assert pb.numpy.full((2,), 1.5, dtype="int32").tolist() == [1, 1]
    gradient = pb.grad(lambda x: pb.sum(pb.numpy.full((3, 2), x)))(x)
    assert gradient.tolist() == [3.0, 3.0]


def test_is_recorded_batched_and_captured():
    def f(x):
        return pb.numpy.average(pb.numpy.clip(x, 0.2, None), weights=[1.0, 2.0, 1.0])

    np.testing.assert_allclose(pb.grad(f)([0.1, 0.5, 0.7]), [0.0, 0.5, 0.25])
    np.testing.assert_allclose(pb.vmap(f)(X.astype("f4")), [f(row.astype("f4")) for row in X])
    assert float(pb.function(f)(pb.asarray(X[0]))) == pytest.approx(float(f(X[0])))
    assert pb.eval_shape(f, pb.TensorSpec((3,))).shape == ()


def draws(count):
    for seed in range(count):
        generator = np.random.default_rng(seed)
        shape = tuple(generator.integers(0 if seed % 5 == 0 else 1, 5, generator.integers(1, 4)))
        x = generator.integers(-4, 5, shape) / 2
        yield generator, x


def same(found, expected):
    for one, other in zip(parts(found), parts(expected), strict=True):
        np.testing.assert_allclose(np.asarray(one), other, rtol=1e-6, atol=1e-6)
        assert np.shape(one) == np.shape(other)


def test_reductions_with_where_and_initial():
    names = ("sum", "prod", "max", "min", "any", "all", "mean", "var", "std")
    names += tuple(f"nan{name}" for name in names if name not in ("any", "all"))
    for generator, x in draws(40):
        if not x.size:
            continue
        axis = (None, int(generator.integers(x.ndim)))[generator.integers(2)]
        keep = bool(generator.integers(2))
        mask = generator.random(x.shape) < 0.7
        for name in names:
            a = np.where(generator.random(x.shape) < 0.2, np.nan, x) if "nan" in name else x
            given = {"axis": axis, "keepdims": keep, "where": mask}
            if name.removeprefix("nan") in ("sum", "prod", "max", "min"):
                given["initial"] = float(generator.integers(-2, 3))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)
                expected = getattr(np, name)(a, **given)
            same(getattr(pb.numpy, name)(pb.asarray(a), **given), expected)


def test_of_nothing_there_is_the_initial_value():
    for shape, axis in (((0,), None), ((2, 0), 1), ((0, 3), None)):
        x = np.zeros(shape)
        same(pb.numpy.max(x, axis, initial=-2.5), np.max(x, axis, initial=-2.5))
        same(pb.numpy.min(x, axis, initial=3.0), np.min(x, axis, initial=3.0))


def test_distinct_slices_and_one_nan():
    for generator, x in draws(40):
        if not x.size:
            continue
        given = dict.fromkeys(("return_index", "return_inverse", "return_counts"), True)
        axis = int(generator.integers(-x.ndim, x.ndim))
        found = pb.numpy.unique(pb.asarray(x), axis=axis, **given)
        same(found, np.unique(x, axis=axis, **given))
        x[generator.random(x.shape) < 0.3] = np.nan
        for equal in (True, False):
            found = pb.numpy.unique(pb.asarray(x), equal_nan=equal, **given)
            same(found, np.unique(x, equal_nan=equal, **given))


def test_bins_and_places():
    for generator, x in draws(40):
        edges = np.sort(generator.integers(-6, 7, generator.integers(2, 5)) / 2)
        right = bool(generator.integers(2))
        same(pb.numpy.digitize(x, edges, right), np.digitize(x, edges, right))
        same(pb.numpy.digitize(x, edges[::-1], right), np.digitize(x, edges[::-1], right))
        rising = np.unique(np.append(edges, [9.0]))
        weights = generator.integers(0, 5, x.shape) / 2
        same(pb.numpy.histogram(x, rising), np.histogram(x, rising))
        same(
            pb.numpy.histogram(x, rising, weights=weights),
            np.histogram(x, rising, weights=weights),
        )
        same(pb.numpy.histogram(pb.asarray(x), 4), np.histogram(x, 4))
        same(pb.numpy.histogram(pb.asarray(x), 4, (-1.0, 1.0)), np.histogram(x, 4, (-1.0, 1.0)))
        keys = [generator.integers(0, 3, 6) for _ in range(3)]
        same(pb.numpy.lexsort(keys), np.lexsort(keys))
        flat = generator.integers(0, 24, 5)
        several = np.unravel_index(flat, (2, 3, 4))
        same(pb.numpy.unravel_index(flat, (2, 3, 4)), several)
        same(pb.numpy.ravel_multi_index(several, (2, 3, 4)), flat)


def test_phases_without_jumps():
    for generator, _ in draws(30):
        x = generator.integers(-9, 10, (3, 7)) / 2
        for given in ({}, {"period": 2.0}, {"period": 4, "discont": 3.0}, {"axis": 0}):
            same(pb.numpy.unwrap(x, **given), np.unwrap(x, **given))


def test_what_is_close():
    values = np.array([0.0, -0.0, 1.0, 1.0 + 1e-6, 1.1, np.inf, -np.inf, np.nan])
    a, b = np.meshgrid(values, values)
    for equal in (True, False):
        same(pb.numpy.isclose(a, b, equal_nan=equal), np.isclose(a, b, equal_nan=equal))
        assert pb.numpy.allclose(a, a, equal_nan=equal) is np.allclose(a, a, equal_nan=equal)
        assert pb.numpy.array_equal(a, a, equal) is np.array_equal(a, a, equal)


@pytest.mark.parametrize("name", ["bartlett", "blackman", "hamming", "hanning"])
def test_windows(name):
    for count in (0, 1, 2, 5, 12, 100):
        found = getattr(pb.numpy, name)(count)
        np.testing.assert_allclose(found, getattr(np, name)(count), rtol=1e-6, atol=1e-7)


def test_the_window_of_kaiser():
    for count in (0, 1, 2, 5, 12, 100):
        for beta in (0, 0.5, 8.6, 300.0, -3.0):
            found = pb.numpy.kaiser(count, beta)
            np.testing.assert_allclose(found, np.kaiser(count, beta), rtol=1e-6, atol=1e-7)
