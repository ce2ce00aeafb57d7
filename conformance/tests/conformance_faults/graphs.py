"""Kernels of several calls: fused ones, and graphs that are compiled as a whole."""

from __future__ import annotations

import numpy as np
from conformance_faults.faults import Fault, nudged

from pullback.plugins.compiling import as_function

FUSED = frozenset({
    "add", "subtract", "multiply", "negative", "tanh", "exp", "maximum", "where", "less", "sum",
    "mean", "broadcast_to", "sqrt", "less_equal", "tanh_gradient",
})  # fmt: skip


ROWS = FUSED | {"softmax", "layer_norm"}


def fused(op, wrong, says="fused", ops=FUSED):
    """Fused kernels that are wrong(region, *inputs)."""

    def fuse(self, region):
        return lambda *x: wrong(region, *x)

    return Fault(op, None, says, {"fusible": lambda self: ops, "fuse": fuse})


def results(change):
    """Each result of a fused kernel changed."""

    def wrong(region, *x):
        found = region.op_by_op(*x)
        return tuple(map(change, found)) if isinstance(found, tuple) else change(found)

    return wrong


def inputs(change):
    """Each input of a fused kernel changed."""
    return lambda region, *x: region.op_by_op(*map(change, x))


def floats(change, where=lambda x: True):
    """Arrays of floats changed, if they meet the condition."""
    return lambda x: change(x) if x.dtype.kind == "f" and where(x) else x


def without_tail(y):
    y = np.array(y)
    if y.size > 8 and y.size % 8:
        y.reshape(-1)[-(y.size % 8) :] = 0
    return y


def block(y):
    y = np.array(y)
    y.reshape(-1)[2**16 :] = 0
    return y


def swapped(region, *x):
    found = region.op_by_op(*x)
    return found[::-1] if isinstance(found, tuple) else found


def wider(region, *x):
    """As if nothing was rounded between the calls."""
    found = region.op_by_op(*(v.astype(np.float64) if v.dtype == np.float32 else v for v in x))
    several = isinstance(found, tuple)
    kinds = [value.dtype for value in region.outputs]
    cast = tuple(
        np.asarray(y).astype(kind)
        for y, kind in zip(found if several else [found], kinds, strict=True)
    )
    return cast if several else cast[0]


def over_rows(change):
    """Each result of a region that has softmax changed."""
    changed = results(change)

    def wrong(region, *x):
        has_rows = any(call.op.name == "softmax" for call in region.calls)
        return changed(region, *x) if has_rows else region.op_by_op(*x)

    return wrong


def contiguous_only(x):
    """The elements in the order of memory."""
    return x if x.flags.c_contiguous else np.ascontiguousarray(x.T).reshape(x.shape)


def first_of_row(region, *x):
    size = max(v.ndim for v in x)
    return region.op_by_op(
        *(np.broadcast_to(v[:1], v.shape) if v.ndim == 1 < size and v.size else v for v in x)
    )


def columns_as_rows(region, *x):
    return region.op_by_op(
        *(np.roll(v, 1, 0) if v.ndim == 2 and v.shape[1] == 1 and v.shape[0] > 1 else v for v in x)
    )


def bound_numbers():
    """Numbers are those of the first call."""

    def fuse(self, region):
        kept = {}

        def kernel(*x):
            numbered = enumerate(x)
            return region.op_by_op(
                *(kept.setdefault(i, v) if v.ndim == 0 else v for i, v in numbered)
            )

        return kernel

    return Fault("add", None, "fused", {"fusible": lambda self: FUSED, "fuse": fuse})


def buffers():
    """Results in the same memory at each call."""

    def fuse(self, region):
        kept = {}

        def kernel(*x):
            found = region.op_by_op(*x)
            several = isinstance(found, tuple)
            for i, y in enumerate(found if several else [found]):
                kept.setdefault(i, np.empty_like(y))[...] = y
            return tuple(kept.values()) if several else kept[0]

        return kernel

    says = "fused .*result after another call"
    return Fault("tanh", None, says, {"fusible": lambda self: FUSED, "fuse": fuse})


def raises(region, *x):
    if any(v.size == 0 for v in x):
        raise ValueError("no elements")
    return region.op_by_op(*x)


def hook_raises(self, region):
    if len(region.calls) > 8:
        raise IndexError("registers")
    return region.op_by_op


