"""Services of a backend beside kernels, kernels made ready, programs, operands, complex numbers."""

from __future__ import annotations

import time

import ml_dtypes
import numpy as np
from conformance_faults.faults import (
    Fault,
    changed,
    first_result,
    nudged,
    of_result,
    other,
    via,
)

from pullback.graph.graph import State
from pullback.plugins.compiling import as_function
from pullback.plugins.memory import Memory
from pullback_numpy import NumPyBackend


def service(says, **members):
    return Fault("backend", None, says, members)


def sharing(where):
    """from_host shares memory that it was to copy."""

    def from_host(self, x, device, *, copy):
        x = np.asarray(x)
        return x if where(x) else NumPyBackend.from_host(self, x, device, copy=copy)

    return service("from_host with copy=True", from_host=from_host)


def writable(where):
    """to_host hands out memory that can be written."""

    def to_host(self, x):
        return x if where(x) else NumPyBackend.to_host(self, x)

    return service("to_host", to_host=to_host)


def cleared():
    """clear_caches takes the arrays of others."""
    made = []

    def from_host(self, x, device, *, copy):
        made.append(np.array(x))
        del made[:-50]
        return made[-1]

    def clear_caches(self):
        for x in made:
            x[...] = np.zeros((), x.dtype)

    return service("clear_caches", from_host=from_host, clear_caches=clear_caches)


def in_order_of_memory(self, value, device, *, copy):
    y = np.from_dlpack(value)
    return np.ascontiguousarray(y.T).reshape(y.shape)


SERVICES = {
    "from_host shares float64": sharing(lambda x: x.dtype == np.float64),
    "from_host shares large arrays": sharing(lambda x: x.nbytes >= 4096),
    "from_host shares arrays with steps": sharing(
        lambda x: x.ndim > 1 and not x.flags.c_contiguous
    ),
    "to_host of large arrays can be written": writable(lambda x: x.size > 1000),
    "to_host of two axes can be written": writable(lambda x: x.ndim > 1),
    "clear_caches takes what is held": cleared(),
    "item of two axes": service(
        "item",
        item=lambda self, x: NumPyBackend.item(self, x) if x.ndim < 2 else x.tolist(),
    ),
    "from_dlpack ignores steps": service("DLPack", from_dlpack=in_order_of_memory),
    "more memory used than there is": service(
        "memory", memory=lambda self, device: Memory(used=10, held=10, total=1)
    ),
    "time runs backwards": service(
        "elapsed", event=lambda self, device: 1.0, elapsed=lambda self, start, end: -1.0
    ),
    "bfloat16 on another device": service(
        "copy_to_device",
        copy_to_device=lambda self, x, device: nudged(x) if x.dtype == ml_dtypes.bfloat16 else x,
    ),
}


def made_ready(op, make):
    """Kernels made ready for their shapes are make(kernel)."""
    members = {"prepare": lambda self, op, kernel, kinds, attributes: make(kernel)}
    return Fault(op, None, "made ready", members)


def in_one_buffer(kernel):
    kept = {}

    def ready(*x, **a):
        y = np.asarray(kernel(*x, **a))
        kept.setdefault(0, np.empty_like(y))[...] = y
        return kept[0]

    return ready


def first_results(kernel):
    kept = []

    def ready(*x, **a):
        kept[:] = kept or [kernel(*x, **a)]
        return kept[0]

    return ready


def flat(x):
    """The elements in the order of memory."""
    return x.ravel("K").reshape(x.shape) if x.ndim > 1 and x.flags.forc else x


def last_input(kernel):
    state = {}

    def ready(*x, **a):
        state["x"] = x
        time.sleep(0)
        return kernel(*state["x"], **a)

    return ready


READY = {
    "results in one buffer": made_ready("tanh", in_one_buffer),
    "the first results": made_ready("tanh", first_results),
    "layouts are ignored": made_ready("add", lambda kernel: lambda *x: kernel(*map(flat, x))),
    "the input of another thread": made_ready("tanh", last_input),
}


def compiled(make):
    """Graphs are make(graph, right function)."""
    members = {"compile": lambda self, graph: make(graph, as_function(graph))}
    return Fault("backend", None, "a graph|an input|programs|earlier", members)


def wrong_where(condition):
    """Floats are wrong where the inputs and the graph meet a condition."""

    def make(graph, right):
        def run(*x):
            found = right(*x)
            return [
                nudged(y) if y.dtype.kind == "f" and condition(graph, x) else y
                for y in map(np.asarray, found)
            ]

        return run

    return compiled(make)


def sharing_results(graph, right):
    kept = {}

    def run(*x):
        results = list(map(np.asarray, right(*x)))
        for i, y in enumerate(results):
            kept.setdefault(i, np.empty_like(y))[...] = y
        return [kept[i] for i in range(len(results))]

    return run


def found_by_names():
    """Programs are kept by the names of their ops and the shapes of their inputs."""
    kept = {}

    def make(graph, right):
        names = tuple(call.op.name for call in graph.calls)

        def run(*x):
            key = names, bool(graph.writes), tuple((y.shape, str(y.dtype)) for y in x)
            return kept.setdefault(key, right)(*x)

        return run

    return make


def fixed_reads(graph, right):
    """The variables of a program that writes none have the values of the first call for ever."""
    fixed = {}
    reads = [isinstance(entry, State) and not graph.writes for entry in graph.inputs]

    def run(*x):
        given = enumerate(zip(x, reads, strict=True))
        return right(*(fixed.setdefault(i, y) if read else y for i, (y, read) in given))

    return run


