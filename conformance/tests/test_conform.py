"""`pullback conform`: right backends pass, and a fault seeded into a kernel is found and named."""

import functools
import itertools
import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest

import pullback as pb
from pullback import cli, dtypes
from pullback.devices import as_device
from pullback.plugins.public import registry
from pullback.spec import OPS, Tier
from pullback_conformance import plan
from pullback_conformance.cli import conform as command
from pullback_conformance.cli import failures
from pullback_conformance.plan import items
from pullback_conformance.registry import Area
from pullback_conformance.report import Count, Failure, percent
from pullback_conformance.runner import conform, select
from pullback_conformance.samples import load
from pullback_numpy import NumPyBackend
from pullback_numpy.kernels import KERNELS

CPU = as_device("cpu")
CORE = [op.name for op in OPS.values() if op.primitive and op.tier == Tier.CORE]


#: The command on NumPy in this process.
HERE = ("conform", "numpy", "--timeout", "0")


def registered(**members):
    """NumPy's backend with other members, registered as "broken"."""
    made = type("BrokenBackend", (NumPyBackend,), {"name": "broken", **members})
    pb.register_backend(made(), replace=True)
    return "broken"


def kernels(**changed):
    """NumPy's kernels with others in the place of some; None takes one away."""
    return {name: kernel for name, kernel in {**KERNELS, **changed}.items() if kernel is not None}


# Right backends ----------------------------------------------------------------------------------


def test_what_the_host_computes_is_said(capsys, tmp_path):
    seen = set()

    def negative(x):
        seen.add("negative")
        return np.negative(x)

    name = registered(kernels={**KERNELS, "negative": negative}, on_host=seen)
    path = tmp_path / "report.json"
    call = ["conform", name, "--timeout", "0", "--quick", "--ops", "negative,positive"]
    assert cli.main([*call, "--json", str(path)]) == 0
    out = capsys.readouterr().out
    assert re.search(r"negative: \d+ checks, 100 %, .* s, on the host\n", out)
    assert re.search(r"positive: \d+ checks, 100 %, [^,]* s\n", out)
    assert "\nComputed on the host, some calls at least: negative\n" in out
    assert json.loads(path.read_text())["on_host"] == ["negative"]
    assert cli.main([*call, "--json", str(path), "--resume"]) == 0
    assert "some calls at least: negative\n" in capsys.readouterr().out


def test_a_right_backend_is_at_100_percent():
    chosen = ["backend", "negative", "softmax", "take", "fft", "det"]
    report = conform("numpy", ops=chosen, quick=True)
    assert report.failures == []
    assert report.passed
    assert set(report.rows) == set(chosen)
    assert percent(report.count) == "100 %"
    assert all(any(row.counts[area].total for row in report.rows.values()) for area in Area)


def test_quick_is_a_part_of_full():
    for name in ("softmax", "bitwise_and", "conv"):
        ids = [
            {(str(item.case), item.check) for item in items(OPS[name], load()[name], CPU, quick=q)}
            for q in (True, False)
        ]
        assert ids[0] < ids[1]


def test_quick_sees_an_op_in_every_dtype():
    found = items(OPS["add"], load()["add"], CPU, quick=True)
    seen = {item.dtype for item in found if item.check == "value"}
    assert {"float32", "float64", "float16", "bfloat16"} <= seen


def test_whole_numbers_are_tried_in_every_integer_dtype():
    found = list(items(OPS["bitwise_and"], load()["bitwise_and"], CPU, quick=False))
    seen = {leaf.dtype for item in found if item.case for leaf in item.case.inputs}
    assert set(dtypes.INTEGER) <= seen


# What is not claimed -----------------------------------------------------------------------------


def test_tiers_that_are_not_claimed_do_not_count():
    name = registered(tiers=frozenset({Tier.CORE}), kernels={n: KERNELS[n] for n in CORE})
    report = conform(name, ops=["add", "gelu", "inv", "fft", "relu"], quick=True)
    assert report.failures == []
    assert report.passed
    assert set(report.rows) == {"add", "gelu", "relu"}
    assert report.rows["gelu"].beyond == set()


def test_dtypes_that_are_not_declared_do_not_count():
    held = (dtypes.bool_, dtypes.int32, dtypes.float32)
    name = registered(dtypes={one: one for one in held})
    report = conform(name, ops=["add", "softmax", "matmul", "lstm", "sum"], quick=True)
    assert report.failures == []
    assert report.passed
    for area in (Area.GRADIENTS, Area.SECOND):
        assert report.rows["softmax"].counts[area].total


