"""Weights of other projects: by name, strict or not, in one file or several."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

import pullback as pb
from pullback.checkpoint import load_weights, save_weights


def make():
    model = pb.Sequential([pb.layers.Dense(2), pb.layers.Dense(1)])
    model(np.ones((1, 3), np.float32))
    return model


def other_project(**more):
    """Weights as another project writes them: other names, matrices the other way round."""
    rng = np.random.default_rng(0)
    return {
        "fc1.weight": rng.standard_normal((2, 3), np.float32),
        "fc1.bias": rng.standard_normal(2, np.float32),
        "fc2.weight": rng.standard_normal((1, 2), np.float32),
        "fc2.bias": rng.standard_normal(1, np.float32),
        **more,
    }


NAMES = {
    "layers/0/kernel": "fc1.weight",
    "layers/0/bias": "fc1.bias",
    "layers/1/kernel": "fc2.weight",
    "layers/1/bias": "fc2.bias",
}


def renamed(path):
    _, number, kind = path.split("/")
    return f"fc{int(number) + 1}.{'weight' if kind == 'kernel' else 'bias'}"


def turned(path, array):
    return array.T if path.endswith("kernel") else array


def values(model):
    return {path: v.numpy().tolist() for path, v in model.named_variables.items()}


class TestLoading:
    @pytest.mark.parametrize("names", [NAMES, renamed])
    def test_by_name(self, tmp_path, names):
        model, weights = make(), other_project()
        save_file(weights, tmp_path / "model.safetensors")
        for path in (tmp_path / "model.safetensors", tmp_path, str(tmp_path)):
            loaded = load_weights(model, path, names=names, convert=turned)
            assert loaded == (tuple(NAMES), (), ())
        x = np.ones((1, 3), np.float32)
        expected = (x @ weights["fc1.weight"].T + weights["fc1.bias"]) @ weights["fc2.weight"].T
        np.testing.assert_allclose(model(x), expected + weights["fc2.bias"], rtol=1e-5)

    def test_paths_with_dots_without_names(self, tmp_path):
        model, other = make(), make()
        save_weights(model, tmp_path / "w.safetensors")
        assert sorted(load_file(tmp_path / "w.safetensors")) == [
            "layers.0.bias", "layers.0.kernel", "layers.1.bias", "layers.1.kernel",
        ]  # fmt: skip
        load_weights(other, tmp_path / "w.safetensors")
        assert values(other) == values(model)

    def test_strict_lists_both_ways_and_changes_nothing(self, tmp_path):
        model, weights = make(), other_project(extra=np.zeros(1), head=np.zeros(2))
        del weights["fc1.bias"], weights["fc2.weight"]
        save_file(weights, tmp_path / "w.safetensors")
        before = values(model)
        with pytest.raises(pb.errors.CheckpointError) as caught:
            load_weights(model, tmp_path / "w.safetensors", names=NAMES, convert=turned)
        message = str(caught.value)
        assert "no weights for layers/0/bias ('fc1.bias'), layers/1/kernel" in message
        assert "no variable takes its 'extra', 'head'" in message
        assert "strict=False" in message
        assert values(model) == before
        loaded = load_weights(
            model, tmp_path / "w.safetensors", names=NAMES, convert=turned, strict=False
        )
        assert loaded.loaded == ("layers/0/kernel", "layers/1/bias")
        assert loaded.missing == ("layers/0/bias ('fc1.bias')", "layers/1/kernel ('fc2.weight')")
        assert loaded.unexpected == ("extra", "head")
        assert model.layers[0].bias.tolist() == before["layers/0/bias"]

    @pytest.mark.parametrize("strict", [True, False])
    def test_shapes_must_fit(self, tmp_path, strict):
        model, weights = make(), other_project()
        save_file(weights, tmp_path / "w.safetensors")
        before = values(model)
        with pytest.raises(pb.errors.CheckpointError) as caught:
            load_weights(model, tmp_path / "w.safetensors", names=NAMES, strict=strict)
        message = str(caught.value)
        assert "layers/0/kernel is float32[3, 2], 'fc1.weight' is float32[2, 3]" in message
        assert "layers/1/kernel is float32[2, 1], 'fc2.weight' is float32[1, 2]" in message
        assert "convert" in message
        assert values(model) == before

    def test_a_variable_that_is_left_out_keeps_its_value(self, tmp_path):
        model, weights = make(), other_project()
        save_file(weights, tmp_path / "w.safetensors")
        before = values(model)
        names = {**NAMES, "layers/1/kernel": None, "layers/1/bias": None}
        loaded = load_weights(
            model, tmp_path / "w.safetensors", names=names, convert=turned, strict=False
        )
        assert loaded.missing == ()
        assert loaded.unexpected == ("fc2.bias", "fc2.weight")
        assert model.layers[1].kernel.tolist() == before["layers/1/kernel"]

    def test_one_weight_for_several_variables(self, tmp_path):
        model = {"a": pb.Variable([0.0]), "b": pb.Variable([0.0])}
        save_file({"shared": np.asarray([3.0], np.float32)}, tmp_path / "w.safetensors")
        load_weights(model, tmp_path / "w.safetensors", names={"a": "shared", "b": "shared"})
        assert [v.tolist() for v in model.values()] == [[3.0], [3.0]]

    @pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
    def test_floats_are_converted(self, tmp_path, dtype):
        v = pb.Variable([1.0, 2.0])
        array = pb.asarray([0.5, -3.0], dtype=dtype).numpy()
        save_file({"v": array}, tmp_path / "w.safetensors")
        load_weights({"v": v}, tmp_path / "w.safetensors")
        assert v.dtype == pb.float32
        assert v.tolist() == [0.5, -3.0]

    def test_other_kinds_are_not(self, tmp_path):
        for variable, array in (
            (pb.Variable([1.0]), np.asarray([1])),
            (pb.Variable([1]), np.asarray([1.0])),
            (pb.Variable([1]), np.asarray([1], np.int64)),
        ):
            save_file({"v": array}, tmp_path / "w.safetensors")
            with pytest.raises(pb.errors.CheckpointError, match="these do not fit: v is"):
                load_weights({"v": variable}, tmp_path / "w.safetensors")

    def test_models_that_are_not_built(self, tmp_path):
        save_file(other_project(), tmp_path / "w.safetensors")
        model = pb.Sequential([pb.layers.Dense(2)])
        with pytest.raises(pb.errors.CheckpointError, match="Sequential has no variables; call"):
            load_weights(model, tmp_path / "w.safetensors")
        with pytest.raises(pb.errors.CheckpointError, match="Sequential has no variables; call"):
            save_weights(model, tmp_path / "w.safetensors")

    def test_names_of_no_variable(self, tmp_path):
        save_file(other_project(), tmp_path / "w.safetensors")
        with pytest.raises(pb.errors.CheckpointError, match=r"no variable layers/7/kernel; there"):
            load_weights(make(), tmp_path, names={"layers/7/kernel": "x"})


class TestSaving:
    def test_names_and_convert(self, tmp_path):
        model, weights = make(), other_project()
        save_file(weights, tmp_path / "w.safetensors")
        load_weights(model, tmp_path / "w.safetensors", names=NAMES, convert=turned)
        path = tmp_path / "new" / "back.safetensors"
        save_weights(model, path, names=renamed, convert=turned, metadata={"format": "pt"})
        back = load_file(path)
        assert sorted(back) == sorted(weights)
        assert all(np.array_equal(back[name], weights[name]) for name in weights)
        with safe_open(path, "np") as file:
            assert file.metadata() == {"format": "pt"}
        assert os.listdir(path.parent) == ["back.safetensors"]

    def test_faults(self, tmp_path):
        path = tmp_path / "w.safetensors"
        two = {"a": pb.Variable(1.0), "b": pb.Variable(2.0)}
        with pytest.raises(pb.errors.CheckpointError, match="'x' is the name of b and of another"):
            save_weights(two, path, names=lambda place: "x")
        with pytest.raises(pb.errors.CheckpointError, match="c is complex64, which safetensors"):
            save_weights({"c": pb.Variable(1j)}, path)
        (tmp_path / "file").write_text("")
        with pytest.raises(pb.errors.CheckpointError, match="could not be written"):
            save_weights(two, tmp_path / "file" / "w.safetensors")
        assert os.listdir(tmp_path) == ["file"]


class TestSeveralFiles:
    @pytest.fixture
    def folder(self, tmp_path):
        """As Hugging Face's libraries write them."""
        weights = other_project()
        parts = [["fc1.weight", "fc2.bias"], ["fc1.bias", "fc2.weight"]]
        where = {}
        for number, names in enumerate(parts, 1):
            file = f"model-{number:05}-of-00002.safetensors"
            save_file({n: weights[n] for n in names}, tmp_path / file, {"format": "pt"})
            where.update(dict.fromkeys(names, file))
        index = {"metadata": {"total_size": 44}, "weight_map": where}
        (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
        return tmp_path

    def test_read(self, folder):
        for path in (folder, folder / "model.safetensors", folder / "model.safetensors.index.json"):
            model = make()
            load_weights(model, path, names=NAMES, convert=turned)
            assert model.layers[0].bias.tolist() == other_project()["fc1.bias"].tolist()

    def test_written_and_read(self, tmp_path):
        model, other = make(), make()
        path = tmp_path / "model.safetensors"
        save_weights(model, path)
        save_weights(model, path, max_bytes=12)
        index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
        assert index["metadata"]["total_size"] == 4 * (6 + 2 + 2 + 1)
        assert set(index["weight_map"].values()) == {
            f"model-{i:05}-of-00003.safetensors" for i in (1, 2, 3)
        }
        assert sorted(os.listdir(tmp_path)) == sorted(
            {*index["weight_map"].values(), "model.safetensors.index.json"}
        )
        load_weights(other, tmp_path)
        assert values(other) == values(model)
        # One file again: the index is gone, so that it is not taken for these.
        save_weights(model, path)
        assert not (tmp_path / "model.safetensors.index.json").exists()

    def test_faults(self, folder):
        def load():
            load_weights(make(), folder, names=NAMES, convert=turned)

        (folder / "model-00002-of-00002.safetensors").rename(folder / "away")
        with pytest.raises(pb.errors.CheckpointError, match=r"no file.*model-00002-of-00002"):
            load()
        save_file({"fc1.bias": np.zeros(2)}, folder / "model-00002-of-00002.safetensors")
        with pytest.raises(pb.errors.CheckpointError, match=r"the files lack 'fc2\.weight'"):
            load()
        index = folder / "model.safetensors.index.json"
        for text in ("", "[]", '{"weight_map": 3}', '{"weight_map": {"a": 3}}', "\xff"):
            index.write_text(text, encoding="latin-1")
            with pytest.raises(pb.errors.CheckpointError, match="is not an index of weights"):
                load()

    def test_an_index_names_files_beside_it_only(self, folder, tmp_path_factory):
        secret = tmp_path_factory.mktemp("elsewhere") / "secret.safetensors"
        save_file(other_project(), secret)
        index = folder / "model.safetensors.index.json"
        index.write_text(json.dumps({"weight_map": {"fc1.bias": str(secret)}}))
        with pytest.raises(pb.errors.CheckpointError, match="there is no file of weights"):
            load_weights(make(), folder, names=NAMES)


class TestDamage:
    def test_what_is_no_safetensors_file(self, tmp_path):
        path = tmp_path / "w.safetensors"
        with pytest.raises(pb.errors.CheckpointError, match="there is no file of weights"):
            load_weights(make(), path)
        for data in (b"", b"x", b"\xff" * 100):
            path.write_bytes(data)
            with pytest.raises(pb.errors.CheckpointError, match="is damaged"):
                load_weights(make(), path)

    def test_cut_off_or_with_a_damaged_header(self, tmp_path):
        path = tmp_path / "w.safetensors"
        save_weights(make(), path)
        data = path.read_bytes()
        for left in range(0, len(data), 7):
            path.write_bytes(data[:left])
            with pytest.raises(pb.errors.CheckpointError):
                load_weights(make(), path)
        header = 8 + int.from_bytes(data[:8], "little")
        model = make()
        before = values(model)
        for place in range(0, header, 3):
            flipped = bytearray(data)
            flipped[place] ^= 1 << place % 8
            path.write_bytes(flipped)
            try:
                load_weights(model, path)
            except pb.errors.CheckpointError:
                assert values(model) == before
            else:
                # White space, or the order of two arrays of one shape: the format has no checksum.
                model = make()
                before = values(model)

    def test_dtypes_that_no_tensor_has(self, tmp_path):
        path = tmp_path / "w.safetensors"
        header = json.dumps({"v": {"dtype": "F8_E4M3", "shape": [4], "data_offsets": [0, 4]}})
        path.write_bytes(len(header).to_bytes(8, "little") + header.encode() + bytes(4))
        with pytest.raises(pb.errors.CheckpointError, match="'v' is F8_E4M3, which no tensor"):
            load_weights({"v": pb.Variable([0.0] * 4)}, path)
