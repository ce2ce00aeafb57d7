"""Checkpoints that somebody has made, with checksums that are right: rejected, or what they say.

`pytest -m slow tests/checkpoint/test_checkpoint_hostile.py` tries every mutation; without it, a
sample.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import itertools
import json
import math
import os
import shutil
import struct

import numpy as np
import pytest

import pullback as pb
from pullback.checkpoint import folder, manifest, reading

#: What is put in the place of each part of a manifest.
OTHERS = (
    None, True, False, 0, -1, 0.5, 1e308, float("nan"), float("inf"), 10**30, 10**400, "", "x",
    "../x", "\0", ":0", ":99", "nan", [], ["x"], [1], {}, {"x": 1}, {"$": "dict"},
    {"$": "dict", "value": {}}, {"$": "array", "value": "x"}, {"$": "array", "value": [1]},
    {"$": "bytes", "value": "f"}, {"$": "float", "value": "1e5x"}, {"$": "else", "value": {}},
    {"$": [], "value": {}},
)  # fmt: skip


def sealed(content, **more):
    """A manifest with the right checksum."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return json.dumps(
        {
            "format": manifest.FORMAT,
            "version": 1,
            "sha256": hashlib.sha256(text.encode()).hexdigest(),
            "content": content,
            **more,
        }
    )


def places(value, path=()):
    """The path of every part of a manifest."""
    yield path
    if isinstance(value, dict):
        for key, item in value.items():
            yield from places(item, (*path, key))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from places(item, (*path, number))


def put(content, path, other):
    """The content with another part; the part is left out when that is `put` itself."""
    content = copy.deepcopy(content)
    if not path:
        return None if other is put else other
    inner = content
    for key in path[:-1]:
        inner = inner[key]
    if other is put:
        del inner[path[-1]]
    else:
        inner[path[-1]] = other
    return content


class State:
    """An object that takes any state."""

    def __init__(self):
        self.state = {}

    def checkpoint_state(self):
        return self.state

    def restore_state(self, state):
        self.state = dict(state)


class Objects:
    """Objects with everything that a checkpoint holds."""

    def __init__(self):
        self.kernel = pb.Variable(np.zeros((2, 3), np.float32))
        self.wave = pb.Variable(np.zeros(2, np.complex64))
        self.box = {"kernel": self.kernel, "again": [self.kernel, self.wave]}
        self.optimizer = pb.optimizers.Adam(0.1)
        self.generator, self.mean, self.state = pb.Generator(3), pb.metrics.Mean("m"), State()
        self.checkpoint = pb.Checkpoint(
            box=self.box, optimizer=self.optimizer, generator=self.generator, mean=self.mean,
            state=self.state, epoch=3, losses=[0.5, math.inf], more={"a": None},
        )  # fmt: skip
        self.parts = dict(vars(self.checkpoint))

    def fill(self):
        self.kernel.assign(np.arange(6, dtype=np.float32).reshape(2, 3))
        self.wave.assign(np.array([1 + 2j, 3], np.complex64))
        self.optimizer.minimize(lambda: (self.kernel * self.kernel).sum())
        self.mean.update(3.0)
        self.state.state = {"array": np.arange(4.0), "bytes": b"ab", "nan": math.nan, "l": [1, "x"]}

    def empty(self):
        self.kernel.assign(np.zeros((2, 3), np.float32))
        self.wave.assign(np.zeros(2, np.complex64))

    def values(self):
        return self.kernel.numpy().tobytes(), self.wave.numpy().tobytes()