def test_gradients_without_float64_are_measured_too():
    right = KERNELS["conv_input_gradient"]
    held = (dtypes.bool_, dtypes.int32, dtypes.float32)
    name = registered(
        dtypes={one: one for one in held},
        kernels=kernels(conv_input_gradient=lambda *x, **given: right(*x, **given) * 1.01),
    )
    report = conform(name, ops=["conv"], quick=True)
    assert {"reference_gradient", "reference_second_gradient"} <= checks_of(report)


def test_a_missing_primitive_of_a_claimed_tier_fails():
    name = registered(kernels=kernels(exp=None, softmax=None))
    report = conform(name, ops=["exp", "softmax", "add"], quick=True)
    assert not report.passed
    assert [op.name for op in report.missing()] == ["exp"]
    assert report.as_dict()["families"]["exponential"]["missing"] == 1
    assert report.rows["exp"].count.passed == 0
    assert report.rows["exp"].count.total > 20
    assert report.rows["add"].count.whole
    lost = {one.op: one for one in report.failures}
    assert lost["exp"].check == "kernel"
    assert lost["softmax"].needs == "exp"


def test_a_kernel_that_is_left_out_counts_as_a_failure(monkeypatch, capsys):
    about = registry.about("numpy")
    told = about._replace(left_out=("there is no op 'softmx'; did you mean 'softmax'?",))
    monkeypatch.setattr(registry, "about", lambda name: told)
    report = conform("numpy", ops=["relu"], quick=True)
    assert not report.passed
    assert report.failures == []
    assert report.count.total == report.count.passed + 1
    assert report.as_dict()["left_out"] == list(told.left_out)
    command.show(report)
    out = capsys.readouterr().out
    assert "A kernel is left out: there is no op 'softmx'" in out
    assert "score: 100 %" not in out


# Seeded faults -----------------------------------------------------------------------------------


def out_of_place(function):
    """A kernel that gives every caller the same buffer."""
    kept = {}

    def kernel(x):
        buffer = kept.setdefault((x.shape, x.dtype), np.empty_like(x))
        return function(x, out=buffer)

    return kernel


def unsteady(function):
    """A kernel whose every second result is a little larger."""
    turns = itertools.cycle([0, 1])

    def kernel(x):
        right = function(x)
        return np.nextafter(right, np.inf, dtype=x.dtype) if next(turns) else right

    return kernel


def inverse_residual(*inputs, **attributes):
    *results, last = KERNELS["rms_norm"](*inputs, **attributes)
    return (*results, 1 / last)


def in_bfloat16(wrong, right):
    return lambda *x: wrong(*x) if x[0].dtype == dtypes.bfloat16 else right(*x)


def shape_of_first(x1, x2):
    return np.maximum(x1, x2) if x1.shape == x2.shape else np.maximum(x1, np.ravel(x2)[0])


def same_shapes_only(x1, x2):
    if x1.shape != x2.shape:
        raise ValueError("shapes differ")
    return np.minimum(x1, x2)


def lenient(x1, x2):
    try:
        return np.add(x1, x2)
    except ValueError:
        return x1


