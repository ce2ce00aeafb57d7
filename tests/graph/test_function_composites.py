"""Composites without a kernel have their rules in graphs, not the derivatives of their bodies.

They are tried at numbers where the two differ: where a body chooses between two values, and where
the derivative of a step is infinite or NaN.
"""

import numpy as np
import pytest

import pullback as pb
from pullback.devices import as_device
from pullback.dtypes import is_floating
from pullback.spec import OPS
from pullback_conformance.case import cases
from pullback_conformance.sample import Sample
from pullback_conformance.samples import load

CPU = as_device("cpu")
SUITES = load()
#: Composites whose rule looks at values, which no captured function may.
LOOKING = {"_cofactors"}


def bits(value):
    if isinstance(value, (list, tuple)):
        return [bits(item) for item in value]
    return None if value is None else (str(value.dtype), value.shape, value.numpy().tobytes())


def tried(name, device):
    """Calls of an op by its body, in float32: its samples, and the same rounded to integers."""
    op = OPS[name]
    if op.primitive or not op.rules or name in LOOKING:
        return
    for case in cases(op, SUITES[name], device):
        if str(case.dtype) != "float32" or case.kernel is not None or not case.sample.gradient:
            continue
        if not all(isinstance(x, pb.Tensor) for x in case.tensors()):
            continue
        yield case
        if all(x.dtype == np.float64 for x in case.sample.inputs):
            rounded = tuple(np.round(x) for x in case.sample.inputs)
            yield case.__class__(
                op, case.suite, Sample(rounded, case.sample.attributes), device, case.dtype
            )


def results_of(case, tensors):
    results = case.call(tensors)
    several = results if isinstance(results, tuple) else [results]
    return [r for r in several if is_floating(r.dtype)]


def in_branch(case):
    def f(*tensors):
        results_of(case, tensors)  # the trace around has met the op, too

        def run():
            return results_of(case, [*tensors])

        return pb.cond(pb.ones(()) > 0, run, run)

    return f


def in_loop(case):
    def f(*tensors):
        rows = pb.scan(lambda c, _: (c, results_of(case, [*tensors])), 0.0, length=1)[1]
        return [row[0] for row in rows]

    return f


def differentiated(f, tensors, *, order):
    """Gradients of each order with one tape, asked for while it records."""
    sources = [x for x in tensors if isinstance(x, pb.Tensor) and is_floating(x.dtype)]
    found = []
    with pb.GradientTape(persistent=True) as tape:
        tape.watch(sources)
        targets = f(*tensors)
        for _ in range(order):
            # Targets that are constants have no gradient.
            targets = tape.gradient(targets, sources, unconnected_gradients="zero")
            found.append(targets)
    return found


WAYS = {
    "call": lambda case: lambda *tensors: results_of(case, [*tensors]),
    "cond": in_branch,
    "scan": in_loop,
}


def differing(found, orders=(1, 2)):
    """The cases whose gradients captured are not those op by op."""
    wrong = []
    for case in found:
        tensors = case.tensors()
        for order in orders:
            with np.errstate(all="ignore"):
                eager = bits(differentiated(WAYS["call"](case), tensors, order=order))
                for way, make in WAYS.items():
                    captured = pb.function(make(case))
                    calls = [bits(differentiated(captured, tensors, order=order)) for _ in range(2)]
                    if calls != [eager, eager]:
                        wrong.append((str(case), order, way))
    return wrong


BY_BODY = [name for name in SUITES if name in OPS and any(tried(name, CPU))]


@pytest.mark.each("name", BY_BODY)
def test_rules_are_those_of_the_op(name):
    smallest = sorted(tried(name, CPU), key=lambda case: sum(x.size for x in case.inputs))
    assert differing(smallest[:1], [2]) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", BY_BODY)
def test_rules_of_all_samples(name):
    assert differing(tried(name, CPU)) == []