class Place:
    """A folder with a good checkpoint and a bad one that is newer, and one that nobody may touch.

    What is done with the bad one ends well or with an error of ours, hides nothing, and changes
    nothing elsewhere.
    """

    def __init__(self, tmp_path):
        self.folder = tmp_path / "run"
        self.outside = tmp_path
        (tmp_path / "outside").mkdir()
        (tmp_path / "outside" / "x").write_text("x")
        self.objects = Objects()
        self.objects.fill()
        self.right = self.objects.values()
        save = self.objects.checkpoint.save
        self.good, self.bad = save(self.folder / "ckpt", step=1), save(self.folder / "ckpt", step=2)
        self.original = json.loads(self.file("manifest.json").read_text())["content"]
        self.arrays = self.file("arrays.safetensors").read_bytes()
        self.manager = pb.CheckpointManager(pb.Checkpoint(), self.folder, keep=None)
        self.tried = self.refused = 0

    def file(self, name):
        return self.folder / "ckpt-2" / name

    def craft(self, text=None, arrays=None):
        if text is not None:
            self.file("manifest.json").write_bytes(
                text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
            )
        if arrays is not None:
            self.file("arrays.safetensors").write_bytes(arrays)

    def tree(self):
        return sorted(str(path) for path in self.outside.rglob("*"))

    def attempt(self, what, same_values=True):
        """Restores, loads and looks; whether the bad one was taken."""
        before = self.tree()
        try:
            self.objects.empty()
            taken = self._restore(same_values)
            self._load(same_values)
            latest = pb.latest_checkpoint(self.folder)
            assert latest in (self.good, self.bad)
            assert latest == self.manager.latest
            folder.read(latest)
            assert self.good in self.manager.checkpoints
            assert self.manager.best in (None, self.good, self.bad)
            if not taken:
                objects = self.objects
                objects.checkpoint.restore(self.good).assert_complete()
                assert objects.values() == self.right
        except BaseException as error:
            error.add_note(f"with {what}")
            raise
        assert self.tree() == before
        self.tried += 1
        self.refused += not taken
        return taken

    def _restore(self, same_values):
        empty, said = self.objects.values(), ""
        try:
            self.objects.checkpoint.restore(self.bad, partial=True)
        except pb.errors.CheckpointError as error:
            said = str(error)
        finally:
            vars(self.objects.checkpoint).clear()
            vars(self.objects.checkpoint).update(self.objects.parts)
            self.objects.checkpoint.losses, self.objects.checkpoint.more = [0.5], {"a": None}
        if same_values:
            # By other names, some are restored, and those rightly.
            for one, zero, right in zip(self.objects.values(), empty, self.right, strict=True):
                assert one in (zero, right)
        assert not said or self.bad in said
        return not said

    def _load(self, same_values):
        box = {"kernel": pb.Variable(np.zeros((2, 3), np.float32))}
        try:
            found = pb.checkpoint.load_weights(
                box, self.file("arrays.safetensors"), names={"kernel": "box/kernel"}, strict=False
            )
        except pb.errors.CheckpointError:
            found = None
        value = box["kernel"].numpy().tobytes()
        if found is None or not found.loaded:
            assert not any(value)
        elif same_values:
            assert value == self.right[0]


@pytest.fixture
def place(tmp_path):
    found = Place(tmp_path)
    yield found
    # A writer that comes to what is there goes on.
    path = pb.CheckpointManager(pb.Checkpoint(epoch=4), found.folder, keep=1, keep_best=1).save()
    assert pb.latest_checkpoint(found.folder) == path


def mutations(content, part, parts):
    """Every part of a manifest, left out and as something else; one of so many parts of them."""
    every = ((path, other) for path in places(content) for other in (put, *OTHERS))
    return itertools.islice(every, part, None, parts)


def try_mutations(place, part, parts):
    for path, other in mutations(place.original, part, parts):
        what = "nothing" if other is put else other
        place.craft(sealed(put(place.original, path, other)))
        place.attempt((path, what))
    print(f"{place.tried} tried, {place.refused} refused")


def test_some_other_kinds(place):
    # The number has no divisor in common with that of the others.
    try_mutations(place, 0, 9)
    assert place.tried > 200
    assert place.refused > 0.5 * place.tried


@pytest.mark.campaign
@pytest.mark.parametrize("part", range(8))
def test_every_other_kind(place, part):
    try_mutations(place, part, 8)
    assert place.tried > 300


# ---------------------------------------------------------------------------------------------
# Whole manifests.


def changed(content, **parts):
    return sealed({**content, **parts})


def nested(depth, open="[", close="]"):
    return open * depth + close * depth


VERSIONS = (-1, 0, 0.5, 1.0, True, False, None, "1", [1], 10**30, 3)


