"""The environment variable that chooses the pack's instruction set."""

import os
import subprocess
import sys

import pytest

import pullback_native
from pullback_native import _native

#: Prints the instruction set of the loops, and whether the pack is used.
SAYS = """\
import sys
import pullback as pb
pb.asarray(1.0)
packs = next(one.packs for one in pb.backends() if one.name == "numpy")
pack = sys.modules.get("pullback_native")
print(getattr(pack, "INSTRUCTIONS", None), [one.state == "ready" for one in packs])
"""
LACKING = [name for name in ("avx2", "avx512") if name not in pullback_native.INSTRUCTION_SETS]


def start(choice, code=SAYS):
    environment = {k: v for k, v in os.environ.items() if k != "PULLBACK_KERNEL_PACKS"}
    environment.pop(pullback_native.VARIABLE, None)
    if choice is not None:
        environment[pullback_native.VARIABLE] = choice
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    )


def test_there_are_loops_for_any_processor():
    assert pullback_native.INSTRUCTION_SETS[0] == "base"
    assert pullback_native.INSTRUCTIONS in pullback_native.INSTRUCTION_SETS


@pytest.mark.parametrize("choice", [None, "", " "])
def test_the_best_without_a_choice(choice):
    assert start(choice).stdout == f"{pullback_native.INSTRUCTION_SETS[-1]} [True]\n"


@pytest.mark.parametrize("name", pullback_native.INSTRUCTION_SETS)
def test_one_is_chosen(name):
    assert start(name).stdout == f"{name} [True]\n"
    assert start(f" {name.upper()} ").stdout == f"{name} [True]\n"


@pytest.mark.parametrize("name", [*LACKING, "sse9", "avx2,base"])
def test_what_the_processor_lacks_is_refused(name):
    """The pack is left out with a warning, and NumPy's kernels are used."""
    found = start(name)
    assert found.stdout.startswith("None [False")
    assert f"PULLBACK_NATIVE_ISA={name}" in found.stderr
    assert ("lacks them" if name in LACKING else "the name is unknown") in found.stderr
    assert f"set it to {' or '.join(pullback_native.INSTRUCTION_SETS)}, or unset it" in found.stderr


def test_the_import_itself_is_refused():
    code = (
        "from pullback.errors import BackendError\n"
        "try:\n    import pullback_native\nexcept BackendError as error:\n    print(error)"
    )
    assert start("sse9", code).stdout.startswith("PULLBACK_NATIVE_ISA=sse9: ")


def test_every_set_of_the_processor_gives_near_results():
    """Sums go in another order, and FMA rounds once: not the same bits, but the same numbers."""
    import numpy as np

    import pullback as pb

    x = np.random.default_rng(0).standard_normal((64, 96), np.float32)
    exact = x.astype(np.float64) @ x.T
    try:
        for name in pullback_native.INSTRUCTION_SETS:
            assert _native.use(name) == name
            found = pb.matmul(x, x.T.copy()).numpy()
            # n u times the sum of the absolute terms (Higham, "Accuracy and Stability", 3.1).
            bound = 96 * 2.0**-24 * (np.abs(x.astype(np.float64)) @ np.abs(x.T))
            assert np.all(np.abs(found - exact) <= bound)
    finally:
        _native.use(pullback_native.INSTRUCTIONS)
