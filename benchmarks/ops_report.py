"""The report of `ops.py`: distributions of ratios, the worst cases, and what was not timed."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from report import text

PACK, ALONE, TORCH, NUMPY = "pullback-native", "pullback", "torch", "numpy"
SMALL = 1_000  # the most elements that a small case has
MODES = ("forward", "gradient")
KINDS = {
    "float32": ("float32",),
    "float64": ("float64",),
    "16 bits": ("float16", "bfloat16"),
    "integers, bool": ("int32", "int64", "bool"),
}


class Line(NamedTuple):
    """One mode of a case: times in microseconds, None where it was not measured."""

    key: str
    theirs: str  # PyTorch's expression, where it is not ours with another name
    table: str
    mode: str
    n: int
    dtype: str
    layout: str
    torch: float | None
    numpy: float | None
    pack: float | None
    alone: float | None
    captured: float | None

    @property
    def ours(self) -> float | None:
        """With the pack where it is there, else with NumPy alone."""
        return self.pack if self.pack is not None else self.alone

    def ratio(self, ours: float | None, theirs: float | None) -> float | None:
        return ours / theirs if ours is not None and theirs else None

    @property
    def worst(self) -> float:
        """Our time over PyTorch's, or over NumPy's where PyTorch was not measured."""
        return self.ratio(self.ours, self.torch or self.numpy) or 0.0


def lines(entries: Iterable[dict[str, Any]]) -> Iterator[Line]:
    """A line for each mode of each case."""
    for one in entries:
        times = one["times"]
        for mode in MODES:
            found = {name: times.get(name, {}).get(mode) for name in (TORCH, NUMPY, PACK, ALONE)}
            program = "captured" if mode == "forward" else "captured gradient"
            captured = times.get(PACK, times.get(ALONE, {})).get(program)
            if found[PACK] is None and found[ALONE] is None:
                continue
            yield Line(
                one["key"], one["torch"], one["table"], mode, one["n"], one["dtype"], one["layout"],
                found[TORCH], found[NUMPY], found[PACK], found[ALONE], captured,
            )  # fmt: skip


def mean(ratios: list[float]) -> float:
    return math.exp(statistics.fmean(map(math.log, ratios)))


def spread(ratios: list[float]) -> list[str]:
    """The count, the geometric mean, the median and the shares above 1, 2, 4 and 10."""
    if not ratios:
        return ["0", "", "", "", "", "", ""]
    shares = [sum(one > limit for one in ratios) / len(ratios) for limit in (1, 2, 4, 10)]
    return [
        str(len(ratios)), f"{mean(ratios):.2f}", f"{statistics.median(ratios):.2f}",
        *(f"{share:.1%}" for share in shares),
    ]  # fmt: skip


def groups(found: list[Line]) -> Iterator[tuple[str, list[Line]]]:
    """The parts of the distribution, with their names."""
    yield from sizes("all", found)
    for kind, dtypes in KINDS.items():
        yield from sizes(kind, [one for one in found if one.dtype in dtypes])
    for what in ("n", "dtype", "layout", "table"):
        for value in sorted({getattr(one, what) for one in found} - set(KINDS)):
            name = f"{value:.0e} elements" if what == "n" else value
            yield name, [one for one in found if getattr(one, what) == value]


def sizes(name: str, found: list[Line]) -> Iterator[tuple[str, list[Line]]]:
    """All, and small and large cases of each mode."""
    yield name, found
    for size, small in (("small", True), ("large", False)):
        for mode in MODES:
            some = [one for one in found if (one.n <= SMALL) == small and one.mode == mode]
            yield f"{name}, {size}, {mode}", some


def distribution(found: list[Line], ours: str, theirs: str) -> list[list[str]]:
    """A table of the ratios of two columns, group by group."""
    table = [["", "cases", "mean", "median", "> 1", "> 2", "> 4", "> 10"]]
    for name, some in groups(found):
        ratios = [one.ratio(getattr(one, ours), getattr(one, theirs)) for one in some]
        known = [ratio for ratio in ratios if ratio]
        if known:
            table.append([name, *spread(known)])
    return table


def worst(found: list[Line], count: int) -> list[list[str]]:
    """The cases by their ratio, the highest first."""
    head = "case,,torch us,numpy us,pack,alone,alone/numpy,pack/alone,captured/eager,in torch"
    table = [head.split(",")]
    ordered = sorted(found, key=lambda one: -one.worst)
    for one in ordered[:count]:
        beside = one.torch or one.numpy
        cells = [
            one.ratio(one.pack, beside), one.ratio(one.alone, beside),
            one.ratio(one.alone, one.numpy), one.ratio(one.pack, one.alone),
            one.ratio(one.captured, one.ours),
        ]  # fmt: skip
        table.append([
            one.key, one.mode[0], *(f"{t:.4g}" if t else "" for t in (one.torch, one.numpy)),
            *(f"{cell:.2f}" if cell else "" for cell in cells), one.theirs,
        ])  # fmt: skip
    return table


def failures(entries: list[dict[str, Any]]) -> list[str]:
    """The cases that were not timed, and why: each row once for each reason."""
    seen, found = set(), []
    for one in entries:
        for who, why in one["wrong"].items():
            kind = why.split(":")[0] if "Error" in why else "differs"
            mode = who.removeprefix(PACK).removeprefix(ALONE)
            place = (one["key"].split(" | ")[0], mode, kind)
            if place not in seen:
                seen.add(place)
                found.append(f"{one['key']}: {who}: {why.splitlines()[0][:150]}")
    return sorted(found)


def report(about: dict[str, Any], entries: list[dict[str, Any]], count: int) -> str:
    """The whole text, with so many of the cases."""
    found = list(lines(entries))
    named = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    parts = [
        f"{about['date']}, {about['processor']}, threads: {about['threads']}, "
        f"{about['clock']} time, {len(entries)} cases in {about['minutes']} minutes, "
        f"seed {about['seed']}\n{named}\n{about['note']}".rstrip()
    ]
    for title, ours, theirs in (
        ("With the pack, over torch", "pack", "torch"),
        ("NumPy alone, over torch", "alone", "torch"),
        ("NumPy alone, over the same in NumPy", "alone", "numpy"),
        ("The pack, over NumPy alone", "pack", "alone"),
        ("Captured, over eager", "captured", "ours"),
    ):
        table = distribution(found, ours, theirs)
        if len(table) > 1:
            parts.append(f"{title}\n\n{text(table)}")
    parts.append(
        f"The highest ratios of {len(found)} (f forward, g with its gradient); pack and alone are\n"
        "over torch, or over NumPy where torch has none\n\n" + text(worst(found, count))
    )
    wrong = failures(entries)
    if wrong:
        parts.append("Not timed\n\n" + "\n".join(wrong))
    return "\n\n".join(parts)
