"""Random pipelines of all sources and stages, resumed at every position, pickled and copied.

Each is compared with the undisturbed run of the same pipeline, bit for bit: the rest of the
elements, their kinds, and the error in the place of an element, if there is one. A pipeline that is
resumed is made anew for each run, as a program that begins again does.
"""

from __future__ import annotations

import copy
import functools
import gzip
import json
import pickle
import random
import time

import numpy as np
import pytest

import pullback as pb
from pullback.data.elements import as_tensors
from pullback.data.source import Cursor

Dataset = pb.data.Dataset

#: The number of elements that are looked at, and the number of pipelines of a quick run.
LIMIT = 12
QUICK = 40


# ---------------------------------------------------------------------------------------------
# Functions of elements, and iterables of other libraries.


def changed(element, by):
    if isinstance(element, tuple):
        return tuple(changed(item, by) for item in element)
    return element * 3 + by if isinstance(element, pb.Tensor) else element


def number(element):
    """A number that depends on every part of an element."""
    if isinstance(element, tuple):
        return sum(map(number, element))
    if isinstance(element, pb.Tensor):
        return int(np.asarray(element).astype(np.int64).sum())
    return sum(map(len, element if isinstance(element, pb.StringTensor) else [element]))


def shifted(*parts):
    return changed(parts if len(parts) > 1 else parts[0], 1)


def noisy(*parts, generator):
    noise = int(generator.integers((), 0, 1000))
    return changed(parts if len(parts) > 1 else parts[0], noise)


def uneven(*parts):
    return number(parts) % 3 != 1


def several(*parts):
    """A dataset with choices of its own for each element."""
    of = number(parts)
    return Dataset.range(of % 4).map(lambda x: x + 100 * of).shuffle(2, seed=of % 7)


def rows(*parts):
    return np.arange(number(parts) % 4)


def ragged(size):
    return [[i] * (i % 3) for i in range(size)]


def parts_of(example):
    return example["n"], example["name"]


def bytes_of(record):
    return np.frombuffer(record, np.uint8)


class Stateful:
    """Numbers with a position that can be set, as grain's loaders have it."""

    def __init__(self, size):
        self.size = size

    def __iter__(self):
        return StatefulIterator(self.size)


class StatefulIterator:
    def __init__(self, size):
        self.size, self.at = size, 0

    def __iter__(self):
        return self

    def __next__(self):
        if self.at >= self.size:
            raise StopIteration
        self.at += 1
        return self.at

    def get_state(self):
        return {"at": self.at}

    def set_state(self, state):
        self.at = state["at"]


class Sequence:
    def __init__(self, size):
        self.size = size

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        if index >= self.size:
            raise IndexError(index)
        return 10 * index, f"word {index}"


# ---------------------------------------------------------------------------------------------
# Pipelines.

FEATURES = {
    "n": pb.data.Feature((), "int64"),
    "name": pb.data.Feature((1,), "str", default=["none"]),
}
#: Sources by name: functions of the size and the folder with files.
SOURCES = {
    "range": lambda size, folder: Dataset.range(size),
    "slices": lambda size, folder: Dataset.from_tensor_slices(
        (np.arange(size) * 7, [f"name {i}" for i in range(size)], np.ones((size, 2)))
    ),
    "generator": lambda size, folder: Dataset.from_generator(functools.partial(range, size)),
    "lengths": lambda size, folder: Dataset.from_generator(functools.partial(ragged, size)),
    "list": lambda size, folder: Dataset.from_iterable(list(range(size))),
    "sequence": lambda size, folder: Dataset.from_iterable(Sequence(size)),
    "stateful": lambda size, folder: Dataset.from_iterable(Stateful(size)),
    "lines": lambda size, folder: Dataset.from_text_lines([folder / "a.txt", folder / "b.txt"]),
    "zipped lines": lambda size, folder: Dataset.from_text_lines(
        [folder / "a.txt.gz"], compression="gzip"
    ),
    "records": lambda size, folder: Dataset.from_tfrecord(folder / "records").map(bytes_of),
    "examples": lambda size, folder: Dataset.from_tfrecord(
        folder / "examples", FEATURES
    ).map(parts_of),
    "files": lambda size, folder: Dataset.from_files(str(folder / "*.txt")).interleave(
        Dataset.from_text_lines, cycle=2
    ),
}  # fmt: skip


