"""Times the NumPy backend's convolution and pooling kernels beside torch's, on the same machine at
the same time.

    python benchmarks/convolution.py --torch-python PYTHON [--filter 3x3] [--batch 1] [--turns 9]

Without --torch-python, torch is imported into a process of this interpreter if it can be, else left
out. The two sides run in turns, in separate processes, and each value is a median over all turns;
"ratio" is torch's time over ours (1 is a tie, more is faster than torch), against the faster of
torch's contiguous and channels-last layouts.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple


class Case(NamedTuple):
    n: int
    size: int
    channels: int
    window: int
    features: int
    stride: int
    kind: str = "conv"

    @property
    def pad(self) -> int:
        return self.window // 2 if self.kind != "pool" else 0

    @property
    def out(self) -> int:
        return (self.size + 2 * self.pad - self.window) // self.stride + 1

    @property
    def name(self) -> str:
        image = f"{self.n}x{self.size}x{self.size}x{self.channels}"
        window = f"{self.window}x{self.window}" + (f"/{self.stride}" if self.stride > 1 else "")
        return f"{self.kind} {image} {window}" + (
            f" {self.features}" if self.kind == "conv" else ""
        )

    @property
    def flops(self) -> int:
        """Multiplications and additions of a convolution; 0 for pooling."""
        if self.kind == "pool":
            return 0
        inputs = self.channels if self.kind == "conv" else 1
        return 2 * self.n * self.out**2 * self.window**2 * inputs * self.features


def cases() -> list[Case]:
    convs = [
        (64, 28, 1, 5, 32, 1),
        (64, 14, 32, 5, 64, 1),
        (32, 32, 3, 3, 32, 1),
        (32, 32, 32, 3, 32, 1),
        (32, 16, 64, 3, 64, 1),
        (32, 8, 128, 3, 128, 1),
        (32, 32, 3, 3, 32, 2),
        (32, 32, 32, 3, 64, 2),
        (32, 16, 64, 3, 128, 2),
        (32, 32, 32, 1, 64, 2),
        (32, 16, 64, 1, 128, 2),
        (32, 16, 64, 1, 64, 1),
    ]
    listed = [Case(*case) for case in convs]
    listed += [Case(1, *case[1:]) for case in convs]
    listed += [Case(32, 32, 32, 3, 32, 1, "depthwise"), Case(32, 16, 128, 3, 128, 2, "depthwise")]
    listed += [
        Case(64, 28, 32, 2, 32, 2, "pool"),
        Case(64, 14, 64, 2, 64, 2, "pool"),
        Case(1, 28, 32, 2, 32, 2, "pool"),
    ]
    listed += [Case(32, 32, 32, 3, 32, 2, "pool")]
    return listed


def ours(case: Case) -> dict[str, Callable[[], Any]]:
    import numpy as np

    from pullback_numpy import convolution, pooling

    random = np.random.default_rng(0)
    n, size, channels, window, features, stride, kind = case
    x = random.standard_normal((n, size, size, channels), np.float32)
    strides, padding = (stride, stride), ((case.pad, case.pad),) * 2
    g = random.standard_normal((n, case.out, case.out, features), np.float32)
    if kind == "pool":
        how: dict[str, Any] = {"window": (window, window), "strides": strides, "padding": padding}
        _, indices = pooling.max_pool(x, **how)
        return {
            "max": lambda: pooling.max_pool(x, **how),
            "max grad": lambda: pooling.max_pool_gradient(g, indices, input_shape=x.shape, **how),
            "avg": lambda: pooling.avg_pool(x, count_include_pad=True, **how),
            "avg grad": lambda: pooling.avg_pool_gradient(
                g, input_shape=x.shape, count_include_pad=True, **how
            ),
        }
    groups = channels if kind == "depthwise" else 1
    kernel = random.standard_normal((window, window, channels // groups, features), np.float32)
    how = {"strides": strides, "padding": padding, "dilation": (1, 1), "groups": groups}
    return {
        "forward": lambda: convolution.conv(x, kernel, **how),
        "input grad": lambda: convolution.conv_input_gradient(
            g, kernel, input_shape=x.shape, **how
        ),
        "kernel grad": lambda: convolution.conv_kernel_gradient(
            x, g, kernel_shape=kernel.shape, **how
        ),
    }


def theirs(case: Case) -> dict[str, list[Callable[[], Any]]]:
    import torch

    n, size, channels, window, features, stride, kind = case
    found: dict[str, list[Callable[[], Any]]] = {}

    def add(**named: Callable[[], Any]) -> None:
        for name, function in named.items():
            found.setdefault(name.replace("_", " "), []).append(function)

    aten, functional = torch.ops.aten, torch.nn.functional
    sizes: Any = [[window] * 2, [stride] * 2, [0, 0]]
    groups = channels if kind == "depthwise" else 1
    how: Any = ([stride] * 2, [case.pad] * 2, [1, 1], False, [0, 0], groups)

    def pool(x: Any, g: Any) -> None:
        indices = functional.max_pool2d(x, window, stride, return_indices=True)[1]
        backward = aten.max_pool2d_with_indices_backward
        add(
            max=lambda: functional.max_pool2d(x, window, stride, return_indices=True),
            max_grad=lambda: backward(g, x, *sizes, [1, 1], False, indices),
            avg=lambda: functional.avg_pool2d(x, window, stride),
            avg_grad=lambda: aten.avg_pool2d_backward(g, x, *sizes, False, True, None),
        )

    def convolve(x: Any, g: Any, kernel: Any) -> None:
        backward = aten.convolution_backward
        add(
            forward=lambda: functional.conv2d(x, kernel, None, *how[:3], groups),
            input_grad=lambda: backward(g, x, kernel, None, *how, [True, False, False]),
            kernel_grad=lambda: backward(g, x, kernel, None, *how, [False, True, False]),
        )

    for layout in (torch.contiguous_format, torch.channels_last):
        x = torch.randn(n, channels, size, size).to(memory_format=layout)
        g = torch.randn(n, features, case.out, case.out).to(memory_format=layout)
        if kind == "pool":
            pool(x, g)
        else:
            kernel = torch.randn(features, channels // groups, window, window)
            convolve(x, g, kernel.to(memory_format=layout))
    return found


def burst(function: Callable[[], Any], seconds: float) -> list[float]:
    """Times of repeated calls for about `seconds`, after one call to warm up."""
    function()
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return times


def serve() -> None:
    """The torch side: reads [case, name, seconds] lines, answers with times for each layout."""
    import torch

    prepared: tuple[Any, Any] = (None, None)
    with torch.inference_mode():
        for line in sys.stdin:
            fields, name, seconds = json.loads(line)
            case = Case(*fields)
            if prepared[0] != case:
                prepared = case, theirs(case)
            print(
                json.dumps([burst(function, seconds) for function in prepared[1][name]]), flush=True
            )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--torch-python", help="an interpreter that has torch")
    parser.add_argument("--filter", default="", help="only cases whose name contains this")
    parser.add_argument(
        "--only",
        default="",
        help="only this kernel: forward, 'input grad', 'kernel grad', max, avg ...",
    )
    parser.add_argument("--batch", type=int, help="only cases of this batch size")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.05, help="length of one side's turn")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        serve()
        return
    python = args.torch_python or (sys.executable if importlib.util.find_spec("torch") else None)
    peer = None
    if python:
        command = [python, os.path.abspath(__file__), "--serve"]
        peer = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    print(
        f"{'case':36} {'kernel':12} {'us':>9} {'GFLOP/s':>8}"
        f" {'torch':>9} {'torch cl':>9} {'ratio':>6}"
    )
    for case in cases():
        if args.filter not in case.name or (args.batch and case.n != args.batch):
            continue
        for name, function in ours(case).items():
            if args.only and name != args.only:
                continue
            mine: list[float] = []
            others: list[list[float]] = [[], []]
            for _ in range(args.turns):
                mine += burst(function, args.seconds)
                if peer and peer.stdin and peer.stdout:
                    time.sleep(0.02)  # lets BLAS's waiting thread fall asleep
                    print(json.dumps([case, name, args.seconds]), file=peer.stdin, flush=True)
                    for times, more in zip(others, json.loads(peer.stdout.readline()), strict=True):
                        times += more
            us = statistics.median(mine) * 1e6
            rate = f"{case.flops / us / 1e3:8.1f}" if case.flops else " " * 8
            peers = [statistics.median(times) * 1e6 for times in others if times]
            columns = " ".join(f"{value:9.0f}" for value in peers) + (
                f" {min(peers) / us:6.2f}" if peers else ""
            )
            print(f"{case.name:36} {name:12} {us:9.0f} {rate} {columns}", flush=True)
    if peer and peer.stdin:
        peer.stdin.close()
        peer.wait()


if __name__ == "__main__":
    main()
