"""`plot_model`: the layers of a model as a picture, in SVG, without other programs."""

from __future__ import annotations

import os
from html import escape
from typing import Any, NamedTuple

from pullback import errors
from pullback._replacing import as_path
from pullback._tree import leaves
from pullback.layers.layer import Layer
from pullback.layers.model import Model, Sequential
from pullback.layers.symbolic import symbols

__all__ = ["plot_model"]

_HEIGHT, _ROW, _GAP, _LETTER = 46, 92, 28, 7.4


class Box(NamedTuple):
    """A box of the picture: an input or a call."""

    title: str
    shape: str
    #: The boxes that it reads, by number.
    sources: tuple[int, ...]


def plot_model(model: Layer, path: str | os.PathLike[str]) -> None:
    """Writes a picture of a model: a box for each input and call, with the shape of its result.

    Args:
        model: a model made of calls, `pb.Model(inputs, outputs)`, or a `pb.Sequential`.
        path: the file, whose name ends in ".svg".

    >>> import tempfile
    >>> x = pb.Input((4,))
    >>> pb.plot_model(pb.Model(x, pb.relu(x)), tempfile.mkdtemp() + "/model.svg")

    Raises:
        InputTypeError: for a model with a `call` of its own.
        InputValueError: for a file of another kind.
    """
    file = as_path(path, "path")
    if file.suffix != ".svg":
        raise errors.InputValueError(
            f"plot_model writes SVG; name the file model.svg, got {str(file)!r}"
        )
    file.write_text(_drawn(_boxes(model)), encoding="utf-8")


def _boxes(model: Layer) -> list[Box]:
    """The boxes, each behind those that it reads."""
    if isinstance(model, Model) and model._graph is not None:
        graph = model._graph
        boxes = [
            Box(name, _shape(x.shape), ())
            for name, x in zip(graph.names, leaves(graph.inputs), strict=True)
        ]
        made_by = {id(x): i for i, x in enumerate(leaves(graph.inputs))}
        names = {id(layer): name for name, layer in graph.layers.items()}
        for call in graph.calls:
            name = names.get(id(call.function), call.name)
            kind = type(call.function).__name__ if isinstance(call.function, Layer) else "op"
            results = symbols(call.result)
            shapes = ", ".join(_shape(x.shape) for x in results)
            sources = dict.fromkeys(made_by[id(x)] for x in call.inputs)
            made_by.update((id(x), len(boxes)) for x in results)
            boxes.append(Box(f"{name} ({kind})", shapes, tuple(sources)))
        return boxes
    if isinstance(model, Sequential):
        return [
            Box(_title(layer), _seen(layer), (i - 1,) if i else ())
            for i, layer in enumerate(model.layers)
        ]
    raise errors.InputTypeError(
        f"plot_model draws pb.Model(inputs, outputs) and pb.Sequential, got "
        f"{type(model).__name__}; pb.summary.graph draws the ops of any model"
    )


def _title(layer: Any) -> str:
    if isinstance(layer, Layer):
        return f"{layer.name} ({type(layer).__name__})"
    return str(getattr(layer, "__name__", type(layer).__name__))


def _seen(layer: Any) -> str:
    call = layer._first_call if isinstance(layer, Layer) else None
    return "" if call is None else str(call.shapes)


def _shape(shape: tuple[int | None, ...]) -> str:
    return f"({', '.join(map(str, shape))}{',' * (len(shape) == 1)})"


def _drawn(boxes: list[Box]) -> str:
    """The picture: each box a row below the lowest that it reads, rows in the middle."""
    rows: list[list[int]] = []
    depth: list[int] = []
    for number, box in enumerate(boxes):
        depth.append(1 + max((depth[source] for source in box.sources), default=-1))
        if depth[-1] == len(rows):
            rows.append([])
        rows[depth[-1]].append(number)
    wide = [max(len(box.title), len(box.shape)) * _LETTER + 24 for box in boxes]
    width = max([sum(wide[n] + _GAP for n in row) for row in rows], default=0) + _GAP
    center = [0.0] * len(boxes)

    def above(n: int) -> float:
        sources = boxes[n].sources
        return sum(center[source] for source in sources) / (len(sources) or 1)

    for row in rows:
        row.sort(key=above)  # so that few lines cross
        left = (width - sum(wide[n] + _GAP for n in row) + _GAP) / 2
        for n in row:
            center[n] = left + wide[n] / 2
            left += wide[n] + _GAP
    parts = []
    for n, box in enumerate(boxes):
        top = depth[n] * _ROW + _GAP
        for source in box.sources:
            x1, y1, x2 = center[source], depth[source] * _ROW + _GAP + _HEIGHT, center[n]
            bend = f"{x1:.0f} {y1 + 24} {x2:.0f} {top - 24} {x2:.0f} {top}"
            parts.append(f'<path d="M{x1:.0f} {y1}C{bend}" fill="none" stroke="#789"/>')
    for n, box in enumerate(boxes):
        top, left = depth[n] * _ROW + _GAP, center[n] - wide[n] / 2
        parts.append(
            f'<rect x="{left:.0f}" y="{top}" width="{wide[n]:.0f}" height="{_HEIGHT}" rx="6" '
            f'fill="{"#e8eefc" if box.sources else "#fdf3dc"}" stroke="#456"/>'
            f'<text x="{center[n]:.0f}" y="{top + 19}">{escape(box.title)}</text>'
            f'<text x="{center[n]:.0f}" y="{top + 37}" fill="#567">{escape(box.shape)}</text>'
        )
    height = len(rows) * _ROW + _GAP
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" '
        f'width="{width:.0f}" height="{height}" font-family="monospace" font-size="12" '
        f'text-anchor="middle">\n<rect width="100%" height="100%" fill="#fff"/>\n{body}\n</svg>\n'
    )
