"""Checkpoints: what is saved and restored, and that a damaged one is never taken for whole."""

from __future__ import annotations

import dataclasses
import gc
import json
import os
import random
import shutil
import subprocess
import sys
import weakref
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open

import pullback as pb
from pullback.checkpoint import folder
from pullback.state import named_variables, objects, path_of, walk


class Box:
    """A plain object."""

    def __init__(self, **attributes):
        vars(self).update(attributes)


def paths(root):
    return list(named_variables(root))


class TestWalk:
    def test_attributes_lists_tuples_and_dicts(self):
        v = pb.Variable
        root = Box(
            kernel=v(1.0),
            layers=[Box(bias=v(2.0)), (v(3.0), {"a": v(4.0)})],
            units=3,
            name="x",
            function=abs,
            cls=Box,
            module=np,
            array=np.zeros(3),
            tensor=pb.zeros(3),
        )
        assert paths(root) == ["kernel", "layers/0/bias", "layers/1/0", "layers/1/1/a"]

    def test_names_with_slashes_are_escaped(self):
        root = {"conv1/pool": pb.Variable(1.0), "a~b": {"c": pb.Variable(2.0)}, 3: pb.Variable(3.0)}
        assert paths(root) == ["conv1~1pool", "a~0b/c", "3"]

    def test_shared_objects_appear_once(self):
        shared = Box(w=pb.Variable(1.0))
        root = Box(a=shared, b=[shared, shared.w])
        assert paths(root) == ["a/w"]
        again = {place.path: place.first for place in walk(root) if place.first is not None}
        assert again == {"b/0": "a", "b/1": "a/w"}

    def test_cycles(self):
        root = Box(w=pb.Variable(1.0))
        root.child = Box(parent=root, w=pb.Variable(2.0))
        root.loop = [root]
        assert paths(root) == ["w", "child/w"]

    def test_depth_has_no_limit(self):
        root = leaf = Box()
        for _ in range(5000):
            leaf.next = Box()
            leaf = leaf.next
        leaf.w = pb.Variable(1.0)
        assert len(paths(root)) == 1

    def test_path_of(self):
        v = pb.Variable(1.0)
        assert path_of(Box(a=[v]), v) == "a/0"
        assert path_of(Box(), v) is None

    def test_finds_objects_that_exist_for_the_walk_only(self):
        class Made(dict):
            def items(self):
                return [(str(i), Box(w=pb.Variable(float(i)))) for i in range(5)]

        assert len(paths(Made())) == 5


class Slotted:
    """A user's class without a __dict__."""

    __slots__ = ("__hidden", "child", "unset", "w")

    def __init__(self, value):
        self.w = pb.Variable(value)
        self.child = [pb.Variable(value)]
        self.__hidden = pb.Variable(value)


class SlottedAndMore(Slotted):
    """One with slots and a __dict__."""

    def __init__(self, value):
        super().__init__(value)
        self.more = pb.Variable(value)


class OpaqueSlots(Slotted):
    """One that says that its variables are not its own."""

    __slots__ = ()
    opaque_state = True


@dataclasses.dataclass(slots=True)
class Record:
    """A dataclass with slots."""

    w: pb.Variable


class TestSlots:
    @pytest.mark.parametrize(
        ("value", "expected"),
        [
            (Slotted(1.0), ["_Slotted__hidden", "child/0", "w"]),
            (SlottedAndMore(1.0), ["_Slotted__hidden", "child/0", "w", "more"]),
            (Record(pb.Variable(1.0)), ["w"]),
            (OpaqueSlots(1.0), []),
        ],
        ids=lambda value: type(value).__name__,
    )
    def test_are_traversed(self, value, expected):
        assert paths(value) == expected

    @pytest.mark.parametrize("kind", [Slotted, SlottedAndMore])
    def test_are_saved_and_restored(self, tmp_path, kind):
        path = pb.Checkpoint(x=kind(2.0)).save(tmp_path)
        other = kind(0.0)
        pb.Checkpoint(x=other).restore(path)
        assert [float(v) for v in named_variables(other).values()] == [2.0] * len(paths(other))

    def test_opaque_ones_are_refused_rather_than_left_out(self, tmp_path):
        with pytest.raises(pb.errors.CheckpointError, match="cannot hold x: a OpaqueSlots"):
            pb.Checkpoint(x=OpaqueSlots(1.0)).save(tmp_path)

    def test_values_and_parts_of_the_library_are_skipped(self):
        tape = pb.GradientTape()
        with tape:
            y = pb.Variable(1.0) * 2
        model = pb.Sequential([pb.layers.Dense(1)])
        model.compile("adam", "mean_squared_error", ["accuracy"])
        model.fit([[1.0]], [[1.0]], verbose=False)
        box = Box(
            tape=tape, y=y, device=y.device, dtype=pb.bfloat16, policy=pb.layers.Policy("float32"),
            strings=pb.StringTensor(["a"]),
        )  # fmt: skip
        assert [entry.path for entry in walk(box)] == [""]
        assert not [entry for entry in walk(model) if entry.path.startswith(("_made", "_compiled"))]
        optimizer = model.compiled.optimizer
        assert paths(optimizer) == []
        assert len([entry for entry in walk(optimizer) if "_slots" in entry.path]) == 0


