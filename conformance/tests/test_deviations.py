"""Declared deviations: counted apart, validated, and told when nothing fails by them any more."""

import json
import re
from types import SimpleNamespace

import numpy as np
import pytest

import pullback as pb
from pullback import cli, errors
from pullback.plugins import kernel_packs
from pullback_conformance.mode import Mode
from pullback_conformance.runner import conform
from pullback_numpy import NumPyBackend
from pullback_numpy.kernels import KERNELS

WHY = "the library flushes subnormal results to zero"


def flushed(x):
    """exp of bfloat16 without subnormal numbers."""
    result = KERNELS["exp"](x)
    tiny = np.finfo(np.float32).smallest_normal
    if result.dtype.name != "bfloat16":
        return result
    return np.where(np.abs(result.astype(np.float32)) < tiny, np.zeros_like(result), result)


def registered(deviations, **kernels):
    members = {
        "name": "mill", "kernels": {**KERNELS, **kernels}, "deviations": deviations,
    }  # fmt: skip
    pb.register_backend(type("MillBackend", (NumPyBackend,), members)(), replace=True)


FLUSHES = pb.Deviation(WHY, dtypes=("bfloat16",), checks=("value", "layouts", "laid_out_there"))


def test_what_is_declared_counts_apart():
    registered({}, exp=flushed)
    bare = conform("mill", ops=["exp"], quick=True)
    assert not bare.passed
    registered({"exp": FLUSHES}, exp=flushed)
    report = conform("mill", ops=["exp", "positive"], quick=True)
    assert report.passed, report.failures
    assert report.failures == []
    assert len(report.declared) == len(bare.failures) == report.count.declared
    assert {one.declared for one in report.declared} == {WHY}
    assert report.rows["exp"].count.total == bare.count.total - report.count.declared
    (one,) = report.deviations
    assert one.measured > one.failed == len(bare.failures)


@pytest.mark.parametrize(
    "declared",
    [
        pb.Deviation(WHY, dtypes=("float16",)),
        pb.Deviation(WHY, checks=("threads",)),
        pb.Deviation(WHY, samples=("0-d",)),
        [pb.Deviation(WHY, dtypes=("float16",)), pb.Deviation(WHY, samples=("no such *",))],
    ],
)
def test_other_failures_still_fail(declared):
    registered({"exp": declared}, exp=flushed)
    assert not conform("mill", ops=["exp"], quick=True).passed


def test_a_deviation_by_sample():
    registered({"exp": pb.Deviation(WHY, samples=("every *", "all sizes"))}, exp=flushed)
    assert conform("mill", ops=["exp"], quick=True).passed


def test_a_deviation_by_sample_is_for_random_calls_too():
    mode = Mode(random=150, seed=1)
    registered({}, exp=flushed)
    found = {one.sample for one in conform("mill", ops=["exp"], mode=mode).failures}
    assert found
    assert all(re.match(r"seed \d+: \[", one) for one in found)
    registered({"exp": pb.Deviation(WHY, samples=("[[]*",))}, exp=flushed)
    report = conform("mill", ops=["exp"], mode=mode)
    assert report.passed, report.failures
    assert {one.sample for one in report.declared} == found
    assert report.count.total > report.count.declared
    registered({"exp": pb.Deviation(WHY, samples=("axis=*", "seed *"))}, exp=flushed)
    assert not conform("mill", ops=["exp"], mode=mode).passed


