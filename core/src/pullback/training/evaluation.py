"""`Evaluation`: the loss and the metrics of `evaluate`, by name and in order."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, KeysView, Mapping, ValuesView
from typing import Any

from pullback._notebook import table_html

__all__ = ["Evaluation"]


class Evaluation:
    """The loss and the metrics by name, like a named tuple: what it is unpacked into are values.

    >>> model = pb.Sequential([pb.layers.Dense(1, kernel_initializer="zeros")])
    >>> model.compile("sgd", "mean_squared_error", ["mae"])
    >>> result = model.evaluate([[1.0]], [[2.0]], verbose=False)
    >>> result
    Evaluation(loss=4.0, mean_absolute_error=2.0)
    >>> result["loss"], result.loss, dict(result)
    (4.0, 4.0, {'loss': 4.0, 'mean_absolute_error': 2.0})
    >>> loss, error = result
    >>> error
    2.0
    """

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = dict(values)

    def __getitem__(self, name: str | int) -> Any:
        """Returns the value of a metric, or that at a position."""
        return self._values[name] if isinstance(name, str) else [*self._values.values()][name]

    def __getattr__(self, name: str) -> Any:
        if name[0] != "_" and name in self._values:
            return self._values[name]
        names = ", ".join(self._values) if name[0] != "_" else ""
        raise AttributeError(f"there is no metric {name!r}; there are {names}", name=name)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values.values())

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Evaluation):
            return self._values == other._values
        return self._values == other if isinstance(other, Mapping) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __dir__(self) -> list[str]:
        return [*object.__dir__(self), *self._values]

    def __reduce__(self) -> tuple[Any, ...]:
        return Evaluation, (self._values,)

    def __repr__(self) -> str:
        return f"Evaluation({', '.join(f'{n}={v!r}' for n, v in self._values.items())})"

    def _repr_html_(self) -> str:
        # As notebooks show it.
        return table_html("Evaluation", [*self._values], [[str(v) for v in self._values.values()]])

    def keys(self) -> KeysView[str]:
        """The names of the loss and the metrics, the loss first."""
        return self._values.keys()

    def values(self) -> ValuesView[Any]:
        """The values, in the order of the names."""
        return self._values.values()

    def items(self) -> ItemsView[str, Any]:
        """Pairs of a name and its value."""
        return self._values.items()
