"""The public namespace: what is in it, and what it says of itself (array API standard)."""

from __future__ import annotations

import importlib
import subprocess
import sys
import types

import numpy as np
import pytest

import pullback as pb
from pullback import errors, ops
from pullback.spec import OPS
from pullback.tensor import Tensor

SPACES = (pb, pb.fft, pb.linalg)


class TestNames:
    @pytest.mark.parametrize("family", ops.FAMILIES)
    def test_every_family_is_public(self, family):
        module = importlib.import_module(f"pullback.ops.{family}")
        for name in module.__all__:
            own = getattr(module, name)
            found = [s for s in SPACES if name in s.__all__ and getattr(s, name) is own]
            assert found, f"{name} is in no namespace"

    def test_every_op_can_be_called(self):
        ours = {
            name
            for name, op in OPS.items()
            if op.body.__module__.startswith("pullback.ops") and not name.startswith("_")
        }
        hidden = {name for name in ours if not any(name in space.__all__ for space in SPACES)}
        # Ops that only rules and optimizers call are in `pb.ops`.
        machine = {name for name in ours if not OPS[name].public}
        assert all(getattr(pb.ops, name) is OPS[name].function for name in machine)
        assert hidden == machine, f"{sorted(hidden - machine)} are in no namespace"

    def test_all_is_true_and_has_no_doubles(self):
        assert len(set(pb.__all__)) == len(pb.__all__)
        for name in set(pb.__all__) - set(pb._LAZY):
            assert hasattr(pb, name), name

    def test_modules_do_not_leak_into_all(self):
        found = {n for n in pb.__all__ if isinstance(getattr(pb, n, None), types.ModuleType)}
        assert found <= {"errors", "fft", "linalg", "ops", "random"}

    def test_an_unknown_name_is_an_attribute_error(self):
        with pytest.raises(AttributeError, match="no attribute 'quaternion'"):
            pb.quaternion  # noqa: B018

    def test_higher_floors_are_not_loaded_by_the_import(self):
        program = (
            "import sys, pullback; "
            "print([m for m in sys.modules if m.split('.')[:1] == ['pullback'] and "
            "m.split('.')[1:2] and m.split('.')[1] in "
            "('layers', 'optimizers', 'data', 'checkpoint', 'summary', 'compat', 'conformance')])"
        )
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True
        )
        assert done.stdout.strip() == "[]"


class TestStandard:
    def test_the_namespace_of_a_tensor(self):
        x = pb.ones(2)
        assert x.__array_namespace__() is pb
        assert x.__array_namespace__(api_version=pb.__array_api_version__) is pb
        with pytest.raises(errors.InputValueError):
            x.__array_namespace__(api_version="1999.01")

    def test_constants(self):
        assert (pb.newaxis, pb.inf, pb.pi, pb.e) == (None, np.inf, np.pi, np.e)
        assert pb.nan != pb.nan

    def test_info(self):
        info = pb.__array_namespace_info__()
        assert info.default_device() is pb.default_device()
        assert pb.device("cpu") in info.devices()
        assert info.devices() == tuple(pb.devices())
        assert set(info.capabilities()) == {
            "boolean indexing",
            "data-dependent shapes",
            "max dimensions",
        }
        assert info.default_dtypes() == {
            "real floating": pb.float32,
            "complex floating": pb.complex64,
            "integral": pb.int32,
            "indexing": pb.int64,
        }
        assert info.dtypes(kind="bool") == {"bool": pb.bool}
        assert set(info.dtypes(kind=("signed integer", "bool"))) == {
            "bool",
            "int8",
            "int16",
            "int32",
            "int64",
        }

    def test_the_defaults_are_what_it_says(self):
        defaults = pb.__array_namespace_info__().default_dtypes()
        assert pb.asarray(1.0).dtype == defaults["real floating"]
        assert pb.asarray(1).dtype == defaults["integral"]
        assert pb.asarray(1j).dtype == defaults["complex floating"]
        assert pb.argmax(pb.ones(2)).dtype == defaults["indexing"]

    def test_numpy_functions_run_ours(self):
        x = pb.asarray([1.0, 4.0])
        result = np.multiply(x, x)
        assert type(result) is Tensor
        assert result.tolist() == [1.0, 16.0]


@pytest.mark.parametrize("missing", ["ml_dtypes", "pullback.ops.special", "pullback.tensor"])
def test_a_failed_import_leaves_the_garbage_collector_on(missing):
    program = f"""
import gc, sys
sys.modules[{missing!r}] = None
try:
    import pullback
except ImportError:
    print(gc.isenabled())
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "True"


@pytest.mark.parametrize("switch", ["enable", "disable"])
def test_import_leaves_the_garbage_collector_as_it_is(switch):
    program = f"import gc; gc.{switch}(); import pullback; print(gc.isenabled())"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == str(switch == "enable")
