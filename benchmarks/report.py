"""Tables and the picture of what `run.py` has measured."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from typing import Any

from workloads.shared import TRAINING

ALONE, PACK = "pullback", "pullback-native"
#: What the project holds itself to: PyTorch eager's time over ours, on two cores, with the NumPy
#: backend alone and with the native pack.
BARS = {
    "op_add_recorded": {ALONE: 1.3, PACK: 1.3},
    "op_chain_grad": {ALONE: 6.0, PACK: 6.0},
    "linreg": {ALONE: 5.0, PACK: 5.0},
    "mlp": {ALONE: 2.0, PACK: 2.2},
    "mlp_wide": {ALONE: 1.0, PACK: 1.1},
    "char_rnn": {ALONE: 0.8, PACK: 1.2},
    "cnn_lstm": {ALONE: 0.7, PACK: 1.0},
    "transformer": {ALONE: 0.8, PACK: 1.05},
    "cnn": {ALONE: 0.6, PACK: 0.9},
    "infer_cnn_lstm_b1": {ALONE: 1.0, PACK: 1.2},
    "infer_cnn_b1": {ALONE: 1.0, PACK: 1.2},
    "infer_transformer_b1": {ALONE: 1.0, PACK: 1.2},
    "fusion_fwd": {ALONE: 0.6, PACK: 1.3},
    "fusion_grad": {ALONE: 0.6, PACK: 1.3},
}
CAPTURED = "captured-native"
OURS = (PACK, "captured-loops")
FRAMEWORKS = ("torch", "torch-compile", "jax", "tf-function", "keras-tf", "keras-torch")
#: Runs finished graphs and trains none: its times are shown, and it is a rival where it is named.
RUNTIME = "onnxruntime"
BESIDE_RUNTIME = ("infer_minilm_b1",)
#: The floor and the goal of the fastest rival's time over that of a captured step.
CAPTURED_BARS = {
    "op_chain_grad": (5.0, 10.0),
    "linreg": (5.0, 15.0),
    "mlp": (2.0, 2.8),
    "mlp_wide": (0.95, 1.1),
    "char_rnn": (1.35, 1.5),
    "cnn_lstm": (1.25, 1.4),
    "cnn": (1.1, 1.25),
    "transformer": (1.0, 1.1),
    "infer_cnn_lstm_b1": (1.4, 1.7),
    "infer_cnn_b1": (1.1, 1.4),
    "infer_cnn_b32": (1.0, 1.15),
    "infer_transformer_b1": (1.2, 1.3),
    "infer_transformer_b8": (1.1, 1.2),
    "infer_minilm_b1": (0.9, 1.1),
    "fusion_fwd": (0.8, 1.0),
    "fusion_grad": (0.9, 1.2),
}
MEAN_BARS = {ALONE: 0.95, PACK: 1.25}


def ratio(times: dict[str, list[float]], peer: str, base: str) -> float:
    """A peer's time over that of `base`: the median over the rounds."""
    pairs = zip(times[peer], times[base], strict=True)
    return statistics.median(a / b for a, b in pairs)


def means(found: dict[str, Any], names: Iterable[str], base: str, clock: str) -> dict[str, float]:
    """The geometric means of the ratios over the training workloads that a peer has all of."""
    result = {}
    for name in names:
        ratios = [
            ratio(found[workload][clock], name, base)
            for workload in TRAINING
            if workload in found and {name, base} <= set(found[workload][clock])
        ]
        if len(ratios) == len(TRAINING):
            result[name] = math.exp(statistics.fmean(map(math.log, ratios)))
    return result


def rows(found: dict[str, Any], names: list[str], clock: str) -> list[list[str]]:
    """The main table: a row for each workload, the ratios against the first of the names."""
    base, *others = names
    ours = [name for name in (ALONE, PACK) if name in names and "torch" in names]
    table = [["workload", base, *others]]
    for name in ours:
        table[0] += [f"torch / {name}", "bar", ""]
    for workload, one in found.items():
        times = one[clock]
        row = [workload, duration(times.get(base))]
        for name in others:
            cell = duration(times.get(name))
            if name in times and base in times:
                cell += f" {ratio(times, name, base):6.2f}x"
            row.append(cell)
        for name in ours:
            both = {"torch", name} <= set(times)
            row += verdict(
                ratio(times, "torch", name) if both else None, BARS.get(workload, {}).get(name)
            )
        table.append(row)
    for_mean = means(found, others, base, clock)
    if for_mean:
        row = ["geometric mean of training", ""]
        row += [f"{for_mean[name]:.2f}x" if name in for_mean else "" for name in others]
        for name in ours:
            mean = means(found, ["torch"], name, clock).get("torch")
            row += verdict(mean, MEAN_BARS[name])
        table.append(row)
    return table


