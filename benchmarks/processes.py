"""Measures a framework beside its steps: a fresh process, memory, and room on disk."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import tempfile
import time
from typing import Any

from peers import HERE, Peer, environment

#: One matrix product in a fresh process.
FIRST = {
    "numpy": "import numpy as np; np.matmul([[2.0]], [[2.0]])",
    "pullback": "import pullback as pb; pb.matmul([[2.0]], [[2.0]])",
    "torch": "import torch; torch.matmul(torch.ones(1, 1), torch.ones(1, 1))",
    "jax": "import jax.numpy as np; np.matmul(np.ones((1, 1)), np.ones((1, 1)))",
    "tensorflow": "import tensorflow as tf; tf.matmul([[2.0]], [[2.0]])",
    "autograd": "import autograd.numpy as np; np.matmul([[2.0]], [[2.0]])",
}
_PEAK = """
with open("/proc/self/status") as status:
    print(next(int(line.split()[1]) for line in status if line.startswith("VmHWM")))
"""

# Every file of a distribution and of what it requires; of an editable one, those of its packages.
_SIZE = """
import importlib.metadata as metadata, json, pathlib, re
sizes, waiting = {}, WANTED
while waiting:
    name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
    if name in sizes:
        continue
    try:
        found = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        continue
    files = [pathlib.Path(found.locate_file(file)) for file in found.files or ()]
    direct = json.loads(found.read_text("direct_url.json") or "{}")
    if direct.get("dir_info", {}).get("editable"):
        source = pathlib.Path(direct["url"].removeprefix("file://")) / "src"
        files += source.rglob("*")
    kept = [f for f in files if f.suffix != ".pyc" and f.is_file()]
    sizes[name] = sum(f.stat().st_size for f in kept)
    for line in found.requires or ():
        if "extra ==" not in line:
            waiting.append(re.match(r"[\\w.-]+", line)[0])
print(sum(sizes.values()))
"""
_DISTRIBUTIONS = {
    "pullback": ["pullback", "pullback-numpy"],
    "jax": ["jax", "jaxlib"],
    "tensorflow": ["tensorflow", "tensorflow-cpu"],
}


def started(pythons: dict[str, str], repeats: int) -> dict[str, dict[str, float]]:
    """Seconds and MiB of a fresh process with the import and one matmul, in turns."""
    found: dict[str, dict[str, list[float]]] = {
        name: {"seconds": [], "peak": []} for name in pythons
    }
    with tempfile.TemporaryDirectory() as compiled:
        # As installed: with bytecode, even where the environment keeps Python from writing it.
        kept = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": compiled}
        for turn in range(repeats + 1):
            for name, python in pythons.items():
                begin = time.perf_counter()
                output = subprocess.check_output(
                    [python, "-c", FIRST[name] + _PEAK],
                    text=True, cwd=compiled, env=os.environ | kept, stderr=subprocess.DEVNULL,
                )  # fmt: skip
                if turn:  # the first one compiles, and warms the disk cache
                    found[name]["seconds"].append(time.perf_counter() - begin)
                    found[name]["peak"].append(int(output.split()[-1]) / 1024)
    return {
        name: {what: statistics.median(values) for what, values in one.items()}
        for name, one in found.items()
    }


def version(framework: str, python: str) -> str:
    """The version of a framework in an environment."""
    names = _DISTRIBUTIONS.get(framework, [framework])
    source = f"""
import importlib.metadata as metadata
found = {{(d.name or "").lower().replace("_", "-"): d.version for d in metadata.distributions()}}
print(next(found[name] for name in {names!r} if name in found))
"""
    return subprocess.check_output([python, "-c", source], text=True).strip()


def installed(name: str, python: str) -> float:
    """MB on disk of a framework with all that it requires."""
    source = _SIZE.replace("WANTED", repr(_DISTRIBUTIONS.get(name, [name])))
    return int(subprocess.check_output([python, "-c", source], text=True)) / 1e6


def peaks(peers: dict[Peer, str], workload: str, threads: int) -> dict[str, dict[str, float]]:
    """MiB at most in a few steps of a workload, each peer in a fresh process."""
    found: dict[str, dict[str, Any]] = {}
    for peer, python in peers.items():
        command = [python, str(HERE / "worker.py"), peer.framework, peer.mode, "--peak", workload]
        ran = subprocess.run(
            command, capture_output=True, text=True, cwd=HERE, env=environment(peer, threads)
        )
        if ran.returncode == 0:
            found[peer.name] = json.loads(ran.stdout)
    return found
