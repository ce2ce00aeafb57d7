"""Record files that nobody would write: what is wrong with them is said, with the file's name."""

from __future__ import annotations

import gzip
import random
import struct
import subprocess
import sys
import textwrap
from collections import Counter

import numpy as np
import pytest
from google_crc32c import value as crc32c

import pullback as pb

Dataset = pb.data.Dataset
Feature = pb.data.Feature

#: One of each kind, so that whatever a record says meets a feature that expects something else.
FEATURES = {
    "int": Feature((), "int32"),
    "ints": Feature((3,), "int64"),
    "float": Feature(None, "float32"),
    "half": Feature((2,), "bfloat16"),
    "text": Feature((), "str"),
    "raw": Feature((), "bytes"),
    "image": Feature((2, 2), "uint8"),
    "lacking": Feature((), "bool", default=False),
}


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) & 0xFFFFFFFF) + 0xA282EAD8 & 0xFFFFFFFF


def framed(data, length=None):
    """A record whose checksums are right, whatever its length says."""
    head = struct.pack("<Q", len(data) if length is None else length)
    return head + struct.pack("<I", masked(head)) + data + struct.pack("<I", masked(data))


def example(number=0):
    return pb.data.encode_example(
        {
            "int": number, "ints": [1, -2, 2**62], "float": [0.5] * number, "half": [1.0, 2.0],
            "text": "ä", "raw": b"\0\xff", "image": np.zeros((2, 2), np.uint8).tobytes(),
        }
    )  # fmt: skip


def varint(number):
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes((*out, number))


def field(number, data):
    return varint(number << 3 | 2) + varint(len(data)) + data


# Each takes a source of random choices, and gives the bytes of a file.


def lengths(rng):
    edge = 2 ** rng.choice([0, 7, 15, 20, 31, 32, 33, 40, 53, 62, 63, 64]) + rng.randint(-3, 3)
    place = rng.choice([b"", framed(example())])
    return place + framed(example(1), min(max(edge, 0), 2**64 - 1))


def cuts(rng):
    data = framed(example(2)) + framed(example(1))
    return data[: rng.randrange(len(data))]


def wrong_checksums(rng):
    data = bytearray(framed(example(2)) + framed(example(1)))
    for _ in range(rng.randint(1, 4)):
        data[rng.randrange(len(data))] = rng.randrange(256)
    return bytes(data)


def noise(rng):
    return rng.randbytes(rng.randint(0, 60))


def changed_messages(rng):
    """A right frame around an example with bytes changed, left out, put in or repeated."""
    data = bytearray(example(2))
    for _ in range(rng.randint(1, 4)):
        place, kind = rng.randrange(len(data)), rng.randrange(4)
        if kind == 0:
            data[place] = rng.randrange(256)
        elif kind == 1:
            del data[place : place + rng.randint(1, 9)]
        elif kind == 2:
            data[place:place] = rng.randbytes(rng.randint(1, 9))
        else:
            data += data[place:]
    return framed(bytes(data))


def hostile_messages(rng):
    """Messages of the right form that say what no example does."""
    deep = b""
    for _ in range(rng.choice([10, 99, 101, 5000])):
        deep = field(rng.randint(1, 3), deep)
    group = b"\x0b" * rng.choice([1, 99, 30_000])
    kinds = [
        field(rng.randint(1, 3), rng.randbytes(rng.randint(0, 12))),
        field(1, field(1, rng.randbytes(5))) + field(2, field(1, rng.randbytes(4))),  # two kinds
        field(3, field(1, b"\xff" * 12)),  # a number that does not end
        field(2, field(1, b"\0" * rng.randint(1, 9))),  # floats cut off
        varint(1 << 3 | 2) + varint(2 ** rng.choice([31, 32, 63, 64])),  # longer than there is
        deep,
        group,
        b"",
    ]
    name = rng.choice([*(n.encode() for n in FEATURES), b"\xff\xfe", b"", b"\0", b"x" * 70_000])
    entry = field(1, name) + field(2, rng.choice(kinds))
    message = field(1, field(1, entry) * rng.choice([1, 2, 30]))
    if rng.random() < 0.5:
        message = example(2) + message
    return framed(rng.choice([message, message, deep, group]))


KINDS = (lengths, cuts, wrong_checksums, noise, changed_messages, hostile_messages)


def read_ahead(dataset):
    return list(dataset.map(lambda x: x, parallel=2).prefetch(1))


def outcome(read, dataset):
    try:
        read(dataset)
    except pb.errors.DataError as error:
        return "refused" if "crafted.tfrecord, piece " in str(error) else f"unnamed: {error}"
    return "read"


@pytest.mark.parametrize("compression", [None, "gzip"])
@pytest.mark.parametrize("kind", KINDS)
def test_mutations(tmp_path, kind, compression):
    rng = random.Random(kind.__name__)
    path = tmp_path / "crafted.tfrecord"
    seen = Counter()
    for number in range(100):
        data = kind(rng)
        if compression:
            data = gzip.compress(data)
            if number % 4 == 0:  # what is packed is damaged as well
                place = rng.randrange(len(data))
                data = data[:place] + rng.choice([b"", rng.randbytes(9)]) + data[place + 9 :]
        path.write_bytes(data)
        for features in (None, FEATURES):
            for read in (list, read_ahead):
                dataset = Dataset.from_tfrecord(path, features, compression=compression)
                seen[outcome(read, dataset)] += 1
    assert set(seen) <= {"read", "refused"}, seen
    assert seen["refused"] > 50, seen


@pytest.mark.parametrize("compression", [None, "gzip"])
@pytest.mark.parametrize("power", [24, 33, 62, 63, 64])
def test_lengths_that_no_file_has(tmp_path, power, compression):
    path = tmp_path / "long.tfrecord"
    length = 2**power - 1
    data = framed(b"one") + framed(b"two", length)
    path.write_bytes(gzip.compress(data) if compression else data)
    iterator = iter(Dataset.from_tfrecord(path, compression=compression))
    assert next(iterator) == b"one"
    with pytest.raises(
        pb.errors.DataError,
        match=rf"long\.tfrecord, piece 1 \(at byte 19\) is cut off: it has {length} bytes, the "
        r"file 7;",
    ):
        next(iterator)


@pytest.mark.parametrize("compression", [None, "gzip"])
def test_long_records_are_read(tmp_path, compression):
    # More than is read at a time.
    records = [bytes(range(256)) * n for n in (2**16, 2**16 + 1, 0, 2**17)]
    path = tmp_path / "large.tfrecord"
    with pb.data.TFRecordWriter(path, compression=compression) as writer:
        for record in records:
            writer.write(record)
    assert list(Dataset.from_tfrecord(path, compression=compression)) == records


@pytest.mark.parametrize("kind", ["record", "line"])
def test_a_packed_piece_that_memory_does_not_hold(tmp_path, kind):
    path = tmp_path / "bomb.gz"
    head = struct.pack("<Q", 2**40)
    with gzip.open(path, "wb", compresslevel=1) as file:
        if kind == "record":
            file.write(head + struct.pack("<I", masked(head)))
        for _ in range(12):
            file.write(bytes(2**24))
    program = f"""
        import resource
        import pullback as pb

        make = pb.data.Dataset.{"from_tfrecord" if kind == "record" else "from_text_lines"}
        data = make({str(path)!r}, compression="gzip")
        iterator = iter(data)
        with open("/proc/self/statm") as file:
            used = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + 2**27, -1))
        try:
            next(iterator)
        except pb.errors.DataError as error:
            print(error)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert "bomb.gz, piece 0 (at byte 0) does not fit into memory" in done.stdout, done.stderr
