"""A pass for what runs beside the program: its calls come as early as their inputs are there."""

from __future__ import annotations

from pullback.graph.graph import Call, Graph, Value

__all__ = ["begin_early"]

#: What lays out the input of a call that begins early: these come with it.
_LAYOUT = frozenset({"concat", "reshape", "astype"})


def begin_early(graph: Graph) -> Graph:
    """The graph with each call whose op `begins` something right behind what it reads.

    Calls of ops with an order stay in it.
    """
    beginning = [i for i, call in enumerate(graph.calls) if call.op.begins]
    if not beginning:
        return graph
    makers = {value: i for i, call in enumerate(graph.calls) for value in call.results}
    moved = set(beginning)
    waiting = list(beginning)
    while waiting:
        for value in graph.calls[waiting.pop()].values:
            maker = makers.get(value)
            if maker is None or maker in moved or graph.calls[maker].op.name not in _LAYOUT:
                continue
            moved.add(maker)
            waiting.append(maker)
    # A call comes at its own place, or at that of the last one that it needs.
    places: list[int] = []
    at: dict[Value, int] = {}
    last = -1
    for i, call in enumerate(graph.calls):
        place = max((at.get(value, -1) for value in call.values), default=-1) if i in moved else i
        if call.op.is_ordered:
            last = place = max(place, last)
        places.append(place)
        at.update(dict.fromkeys(call.results, place))
    order = sorted(range(len(places)), key=lambda i: (places[i], i))
    calls: tuple[Call, ...] = tuple(graph.calls[i] for i in order)
    return graph._replace(calls=calls)
