"""The command that runs tests as other processors would."""

import argparse
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

PATH = Path(__file__).parents[1] / "processors.py"
spec = importlib.util.spec_from_file_location("pullback_processors", PATH)
processors = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(processors)
Run = processors.Run

OLD = ("SSSE3", "SSE42", "AVX", "F16C", "FMA3", "AVX2", "AVX512F", "AVX512CD", "AVX512_SKX")
HERE = processors.Machine(
    {"Prescott": "Katmai", "Haswell": "Haswell", "Zen": "Haswell"},
    {"X86_V2": ("X86_V3", "X86_V4"), "X86_V3": ("X86_V4",), "X86_V4": ()},
    ("none", "base", "avx2", "avx512"),
    {},
)


@pytest.mark.parametrize(
    ("baseline", "found", "levels"),
    [
        (["X86_V2"], ["X86_V3"], {"X86_V2": ("X86_V3",), "X86_V3": ()}),
        (
            ["SSE", "SSE2", "SSE3"],
            OLD,
            {"SSE3": OLD, "F16C": OLD[4:], "FMA3": OLD[5:], "AVX2": OLD[6:], "AVX512CD": OLD[8:],
             "AVX512_SKX": ()},
        ),
        (["NEON"], ["ASIMDHP"], {"NEON": ("ASIMDHP",), "ASIMDHP": ()}),
        (["NEON"], [], {"NEON": ()}),
        ([], [], {"baseline": ()}),
    ],
)  # fmt: skip
def test_levels_of_numpy(baseline, found, levels):
    assert processors.levels_of(baseline, found) == levels
    # From the least to all that there is.
    assert list(levels)[-1] == [*baseline, *found, "baseline"][len(baseline) + len(found) - 1]


def test_every_value_is_in_a_run():
    runs = HERE.runs()
    for place, values in enumerate(HERE[:3]):
        assert {run[place] for run in runs} == set(values)
    assert len(runs) == 4
    assert runs[0] == Run("Prescott", "X86_V2", "none")


def test_runs_are_chosen_by_name_and_by_value():
    assert HERE.chosen(["Zen+X86_V2+avx2"]) == [Run("Zen", "X86_V2", "avx2")]
    assert HERE.chosen(["avx2"]) == [run for run in HERE.runs() if run.instructions == "avx2"]
    both = HERE.chosen(["Prescott", "Prescott+X86_V2+none"])
    assert both == [run for run in HERE.runs() if run.core == "Prescott"]
    for name in ("SkylakeX", "SkylakeX+X86_V2+none", "Zen+X86_V5+none", "Zen+X86_V2+sse"):
        with pytest.raises(SystemExit, match="it has Prescott, Haswell, Zen and X86_V2"):
            HERE.chosen([name])


def test_runs_of_torch_are_named_by_its_loops():
    both = HERE._replace(torch={"default": "DEFAULT", "avx2": "AVX2"})
    assert both.runs()[4:] == [Run("torch", "default"), Run("torch", "avx2")]
    assert both.chosen(["torch+avx2"]) == [Run("torch", "avx2")]
    assert both.chosen(["torch"]) == both.runs()[4:]
    assert (both.runs()[5].name, both.takes(both.runs()[5])) == ("torch+avx2", "AVX2")
    assert both.environment(Run("torch", "default")) == {
        "ATEN_CPU_CAPABILITY": "default",
        "ONEDNN_MAX_CPU_ISA": "SSE41",
        "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
    }
    with pytest.raises(SystemExit, match=r"; and torch\+default, torch\+avx2"):
        both.chosen(["torch+avx512"])


def test_what_a_process_is_given():
    assert HERE.environment(Run("Prescott", "X86_V2", "avx2")) == {
        "OPENBLAS_CORETYPE": "Prescott",
        "NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4",
        "PULLBACK_NATIVE_ISA": "avx2",
    }
    assert HERE.environment(Run("Zen", "X86_V4", "none")) == {
        "OPENBLAS_CORETYPE": "Zen",
        "PULLBACK_KERNEL_PACKS": "",
    }


def test_a_sample_is_the_same_for_the_same_commit():
    runs = HERE.runs()
    assert processors.sampled(runs, "05189e9") == processors.sampled(runs, "05189e9")
    assert {processors.sampled(runs, str(key)) for key in range(40)} == set(runs)


def test_every_file_of_the_pack_is_drawn_for_some_commit():
    files = sorted(str(path) for path in (processors.ROOT / processors.PACK).glob("test_*.py"))
    some = processors.drawn(files, "05189e9")
    assert some == processors.drawn(files, "05189e9")
    assert len(files) / 4 <= len(some) < len(files) / 3
    assert {file for key in range(60) for file in processors.drawn(files, str(key))} == set(files)
    assert processors.drawn(files, None) == files


def test_a_sample_of_the_checks_has_an_end(monkeypatch):
    run = Run("Prescott", "X86_V2", "avx2")
    started = []
    monkeypatch.setattr(
        processors, "start", lambda command, environment: (started.append(command), (1, ""))[1]
    )
    args = {"quick": True, "all": False, "workers": 2}
    for key, ends in (("05189e9", True), (None, False)):
        list(processors.results(run, HERE, argparse.Namespace(sample=key, **args)))
        numeric, pack, conform = started
        assert processors.QUICK[0] in numeric
        assert sum(processors.PACK in word for word in pack) > 4
        assert ("--budget" in conform, "--seed" in conform) == (ends, ends)
        started.clear()


def test_a_failure_says_how_to_repeat_it():
    text = processors.again(Run("Prescott", "X86_V2", "none"), HERE, quick=True)
    assert "uv run tests/processors.py --quick --only Prescott+X86_V2+none\n" in text
    assert "OPENBLAS_CORETYPE=Prescott NPY_DISABLE_CPU_FEATURES='X86_V3 X86_V4'" in text


def test_a_core_type_that_dies_is_none():
    assert processors.child("print(1)") == "1"
    assert processors.child("import os, signal; os.kill(os.getpid(), signal.SIGILL)") is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "passed", "failed"),
    [
        ("def test_a():\n    pass\ndef test_b():\n    assert 0", 1, 1),
        ("import os\nos._exit(3)", 0, 1),
    ],
    ids=["failing", "dying"],
)
def test_tests_are_counted(text, passed, failed, tmp_path):
    path = tmp_path / "test_two.py"
    path.write_text(text)
    found = processors.by_pytest("tests", [str(path)], processors.clean())
    assert (found.passed, found.failed) == (passed, failed)
    assert found.lines


@pytest.mark.slow
def test_the_list_is_of_this_processor():
    found = subprocess.run(
        [sys.executable, str(PATH), "--list"], capture_output=True, text=True, check=True
    )
    lines = found.stdout.splitlines()
    assert lines
    assert all(len(line.split()[0].split("+")) in (2, 3) for line in lines)
