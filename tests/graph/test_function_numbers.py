"""Numbers that a program does not have: floats that are inputs, steps, random ones of others."""

import random
import warnings

import numpy as np
import pytest

import pullback as pb
from pullback.errors import CaptureError

X = np.arange(1, 4, dtype=np.float32)
GENERATOR, TABLE = np.random.default_rng(0), {1.5: 10.0, "1.5": 20.0, 3: 30.0}


# Floats that have become inputs -------------------------------------------------------------------

LOOKS = {
    "isinstance": lambda x, s: x * 2 if isinstance(s, float) else x * 3,
    "not isinstance": lambda x, s: x * 2 if isinstance(s, (int, np.ndarray)) else x * 3,
    "type": lambda x, s: x * 2 if type(s) is float else x * 3,
    "types": lambda x, s: x * 2 if type(s) in (int, float) else x * 3,
    "key": lambda x, s: x * TABLE.get(s, 1.0),
    "text": lambda x, s: x * TABLE.get(str(s), 1.0),
    "format": lambda x, s: x * TABLE.get(f"{s:.1f}", 1.0),
    "percent": lambda x, s: x * TABLE.get("%s" % s, 1.0),  # noqa: UP031
}


@pytest.mark.parametrize("f", LOOKS.values(), ids=LOOKS)
def test_what_is_asked_of_a_float_that_varies(f):
    captured = pb.function(f)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of those that make a program for each value
        for s in (0.5, 2.5, 3.5, 1.5, 4.5, 1.5, 1.5, 5.5):
            assert captured(X, s).tolist() == f(pb.asarray(X), s).tolist()


def test_the_type_of_something_else_does_not_matter():
    class Scale:
        def __call__(self, x, s):
            return x * s if type(self).__name__ == "Scale" else x

    captured = pb.function(Scale())
    for s in (0.5, 2.5, 3.5, 1.5, 4.5):
        captured(X, s)
        assert captured(X, s).tolist() == (X * np.float32(s)).tolist()
    assert "floats that are inputs: s" in captured.explain()


@pytest.mark.parametrize(
    "look",
    [lambda step: TABLE.get(step, 1.0), lambda step: len(f"{step}"), lambda step: len(f"{step:3}")],
)
def test_the_number_of_the_step_is_no_key_and_no_text(look):
    optimizer, v = pb.optimizers.SGD(0.1), pb.Variable(X)

    @pb.function
    def step(x):
        optimizer.apply_gradients([(x, v)])
        return x * look(optimizer.step)

    step(X)
    before = v.numpy().tolist()
    with pytest.raises(CaptureError, match="looks at a number that changes from call to call"):
        step(X)
    assert (v.numpy().tolist(), optimizer.step) == (before, 1)


def test_the_number_of_the_step_is_an_integer():
    optimizer, v = pb.optimizers.SGD(0.1), pb.Variable(X)

    @pb.function
    def step(x):
        optimizer.apply_gradients([(x, v)])
        return x * 2 if isinstance(optimizer.step, int) else x

    assert [step(X).tolist() for _ in range(4)] == [(X * 2).tolist()] * 4


# Random numbers -----------------------------------------------------------------------------------

DRAWS = {
    "generator": lambda x: x * GENERATOR.random(),
    "np.random": lambda x: x * np.random.rand(),
    "random": lambda x: x * random.random(),
    "function of random": lambda x, draw=random.uniform: x * draw(0.0, 1.0),
}


def state():
    return GENERATOR.bit_generator.state, np.random.get_state()[1:3], random.getstate()


@pytest.mark.parametrize("draws", DRAWS.values(), ids=DRAWS)
def test_random_numbers_of_others(draws):
    captured = pb.function(draws)
    captured(X)
    before = repr(state())
    for _ in range(2):
        with pytest.raises(CaptureError, match=r"draws random numbers from.*pb\.random"):
            captured(X)
        assert repr(state()) == before  # as a trace that ends early leaves all things
    lenient = pb.function(draws, strict=False)
    lenient(X)
    with pytest.warns(RuntimeWarning, match="draws random numbers"):
        second = lenient(X)
    assert len({second[0].item(), *(lenient(X)[0].item() for _ in range(3))}) == 4


def test_generators_that_are_named_and_not_used():
    captured = pb.function(lambda x, n: x * (GENERATOR.random() if n else 2.0) + len(dir(random)))
    for _ in range(4):
        assert captured(X, 0).tolist() == (X * 2 + len(dir(random))).tolist()


def test_random_numbers_of_a_python_function():
    generator, again = np.random.default_rng(3), np.random.default_rng(3)
    captured = pb.function(
        lambda x: pb.py_function(lambda x: x * float(generator.random()), x, result=x)
    )
    drawn = [float(captured(pb.asarray(1.0))) for _ in range(4)]
    assert drawn == [float(np.float32(again.random())) for _ in range(4)]