@pytest.mark.parametrize("version", VERSIONS)
def test_versions(place, version):
    place.craft(sealed(place.original, version=version))
    assert not place.attempt(version)
    later = version in (3, 10**30) and type(version) is int
    with pytest.raises(pb.errors.CheckpointError, match="upgrade" if later else "its version is"):
        place.objects.checkpoint.restore(place.bad)


@pytest.mark.parametrize(
    "saved", [None, True, -1, 0.5, float("nan"), float("inf"), 2**64, 10**400, "9", [9], {}]
)
def test_times(place, saved):
    place.craft(changed(place.original, saved=saved))
    assert not place.attempt(saved)
    assert pb.latest_checkpoint(place.folder) == place.good


@pytest.mark.parametrize("saved", [0, 2**64 - 1])
def test_times_at_the_ends(place, saved):
    place.craft(changed(place.original, saved=saved))
    assert place.attempt(saved)
    assert pb.latest_checkpoint(place.folder) == (place.bad if saved else place.good)


NO_MANIFESTS = (
    b"", b"null", b"[]", b"{}", b"1", b'"x"', b"\xff\xfe", b"\xff" * 9, b"{" * 99, b"NaN",
    b'{"content": null}', b'{"content": {"saved": null}}', b'{"content": {"saved": 9}}',
    b'{"format": "pullback checkpoint"}', b'{"format": NaN}',
    b'{"format": "pullback checkpoint", "version": 1, "content": {}, "sha256": null}',
    b'{"content": {"saved": ' + b"9" * 5000 + b"}}", nested(2000).encode(),
    nested(200_000).encode(), b'{"content":' * 2000 + b"1" + b"}" * 2000,
)  # fmt: skip


def test_what_is_no_manifest(place):
    for text in NO_MANIFESTS:
        place.craft(text)
        assert not place.attempt(text[:60])


@pytest.mark.parametrize("part", ["data", "states"])
@pytest.mark.parametrize("kind", ["list", "dict"])
def test_depth(place, part, kind):
    for depth in (100, 300, 600, 900, 2000, 20_000):
        nest(place, part, kind, depth)
        assert place.attempt(depth) or depth >= 200


def nest(place, part, kind, depth):
    """Crafts a manifest in which something is nested."""
    mark = '"here"'
    text = sealed(put(place.original, (part, "epoch" if part == "data" else "state"), "here"))
    begin, end = ("[", "]") if kind == "list" else ('{"$": "dict", "value": {"a": ', "}}")
    # A checksum of what is nested so deeply cannot be taken here; of what can, it is right.
    deep = begin * depth + "1" + end * depth
    if part == "states":
        deep = f'{{"$": "dict", "value": {{"a": {deep}}}}}'
    try:
        content = json.loads(json.dumps(json.loads(text)["content"]).replace(mark, deep))
        text = sealed(content)
    except RecursionError:
        text = text.replace(mark, deep)
    place.craft(text)


@pytest.mark.parametrize("number", [5_000, pytest.param(200_000, marks=pytest.mark.slow)])
def test_many_objects(place, number):
    many = {f"box/{number}": "Box" for number in range(number)}
    place.craft(changed(place.original, objects=many))
    assert place.attempt("many objects")


@pytest.mark.parametrize(
    "aliases",
    [
        {"box/kernel": "box/kernel"},
        {"box/a": "box/b", "box/b": "box/a"},
        {"box/kernel": "box/again/0", "box/again/0": "box/kernel"},
        {"box": "box/kernel", "box/kernel": "box"},
        {"a": "a/a", "a/a": "a/a/a"},
        {"box/wave": "box/kernel"},
        {"x" * 100_000: "y"},
    ],
)
def test_aliases_in_a_circle(place, aliases):
    place.craft(changed(place.original, aliases=aliases))
    place.attempt(aliases)


NAMES = ("", "../x", "/etc/x", "\0", "a\0b", ":", "::0", "\ud800", "box/")


@pytest.mark.parametrize("part", ["arrays", "objects", "states", "data", "aliases"])
def test_names(place, part):
    for name in NAMES:
        rename(place, part, name)
        place.attempt((part, name))


