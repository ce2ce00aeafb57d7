"""Times the gradient of each example, and a step of DP-SGD, beside PyTorch's `torch.func`.

    uv run benchmarks/per_example.py --torch-python ~/torch-env/bin/python

A network of two dense layers, by `pb.vmap(pb.grad(...))` op by op and captured, by a loop over the
examples, and by `torch.func.vmap(torch.func.grad(...))`. Each framework runs in a process of its
own on one thread; rounds are in turns, and a time is the least of their processor times.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

SIZES = 64, 64, 10  # inputs, hidden units, classes
GRADIENTS, STEP = 256, 64  # examples: of the gradients, and of the step of DP-SGD


def data(batch: int) -> tuple[Any, Any, list[Any]]:
    """Images, labels and weights."""
    rng = np.random.default_rng(0)
    images = rng.standard_normal((batch, SIZES[0]), np.float32)
    labels = rng.integers(0, SIZES[2], batch)
    shapes = (SIZES[0], SIZES[1]), (SIZES[1],), (SIZES[1], SIZES[2]), (SIZES[2],)
    return images, labels, [0.1 * rng.standard_normal(shape, np.float32) for shape in shapes]


def of_pullback() -> dict[str, Callable[[], Any]]:
    import pullback as pb

    hidden = pb.layers.Dense(SIZES[1], activation="tanh", input_shape=SIZES[:1])
    model = pb.Sequential([hidden, pb.layers.Dense(SIZES[2])])

    def loss(values: Any, image: Any, label: Any) -> Any:
        logits = pb.functional_call(model, values, image[None])
        return pb.losses.sparse_softmax_cross_entropy(label[None], logits)

    each = pb.vmap(pb.grad(loss), in_axes=(None, 0, 0))
    images, labels, weights = data(GRADIENTS)
    for variable, weight in zip(model.trainable_variables, weights, strict=True):
        variable.assign(weight)
    x, y, values = pb.asarray(images), pb.asarray(labels), [*map(pb.asarray, weights)]
    captured, one = pb.function(each), pb.grad(loss)
    optimizer = pb.optimizers.SGD(0.25, momentum=0.9)
    few = pb.asarray(images[:STEP]), pb.asarray(labels[:STEP])

    def step(images: Any, labels: Any) -> None:
        rows = each([v.value for v in model.trainable_variables], images, labels)
        squares = sum(pb.sum(g.reshape(STEP, -1) ** 2, axis=1) for g in rows)
        scale = 1.0 / pb.maximum(1.0, pb.sqrt(squares))
        sums = [pb.einsum("i,i...->...", scale, g) for g in rows]
        noisy = [(s + pb.random.normal(s.shape)) / STEP for s in sums]
        optimizer.apply_gradients(zip(noisy, model.trainable_variables, strict=True))

    in_program = pb.function(step)
    return {
        "gradients by a loop": lambda: [one(values, x[i], y[i]) for i in range(GRADIENTS)],
        "gradients op by op": lambda: each(values, x, y),
        "gradients captured": lambda: captured(values, x, y),
        "DP-SGD op by op": lambda: step(*few),
        "DP-SGD captured": lambda: in_program(*few),
    }


def of_torch() -> dict[str, Callable[[], Any]]:
    import torch

    torch.set_num_threads(1)
    model = torch.nn.Sequential(
        torch.nn.Linear(*SIZES[:2]), torch.nn.Tanh(), torch.nn.Linear(*SIZES[1:])
    )
    images, labels, weights = data(GRADIENTS)
    with torch.no_grad():
        for parameter, weight in zip(model.parameters(), weights, strict=True):
            parameter.copy_(torch.tensor(weight).T if weight.ndim == 2 else torch.tensor(weight))

    def loss(values: Any, image: Any, label: Any) -> Any:
        logits = torch.func.functional_call(model, values, (image[None],))
        return torch.nn.functional.cross_entropy(logits, label[None])

    each = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))
    x, y = torch.tensor(images), torch.tensor(labels)
    values = {name: p.detach() for name, p in model.named_parameters()}
    optimizer = torch.optim.SGD(model.parameters(), 0.25, momentum=0.9)
    few = x[:STEP], y[:STEP]

    def step(images: Any, labels: Any) -> None:
        rows = each({n: p.detach() for n, p in model.named_parameters()}, images, labels)
        squares = sum((g.reshape(STEP, -1) ** 2).sum(1) for g in rows.values())
        scale = 1.0 / torch.clamp(squares.sqrt(), min=1.0)
        for name, parameter in model.named_parameters():
            total = torch.einsum("i,i...->...", scale, rows[name])
            parameter.grad = (total + torch.randn_like(total)) / STEP
        optimizer.step()

    return {
        "gradients by torch.func": lambda: each(values, x, y),
        "DP-SGD by torch.func": lambda: step(*few),
    }


def work(framework: str) -> None:
    """Answers each name that is read with the seconds of a call."""
    calls = {"pullback": of_pullback, "torch": of_torch}[framework]()
    for call in calls.values():
        for _ in range(20 if framework == "torch" else 3):
            call()
    print(*calls, sep=",", flush=True)
    for line in sys.stdin:
        call = calls[line.strip()]
        count = 1 if "loop" in line else 20
        begin = time.process_time()
        for _ in range(count):
            call()
        print((time.process_time() - begin) / count, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n")[0])
    parser.add_argument("--torch-python", help="a Python that has PyTorch")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        work(given.worker)
        return
    one_thread = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PULLBACK_NUM_THREADS": "1"}
    pythons = {"pullback": sys.executable, "torch": given.torch_python}
    workers = [
        subprocess.Popen(
            [python, __file__, "--worker", framework],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | one_thread,
        )
        for framework, python in pythons.items()
        if python
    ]
    times: dict[str, list[float]] = {}
    cases = [(worker, worker.stdout.readline().strip().split(",")) for worker in workers]  # type: ignore[union-attr]
    for _ in range(given.rounds):
        for worker, names in cases:
            for name in names:
                print(name, file=worker.stdin, flush=True)
                times.setdefault(name, []).append(float(worker.stdout.readline()))  # type: ignore[union-attr]
    for name, found in times.items():
        print(f"{name:24} {min(found) * 1e3:8.3f} ms")
    for worker in workers:
        worker.stdin.close()  # type: ignore[union-attr]
        worker.wait()


if __name__ == "__main__":
    main()