def stages(random, folder):
    """The stages with random options, as pairs of a name and a function of a dataset."""
    file = folder / f"cache {random.random()}"
    few = random.randint(1, 4)
    at_once = random.randint(1, 3)
    seed = random.randrange(100)
    drop = random.random() < 0.5
    shard = random.randrange(few)
    other = random.randint(0, 9)
    return [
        (f"shuffle({few}, {seed})", lambda data: data.shuffle(few, seed=seed)),
        (f"shuffle_all({seed})", lambda data: data.shuffle(1000, seed=seed)),
        (f"repeat({at_once})", lambda data: data.repeat(at_once)),
        (f"repeat().take({2 * few})", lambda data: data.repeat().take(2 * few)),
        (f"concatenate(range({other}))", lambda data: data.concatenate(Dataset.range(other))),
        ("concatenate(itself)", lambda data: data.concatenate(data)),
        (f"zip(range({other}))", lambda data: data.zip(Dataset.range(other))),
        (f"interleave({few}, {at_once})",
         lambda data: data.interleave(several, cycle=few, block=at_once)),
        ("map", lambda data: data.map(shifted)),
        (f"map(seed={seed})", lambda data: data.map(noisy, seed=seed)),
        (f"map(parallel={at_once}, seed={seed})",
         lambda data: data.map(noisy, seed=seed, parallel=at_once)),
        ("map(rows).unbatch()", lambda data: data.map(rows).unbatch()),
        ("filter", lambda data: data.filter(uneven)),
        (f"enumerate({few})", lambda data: data.enumerate(few)),
        (f"take({3 * few})", lambda data: data.take(3 * few)),
        (f"skip({few})", lambda data: data.skip(few)),
        (f"shard({few}, {shard})", lambda data: data.shard(few, shard)),
        (f"batch({few}, {drop})", lambda data: data.batch(few, drop_remainder=drop)),
        (f"padded_batch({few}, {drop})",
         lambda data: data.padded_batch(few, drop_remainder=drop)),
        (f"batch({few}).unbatch()", lambda data: data.batch(few).unbatch()),
        (f"window({few}, {at_once}, {drop})",
         lambda data: data.window(few, shift=at_once, drop_remainder=drop)),
        (f"prefetch({few})", lambda data: data.prefetch(few)),
        ("cache", lambda data: data.cache()),
        ("cache(file)", lambda data: data.cache(file)),
    ]  # fmt: skip


class Pipeline:
    """A random pipeline. Its text says what it is."""

    def __init__(self, seed, folder):
        choose = random.Random(seed)
        self.folder = folder
        self.size = choose.choice([0, 1, 5, 12, 20, 30])
        self.source = choose.choice(sorted(SOURCES))
        self.stages = [choose.choice(stages(choose, folder)) for _ in range(choose.randint(2, 5))]
        self.passes = choose.choice([0, 0, 1])
        names = [f"{self.source}({self.size})", *(name for name, _ in self.stages)]
        self.text = f"{'.'.join(names)}, pass {self.passes}, seed {seed}"

    def dataset(self):
        data = SOURCES[self.source](self.size, self.folder)
        for _, stage in self.stages:
            data = stage(data)
        return data

    def begun(self):
        """The iterator of the pass that is looked at."""
        data = self.dataset()
        for _ in range(self.passes):
            events(iter(data), 1000)
        return iter(data)


def frozen(element):
    """All bits of an element."""
    if isinstance(element, tuple):
        return tuple(map(frozen, element))
    if isinstance(element, pb.Tensor):
        return str(element.dtype), element.shape, element.numpy().tobytes()
    return repr(element)


def event(following):
    """Calls for the next element, and returns what comes: an element, the end, or an error."""
    try:
        return "element", frozen(following())
    except StopIteration:
        return "end", ""
    except pb.errors.PullbackError as error:
        return "error", type(error).__name__


def events(iterator, limit=LIMIT):
    """Lists all that the iterator does up to the end, an error or the limit."""
    found = []
    with iterator:
        while len(found) < limit:
            found.append(event(iterator.next))
            if found[-1][0] != "element":
                break
    return found


