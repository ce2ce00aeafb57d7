"""The check of fused kernels: where it applies, its programs, and that a sound source passes."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
from pullback.devices import as_device
from pullback.plugins.public import registry
from pullback_conformance import regions
from pullback_conformance.compare import ConformanceError
from pullback_conformance.derived.programs import partners, programs
from pullback_conformance.mode import Mode
from pullback_conformance.runner import planned
from pullback_numpy import NumPyBackend

FUSED = frozenset({
    "add", "negative", "tanh", "where", "less", "sum", "broadcast_to", "softmax", "layer_norm",
})  # fmt: skip


class Lathe(NumPyBackend):
    """A backend that fuses by calling kernels one by one."""

    name = "lathe"

    def __init__(self):
        super().__init__()
        self.regions = []

    def fusible(self):
        return FUSED

    def fuse(self, region):
        self.regions.append([call.op.name for call in region.calls])
        return region.op_by_op


class Refusing(Lathe):
    def fuse(self, region):
        self.regions.append([])


def fused_items(device, op):
    return [i for i in planned(op, device, mode=Mode(quick=True)) if i.check == "fused"]


pytestmark = pytest.mark.filterwarnings("ignore")  # as in a run of the kit


@pytest.fixture(params=[Lathe])
def lathe(request):
    pb.register_backend(request.param(), replace=True)
    yield as_device("lathe")
    registry._slots.pop("lathe")
    registry.ready.pop("lathe")


@pytest.mark.parametrize("op", ["negative", "where", "sum", "softmax", "layer_norm"])
def test_a_sound_source_passes_and_gets_regions_of_all_kinds(lathe, op):
    [item] = fused_items(lathe, op)
    item.run()
    taken = lathe.backend.regions
    assert any(op in region for region in taken)
    assert any(len(region) > 20 for region in taken)
    assert any("sum" in region for region in taken)
    assert any("broadcast_to" in region for region in taken)
    assert any(len({"softmax", "layer_norm"} & {*region}) for region in taken)


def test_parameters_of_ops_over_rows_are_rows(lathe):
    [item] = fused_items(lathe, "layer_norm")
    assert [x.shape for x in regions._inputs(item.case, (5, 67), special=False)] == [
        (5, 67), (67,), (67,), (67,), (), (5, 1),
    ]  # fmt: skip


def test_ops_that_no_source_fuses_have_no_such_check(lathe):
    for op in ("exp", "broadcast_to", "concat"):
        assert fused_items(lathe, op) == []
    assert fused_items(lathe, "add")


@pytest.mark.parametrize("lathe", [Refusing], indirect=True)
def test_a_source_that_refuses_is_asked_for_one_shape_only(lathe):
    [item] = fused_items(lathe, "negative")
    item.run()
    assert 0 < len(lathe.backend.regions) < 600


def test_programs_have_the_op_beside_others_of_the_source(lathe):
    ops = partners(FUSED)
    assert [op.name for op in ops.unary] == ["negative", "tanh"]
    assert [op.name for op in ops.ternary] == ["where"]
    assert [op.name for op in ops.over_rows] == ["layer_norm", "softmax"]
    assert [op.name for op in ops.turned(1).unary] == ["tanh", "negative"]
    [item] = fused_items(lathe, "add")
    names = [description for description, _ in programs(item.case, ops, (5, 67))]
    assert {"a chain", "a row beside the result", "a column as x2", "another result as x1"} <= {
        *names
    }
    assert {"sum of axis 1, keepdims=True", "rows of the result in softmax"} <= {*names}
    assert len(names) == len(set(names))


def test_what_a_failure_says(lathe, monkeypatch):
    def fuse(region):
        def kernel(*x):
            found = region.op_by_op(*x)
            return tuple(np.negative(y) if y.dtype == np.float32 else y for y in found)

        return kernel if len(region.outputs) > 1 else None

    monkeypatch.setattr(lathe.backend, "fuse", fuse)
    [item] = fused_items(lathe, "tanh")
    with pytest.raises(ConformanceError, match=r"several results, \[5, 67\]: 'lathe' fuses \["):
        regions.fused(item.case)