class TestValues:
    @pytest.mark.parametrize(
        "dtype",
        [
            "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
            "bfloat16", "float16", "float32", "float64", "complex64", "complex128",
        ],
    )  # fmt: skip
    @pytest.mark.parametrize("shape", [(), (3,), (2, 0), (2, 3)])
    def test_every_dtype_and_shape(self, tmp_path, dtype, shape):
        size = int(np.prod(shape))
        value = (np.arange(size) - 1 if "u" not in dtype else np.arange(size)).reshape(shape)
        x = pb.Variable(pb.asarray(value).astype(dtype))
        before = x.numpy().copy()
        path = pb.Checkpoint(x=x).save(tmp_path)
        x.assign(pb.zeros(shape, dtype=dtype))
        pb.Checkpoint(x=x).restore(path)
        assert x.numpy().dtype == before.dtype
        assert x.numpy().tobytes() == before.tobytes()

    def test_special_values_bit_for_bit(self, tmp_path):
        bits = np.asarray([0x7FC00001, 0xFF800000, 0x80000000, 0x00000001], np.uint32)
        x = pb.Variable(bits.view(np.float32))
        path = pb.Checkpoint(x=x).save(tmp_path)
        x.assign([0.0] * 4)
        pb.Checkpoint(x=x).restore(path)
        assert x.numpy().view(np.uint32).tolist() == bits.tolist()

    def test_arrays_file_is_plain_safetensors(self, tmp_path):
        w = pb.Variable([[1.0, 2.0]])
        half = pb.Variable(pb.asarray([1.5]).astype("bfloat16"))
        path = pb.Checkpoint(model=Box(w=w, half=half)).save(tmp_path)
        with safe_open(Path(path, "arrays.safetensors"), framework="np") as file:
            assert sorted(file.keys()) == ["model/half", "model/w"]
            assert file.get_tensor("model/w").tolist() == [[1.0, 2.0]]
            assert file.get_slice("model/half").get_dtype() == "BF16"

    def test_guides_example(self, tmp_path):
        x = pb.Variable(10.0)
        checkpoint = pb.Checkpoint(x=x)
        x.assign(2.0)
        checkpoint.save(f"{tmp_path}/ckpt/")
        x.assign(11.0)
        checkpoint.restore(pb.latest_checkpoint(f"{tmp_path}/ckpt/"))
        assert float(x) == 2.0

    def test_plain_data(self, tmp_path):
        data = {
            "count": 3, "ratio": 0.1, "text": "é", "none": None, "flag": True, "big": 2**100,
            "list": [1.5, [2, "x"]], "nested": {"nan": float("nan"), "inf": float("-inf")},
        }  # fmt: skip
        path = pb.Checkpoint(**data).save(tmp_path)
        other = pb.Checkpoint(**dict.fromkeys(data, 0))
        other.restore(path)
        assert np.isnan(other.nested.pop("nan"))
        data["nested"].pop("nan")
        assert vars(other) == data
        json.loads(Path(path, "manifest.json").read_text(), parse_constant=pytest.fail)

    def test_lists_and_dicts_stay_the_same_objects(self, tmp_path):
        path = pb.Checkpoint(history={"loss": [1.0, 2.0]}, names=["a"]).save(tmp_path)
        history, names = {"loss": []}, []
        checkpoint = pb.Checkpoint(history=history, names=names)
        checkpoint.restore(path)
        assert checkpoint.history is history
        assert history == {"loss": [1.0, 2.0]}
        assert names == ["a"]

    def test_generators_and_metrics(self, tmp_path):
        generator, mean = pb.Generator(7), pb.metrics.Mean("loss")
        generator.normal((3,))
        mean([1.0, 2.0])
        path = pb.Checkpoint(parts=[generator, mean]).save(tmp_path)
        expected = generator.normal((3,)).tolist()
        other, other_mean = pb.Generator(1), pb.metrics.Mean("loss")
        pb.Checkpoint(parts=[other, other_mean]).restore(path).assert_complete()
        assert other.normal((3,)).tolist() == expected
        other_mean(6.0)
        assert other_mean.result() == 3.0

    def test_states_may_hold_arrays(self, tmp_path):
        class Counter:
            def __init__(self):
                self.state = {"a": np.zeros(2), "more": [np.zeros(1), b"\x00"], "n": float("nan")}

            def checkpoint_state(self):
                return self.state

            def restore_state(self, state):
                self.state = state

        counter, other = Counter(), Counter()
        counter.state["a"] = np.asarray([1.0, 2.0])
        counter.state["more"] = [pb.asarray([3]), b"\x01\xff"]
        path = pb.Checkpoint(counter=counter).save(tmp_path)
        pb.Checkpoint(counter=other).restore(path)
        assert other.state["a"].tolist() == [1.0, 2.0]
        assert other.state["more"][0].tolist() == [3]
        assert other.state["more"][1] == b"\x01\xff"
        counter.state["bad"] = object()
        with pytest.raises(
            pb.errors.CheckpointError, match=r"state of counter must hold .* got object"
        ):
            pb.Checkpoint(counter=counter).save(tmp_path)

    def test_snapshot_does_not_see_later_changes(self):
        x = pb.Variable([1.0])
        contents = pb.Checkpoint(x=x).contents()
        x.assign([2.0])
        assert contents.arrays["x"].tolist() == [1.0]

    def test_what_cannot_be_restored_into_is_refused(self, tmp_path):
        for value in (pb.zeros(2), np.zeros(2), abs):
            with pytest.raises(pb.errors.CheckpointError, match=r"cannot hold x: a .*Variable"):
                pb.Checkpoint(x=value).save(tmp_path)
        with pytest.raises(pb.errors.InputValueError, match="'save'"):
            pb.Checkpoint(save=1)


