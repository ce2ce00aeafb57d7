"""Measures fused calls over rows: captured functions with and without softmax and normalizations in
their groups, by the kernel pack.

    uv run benchmarks/fused_rows.py --threads 1

The two take turns in one process. Times are of the processor; the ratio is the median of those of
the rounds. Both give the same bits, or it fails.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
parser.add_argument("--threads", default="1")
parser.add_argument("--rounds", type=int, default=40)

#: Seconds of a block.
BLOCK = 0.02
Shapes = list[tuple[int, ...]]


def cases(pb: Any) -> Iterator[tuple[str, Callable[..., Any], Shapes]]:
    """Names, functions, and the shapes of their arguments."""
    for shape in ((128, 384), (1024, 384), (128, 8192)):
        row = shape[-1:]
        yield (
            f"x + y, layer_norm {list(shape)}",
            lambda x, y, s, o: pb.layer_norm(x + y, s, o),
            [shape, shape, row, row],
        )
        yield (
            f"x + y, layer_norm, also x + y {list(shape)}",
            lambda x, y, s, o: (z := x + y, pb.layer_norm(z, s, o)),
            [shape, shape, row, row],
        )
    yield "x + y, rms_norm [1024, 384]", lambda x, y: pb.rms_norm(x + y), [(1024, 384)] * 2
    for shape in ((1, 12, 128, 128), (8, 12, 128, 128), (32, 8192)):
        yield (
            f"scores * s + mask, softmax {list(shape)}",
            lambda x, m: pb.softmax(x * 0.125 + m),
            [shape, shape],
        )
    yield "layer_norm, gelu [1024, 384]", lambda x: pb.gelu(pb.layer_norm(x)), [(1024, 384)]
    for shape in ((1, 8, 8, 64), (1, 32, 32, 32), (32, 32, 32, 32)):
        yield (
            f"batch_norm_inference, relu {list(shape)}",
            lambda x, *rows: pb.relu(pb.batch_norm_inference(x, *rows)),
            [shape, *[shape[-1:]] * 4],
        )


def without_rows(backend: Any) -> None:
    """Leaves ops over rows out of what is fused."""
    from pullback.plugins.records import Fuser
    from pullback_native.fusion import OVER_ROWS

    rows = {*OVER_ROWS, "batch_norm_inference"}
    backend._fusers = tuple(
        Fuser(fuser.fuse, fuser.ops - rows, fuser.source, fuser.priority)
        for fuser in backend._fusers
    )


def captured(pb: Any, function: Callable[..., Any], arguments: list[Any]) -> Any:
    """A captured function that has been traced."""
    found = pb.function(lambda *x: function(*x))
    for _ in range(4):
        found(*arguments)
    return found


def results(found: Any) -> list[bytes]:
    """The bits of the results."""
    return [y.numpy().tobytes() for y in (found if isinstance(found, tuple) else [found])]


def seconds(function: Callable[..., Any], arguments: list[Any], times: int) -> float:
    """Processor time of a call."""
    begin = time.process_time()
    for _ in range(times):
        function(*arguments)
    return (time.process_time() - begin) / times


def main() -> None:
    """Prints a line for each case."""
    asked = parser.parse_args()
    os.environ["PULLBACK_NUM_THREADS"] = asked.threads
    from workloads.with_pullback import settle

    import pullback as pb

    backend: Any = pb.asarray(0.0).device.backend
    fusers = backend._fusers
    rng = np.random.default_rng(0)
    for name, function, shapes in cases(pb):
        arguments = [pb.asarray(abs(rng.standard_normal(s, np.float32)) + 0.1) for s in shapes]
        both = [captured(pb, function, arguments)]
        without_rows(backend)
        both.append(captured(pb, function, arguments))
        backend._fusers = fusers
        bits = [results(f(*arguments)) for f in both]
        if bits[0] != bits[1]:
            raise SystemExit(f"{name}: other bits")
        settle(lambda _: [f(*arguments) for f in both])  # noqa: B023
        times = max(1, int(BLOCK / seconds(both[1], arguments, 3)))
        spent: list[list[float]] = [[], []]
        for i in range(asked.rounds):
            for k in (0, 1) if i % 2 else (1, 0):
                spent[k].append(seconds(both[k], arguments, times))
        ratio = statistics.median(a / b for a, b in zip(*spent, strict=True))
        rows, apart = (1e6 * statistics.median(each) for each in spent)
        print(f"{name:48} {rows:9.1f} us, rows apart {apart:9.1f} us: {ratio:.2f}", flush=True)


if __name__ == "__main__":
    main()
