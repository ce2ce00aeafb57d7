"""Samples that follow by rules, the blame for failures, and what is said of them."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

import pullback as pb
from pullback import dtypes
from pullback.devices import as_device
from pullback.spec import OPS
from pullback_conformance.blame import settled, used
from pullback_conformance.case import cases, leaves
from pullback_conformance.cli import conform as command
from pullback_conformance.cli.failures import distinct
from pullback_conformance.derived import derived, elementwise, items, values
from pullback_conformance.mode import Mode
from pullback_conformance.process import ProcessState
from pullback_conformance.report import Failure
from pullback_conformance.runner import conform, planned
from pullback_conformance.samples import load
from pullback_numpy import NumPyBackend
from pullback_numpy.kernels import KERNELS


def samples(name, *, quick=True):
    return derived(OPS[name], load()[name], quick=quick)


def broken(**kernels):
    members = {"name": "broken", "kernels": {**KERNELS, **kernels}}
    pb.register_backend(type("BrokenBackend", (NumPyBackend,), members)(), replace=True)
    return "broken"


@pytest.mark.parametrize("dtype", dtypes.REAL_FLOATING)
def test_values_of_a_float_have_every_kind(dtype):
    x = values.floats(dtype).astype(dtype).astype(np.float64)
    assert np.isnan(x).any()
    assert {np.inf, -np.inf} <= set(x)
    assert np.signbit(x[x == 0]).any()
    assert not np.signbit(x[x == 0]).all()
    import ml_dtypes

    tiny = float(ml_dtypes.finfo(dtype).smallest_normal)
    assert ((x > 0) & (x < tiny)).any()
    assert float(ml_dtypes.finfo(dtype).max) in set(x)


def test_elementwise_ops_are_told_by_their_reference():
    suites = load()
    each = {name for name, suite in suites.items() if elementwise.is_elementwise(OPS[name], suite)}
    assert {"add", "exp", "where", "relu", "pow", "astype", "lgamma"} <= each
    assert not each & {"flip", "softmax", "sort", "dropout", "sum", "matmul", "clip_by_norm"}


def test_large_and_empty_inputs_and_every_axis():
    sizes = {max((x.size for x in leaves(s.inputs)), default=0) for s in samples("exp")}
    assert max(sizes) > 2**16
    assert any(s.every_dtype and leaves(s.inputs)[0].size == 0 for s in samples("sum"))
    tried = {
        (s.inputs[0].ndim, s.attributes["axis"])
        for s in samples("softmax")
        if "axis" in s.attributes
    }
    assert {(n, axis) for n in (1, 2, 3, 4) for axis in range(-n, n)} <= tried


WITH_ITEMS = sorted(name for name, suite in load().items() if suite.items)


@pytest.mark.parametrize("name", WITH_ITEMS)
def test_many_items_have_the_results_of_the_few_that_differ(name, monkeypatch):
    monkeypatch.setattr(items, "MANY", 300)
    op, suite = OPS[name], load()[name]
    many = [*items.samples(op, suite, quick=True)]
    assert len(many) >= len([s for s in suite.samples if all(x.size for x in leaves(s.inputs))]) / 2
    device = as_device("cpu")
    for case in cases(op, replace(suite, samples=tuple(many)), device):
        if case.dtype == dtypes.float64 or case.dtype is None:
            each = replace(case, sample=replace(case.sample, period=None))
            for a, b in zip(case.reference(np.float64), each.reference(np.float64), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["max_pool", "avg_pool_gradient", "conv", "lstm", "gru_gradient"])
def test_a_quick_run_finds_a_mistake_in_the_last_of_many_items(name):
    kernel = KERNELS[name]

    def wrong(*inputs, **attributes):
        found = kernel(*inputs, **attributes)
        first = found[0] if isinstance(found, tuple) else found
        if first.shape[0] > 100:
            first[-1] += 1
        return found

    report = conform(broken(**{name: wrong}), ops=[name], mode=Mode(quick=True, only="value"))
    assert {failure.check for failure in report.failures} == {"value"}
    assert any("items" in failure.sample for failure in report.failures)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_quick_run_finds_a_mistake_in_many_16_bit_floats(dtype):
    def wrong(x):
        found = KERNELS["sign"](x)
        if x.size > 2**14 and x.dtype == dtype:
            found[-1] += found.dtype.type(1)
        return found

    mode = Mode(quick=True, only="value")
    report = conform(broken(sign=wrong), ops=["sign"], mode=mode)
    assert {failure.sample for failure in report.failures} == {f"every {dtype}"}


def test_a_quick_run_finds_a_wrong_slope_at_an_infinity():
    def tanh_gradient(x):
        return KERNELS["tanh"](np.where(np.isinf(x), 0, x))

    report = conform(broken(tanh=tanh_gradient), ops=["tanh"], mode=Mode(quick=True, only="slopes"))
    assert [failure.check for failure in report.failures] == ["slopes"]


@pytest.mark.usefixtures("own_kernels")  # which the bare backend has, too
def test_a_quick_run_measures_ops_without_a_kernel_with_fewer_samples():
    def counts(backend, op, *, quick=True):
        items = planned(op, as_device(backend), mode=Mode(quick=quick))
        return Counter(item.check for item in items)

    members = {"name": "bare", "kernels": {k: v for k, v in KERNELS.items() if OPS[k].primitive}}
    pb.register_backend(type("BareBackend", (NumPyBackend,), members)(), replace=True)
    body, kernel = counts("bare", "logsumexp"), counts("cpu", "logsumexp")
    written = len(load()["logsumexp"].samples)
    assert body["value"] == written < kernel["value"]
    assert body["unchanged"] == body["layouts"] == 1 < kernel["layouts"]
    assert body["second_gradient"] == kernel["second_gradient"]
    # Every value is one shape. In the full run nothing is left out, and for primitives nothing.
    assert any(
        item.sample == "every float32"
        for item in planned("mish", as_device("bare"), mode=Mode(quick=True))
    )
    full = counts("bare", "logsumexp", quick=False)
    assert full["value"] == counts("cpu", "logsumexp", quick=False)["value"]
    assert counts("bare", "sum") == counts("cpu", "sum")


def test_attributes_come_in_pairs():
    pairs = {(s.attributes.get("correction"), s.attributes.get("keepdims")) for s in samples("var")}
    assert any(correction and keepdims for correction, keepdims in pairs)


def test_large_integers_differ_by_less_than_a_float_tells():
    x = values.integers(dtypes.int64)
    assert len({int(v) for v in x}) > len({float(v) for v in x})


def test_the_samples_are_the_same_at_every_run():
    for name in ("conv", "sort", "adam_update"):
        first, again = samples(name), samples(name)
        assert [s.note for s in first] == [s.note for s in again]
        for one, other in zip(first, again, strict=True):
            for a, b in zip(leaves(one.inputs), leaves(other.inputs), strict=True):
                np.testing.assert_array_equal(a, b)


def test_a_change_of_the_process_is_found_and_put_back():
    state = ProcessState()
    old = np.geterr()
    np.seterr(over="raise", divide="raise")
    with pytest.raises(AssertionError, match="error state"):
        state.check("the op add")
    assert np.geterr() == old
    state.check("the op add")


def test_the_ops_that_a_composite_uses():
    case = next(iter(cases(OPS["celu"], load()["celu"], as_device("cpu"))))
    assert {"exp", "where"} <= {op.name for op in used(case)}


def test_the_kernel_to_blame_is_named(capsys):
    right = KERNELS["exp"]
    report = conform(broken(exp=lambda x: right(x) * x.dtype.type(1.5)), ops=["celu"], quick=True)
    assert not report.passed
    assert {failure.cause for failure in report.failures} == {"exp"}
    command.show(report)
    out = capsys.readouterr().out
    assert "The kernel of exp fails its own samples, so that these fail as well: celu" in out
    assert "again: pullback conform broken --ops exp" in out


def test_a_kernel_of_its_own_is_to_blame_itself():
    report = conform(broken(tanh=lambda x: np.tanh(x) * x.dtype.type(2)), ops=["tanh"], quick=True)
    assert {failure.cause for failure in report.failures} == {""}


def test_ops_that_use_each_other_are_not_to_blame_for_each_other(capsys):
    # The gradient of each is the other's value.
    name = broken(cosh=lambda x: np.cosh(x) * 2, sinh=lambda x: np.sinh(x) * 3)
    alone = conform(name, ops=["cosh"], quick=True)
    assert "sinh" in {failure.cause for failure in alone.failures}
    both = conform(name, ops=["cosh", "sinh"], quick=True)
    assert {failure.cause for failure in both.failures} == {""}
    command.show(both)
    out = capsys.readouterr().out
    assert "fail as well" not in out
    assert "\ncosh: " in out
    assert "\nsinh: " in out


def test_only_failures_that_count_are_to_blame():
    def failed(op, cause=""):
        return Failure(op, "", "", "gradient", "", "", cause=cause)

    def causes(failures, measured):
        return [one.cause for one in settled(failures, measured)]

    # hypot fails as declared only, or was not run at all.
    assert causes([failed("atan", "hypot")], {"atan", "hypot"}) == [""]
    assert causes([failed("atan", "hypot")], {"atan"}) == ["hypot"]
    # sqrt is to blame for both; the gradient of hypot does not explain that of atan.
    chain = [failed("atan", "hypot"), failed("hypot", "sqrt"), failed("sqrt")]
    assert causes(chain, {"atan", "hypot", "sqrt"}) == ["", "sqrt", ""]
    # A circle of three, and an op that one of them is to blame for.
    circle = [
        failed("sin", "cos"),
        failed("cos", "tan"),
        failed("tan", "sin"),
        failed("sinc", "sin"),
    ]
    own = [failed("sin"), failed("cos"), failed("tan")]
    assert causes([*circle, *own], {"sin", "cos", "tan", "sinc"})[:4] == ["", "", "", "sin"]


def test_a_failure_is_said_once(capsys):
    report = conform(broken(negative=np.positive), ops=["negative"], quick=True)
    command.show(report)
    lines = capsys.readouterr().out.splitlines()
    at = lines.index(next(line for line in lines if line.startswith("negative: ")))
    assert "like it)" in lines[at + 1]
    assert sum("is 1." in line for line in lines[at:]) <= 1


def test_failures_that_differ_in_numbers_are_alike():
    made = [
        Failure("exp", "", "", check, f"{quantity} is {x} at (0,), the reference 1.0", "")
        for check, quantity, x in (
            ("value", "the result", 2.5),
            ("layouts", "the result for strided inputs", -3e-5),
            ("unchanged", "the result under a tape", float("nan")),
        )
    ]
    assert [count for _, count in distinct(made)] == [3]