class TestNames:
    def test_folder_and_stem(self, tmp_path):
        checkpoint = pb.Checkpoint(x=pb.Variable(1.0))
        new = tmp_path / "new"
        assert checkpoint.save(f"{new}/") == f"{new}/ckpt-1"
        assert checkpoint.save(new) == f"{new}/ckpt-2"
        stem = f"{tmp_path}/checkpoints/checkpoint.ckpt"
        assert checkpoint.save(stem) == f"{stem}-1"
        assert checkpoint.save(stem, step=250) == f"{stem}-250"
        assert checkpoint.save(stem) == f"{stem}-251"
        assert checkpoint.save(stem, step=pb.Variable(9)) == f"{stem}-9"

    def test_same_step_is_replaced(self, tmp_path):
        x = pb.Variable(1.0)
        checkpoint = pb.Checkpoint(x=x)
        checkpoint.save(tmp_path, step=3)
        x.assign(2.0)
        path = checkpoint.save(tmp_path, step=3)
        assert os.listdir(tmp_path) == ["ckpt-3"]
        x.assign(0.0)
        checkpoint.restore(path)
        assert float(x) == 2.0

    def test_latest_is_the_last_saved(self, tmp_path):
        assert pb.latest_checkpoint(tmp_path) is None
        with pytest.raises(pb.errors.CheckpointError, match=r"no folder .*none.*makedirs"):
            pb.latest_checkpoint(tmp_path / "none")
        checkpoint = pb.Checkpoint(x=pb.Variable(1.0))
        checkpoint.save(tmp_path, step=10)
        last = checkpoint.save(tmp_path, step=2)
        assert pb.latest_checkpoint(tmp_path) == last

    def test_restoring_nothing_does_nothing(self, tmp_path):
        x = pb.Variable(1.0)
        status = pb.Checkpoint(x=x).restore(pb.latest_checkpoint(tmp_path))
        assert status.restored == ()
        assert float(x) == 1.0

    def test_missing_path_names_what_there_is(self, tmp_path):
        checkpoint = pb.Checkpoint(x=pb.Variable(1.0))
        with pytest.raises(pb.errors.CheckpointError, match="no checkpoint"):
            checkpoint.restore(tmp_path / "ckpt-1")
        path = checkpoint.save(tmp_path)
        with pytest.raises(pb.errors.CheckpointError, match=f"newest there is '{path}'"):
            checkpoint.restore(tmp_path / "ckpt-7")
        with pytest.raises(pb.errors.CheckpointError, match=f"folder of checkpoints.*{path}"):
            checkpoint.restore(tmp_path)