def captured_table(found: dict[str, Any], clock: str) -> list[list[str]]:
    """The times of all others over that of a captured step with the native pack."""
    measured = {name for one in found.values() for name in one[clock]}
    ours = [name for name in OURS if name in measured]
    rivals = [name for name in (*FRAMEWORKS, RUNTIME) if name in measured]
    table = [["workload", CAPTURED, *ours, *rivals, "fastest peer", "floor", "goal"]]
    for workload, one in found.items():
        times = one[clock]
        if CAPTURED not in times:
            continue
        row = [workload, duration(times[CAPTURED])]
        for name in (*ours, *rivals):
            row.append(f"{ratio(times, name, CAPTURED):.2f}x" if name in times else "")
        beside = (*FRAMEWORKS, RUNTIME) if workload in BESIDE_RUNTIME else FRAMEWORKS
        present = [times[name] for name in beside if name in times]
        # In each round the fastest of that round.
        fastest = {"": list(map(min, zip(*present, strict=True))), **times}
        row.append(f"{ratio(fastest, '', CAPTURED):.2f}x" if present else "")
        row += [f"{bar:.2f}x" for bar in CAPTURED_BARS.get(workload, ())]
        table.append(row + [""] * (len(table[0]) - len(row)))
    return table


def verdict(reached: float | None, bar: float | None) -> list[str]:
    """The ratio, its bar, and whether it is held."""
    if reached is None:
        return ["", "", ""]
    if bar is None:
        return [f"{reached:.2f}x", "", ""]
    return [f"{reached:.2f}x", f"{bar:.2f}x", "within" if reached >= bar else "over"]


def duration(seconds: list[float] | None) -> str:
    """The median with a unit."""
    if not seconds:
        return "-"
    median = statistics.median(seconds)
    for unit, size in (("us", 1e-6), ("ms", 1e-3)):
        if median < 1000 * size:
            return f"{median / size:.3g} {unit}"
    return f"{median:.3g} s"


def text(table: list[list[str]]) -> str:
    """Columns, the first to the left and the others to the right."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in table
    )


def side_table(start: dict[str, Any], size: dict[str, Any]) -> list[list[str]]:
    """A fresh process and the room on disk, by framework."""
    table = [["framework", "start, s", "peak, MiB", "on disk, MB"]]
    for name, one in start.items():
        table.append([name, f"{one['seconds']:.2f}", f"{one['peak']:.0f}", f"{size[name]:.0f}"])
    return table


def peak_table(peaks: dict[str, dict[str, dict[str, float]]], names: list[str]) -> list[list[str]]:
    """MiB that a training step adds to its process, and in brackets the whole process."""
    table = [["peak, MiB", *names]]
    for workload, one in peaks.items():
        cells = [
            f"{one[name]['step']:.0f} ({one[name]['peak']:.0f})" if name in one else "-"
            for name in names
        ]
        table.append([workload, *cells])
    return table


def draw(found: dict[str, Any], names: list[str], path: str, title: str, clock: str) -> None:
    """The ratios as a picture: right of the line a peer takes longer than we do."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    base, *others = names
    workloads = list(found)
    figure, axes = pyplot.subplots(figsize=(9, 0.34 * len(workloads) + 1.6))
    for name, marker in zip(others, "osD^v<>P", strict=False):
        points = [
            (ratio(one[clock], name, base), i)
            for i, one in enumerate(found.values())
            if {name, base} <= set(one[clock])
        ]
        if points:
            axes.scatter(*zip(*points, strict=True), marker=marker, label=name, s=28, alpha=0.85)
    for i, workload in enumerate(workloads):
        if workload in BARS:
            bar = BARS[workload].get(base, 1.0)
            axes.plot([bar] * 2, [i - 0.35, i + 0.35], color="0.5", linewidth=1.5)
    axes.axvline(1, color="black", linewidth=1)
    axes.set_xscale("log")
    axes.set_yticks(range(len(workloads)), workloads)
    axes.invert_yaxis()
    axes.grid(axis="x", which="both", alpha=0.2)
    axes.set_xlabel(f"time of a step, in times of {base}'s (grey: the bar for torch)")
    axes.set_title(title, fontsize=10)
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False)
    figure.savefig(path, bbox_inches="tight", metadata={"Date": None})
    pyplot.close(figure)
