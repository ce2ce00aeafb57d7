"""Sources of data: generators, other libraries' datasets, text files; and caches."""

from __future__ import annotations

import collections
import gzip
import os

import numpy as np
import pytest

import pullback as pb
from pullback import _replacing
from pullback.data.elements import from_foreign
from pullback.data.encoding import decode, encode

Dataset = pb.data.Dataset


def values(dataset):
    return [x.tolist() if hasattr(x, "tolist") else x for x in dataset]


def resumes(make):
    """Checks that a pass begun again from any of its positions gives the same elements."""
    expected = values(make())
    for position in range(len(expected) + 1):
        iterator = iter(make())
        before = [values([next(iterator)])[0] for _ in range(position)]
        path = pb.Checkpoint(data=iterator).contents()
        other = iter(make())
        other.restore_state(iterator.checkpoint_state())
        assert before + values(other) == expected, position
        assert path.states
    return True


class Foreign:
    """An array of another library, as far as anyone can tell."""

    def __init__(self, *values):
        self.values = values

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.values, dtype)


class TestElements:
    def test_what_becomes_of_what(self):
        element = from_foreign(
            {
                "a": [1, 2],
                "b": (1.5, "x"),
                "c": [Foreign(1, 2), Foreign(3)],
                "d": None,
                "e": b"\0\0",
            }
        )  # fmt: skip
        assert element["a"].tolist() == [1, 2]
        assert element["a"].dtype == np.int32
        assert element["b"][0].dtype == np.float32
        assert element["b"][1] == "x"
        assert [x.tolist() for x in element["c"]] == [[1, 2], [3]]
        assert isinstance(element["c"], tuple)
        assert element["d"] is None
        assert element["e"] == b"\0\0"
        point = collections.namedtuple("Point", "x y")
        assert type(from_foreign(point(1, 2))) is point

    def test_arrays_are_copied(self):
        def reused():
            array = np.zeros(2)
            for i in range(3):
                array[:] = i
                yield array

        assert values(Dataset.from_generator(reused).shuffle(3, seed=0).batch(3))[0] != [[2, 2]] * 3
        cached = Dataset.from_generator(reused).cache()
        assert values(cached) == values(cached) == [[0, 0], [1, 1], [2, 2]]

    def test_what_is_no_data_is_named(self):
        for value in (object(), {"x": object()}, [object()]):
            with pytest.raises(pb.errors.ConversionError, match=r"got object.*where it is made"):
                from_foreign(value)
        with pytest.raises(pb.errors.ConversionError, match="unequal lengths"):
            from_foreign([[1], [2, 3]])

    def test_bytes_keep_the_zeros_at_their_ends(self):
        data = [b"a\0\0", b"\0"]
        (batch,) = Dataset.from_generator(lambda: data).batch(2)
        assert batch.tolist() == data
        (batch,) = Dataset.from_generator(lambda: [data])
        assert batch.tolist() == data

    @pytest.mark.parametrize(
        "element",
        [
            np.arange(6.0).reshape(2, 3), np.zeros((0, 2), np.int8), "text", b"\0b\0", None,
            {"a": (np.float32(1.5), ["x", None])}, (), np.array(["a", "bc"]),
            np.array([b"\0", b"a\0"], dtype=object), np.asarray([1.5], pb.bfloat16),
        ],
    )  # fmt: skip
    def test_as_bytes_and_back(self, element):
        back = decode(encode(element))
        assert repr(pb.data.elements.as_arrays(back)) == repr(
            pb.data.elements.as_arrays(
                element.astype(object)
                if isinstance(element, np.ndarray) and element.dtype.kind == "U"
                else element
            )
        )


class TestGenerators:
    def test_called_for_each_pass(self):
        calls = []

        def numbers():
            calls.append(1)
            yield from [1, 2, 3]

        dataset = Dataset.from_generator(numbers)
        assert not calls
        assert values(dataset) == values(dataset) == [1, 2, 3]
        assert len(calls) == 2
        assert values(dataset.repeat(2).batch(4)) == [[1, 2, 3, 1], [2, 3]]

    def test_position(self):
        assert resumes(lambda: Dataset.from_generator(lambda: range(5)))
        assert resumes(lambda: Dataset.from_generator(lambda: ("a", "b", "c")))

    def test_errors_are_raised_where_they_happen(self):
        def numbers():
            yield 1
            raise KeyError("broken")

        iterator = iter(Dataset.from_generator(numbers))
        next(iterator)
        with pytest.raises(KeyError, match="broken"):
            next(iterator)