class TestObjects:
    def test_report_by_path(self, tmp_path):
        path = pb.Checkpoint(a=pb.Variable(1.0), b=pb.Variable(2.0)).save(tmp_path)
        a, c = pb.Variable(0.0), pb.Variable(0.0)
        checkpoint = pb.Checkpoint(a=a, c=c)
        with pytest.raises(pb.errors.CheckpointError, match=r"no value for c.*partial=True"):
            checkpoint.restore(path)
        assert float(a) == 0.0
        status = checkpoint.restore(path, partial=True)
        assert (status.restored, status.missing, status.unexpected) == (("a",), ("c",), ("b",))
        assert status.waiting == ()
        assert float(a) == 1.0
        with pytest.raises(pb.errors.CheckpointError, match="c"):
            status.assert_complete()

    def test_wrong_shape_and_dtype_change_nothing(self, tmp_path):
        model = Box(a=pb.Variable([1.0]), b=pb.Variable([1.0, 2.0]), c=pb.Variable(1.0))
        path = pb.Checkpoint(model=model).save(tmp_path)
        other = Box(a=pb.Variable([0.0]), b=pb.Variable([0.0]), c=pb.Variable(0))
        with pytest.raises(pb.errors.CheckpointError) as caught:
            pb.Checkpoint(model=other).restore(path)
        assert "model/b is float32[1], the saved value is float32[2]" in str(caught.value)
        assert "model/c is int32[], the saved value is float32[]" in str(caught.value)
        assert other.a.tolist() == [0.0]

    def test_shared_objects(self, tmp_path):
        shared = Box(w=pb.Variable(5.0))
        path = pb.Checkpoint(model=Box(a=shared, b=shared)).save(tmp_path)
        # The other path comes first now.
        again = Box(w=pb.Variable(0.0))
        pb.Checkpoint(model=Box(b=again, a=again)).restore(path).assert_complete()
        assert float(again.w) == 5.0
        # Shared no more: each gets the value.
        apart = Box(a=Box(w=pb.Variable(0.0)), b=Box(w=pb.Variable(0.0)))
        pb.Checkpoint(model=apart).restore(path).assert_complete()
        assert (float(apart.a.w), float(apart.b.w)) == (5.0, 5.0)

    def test_shared_generators(self, tmp_path):
        shared, other = pb.Generator(1), pb.Generator(2)
        path = pb.Checkpoint(model=Box(a=shared, b=[shared])).save(tmp_path)
        pb.Checkpoint(model=Box(b=[other], a=other)).restore(path).assert_complete()
        assert other.state == shared.state

    def test_objects_of_several_roots(self, tmp_path):
        model = Box(w=pb.Variable(5.0))
        path = pb.Checkpoint(model=model, part=model.w).save(tmp_path)
        other = Box(w=pb.Variable(0.0))
        pb.Checkpoint(part=other.w).restore(path)
        assert float(other.w) == 5.0

    def test_cycles(self, tmp_path):
        root = Box(w=pb.Variable(5.0))
        root.me = root
        path = pb.Checkpoint(root=root).save(tmp_path)
        root.w.assign(0.0)
        pb.Checkpoint(root=root).restore(path).assert_complete()
        assert float(root.w) == 5.0


class TestDeferred:
    def model(self):
        return pb.Sequential([pb.layers.Dense(3), pb.layers.Dense(2)])

    def test_before_the_first_call(self, tmp_path):
        model, x = self.model(), np.ones((1, 4), np.float32)
        expected = model(x).tolist()
        path = pb.Checkpoint(model=model).save(tmp_path)
        other = self.model()
        status = pb.Checkpoint(model=other).restore(path)
        assert status.restored == ()
        assert len(status.waiting) == 4
        with pytest.raises(
            pb.errors.CheckpointError, match=r"layers/0/kernel.*call the model once"
        ):
            status.assert_complete()
        assert other(x).tolist() == expected
        status.assert_complete()
        assert len(status.restored) == 4

    def test_wrong_size_is_found_when_the_variable_is_made(self, tmp_path):
        model = self.model()
        model(np.ones((1, 4), np.float32))
        path = pb.Checkpoint(model=model).save(tmp_path)
        other = self.model()
        status = pb.Checkpoint(model=other).restore(path)
        with pytest.raises(pb.errors.CheckpointError, match=r"layers/0/kernel is float32\[5, 3\]"):
            other(np.ones((1, 5), np.float32))
        assert status.restored == ()

    def test_variables_set_by_hand(self, tmp_path):
        path = pb.Checkpoint(box=Box(w=pb.Variable(5.0))).save(tmp_path)
        box = Box()
        status = pb.Checkpoint(box=box).restore(path)
        box.w = pb.Variable(0.0)
        assert status.waiting == ()
        assert float(box.w) == 5.0

    def test_later_restoration_takes_the_place_of_an_earlier_one(self, tmp_path):
        model, x = self.model(), np.ones((1, 4), np.float32)
        model(x)
        first = pb.Checkpoint(model=model).save(tmp_path)
        model.layers[0].kernel.assign(np.zeros((4, 3), np.float32))
        second = pb.Checkpoint(model=model).save(tmp_path)
        other = self.model()
        checkpoint = pb.Checkpoint(model=other)
        checkpoint.restore(first)
        checkpoint.restore(second)
        other(x)
        assert not other.layers[0].kernel.numpy().any()

    def test_does_not_keep_objects_alive(self, tmp_path):
        model = self.model()
        model(np.ones((1, 4), np.float32))
        path = pb.Checkpoint(model=model).save(tmp_path)
        other = self.model()
        pb.Checkpoint(model=other).restore(path)
        alive = weakref.ref(other)
        del other
        gc.collect()
        assert alive() is None
        objects.restore_pending()
        assert all(pending._roots for pending in objects.PENDING_RESTORES)

    def test_trained_values_are_not_overwritten(self, tmp_path):
        model, x = self.model(), np.ones((1, 4), np.float32)
        model(x)
        path = pb.Checkpoint(model=model, more=Box(w=pb.Variable(1.0))).save(tmp_path)
        other = self.model()
        pb.Checkpoint(model=other).restore(path)
        other(x)
        other.layers[0].bias.assign([7.0, 7.0, 7.0])
        pb.Sequential([pb.layers.Dense(3)])(x)
        assert other.layers[0].bias.tolist() == [7.0, 7.0, 7.0]


