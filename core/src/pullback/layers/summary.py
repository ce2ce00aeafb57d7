"""The layers of a model as a table: paths, classes, shapes, parameters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pullback._notebook import table_html
from pullback.state import objects

if TYPE_CHECKING:
    from pullback.layers.layer import Layer

__all__ = ["html", "table"]

HEAD = ("layer", "kind", "output", "parameters")


def table(layer: Layer, variables: bool = False) -> Iterator[str]:
    """Yields the lines of a table of the layers in a layer, and its number of parameters.

    Layers come in the order of their first calls, by path, with the names that they were given;
    those in another one are indented, and counted in its parameters too. Output shapes are those
    of the first call, with the batch axis shown as "batch".

    Args:
        layer: the layer.
        variables: True for a column with the names and shapes of the variables.
    """
    rows = [(*HEAD, "variables"), *_rows(layer)]
    if not variables:
        rows = [row[:-1] for row in rows]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for number, row in enumerate(rows):
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        # "frozen" stands behind the number.
        count, _, frozen = row[3].partition(" ")
        numbers = max(len(other[3].partition(" ")[0]) for other in rows)
        cells[3] = f"{count.rjust(numbers)} {frozen}".ljust(widths[3])
        yield "  ".join(cells).rstrip()
        if not number:
            yield "  ".join("-" * width for width in widths)
    yield _total(layer)


def html(layer: Layer) -> str:
    """The same table as HTML, with the column of the variables."""
    title = f"{type(layer).__name__} {layer.name!r}: {_total(layer)}"
    return table_html(title, (*HEAD, "variables"), _rows(layer))


def _total(layer: Layer) -> str:
    trained = sum(variable.size for variable in layer.trainable_variables)
    return f"{layer.parameter_count:,} parameters, {trained:,} of them trained"


def _rows(layer: Layer) -> Iterator[tuple[str, ...]]:
    parts = layer.sublayers
    if not parts:
        yield _row("", layer, 1)
        return
    uses = Counter(id(place.value) for place in objects.walk(layer))
    for path, depth, part in _in_order(parts):
        named = "" if part._name is None else f" {part._name!r}"
        yield _row("  " * depth + path + named, part, uses[id(part)])


def _in_order(parts: dict[str, Layer]) -> Iterator[tuple[str, int, Layer]]:
    """Yields layers in the order of their first calls, each followed by those in it.

    Yields:
        The path from the layer that it is in, the number of layers that it is in, and the layer.
    """
    inside: dict[str, list[str]] = {"": []}
    for path in parts:
        names = path.split("/")
        above = ("/".join(names[:count]) for count in range(len(names) - 1, 0, -1))
        inside.setdefault(next((one for one in above if one in parts), ""), []).append(path)

    def number(path: str) -> float:
        call = parts[path]._first_call
        return float("inf") if call is None else call.number

    def listed(parent: str, depth: int) -> Iterator[tuple[str, int, Layer]]:
        for path in sorted(inside.get(parent, ()), key=number):
            yield path.removeprefix(f"{parent}/"), depth, parts[path]
            yield from listed(path, depth + 1)

    return listed("", 0)


def _row(path: str, part: Layer, uses: int) -> tuple[str, ...]:
    kind = type(part).__name__ + (f" x{uses}" if uses > 1 else "")
    variables = part.variables
    count = f"{part.parameter_count:,}"
    if not part.built and not variables:
        count = "?"
    elif variables and not any(variable.trainable for variable in variables):
        count += " frozen"
    own = {name: one for name, one in part.named_variables.items() if "/" not in name}
    shapes = ", ".join(f"{name} {list(variable.shape)}" for name, variable in own.items())
    return path, kind, _output(part), count, shapes


def _output(layer: Layer) -> str:
    call = layer._first_call
    return "?" if call is None else _shape(call.shapes, call.batch)


def _shape(result: Any, batch: int | None) -> str:
    if result is None:
        return "?"
    if isinstance(result, dict):
        return (
            "{" + ", ".join(f"{key}: {_shape(part, batch)}" for key, part in result.items()) + "}"
        )
    if isinstance(result, list) or any(isinstance(size, (tuple, list, dict)) for size in result):
        return "[" + ", ".join(_shape(part, batch) for part in result) + "]"
    sizes = ["batch" if not i and size == batch else str(size) for i, size in enumerate(result)]
    return f"({', '.join(sizes)}{',' if len(sizes) == 1 else ''})"
