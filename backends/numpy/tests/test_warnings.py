"""NumPy's warnings about infinities are silent; those of `pullback` are shown."""

import subprocess
import sys

PROGRAM = """
import warnings
import pullback as pb

def slope(x):
    with pb.GradientTape() as tape:
        tape.watch(x)
        y = pb.sum(pb.log(pb.sqrt(x) * x) / x)
    return tape.gradient(y, x)

with pb.device("cpu"):
    print(pb.ones(1) / 0, pb.log(-pb.ones(1)), pb.exp(pb.full(1, 1e4)))
    x = pb.asarray([-1.0, 0.0, 1e38])
    # Op by op, by a compiled backward pass, and as a program.
    print([slope(x) for _ in range(5)])
    captured = pb.function(slope)
    print([captured(x) for _ in range(4)], captured.graph)
    small = pb.asarray([6e-8, 6e4], dtype="float16")
    print(pb.digamma(small), pb.lgamma(small), pb.polygamma(small, n=1))

module = "pullback.plugins.kernel_packs"
warnings.warn_explicit("a pack (left out)", RuntimeWarning, "packs.py", 1, module=module)
"""


def test_the_filter_leaves_warnings_of_pullback_alone():
    # A program of its own: pytest has filters of its own.
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stderr.strip() == "packs.py:1: RuntimeWarning: a pack (left out)"
