"""The command line: what it prints and how it exits."""

from __future__ import annotations

import functools
import json
import operator
import os
import subprocess
import sys

import pytest

import pullback
from pullback import cli, spec
from pullback._version import __version__
from pullback.cli import backends, kernels, table
from pullback.plugins.backend import Backend
from pullback.plugins.kernel_packs import OpsInfo, PackInfo
from pullback.plugins.records import RegisteredKernel
from pullback.plugins.registry import BackendInfo

READY = BackendInfo(
    "mill", "pullback-mill", "2.0", ("cpu",), ("cpu:0",), "ready",
    (PackInfo("fast", "mill-fast", "0.3", 10, "switched off"),),
)  # fmt: skip
GONE = BackendInfo(
    "loom", "pullback-loom", "1.0", ("gpu",), (), "no driver; [install] one there", ()
)


@pytest.fixture
def there(monkeypatch: pytest.MonkeyPatch):
    """Puts other backends in the place of the installed ones."""

    def there(*found: BackendInfo) -> None:
        monkeypatch.setattr(backends, "backends", lambda: list(found))

    return there


class TestBackends:
    def test_prints_a_table(self, there, capsys):
        there(READY, GONE)
        assert cli.main(["backends"]) == 0
        assert capsys.readouterr().out.splitlines() == [
            "backend   version  devices  state",
            "mill      2.0      cpu:0    ready",
            "  + fast  0.3               switched off",
            "loom      1.0      -        no driver; [install] one there",
        ]

    def test_exits_with_1_where_none_is_ready(self, there, capsys):
        there(GONE)
        assert cli.main(["backends"]) == 1
        there()
        assert cli.main(["backends"]) == 1
        assert "pip install" in capsys.readouterr().out

    def test_prints_json(self, there, capsys):
        there(READY, GONE)
        assert cli.main(["backends", "--json"]) == 0
        first, second = json.loads(capsys.readouterr().out)["backends"]
        assert first["devices"] == ["cpu:0"]
        assert first["packs"][0]["state"] == "switched off"
        assert second["state"] == "no driver; [install] one there"

    def test_prints_json_of_nothing(self, there, capsys):
        there()
        assert cli.main(["backends", "--json"]) == 1
        assert json.loads(capsys.readouterr().out) == {"backends": [], "ops": []}

    def test_lists_kernels_that_are_left_out_and_ops(self, there, capsys, monkeypatch):
        there(READY._replace(packs=(), left_out=("one is wrong", *["so is this"] * 6)))
        plugins = [
            OpsInfo("more", "more-ops", "1.0", ("sinc", "versine"), "ready"),
            OpsInfo("bad", "bad-ops", "2.0", (), "the ops plugin 'bad' failed"),
        ]
        monkeypatch.setattr(backends, "ops_plugins", lambda: plugins)
        assert cli.main(["backends"]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[2].split() == ["-", "kernel", "left", "out:", "one", "is", "wrong"]
        assert lines[-3].endswith("left out: 2 more (--json)")
        assert lines[-2].split() == ["ops:", "more", "1.0", "-", "ready:", "sinc,", "versine"]
        assert lines[-1].endswith("the ops plugin 'bad' failed")

    def test_chooses_kernel_packs(self, there, monkeypatch):
        there(READY)
        chosen = []
        monkeypatch.setattr(backends, "use_kernel_packs", chosen.append)
        for given in ("fast, slow", ""):
            cli.main(["backends", "--packs", given])
        assert chosen == [["fast", "slow"], []]

    def test_with_rich(self, there, capsys, monkeypatch):
        pytest.importorskip("rich")
        there(READY, GONE)
        monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
        monkeypatch.setenv("COLUMNS", "60")
        assert cli.main(["backends"]) == 0
        out = capsys.readouterr().out
        assert "mill" in out
        assert "[install]" in out

    def test_on_a_terminal_without_rich(self, there, capsys, monkeypatch):
        there(READY, GONE)
        monkeypatch.setitem(sys.modules, "rich", None)
        monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
        monkeypatch.setenv("COLUMNS", "52")
        assert cli.main(["backends"]) == 0
        assert capsys.readouterr().out.splitlines()[-2:] == [
            "loom      1.0      -        no driver; [install] one",
            "                            there",
        ]


class TestKernels:
    @pytest.fixture(autouse=True)
    def offers(self, there, monkeypatch):
        found = [
            RegisteredKernel(operator.add, "quick", 10, frozenset({pullback.dtypes.float32})),
            RegisteredKernel(operator.add, "mill", 0, None),
        ]

        class Mill(Backend):
            name = "mill"

            def kernels_for(self, op_name):
                return tuple(found)

        there(READY, GONE)
        monkeypatch.setattr(kernels.registry, "backend", lambda name: Mill())
        return found

    def test_in_order_and_why(self, capsys):
        assert cli.main(["backends", "--kernels", "add"]) == 0
        assert capsys.readouterr().out.splitlines() == [
            "backend  served by  priority  dtypes   why",
            "mill     quick      10        float32  a kernel pack, of the highest priority; "
            "_operator.add",
            "mill     mill       0         all      its own kernel, for the remaining dtypes; "
            "_operator.add",
            "mill     fast       -         -        a kernel pack, not used: switched off",
            "loom     nothing    -         -        the backend cannot be used: no driver; "
            "[install] one there",
        ]

    def test_what_is_never_reached(self, offers, capsys):
        offers.append(RegisteredKernel(operator.add, "late", -5, None))
        assert cli.main(["backends", "--kernels", "add", "--json"]) == 0
        rows = {row["source"]: row for row in json.loads(capsys.readouterr().out)}
        assert rows["late"]["why"] == "a kernel pack, never reached: mill takes every dtype"
        assert [name for name, row in rows.items() if row["used"]] == ["quick", "mill"]

    def test_a_primitive_that_nobody_serves(self, offers, capsys):
        offers.clear()
        assert cli.main(["backends", "--kernels", "solve"]) == 1
        assert "a primitive of the tier linalg without a kernel" in capsys.readouterr().out

    def test_composites_run_their_body_at_last(self, capsys, monkeypatch):
        monkeypatch.setattr(spec.OPS["add"], "primitive", False)
        assert cli.main(["backends", "--kernels", "add", "--json"]) == 0
        rows = json.loads(capsys.readouterr().out)
        assert [row["source"] for row in rows] == ["quick", "mill", "decomposition", "fast", ""]
        assert rows[2]["why"].endswith("never reached: mill takes every dtype")

    def test_of_an_unknown_op(self, capsys):
        assert cli.main(["backends", "--kernels", "ad"]) == 1
        message = capsys.readouterr().err
        assert "did you mean" in message
        assert "'add'" in message


class TestTable:
    def test_is_not_wrapped_in_a_pipe(self):
        text = "long " * 100 + "end"
        assert table.plain(["a", "b"], [["x", text]], None).splitlines()[1] == f"x  {text}"

    def test_keeps_room_for_the_last_column(self):
        lines = table.plain(["a", "b"], [["x" * 50, "one two three four five six seven"]], 40)
        assert lines.splitlines()[1:] == [
            "x" * 50 + "  one two three four five",
            " " * 52 + "six seven",
        ]


class TestProgram:
    @staticmethod
    @functools.cache
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "pullback", *arguments],
            capture_output=True, text=True, check=False,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )  # fmt: skip

    def test_version(self):
        done = self.run("--version")
        assert (done.returncode, done.stdout) == (0, f"pullback {__version__}\n")
        assert pullback.__version__ == __version__

    def test_without_a_command_the_help_is_shown(self):
        done = self.run()
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == self.run("--help").stdout

    def test_help_names_the_commands(self):
        assert "backends" in self.run("--help").stdout

    def test_backends_that_are_installed(self):
        done = self.run("backends", "--json")
        assert not done.stderr
        for row in json.loads(done.stdout)["backends"]:
            assert row["state"] != "ready" or row["devices"]

    def test_a_reader_that_goes_away(self):
        program = "import sys; sys.argv = ['pullback', 'backends']; import runpy; "
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run(
            [sys.executable, "-c", program + "runpy.run_module('pullback')"],
            stdout=writer, stderr=subprocess.PIPE, text=True, check=False,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )  # fmt: skip
        os.close(writer)
        assert done.returncode == 1
        assert done.stderr == ""
