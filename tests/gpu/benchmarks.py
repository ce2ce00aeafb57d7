"""One framework's seconds for the same work on the GPU; run beside others by `tests/gpu/run`.

Times are of many calls in a row with one wait at the end; the median of several rounds.
"""

from __future__ import annotations

import functools
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import common
import numpy as np

Call = Callable[[], Any]
#: The shapes of the arguments, and their dtype, by what is timed.
SIZES: dict[str, tuple[Any, ...]] = {
    "matmul 4096 float32": ((4096, 4096), (4096, 4096), "float32"),
    "matmul 4096 float16": ((4096, 4096), (4096, 4096), "float16"),
    "matmul 4096 bfloat16": ((4096, 4096), (4096, 4096), "bfloat16"),
    "add 10x10": ((10, 10), (10, 10), "float32"),
    "gelu 2^24": ((1 << 24,), "float32"),
    "softmax 8192x4096": ((8192, 4096), "float32"),
    "layer_norm 8192x1024": ((8192, 1024), "float32"),
    "conv 3x3, 32x64x64x64": ((32, 64, 64, 64), (3, 3, 64, 64), "float32"),
    "conv 3x3, 32x64x64x64 float16": ((32, 64, 64, 64), (3, 3, 64, 64), "float16"),
    "attention 8x16x1024x64 float16": ((8, 16, 1024, 64),) * 3 + ("float16",),
    "embedding gradient 65536 of 50000x256": ((65536, 256), "float32"),
    "normal numbers 2^24": ("float32",),
}


def host(name: str) -> list[Any]:
    rng = np.random.default_rng(0)
    *shapes, _dtype = SIZES[name]
    return [rng.standard_normal(shape, np.float32) for shape in shapes]


def places() -> Any:
    return np.random.default_rng(1).integers(0, 50000, 65536)


def with_pullback(device: str) -> tuple[dict[str, Callable[..., Any]], Any, Call]:
    common.use_cupy()
    import pullback as pb

    gpu = pb.device(device)

    def make(array: Any, dtype: str) -> Any:
        return pb.asarray(array, device=gpu).astype(dtype)

    index = pb.asarray(places(), device=gpu)
    functions: dict[str, Callable[..., Any]] = {
        "matmul": pb.matmul,
        "add": pb.add,
        "gelu": pb.gelu,
        "softmax": pb.softmax,
        "layer_norm": pb.layer_norm,
        "conv": lambda x, k: pb.conv(x, k, padding="same"),
        "attention": pb.scaled_dot_product_attention,
        "embedding": lambda g: pb.segment_sum(g, index, 50000),
        "normal": lambda: pb.random_normal((1 << 24,), key=1, counter=0, device=gpu),
    }
    return functions, make, gpu.synchronize


def with_torch(device: str) -> tuple[dict[str, Callable[..., Any]], Any, Call]:
    import torch
    from torch.nn import functional

    torch.backends.cudnn.allow_tf32 = False  # nor do we round to it
    gpu = torch.device("cuda", int(device.rsplit(":", 1)[-1]))

    def make(array: Any, dtype: str) -> Any:
        return torch.from_numpy(array).to(gpu, getattr(torch, dtype))

    index = torch.from_numpy(places()).to(gpu)

    def conv(x: Any, k: Any) -> Any:
        # Channels last in memory, as pullback's are.
        return functional.conv2d(x.permute(0, 3, 1, 2), k.permute(3, 2, 0, 1), padding="same")

    def embedding(g: Any) -> Any:
        total = g.new_zeros((50000, g.shape[1]))
        return total.index_put_((index,), g, accumulate=True)  # the deterministic one

    functions: dict[str, Callable[..., Any]] = {
        "matmul": torch.matmul,
        "add": torch.add,
        "gelu": functional.gelu,
        "softmax": lambda x: torch.softmax(x, -1),
        "layer_norm": lambda x: functional.layer_norm(x, x.shape[-1:]),
        "conv": conv,
        "attention": functional.scaled_dot_product_attention,
        "embedding": embedding,
        "normal": lambda: torch.randn(1 << 24, device=gpu),
    }
    return functions, make, torch.cuda.synchronize