# Stand-ins with the protocols of other libraries.


class TorchLoader:
    """A torch DataLoader: iterable, sized, batches as lists of arrays, no state of its own."""

    def __init__(self, n=3):
        self.n = n

    def __len__(self):
        return self.n

    def __iter__(self):
        return iter([[Foreign(i, i + 1), Foreign(2 * i, 0)] for i in range(self.n)])


class TorchDataset:
    """A map-style dataset of torch: elements by number."""

    def __len__(self):
        return 5

    def __getitem__(self, i):
        if not 0 <= i < 5:
            raise IndexError(i)
        return Foreign(i), i * 10


class HuggingFaceStream:
    """A Hugging Face IterableDataset: its state is not exact, and stays for later passes."""

    def __iter__(self):
        return iter([{"text": f"row {i}", "label": i, "tokens": [i, 0]} for i in range(1, 7)])

    def state_dict(self):
        return {"at": 1}

    def load_state_dict(self, state):
        raise AssertionError("its elements would not be the same")


class Grain:
    """A grain IterDataset: its iterators get and set states, as bytes or dicts."""

    def __iter__(self):
        return GrainIterator()


class GrainIterator:
    def __init__(self):
        self.at = 0

    def __iter__(self):
        return self

    def __next__(self):
        if self.at == 5:
            raise StopIteration
        self.at += 1
        return {"x": np.asarray([self.at, self.at])}

    def get_state(self):
        return {"at": self.at}

    def set_state(self, state):
        self.at = state["at"]


class UnsavableState(Grain):
    """One whose iterators' state is nothing that a checkpoint would bring back as it was."""

    def __iter__(self):
        iterator = GrainIterator()
        iterator.get_state = lambda: {"at": np.asarray(iterator.at)}
        return iterator


def rows(dataset):
    return [{k: v if isinstance(v, str) else v.tolist() for k, v in row.items()} for row in dataset]


class TestOtherLibraries:
    def test_torch_loader(self):
        dataset = Dataset.from_iterable(TorchLoader())
        assert len(dataset) == 3
        first, second = next(iter(dataset))
        assert (first.tolist(), second.tolist()) == ([0, 1], [0, 0])
        sums = dataset.map(lambda x, y: (x + y).sum()).prefetch()
        assert values(sums) == [1, 5, 9]
        assert resumes(lambda: dataset.map(lambda x, y: x + y))

    def test_elements_by_number(self):
        dataset = Dataset.from_iterable(TorchDataset())
        assert len(dataset) == 5
        order = [int(label) for _, label in dataset.shuffle(seed=1)]
        assert sorted(order) == [0, 10, 20, 30, 40]
        assert order != sorted(order)
        assert resumes(lambda: dataset.shuffle(seed=1).map(lambda x, y: y).batch(2))
        assert values(Dataset.from_iterable([3, 4, 5]).batch(2)) == [[3, 4], [5]]

    @pytest.mark.parametrize("source", [HuggingFaceStream, Grain, UnsavableState])
    def test_position(self, source):
        def make():
            data = Dataset.from_iterable(source())
            return data.map(lambda row: row["x"] if "x" in row else row["label"])

        assert resumes(make)
        assert resumes(lambda: make().prefetch(2).batch(2))
        assert resumes(lambda: make().repeat(2))

    def test_a_state_of_its_own_spares_the_elements_in_front(self):
        made = []

        class Counted(GrainIterator):
            def __next__(self):
                made.append(self.at)
                return super().__next__()

        class Source:
            def __iter__(self):
                return Counted()

        iterator = iter(Dataset.from_iterable(Source()))
        for _ in range(3):
            next(iterator)
        other = iter(Dataset.from_iterable(Source()))
        made.clear()
        other.restore_state(iterator.checkpoint_state())
        next(other)
        assert made == [3]

    def test_rows_with_text(self):
        first = rows(Dataset.from_iterable(HuggingFaceStream()))[0]
        assert first == {"text": "row 1", "label": 1, "tokens": [1, 0]}
        (batch,) = Dataset.from_iterable(HuggingFaceStream()).take(2).batch(2)
        assert batch["text"].tolist() == ["row 1", "row 2"]
        assert batch["tokens"].tolist() == [[1, 0], [2, 0]]

    @pytest.mark.parametrize(
        ("value", "message"),
        [
            ({"train": [1]}, "dict of datasets"),
            ((i for i in range(3)), "only once.*from_generator"),
            (3, "an iterable, got int"),
        ],
    )
    def test_what_cannot_be_taken(self, value, message):
        with pytest.raises(pb.errors.InputTypeError, match=message):
            Dataset.from_iterable(value)


