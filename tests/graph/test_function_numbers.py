"""Numbers that a program does not have: numbers that are inputs, steps, random ones of others."""

import copy
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
    assert "numbers that are inputs: s" in captured.explain()


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


# Integers that have become inputs -----------------------------------------------------------------

INTEGERS = [1, 2, 3, 4, 5, 300, -1, 0, 2**31 - 1, -(2**31), 2**31, 2**40, 2**70, 7, True, 3, 3.0, 6]
COMPUTES = {
    "times": lambda x, n: x * n + n,
    "int8": lambda x, n: pb.ones(2, dtype="int8") * n,
    "uint8": lambda x, n: pb.ones(2, dtype="uint8") + n,
    "tensor": lambda x, n: pb.asarray(n),
    "large tensor": lambda x, n: pb.asarray(n * 1000000),
    "dtypes": lambda x, n: pb.asarray(n, dtype="float64") + pb.asarray(n, dtype="int8"),
    "power of two": lambda x, n: x * 2**n,
    "root": lambda x, n: x * (n * 1.0) ** 0.5,
    "quotients": lambda x, n: x * n / (n + 1) - n // 2 + 7 % n,
    "result": lambda x, n: (x, n + 1, [n]),
    "power": lambda x, n: x**n,
    "comparisons": lambda x, n: (x < n, x == n, pb.where(x > n, x, n), pb.clip(x, 0, n)),
    "items": lambda x, n: pb.concat([x, pb.stack([n, n + 1])]),
}
USES = {
    "full": lambda x, n: pb.full((2,), n),
    "count": lambda x, n: sum([x] * (n % 4), start=x),
    "axis": lambda x, n: pb.sum(pb.ones((2, 3, 4)), axis=n % 3),
    "shape": lambda x, n: pb.ones(abs(n) % 9),
    "range": lambda x, n: [x * i for i in range(n % 5)],
    "index": lambda x, n: x[n % 3],
    "bits": lambda x, n: x * (int(n) & 3),
    "generator": lambda x, n: pb.Generator(int(abs(n))).uniform((2,)),
    "round": lambda x, n: x * round(n * 1.5),
    "order": lambda x, n: pb.maximum(x, n) - min(n, 3),
    "root": lambda x, n: x * float(np.sqrt(float(abs(n)))),
    "type": lambda x, n: x * 2 if type(n) is int else x,
    "isinstance": lambda x, n: x * 2 if isinstance(n, int) else x,
    "text": lambda x, n: x * len(f"{n}"),
}


def outcome(f, *arguments):
    """Returns what a call gives, with types and bits, or its error."""
    try:
        result = f(*arguments)
    except Exception as error:
        return type(error), str(error)
    leaves = [result] if isinstance(result, pb.Tensor) else result
    return [
        (x.dtype, x.shape, x.numpy().tobytes()) if isinstance(x, pb.Tensor) else (type(x), repr(x))
        for x in leaves
    ]


@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize("name", [*COMPUTES, *USES])
def test_integers_that_vary(name, dtype):
    f = COMPUTES.get(name) or USES[name]
    captured = pb.function(f)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of those that make a program for each value
        for n in INTEGERS * 2:
            if name == "power of two" and abs(n) > 400:
                continue
            x = pb.asarray(X).astype(dtype)
            assert outcome(captured, x, n) == outcome(f, x, n), n
    assert ("numbers that are inputs: n" in captured.explain()) is (
        name in {*COMPUTES, "isinstance"}
    )


class Keeper:
    @pb.function
    def keep(self, x, n):
        self.last, self.next = n, n + 1
        return x * n


@pytest.mark.parametrize("values", [range(2, 9), [0.5, 1.5, 2.5, 3.5, 4.5]])
def test_a_number_that_the_function_keeps_is_a_number_afterwards(values):
    keeper, kept = Keeper(), []
    for n in values:
        keeper.keep(X, n)
        kept.append(keeper.last)
        last = keeper.last
        assert last in values
        texts = [
            f"{number} {number!r} {int(number)} {round(number)}" for number in (last, n0(last))
        ]
        assert texts[0] == texts[1]
        assert keeper.next == last + 1 == 1 + last
        assert (last < 100, last > 100, bool(last), {last: 1}[n0(last)]) == (True, False, True, 1)
        assert type(copy.deepcopy(last)) is type(n0(last))
        assert (pb.ones(2) * last).tolist() == [n0(last)] * 2
        assert pb.asarray(last).dtype == pb.asarray(n0(last)).dtype
        assert pb.function(lambda x: x * keeper.last)(pb.ones(1)).tolist() == [n0(last)]
    assert kept[-1] == kept[2]  # a program does not run the function's Python


def n0(number):
    """Returns the plain number."""
    return float(number) if isinstance(number, float) else int(number)


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