FAULTS = {
    "wrong sign": ("subtract", lambda x1, x2: np.subtract(x2, x1), "value", "the reference"),
    "wrong dtype": (
        "multiply", lambda x1, x2: np.multiply(x1, x2, dtype=np.float64)
        if x1.dtype == np.float32 else np.multiply(x1, x2), "rules", "is float64, the rule says",
    ),
    "wrong dtype, of one dtype": (
        "sqrt", in_bfloat16(lambda x: np.sqrt(x).astype(np.float32), np.sqrt), "rules", "float32",
    ),
    "another axis": (
        "softmax", lambda x, *, axis: KERNELS["softmax"](x, axis=(axis + 1) % x.ndim), "value",
        "the reference",
    ),
    "first item for all": ("maximum", shape_of_first, "value", "the reference"),
    "no broadcasting": ("minimum", same_shapes_only, "value", "minimum"),
    "write into an input": (
        "sin", lambda x: np.sin(x, out=x) if x.flags.writeable else np.sin(x), "unchanged",
        "input 0 after the call",
    ),
    "write into an input, and back at the next call": (
        "negative", lambda x: np.negative(x, out=x) if x.flags.writeable else np.negative(x),
        "unchanged", "written into by the call: input 0",
    ),
    "one buffer for all results": ("cos", out_of_place(np.cos), "lasting", "an earlier result"),
    "strides ignored": (
        "square", lambda x: np.square(x.ravel("K")).reshape(x.shape), "layouts", "column-major",
    ),
    "another result at every call": ("exp", unsteady(np.exp), "deterministic", "the second call"),
    "wrong residual": ("rms_norm", inverse_residual, "body", "of the kernel"),
    "a Python number": (
        "mean", lambda x, **given: float(KERNELS["mean"](x, **given))
        if KERNELS["mean"](x, **given).ndim == 0 else KERNELS["mean"](x, **given),
        "rules", "float64",
    ),
    "NaN lost": ("logaddexp", lambda x1, x2: np.nan_to_num(np.logaddexp(x1, x2)), "value", "NaN"),
    "no result for an empty array": (
        "tanh", lambda x: np.tanh(x) if x.size else np.zeros(1, x.dtype), "value", "shape",
    ),
    "one integer dtype": (
        "bitwise_or", lambda x1, x2: np.bitwise_and(x1, x2) if x1.dtype == np.uint16
        else np.bitwise_or(x1, x2), "value", "uint16",
    ),
    "wrong shapes taken": ("add", lenient, "wrong_calls", "ShapeError was to be raised"),
    "wrong gradient kernel": (
        "max_pool_gradient", lambda *x, **given: -KERNELS["max_pool_gradient"](*x, **given),
        "gradient", "by central differences",
    ),
}  # fmt: skip


def checks_of(report):
    return {one.check for one in report.failures}


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_a_seeded_fault_is_found_and_named(fault, capsys, monkeypatch):
    op, kernel, check, words = FAULTS[fault]
    # The written samples find them; `conformance_faults` has those for the others.
    monkeypatch.setattr(plan, "derived", lambda *call, **options: ())
    name = registered(kernels=kernels(**{op: kernel}))
    chosen = op.removesuffix("_gradient")
    report = conform(name, ops=[chosen])
    assert not report.passed
    assert not report.count.whole
    found = [one for one in report.failures if one.check == check]
    assert any(words in f"{one.sample} {one.dtype} {one.message}" for one in found), (
        report.failures[:3]
    )
    assert {one.op for one in report.failures} == {chosen}
    command.show(report)
    out = capsys.readouterr().out
    assert f"again: pullback conform broken --ops {chosen}" in out
    assert "score: 100 %" not in out


def test_a_kernel_that_raises_is_named():
    def kernel(x):
        raise RuntimeError("no such instruction")

    report = conform(registered(kernels=kernels(cosh=kernel)), ops=["cosh"], quick=True)
    message = report.failures[0].message
    assert re.search(r"no such instruction \(test_conform\.py, line \d+\)$", message), message
    assert report.rows["cosh"].count.passed < report.rows["cosh"].count.total


# The basics --------------------------------------------------------------------------------------


def turned(self, array):
    return np.array(array.T)


def narrowed(self, array, device, *, copy):
    narrow = np.float32 if array.dtype == np.float64 else array.dtype
    return np.array(array, narrow)


def shared(self, array, device, *, copy):
    return array


def without_order(self, array, device, *, copy):
    raise TypeError("only contiguous arrays")


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"to_host": turned}, r"BrokenBackend.to_host: the array back from bool\[0, 3\]"),
        (
            {"to_host": lambda self, array: array.tolist()},
            "returned int, not a NumPy array|returned bool",
        ),
        ({"from_host": narrowed}, r"from_host: returned an array of float32 for float64\[\]"),
        ({"from_host": shared}, "from_host: with copy=True the array shares memory"),
        ({"from_host": without_order}, "from_host: raised TypeError"),
        ({"kernels": kernels(add=None)}, r"kernels\['add'\] is missing"),
        ({"kernels": kernels(add=np.subtract)}, r"1 2 3 \+ 10 20 30: -9.0 instead of 11.0"),
        ({"dtypes": {}}, "dtypes is empty"),
    ],
)  # fmt: skip
def test_it_stops_early_where_the_basics_fail(members, message, capsys):
    report = conform(registered(**members))
    assert not report.passed
    assert not report.rows
    assert re.search(message, report.stopped)
    command.show(report)
    assert "Fix this first" in capsys.readouterr().out
    assert report.as_dict()["stopped"] == report.stopped


# The command line --------------------------------------------------------------------------------


