"""Faults while fused kernels are compiled: of the cache folder, the compiler, processes."""

import importlib.util
import os
import pwd
import random
import shutil
import stat
import subprocess
import sys
import threading
import time
import traceback
import warnings
from pathlib import Path

import numpy as np
import pytest

import pullback as pb
from pullback.graph.emit import emit
from pullback.graph.passes.regions import fuse
from pullback_native.compiled import cache, comparison, compiler, worker

_spec = importlib.util.spec_from_file_location(
    "fused_programs", Path(__file__).with_name("fused_programs.py")
)
_helpers = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_helpers)
normal, recorded, same_bits = _helpers.normal, _helpers.recorded, _helpers.same_bits
big, hot, plans = _helpers.big, _helpers.hot, _helpers.plans

pytestmark = [
    pytest.mark.skipif(
        shutil.which("cc") is None or compiler.is_off(), reason="needs a C compiler"
    ),
    pytest.mark.usefixtures("folder"),
]


def served(monkeypatch):
    """Compiles one kernel by a new worker: whether it was taken, and the warnings."""
    monkeypatch.setattr(comparison, "is_faster", lambda *_: True)
    with monkeypatch.context() as patch:
        found = plans(patch)
        graph, arrays = recorded(lambda x: pb.exp(-x) * 2 + x, normal(100))
        run = emit(fuse(graph))
    worker.restart()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            worker.add(*found[0])
        taken = worker.wait()
    with np.errstate(all="ignore"):
        for one, other in zip(run(*arrays), emit(graph)(*arrays), strict=True):
            same_bits(one, other)
    return taken > 0, [str(each.message) for each in caught]


def script(path, text):
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


# The folder ---------------------------------------------------------------------------------------


def test_the_cache_serves_the_next_process(folder, monkeypatch):
    assert served(monkeypatch) == (True, [])
    [file] = folder.iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    monkeypatch.setattr(compiler.Compiler, "start", None)
    assert served(monkeypatch) == (True, [])
    assert list(folder.iterdir()) == [file]


@pytest.mark.parametrize("damage", [b"", b"\x7fELF of another kind"])
def test_a_damaged_file_is_compiled_again(folder, monkeypatch, damage):
    assert served(monkeypatch) == (True, [])
    [file] = folder.iterdir()
    whole = file.read_bytes()
    for content in (damage, whole[:-9], whole[:5000] + b"?" + whole[5001:]):
        file.unlink()
        file.write_bytes(content)
        file.chmod(0o600)
        assert served(monkeypatch) == (True, [])
        [file] = folder.iterdir()
        assert cache._digest(file) == file.stem.split("-")[1]


def test_a_file_that_is_no_library_is_compiled_again(folder, monkeypatch):
    assert served(monkeypatch) == (True, [])
    [file] = folder.iterdir()
    key = file.name.split("-")[0]
    file.unlink()
    other = folder / "other"
    other.write_bytes(b"no library")
    cache.store(folder, key, other)
    other.unlink()
    assert served(monkeypatch) == (True, [])


@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_a_file_that_others_can_write_is_not_loaded(folder, monkeypatch, mode):
    assert served(monkeypatch) == (True, [])
    [file] = folder.iterdir()
    file.chmod(mode)
    assert cache.find(folder, file.name.split("-")[0]) is None
    assert served(monkeypatch) == (True, [])


def test_a_link_in_the_folder_is_not_loaded(folder, monkeypatch, tmp_path):
    assert served(monkeypatch) == (True, [])
    [file] = folder.iterdir()
    elsewhere = tmp_path / "elsewhere.so"
    file.rename(elsewhere)
    file.symlink_to(elsewhere)
    assert cache.find(folder, file.name.split("-")[0]) is None
    assert not file.is_symlink()


@pytest.mark.parametrize("mode", [0o770, 0o707])
@pytest.mark.parametrize("above", [False, True])
def test_a_folder_that_others_can_write_is_not_used(folder, monkeypatch, mode, above):
    folder.mkdir()
    open_one = folder.parent if above else folder
    open_one.chmod(mode)
    try:
        taken, [said] = served(monkeypatch)
    finally:
        open_one.chmod(0o700)
    assert taken
    assert "can be changed by other users" in said
    assert f"chmod go-w {open_one}" in said
    assert not list(folder.iterdir())


def test_folders_that_are_made_are_the_users_own(folder, monkeypatch):
    monkeypatch.setenv(cache.VARIABLE, str(folder / "new" / "newer"))
    before = os.umask(0o002)
    try:
        assert served(monkeypatch) == (True, [])
    finally:
        os.umask(before)
    made = (folder, folder / "new", folder / "new" / "newer")
    assert {stat.S_IMODE(one.stat().st_mode) for one in made} == {0o700}


