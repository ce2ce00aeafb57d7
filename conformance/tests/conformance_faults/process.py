"""Calls after calls, threads, bits, transfers, and the state of the process."""

from __future__ import annotations

import itertools
import os
import random
import threading
import time

import numpy as np
from conformance_faults.faults import Fault, changed, nudged

from pullback_numpy import NumPyBackend


def in_calls(wrong):
    """Wrong in the calls whose number meets the condition."""

    def make(right):
        numbers = itertools.count(1)
        return changed(nudged, lambda *_, **__: wrong(next(numbers)))(right)

    return make


def after(count):
    return in_calls(lambda number: number > count)


def every(count):
    return in_calls(lambda number: number % count == 0)


def ring(count):
    """Results in buffers that are used again after some calls."""

    def make(right):
        buffers, turn = {}, itertools.count()

        def kernel(*x, **a):
            y = np.asarray(right(*x, **a))
            kept = buffers.setdefault((y.shape, y.dtype), [np.empty_like(y) for _ in range(count)])
            buffer = kept[next(turn) % count]
            buffer[...] = y
            return buffer

        return kernel

    return make


def memory_by_shape(right):
    """The result of the first call of a shape, for all calls of it."""
    kept = {}

    def kernel(*x, **a):
        key = tuple((v.shape, v.dtype) for v in x if v is not None and v.size > 9)
        return kept.setdefault(key, right(*x, **a)) if key else right(*x, **a)

    return kernel


REPEATED = {
    "tanh after 200 calls": Fault("tanh", after(200), ""),
    "every 97th call of exp": Fault("exp", every(97), ""),
    "eight buffers in turn": Fault("cos", ring(8), "earlier result"),
    "sixty buffers in turn": Fault("sqrt", ring(60), "earlier result"),
    "the first result of a shape": Fault("sigmoid", memory_by_shape, "value|call"),
    "every 50th matmul": Fault("matmul", every(50), ""),
}


def scratch(right):
    """One scratch buffer for all threads."""
    kept = {}

    def kernel(*x, **a):
        x0 = kept.setdefault((x[0].shape, x[0].dtype), np.empty_like(x[0]))
        x0[...] = x[0]
        time.sleep(0)
        return np.array(right(x0, *x[1:], **a))

    return kernel


def current(right):
    """The input of the last caller."""
    state = {}

    def kernel(*x, **a):
        state["x"] = x
        time.sleep(0)
        return right(*state["x"], **a)

    return kernel


def one_at_a_time(right):
    lock = threading.Lock()

    def kernel(*x, **a):
        if not lock.acquire(blocking=False):
            raise RuntimeError("the library is busy")
        try:
            time.sleep(0)
            return right(*x, **a)
        finally:
            lock.release()

    return kernel


def attribute_of_last(right):
    state = {}

    def kernel(*x, **a):
        state.update(a)
        state["x"] = x[0]
        time.sleep(0)
        return right(state["x"], *x[1:], **a)

    return kernel


THREADS = {
    "one scratch buffer in exp": Fault("exp", scratch, "thread"),
    "one scratch buffer in softmax": Fault("softmax", scratch, "thread"),
    "the input of another caller in add": Fault("add", current, "thread"),
    "not reentrant": Fault("matmul", one_at_a_time, "thread"),
    "attributes of another caller in sum": Fault("sum", attribute_of_last, "thread"),
}


def unsteady(limit):
    def make(right):
        turns = itertools.cycle([0, 1])

        def kernel(*x, **a):
            y = np.asarray(right(*x, **a))
            if x[0].size < limit or y.dtype.kind != "f":
                return y
            return np.nextafter(y, y.dtype.type(np.inf)) if next(turns) else y

        return kernel

    return make


BITS = {
    "the last bit of large exp": Fault("exp", unsteady(2000), "second call|same call"),
    "the last bit of large sums": Fault("sum", unsteady(2000), "second call|same call"),
    "the last bit of large matmul": Fault("matmul", unsteady(2000), "second call|same call"),
    "the last bit of large softmax": Fault("softmax", unsteady(2000), "second call|same call"),
}


def does(action):
    def make(right):
        def kernel(*x, **a):
            action()
            return right(*x, **a)

        return kernel

    return make


def filters():
    import warnings

    warnings.simplefilter("ignore")


STATE = {
    "NumPy's errors are ignored from now on": Fault(
        "log", does(lambda: np.seterr(divide="warn", over="raise")), "error state"
    ),
    "NumPy's generator gets a seed": Fault("tanh", does(lambda: np.random.seed(0)), "random state"),
    "arrays print in another way": Fault(
        "add", does(lambda: np.set_printoptions(precision=3)), "print options"
    ),
    "Python's generator gets a seed": Fault("sin", does(lambda: random.seed(0)), "random module"),
    "the environment": Fault(
        "cos",
        does(lambda: os.environ.__setitem__("OMP_NUM_THREADS", "1")),
        "environment",
    ),
    "the filters of warnings": Fault("sqrt", does(filters), "filters of warnings"),
}


def contiguous(array):
    return np.ndarray(array.shape, array.dtype, np.ascontiguousarray(array.T).data)


def to_host(change):
    """Arrays arrive changed on the host."""
    return Fault("add", None, "to_host", {"to_host": lambda self, x: change(x)})


def from_host(change):
    """Arrays arrive changed on the device."""
    members = {"from_host": lambda self, x, d, *, copy: np.array(change(x))}
    return Fault("add", None, "from_host|to_host", members)


def item(change, dtype):
    """The Python number of an element of a dtype is another one."""

    def member(self, x):
        return change(x.item()) if x.dtype == dtype else NumPyBackend.item(self, x)

    return Fault("add", None, "item", {"item": member})


def without_subnormals(x):
    if x.dtype.kind != "f":
        return x
    return np.where(np.abs(x) < np.finfo(x.dtype).smallest_normal, np.zeros((), x.dtype), x)


TRANSFERS = {
    "to_host loses the sign of zero": to_host(lambda x: x + 0 if x.dtype.kind == "f" else x),
    "to_host shares memory that can be written": to_host(lambda x: x),
    "to_host ignores strides": to_host(contiguous),
    "to_host through float64": to_host(
        lambda x: x.astype(np.float64).astype(x.dtype) if x.dtype.kind in "iu" else x
    ),
    "from_host flushes subnormals": from_host(without_subnormals),
    "from_host of large arrays": from_host(lambda x: nudged(x) if x.size > 5000 else x),
    "item of int64 through float": item(lambda x: int(float(x)), np.int64),
    "item of bool is an int": item(int, np.bool_),
    "item of float32 through text": item(lambda x: float(f"{x:.5g}"), np.float32),
}

FAULTS = {
    **{f"repeated: {name}": fault for name, fault in REPEATED.items()},
    **{f"thread: {name}": fault for name, fault in THREADS.items()},
    **{f"bits: {name}": fault for name, fault in BITS.items()},
    **{f"state: {name}": fault for name, fault in STATE.items()},
    **{f"transfer: {name}": fault for name, fault in TRANSFERS.items()},
}