def test_exit_status_and_table(capsys):
    assert cli.main([*HERE, "--quick", "--ops", "relu, log_*max"]) == 0
    out = capsys.readouterr().out
    assert "quick conformance to version" in out
    for words in ("family", "activations", "softmax", "core", "not claimed", "score: 100 % of"):
        assert (words in out) is (words != "not claimed")
    registered(kernels=kernels(negative=np.positive))
    assert cli.main(["conform", "broken", "--quick", "--ops", "negative"]) == 1
    assert "negative: " in capsys.readouterr().out


def test_json(tmp_path, capsys):
    registered(kernels=kernels(negative=np.positive), tiers=frozenset({Tier.CORE}))
    assert cli.main(["conform", "broken", "--ops", "negative", "--json", "-"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["backend"] == "broken"
    assert found["tiers"]["fft"]["claimed"] is False
    assert 0 < found["total"]["score"] < 1
    first = found["failures"][0]
    assert first["op"] == "negative"
    assert first["rerun"] == "pullback conform broken --ops negative"
    path = tmp_path / "found.json"
    assert cli.main([*HERE, "--ops", "relu", "--quick", f"--json={path}"]) == 0
    assert json.loads(path.read_text())["passed"] is True
    assert "score: 100 %" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nothere"], "'nothere' names no backend that is installed"),
        (["numpy", "--ops", "softmx"], "unknown op 'softmx'; did you mean 'softmax'"),
        (
            [*HERE[1:], "--ops", "positive", "--quick", "--json", "no/such/folder/x"],
            "--json no/such/folder/x: No such file",
        ),
    ],
)
def test_wrong_arguments(arguments, words, capsys):
    assert cli.main(["conform", *arguments]) == 1
    assert words in capsys.readouterr().err


def test_some_of_many_failures_are_shown(capsys):
    report = conform(registered(kernels=kernels(negative=np.positive)), ops=["negative"])
    words = ("one", "two", "three", "four", "five")
    report.failures = [
        Failure("negative", "", "", "value", f"{word} is wrong", "pullback conform")
        for word in words
    ]
    command.show(report)
    lines = capsys.readouterr().out.splitlines()
    at = lines.index(next(line for line in lines if line.startswith("negative: ")))
    assert lines[at + failures.SHOWN + 1] == "  and 2 more (--json FILE has all)"


@functools.cache
def of_several_families():
    return conform("numpy", ops=["backend", "positive", "relu", "all", "fft"], quick=True)


@pytest.mark.parametrize("columns", ["40", "80", "200"])
def test_no_column_is_lost_on_a_narrow_terminal(columns, capsys, monkeypatch):
    report = of_several_families()
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", columns)
    command.show(report)
    out = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    header = next(line for line in out.splitlines() if "family" in line)
    assert header.split() == [
        "family", "kernels", "lack", "values", "dtypes", "grads", "2nd", "edges", "score",
    ]  # fmt: skip
    assert out.count("100 %") > 4


def test_patterns():
    assert select(["conv*"]) == [n for n in OPS if n.startswith("conv")]
    assert select([]) == ["backend", *OPS]


def test_percent_is_rounded_down():
    assert percent(Count(99999, 100000)) == "99.9 %"
    assert percent(Count(0, 3)) == "0.0 %"
    assert percent(Count()) == "-"


# Through pytest ----------------------------------------------------------------------------------


KIT = ("--pyargs", "pullback_conformance")


def through_pytest(*arguments, cwd):
    clean = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST")}
    call = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(call, cwd=cwd, env=clean, capture_output=True, text=True)


def test_pytest_runs_the_same_checks(tmp_path):
    done = through_pytest(
        *KIT, "--backend", "numpy", "--ops", "positive,backend", "--quick", cwd=tmp_path
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout


def test_pytest_says_what_is_missing(tmp_path):
    done = through_pytest(*KIT, cwd=tmp_path)
    assert done.returncode != 0
    assert "--backend NAME" in done.stdout + done.stderr


def test_other_runs_of_pytest_are_left_alone(tmp_path):
    (tmp_path / "conftest.py").write_text(
        "def pytest_addoption(parser):\n    parser.addoption('--backend')\n"
    )
    (tmp_path / "test_it.py").write_text(
        "import sys\n"
        "def test_it(pytestconfig):\n"
        "    assert pytestconfig.getoption('backend') == 'own'\n"
        "    assert '_pullback_pytest' in sys.modules\n"
        "    assert 'pullback' not in sys.modules\n"
        "    assert 'numpy' not in sys.modules\n"
    )
    done = through_pytest("test_it.py", "--backend", "own", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
