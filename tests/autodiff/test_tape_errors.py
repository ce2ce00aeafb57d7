"""GradientTape used wrongly: what it says, and that it stays as it was."""

import re

import numpy as np
import pytest

import pullback as pb
from pullback import errors


def watched(value, tape):
    x = pb.asarray(value)
    tape.watch(x)
    return x


# Wrong use ---------------------------------------------------------------------------------------


def test_watch_outside():
    tape = pb.GradientTape()
    with pytest.raises(errors.TapeError, match="with tape"):
        tape.watch(pb.asarray(1.0))


@pytest.mark.parametrize("value", [1, True, [1, 2]])
def test_watch_of_integers(value):
    with pb.GradientTape() as tape, pytest.raises(errors.DTypeError, match="astype"):
        tape.watch(pb.asarray(value))


@pytest.mark.parametrize("value", [1.0, np.ones(2), "x"])
def test_watch_of_host_data(value):
    with pb.GradientTape() as tape, pytest.raises(errors.InputTypeError, match="asarray"):
        tape.watch(value)


def test_target_that_no_tape_recorded():
    x = pb.asarray(3.0)
    y = x * x
    with pb.GradientTape() as tape:
        tape.watch(x)
    with pytest.raises(errors.TapeError, match="not on the tape"):
        tape.gradient(y, x)


@pytest.mark.parametrize("target", [2.0, np.ones(2), "x"])
def test_target_that_is_no_tensor(target):
    with pb.GradientTape() as tape:
        x = watched(3.0, tape)
    with pytest.raises(errors.InputTypeError, match="target"):
        tape.gradient(target, x)


def test_integer_target():
    with pb.GradientTape() as tape:
        x = watched([3.0, 1.0], tape)
        y = x > 2
    with pytest.raises(errors.DTypeError, match="no gradient"):
        tape.gradient(y, x)


@pytest.mark.parametrize("source", [2.0, np.ones(2), "x"])
def test_source_that_is_no_tensor(source):
    with pb.GradientTape() as tape:
        x = watched(3.0, tape)
        y = x * x
    with pytest.raises(errors.InputTypeError, match=re.escape(type(source).__name__)):
        tape.gradient(y, source)


def test_wrong_arguments_do_not_use_the_tape_up():
    with pb.GradientTape() as tape:
        x = watched(3.0, tape)
        y = x * x
    for wrong in (
        lambda: tape.gradient(y, "x"),
        lambda: tape.gradient(2.0, x),
        lambda: tape.gradient(y, x, [1.0, 2.0]),
        lambda: tape.gradient(y, x, unconnected_gradients="one"),
        lambda: tape.gradient([y], x, [1.0, 2.0]),
    ):
        with pytest.raises(errors.PullbackError):
            wrong()
    assert float(tape.gradient(y, x)) == 6.0