def with_jax(device: str) -> tuple[dict[str, Callable[..., Any]], Any, Call]:
    import jax
    from jax import numpy as jnp

    gpu = jax.devices("gpu")[int(device.rsplit(":", 1)[-1])]
    last: list[Any] = []

    def make(array: Any, dtype: str) -> Any:
        return jax.device_put(array, gpu).astype(dtype)

    def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
        fast = jax.jit(function)

        def call(*arrays: Any) -> Any:
            last[:] = [fast(*arrays)]

        return call

    def layer_norm(x: Any) -> Any:
        away = x - x.mean(-1, keepdims=True)
        return away * jax.lax.rsqrt((away * away).mean(-1, keepdims=True) + 1e-5)

    index, key = jax.device_put(places(), gpu), jax.device_put(jax.random.key(0), gpu)
    functions: dict[str, Callable[..., Any]] = {
        "matmul": lambda x, y: jnp.matmul(x, y, precision="highest"),
        "add": jnp.add,
        "gelu": lambda x: jax.nn.gelu(x, approximate=False),
        "softmax": jax.nn.softmax,
        "layer_norm": layer_norm,
        "conv": lambda x, k: jax.lax.conv_general_dilated(
            x, k, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), precision="highest"
        ),
        "attention": lambda q, k, v: jax.nn.dot_product_attention(
            *(jnp.moveaxis(x, 1, 2) for x in (q, k, v))
        ),
        "embedding": lambda g: jax.ops.segment_sum(g, index, 50000),
        "normal": lambda: jax.random.normal(key, (1 << 24,)),
    }
    return (
        {name: compiled(one) for name, one in functions.items()},
        make,
        lambda: jax.block_until_ready(last),
    )


def timed(call: Call, wait: Call, rounds: int) -> float:
    """Seconds of a call: the median of some rounds of about 50 ms."""
    call()
    wait()
    count = 1
    while True:
        begin = time.perf_counter()
        for _ in range(count):
            call()
        wait()
        took = time.perf_counter() - begin
        if took > 0.05 or count >= 1 << 14:
            break
        count *= 2
    found = [took / count]
    for _ in range(rounds - 1):
        begin = time.perf_counter()
        for _ in range(count):
            call()
        wait()
        found.append((time.perf_counter() - begin) / count)
    return statistics.median(found)


def measured(framework: str, device: str, quick: bool) -> Iterator[tuple[str, float | str]]:
    functions, make, wait = globals()[f"with_{framework}"](device)
    for name in SIZES:
        try:
            arrays = [make(array, SIZES[name][-1]) for array in host(name)]
            function = functions[name.split()[0]]
            yield name, timed(functools.partial(function, *arrays), wait, 3 if quick else 9)
        except Exception as error:
            yield name, f"{type(error).__name__}: {error}"[:200]


def table(found: dict[str, dict[str, Any]]) -> list[str]:
    """Microseconds, a column for each framework."""
    names = list(found)
    lines = [f"| us | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    for work in SIZES:
        cells = []
        for name in names:
            value = found[name].get(work)
            cells.append(f"{value * 1e6:.1f}" if isinstance(value, float) else "-")
        lines.append(f"| {work} | {' | '.join(cells)} |")
    return lines


def main() -> None:
    given = common.arguments(__doc__, "--framework")
    framework = given.framework or "pullback"
    known = json.loads(given.json.read_text()) if given.json and given.json.exists() else {}
    found = known.get("found", {})
    try:
        found[framework] = dict(measured(framework, given.device, given.quick))
    except ImportError as error:
        # A peer that is not there is left out; pullback has to be.
        print(f"{framework} is left out: {error}")
        if framework == "pullback":
            sys.exit(1)
    wrong = [v for v in found.get("pullback", {}).values() if isinstance(v, str)]
    common.finish(given, {"found": found, "table": table(found)}, not wrong)


if __name__ == "__main__":
    main()
