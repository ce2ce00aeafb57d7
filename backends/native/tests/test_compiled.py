"""Fused kernels compiled by the machine's compiler: their bits, and what goes wrong on the way."""

import importlib.util
import os
import shutil
import stat
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

import pullback as pb
from pullback.graph.emit import emit
from pullback.graph.graph import Fused
from pullback.graph.passes.regions import fuse
from pullback_native import _native, loops
from pullback_native.compiled import cache, comparison, compiler, worker
from pullback_native.compiled.source import Layout, source
from pullback_native.fusion import COMPARISONS, GRADIENTS, UNARY
from pullback_numpy.threads import number_of_threads

_spec = importlib.util.spec_from_file_location(
    "fused_programs", Path(__file__).with_name("fused_programs.py")
)
_helpers = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_helpers)
normal, recorded, same_bits = _helpers.normal, _helpers.recorded, _helpers.same_bits
programs = _helpers.programs

pytestmark = pytest.mark.skipif(
    shutil.which("cc") is None or compiler.is_off(), reason="needs a C compiler"
)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A cache folder and a worker for each test."""
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "cache"))
    monkeypatch.delenv(compiler.VARIABLE, raising=False)
    worker.restart()
    yield tmp_path / "cache"
    worker.end()
    worker.restart()


def kernels(graph):
    return [call.kernel for call in graph.calls if isinstance(call.op, Fused)]


def plans(monkeypatch):
    """The plans of kernels that are made from now on, with the kernels."""
    found = []

    def when_hot(kernel, function):
        found.append((function.args[0], kernel))

    monkeypatch.setattr(_native, "when_hot", when_hot)
    return found


@pytest.fixture
def compiled(monkeypatch):
    """Compiles the kernels of a function and holds them against the calls one by one."""
    found = plans(monkeypatch)
    monkeypatch.setattr(comparison, "is_faster", lambda *_: True)

    def check(function, *arrays, adopted=None):
        found.clear()
        with np.errstate(all="ignore"):
            graph, arrays = recorded(function, *arrays)
            expected = emit(graph)(*arrays)
            result = fuse(graph)
            before = worker.wait()
            for plan, kernel in found:
                worker.add(plan, kernel)
            new = worker.wait() - before
            assert new == (len(found) if adopted is None else adopted)
            for count in (1, 3):
                with number_of_threads(count):
                    for one, other in zip(emit(result)(*arrays), expected, strict=True):
                        same_bits(one, other)
        return found

    return check


# Bits ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", range(3))
def test_functions_of_one_array(compiled, part):
    names = sorted(UNARY)[part::3]

    def function(x):
        values = [getattr(pb, name)(-x) for name in names]
        total = x
        for value in values:
            total = total + value * x
        return [*values, total]

    compiled(function, normal(5003))


def test_functions_of_two_arrays(compiled):
    def function(x, y, g):
        values = []
        for name in sorted(GRADIENTS):
            with pb.GradientTape() as tape:
                tape.watch(x)
                z = getattr(pb, name.removesuffix("_gradient"))(x)
            values.append(tape.gradient(z, x, -g) - z)
        for op in (pb.add, pb.subtract, pb.multiply, pb.divide, pb.maximum, pb.minimum):
            values.append(-op(-x, y))
        return values

    compiled(function, *np.random.default_rng(0).standard_normal((3, 5003), np.float32))
    compiled(function, normal(5003), normal(5003), normal(5003))


@pytest.mark.parametrize("approximate", [False, True])
def test_gelu(compiled, approximate):
    def function(x):
        with pb.GradientTape() as tape:
            tape.watch(x)
            y = pb.gelu(x, approximate=approximate)
        return y * x + 1, tape.gradient(y, x, x + x)

    compiled(function, normal(5003))


def test_numbers(compiled):
    def function(x, w):
        y = pb.elu(pb.leaky_relu(-x, negative_slope=0.3), alpha=0.7)
        values = [op(y, 0.1) for op in (pb.add, pb.subtract, pb.multiply, pb.divide, pb.maximum)]
        values += [op(0.1, y) for op in (pb.subtract, pb.divide, pb.minimum)]
        return [*values, y * w + x, x * w - w, w - x * w]

    compiled(function, normal(5003), np.float32(-1.7))


def test_comparisons_choices_and_booleans(compiled):
    def function(x, y, mask):
        values = [pb.where(getattr(pb, name)(x, -y), x + y, x * y) for name in COMPARISONS]
        values += [getattr(pb, name)(0.5, -x) for name in COMPARISONS]
        return [*values, pb.where(mask, 1.0, -y), pb.where(mask, -x, y) * x + y]

    x, y = normal(5003), normal(5003)
    y[::3] = -x[::3]
    compiled(function, x, y, normal(5003) > 0)


@pytest.mark.parametrize("shape", [(70, 129), (3, 9000), (4, 3, 70), (200, 32)])
def test_rows(compiled, shape):
    def function(x, r):
        return -(x * r), r / (x + r) - r * x

    compiled(function, normal(*shape), normal(shape[-1]))


def test_narrow_rows_are_left_to_the_loops(compiled):
    compiled(lambda x, r: (x + r) * r, normal(900, 31), normal(31), adopted=0)


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_sums(compiled, axis):
    def function(x, y):
        z = pb.tanh(x * y) + x
        return z * y, pb.sum(z, axis=axis), pb.mean(z * z, axis=axis)

    x, y = np.random.default_rng(0).standard_normal((2, 900, 130)).astype(np.float32)
    compiled(function, x, y)


@settings(max_examples=10, deadline=None)
@given(program=programs())
def test_random_programs(program):
    patch = pytest.MonkeyPatch()
    try:
        found = plans(patch)
        x = np.random.default_rng(0).standard_normal((70, 64)).astype(np.float32)
        with np.errstate(all="ignore"):
            graph, arrays = recorded(program, x, x / 2, x[0].copy(), np.float32(0.5))
            expected = emit(graph)(*arrays)
            run = emit(fuse(graph))
            for plan, kernel in found:
                worker.add(plan, kernel)
            worker.wait()
            for one, other in zip(run(*arrays), expected, strict=True):
                same_bits(one, other)
    finally:
        patch.undo()


def test_numbers_that_are_too_far_are_left_to_the_loops(compiled):
    """The slope of silu far below 0 takes double precision."""

    def function(x, g):
        with pb.GradientTape() as tape:
            tape.watch(x)
            y = pb.silu(x)
        return -tape.gradient(y, x, -g)

    x = np.linspace(-100, 10, 5003, dtype=np.float32)
    [(plan, _)] = compiled(function, x, np.full_like(x, 1e30))
    layout = Layout.of(plan)
    assert "far |=" in source(layout)


@pytest.mark.parametrize("number", [-86.5, 88.5, 0.0, -1e9, np.inf, np.nan])
def test_numbers_whose_exponentials_are_not_normal(compiled, number):
    """With some in each block the shorter functions leave all blocks, and are given up."""
    x = np.random.default_rng(0).standard_normal(300_000).astype(np.float32)
    x[::1000] = number
    [(plan, kernel)] = compiled(lambda x: pb.exp(x) * pb.sigmoid(x) + x, x)
    layout = Layout.of(plan)
    with np.errstate(all="ignore"):
        expected = kernel(x)
        for _ in range(5):
            same_bits(kernel(x), expected)
    [(block, near)] = worker._worker._done.values()
    arrays = [np.ones(2048, np.float32) for _ in (*layout.kinds, *layout.booleans)]
    arrays += [np.ones(2048, np.float32) for _ in range(layout.buffers)]
    assert _native.block(kernel, block, tuple(arrays), (), 0, 2048) is False
    assert _native.block(kernel, near, tuple(arrays), (), 0, 2048) is False
    arrays[0][100] = number
    assert _native.block(kernel, block, tuple(arrays), (), 0, 2048) is False
    assert _native.block(kernel, near, tuple(arrays), (), 0, 2048) is (number != 0)


def test_what_gives_other_bits_is_not_taken(compiled, monkeypatch):
    monkeypatch.setenv(compiler.VARIABLE, "cc -ffast-math")
    worker.restart()
    compiled(lambda x: pb.exp(-x) * 2 + x, normal(5003), adopted=0)


def test_what_is_slower_is_not_taken(compiled, monkeypatch):
    monkeypatch.setattr(comparison, "is_faster", lambda *_: False)
    compiled(lambda x: pb.exp(-x) * 2 + x, normal(5003), adopted=0)


# When ---------------------------------------------------------------------------------------------


def hot(x, times=60):
    """A captured function that runs often, and what it gives at the end."""
    function = pb.function(lambda x: pb.tanh(x * 1.5 + 0.5) * pb.sigmoid(x) + pb.exp(-x * x))
    for _ in range(times):
        result = function(x)
    return result.numpy()


def big():
    return pb.asarray(np.random.default_rng(0).standard_normal(1_000_000, np.float32))


def test_kernels_that_run_often_are_compiled(monkeypatch):
    monkeypatch.setattr(comparison, "is_faster", lambda *_: True)
    x = big()
    expected = hot(x, 2)
    same_bits(hot(x), expected)
    assert worker.wait() == 1
    same_bits(hot(x), expected)


def test_kernels_that_run_seldom_are_not():
    hot(big(), 12)
    hot(pb.ones(1000), 1000)
    assert worker._worker._thread is None


def test_a_switch(monkeypatch):
    monkeypatch.setenv(compiler.VARIABLE, "")
    hot(big())
    assert worker._worker._thread is None


# What goes wrong ----------------------------------------------------------------------------------


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


def test_no_compiler(monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert served(monkeypatch) == (False, [])


FAILING = {
    "gone": ("/nowhere/cc", "there is no '/nowhere/cc'"),
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


def test_blocks_are_checked():
    graph, _ = recorded(lambda x: -(x * x), normal(100))
    [kernel] = kernels(fuse(graph))
    x = np.zeros(2048, np.float32)
    with pytest.raises(ValueError, match="an array for each register"):
        _native.block(kernel, 0, (x,), (), 0, 100)
    with pytest.raises(ValueError, match="an array for each register"):
        _native.block(kernel, 0, (x, x, x), (), 0, 3000)
    with pytest.raises(TypeError):
        _native.adopt(loops, 0, 0)
