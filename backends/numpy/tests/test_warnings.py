"""NumPy's warnings about infinities are silent; those of `pullback` are shown."""

import subprocess
import sys

PROGRAM = """
import warnings
import pullback as pb
with pb.device("cpu"):
    print(pb.ones(1) / 0, pb.log(-pb.ones(1)), pb.exp(pb.full(1, 1e4)))
module = "pullback.plugins.kernel_packs"
warnings.warn_explicit("a pack (left out)", RuntimeWarning, "packs.py", 1, module=module)
"""


def test_the_filter_leaves_warnings_of_pullback_alone():
    # A program of its own: pytest has filters of its own.
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stderr.strip() == "packs.py:1: RuntimeWarning: a pack (left out)"
