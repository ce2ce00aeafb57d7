"""Weights of other projects: by name, strict or not, in one file or several."""

from __future__ import annotations

import concurrent.futures
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
        with pytest.raises(pb.errors.CheckpointError, match=r"^layers/0 of Sequential have no var"):
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


class Encoder(pb.Model):
    """As people port them: layers in attributes, one of them unused."""

    def __init__(self):
        super().__init__()
        self.embed = pb.layers.Embedding(5, 3)
        self.blocks = [pb.layers.Dense(3) for _ in range(2)]
        self.norm = pb.layers.LayerNormalization()
        self.relu = pb.layers.Activation("relu")
        self.pooler = pb.layers.Dense(2)

    def call(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = self.relu(block(x))
        return self.norm(x)


class TestPretrained:
    @pytest.fixture
    def file(self, tmp_path):
        model = Encoder()
        model(np.zeros((1, 2), np.int32))
        model.pooler(np.zeros((1, 3), np.float32))
        arrays = {p.replace("/", "."): v.numpy() + 1 for p, v in model.named_variables.items()}
        arrays["embed.position_ids"] = np.arange(5)
        save_file(arrays, tmp_path / "model.safetensors")
        return tmp_path, arrays

    @pytest.mark.parametrize("strict", [True, False])
    def test_layers_that_are_not_built_are_named(self, file, strict):
        with pytest.raises(pb.errors.CheckpointError) as error:
            load_weights(Encoder(), file[0], strict=strict)
        message = str(error.value)
        assert message.startswith("blocks/0, blocks/1, norm, pooler of Encoder have no variables")
        assert "model(example)" in message

    def test_names_that_may_be_missing_or_unexpected(self, file):
        path, arrays = file
        model = Encoder()
        with pb.layers.uninitialized():
            model(np.zeros((1, 2), np.int32))
        with pytest.raises(pb.errors.CheckpointError, match=r"pooler of Encoder have no variables"):
            load_weights(model, path)
        with pytest.raises(pb.errors.CheckpointError, match=r"its 'embed.position_ids'; pass"):
            load_weights(model, path, ignore=["pooler.*"])
        loaded = load_weights(model, path, ignore=("pooler.*", "*.position_ids"))
        assert (loaded.missing, loaded.unexpected) == ((), ())
        assert len(loaded.loaded) == len(model.variables) == 7
        for name, variable in model.named_variables.items():
            np.testing.assert_array_equal(variable.numpy(), arrays[name.replace("/", ".")])

    def test_what_is_ignored_is_not_loaded(self, file):
        path, _ = file
        model = Encoder()
        model(np.zeros((1, 2), np.int32))
        before = model.norm.named_variables
        before = {name: variable.tolist() for name, variable in before.items()}
        loaded = load_weights(model, path, ignore=("pooler.*", "*.position_ids", "norm.*"))
        assert not any(name.startswith("norm") for name in loaded.loaded)
        after = {name: variable.tolist() for name, variable in model.norm.named_variables.items()}
        assert after == before

    def test_weights_are_read_and_converted_one_by_one(self, tmp_path, monkeypatch):
        model = {str(i): pb.Variable(np.zeros(4, np.float32)) for i in range(3)}
        save_file({str(i): np.full(4, i, np.float32) for i in range(3)}, tmp_path / "w.safetensors")
        events = []
        assign = pb.Variable.assign

        def watched(variable, value):
            events.append("assign")
            return assign(variable, value)

        def convert(path, array):
            events.append("convert")
            return array

        monkeypatch.setattr(pb.Variable, "assign", watched)
        load_weights(model, tmp_path / "w.safetensors", convert=convert)
        assert events == ["convert"] * 3 + ["convert", "assign"] * 3
        assert [v.tolist()[0] for v in model.values()] == [0, 1, 2]

    def test_without_convert_nothing_is_read_that_does_not_fit(self, tmp_path, monkeypatch):
        model = {"a": pb.Variable([0.0]), "b": pb.Variable([0.0, 1.0])}
        save_file({"a": np.ones(1, "f4"), "b": np.ones(3, "f4")}, tmp_path / "w.safetensors")
        monkeypatch.setattr(pb.Variable, "assign", None)
        with pytest.raises(pb.errors.CheckpointError, match=r"b is float32\[2\], 'b' is float32"):
            load_weights(model, tmp_path / "w.safetensors")


class TestUninitialized:
    def test_random_values_are_left_out(self):
        state = pb.random.default_generator.state
        with pb.layers.uninitialized():
            layer = pb.layers.Dense(3, input_shape=(4,), kernel_initializer="orthogonal")
            norm = pb.layers.LayerNormalization()
            norm(np.ones((1, 4), np.float32))
        assert pb.random.default_generator.state == state
        assert not layer.kernel.numpy().any()
        with pb.layers.uninitialized():
            large = pb.layers.Dense(300, input_shape=(400,))
        # A view of one number.
        assert large.kernel.numpy().strides == (0, 0)
        assert [v.tolist() for v in norm.variables] == [[1.0] * 4, [0.0] * 4]
        assert pb.layers.Dense(3, input_shape=(4,)).kernel.numpy().any()

    def test_it_nests_and_is_of_one_thread(self):
        with pb.layers.uninitialized():
            with pb.layers.uninitialized():
                pass
            with concurrent.futures.ThreadPoolExecutor() as pool:
                layer = pool.submit(pb.layers.Dense, 3, input_shape=(4,)).result()
            assert layer.kernel.numpy().any()
            assert not pb.layers.Dense(3, input_shape=(4,)).kernel.numpy().any()
        assert pb.layers.Dense(3, input_shape=(4,)).kernel.numpy().any()

    def test_what_was_not_loaded_can_be_trained(self):
        with pb.layers.uninitialized():
            layer = pb.layers.Dense(3, input_shape=(4,))
        optimizer = pb.optimizers.Adam(0.1)
        with pb.GradientTape() as tape:
            loss = pb.sum((layer(np.ones((2, 4), np.float32)) - 1) ** 2)
        optimizer.apply_gradients(
            zip(tape.gradient(loss, layer.variables), layer.variables, strict=True)
        )
        np.testing.assert_allclose(layer.kernel.numpy(), 0.1, rtol=1e-4)
