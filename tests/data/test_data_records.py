"""TFRecord files: against another writer, by the letter of the format, and damaged ones."""

from __future__ import annotations

import gzip
import random
import struct

import numpy as np
import pytest
from google_crc32c import value as crc32c

import pullback as pb

Dataset = pb.data.Dataset
Feature = pb.data.Feature


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) & 0xFFFFFFFF) + 0xA282EAD8 & 0xFFFFFFFF


def framed(data):
    """A record, as the documentation of the format has it."""
    length = struct.pack("<Q", len(data))
    return length + struct.pack("<I", masked(length)) + data + struct.pack("<I", masked(data))


RECORDS = [b"", b"one", b"\0" * 1000, bytes(range(256))]


@pytest.fixture(params=[None, "gzip"])
def compression(request):
    return request.param


@pytest.fixture
def file(tmp_path, compression):
    path = tmp_path / "some.tfrecord"
    with pb.data.TFRecordWriter(path, compression=compression) as writer:
        for record in RECORDS:
            writer.write(record)
    return path


class TestFraming:
    def test_checksum_of_the_standard(self):
        # RFC 3720, B.4, gives these for CRC-32C.
        assert crc32c(bytes(32)) == 0x8A9136AA
        assert crc32c(bytes(range(32))) == 0x46DD794E

    def test_written_by_the_letter(self, file, compression):
        data = file.read_bytes()
        assert (gzip.decompress(data) if compression else data) == b"".join(map(framed, RECORDS))

    def test_read(self, file, compression):
        assert list(Dataset.from_tfrecord(file, compression=compression)) == RECORDS
        both = Dataset.from_tfrecord([file, file], compression=compression)
        assert list(both) == RECORDS * 2
        (batch,) = both.batch(9)
        assert batch.tolist() == RECORDS * 2

    def test_position(self, file, compression):
        def make():
            return Dataset.from_tfrecord([file, file], compression=compression).shuffle(3, seed=1)

        expected = list(make())
        for position in range(len(expected) + 1):
            with iter(make()) as iterator:
                before = [next(iterator) for _ in range(position)]
                state = iterator.checkpoint_state()
            other = iter(make())
            other.restore_state(state)
            assert before + list(other) == expected

    def test_of_another_writer(self, tmp_path):
        from tensorboardX.record_writer import RecordWriter

        writer = RecordWriter(str(tmp_path / "other"))
        for record in RECORDS:
            writer.write(record)
        writer.close()
        assert list(Dataset.from_tfrecord(tmp_path / "other")) == RECORDS


class TestDamage:
    def read(self, path, data):
        path.write_bytes(data)
        return list(Dataset.from_tfrecord(path))

    def test_every_bit_counts(self, tmp_path):
        path = tmp_path / "damaged.tfrecord"
        data = framed(b"one") + framed(b"twice")
        for place in range(len(data)):
            for bit in range(8):
                flipped = bytearray(data)
                flipped[place] ^= 1 << bit
                with pytest.raises(pb.errors.DataError, match=r"damaged\.tfrecord, piece [01] "):
                    self.read(path, bytes(flipped))

    def test_cut_off(self, tmp_path):
        path = tmp_path / "short.tfrecord"
        data = framed(b"one") + framed(b"twice")
        for left in range(1, len(data)):
            if left != len(framed(b"one")):
                with pytest.raises(pb.errors.DataError, match=r"short\.tfrecord.*is cut off"):
                    self.read(path, data[:left])

    def test_elements_before_the_damage_are_given(self, tmp_path):
        path = tmp_path / "late.tfrecord"
        path.write_bytes(framed(b"one") + framed(b"two")[:-1])
        iterator = iter(Dataset.from_tfrecord(path).prefetch(4))
        assert next(iterator) == b"one"
        with pytest.raises(pb.errors.DataError, match=r"piece 1 \(at byte 19\) is cut off"):
            next(iterator)

    def test_packed_and_not_said(self, tmp_path):
        path = tmp_path / "packed"
        with pytest.raises(
            pb.errors.DataError, match=r"not a TFRecord; .* pass compression='gzip'"
        ):
            self.read(path, gzip.compress(framed(b"one")))
        path.write_bytes(framed(b"one"))
        with pytest.raises(pb.errors.DataError, match=r"packed, piece 0 .*cannot be read"):
            list(Dataset.from_tfrecord(path, compression="gzip"))
        path.write_bytes(gzip.compress(framed(bytes(range(256))))[:-20])
        with pytest.raises(pb.errors.DataError, match=r"packed, piece 0 .*cannot be read"):
            list(Dataset.from_tfrecord(path, compression="gzip"))


