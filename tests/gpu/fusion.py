"""Fused kernels and CUDA graphs of captured functions: bits beside the calls one by one, and times.

Bits: random groups of exact ops, each function of one number, sums of rows. Times: medians of
blocks of calls, the ways in turn: op by op, captured without and with fused kernels, and as a CUDA
graph.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import common
import numpy as np

import pullback as pb

#: Each dtype with the step at 1, and the smallest number that is not subnormal.
DTYPES = {
    "float32": (2.0**-23, 2.0**-126),
    "float64": (2.0**-52, 2.0**-1022),
    "float16": (2.0**-10, 2.0**-14),
    "bfloat16": (2.0**-7, 2.0**-126),
}
UNARY = ("abs", "ceil", "floor", "negative", "sign", "square", "relu", "trunc", "hard_tanh")
BINARY = ("add", "subtract", "multiply", "divide")
FUNCTIONS = (
    "acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "erf", "erfc", "exp", "expm1",
    "log", "log10", "log1p", "log2", "sin", "sinh", "sqrt", "tan", "tanh", "gelu", "mish", "selu",
    "sigmoid", "silu", "softplus",
)  # fmt: skip
#: The distance in steps of the dtype that fails: 0 is what is expected on a GPU.
MOST_STEPS = 8


def numbers(rng: np.random.Generator, dtype: str, *shape: int) -> Any:
    """Values of every size, with infinities, NaN and both zeros."""
    x = rng.standard_normal(shape) * np.exp(rng.uniform(-6, 6, shape))
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0]
    x.reshape(-1)[: len(special)] = special[: x.size]
    return x.astype(dtype)


def random_group(rng: np.random.Generator) -> Callable[..., Any]:
    """A function of three tensors: some calls of exact ops, each of earlier results."""
    steps = [
        (int(rng.integers(3)), int(rng.integers(9)), rng.random(), rng.random())
        for _ in range(rng.integers(2, 14))
    ]

    def function(*tensors: Any) -> Any:
        values = list(tensors)
        for kind, which, first, second in steps:
            a, b = (values[int(part * len(values))] for part in (first, second))
            if kind == 0:
                values.append(getattr(pb, UNARY[which])(a))
            elif kind == 1:
                values.append(getattr(pb, BINARY[which % len(BINARY)])(a, b))
            else:
                values.append(pb.where(a < b, a, b))
        return tuple(values[len(tensors) :])

    return function


def negative_of(name: str) -> Callable[..., Any]:
    """The function of a name, in a group with a call that is exact."""
    op = getattr(pb, name)
    return lambda x: pb.negative(op(x))


def both(function: Callable[..., Any], *tensors: Any) -> list[tuple[Any, Any]]:
    """The results of a function and of its program."""
    program = pb.function(function)
    for _ in range(3):
        found = program(*tensors)
    expected = function(*tensors)
    found, expected = (x if isinstance(x, tuple) else (x,) for x in (found, expected))
    return [(x.numpy(), y.numpy()) for x, y in zip(expected, found, strict=True)]


def steps_apart(x: Any, y: Any) -> tuple[int, float]:
    """The number of elements that differ in bits, and the largest distance in steps."""
    if x.dtype.kind not in "fV":
        differ = int(np.sum(x != y))
        return differ, float("inf") if differ else 0.0
    nan = np.isnan(x) & np.isnan(y)
    bits = f"u{x.dtype.itemsize}"
    differ = int(np.sum((x.view(bits) != y.view(bits)) & ~nan))
    step, smallest = DTYPES[x.dtype.name]
    size = np.maximum(np.abs(x.astype(np.float64)), smallest)
    with np.errstate(all="ignore"):
        apart = np.abs(x.astype(np.float64) - y.astype(np.float64))
        apart = np.where(nan | (x == y), 0, apart / size / step)
    return differ, float(np.nan_to_num(np.max(apart, initial=0), nan=np.inf))


def compare(given: Any, rng: np.random.Generator) -> tuple[list[str], bool]:
    """A table of how fused kernels differ from the calls."""
    table = ["| compared | results | elements with other bits | largest distance in steps |",
             "|---|---|---|---|"]  # fmt: skip
    passed = True

    def add(name: str, pairs: list[tuple[Any, Any]], bar: float) -> None:
        nonlocal passed
        found = [steps_apart(x, y) for x, y in pairs]
        differ, apart = sum(n for n, _ in found), max((most for _, most in found), default=0.0)
        passed = passed and apart <= bar
        table.append(f"| {name} | {len(pairs)} | {differ} | {apart:.3g} |")

    for dtype in ("float32", "bfloat16") if given.quick else DTYPES:
        pairs: list[tuple[Any, Any]] = []
        for _ in range(3 if given.quick else 50):
            shapes = [
                (24, 40),
                *([(), (40,), (24, 1), (24, 40)][i] for i in rng.integers(4, size=2)),
            ]
            pairs += both(random_group(rng), *(pb.asarray(numbers(rng, dtype, *s)) for s in shapes))
        add(f"random groups, {dtype}", pairs, 0.0)
        x = pb.asarray(numbers(rng, dtype, 4096))
        for name in FUNCTIONS[:4] if given.quick else FUNCTIONS:
            add(f"{name}, {dtype}", both(negative_of(name), x), MOST_STEPS)
        for columns in (33, 1000) if given.quick else (33, 128, 1000, 20000):
            x = pb.asarray(rng.standard_normal((40, columns)).astype(dtype))
            pairs = both(lambda x: pb.sum(pb.square(x) + 1, axis=-1), x)
            add(f"sums of {columns} columns, {dtype}", pairs, 0.0)
    return table, passed


# Times -------------------------------------------------------------------------------------------


def chain(x: Any) -> Any:
    y = pb.relu(x * 1.5 + 0.25)
    return pb.sqrt(y * y + 1) - pb.tanh(y) * x


def updates(parameters: int) -> Callable[..., Any]:
    """A step of Adam for many small variables."""
    variables = [pb.Variable(np.ones(1000, np.float32)) for _ in range(parameters)]
    optimizer = pb.optimizers.Adam(1e-3)

    def step(x: Any) -> Any:
        optimizer.apply_gradients([(x * 2, v) for v in variables])
        return x * 1

    return step


def programs(make: Callable[[], Any], x: Any, backend: Any) -> dict[str, Callable[..., Any]]:
    """The ways to run a function: each with variables of its own, and warm."""
    import pullback_cupy

    def captured(*, graphs: bool, fused: bool) -> Callable[..., Any]:
        program: Callable[..., Any] = pb.function(make())
        fusible = backend.fusible
        pullback_cupy.use_cuda_graphs(graphs)
        try:
            if not fused:
                backend.fusible = lambda: ()
            for _ in range(5):
                program(x)
        finally:
            backend.fusible = fusible
            pullback_cupy.use_cuda_graphs(False)
        return program

    return {
        "op by op": make(),
        "captured": captured(graphs=False, fused=False),
        "fused": captured(graphs=False, fused=True),
        "CUDA graph": captured(graphs=True, fused=True),
    }


def timed(ways: dict[str, Callable[..., Any]], x: Any, blocks: int, calls: int) -> list[float]:
    """Microseconds a call of each way: medians of blocks that take turns."""
    found: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(blocks):
        for name, way in ways.items():
            x.device.synchronize()
            begin = time.perf_counter()
            for _ in range(calls):
                way(x)
            x.device.synchronize()
            found[name].append((time.perf_counter() - begin) / calls * 1e6)
    return [statistics.median(times) for times in found.values()]


def times(given: Any, backend: Any) -> list[str]:
    """A table of microseconds a call."""
    blocks, calls = (2, 2) if given.quick else (31, 50)
    cases: list[tuple[str, Callable[[], Any], Any]] = []
    for size in (1000, 1 << 18) if given.quick else (1000, 1 << 16, 1 << 20, 1 << 24):
        cases.append((f"8 elementwise calls, {size}", lambda: chain, pb.ones(size)))
    count = 3 if given.quick else 100
    cases.append((f"Adam, {count} variables of 1000", lambda: updates(count), pb.ones(1000)))
    table: list[str] = []
    for name, make, x in cases:
        ways = programs(make, x, backend)
        if not table:
            table = [f"| microseconds a call | {' | '.join(ways)} |", "|---|" + "---|" * len(ways)]
        found = timed(ways, x, blocks, calls)
        table.append(f"| {name} | {' | '.join(f'{each:.1f}' for each in found)} |")
    return table


def main() -> None:
    given = common.arguments(__doc__)
    common.use_cupy()
    device = pb.device(given.device)
    with device:
        table, passed = compare(given, np.random.default_rng(0))
        measured = times(given, device.backend)
    common.finish(given, {"table": [*table, "", *measured], "passed": passed}, passed)


if __name__ == "__main__":
    main()
