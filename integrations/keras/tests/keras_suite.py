"""Runs Keras's own tests on pullback, but for those in `excluded_tests.txt`.

git clone --branch v3.15.1 https://github.com/keras-team/keras
python integrations/keras/tests/keras_suite.py keras
python integrations/keras/tests/keras_suite.py keras --piece losses metrics
python integrations/keras/tests/keras_suite.py keras --excluded

Pieces run one after the other, each in a process of its own: one process for all takes 5 GB. With
`--excluded` the excluded tests run alone, and it is an error if one of them passes.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).resolve().parent
EXCLUDED = HERE.parent / "excluded_tests.txt"
SOURCE = Path("keras/src")
#: Folders that are not Keras's to run on a backend, or that download weights.
LEFT_OUT = {"applications", "testing", "wrappers"}
#: What `quantizers_test.py` has for each backend that it knows.
GRADIENT_OF_QUANTIZER = """\
        if backend.backend() == "pullback":
            import pullback as pb

            def test_op(inputs, *how):
                inputs = ops.convert_to_tensor(inputs)
                with pb.GradientTape() as tape:
                    tape.watch(inputs)
                    total = ops.sum(quantizers.fake_quant_with_min_max_vars(inputs, *how))
                return initial_gradients * tape.gradient(total, inputs)

        gradients = test_op(
"""
#: Files that know backends by name and stop or skip at others: a copy with this one is run in
#: their place.
NAMED = {
    "trainers/trainer_test.py": {
        'raise ImportError(f"Invalid backend: {backend.backend()}")': (
            "from keras_pullback.src.trainer import Trainer"
        ),
        "CPU_DEVICES = {": 'CPU_DEVICES = {\n    "pullback": "cpu:0",',
    },
    # Has custom gradients only for backends that it knows, and skips the tests on others.
    "quantizers/quantizers_test.py": {
        '("tensorflow", "jax", "torch")': '("tensorflow", "jax", "torch", "pullback")',
        "        gradients = test_op(\n": GRADIENT_OF_QUANTIZER,
    },
}
SUMMARY = re.compile(r"(\d+) (passed|failed|skipped|error)")


def excluded():
    """The tests that are left out, and why: `id  # reason`, one a line."""
    lines = EXCLUDED.read_text(encoding="utf-8").splitlines()
    found = dict(line.split("  # ", 1) for line in lines if line and line[0] != "#")
    if list(found) != sorted(found):
        sys.exit(f"{EXCLUDED.name} is not sorted")
    return found


def pieces(keras):
    """The folders with tests, those of layers and the largest files on their own."""
    source = keras / SOURCE
    found = {}
    for path in sorted([*source.glob("*/"), *(source / "layers").glob("*/")]):
        if (
            path.name not in LEFT_OUT
            and path != source / "layers"
            and list(path.rglob("*_test.py"))
        ):
            found[path.relative_to(source).as_posix()] = [path.relative_to(keras).as_posix()]
    found["layers"] = sorted(
        p.relative_to(keras).as_posix() for p in (source / "layers").glob("*_test.py")
    )
    large = SOURCE / "ops" / "numpy_test.py"
    found["ops"] += ["--ignore", large.as_posix()]
    found["ops/numpy"] = [large.as_posix()]
    return found


@contextmanager
def with_copies(keras):
    """Puts copies of the files in `NAMED` beside them, for as long as a block runs."""
    made = []
    for name, changes in NAMED.items():
        path = keras / SOURCE / name
        text = path.read_text(encoding="utf-8")
        for old, new in changes.items():
            if old not in text:
                sys.exit(f"{path} is not that of the Keras that this is for: it has no {old!r}")
            text = text.replace(old, new)
        copy = path.with_name(path.name.replace("_test", "_pullback_test"))
        copy.write_text(text, encoding="utf-8")
        made.append(copy)
    try:
        yield [f"--ignore={SOURCE / name}" for name in NAMED]
    finally:
        for copy in made:
            copy.unlink()


def run(keras, arguments):
    """Runs pytest on Keras's tests; its exit status and counts."""
    environment = os.environ | {"KERAS_BACKEND": "pullback"}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--tb=line",
        *arguments,
    ]
    done = subprocess.run(
        command, cwd=keras, env=environment, capture_output=True, text=True, check=False
    )
    last = (done.stdout.strip().splitlines() or [done.stderr])[-1]
    return done, {kind: int(count) for count, kind in SUMMARY.findall(last)}


def main():
    """Runs some pieces or all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("keras", type=Path, help="a clone of Keras at the version to test with")
    parser.add_argument("--piece", nargs="+", help="the pieces to run")
    parser.add_argument("--excluded", action="store_true", help="run what is excluded alone")
    parser.add_argument("-n", default="0", help="the number of processes of each piece")
    options = parser.parse_args()
    tests = excluded()
    if options.excluded:
        done, counts = run(options.keras, ["-rA", *tests])
        passed = re.findall(r"^PASSED (\S+)", done.stdout, re.MULTILINE)
        print(counts, *passed, sep="\n")
        return 1 if passed or counts.get("failed", 0) != len(tests) else 0
    with with_copies(options.keras) as ignored:
        return run_pieces(options, tests, ignored)


def run_pieces(options, tests, ignored):
    """Runs the pieces one after the other, and prints their counts and what fails."""
    status = 0
    chosen = pieces(options.keras)
    for name in options.piece or chosen:
        out = [f"--deselect={test}" for test in tests]
        done, counts = run(options.keras, [*chosen[name], *ignored, *out, "-n", options.n, "-rfE"])
        status |= done.returncode not in (0, 5)
        print(name, counts, flush=True)
        for line in re.findall(r"^(?:FAILED|ERROR) .*", done.stdout, re.MULTILINE):
            print("   ", line[:200])
    return status


if __name__ == "__main__":
    sys.exit(main())