class TestWhatDoesNotMatch:
    """Restoring into objects of another structure: what did not match is named, both ways."""

    @staticmethod
    def layers(count, **options):
        return pb.Sequential([pb.layers.Dense(3, **options) for _ in range(count)])

    @pytest.fixture
    def two(self, tmp_path):
        model, optimizer = self.layers(2), pb.optimizers.Adam(0.1)
        x = np.ones((1, 3), np.float32)
        optimizer.minimize(lambda: model(x).sum())
        return pb.Checkpoint(model=model, optimizer=optimizer).save(tmp_path)

    def test_two_layers_into_one(self, two):
        model = self.layers(1)
        model(np.ones((1, 3), np.float32))
        before = model.layers[0].kernel.numpy()
        with pytest.raises(
            pb.errors.CheckpointError,
            match=r"no object takes its model/layers/1/kernel, model/layers/1/bias;.*partial=True",
        ):
            pb.Checkpoint(model=model).restore(two)
        assert model.layers[0].kernel.numpy().tolist() == before.tolist()
        status = pb.Checkpoint(model=model).restore(two, partial=True)
        assert status.restored == ("model/layers/0/kernel", "model/layers/0/bias")
        assert status.waiting == status.missing == ()
        assert set(status.unexpected) >= {"model/layers/1/kernel", "model/layers/1/bias"}
        assert "unexpected  model/layers/1/kernel" in status.report()
        with pytest.raises(pb.errors.CheckpointError, match="no object takes its"):
            status.assert_complete()

    def test_two_layers_into_one_that_is_not_built(self, two):
        model = self.layers(1)
        status = pb.Checkpoint(model=model).restore(two)
        assert "model/layers/0/kernel" in status.waiting
        model(np.ones((1, 3), np.float32))
        assert status.waiting == ()
        assert len(status.restored) == 2
        assert {"model/layers/1/kernel", "model/layers/1/bias"} <= set(status.unexpected)
        with pytest.raises(pb.errors.CheckpointError, match="model/layers/1/kernel"):
            status.assert_complete()

    def test_one_layer_into_two(self, tmp_path):
        one, two = self.layers(1), self.layers(2)
        for model in (one, two):
            model(np.ones((1, 3), np.float32))
        path = pb.Checkpoint(model=one).save(tmp_path)
        with pytest.raises(pb.errors.CheckpointError, match=r"no value for model/layers/1/kernel"):
            pb.Checkpoint(model=two).restore(path)
        status = pb.Checkpoint(model=two).restore(path, partial=True)
        assert status.missing == ("model/layers/1/kernel", "model/layers/1/bias")
        assert status.unexpected == ()

    def test_one_layer_into_two_that_are_not_built(self, tmp_path):
        one, x = self.layers(1), np.ones((1, 3), np.float32)
        one(x)
        path = pb.Checkpoint(model=one).save(tmp_path)
        two = self.layers(2)
        pb.Checkpoint(model=two).restore(path)
        with pytest.raises(pb.errors.CheckpointError, match="no value for model/layers/1/kernel"):
            two(x)
        # It has been said; the model works, and nothing is said again.
        two(x)
        two = self.layers(2)
        status = pb.Checkpoint(model=two).restore(path, partial=True)
        two(x)
        assert status.missing == ("model/layers/1/kernel", "model/layers/1/bias")
        assert len(status.restored) == 2
        with pytest.raises(pb.errors.CheckpointError, match="no value for model/layers/1/kernel"):
            status.assert_complete()

    def test_what_is_added_later_is_no_fault(self, tmp_path):
        one, x = self.layers(1), np.ones((1, 3), np.float32)
        one(x)
        path = pb.Checkpoint(model=one).save(tmp_path)
        other = self.layers(1)
        status = pb.Checkpoint(model=other).restore(path)
        other.layers = [*other.layers, pb.layers.Dense(5)]
        other(x)
        assert status.restored == ("model/layers/0/kernel", "model/layers/0/bias")
        assert status.missing in ((), ("model/layers/1/kernel", "model/layers/1/bias"))

    def test_both_ways_in_one_message(self, tmp_path):
        saved, other = self.layers(1, use_bias=False), self.layers(1)
        for model in (saved, other):
            model(np.ones((1, 3), np.float32))
        more = pb.Checkpoint(model=saved, box=Box(built=True, w=pb.Variable(1.0))).save(tmp_path)
        with pytest.raises(
            pb.errors.CheckpointError,
            match="no value for model/layers/0/bias; no object takes its box/w",
        ):
            pb.Checkpoint(model=other, box=Box(built=True)).restore(more)

    def test_what_is_not_asked_for_is_no_fault(self, two):
        model = self.layers(2)
        model(np.ones((1, 3), np.float32))
        status = pb.Checkpoint(model=model).restore(two)
        assert len(status.restored) == 4
        assert status.waiting == ()
        assert {path.partition("/")[0] for path in status.unexpected} == {"optimizer"}
        assert len(status.unexpected) >= 8
        # Nothing of it stays in memory.
        assert status._left == {}
        assert status not in objects.PENDING_RESTORES

    def test_slots_of_a_variable_that_is_not_there(self, two):
        model, optimizer = self.layers(1), pb.optimizers.Adam(0.1)
        model(np.ones((1, 3), np.float32))
        status = pb.Checkpoint(model=model, optimizer=optimizer).restore(two, partial=True)
        slots = [path for path in status.unexpected if "/slots/" in path]
        assert len(slots) == 4
        assert all("model/layers/1/" in path for path in slots)
        assert sum("/slots/" in path for path in status.restored) == 4

    def test_slots_wait_for_their_variable(self, two):
        model, optimizer = self.layers(2), pb.optimizers.Adam(0.1)
        status = pb.Checkpoint(model=model, optimizer=optimizer).restore(two)
        assert sum("/slots/" in path for path in status.waiting) == 8
        assert status.unexpected == ()
        model(np.ones((1, 3), np.float32))
        status.assert_complete()

    def test_states(self, tmp_path):
        path = pb.Checkpoint(box=Box(a=pb.Generator(1), b=pb.Generator(2))).save(tmp_path)
        box = Box(built=True, a=pb.Generator(0))
        with pytest.raises(pb.errors.CheckpointError, match="no object takes its box/b"):
            pb.Checkpoint(box=box).restore(path)
        status = pb.Checkpoint(box=box).restore(path, partial=True)
        assert (status.restored, status.unexpected) == (("box/a",), ("box/b",))


