"""Times a chain of matrix products on the CPU and on the GPU.

    uv run examples/matmul_devices.py

Work on a device may still be under way when a product returns; `numpy()` waits for all of it.
"""

from __future__ import annotations

import argparse
import time

from tqdm import tqdm

import pullback as pb


def chain(x, steps: int, name: str):
    """The product of `steps` factors x and one more."""
    product = x
    for _ in tqdm(range(steps), desc=name, leave=False):
        product = product @ x
    return product


def measure(device, size: int, steps: int, seed: int) -> float:
    """Seconds that the chain takes on a device."""
    # By this scale the powers of x neither grow nor vanish: its eigenvalues fill the unit disk.
    x = pb.Generator(seed).normal((size, size), device=device) / size**0.5
    (x @ x).numpy()  # what a first product prepares is not measured
    start = time.perf_counter()
    chain(x, steps, str(device)).numpy()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", help="one device to measure; the CPU and the first GPU if none")
    options = parser.parse_args()

    if options.device is None:
        found = {kind: pb.devices(kind)[:1] for kind in ("cpu", "gpu")}
    else:
        try:
            with pb.device(options.device):
                device = pb.default_device()
        except pb.errors.PullbackError as error:
            parser.error(str(error))
        found = {device.kind: [device]}

    print(f"({options.size}, {options.size}) by itself, {options.steps} times:")
    for kind, devices in found.items():
        if not devices:
            print(f"{kind.upper()}: not found")
        for device in devices:
            seconds = measure(device, options.size, options.steps, options.seed)
            rate = 2 * options.size**3 * options.steps / seconds / 1e9
            print(f"{kind.upper()}: {seconds:.3f} s, {rate:.1f} GFLOP/s")


if __name__ == "__main__":
    main()