def test_a_folder_above_that_keeps_files_to_their_owners_is_right(folder, monkeypatch):
    folder.mkdir()
    folder.parent.chmod(0o1777)
    assert served(monkeypatch) == (True, [])
    assert list(folder.iterdir())


def test_a_folder_of_another_user_is_not_used(folder, monkeypatch):
    folder.mkdir()
    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    with pytest.raises(cache.CacheError, match="not a folder of the user's own"):
        cache.opened(folder)


def test_a_folder_that_cannot_be_made(folder, monkeypatch):
    folder.write_text("a file")
    monkeypatch.setenv(cache.VARIABLE, str(folder / "below"))
    taken, [said] = served(monkeypatch)
    assert taken
    assert "cannot be used" in said
    assert f"{compiler.VARIABLE}= switches" in said


def test_a_full_folder(folder, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    taken, [said] = served(monkeypatch)
    assert taken
    assert "No space left" in said
    assert not list(folder.iterdir())


def test_no_folder(folder, monkeypatch):
    monkeypatch.setenv(cache.VARIABLE, "")
    assert served(monkeypatch) == (True, [])
    assert not folder.exists()


def test_old_files_make_room(folder, monkeypatch):
    monkeypatch.setattr(cache, "MOST_FILES", 8)
    folder.mkdir(mode=0o700)
    for i in range(9):
        (folder / f"{i}.so").write_bytes(b"")
        os.utime(folder / f"{i}.so", (i, i))
    assert served(monkeypatch) == (True, [])
    assert not {"0.so", "1.so"} & {file.name for file in folder.iterdir()}
    assert len(list(folder.iterdir())) == 8


@pytest.mark.parametrize("place", ["~nobody-of-this-name/x", "~"])
def test_a_folder_in_no_home(place, monkeypatch):
    # As for a user of a container without an entry in /etc/passwd.
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(pwd, "getpwuid", {}.__getitem__)
    monkeypatch.setenv(cache.VARIABLE, place)
    taken, [said] = served(monkeypatch)
    assert taken
    assert "kernels are compiled anew by each process" in said


def test_a_pipe_in_the_folder_holds_nobody_up(folder, monkeypatch):
    assert served(monkeypatch) == (True, [])
    [file] = folder.iterdir()
    file.unlink()
    os.mkfifo(file, 0o600)
    assert served(monkeypatch) == (True, [])
    assert file.is_file()


def test_files_that_others_delete_meanwhile(folder, monkeypatch):
    monkeypatch.setattr(cache, "MOST_FILES", 4)
    folder.mkdir(mode=0o700)
    lstat = Path.lstat

    def gone(path):
        if path.parent == folder and path.name.endswith(".txt"):
            path.unlink(missing_ok=True)
        return lstat(path)

    monkeypatch.setattr(Path, "lstat", gone)
    for i in range(9):
        (folder / f"{i}.txt").write_bytes(b"")
    assert served(monkeypatch) == (True, [])
    assert len(list(folder.glob("*.so"))) == 1


# The compiler -------------------------------------------------------------------------------------


def test_no_compiler(monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert served(monkeypatch) == (False, [])


FAILING = {
    "gone": ("/nowhere/cc", "there is no '/nowhere/cc'"),
    "half quoted": ('"gcc', "quote it as for a shell"),
    "no compiler": ("false", "does not say its version"),
    "failing": ('[ "$1" = --version ] || { echo broken >&2; exit 3; }', "status 3: broken"),
    "silent": ('[ "$1" = --version ] || exit 3', "it said nothing"),
    "without a result": ("exit 0", "cannot open shared object"),
}


@pytest.mark.parametrize("kind", FAILING)
def test_a_compiler_that_fails(kind, monkeypatch, tmp_path):
    command, words = FAILING[kind]
    if " " in command:
        command = script(tmp_path / "compiler", command)
    monkeypatch.setenv(compiler.VARIABLE, command)
    taken, [said] = served(monkeypatch)
    assert not taken
    assert words in said
    assert "with the same results" in said


def test_warnings_that_are_errors_end_nothing(monkeypatch):
    monkeypatch.setenv(compiler.VARIABLE, "false")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        hot(big())
        assert worker.wait() == 0


#: Files of the standard library in which a call may fail as well.
STANDARD = ("pathlib.py", "shlex.py", "shutil.py", "subprocess.py", "tempfile.py")
#: What does not fail here: the loop of the thread, and what is for its end.
NEVER = ("_work", "_serve", "_warn", "_give_up", "stop", "<lambda>", "__del__")


class Injected(Exception):
    """A fault of no kind that anybody expects."""


class Faults:
    """Lets one call of Python in the worker's thread fail, by its number."""

    def __init__(self, at):
        self.at, self.calls = at, 0

    def __call__(self, frame, event, argument):
        name = frame.f_code.co_filename
        ours = os.path.dirname(name) == os.path.dirname(worker.__file__)
        if event != "call" or not (ours or os.path.basename(name) in STANDARD):
            return
        if frame.f_code.co_name in NEVER or frame.f_back.f_code.co_name in ("__del__", "_warn"):
            return
        self.calls += 1
        if self.calls == self.at:
            raise Injected(f"{os.path.basename(name)}: {frame.f_code.co_name}")


def with_fault(monkeypatch, at):
    """Compiles a kernel while a call fails; returns how many calls there were."""
    faults, broken, reasons = Faults(at), [], []
    restart, add = worker.restart, worker.add

    def added(plan, kernel):
        add(plan, kernel)
        reasons.append(kernel)

    def traced():
        restart()
        threading.settrace(faults)

    with monkeypatch.context() as patch:
        patch.setattr(threading, "excepthook", broken.append)
        patch.setattr(worker, "restart", traced)
        patch.setattr(worker, "add", added)
        try:
            taken, _ = served(monkeypatch)
        finally:
            threading.settrace(None)
    assert not broken, "".join(traceback.format_exception(broken[0].exc_value))
    for kernel in reasons:
        assert kernel.reason not in ("waits for the compiler", "is being compiled"), at
        assert taken or kernel.reason, at
    return faults.calls


@pytest.mark.parametrize("part", range(3))
def test_a_call_that_fails(folder, monkeypatch, part):
    calls = with_fault(monkeypatch, 0)
    assert calls > 50
    choose = random.Random(part)
    for _ in range(8):
        shutil.rmtree(folder, ignore_errors=True)
        with_fault(monkeypatch, choose.randint(1, calls))


@pytest.mark.slow
def test_every_call_that_fails(folder, monkeypatch):
    for at in range(1, with_fault(monkeypatch, 0) + 1):
        shutil.rmtree(folder, ignore_errors=True)
        with_fault(monkeypatch, at)


# Processes ----------------------------------------------------------------------------------------


PROGRAM = """\
import sys
import numpy as np
import pullback as pb
from pullback_native.compiled import comparison, worker
comparison.is_faster = lambda *_: True
f = pb.function(lambda x: pb.exp(-x) * 2 + x)
x = pb.asarray(np.linspace(-2, 2, 1_000_000, dtype=np.float32))
for _ in range(60):
    y = f(x)
"""


def start(code):
    command = [sys.executable, "-c", PROGRAM + code]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_two_processes_compile_the_same(folder):
    processes = [start("print(worker.wait(), f(x).numpy().sum())") for _ in range(2)]
    first, second = (process.communicate(timeout=100)[0] for process in processes)
    assert first == second
    assert first.startswith("1 ")
    files = list(folder.iterdir())
    assert files
    assert all(cache._digest(file) == file.stem.split("-")[1] for file in files)


def test_a_program_does_not_wait_for_the_compiler(tmp_path, monkeypatch, folder):
    monkeypatch.setenv(
        compiler.VARIABLE, script(tmp_path / "compiler", '[ "$1" = --version ] || exec sleep 100')
    )
    begin = time.monotonic()
    process = start("import time; time.sleep(0.5); print('end')")
    assert process.communicate(timeout=90)[0] == "end\n"
    assert process.returncode == 0
    assert time.monotonic() - begin < 60
    assert not list(folder.iterdir())


def test_a_program_does_not_wait_for_the_version_of_a_compiler(tmp_path, monkeypatch):
    # A process that it has started as well: what hangs is seldom the script itself.
    monkeypatch.setenv(
        compiler.VARIABLE,
        script(tmp_path / "compiler", f"echo $$ > {tmp_path}/pid; sleep 1000; echo later"),
    )
    begun = str(tmp_path / "pid")
    process = start(
        f"import os, time\nwhile not os.path.exists({begun!r}): time.sleep(0.01)\nprint('end')"
    )
    assert process.communicate(timeout=90)[0] == "end\n"
    group = int((tmp_path / "pid").read_text())
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            break
        time.sleep(0.01)
    with pytest.raises(ProcessLookupError):
        os.killpg(group, 0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_process_compiles_for_itself():
    code = """\
import os, warnings
warnings.simplefilter("ignore")
sys.stdout.flush()
child = os.fork()
if not child:
    g = pb.function(lambda x: pb.exp(-x) * 3 + x)
    for _ in range(60):
        g(x)
    os._exit(0 if worker.wait() == 1 else 1)
print(os.waitpid(child, 0)[1], worker.wait())
"""
    assert start(code).communicate(timeout=100)[0] == "0 1\n"