def test_the_command_shows_them(capsys, tmp_path):
    registered({"exp": FLUSHES, "positive": FLUSHES}, exp=flushed)
    path = tmp_path / "report.json"
    arguments = ["conform", "mill", "--ops", "exp,positive", "--json", str(path)]
    assert cli.main(arguments) == 0
    out = capsys.readouterr().out
    assert "checks, 100 %, " in out
    assert " declared, " in next(line for line in out.splitlines() if "] exp: " in line)
    assert "Declared deviations, which do not count (" in out
    assert f"  mill: {WHY}: exp (" in out
    assert "Declared deviations by which nothing fails any more; remove them" in out
    assert f"  mill: {WHY}: positive (" in out
    assert "fail as declared" in out
    found = json.loads(path.read_text())
    assert found["passed"]
    assert found["total"]["declared"] == len(found["declared"]) > 0
    first, second = found["deviations"]
    assert (first["op"], first["reason"], first["dtypes"]) == ("exp", WHY, ["bfloat16"])
    assert first["failed"] == found["total"]["declared"]
    assert (second["op"], second["failed"]) == ("positive", 0)
    assert second["measured"] > 0
    assert cli.main([*arguments, "--resume"]) == 0
    again = json.loads(path.read_text())
    assert {**again, "seconds": 0} == {**found, "seconds": 0}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--quick"], "without --quick:"),
        (["--budget", "9s"], "without --budget:"),
        (["--quick", "--budget", "9s"], "without --quick and --budget:"),
        (["--random", "3"], "without --random:"),
    ],
)
def test_a_run_of_some_checks_advises_no_removal(options, words, capsys):
    registered({"positive": pb.Deviation(WHY, checks=("value",))})
    assert cli.main(["conform", "mill", "--ops", "positive", *options]) == 0
    out = capsys.readouterr().out
    assert f"Declared deviations by which nothing fails in this run; see one {words}" in out
    assert "remove them" not in out


def test_what_was_not_measured_is_said(capsys):
    registered({"exp": pb.Deviation(WHY, samples=("no such sample",))})
    assert cli.main(["conform", "mill", "--quick", "--ops", "exp"]) == 0
    out = capsys.readouterr().out
    assert "Declared deviations of checks that this run does not have:" in out
    assert "exp ('no such sample')" in out
    assert "Not measured:" in out
    assert "ops of the tiers that it claims" in out
    assert "leave out --quick" in out


def test_ops_with_the_same_deviation_are_listed_together(capsys):
    registered(dict.fromkeys(["exp", "negative"], pb.Deviation(WHY, samples=("no such sample",))))
    assert cli.main(["conform", "mill", "--quick", "--ops", "exp,negative"]) == 0
    (line,) = [one for one in capsys.readouterr().out.splitlines() if "no such sample" in one]
    assert line.count("no such sample") == 1
    assert "exp" in line
    assert "negative" in line


def test_a_declared_failure_is_not_the_cause_of_others():
    registered({"exp": FLUSHES}, exp=flushed, logsumexp=lambda x, **given: -x)
    report = conform("mill", ops=["logsumexp"], quick=True)
    assert not report.passed
    assert {one.cause for one in report.failures} == {""}


@pytest.mark.parametrize(
    ("deviations", "words"),
    [
        ({"expp": FLUSHES}, r"unknown op 'expp'; did you mean 'exp'"),
        ({"exp": pb.Deviation(WHY, checks=("values",))}, "unknown check 'values'; did you mean"),
        ({"exp": pb.Deviation(WHY, dtypes=("bfloat",))}, "unknown dtype 'bfloat'; did you mean"),
        ({"exp": pb.Deviation(WHY, checks="value")}, r"write checks=\('value',\)"),
        ({"exp": pb.Deviation(" ")}, "the reason must be a text"),
        ({"exp": WHY}, r"must be a pb\.Deviation or a list of them"),
        ([FLUSHES], "must be a dict from op names"),
    ],
)
def test_wrong_declarations(deviations, words):
    registered(deviations)
    with pytest.raises(errors.InputValueError, match=words):
        conform("mill", ops=["exp"], quick=True)


def test_a_pack_declares_its_own(monkeypatch):
    registered({})
    backend = pb.asarray(0.0, device="mill").device.backend
    module = SimpleNamespace(
        deviations={"exp": FLUSHES},
        pullback_register_kernels=pb.hookimpl(
            lambda register: register("exp", flushed, dtypes=["bfloat16"])
        ),
    )
    module.pullback_register_kernels.__name__ = "pullback_register_kernels"
    monkeypatch.setattr(kernel_packs.entry_points, "load", lambda entries, plugin: module)
    monkeypatch.setattr(
        kernel_packs.entry_points,
        "call",
        lambda loaded, hook, register, plugin, entries: getattr(loaded, hook)(register),
    )
    kernel_packs.load(backend, "lean", [], ("", ""), used=True)
    report = conform("mill", ops=["exp"], quick=True)
    assert report.passed, report.failures
    assert {one.source for one in report.deviations} == {"lean"}
    assert report.declared
    backend.unregister_kernels("lean")
    assert conform("mill", ops=["exp"], quick=True).deviations == []