class TestText:
    @pytest.fixture
    def files(self, tmp_path):
        (tmp_path / "b.txt").write_bytes("drei\nvier ä".encode())
        (tmp_path / "a.txt").write_bytes(b"one\r\n\ntwo\n")
        (tmp_path / "empty.txt").write_bytes(b"")
        return tmp_path

    def test_lines(self, files):
        lines = Dataset.from_text_lines([files / "a.txt", files / "empty.txt", files / "b.txt"])
        assert list(lines) == ["one", "", "two", "drei", "vier ä"]
        assert list(Dataset.from_text_lines(f"{files}/*.txt")) == list(lines)
        (batch,) = lines.batch(9)
        assert batch.tolist() == list(lines)
        assert resumes(lambda: lines.shuffle(3, seed=0))

    def test_paths(self, files):
        paths = list(Dataset.from_files(f"{files}/*.txt"))
        assert paths == [f"{files}/{name}.txt" for name in ("a", "b", "empty")]
        assert sorted(Dataset.from_files(f"{files}/*.txt").shuffle(seed=0)) == paths
        read = Dataset.from_files(files / "b.txt").interleave(Dataset.from_text_lines)
        assert list(read) == ["drei", "vier ä"]

    def test_gzip(self, tmp_path):
        path = tmp_path / "text.gz"
        path.write_bytes(gzip.compress(b"a\nb\nc\n"))
        lines = Dataset.from_text_lines(path, compression="gzip")
        assert list(lines) == ["a", "b", "c"]
        assert resumes(lambda: lines)
        path.write_bytes(gzip.compress(os.urandom(9999).hex().encode())[:-200])
        with pytest.raises(pb.errors.DataError, match=r"text\.gz, piece 0 .*cannot be read"):
            list(lines)

    def test_what_is_not_there(self, files):
        for name in ("c.txt", "*.csv"):
            with pytest.raises(pb.errors.DataError, match="there is no file"):
                Dataset.from_text_lines(files / name)
        with pytest.raises(pb.errors.InputValueError, match="'gzip' or None"):
            Dataset.from_text_lines(files / "a.txt", compression="zip")
        lines = Dataset.from_text_lines(files / "a.txt")
        (files / "a.txt").unlink()
        with pytest.raises(pb.errors.DataError, match=r"a\.txt.*cannot be read.*No such file"):
            list(lines)

    def test_what_is_no_text(self, tmp_path):
        path = tmp_path / "latin.txt"
        path.write_bytes("gut\nä\n".encode("latin-1"))
        iterator = iter(Dataset.from_text_lines(path))
        assert next(iterator) == "gut"
        with pytest.raises(pb.errors.DataError, match=r"latin\.txt, piece 1.*encoding"):
            next(iterator)
        assert list(Dataset.from_text_lines(path, encoding="latin-1")) == ["gut", "ä"]


