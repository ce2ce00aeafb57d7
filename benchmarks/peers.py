"""The frameworks that `run.py` compares: who they are, where they are found, how one is asked."""

from __future__ import annotations

import importlib.util
import json
import os
import select
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent


class Peer(NamedTuple):
    """A framework, the way it is run, and the modules that tell whether it is installed."""

    name: str
    framework: str
    mode: str
    modules: str  # with commas
    variables: tuple[str, ...] = ()  # NAME=value


PEERS = (
    Peer("pullback", "pullback", "eager", "pullback", ("PULLBACK_KERNEL_PACKS=",)),
    Peer("pullback-native", "pullback", "eager", "pullback_native"),
    Peer("captured", "pullback", "compiled", "pullback", ("PULLBACK_KERNEL_PACKS=",)),
    Peer("captured-native", "pullback", "compiled", "pullback_native"),
    # Without the C compiler of the machine.
    Peer("captured-loops", "pullback", "compiled", "pullback_native", ("PULLBACK_NATIVE_CC=",)),
    Peer("torch", "torch", "eager", "torch"),
    Peer("torch-compile", "torch", "compiled", "torch"),
    Peer("jax", "jax", "compiled", "jax", ("JAX_PLATFORMS=cpu",)),
    Peer("tf", "tensorflow", "eager", "tensorflow", ("TF_CPP_MIN_LOG_LEVEL=3",)),
    Peer("tf-function", "tensorflow", "compiled", "tensorflow", ("TF_CPP_MIN_LOG_LEVEL=3",)),
    Peer("autograd", "autograd", "eager", "autograd"),
    Peer("keras-tf", "keras", "compiled", "keras,tensorflow", ("KERAS_BACKEND=tensorflow",)),
    Peer("keras-torch", "keras", "compiled", "keras,torch", ("KERAS_BACKEND=torch",)),
    Peer("onnxruntime", "onnxruntime", "compiled", "onnxruntime,onnx"),
)


def find(pythons: dict[str, str], only: set[str] | None) -> dict[Peer, str]:
    """The peers that can be imported, and the Python of each.

    Args:
        pythons: Pythons by peer or framework, for those in environments of their own.
        only: names of peers; all if None.
    """
    found = {}
    for peer in PEERS:
        python = pythons.get(peer.name) or pythons.get(peer.framework) or sys.executable
        if only is not None and peer.name not in only:
            continue
        if all(_has(python, module) for module in peer.modules.split(",")):
            found[peer] = python
    return found


def _has(python: str, module: str) -> bool:
    if python == sys.executable:
        return importlib.util.find_spec(module) is not None
    source = f"import importlib.util; print(importlib.util.find_spec({module!r}) is not None)"
    # Not in this folder: what lies in it would be found.
    return subprocess.check_output([python, "-I", "-c", source], text=True).strip() == "True"


def environment(peer: Peer, threads: int) -> dict[str, str]:
    """The variables of a peer's process."""
    count = str(threads)
    libraries = ("OMP_NUM", "OPENBLAS_NUM", "MKL_NUM", "TF_NUM_INTRAOP", "TF_NUM_INTEROP")
    limits = {f"{library}_THREADS": count for library in libraries}
    return os.environ | limits | dict(one.split("=", 1) for one in peer.variables)


class Process:
    """A peer's worker, which answers one question after another."""

    def __init__(
        self, peer: Peer, python: str, threads: int, script: str = "worker.py", limit: float = 1e6
    ) -> None:
        self.peer = peer
        self.limit = limit  #: seconds until a worker that has not answered is ended
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115  (closed with the process)
        self.process = subprocess.Popen(
            [python, str(HERE / script), peer.framework, peer.mode],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True,
            env=environment(peer, threads), cwd=HERE,
        )  # fmt: skip
        names = self._answer()
        if names is None:
            print(f"{peer.name} does not start: {self.last_words()}")
        self.names: list[str] = names or []

    def ask(self, *question: Any) -> Any:
        """The answer of the worker; None when it has ended."""
        assert self.process.stdin is not None
        try:
            print(json.dumps(question), file=self.process.stdin, flush=True)
        except BrokenPipeError:
            return None
        return self._answer()

    def _answer(self) -> Any:
        assert self.process.stdout is not None
        # A worker writes whole lines, one for each question: nothing is left in the buffer.
        if not select.select([self.process.stdout], [], [], self.limit)[0]:
            self.process.kill()
        line = self.process.stdout.readline()
        return json.loads(line) if line else None

    def last_words(self) -> str:
        """The last line that went to standard error."""
        self.errors.seek(0)
        lines = self.errors.read().splitlines()
        return lines[-1] if lines else ""

    def close(self) -> None:
        """Ends the process."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()
        self.errors.close()
