"""Mistakes of backends whose device lays arrays out itself, counts, waits and compiles."""

from __future__ import annotations

import time
import types
import weakref

import numpy as np
from conformance_faults.faults import Fault, changed, first_result, nudged

from pullback.graph.graph import Draw, HostArray
from pullback.plugins.compiling import as_function
from pullback.plugins.memory import Memory
from pullback_numpy import NumPyBackend
from pullback_numpy.kernels import KERNELS


def from_host(self, x, device, *, copy):
    """A library whose arrays are laid out in C order when they come, whatever they were."""
    return np.array(x, order="C")


def steps(x):
    return x.ndim > 0 and x.size > 1 and not x.flags.c_contiguous


def laid_out(op, where):
    """A kernel that is wrong for arrays which the library's own ops have laid out."""
    make = changed(nudged, lambda x, *_, **__: where(x))
    return Fault(op, make, "on the device", {"from_host": from_host})


LAYOUTS = {
    "negative of arrays with steps": laid_out("negative", steps),
    "sum of turned arrays": laid_out("sum", lambda x: steps(x) and x.flags.f_contiguous),
    "exp of reversed arrays": laid_out("exp", lambda x: any(step < 0 for step in x.strides)),
    "tanh of repeated elements": laid_out("tanh", lambda x: x.size > 1 and 0 in x.strides),
    "matmul of parts of rows": laid_out(
        "matmul", lambda x: x.ndim > 1 and x.strides[-2] > x.shape[-1] * x.itemsize
    ),
}


def beyond(op, size):
    return Fault(op, changed(nudged, lambda x, *_, **__: x.size > size), "elements|value")


SIZES = {
    "exp from 600,000 elements": beyond("exp", 600_000),
    "sum from 600,000 elements": beyond("sum", 600_000),
    "sort from 300,000 elements": beyond("sort", 300_000),
    "adam_update from 600,000 elements": Fault(
        "adam_update", first_result(nudged, lambda x, *_, **__: x.size > 600_000), "elements|value"
    ),
    "random bits repeat after 131,072 words": Fault(
        "random_bits",
        changed(
            lambda y: np.resize(y.ravel()[: 2**17], y.shape),
            lambda *, shape, dtype, **_: dtype == np.uint32 and np.prod(shape) > 2**17,
        ),
        "value",
    ),
    "where of one condition over 64 elements": Fault(
        "where",
        changed(nudged, lambda c, x, y: c.ndim == 0 and max(x.size, y.size) > 64),
        "no axes",
    ),
}


def program(says, compile_):
    return Fault("backend", None, says, {"compile": compile_})


def stale_numbers(self, graph):
    """Numbers that the host gives at each run are those of the first run."""
    run, kept = as_function(graph), {}
    numbers = [isinstance(entry, HostArray) for entry in graph.inputs]

    def call(*x):
        given = enumerate(zip(x, numbers, strict=True))
        return run(*(kept.setdefault(i, y) if number else y for i, (y, number) in given))

    return call


def no_draws(self, graph):
    if any(isinstance(entry, Draw) for entry in graph.inputs):
        raise TypeError("the key is an array here")
    return as_function(graph)


def stale_draws(self, graph):
    run, kept = as_function(graph), {}
    draws = [isinstance(entry, Draw) for entry in graph.inputs]

    def call(*x):
        given = enumerate(zip(x, draws, strict=True))
        return run(*(kept.setdefault(i, y) if draw else y for i, (y, draw) in given))

    return call


def clipped(self, graph):
    """Positions out of range are clipped in a graph, where no exception can be raised."""
    calls = []
    for call in graph.calls:
        if call.op.name == "take":
            kernel = call.kernel

            def take(x, indices, *, axis, kernel=kernel):
                return kernel(x, np.clip(indices, 0, x.shape[axis] - 1), axis=axis)

            call = call._replace(kernel=take)
        calls.append(call)
    return as_function(graph._replace(calls=tuple(calls)))


def without(**attributes):
    """Attributes are ignored in graphs."""

    def compile_(self, graph):
        return as_function(
            graph._replace(
                calls=tuple(
                    call._replace(attributes={**call.attributes, **attributes})
                    if set(attributes) <= set(call.attributes)
                    else call
                    for call in graph.calls
                )
            )
        )

    return compile_


PROGRAMS = {
    "numbers of the host are those of the first run": program("numbers", stale_numbers),
    "graphs with draws do not compile": program("draws", no_draws),
    "draws are those of the first run": program("draws", stale_draws),
    "positions out of range are clipped": program("wrong calls", clipped),
    "lstm ignores reverse": Fault(
        "lstm", None, "captured call", {"compile": without(reverse=False)}
    ),
    "cumulative_max goes along the first axis": Fault(
        "cumulative_max", None, "captured call", {"compile": without(axis=0)}
    ),
}