def position(iterator):
    return json.dumps(iterator.checkpoint_state())


def resumed(pipeline, saved, away=0):
    """A new iterator at a saved position; it has been `away` elements into a pass before."""
    iterator = iter(pipeline.dataset())
    for _ in range(away):
        event(iterator.next)
    iterator.restore_state(json.loads(saved))
    return iterator


def check(pipeline):
    """Compares a pipeline, resumed at every position, with its undisturbed run."""
    expected = events(pipeline.begun())
    with pipeline.begun() as straight:
        # Each element of `chain` comes from an iterator that was restored from the one before.
        chain = position(straight)
        for at in range(len(expected)):
            saved = position(straight)
            found = events(resumed(pipeline, saved, away=at % 3), LIMIT - at)
            assert found == expected[at:], (pipeline.text, at)
            with resumed(pipeline, chain) as link:
                assert event(link.next) == expected[at], (pipeline.text, at, "chain")
                chain = position(link)
            event(straight.next)


def check_skips(pipeline, seed):
    """Compares what a cursor skips and stacks with single elements, in random order.

    At the end, or before, another one goes on from its position.
    """
    choose = random.Random(seed)
    cursor = pipeline.dataset().open((0,))
    single = pipeline.dataset().open((0,))
    done = []
    try:
        for _ in range(LIMIT):
            name = choose.choice(["skip", "next_batch"])
            count = choose.choice([1, 1, 2, 3, 7] if name == "next_batch" else [0, 0, 1, 2, 3, 7])
            done.append(f"{name}({count})")
            found = result(getattr(cursor, name), count)
            expected = result(functools.partial(getattr(Cursor, name), single), count)
            # What is skipped need not be made, so either may have failed alone.
            if count and "error" in (found[0], expected[0]):
                return
            assert found == expected, (pipeline.text, done)
            if found[0] == "end" or choose.random() < 0.2:
                break
        other = pipeline.dataset().open((0,))
        other.restore(json.loads(json.dumps(cursor.state())))
        rest, others = [[result(c.next_batch, 1) for _ in range(3)] for c in (cursor, other)]
        other.close()
        assert others == rest, (pipeline.text, done, "resumed")
    finally:
        cursor.close()
        single.close()


class Watched(Dataset):
    """The elements of a dataset. It knows which of its cursors are open."""

    def __init__(self, source):
        super().__init__(sources=[source])
        self.running = []

    def open(self, epoch):
        cursor = self._sources[0].open(epoch)
        self.running.append(cursor)
        close = cursor.close

        def closed():
            self.running = [one for one in self.running if one is not cursor]
            close()

        cursor.close = closed
        return cursor


def check_closes(pipeline, seed):
    """Checks that a pass that ends, wherever, has closed all that its stages had opened."""
    watched = []

    def watch(data):
        watched.append(Watched(data))
        return watched[-1]

    choose = random.Random(seed)
    for place in range(len(pipeline.stages), 0, -1):
        pipeline.stages.insert(place, ("watch", watch))
    if choose.random() < 0.3:
        lanes = ("interleave watched", lambda data: data.interleave(lambda *x: watch(several(*x))))
        pipeline.stages.insert(choose.randrange(len(pipeline.stages)), lanes)
    limit = choose.choice([0, 1, 3, 1000])
    iterator = pipeline.begun()
    for _ in range(limit % 1000):
        if event(iterator.next)[0] != "element":
            return
    iterator.restore_state(iterator.checkpoint_state())
    events(iterator, limit)
    # What works ahead closes what it draws from a moment later.
    deadline = time.monotonic() + 10
    while any(one.running for one in watched) and time.monotonic() < deadline:
        time.sleep(0.001)
    assert not any(one.running for one in watched), (pipeline.text, limit)


def roundtrip(value):
    return pickle.loads(pickle.dumps(value))


