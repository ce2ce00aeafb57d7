"""Whole trainings on the CPU and on the GPU: the same losses."""

from __future__ import annotations

from collections.abc import Callable

import common


def main() -> None:
    given = common.arguments(__doc__)
    common.use_cupy()
    digits = common.module("tests/parity.py")
    small = common.module("tests/gpu/small_model.py")
    count = 10 if given.quick else 50
    runs: dict[str, tuple[Callable[[str], list[float]], float]] = {
        # The bar: equal to 1e-4 over the first 50 steps.
        "digits": (lambda device: digits.digits_losses(device, count), 1e-4),
        "tokens": (lambda device: small.losses(device, count), 2e-3),
    }
    values, passed = {}, True
    table = ["| training | steps | first loss | last loss | largest difference | bar |",
             "|---|---|---|---|---|---|"]  # fmt: skip
    for name, (losses, bar) in runs.items():
        wanted, found = losses("cpu"), losses(given.device)
        apart = max(abs(a - b) for a, b in zip(wanted, found, strict=True))
        passed = passed and apart <= bar
        values[name] = {"cpu": wanted, "gpu": found}
        table.append(
            f"| {name} | {count} | {wanted[0]:.4f} | {wanted[-1]:.4f} | {apart:.1e} | {bar:.0e} |"
        )
    common.finish(given, {**values, "table": table}, passed)


if __name__ == "__main__":
    main()