def rename(place, part, name):
    """Crafts a manifest with another name in one of its parts."""
    inner = dict(place.original[part])
    first = next(iter(inner)) if inner else "x"
    inner[name] = inner.get(first, "box/kernel")
    header, data = parts_of(place.arrays)
    if part == "arrays":
        header[name] = header[first]
        data = rewritten(header, data)
    else:
        data = place.arrays
    place.craft(changed(place.original, **{part: inner}), data)


@pytest.mark.parametrize("name", ["__dict__", "__class__", "__doc__", "save", "restore", "_set"])
def test_data_called_as_what_a_checkpoint_has(place, name):
    data = {name: {"$": "dict", "value": {"save": 3, "epoch": 4}}}
    place.craft(changed(place.original, data=data))
    assert not place.attempt(name)
    checkpoint = pb.Checkpoint(epoch=0)
    with pytest.raises(pb.errors.CheckpointError, match=name):
        checkpoint.restore(place.bad, partial=True)
    assert vars(checkpoint) == {"epoch": 0}


def test_a_class_of_ones_own_may_have_defaults(tmp_path):
    class Mine(pb.Checkpoint):
        epoch = 0

    checkpoint = Mine()
    checkpoint.epoch = 4
    path = checkpoint.save(tmp_path)
    again = Mine()
    again.restore(path)
    assert again.epoch == 4


def test_a_state_that_its_object_does_not_take_names_it(place):
    place.craft(changed(place.original, states={"generator": {"$": "dict", "value": {}}}))
    with pytest.raises(pb.errors.CheckpointError, match=r"ckpt-2.* of generator: KeyError: 'key'"):
        place.objects.checkpoint.restore(place.bad, partial=True)


def test_errors_of_ours_stay_what_they_are(tmp_path):
    class Refusing(State):
        def restore_state(self, state):
            raise pb.errors.DataError("not mine")

    checkpoint = pb.Checkpoint(state=Refusing())
    with pytest.raises(pb.errors.DataError, match="not mine"):
        checkpoint.restore(checkpoint.save(tmp_path))


# ---------------------------------------------------------------------------------------------
# Arrays.


def parts_of(arrays):
    size = struct.unpack_from("<Q", arrays)[0]
    return json.loads(arrays[8 : 8 + size]), arrays[8 + size :]


def rewritten(header, data, size=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if size is None else size) + text + data


def agreeing(place, header, data):
    """The manifest that says of each array what the header does, with its bytes' checksum."""
    arrays = {}
    for name, said in place.original["arrays"].items():
        arrays[name] = dict(said)
        try:
            begin, end = header[name]["data_offsets"]
            arrays[name]["sha256"] = hashlib.sha256(data[begin:end]).hexdigest()
            if said["dtype"] != "complex64":
                arrays[name]["shape"] = header[name]["shape"]
        except (KeyError, TypeError, ValueError):
            pass
    return changed(place.original, arrays=arrays)


OFFSETS = (
    [0, 0], [0, 1], [0, 24], [1, 25], [4, 28], [24, 0], [-24, 0], [0, 2**63], [2**64 - 24, 2**64],
    [10**30, 10**30 + 24], [0.0, 24.0], ["0", "24"], [None, None], [], [0], [0, 24, 48], None, True,
)  # fmt: skip
SHAPES = (
    [], [6], [3, 2], [2, 3, 1], [2**63], [2**32, 2**32], [2**63, 2], [-2, -3], [2.0, 3.0], [True],
    ["2", "3"], [0], [2**62, 0], [1] * 100, None, "x", {},
)  # fmt: skip
DTYPES = (
    "F64", "F16", "I32", "I8", "BOOL", "F8_E4M3", "F8_E5M2", "F4", "C64", "x", "", None, 5, [],
)  # fmt: skip
HEADERS = (
    b"", b"{", b"{}", b"null", b"[]", b"1", b"\xff\xff", b'{"a":{}}', b" " * 40, b"{}" + b" " * 99,
    b'{"__metadata__": 5}', b'{"__metadata__": {"a": 5}}', b'{"__metadata__": null}',
    b'{"x":' * 2000 + b"1" + b"}" * 2000, nested(100_000).encode(),
    b'{"box/kernel": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, '
    b'"box/kernel": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}}',
)  # fmt: skip
SIZES = (0, 1, 7, 2**31, 2**63, 2**64 - 1, 100_000_001)