class TestDamage:
    @pytest.fixture
    def saved(self, tmp_path):
        checkpoint = pb.Checkpoint(w=pb.Variable(np.arange(100, dtype=np.float32)), epoch=3)
        return checkpoint, Path(checkpoint.save(tmp_path)), Path(checkpoint.save(tmp_path))

    @staticmethod
    def try_to_read(path):
        try:
            return folder.read(path), ""
        except pb.errors.CheckpointError as error:
            return None, str(error)

    def test_every_bit_counts(self, saved):
        checkpoint, whole, damaged = saved
        rng = np.random.default_rng(0)
        for name in ("arrays.safetensors", "manifest.json"):
            file = damaged / name
            data = file.read_bytes()
            for place in rng.choice(len(data), 60, replace=False):
                flipped = bytearray(data)
                flipped[place] ^= 1 << int(rng.integers(8))
                file.write_bytes(flipped)
                contents, refusal = self.try_to_read(damaged)
                if contents is None:
                    assert str(damaged) in refusal
                    assert "latest_checkpoint" in refusal or "version" in refusal
                    assert pb.latest_checkpoint(damaged.parent) == str(whole)
                else:
                    # White space in the manifest, or padding, has no meaning.
                    assert contents.arrays["w"].tolist() == list(range(100))
                    assert contents.data == {"epoch": 3}
            file.write_bytes(data)
        checkpoint.restore(damaged)

    @pytest.mark.parametrize("name", ["arrays.safetensors", "manifest.json"])
    @pytest.mark.parametrize("left", [0, 1, 7, 100, -1])
    def test_truncated(self, saved, name, left):
        checkpoint, whole, damaged = saved
        file = damaged / name
        file.write_bytes(file.read_bytes()[:left])
        with pytest.raises(pb.errors.CheckpointError, match=r"damaged.*latest_checkpoint"):
            checkpoint.restore(damaged)
        assert pb.latest_checkpoint(damaged.parent) == str(whole)

    @pytest.mark.parametrize("name", ["arrays.safetensors", "manifest.json"])
    def test_missing_file(self, saved, name):
        checkpoint, whole, damaged = saved
        (damaged / name).unlink()
        with pytest.raises(pb.errors.CheckpointError, match="damaged"):
            checkpoint.restore(damaged)
        assert pb.latest_checkpoint(damaged.parent) == str(whole)

    def test_missing_array(self, saved):
        checkpoint, _, damaged = saved
        folder.write(damaged, pb.Checkpoint(v=pb.Variable(1.0)).contents())
        arrays = (damaged / "arrays.safetensors").read_bytes()
        folder.write(damaged, checkpoint.contents())
        (damaged / "arrays.safetensors").write_bytes(arrays)
        with pytest.raises(pb.errors.CheckpointError, match="lacks 'w'"):
            checkpoint.restore(damaged)

    def test_nothing_is_changed_by_a_damaged_one(self, saved):
        checkpoint, _, damaged = saved
        checkpoint.w.assign(np.zeros(100, np.float32))
        checkpoint.epoch = 0
        file = damaged / "arrays.safetensors"
        file.write_bytes(file.read_bytes()[:-1] + b"x")
        with pytest.raises(pb.errors.CheckpointError):
            checkpoint.restore(damaged)
        assert not checkpoint.w.numpy().any()
        assert checkpoint.epoch == 0

    def test_later_version(self, saved):
        checkpoint, _, path = saved
        manifest = json.loads((path / "manifest.json").read_text())
        manifest["version"] = 99
        (path / "manifest.json").write_text(json.dumps(manifest))
        with pytest.raises(pb.errors.CheckpointError, match=r"version 99.*upgrade"):
            checkpoint.restore(path)

    def test_failed_write_leaves_the_old_one(self, saved, monkeypatch):
        checkpoint, _, path = saved
        before = (path / "arrays.safetensors").read_bytes()

        def full(*args):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(folder, "write_file", full)
        with pytest.raises(pb.errors.CheckpointError, match=r"could not be written.*No space"):
            checkpoint.save(path.parent, step=2)
        assert (path / "arrays.safetensors").read_bytes() == before
        assert sorted(os.listdir(path.parent)) == ["ckpt-1", "ckpt-2"]

    @pytest.mark.parametrize("stop_at", range(1, 8))
    def test_dying_at_any_call_leaves_a_whole_one(self, tmp_path, monkeypatch, stop_at):
        x = pb.Variable(1.0)
        checkpoint = pb.Checkpoint(x=x)
        checkpoint.save(tmp_path, step=1)
        x.assign(2.0)

        class Died(BaseException):
            pass

        calls = []

        def dying(function):
            def wrapped(*args, **kwargs):
                calls.append(function)
                if len(calls) == stop_at:
                    raise Died
                return function(*args, **kwargs)

            return wrapped

        monkeypatch.setattr(folder, "write_file", dying(folder.write_file))
        monkeypatch.setattr(folder, "sync", dying(folder.sync))
        monkeypatch.setattr(Path, "rename", dying(Path.rename))
        monkeypatch.setattr(shutil, "rmtree", dying(shutil.rmtree))
        died = True
        try:
            checkpoint.save(tmp_path, step=1)
            died = False
        except Died:
            pass
        monkeypatch.undo()
        latest = pb.latest_checkpoint(tmp_path)
        assert latest == str(tmp_path / "ckpt-1")
        other = pb.Variable(0.0)
        pb.Checkpoint(x=other).restore(latest)
        assert float(other) in ((1.0, 2.0) if died else (2.0,))
        checkpoint.save(tmp_path, step=1)
        assert os.listdir(tmp_path) == ["ckpt-1"]


