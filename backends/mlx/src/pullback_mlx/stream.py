"""One stream and one lock for all calls: MLX's streams are of threads, and its graphs of arrays.

MLX computes when values are read. A result that is read late would make of the whole run one graph,
so every some results one is computed. A call within a function that MLX compiles computes nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from itertools import count
from typing import Any

import mlx.core as mx

#: One result of so many is computed: longer graphs gain nothing on a CPU.
EVERY = 32

LOCK = threading.RLock()
_tracing = threading.local()
_calls = count(1)
_streams: dict[str, Any] = {}


def stream_of(kind: str) -> Any:
    """The stream of a kind of device, which every thread may use in its turn."""
    if kind not in _streams:
        _streams[kind] = mx.new_thread_unsafe_stream(mx.gpu if kind == "gpu" else mx.cpu)
    return _streams[kind]


@contextmanager
def alone(kind: str) -> Iterator[None]:
    """Holds the lock, and computes on the stream of a kind of device."""
    with LOCK, mx.stream(stream_of(kind)):
        yield


@contextmanager
def tracing() -> Iterator[None]:
    """Says that what kernels get in this thread stands for values."""
    before = getattr(_tracing, "on", False)
    _tracing.on = True
    try:
        yield
    finally:
        _tracing.on = before


def is_tracing() -> bool:
    """True where arrays stand for values."""
    return getattr(_tracing, "on", False)


def in_turn(kernel: Callable[..., Any], kind: str) -> Callable[..., Any]:
    """A kernel whose calls take the lock, and now and then compute what they return."""

    @wraps(kernel)
    def call(*inputs: Any, **attributes: Any) -> Any:
        if is_tracing():
            return kernel(*inputs, **attributes)
        with LOCK, mx.stream(stream_of(kind)):
            result = kernel(*inputs, **attributes)
            if not next(_calls) % EVERY and result is not NotImplemented:
                mx.eval(result)
        return result

    return call