PROGRAMS = {
    "one array as two inputs": wrong_where(lambda graph, x: len(x) > 1 and x[0] is x[1]),
    "writes to variables": wrong_where(lambda graph, x: bool(graph.writes)),
    "many calls": wrong_where(lambda graph, x: len(graph.calls) > 20),
    "layouts are ignored": compiled(lambda graph, right: lambda *x: right(*map(flat, x))),
    "results share memory": compiled(sharing_results),
    "the input of another thread": compiled(lambda graph, right: last_input(right)),
    "programs are found without their constants": compiled(found_by_names()),
    "a variable that is only read is a constant": compiled(fixed_reads),
    "loops": Fault(
        "backend",
        None,
        "programs|a graph",
        {
            "compile": lambda self, graph: as_function(
                graph, {"scan": lambda *x, **a: (_ for _ in ()).throw(RuntimeError("scan"))}
            ),
            "control_flow": ("scan",),
        },
    ),
}


def is_complex(x, *_, **__):
    return x.dtype.kind == "c"


def above(z):
    """The number with a positive zero as its imaginary part."""
    return z.real + 1j * (z.imag + 0.0)


COMPLEX = {
    "sqrt on its cut": Fault(
        "sqrt", other(lambda z: np.sqrt(above(z)).astype(z.dtype), is_complex), "on the axes"
    ),
    "asin on its cut": Fault(
        "asin", other(lambda z: np.arcsin(above(z)).astype(z.dtype), is_complex), "on the axes"
    ),
    "log by squares": Fault(
        "log",
        other(
            lambda z: (0.5 * np.log(z.real**2 + z.imag**2) + 1j * np.angle(z)).astype(z.dtype),
            is_complex,
        ),
        "large and tiny",
    ),
    "divide by squares": Fault(
        "divide",
        other(
            lambda a, b: np.asarray(a * np.conj(b) / (b.real**2 + b.imag**2)).astype(a.dtype),
            is_complex,
        ),
        "large and tiny",
    ),
    "abs by squares": Fault(
        "abs", other(lambda z: np.sqrt(z.real**2 + z.imag**2), is_complex), "large and tiny"
    ),
    "isfinite of the real part": Fault(
        "isfinite", other(lambda z: np.isfinite(z.real), is_complex), "no numbers"
    ),
    "to bool by the real part": Fault(
        "astype",
        other(
            lambda x, *, dtype: x.real != 0, lambda x, *, dtype: is_complex(x) and dtype == np.bool_
        ),
        "to bool",
    ),
}

OPERANDS = {
    "a sorter of int32": Fault(
        "searchsorted",
        changed(lambda y: y + 1, lambda a, b, s, **_: s is not None and s.dtype == np.int32),
        "sorter of int32|value",
    ),
    "labels of uint8 are signed": Fault(
        "sparse_softmax_cross_entropy_with_logits",
        via(lambda z, t: (z, t.view(np.int8)), lambda z, t, **_: t.dtype == np.uint8),
        "labels of uint8",
    ),
    "slots of float32 in the dtype of the parameter": Fault(
        "adam_update",
        of_result(
            lambda y, p, *_, **__: (y[0], *(s.astype(p.dtype).astype(s.dtype) for s in y[1:]))
        ),
        "in float32 beside",
    ),
    "a gradient of another dtype": Fault(
        "sgd_update", changed(nudged, lambda p, g, *_, **__: p.dtype != g.dtype), "in float32"
    ),
    "no gradient at all": Fault(
        "adam_update",
        first_result(nudged, lambda p, g, *_, **__: g.size and not g.any()),
        "zeros as gradient",
    ),
    "rows without variance": Fault(
        "layer_norm",
        first_result(
            lambda y: y * y.dtype.type(np.nan),
            lambda x, *_, **__: x.size > 1 and not np.any(x.astype(np.float64)),
        ),
        "zeros as x|value",
    ),
    "groups with channels first": Fault(
        "conv",
        changed(nudged, lambda *_, **a: a["groups"] > 1 and a["data_format"] == "channels_first"),
        "channels_first",
    ),
    "a NaN with a sign in argsort": Fault(
        "argsort",
        other(
            lambda x, *, axis, **_: np.argsort(
                np.where(np.isnan(x) & np.signbit(x), -np.inf, x), axis=axis, kind="stable"
            ),
            lambda x, **a: x.dtype.kind == "f" and np.isnan(x).any() and not a["descending"],
        ),
        "no numbers",
    ),
    "full keeps what it made for an equal number": Fault(
        "full",
        lambda right: (
            lambda kept: lambda **a: kept.setdefault(
                (a["shape"], a["fill_value"], a["dtype"]), right(**a)
            ).copy()
        )({}),
        "sign of zero",
    ),
    "argmax of many in int32": Fault(
        "argmax", changed(lambda y: np.asarray(y).astype(np.int32), lambda x, **_: x.size > 1000),
        "the rule says",
    ),
}  # fmt: skip

FAULTS = {
    **{f"service: {name}": fault for name, fault in SERVICES.items()},
    **{f"made ready: {name}": fault for name, fault in READY.items()},
    **{f"program: {name}": fault for name, fault in PROGRAMS.items()},
    **{f"complex: {name}": fault for name, fault in COMPLEX.items()},
    **{f"operand: {name}": fault for name, fault in OPERANDS.items()},
}