class TestExamples:
    def test_by_the_letter(self):
        # Example{features{feature{key:"a" value{int64_list{value:[1,300]}}}}}, by hand: each part
        # is a tag (field number << 3 | wire type) and a length.
        ints = b"\x0a\x03\x01\xac\x02"
        feature = b"\x1a" + bytes([len(ints)]) + ints
        entry = b"\x0a\x01a\x12" + bytes([len(feature)]) + feature
        features = b"\x0a" + bytes([len(entry)]) + entry
        record = b"\x0a" + bytes([len(features)]) + features
        assert pb.data.encode_example({"a": [1, 300]}) == record
        assert pb.data.decode_example(record)["a"].tolist() == [1, 300]

    def test_kinds(self):
        found = pb.data.decode_example(
            pb.data.encode_example({
                "int": 3, "bool": True, "floats": [0.5, 1.5], "array": np.ones((2, 2), np.int8),
                "text": "ä", "texts": ["a", "b"], "bytes": b"\0\xff\0", "tensor": pb.ones(2),
                "half": pb.asarray([1.5], dtype="bfloat16"), "negative": -(2**63),
            })
        )  # fmt: skip
        assert {name: getattr(v, "tolist", lambda v=v: v)() for name, v in found.items()} == {
            "int": [3], "bool": [1], "floats": [0.5, 1.5], "array": [1, 1, 1, 1],
            "text": ["ä".encode()], "texts": [b"a", b"b"], "bytes": [b"\0\xff\0"],
            "tensor": [1.0, 1.0], "half": [1.5], "negative": [-(2**63)],
        }  # fmt: skip
        assert found["floats"].dtype == np.float32
        with pytest.raises(pb.errors.InputTypeError, match=r"must be numbers, .* for 'z'"):
            pb.data.encode_example({"z": 1j})

    def test_features(self, tmp_path, compression):
        images = np.arange(24, dtype=np.uint8).reshape(3, 2, 4)
        path = tmp_path / "images.tfrecord"
        with pb.data.TFRecordWriter(path, compression=compression) as writer:
            for i, image in enumerate(images):
                writer.write(pb.data.encode_example({
                    "image": image.tobytes(), "label": i, "name": f"nr. {i}", "raw": b"\0",
                    "ragged": np.ones(i, np.float32), "unused": 0,
                }))  # fmt: skip
        features = {
            "image": Feature((2, 4), "uint8"),
            "label": Feature((), "int32"),
            "name": Feature((), "str"),
            "raw": Feature((), "bytes"),
            "ragged": Feature(None, "float32"),
            "lacking": Feature((2,), "float32", default=[1.0, 2.0]),
        }
        dataset = Dataset.from_tfrecord(path, features, compression=compression)
        first = next(iter(dataset))
        assert list(first) == list(features)
        assert first["image"].dtype == pb.uint8
        assert first["label"].dtype == pb.int32
        (batch,) = dataset.padded_batch(3)
        assert batch["image"].numpy().tolist() == images.tolist()
        assert batch["label"].tolist() == [0, 1, 2]
        assert batch["name"].tolist() == ["nr. 0", "nr. 1", "nr. 2"]
        assert batch["raw"].tolist() == [b"\0"] * 3
        assert batch["ragged"].tolist() == [[0, 0], [1, 0], [1, 1]]
        assert batch["lacking"].tolist() == [[1.0, 2.0]] * 3

    @pytest.mark.parametrize(
        ("feature", "message"),
        [
            (Feature((3,), "int64"), r"'x' has 2 values, expected the shape \(3,\) of int64"),
            (Feature((2,), "str"), "'x' holds int64, not str"),
        ],
    )
    def test_what_does_not_fit(self, tmp_path, feature, message):
        path = tmp_path / "records"
        with pb.data.TFRecordWriter(path) as writer:
            writer.write(pb.data.encode_example({"x": [1, 2]}))
        with pytest.raises(pb.errors.DataError, match=f"records, piece 0.*{message}"):
            list(Dataset.from_tfrecord(path, {"x": feature}))
        with pytest.raises(pb.errors.DataError, match="feature 'y' is missing; give its Feature"):
            list(Dataset.from_tfrecord(path, {"y": feature}))

    def test_bytes_that_are_no_array_or_text(self, tmp_path):
        path = tmp_path / "records"
        with pb.data.TFRecordWriter(path) as writer:
            writer.write(pb.data.encode_example({"x": b"\xff\xff\xff"}))
        for feature, message in (
            (Feature(None, "int16"), "do not fill an array of int16"),
            (Feature((), "str"), "not UTF-8"),
        ):
            with pytest.raises(pb.errors.DataError, match=message):
                list(Dataset.from_tfrecord(path, {"x": feature}))

    def test_what_is_no_example(self, tmp_path):
        path = tmp_path / "records"
        with pb.data.TFRecordWriter(path) as writer:
            writer.write(b"\xff\xff\xff")
        with pytest.raises(pb.errors.DataError, match=r"piece 0.*not a tf\.train\.Example"):
            list(Dataset.from_tfrecord(path, {"x": Feature((), "str")}))


def test_examples_have_the_same_bytes_in_any_order():
    names = [f"feature {i}" for i in range(12)]
    values = dict.fromkeys(names, 1) | {"text": "x", "numbers": [1.0, 2.0]}
    keys = list(values)
    written = set()
    for seed in range(10):
        random.Random(seed).shuffle(keys)
        written.add(pb.data.encode_example({key: values[key] for key in keys}))
    assert len(written) == 1
