"""Follows numbers by Collatz's rule until they come to 1: Python's `while` and `if` on tensors.

    uv run examples/collatz.py 12
    uv run examples/collatz.py 7 27 97

An even number is halved, an odd one tripled, plus 1. That all of them come to 1 is not proved.
"""

from __future__ import annotations

import argparse

import pullback as pb


def collatz(start: int):
    """The numbers after `start`, each a tensor."""
    a = pb.asarray(start, dtype="int64")
    numbers = []
    while a != 1:
        a = a // 2 if a % 2 == 0 else 3 * a + 1
        numbers.append(a)
    return numbers


def positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("the rule is for numbers from 1 on")
    return number


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("start", type=positive, nargs="*", default=[12])
    parser.add_argument("--device", help="such as cpu or gpu:0; the first GPU if there is one")
    options = parser.parse_args()
    try:
        pb.set_default_device(options.device)
    except pb.errors.PullbackError as error:
        parser.error(str(error))

    rows = []
    for start in options.start:
        numbers = collatz(start)
        print(f"{start}: " + ", ".join(f"{a:d}" for a in numbers))
        rows.append((start, len(numbers), max([start, *map(int, numbers)])))
    print()
    print(f"{'start':>10}  {'steps':>6}  {'highest':>12}")
    for start, steps, highest in rows:
        print(f"{start:10d}  {steps:6d}  {highest:12d}")


if __name__ == "__main__":
    main()
