"""The layers of a model as a table: paths, classes, shapes, parameters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pullback.layers.layer import Layer

__all__ = ["table"]

HEAD = ("layer", "kind", "output", "variables", "parameters")


def table(layer: Layer) -> Iterator[str]:
    """Yields the lines of a table of the layers in a layer, and its number of parameters.

    Output shapes are those of the first call, with the batch axis shown as "batch".
    """
    rows = [HEAD, *_rows(layer)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEAD))]
    for number, row in enumerate(rows):
        *cells, last = zip(row, widths, strict=True)
        line = [*(cell.ljust(width) for cell, width in cells), last[0].rjust(last[1])]
        yield "  ".join(line).rstrip()
        if not number:
            yield "  ".join("-" * width for width in widths)
    trained = sum(variable.size for variable in layer.trainable_variables)
    yield f"{layer.parameter_count:,} parameters, {trained:,} of them trained"


def _rows(layer: Layer) -> Iterator[tuple[str, ...]]:
    seen: set[int] = set()
    for path, part in (layer.sublayers or {"": layer}).items():
        own = [
            (name, variable)
            for name, variable in part.named_variables.items()
            if "/" not in name and id(variable) not in seen
        ]
        seen.update(id(variable) for _, variable in own)
        shapes = ", ".join(f"{name} {list(variable.shape)}" for name, variable in own)
        if not part.built and not own:
            shapes = "made at the first call"
        count = sum(variable.size for _, variable in own)
        frozen = " (frozen)" if own and not any(variable.trainable for _, variable in own) else ""
        yield path, type(part).__name__, _output(part), shapes + frozen, f"{count:,}"


def _output(layer: Layer) -> str:
    if layer._shapes is None:
        return "?"
    inputs, result = layer._shapes
    first = inputs[0] if isinstance(inputs, (list, tuple)) and inputs else None
    while isinstance(first, (list, tuple)):
        first = first[0] if first else None
    return _shape(result, first)


def _shape(result: Any, batch: int | None) -> str:
    if result is None:
        return "?"
    if isinstance(result, dict):
        return (
            "{" + ", ".join(f"{key}: {_shape(part, batch)}" for key, part in result.items()) + "}"
        )
    if isinstance(result, list) or any(not isinstance(size, int) for size in result):
        return "[" + ", ".join(_shape(part, batch) for part in result) + "]"
    sizes = ["batch" if not i and size == batch else str(size) for i, size in enumerate(result)]
    return f"({', '.join(sizes)}{',' if len(sizes) == 1 else ''})"