ANOTHER_BACKEND = """
import sys, warnings
import array_api_strict as xp
import numpy as np
import pullback as pb
from pullback import array_api, dtypes

warnings.simplefilter("ignore")

class Another(pb.Backend):
    name = "another"
    dtypes = {d: getattr(xp, d.name) for d in dtypes.ALL if hasattr(xp, d.name)}
    kernels = array_api.kernels(xp)

    def from_host(self, array, device, *, copy):
        return xp.asarray(array, copy=copy or None)

    def to_host(self, array):
        return np.asarray(array)

pb.register_backend(Another())
first, second, folder = sys.argv[1:]

def make():
    model = pb.Sequential([pb.layers.Dense(4, activation="tanh"), pb.layers.Dense(1)])
    return model, pb.optimizers.Adam(0.1)

def train(model, optimizer):
    x = np.linspace(-1, 1, 10, dtype=np.float32).reshape(5, 2)
    return [
        float(optimizer.minimize(lambda: pb.losses.mean_squared_error(np.ones((5, 1)), model(x))))
        for _ in range(3)
    ]

pb.random.seed(0)
with pb.device(first):
    model, optimizer = make()
    train(model, optimizer)
    path = pb.Checkpoint(model=model, optimizer=optimizer).save(folder)
    expected = train(model, optimizer)
with pb.device(second):
    model, optimizer = make()
    status = pb.Checkpoint(model=model, optimizer=optimizer).restore(path)
    np.testing.assert_allclose(train(model, optimizer), expected, rtol=1e-5)
    status.assert_complete()
    assert all(variable.device is pb.device(second) for variable in model.variables)
# Out of the device's block, host data go to the variables, and variables to the first input.
assert model(np.ones((1, 2))).device is pb.device(second)
dense = pb.layers.Dense(3)
assert dense(pb.ones((1, 2), device="another")).device is pb.device("another")
assert dense([[1.0, 2.0]]).device is pb.device("another")
"""


