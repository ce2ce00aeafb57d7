"""The default dtypes: what follows them, and that nothing remembers the ones before."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback import errors

I32 = pb.asarray([1, 2, 3], dtype="int32")
U8 = pb.asarray([1, 2, 3], dtype="uint8")
BOOL = pb.asarray([True, False, True])

#: What gives the default dtype of a kind.
FOLLOWS: dict[str, tuple[str, Callable[[], Any]]] = {
    "asarray(1.0)": ("real floating", lambda: pb.asarray(1.0)),
    "asarray([1.0])": ("real floating", lambda: pb.asarray([1.0, 2.0])),
    "asarray([])": ("real floating", lambda: pb.asarray([])),
    "asarray(1)": ("integral", lambda: pb.asarray(1)),
    "asarray([1])": ("integral", lambda: pb.asarray([1, 2])),
    "asarray(1j)": ("complex floating", lambda: pb.asarray(1j)),
    "asarray([1j])": ("complex floating", lambda: pb.asarray([1j, 2])),
    "zeros": ("real floating", lambda: pb.zeros(2)),
    "ones": ("real floating", lambda: pb.ones(2)),
    "empty": ("real floating", lambda: pb.empty(2)),
    "eye": ("real floating", lambda: pb.eye(2)),
    "full(1.0)": ("real floating", lambda: pb.full(2, 1.0)),
    "full(1)": ("integral", lambda: pb.full(2, 1)),
    "full(1j)": ("complex floating", lambda: pb.full(2, 1j)),
    "linspace": ("real floating", lambda: pb.linspace(0, 1, 3)),
    "linspace(1j)": ("complex floating", lambda: pb.linspace(0, 1j, 3)),
    "arange(3)": ("integral", lambda: pb.arange(3)),
    "arange(3.0)": ("real floating", lambda: pb.arange(3.0)),
    "one_hot": ("real floating", lambda: pb.one_hot([1], 3)),
    "fftfreq": ("real floating", lambda: pb.fft.fftfreq(4)),
    "Variable(1.0)": ("real floating", lambda: pb.Variable(1.0)),
    "astype(float)": ("real floating", lambda: I32.astype(float)),
    "astype('float')": ("real floating", lambda: I32.astype("float")),
    "astype('int')": ("integral", lambda: U8.astype("int")),
    "astype('complex')": ("complex floating", lambda: U8.astype("complex")),
    "int + 1.0": ("real floating", lambda: I32 + 1.5),
    "1.0 + int": ("real floating", lambda: 1.5 + I32),
    "int / int": ("real floating", lambda: I32 / 2),
    "bool + 1": ("integral", lambda: pb.where(BOOL, 1, BOOL)),
    "exp": ("real floating", lambda: pb.exp(I32)),
    "mean": ("real floating", lambda: pb.mean(I32)),
    "sum(bool)": ("integral", lambda: pb.sum(BOOL)),
    "sum(int32)": ("integral", lambda: pb.sum(I32)),
    "prod": ("integral", lambda: pb.prod(I32)),
    "cumulative_sum": ("integral", lambda: pb.cumulative_sum(I32)),
    "trace": ("integral", lambda: pb.linalg.trace(pb.eye(2, dtype="int8"))),
    "random.normal": ("real floating", lambda: pb.random.normal((2,))),
    "random.uniform": ("real floating", lambda: pb.random.uniform((2,), 0, 2)),
    "random.gamma": ("real floating", lambda: pb.random.gamma((2,), 1.5)),
    "random.exponential": ("real floating", lambda: pb.random.exponential((2,))),
    "random.truncated_normal": ("real floating", lambda: pb.random.truncated_normal((2,))),
    "random.integers": ("integral", lambda: pb.random.integers((2,), 5)),
    "random.permutation": ("integral", lambda: pb.random.permutation(4)),
    "random.categorical": ("integral", lambda: pb.random.categorical([0.0, 1.0], (2,))),
    "random_normal": ("real floating", lambda: pb.random_normal((2,), key=1, counter=0)),
    "Dense": ("real floating", lambda: pb.layers.Dense(2)([[1.0, 2.0]])),
    "Dataset": ("real floating", lambda: next(iter(pb.data.Dataset.from_tensor_slices([1.0])))),
    "grad": ("real floating", lambda: pb.grad(lambda x: x * x)(3.0)),
}

EXPECTED = {
    "float32": {
        "real floating": "float32",
        "complex floating": "complex64",
        "integral": "int32",
    },
    "float64": {
        "real floating": "float64",
        "complex floating": "complex128",
        "integral": "int64",
    },
}


@pytest.fixture(autouse=True)
def defaults() -> Iterator[None]:
    yield
    pb.set_default_dtype(None)


@pytest.mark.parametrize("name", FOLLOWS)
def test_all_that_is_made_follows_the_default_and_nothing_goes_stale(name: str) -> None:
    kind, make = FOLLOWS[name]
    for dtype in ("float32", "float64", "float32", "float64"):
        pb.set_default_dtype(dtype)
        for _ in range(2):
            assert make().dtype == EXPECTED[dtype][kind], dtype


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_namespace_reports_it(dtype: str) -> None:
    pb.set_default_dtype(dtype)
    found = pb.__array_namespace_info__().default_dtypes()
    assert found == {**{k: np.dtype(v) for k, v in EXPECTED[dtype].items()}, "indexing": np.int64}
    assert pb.default_dtype() == dtype


def test_unsigned_sums_widen_to_the_size_of_the_default() -> None:
    assert pb.sum(U8).dtype == "uint32"
    pb.set_default_dtype("float64")
    assert pb.sum(U8).dtype == "uint64"
    assert pb.sum(U8, dtype="uint8").dtype == "uint8"
    with pb.GradientTape():
        assert pb.cumulative_sum(U8).dtype == "uint64"


def test_numbers_beside_tensors_stay_weak() -> None:
    pb.set_default_dtype("float64")
    x = pb.ones(2, dtype="float32")
    assert (x + 1.5).dtype == (2 * x).dtype == "float32"
    assert (I32 + 1).dtype == "int32"


def test_a_compiled_backward_pass_is_made_anew() -> None:
    weights = pb.Variable(np.ones(3, "float32"))

    def step() -> Any:
        with pb.GradientTape() as tape:
            loss = pb.sum(weights * pb.mean(I32) * pb.zeros(3) + weights)
        return tape.gradient(loss, weights)

    for dtype in ("float32", "float64", "float32"):
        pb.set_default_dtype(dtype)
        for _ in range(6):
            assert step().dtype == "float32"
            assert step().tolist() == [1, 1, 1]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int32", "complex64", "nonsense"])
def test_other_dtypes_raise(dtype: str) -> None:
    with pytest.raises(errors.DTypeError, match="float32"):
        pb.set_default_dtype(dtype)
    assert pb.zeros(1).dtype == "float32"


def python(text: str, value: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", text],
        env={**os.environ, "PULLBACK_DEFAULT_DTYPE": value},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_environment_variable() -> None:
    text = (
        "import pullback as pb; print(pb.zeros(2).dtype, pb.arange(2).dtype, pb.sum(pb.ones(2, "
        "dtype='int8')).dtype); pb.set_default_dtype('float32'); print(pb.ones(1).dtype, "
        "pb.sum(pb.ones(2, dtype='int8')).dtype); pb.set_default_dtype(None); "
        "print(pb.ones(1).dtype)"
    )
    found = python(text, "float64")
    assert found.stdout.split() == ["float64", "int64", "int64", "float32", "int32", "float64"]
    found = python("import pullback", "float63")
    assert "PULLBACK_DEFAULT_DTYPE=float63: " in found.stderr
