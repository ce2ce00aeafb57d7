"""The rule for calls of NumPy that have no equivalent made of ops.

They compute on the host and return what NumPy returns, unless a tape records one of the tensors:
its gradient would be lost without a word, so that is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from pullback import errors
from pullback._dispatch.convert import read
from pullback._dispatch.recording import may_record
from pullback.tensor import Tensor, TensorLike

_WITHOUT_GRADIENT = """
    array2string array_equiv array_repr array_str can_cast common_type diag_indices_from
    einsum_path iscomplexobj isrealobj linalg.matrix_rank may_share_memory min_scalar_type ndim
    result_type save savetxt savez savez_compressed shape shares_memory size tril_indices_from
    triu_indices_from
"""
#: Functions whose results have no gradient: shapes, dtypes, indices, booleans, text and files.
#: They answer as NumPy does, whether a tape records or not.
WITHOUT_GRADIENT = frozenset(_WITHOUT_GRADIENT.split())

#: Functions that write into their first argument.
IN_PLACE = {
    "copyto": "x = pb.broadcast_to(values, x.shape), or x[...] = values",
    "fill_diagonal": "x[pb.arange(n), pb.arange(n)] = value",
    "place": "x[mask] = value, or x = pb.where(mask, value, x)",
    "put": "x[indices] = values",
    "put_along_axis": "x[indices] = values",
    "putmask": "x = pb.where(mask, values, x)",
}

#: What to write in place of a function that has no equivalent.
INSTEAD = {
    "polydiv": "np.polymul and np.polysub, which are made of ops",
    "spacing": "pb.nextafter(x, pb.inf) - x",
}


def name_of(function: Any) -> str:
    """NumPy's name of a function, such as "sum" or "linalg.norm"; the full name of another's."""
    module: str = getattr(function, "__module__", None) or np.__name__
    name = f"{module}.{function.__name__}"
    return name.removeprefix(f"{np.__name__}.")


def map_tensors(convert: Callable[[Any], Any], values: Any) -> Any:
    """The values with `convert` applied to what is in lists, tuples and dicts, at any depth."""
    if type(values) is dict:
        return {key: map_tensors(convert, value) for key, value in values.items()}
    if type(values) in (list, tuple):
        return type(values)(map_tensors(convert, value) for value in values)
    return convert(values)


def read_variables(values: TensorLike) -> Any:
    """The values with tensors in place of variables."""
    return map_tensors(read, values)


def tensors_of(values: TensorLike) -> Iterator[Tensor]:
    """The tensors in lists, tuples and dicts, at any depth."""
    if isinstance(values, Tensor):
        yield values
    elif isinstance(values, dict):
        for value in values.values():
            yield from tensors_of(value)
    elif isinstance(values, (list, tuple)):
        for value in values:
            yield from tensors_of(value)


def is_recorded(values: TensorLike) -> bool:
    """Returns whether a tape records one of the tensors."""
    return any(may_record(tensor._node) for tensor in tensors_of(values))


def on_host(
    name: str,
    function: Callable[..., Any],
    args: Any,
    kwargs: Any,
    *,
    argument: str | None = None,
    library: str = "np.",
) -> Any:
    """Returns what NumPy computes of the values.

    Args:
        name: NumPy's name of the function.
        function: the function.
        args: its arguments by position.
        kwargs: its arguments by name.
        argument: the argument that has no equivalent, where the function has one.
        library: what stands before the name in a message.

    Raises:
        TapeError: if a tape records one of the tensors.
    """
    if name not in WITHOUT_GRADIENT and is_recorded((args, kwargs)):
        what = f"{library}{name}" + ("" if argument is None else f" with {argument}")
        instead = f"it without {argument}"
        if argument is None:
            instead = INSTEAD.get(name, "it with functions of pullback")
        raise errors.TapeError(
            f"{what} computes on the host, and a tape records one of its tensors, whose gradient "
            f"would be lost; write {instead}, or give it pb.stop_gradient(x), a constant"
        )
    return function(*map_tensors(_value, args), **map_tensors(_value, kwargs))


def is_one_of(value: object, choices: tuple[Any, ...]) -> bool:
    """Returns whether a value is one of several objects, or equals one that is a word."""
    return any(value is one or (type(value) is str and value == one) for one in choices)


def reject_writing(name: str, args: Any, kwargs: Any) -> None:
    """Rejects functions that would write into a tensor.

    Raises:
        InputTypeError: if the first argument, or `out`, is a tensor.
    """
    target = args[0] if args else next(iter(kwargs.values()), None)
    if name in IN_PLACE and isinstance(target, Tensor):
        raise errors.InputTypeError(
            f"np.{name} would write into a tensor, whose buffer does not change; "
            f"write {IN_PLACE[name]}"
        )
    out = kwargs.get("out")
    if any(True for _ in tensors_of(out)):
        raise errors.InputTypeError(
            f"np.{name} with out= would write into a tensor, whose buffer does not change; "
            f"write x = np.{name}(...)"
        )


def _value(value: object) -> Any:
    return value.numpy() if isinstance(value, Tensor) else value