def written(region, *x):
    found = region.op_by_op(*x)
    if x[0].ndim and x[0].size and x[0].dtype.kind == "f":
        x[0].setflags(write=True)
        x[0].reshape(-1)[:1] = 4
    return found


def last_bit(y):
    """As of a sum in another order."""
    return np.asarray(np.nextafter(y, y.dtype.type(np.inf))) if y.ndim == 0 else y


REGIONS = {
    "the tail of vectors": fused("tanh", results(floats(without_tail))),
    "large arrays in blocks": fused("exp", results(floats(block, lambda y: y.size > 2**16))),
    "two results in the other order": fused("add", swapped),
    "nothing is rounded between calls": fused("multiply", wider),
    "strides are ignored": fused("subtract", inputs(contiguous_only)),
    "a row is its first number": fused("add", first_of_row),
    "a scale is its first number": fused("layer_norm", first_of_row, ops=ROWS),
    "rows end with a vector": fused("softmax", over_rows(floats(without_tail)), ops=ROWS),
    "softmax behind another op": fused("negative", over_rows(floats(without_tail)), ops=ROWS),
    "a column begins at another row": fused("multiply", columns_as_rows),
    "numbers of the first call": bound_numbers(),
    "results share memory": buffers(),
    "no elements": fused("negative", raises, "fused .*no elements"),
    "the hook raises for long regions": Fault(
        "exp",
        None,
        "fused .*raised IndexError: registers",
        {"fusible": lambda self: FUSED, "fuse": hook_raises},
    ),
    "an input is written to": fused("tanh", written, "fused .*after the call|read-only|WRITE"),
    "NaN is zero": fused("maximum", inputs(floats(np.nan_to_num, lambda x: np.isnan(x).any()))),
    "infinity is the largest number": fused(
        "add", results(floats(lambda y: np.clip(y, -3.4028235e38, 3.4028235e38).astype(y.dtype)))
    ),
    "the sign of zero": fused("negative", results(floats(lambda y: y + y.dtype.type(0)))),
    "subnormals are zero": fused(
        "multiply",
        results(floats(lambda y: np.where(np.abs(y) < 1e-38, y.dtype.type(0), y))),
    ),
    "one element has no axes": fused(
        "exp", results(floats(lambda y: y.reshape(()) if y.shape == (1,) else y)), "fused|body"
    ),
    "a sum rounds in another order": fused("sum", results(floats(last_bit))),
    "one of several results only": fused(
        "tanh",
        lambda region, *x: y[0] if isinstance(y := region.op_by_op(*x), tuple) else y,
        "fused",
    ),
    "a chosen side": fused(
        "where", inputs(lambda x: ~x if x.dtype == np.bool_ and x.size > 60 else x)
    ),
}  # fmt: skip


def compiled(op, wrong, says="compiled"):
    """Compiled graphs that are wrong(right function, *inputs)."""

    def compile_(self, graph):
        right = as_function(graph)
        return lambda *x: wrong(right, *x)

    return Fault(op, None, says, {"compile": compile_})


def once():
    """The inputs of the first call."""

    def compile_(self, graph):
        right, kept = as_function(graph), []

        def run(*x):
            kept[:] = kept or x
            return right(*kept)

        return run

    return Fault("tanh", None, "compiled", {"compile": compile_})


def changed_floats(change):
    return lambda right, *x: [floats(change)(np.asarray(y)) for y in right(*x)]


def refuses(self, graph):
    raise NotImplementedError("dynamic shapes")


GRAPHS = {
    "results in the other order": compiled("add", lambda right, *x: right(*x)[::-1]),
    "the inputs of the first call": once(),
    "the tail of vectors": compiled("exp", changed_floats(nudged)),
    "NaN is zero": compiled("negative", changed_floats(np.nan_to_num)),
    "the sign of zero": compiled("abs", changed_floats(lambda y: np.where(y == 0, -y, y))),
    "the hook raises": Fault("sqrt", None, "compiled .*dynamic shapes", {"compile": refuses}),
    "one result too few": compiled("multiply", lambda right, *x: right(*x)[:-1]),
    "16-bit floats inside": compiled(
        "exp", changed_floats(lambda y: y.astype(np.float16).astype(y.dtype))
    ),
}

FAULTS = {
    **{f"fused: {name}": fault for name, fault in REGIONS.items()},
    **{f"compiled: {name}": fault for name, fault in GRAPHS.items()},
}