def check_copies(pipeline, seed):
    """Compares what is pickled or copied in the middle of a pass with the pipeline itself."""
    choose = random.Random(seed)
    data = pipeline.dataset()
    passes = [events(iter(data), 1000) for _ in range(pipeline.passes)]
    iterator = iter(data)
    done = [event(iterator.next) for _ in range(choose.randint(0, 8))]
    if any(kind == "error" for kind, _ in done):
        return  # what lies behind an error is not said
    others = {how: how((data, iterator)) for how in (roundtrip, copy.deepcopy)}
    expected = events(iterator), events(iter(data)), length(data)
    for how, (other, its) in others.items():
        found = events(its), events(iter(other)), length(other)
        assert found == expected, (pipeline.text, how.__name__, passes, done)
    if expected[0][-1][0] == "end":
        assert event(roundtrip(iterator).next) == ("end", ""), (pipeline.text, "closed")


def length(data):
    try:
        return len(data)
    except TypeError:
        return None


#: Stages and sources of a part that cannot be pickled, by what the error says of it.
UNPICKLED = {
    "the function of map": lambda data: data.map(lambda *parts: parts[0]),
    "the function of filter": lambda data: data.filter(lambda *parts: True),
    "the function of interleave": lambda data: data.interleave(lambda *parts: Dataset.range(2)),
    "the function of from_generator": lambda data: data.zip(
        Dataset.from_generator(lambda: iter(range(9)))
    ),
    "the argument of from_iterable": lambda data: data.concatenate(
        Dataset.from_iterable([lambda: 1]).take(0)
    ),
    "open_ of a Dataset": lambda data: data.zip(Dataset(lambda epoch: data.open(epoch))),
}


def check_errors(pipeline, what):
    """Checks that a part somewhere in a pipeline that cannot be pickled is named, and copied."""
    place = random.Random(pipeline.text).randrange(len(pipeline.stages) + 1)
    pipeline.stages.insert(place, (what, UNPICKLED[what]))
    data = pipeline.dataset()
    for one in (data, iter(data)):
        with pytest.raises(pb.errors.InputTypeError, match=f"{what}.*top of a module"):
            pickle.dumps(one)
    for how in (copy.copy, copy.deepcopy):
        other = how(data)
        assert events(iter(other)) == events(iter(data)), (pipeline.text, how.__name__)


def result(function, count):
    return event(lambda: as_tensors(function(count)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("files")
    (place / "a.txt").write_text("".join(f"line {i}\n" for i in range(5)))
    (place / "b.txt").write_text("one\r\ntwo\nlast")
    with gzip.open(place / "a.txt.gz", "wt") as file:
        file.write("".join(f"packed {i}\n" for i in range(7)))
    with pb.data.TFRecordWriter(place / "records") as writer:
        for i in range(6):
            writer.write(bytes(range(i)))
    with pb.data.TFRecordWriter(place / "examples") as writer:
        for i in range(6):
            example = {"n": i, "name": f"name {i}"}
            if i == 2:
                del example["name"]
            writer.write(pb.data.encode_example(example))
    with pb.data.TFRecordWriter(place / "lacking") as writer:
        writer.write(pb.data.encode_example({"name": "one"}))
    return place


def test_going_on_from_every_position(folder):
    for seed in range(QUICK):
        check(Pipeline(seed, folder))


def test_skipping_is_reading(folder):
    for seed in range(5 * QUICK):
        check_skips(Pipeline(seed, folder), seed)


def test_passes_close_what_they_have_opened(folder):
    for seed in range(2 * QUICK):
        check_closes(Pipeline(seed, folder), seed)


def test_pickles_and_copies(folder):
    for seed in range(2 * QUICK):
        check_copies(Pipeline(seed, folder), seed)


def test_a_pickled_feature_stays_required(folder):
    data = Dataset.from_tfrecord(folder / "lacking", FEATURES)
    for one in (data, roundtrip(data), copy.deepcopy(data)):
        assert events(iter(one)) == [("error", "DataError")]


def test_what_cannot_be_pickled_is_named(folder):
    for seed in range(QUICK // 4):
        for what in UNPICKLED:
            check_errors(Pipeline(seed, folder), what)


@pytest.mark.campaign
@pytest.mark.parametrize("part", range(8))
def test_many_pipelines(folder, part):
    for seed in range(QUICK + 500 * part, QUICK + 500 * (part + 1)):
        pipeline = Pipeline(seed, folder)
        check(pipeline)
        check_skips(pipeline, seed)
        check_copies(pipeline, seed)
        check_closes(pipeline, seed)
