"""An exception from a signal handler during an op reaches the caller unchanged."""

from __future__ import annotations

import functools
import signal

import pytest

import pullback as pb
from pullback import errors
from pullback.tensor import Tensor, TensorLike

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="there is no SIGUSR1 here")


class Stopped(Exception):
    """Nothing that an op raises."""


@pytest.fixture
def handle():
    before = signal.getsignal(signal.SIGUSR1)
    yield functools.partial(signal.signal, signal.SIGUSR1)
    signal.signal(signal.SIGUSR1, before)


def by_position(number, frame):
    raise Stopped("here")


def by_any(*given):
    raise Stopped("here")


class Handler:
    def method(self, number, frame):
        self.deeper()

    def deeper(self):
        raise Stopped("here")

    __call__ = method


def once(number, frame):
    signal.signal(number, signal.SIG_DFL)
    raise Stopped("here")


HANDLERS = {
    "function": by_position,
    "any arguments": by_any,
    "method": Handler().method,
    "object": Handler(),
    "partial": functools.partial(lambda why, number, frame: by_any(why), "why"),
    "once": once,
}


def interrupts(x, *others, **attributes):
    signal.raise_signal(signal.SIGUSR1)
    return x


@pytest.mark.parametrize("handler", HANDLERS.values(), ids=HANDLERS)
def test_in_a_kernel(define, offer, handle, handler):
    @define(name="test_interrupted")
    def interrupted(x: TensorLike, /) -> Tensor:
        """x."""
        return x + 0

    offer("test_interrupted", interrupts)
    handle(handler)
    x = pb.asarray([1.0])
    for given in (x, [1.0], x):  # the code with loops, and that without
        if handler is once:
            handle(once)
        with pytest.raises(Stopped, match="here") as caught:
            interrupted(given)
        assert caught.value.__cause__ is None


@pytest.mark.parametrize("kind", [TimeoutError, RuntimeError, ValueError, IndexError, MemoryError])
def test_whatever_it_is(define, offer, handle, kind):
    @define(name="test_timed")
    def timed(x: TensorLike, /) -> Tensor:
        """x."""
        return x + 0

    def handler(number, frame):
        raise kind("too late")

    offer("test_timed", interrupts)
    handle(handler)
    with pytest.raises(kind, match="too late") as caught:
        timed(pb.asarray([1.0]))
    assert type(caught.value) is kind


def test_in_the_body_of_a_composite_and_in_rules(define, offer, handle):
    @define(name="test_inner")
    def inner(x: TensorLike, /) -> Tensor:
        """x."""
        return x + 0

    @define(name="test_outer")
    def outer(x: TensorLike, /) -> Tensor:
        """x."""
        return inner(x) * 1

    inner.vjp(x=lambda g: g)  # else the body is run where a tape listens

    def shape(x):
        signal.raise_signal(signal.SIGUSR1)
        return x

    @define(name="test_ruled", shape=shape)
    def ruled(x: TensorLike, /) -> Tensor:
        """Fails, so that its rules are asked why."""
        raise RuntimeError("no")

    offer("test_inner", interrupts)
    handle(by_position)
    for one in (outer, ruled):
        with pytest.raises(Stopped, match="here"):
            one(pb.asarray([1.0]))
    tensor = pb.asarray([1.0])
    with pb.GradientTape() as tape:
        tape.watch(tensor)
        with pytest.raises(Stopped, match="here"):
            outer(tensor)


def test_what_the_kernel_raises_is_still_explained(define, offer, handle):
    @define(name="test_broken")
    def broken(x: TensorLike, /) -> Tensor:
        """x."""
        return x + 0

    def fails(x):
        raise RuntimeError("the kernel's own")

    offer("test_broken", fails)
    handle(by_position)
    with pytest.raises(errors.BackendError, match="the kernel's own"):
        broken(pb.asarray([1.0]))
