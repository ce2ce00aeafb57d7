"""The check of graphs that a backend compiles as a whole."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest

import pullback as pb
from pullback import array_api, dtypes
from pullback.devices import as_device
from pullback.plugins.compiling import as_function
from pullback_conformance.mode import Mode
from pullback_conformance.runner import conform, planned


class Compiling(pb.Backend):
    name = "compiling"
    dtypes: ClassVar = {d: np.dtype(d) for d in (dtypes.float32, dtypes.int64, dtypes.int32)}
    kernels: ClassVar = array_api.kernels(np)
    compiler: ClassVar = staticmethod(as_function)

    def from_host(self, array, device, *, copy):
        return np.array(array, copy=copy or None)

    def to_host(self, array):
        host = array.view()
        host.flags.writeable = False
        return host

    def native(self, value):
        return np.asarray(value)

    def compile(self, graph):
        return self.compiler(graph)


def failures(compiler, ops=("negative", "take")):
    backend = Compiling()
    backend.compiler = compiler
    pb.register_backend(backend, replace=True)
    report = conform("compiling", ops=ops, quick=True)
    assert not report.stopped
    return [failure for failure in report.failures if failure.check == "compiled"]


def nearly(graph):
    function = as_function(graph)
    return lambda *inputs: [np.nextafter(x, np.float32(9)) for x in function(*inputs)]


def raising(graph):
    raise NotImplementedError(graph.calls[0].op.name)


def test_a_sound_hook_passes():
    assert failures(as_function) == []
    assert failures(lambda graph: None) == []


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (nearly, "the result of a captured call is "),
        (raising, "its hook `compile` raised NotImplementedError: negative"),
    ],
)
def test_a_faulty_hook_is_a_failure_of_the_op(fault, message):
    found = failures(fault, ["negative"])
    assert found
    assert all(message in failure.message for failure in found)


def test_backends_without_the_hook_have_no_such_check():
    checks = {item.check for item in planned("exp", as_device("cpu"), mode=Mode(quick=True))}
    assert "compiled" not in checks
    assert "value" in checks