@pytest.mark.parametrize(("first", "second"), [("cpu", "another"), ("another", "cpu")])
def test_saved_on_one_backend_restored_on_another(tmp_path, first, second):
    program = [sys.executable, "-c", ANOTHER_BACKEND, first, second, str(tmp_path)]
    done = subprocess.run(program, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_restoration_that_does_not_fit_is_nobody_elses_error(tmp_path):
    def model(units):
        return pb.Sequential([pb.layers.Dense(units), pb.layers.Dense(2)])

    saved = model(4)
    saved(pb.ones((1, 3)))
    path = pb.Checkpoint(model=saved).save(tmp_path / "model")
    wrong = model(7)
    pb.Checkpoint(model=wrong).restore(path)
    with pytest.raises(pb.errors.CheckpointError, match="does not fit"):
        wrong(pb.ones((1, 3)))
    assert model(9)(pb.ones((1, 3))).shape == (1, 2)
    right = model(4)
    pb.Checkpoint(model=right).restore(path)
    np.testing.assert_array_equal(right(pb.ones((1, 3))), saved(pb.ones((1, 3))))


#: What a checkpoint may hold: makers of objects with state of each kind.
KINDS = (
    lambda: pb.Variable([1.0, 2.0]),
    lambda: pb.Generator(3),
    lambda: pb.data.Dataset.range(4).shuffle(seed=1),
    lambda: iter(pb.data.Dataset.range(4)),
    lambda: {"w": pb.Variable(1.0), "g": pb.Generator(1)},
    lambda: [pb.Variable(1.0), pb.data.Dataset.range(2)],
)


@pytest.mark.parametrize("seed", range(25))
def test_whatever_a_checkpoint_lacks_or_has_more_is_named(tmp_path, seed):
    choose = random.Random(seed)
    makers = {f"part{i}": choose.choice(KINDS) for i in range(choose.randint(1, 5))}
    saved, wanted = ([n for n in makers if choose.random() < 0.7] for _ in range(2))
    if not saved or not wanted:
        return

    def objects_of(names):
        return pb.Checkpoint(**{name: makers[name]() for name in names})

    path = objects_of(saved).save(tmp_path / "c")
    checkpoint = objects_of(wanted)
    lacking = {n for n in wanted if n not in saved}
    if lacking:
        with pytest.raises(pb.errors.CheckpointError) as caught:
            checkpoint.restore(path)
        assert {n for n in makers if n in str(caught.value)} >= lacking
    restored = checkpoint.restore(path, partial=True)
    parts = [{p.partition("/")[0] for p in ps} for ps in (restored.missing, restored.restored)]
    assert parts == [lacking, {*wanted} & {*saved}]
    if not lacking:
        assert not objects_of(wanted).restore(path).missing