def races(right):
    state = types.SimpleNamespace()

    def kernel(x, *, axis, **more):
        state.axis = axis
        time.sleep(0)
        return right(x, axis=state.axis, **more)

    return kernel


def leaks(right):
    kept = []

    def kernel(*x, **a):
        kept.append(right(*x, **a))
        del kept[:-1000]
        return kept[-1]

    return kernel


def three(*_, strides, dilation, groups, **__):
    return groups > 1 and max(strides) > 1 and max(dilation) > 1


CALLS = {
    "the axis of another thread": Fault("argmax", races, "while"),
    "results are kept": Fault("tanh", leaks, "freed"),
    "conv_kernel_gradient with groups, dilation and strides": Fault(
        "conv_kernel_gradient", changed(nudged, three), "value|body"
    ),
    "attention with a mask of numbers and is_causal": Fault(
        "scaled_dot_product_attention",
        None,
        "value|body",
        {
            "kernels": {
                **KERNELS,
                "scaled_dot_product_attention": first_result(
                    nudged,
                    lambda q, k, v, mask, *, is_causal, **_: (
                        is_causal and mask is not None and mask.dtype != np.bool_
                    ),
                )(KERNELS["scaled_dot_product_attention"]),
            }
        },
    ),
}


def spread(right):
    """The variance as E[x^2] - E[x]^2."""

    def kernel(x, scale, offset, *, axis, epsilon):
        _, center, _ = results = right(x, scale, offset, axis=axis, epsilon=epsilon)
        axes = None if axis is None else tuple(axis)
        with np.errstate(all="ignore"):
            squares = np.mean(np.square(x), axis=axes, keepdims=True) - np.square(center)
            wrong = (1 / np.sqrt(np.maximum(squares, 0) + x.dtype.type(epsilon))).astype(x.dtype)
            y = ((x - center) * wrong).astype(x.dtype)
            y = y if scale is None else np.asarray(y * scale, x.dtype)
            y = y if offset is None else np.asarray(y + offset, x.dtype)
        return (y, center, wrong.reshape(np.shape(results[2])))

    return kernel


ACCURACY = {"layer_norm's variance by squares": Fault("layer_norm", spread, "far from 0")}


def service(says, **members):
    return Fault("backend", None, says, members)


def constant(self, device):
    return Memory(used=2**20, held=2**20, total=2**34, peak=2**20)


def only_one(self, kind, index):
    return (None,)[index]


class _Counter:
    """Bytes of the arrays that came from the host."""

    def __init__(self):
        self.used = self.peak = 0

    def _gone(self, size):
        self.used -= size

    def members(self, *, resets, frees=True):
        def arrived(backend, x, device, *, copy):
            y = NumPyBackend.from_host(backend, x, device, copy=True)
            self.used += y.nbytes
            self.peak = max(self.peak, self.used)
            if frees:
                weakref.finalize(y, self._gone, y.nbytes)
            return y

        def memory(backend, device):
            return Memory(used=self.used, held=self.used, total=2**40, peak=self.peak)

        def reset_peak(backend, device):
            if resets:
                self.peak = self.used

        return {"from_host": arrived, "memory": memory, "reset_peak": reset_peak}


def _lazy():
    """A library that computes when its values are read, and whose `synchronize` does not wait."""
    pending = []

    def negative(x):
        pending.append(x)
        return KERNELS["negative"](x)

    def to_host(self, x):
        if pending:
            time.sleep(0.15)
            pending.clear()
        return NumPyBackend.to_host(self, x)

    return {"kernels": {**KERNELS, "negative": negative}, "to_host": to_host}


SERVICES = {
    "memory is a constant": service("memory", memory=constant),
    "memory is never free": service("memory", **_Counter().members(resets=True, frees=False)),
    "reset_peak has no effect": service("peak", **_Counter().members(resets=False)),
    "synchronize does not wait": service("synchronize", **_lazy()),
    "two devices are counted where there is one": service(
        "service_devices", device_count=lambda self, kind: 2, native_device=only_one
    ),
}
FAULTS = {
    **{f"device layout: {name}": fault for name, fault in LAYOUTS.items()},
    **{f"size: {name}": fault for name, fault in SIZES.items()},
    **{f"graph: {name}": fault for name, fault in PROGRAMS.items()},
    **{f"call: {name}": fault for name, fault in CALLS.items()},
    **{f"accuracy: {name}": fault for name, fault in ACCURACY.items()},
    **{f"device: {name}": fault for name, fault in SERVICES.items()},
}
