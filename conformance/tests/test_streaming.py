"""`pullback conform` op by op: lines, the file, Ctrl-C, and going on from there."""

import json
import re

import numpy as np
import pytest

import pullback as pb
from pullback import cli
from pullback.cli.kernels import location
from pullback_conformance.cli import conform as command
from pullback_conformance.runner import conform
from pullback_numpy import NumPyBackend
from pullback_numpy.kernels import KERNELS

#: The command on NumPy in this process.
HERE = ("conform", "numpy", "--timeout", "0")


def registered(kernels=None, **members):
    members = {"name": "mill", "kernels": {**KERNELS, **(kernels or {})}, **members}
    pb.register_backend(type("MillBackend", (NumPyBackend,), members)(), replace=True)


def interrupt(x):
    raise KeyboardInterrupt


def test_a_line_for_each_op_with_its_time(capsys):
    assert cli.main([*HERE, "--quick", "--ops", "positive,logical_not"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "numpy on cpu:0: quick conformance"
    assert [line.partition(":")[0] for line in lines[1:3]] == [
        "[1/2] positive",
        "[2/2] logical_not",
    ]
    assert "checks, 100 %" in lines[1]
    assert any(line.startswith("slowest: ") for line in lines)


def test_the_file_is_written_after_each_op(tmp_path, monkeypatch):
    path, seen = tmp_path / "report.json", []

    def clear(self):
        seen.append(sorted(json.loads(path.read_text())["ops"]) if path.exists() else [])

    registered(clear_caches=clear)
    arguments = ["--quick", "--ops", "positive,negative,logical_not", "--json", str(path)]
    assert cli.main(["conform", "mill", *arguments]) == 0
    assert seen == [[], ["negative"], ["negative", "positive"]]
    report = json.loads(path.read_text())
    assert report["complete"]
    assert report["ops"]["positive"]["seconds"] >= 0


def test_ctrl_c_keeps_what_there_is_and_resume_goes_on(tmp_path, capsys):
    path = tmp_path / "report.json"
    arguments = ["--quick", "--ops", "negative,relu,sign", "--json", str(path)]
    registered({"sign": interrupt})
    assert cli.main(["conform", "mill", *arguments]) == 1
    assert "Stopped before the last op" in capsys.readouterr().out
    first = json.loads(path.read_text())
    assert not first["complete"]
    assert "negative" in first["ops"]
    assert "sign" not in first["ops"]
    registered()
    assert cli.main(["conform", "mill", *arguments, "--resume"]) == 0
    out = capsys.readouterr().out
    assert f"ops from {path}" in out
    assert "] negative: " not in out
    assert re.findall(r"^(\[./.\]) \w+: ", out, re.MULTILINE) == ["[2/3]", "[3/3]"]
    second = json.loads(path.read_text())
    assert second["complete"]
    assert second["ops"]["negative"] == first["ops"]["negative"]
    whole = conform("mill", ops=["negative", "relu", "sign"], quick=True)
    assert second["total"]["checks"] == whole.count.total


def test_failed_runs_what_failed(tmp_path, capsys):
    path = tmp_path / "report.json"
    registered({"negative": np.positive})
    arguments = ["conform", "mill", "--quick", "--ops", "negative,positive", "--json", str(path)]
    assert cli.main(arguments) == 1
    registered()
    capsys.readouterr()
    assert cli.main([*arguments, "--failed"]) == 0
    out = capsys.readouterr().out
    assert "\n[2/2] negative: " in out
    assert "] positive: " not in out
    assert set(json.loads(path.read_text())["ops"]) == {"negative", "positive"}
    assert cli.main([*arguments, "--failed"]) == 1
    assert "no op has failed" in capsys.readouterr().err


def stop(x):
    raise SystemExit  # as a signal would end the process: nothing is written after it


def test_failed_keeps_what_it_did_not_get_to(tmp_path, capsys):
    path = tmp_path / "report.json"
    arguments = ["conform", "mill", "--quick", "--ops", "negative,relu,sign", "--json", str(path)]
    wrong = {"negative": np.positive, "sign": np.positive}
    registered(wrong)
    assert cli.main(arguments) == 1
    first = json.loads(path.read_text())
    registered({"sign": stop})
    with pytest.raises(SystemExit):
        cli.main([*arguments, "--failed"])
    second = json.loads(path.read_text())
    assert (second["complete"], second["passed"], second["left"]) == (False, False, ["sign"])
    assert [one for one in first["failures"] if one["op"] == "sign"] == second["failures"]
    registered({"sign": interrupt})
    assert cli.main([*arguments, "--failed"]) == 1
    third = json.loads(path.read_text())
    assert {**third, "seconds": 0} == {**second, "seconds": 0}
    registered()
    capsys.readouterr()
    assert cli.main([*arguments, "--failed"]) == 0
    out = capsys.readouterr().out
    assert f"2 ops from {path}" in out
    fourth = json.loads(path.read_text())
    assert fourth["complete"]
    assert fourth["total"]["checks"] == first["total"]["checks"]


def test_failed_names_resume_where_ops_are_left(tmp_path, capsys):
    path = tmp_path / "report.json"
    arguments = ["conform", "mill", "--quick", "--ops", "negative,sign", "--json", str(path)]
    registered({"negative": np.positive, "sign": interrupt})
    assert cli.main(arguments) == 1
    registered()
    assert cli.main([*arguments, "--failed"]) == 1
    out = capsys.readouterr().out
    assert "Stopped before the last op; --resume" in out
    assert json.loads(path.read_text())["left"] == ["sign"]
    assert cli.main([*arguments, "--failed"]) == 1
    assert "no op has failed in" in (said := capsys.readouterr().err)
    assert "1 were not run: --resume goes on" in said
    assert cli.main([*arguments, "--resume"]) == 0


def test_a_report_is_kept_where_the_basics_do_not_work_any_more(tmp_path):
    path = tmp_path / "report.json"
    arguments = ["conform", "mill", "--quick", "--ops", "negative", "--json", str(path)]
    registered({"negative": np.positive})
    assert cli.main(arguments) == 1
    before = path.read_text()
    registered({"add": np.subtract})
    assert cli.main([*arguments, "--failed"]) == 1
    assert path.read_text() == before


@pytest.mark.parametrize(
    ("text", "arguments", "words"),
    [
        (None, ["--resume"], "add --json FILE"),
        ("{", ["--resume", "--json"], "not a report"),
        ('{"spec_version": 0}', ["--resume", "--json"], "remove it"),
    ],
)
def test_wrong_files(text, arguments, words, tmp_path, capsys):
    path = tmp_path / "report.json"
    if text is not None:
        path.write_text(text)
        arguments = [*arguments, str(path)]
    assert cli.main([*HERE, "--quick", "--ops", "positive", *arguments]) == 1
    assert words in capsys.readouterr().err


def test_a_report_of_another_pace_is_not_mixed_in(tmp_path, capsys):
    path = tmp_path / "report.json"
    arguments = [*HERE, "--ops", "positive", "--json", str(path)]
    assert cli.main([*arguments, "--quick"]) == 0
    assert cli.main([*arguments, "--resume"]) == 1
    assert "quick=True" in capsys.readouterr().err


def test_the_command_to_run_again_has_the_options_of_the_run(capsys, monkeypatch):
    monkeypatch.setattr(command, "choose_packs", lambda names: None)
    registered({"negative": np.positive})
    call = ["conform", "mill", "--packs", "", "--quick", "--ops", "negative"]
    assert cli.main(call) == 1
    again = "pullback conform mill --ops negative --packs '' --quick"
    assert "negative: " in (out := capsys.readouterr().out)
    assert f" failed; again: {again}\n" in out
    assert cli.main([*call, "--budget", "9s", "--json", "-"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert {one["rerun"] for one in found["failures"]} == {again}


def test_a_report_with_other_packs_is_not_gone_on_with(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(command, "choose_packs", lambda names: None)
    call = [
        "conform",
        "numpy",
        "--timeout",
        "0",
        "--quick",
        "--ops",
        "positive",
        f"--json={tmp_path / 'x.json'}",
    ]
    assert cli.main(call) == 0
    assert cli.main([*call, "--resume", "--packs", ""]) == 1
    assert "the report to go on with has packs=None, this run ''" in capsys.readouterr().err


def test_the_file_and_line_of_a_kernel(capsys):
    assert location(registered).endswith(f"test_streaming.py:{registered.__code__.co_firstlineno}")
    assert cli.main(["backends", "--kernels", "softmax", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    own = next(row for row in rows if row["source"] == "numpy")
    assert "softmax.py:" in own["where"]
