"""The loops under the compiler's sanitizers: a quick part, and all of it among the slow tests."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PACK = Path(__file__).parents[1]
COMPILER = os.environ.get("CC", "gcc")
#: Every 1021st float, and all functions of math32.h, which have no loops.
PROGRAM = """
#include <stdio.h>
#include "math32.h"

int main(void) {
    float total = 0;
    for (int64_t i = 0; i < (int64_t)1 << 32; i += 1021) {
        float x = as_float((int32_t)(uint32_t)i);
        total += exp32(x) + exp32_falling(-fabsf(x)) + exp32_falling(x) + expm1_32(x) + tanh32(x);
        total += sigmoid32(x) + silu32(x) + gate32(x);
        total += log1p_unit(fabsf(x)) + normal_tail(x, x);
    }
    return total == 1.5f;
}
"""


@pytest.mark.skipif(not shutil.which(COMPILER), reason="there is no compiler")
def test_elementary_functions_are_defined_for_all_floats(tmp_path):
    source, program = tmp_path / "floats.c", tmp_path / "floats"
    source.write_text(PROGRAM)
    flags = ["-O1", "-std=gnu11", "-fsanitize=undefined", "-fno-sanitize-recover=all"]
    sources = [str(source), str(PACK / "c" / "bounds.c")]
    command = [COMPILER, *flags, f"-I{PACK / 'c'}", *sources, "-lm", "-o", str(program)]
    subprocess.run(command, check=True)
    found = subprocess.run([program], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr


def sanitized(*options):
    command = [sys.executable, str(PACK / "tests" / "sanitize.py"), *options]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 0, (found.stdout + found.stderr)[-10_000:]


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which(COMPILER), reason="there is no compiler")
@pytest.mark.parametrize("kind", [[], ["--thread"]])
def test_hostile_arrays_under_sanitizers(kind):
    sanitized(*kind, "--no-tests")
