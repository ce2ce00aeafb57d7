"""Saved programs that are damaged, or made manually: an error that says so, and never a traceback.

A file that was changed has a wrong checksum. Whoever writes a right one can write any program, so
then the claim is another: every error is one of pullback's, and what runs gives results of the
shapes and dtypes that the program says.
"""

from __future__ import annotations

import copy
import random

import numpy as np
import pytest

import pullback as pb
from pullback._array_files import sealed, unsealed
from pullback.graph.saved.data_form import FORMAT, VERSION

X = np.random.default_rng(0).standard_normal((2, 6, 6, 1)).astype(np.float32)
SCALE = 2.0


@pytest.fixture(scope="module")
def lowered():
    pb.random.seed(0)
    model = pb.Sequential(
        [
            pb.layers.Conv2D(2, 3, activation="relu"),
            pb.layers.BatchNormalization(),
            pb.layers.Flatten(),
            pb.layers.Dense(3),
        ]
    )

    def f(batch, scale):
        y = pb.concat([model(batch["x"]) * scale, pb.zeros((2, 1))], axis=1)
        return {"y": y, "both": (pb.sum(y, axis=1), 1.5)}

    f({"x": X}, SCALE)
    return pb.function(f).lower({"x": X}, SCALE)


def places(value, path=()):
    """The path of every part of JSON, the whole first."""
    yield path
    if isinstance(value, dict):
        items = value.items()
    else:
        items = enumerate(value if isinstance(value, list) else [])
    for key, item in items:
        yield from places(item, (*path, key))


def holder(value, path):
    for key in path[:-1]:
        value = value[key]
    return value, path[-1]


OTHERS = [
    None, True, -1, 0, 3, 10**30, 1.5, "", "x0", "v0", "text", [], [0], {}, {"a": 1},
    {"$": "tuple", "value": [1]}, {"$": "device", "value": None}, {"$": "dtype", "value": "int7"},
    {"$": "graph", "value": {}}, {"$": "tensor", "value": "x0"}, {"$": "none", "value": 1},
]  # fmt: skip


def mutated(content, rng):
    """The content with one part replaced, removed, repeated, or exchanged with another."""
    content = copy.deepcopy(content)
    paths = [*places(content)][1:]
    at, key = holder(content, rng.choice(paths))
    action = rng.choice(["replace", "replace", "replace", "remove", "repeat", "exchange"])
    if action == "remove":
        del at[key]
    elif action == "repeat" and isinstance(at, list):
        at.insert(key, copy.deepcopy(at[key]))
    elif action == "exchange":
        other_path = rng.choice(paths)
        other, other_key = holder(content, other_path)
        at[key], other[other_key] = copy.deepcopy((other[other_key], at[key]))
    else:
        at[key] = copy.deepcopy(rng.choice(OTHERS))
    return content


def tensors(value):
    """The tensors in a result."""
    if isinstance(value, dict):
        return tensors([*value.values()])
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in tensors(item)]
    return [value] if isinstance(value, pb.Tensor) else []


def test_changed_parts_with_a_right_checksum(lowered, tmp_path):
    lowered.save(tmp_path / "p")
    file = tmp_path / "p" / "program.json"
    whole = unsealed(file.read_bytes(), FORMAT, VERSION)
    rng, rejected = random.Random(0), 0
    for number in range(500):
        file.write_bytes(sealed(FORMAT, VERSION, mutated(whole, rng)))
        try:
            program = pb.load_program(tmp_path / "p")
        except pb.errors.CheckpointError:
            rejected += 1
            continue
        try:
            results = [tensors(program({"x": X}, SCALE)) for _ in range(2)]
        except pb.errors.PullbackError:
            continue
        said = {(value.shape, value.dtype) for value in program.graph.outputs}
        for one, other in zip(*results, strict=True):
            assert (one.shape, one.dtype) in said, number
            assert one.numpy().tobytes() == other.numpy().tobytes(), number
    assert rejected >= 300


def test_bytes_that_were_changed(lowered, tmp_path):
    lowered.save(tmp_path / "p")
    rng = random.Random(0)
    sound = tensors(pb.load_program(tmp_path / "p")({"x": X}, SCALE))
    expected = [tensor.numpy().tobytes() for tensor in sound]
    for name in ("program.json", "arrays.safetensors"):
        file = tmp_path / "p" / name
        data = file.read_bytes()
        for _ in range(150):
            at = rng.randrange(len(data))
            part = rng.choice([b"", b"\0", b"9", b"}", bytes([data[at] ^ 1]), data[:20]])
            changed = data[:at] + part + data[at + 1 :]
            if changed == data:
                continue
            file.write_bytes(changed)
            try:
                program = pb.load_program(tmp_path / "p")
            except pb.errors.CheckpointError:
                continue
            # White space, or a byte that belongs to no array.
            found = tensors(program({"x": X}, SCALE))
            assert [t.numpy().tobytes() for t in found] == expected
        file.write_bytes(data)


