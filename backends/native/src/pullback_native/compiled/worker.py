"""Compiles kernels in a thread of its own, one after the other."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import os
import queue
import tempfile
import threading
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pullback import __version__
from pullback_native import _native
from pullback_native.compiled import cache, comparison, compiler
from pullback_native.compiled.source import BLOCK, NEAR, Layout, Uncompiled, source
from pullback_native.instructions import INSTRUCTIONS


class Worker:
    """The thread with its queue; it ends with the program, at once."""

    def __init__(self) -> None:
        #: Kernels with their layouts, and events that are set when it is their turn.
        self._kernels: queue.SimpleQueue[tuple[Any, Layout] | threading.Event | None]
        self._kernels = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._running: compiler.Compilation | None = None
        self._compiler: compiler.Compiler | None = None
        self._folder: Path | None = None
        #: Addresses of what was compiled, by key; 0 for what the loops do better, and why.
        self._done: dict[str, tuple[int, int, str]] = {}
        #: Why there is no compiler.
        self._without = "there is no C compiler"
        self._warned = False
        self._ended = False
        #: Kernels that run compiled code.
        self.adopted = 0

    def add(self, layout: Layout, kernel: Any) -> None:
        """Asks for a kernel to be compiled."""
        kernel.reason = "waits for the compiler"
        self._put((kernel, layout))

    def _put(self, asked: tuple[Any, Layout] | threading.Event) -> None:
        with self._lock:
            if self._ended:
                return
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._work, name="pullback-native-compiler", daemon=True
                )
                try:
                    self._thread.start()
                except RuntimeError:  # no more threads, or the interpreter ends
                    self._ended = True
                    return
        self._kernels.put(asked)

    def end(self) -> None:
        """Stops the compiler and the thread."""
        with self._lock:
            self._ended = True
            if self._running is not None:
                self._running.stop()
            thread = self._thread
        self._kernels.put(None)
        if thread is not None:
            thread.join(2)

    def wait(self) -> None:
        """Waits until all that was asked for is done."""
        done = threading.Event()
        self._put(done)
        while not self._ended and not done.wait(0.01):
            if self._thread is None or not self._thread.is_alive():
                return

    # The thread --------------------------------------------------------------------------------

    def _work(self) -> None:
        try:
            self._compiler = compiler.find(INSTRUCTIONS, self._run)
        except Exception as error:  # of whatever kind: the loops go on
            self._give_up(error)
        try:
            wanted = cache.folder() if self._compiler is not None else None
            self._folder = cache.opened(wanted) if wanted is not None else None
        except Exception as error:
            self._warn(str(error), "kernels are compiled anew by each process")
        while not self._ended:
            asked = self._kernels.get()
            if asked is None:
                return
            if isinstance(asked, threading.Event):
                asked.set()
            else:
                self._serve(*asked)

    def _run(self, start: Callable[[], compiler.Compilation]) -> str:
        """Runs a compiler, unless the program ends, and returns what it printed."""
        with self._lock:
            if self._ended:
                raise compiler.CompilerError("the program ends")
            self._running = start()
        try:
            return self._running.wait()
        finally:
            self._running = None

    def _give_up(self, error: Exception) -> None:
        """Compiles nothing from now on."""
        self._compiler = None
        self._without = str(error) or type(error).__name__
        if not self._ended:
            self._warn(self._without)

    def _serve(self, kernel: Any, layout: Layout) -> None:
        known = self._compiler
        if known is None:
            kernel.reason = self._without
            return
        kernel.reason = "is being compiled"
        try:
            block, near, reason = self._blocks(kernel, layout, source(layout), known)
            if block or near:
                _native.adopt(kernel, block, near)
                self.adopted += 1
            kernel.reason = reason
        except Uncompiled as why:
            kernel.reason = str(why)
        except Exception as error:
            self._give_up(error)
            kernel.reason = self._without

    def _blocks(
        self, kernel: Any, layout: Layout, text: str, known: compiler.Compiler
    ) -> tuple[int, int, str]:
        """The addresses of the block, and of that for numbers that are near; 0 for the loops.

        The text says why the loops go on, where they do.
        """
        key = cache.key(text, *known.command, known.version, *known.flags, __version__)
        if key not in self._done:
            library = self._found(key) or self._compiled(key, text, known)
            best, why = 0, ""
            found = []
            for name in (BLOCK, NEAR):
                address = _address(library, name)
                right = address and comparison.is_right(kernel, address, layout)
                if right and comparison.is_faster(kernel, address, layout, best):
                    best = address
                    found.append(address)
                else:
                    found.append(0)
                    if address and not why:
                        why = (
                            "the compiled C is slower"
                            if right
                            else "the compiled C gives other bits"
                        )
            if best and not found[0]:
                why = "most of its numbers are not for the compiled C"
            self._done[key] = (found[0], found[1], why)
        return self._done[key]

    def _found(self, key: str) -> ctypes.CDLL | None:
        found = cache.find(self._folder, key) if self._folder is not None else None
        if found is None:
            return None
        try:
            return ctypes.CDLL(str(found))
        except OSError:
            cache.drop(found)
            return None

    def _compiled(self, key: str, text: str, known: compiler.Compiler) -> ctypes.CDLL:
        # The folder of a process is its own, and the library stays after the file is gone.
        with tempfile.TemporaryDirectory(prefix="pullback-native-") as folder:
            library = Path(folder) / f"{key}.so"
            self._run(lambda: known.start(text, library))
            loaded = ctypes.CDLL(str(library))
            if self._folder is not None:
                try:
                    cache.store(self._folder, key, library)
                except cache.CacheError as error:
                    self._folder = None
                    self._warn(str(error), "kernels are compiled anew by each process")
            return loaded

    def _warn(self, why: str, so: str = "fused kernels run without it") -> None:
        if self._warned:
            return
        self._warned = True
        with contextlib.suppress(Exception):  # where warnings are errors
            warnings.warn(
                f"compiling fused kernels: {why}; {so}, with the same results "
                f"({compiler.VARIABLE}= switches compiling off)",
                RuntimeWarning,
                stacklevel=2,
            )


def _address(library: ctypes.CDLL, name: str) -> int:
    function = getattr(library, name, None)
    return 0 if function is None else ctypes.cast(function, ctypes.c_void_p).value or 0


#: That of this process.
_worker = Worker()


def add(plan: Sequence[Any], kernel: Any) -> None:
    """Asks for a kernel to be compiled, unless the environment says that nothing is.

    Args:
        plan: what the kernel was made of, as `_native.fused` takes it.
        kernel: that kernel.
    """
    layout = Layout.of(plan)
    if not layout.is_float32:
        kernel.reason = "only float32 is compiled"
    elif compiler.is_off():
        kernel.reason = "compiling is switched off"
    else:
        _worker.add(layout, kernel)


def wait() -> int:
    """Waits until all kernels are compiled that it was asked for; how many there have been."""
    _worker.wait()
    return _worker.adopted


def restart() -> None:
    """A new worker, with another thread: a child process has none of its parent's."""
    global _worker
    _worker = Worker()


def end() -> None:
    """Ends the worker."""
    _worker.end()


atexit.register(end)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=restart)
