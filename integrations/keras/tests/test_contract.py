"""Compares parameters of ops with those that Keras asks for; takes files to other backends."""

from __future__ import annotations

import importlib.util
import inspect
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from keras.src import backend, ops

HERE = Path(__file__).resolve().parent
MODULES = ("core", "image", "linalg", "math", "nn", "numpy")
#: Keras changes their arguments first, or does them by other ops.
NOT_ASKED = {"multi_hot", "view_as_complex", "view_as_real", "get_item"}


@pytest.mark.parametrize("name", MODULES)
def test_parameters_are_those_of_keras(name):
    """As `ops_test.py` of Keras's suite has it, for the Keras that is installed."""
    of_keras, of_backend = getattr(ops, name), getattr(backend, name)
    classes = {key.lower() for key, value in vars(of_keras).items() if inspect.isclass(value)}
    compared = 0
    for function in vars(of_keras).values():
        if not inspect.isfunction(function) or function.__module__ != of_keras.__name__:
            continue
        short = function.__name__
        # Keras has a body of its own where it has a private function beside the op.
        if short[0] == "_" or short in NOT_ASKED or hasattr(of_keras, f"_{short}"):
            continue
        # An op is a class too; others are made of ops.
        if short.replace("_", "") not in classes:
            continue
        here = getattr(of_backend, short)
        assert inspect.signature(here) == inspect.signature(function), short
        compared += 1
    assert compared > 5


def test_columns_of_vectors_and_matrices():
    """An op of Keras's coming version."""
    x, y, z = np.ones(3, "int8"), np.zeros((3, 2), "float32"), np.full(3, 2, "int8")
    found = backend.numpy.column_stack([x, y, z])
    assert found.dtype.name == "float32"
    assert found.tolist() == np.column_stack([x, y, z]).tolist()
    numbers = [np.float32(1), np.float32(2)]
    assert backend.numpy.column_stack(numbers).tolist() == np.column_stack(numbers).tolist()


@pytest.mark.parametrize("n", [-2, 0, 3])
def test_powers_of_matrices(n):
    """An op of Keras's coming version."""
    x = np.asarray([[2.0, 1.0], [0.5, 3.0]], "float32")
    found = backend.linalg.matrix_power(x, n)
    np.testing.assert_allclose(found, np.linalg.matrix_power(x, n), rtol=1e-5)


def test_files_go_to_other_backends_and_come_from_them():
    """With the peers that are installed, or else from process to process."""
    peers = [name for name in ("jax", "torch") if importlib.util.find_spec(name)] or ["pullback"]
    command = [sys.executable, HERE / "keras_files.py", "--models", "custom", "--peers", *peers]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("the same bits") == 2 * len(peers), done.stdout