@pytest.mark.parametrize("size", [0, 1, 100, -1])
@pytest.mark.parametrize("name", ["program.json", "arrays.safetensors"])
def test_files_that_were_cut_off(lowered, tmp_path, name, size):
    lowered.save(tmp_path / "p")
    file = tmp_path / "p" / name
    file.write_bytes(file.read_bytes()[:size])
    with pytest.raises(pb.errors.CheckpointError, match="cannot be loaded"):
        pb.load_program(tmp_path / "p")


def test_a_missing_file_of_arrays(lowered, tmp_path):
    lowered.save(tmp_path / "p")
    (tmp_path / "p" / "arrays.safetensors").unlink()
    with pytest.raises(pb.errors.CheckpointError, match=r"arrays\.safetensors"):
        pb.load_program(tmp_path / "p")


def change(content, *path, to):
    content = copy.deepcopy(content)
    at, key = holder(content, path)
    at[key] = to
    return content


CALL = ("graph", "calls", 0)


@pytest.mark.parametrize(
    ("path", "to", "match"),
    [
        ((*CALL, "op"), "no_such_op", "not defined here; import the module"),
        ((*CALL, "op"), "add", r"a call of add: it has other inputs or attributes than the op"),
        ((*CALL, "inputs", 0), "v5_0", "is used before it is made"),
        ((*CALL, "inputs", 1), "x0", "conv"),
        ((*CALL, "attributes", "strides"), "text", "a call of conv"),
        ((*CALL, "attributes", "strides"), 0, "a call of conv"),
        ((*CALL, "attributes", "groups"), {"$": "tuple", "value": []}, "a call of conv"),
        ((*CALL, "results", 0, "shape"), [2, 4, 4, 3], "the op's rule gives the shape"),
        ((*CALL, "results", 0, "shape"), [-2], "the shape of 'v0' is"),
        ((*CALL, "results", 0, "dtype"), "float64", "the op's rule gives the dtype float32"),
        ((*CALL, "results", 0, "dtype"), "float128", "the dtype of 'v0' is 'float128'"),
        ((*CALL, "results", 0, "name"), "x0", "'x0' is made twice"),
        ((*CALL, "results", 0, "name"), "import os", "'v0' is used before it is made"),
        ((*CALL, "results"), [], "'v0' is used before it is made"),
        (("graph", "constants", "s1"), "none", "the array of the constant 's1' is missing"),
        (("graph", "inputs", 0, "shape"), [2, 6, 6, 2], "conv"),
        (("graph", "outputs"), ["v0"], "there are 1"),
        (("result",), {"$": "output", "value": 7}, "there are 2"),
        (("arguments",), [], "its arguments are not the inputs of its graph"),
        (("name",), 3, "lacks its name"),
    ],
)
def test_what_is_wrong_is_named(lowered, tmp_path, path, to, match):
    lowered.save(tmp_path / "p")
    file = tmp_path / "p" / "program.json"
    whole = unsealed(file.read_bytes(), FORMAT, VERSION)
    assert whole["graph"]["calls"][0]["op"] == "conv"
    file.write_bytes(sealed(FORMAT, VERSION, change(whole, *path, to=to)))
    with pytest.raises(pb.errors.CheckpointError, match=match):
        pb.load_program(tmp_path / "p")


def test_cycles(lowered, tmp_path):
    lowered.save(tmp_path / "p")
    file = tmp_path / "p" / "program.json"
    whole = unsealed(file.read_bytes(), FORMAT, VERSION)
    whole["graph"]["calls"].reverse()
    file.write_bytes(sealed(FORMAT, VERSION, whole))
    with pytest.raises(pb.errors.CheckpointError, match="used before it is made"):
        pb.load_program(tmp_path / "p")


def test_json_that_is_nested_deeply(lowered, tmp_path):
    lowered.save(tmp_path / "p")
    file = tmp_path / "p" / "program.json"
    file.write_text("[" * 100_000)
    with pytest.raises(pb.errors.CheckpointError, match="cannot be loaded"):
        pb.load_program(tmp_path / "p")