class TestCache:
    @pytest.fixture(params=["memory", "file"])
    def place(self, request, tmp_path):
        return None if request.param == "memory" else tmp_path / "folder" / "cache"

    def test_made_once(self, place):
        made = []
        dataset = Dataset.range(5).map(lambda x: made.append(int(x)) or x * 2).cache(place)
        assert values(dataset) == values(dataset) == [0, 2, 4, 6, 8]
        assert values(dataset.take(2)) == [0, 2]
        assert made == [0, 1, 2, 3, 4]
        assert len(dataset) == 5

    def test_a_pass_given_up_keeps_nothing(self, place):
        made = []
        dataset = Dataset.range(5).map(lambda x: made.append(int(x)) or x).cache(place)
        iterator = iter(dataset)
        next(iterator), next(iterator)
        iterator.close()
        if place is not None:
            assert os.listdir(place.parent) == []
        assert values(dataset) == values(dataset) == [0, 1, 2, 3, 4]
        assert made == [0, 1, 0, 1, 2, 3, 4]

    def test_passes_at_the_same_time(self, place):
        dataset = Dataset.range(4).cache(place)
        for x, y in zip(dataset, dataset, strict=True):
            assert x.item() == y.item()
        assert values(dataset) == [0, 1, 2, 3]

    def test_always_the_elements_of_the_first_pass(self, place, tmp_path):
        first = values(Dataset.range(20).shuffle(seed=3))
        dataset = Dataset.range(20).shuffle(seed=3).cache(place)
        # Begun with another pass, as after a checkpoint.
        dataset.restore_state({"passes": 5, "seeds": [3]})
        assert values(dataset) == first

    def test_position(self, place):
        def make():
            return Dataset.range(6).shuffle(seed=4).cache(place).repeat(2)

        assert resumes(make)
        if place is not None:
            assert os.listdir(place.parent) == ["cache"]

    def test_structures_and_strings(self, place):
        data = {"x": np.arange(4.0).reshape(2, 2), "names": ["a", "b"], "raw": ([1, 2],)}
        dataset = Dataset.from_tensor_slices(data).batch(1).cache(place)
        for _ in range(2):
            element = list(dataset)[1]
            assert element["x"].tolist() == [[2.0, 3.0]]
            assert element["x"].dtype == pb.float64
            assert element["names"].tolist() == ["b"]

    def test_a_file_serves_other_programs(self, tmp_path):
        path = tmp_path / "cache"
        expected = values(Dataset.range(5).map(lambda x: x * 3).cache(path))

        def fail(x):
            raise AssertionError("made again")

        assert values(Dataset.range(5).map(fail).cache(path)) == expected
        (path.with_name("other")).write_bytes(b"something else")
        with pytest.raises(pb.errors.DataError, match="is not a cache"):
            list(Dataset.range(5).cache(path.with_name("other")))

    def test_what_killed_writers_left_is_removed(self, tmp_path):
        path = tmp_path / "cache"
        for process in (os.getppid(), 99_999_999):
            _replacing.temporary_name(path, process).write_bytes(b"half")
        list(Dataset.range(3).cache(path))
        cache, of_the_living = sorted(os.listdir(tmp_path), key=len)
        assert (cache, f"-{os.getppid()}-" in of_the_living) == ("cache", True)

    def test_every_bit_of_a_file_counts(self, tmp_path):
        path = tmp_path / "cache"
        dataset = Dataset.from_tensor_slices(np.arange(12).reshape(3, 4)).cache(path)
        expected = values(dataset)
        data = path.read_bytes()
        for place in range(len(data)):
            flipped = bytearray(data)
            flipped[place] ^= 1 << place % 8
            path.write_bytes(flipped)
            with pytest.raises(pb.errors.DataError, match="cache"):
                list(dataset)
        for left in range(len(data)):
            path.write_bytes(data[:left])
            with pytest.raises(pb.errors.DataError, match="cache"):
                list(dataset)
        path.write_bytes(data)
        assert values(dataset) == expected


@pytest.mark.parametrize(
    ("make", "dtype"),
    [
        (lambda: Dataset.range(4).map(lambda _: 1.5), "float32"),
        (lambda: Dataset.range(4).map(lambda _: 3), "int32"),
        (lambda: Dataset.range(4).map(lambda _: 2**40), "int64"),
        (lambda: Dataset.range(4).map(lambda _: np.float64(1.5)), "float64"),
        (lambda: Dataset.from_iterable([1.5, 2, 3, 0.5]), "float32"),
        (lambda: Dataset.from_iterable([np.float32(1), np.int64(2)] * 2), "float32"),
    ],
)
def test_numbers_in_a_batch_have_the_dtype_that_they_have_alone(make, dtype):
    for stage in (
        lambda data: data.batch(2),
        lambda data: data.padded_batch(2),
        lambda data: data.window(2),
        lambda data: data.batch(1).batch(2),
    ):
        assert {str(batch.dtype) for batch in stage(make())} == {dtype}


@pytest.mark.parametrize("method", ["batch", "padded_batch", "window", "take", "skip", "repeat",
                                    "shuffle", "prefetch"])  # fmt: skip
def test_sizes_are_integers(method):
    with pytest.raises(pb.errors.InputTypeError, match=rf"^{method}: an integer is expected, got"):
        getattr(Dataset.range(4), method)(2.5)


def test_functions_of_stages_are_functions():
    def numbers():
        yield 1

    with pytest.raises(pb.errors.InputTypeError, match=r"takes a function .* without \(\)"):
        Dataset.from_generator(numbers())
    for method in ("map", "filter", "interleave"):
        with pytest.raises(pb.errors.InputTypeError, match=f"^{method} takes a function"):
            getattr(Dataset.range(3), method)(3)