def hostile_headers(place):
    header, data = parts_of(place.arrays)
    for name in header:
        for part, others in (("data_offsets", OFFSETS), ("shape", SHAPES), ("dtype", DTYPES)):
            for other in others:
                yield put(header, (name, part), other), data, None
            yield put(header, (name, part), put), data, None
        for other in (None, 1, "x", [], {}):
            yield put(header, (name,), other), data, None
        yield put(header, (name,), put), data, None
    names = list(header)
    for one in names:
        # Arrays that lie over one another, and in each other's place.
        for other in names:
            if one != other:
                offsets = header[other]["data_offsets"]
                yield put(header, (one, "data_offsets"), offsets), data, None
    for text in HEADERS:
        yield text, data, None
        yield text, b"", None
    for size in SIZES:
        yield header, data, size
    for other in (b"", data[:-1], data + b"x", data * 2):
        yield header, other, None


def try_headers(place, share):
    rng = np.random.default_rng(1)
    for header, data, size in hostile_headers(place):
        if rng.random() >= share:
            continue
        crafted = rewritten(header, data, size)
        what = (str(header)[:300], len(data), size)
        place.craft(sealed(place.original), crafted)
        place.attempt(what)
        if isinstance(header, dict):
            # What lies elsewhere is what the file says, and the manifest with it.
            place.craft(agreeing(place, header, data))
            place.attempt((what, "agreeing"), same_values=False)
    print(f"{place.tried} tried, {place.refused} refused")


def test_some_headers(place):
    try_headers(place, 0.15)
    assert place.tried > 60


@pytest.mark.campaign
def test_every_header(place):
    try_headers(place, 1.1)
    assert place.tried > 500


# ---------------------------------------------------------------------------------------------
# Indexes of weights, and one bad folder among good ones.


@pytest.mark.parametrize(
    "index",
    [
        b"", b"null", b"[]", b"{}", b"{", b"\xff", b'{"weight_map": null}', b'{"weight_map": []}',
        b'{"weight_map": {"kernel": 5}}', b'{"weight_map": {"kernel": null}}',
        b'{"weight_map": {"kernel": ["x"]}}', b'{"weight_map": {"kernel": ""}}',
        b'{"weight_map": {"kernel": ".."}}', b'{"weight_map": {"kernel": "a\\u0000b"}}',
        b'{"weight_map": {"kernel": "../outside/x"}}',
        b'{"weight_map": {"kernel": "/etc/passwd"}}',
        b'{"weight_map": {"kernel": "\\ud800"}}',
        b'{"weight_map":' + nested(100_000).encode() + b"}",
        b'{"weight_map": {"kernel": "' + b"x" * 300 + b'"}}',
    ],
)  # fmt: skip
def test_indexes(tmp_path, index):
    file = tmp_path / "model.safetensors.index.json"
    file.write_bytes(index)
    box = {"kernel": pb.Variable(np.zeros(2))}
    for path in (file, tmp_path, tmp_path / "model.safetensors"):
        with contextlib.suppress(pb.errors.CheckpointError):
            assert not pb.checkpoint.load_weights(box, path, strict=False).loaded
    assert os.listdir(tmp_path) == [file.name]


def test_one_bad_folder_hides_no_good_one(place):
    bad = []
    for number, (path, other) in enumerate(mutations(place.original, 0, 97), 10):
        shutil.copytree(place.bad, place.folder / f"ckpt-{number}")
        text = sealed(put({**place.original, "saved": 2**62}, path, other))
        (place.folder / f"ckpt-{number}" / "manifest.json").write_text(text)
        try:
            folder.read(place.folder / f"ckpt-{number}")
        except pb.errors.CheckpointError:
            bad.append(number)
        else:
            shutil.rmtree(place.folder / f"ckpt-{number}")
    assert len(bad) > 20
    path = pb.Checkpoint(epoch=1).save(place.folder, step=3)
    assert pb.latest_checkpoint(place.folder) == place.manager.latest == path
    assert place.manager.best is None
    assert reading.metric(place.folder / "ckpt-3") is None
