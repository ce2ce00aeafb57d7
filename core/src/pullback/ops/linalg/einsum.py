"""Einstein summation, composed of transposes, reshapes and matrix products."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Collection, Sequence
from typing import NamedTuple, TypeAlias, cast

from pullback import errors
from pullback._dispatch import op
from pullback._operators import OPERATORS
from pullback.dtypes import numeric
from pullback.ops.linalg.linear_algebra import diagonal, matmul
from pullback.ops.manipulation import permute_dims, reshape
from pullback.ops.reductions import sum
from pullback.shapes import Shape, size_of
from pullback.spec import ACCUMULATED
from pullback.tensor import Tensor, TensorLike

__all__ = ["einsum"]

#: The axes of an operand by name: letters, and for an axis of the ellipsis its negative position,
#: counted from the right, so that equal numbers broadcast.
Labels: TypeAlias = "tuple[str | int, ...]"


class _Equation(NamedTuple):
    """An equation, parsed for operands of certain shapes."""

    equation: str
    operands: list[Labels]
    result: Labels
    sizes: dict[str | int, int]


def _labels(term: str, ndim: int, equation: str) -> Labels:
    before, dots, after = term.partition("...")
    if not (before + after).isalpha() and before + after:
        raise errors.InputValueError(
            f"{equation!r}: a term must have letters and at most one ellipsis, got {term!r}"
        )
    covered = ndim - len(before) - len(after)
    if covered < 0 or (covered and not dots):
        raise errors.ShapeError(
            f"{equation!r}: {term!r} does not name the {ndim} axes of its operand"
        )
    return (*before, *range(-covered, 0), *after)


@functools.lru_cache(maxsize=1024)
def _parse(equation: str, shapes: tuple[Shape, ...]) -> _Equation:
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(shapes):
        raise errors.InputValueError(f"{equation!r} needs {len(terms)} operands, got {len(shapes)}")
    operands = [_labels(t, len(s), equation) for t, s in zip(terms, shapes, strict=True)]
    covered = max(len([name for name in names if type(name) is int]) for names in operands)
    if not arrow:
        once = [letter for letter in sorted(set(left) - set(".,")) if left.count(letter) == 1]
        right = "".join(["..."] * ("..." in left) + once)
    elif covered and "..." not in right:
        raise errors.InputValueError(
            f"{equation!r}: the result lacks the ellipsis of its operands; write ... behind ->"
        )
    result = _labels(right, len(right.replace("...", "")) + covered, equation)
    if len(set(result)) != len(result):
        raise errors.InputValueError(f"{equation!r}: the result names an axis twice")

    sizes: dict[str | int, int] = {}
    for names, shape in zip(operands, shapes, strict=True):
        for name, size in zip(names, shape, strict=True):
            before = sizes.setdefault(name, size)
            if before == 1 and type(name) is int:
                sizes[name] = size
            elif size != before and not (size == 1 and type(name) is int):
                axis = f"the axis {name!r}" if type(name) is str else "an axis of the ellipsis"
                raise errors.ShapeError(f"{equation!r}: {axis} has sizes {before} and {size}")
    unknown = [name for name in result if name not in sizes]
    if unknown:
        raise errors.InputValueError(f"{equation!r}: no operand has the axis {unknown[0]!r}")
    return _Equation(f"{left}->{right}", operands, result, sizes)


def _in_full(shapes: tuple[Sequence[Shape], ...], *, equation: str) -> dict[str, str]:
    return {"equation": _parse(equation, tuple(shapes[0])).equation}


def _einsum_shape(operands: Sequence[Shape], equation: str) -> Shape:
    """The sizes of the axes of the result."""
    parsed = _parse(equation, tuple(operands))
    return tuple(parsed.sizes[name] for name in parsed.result)


@op(shape=_einsum_shape, dtype=numeric, accuracy=ACCUMULATED, normalize=_in_full, name="einsum")
def _einsum(operands: Sequence[Tensor], /, *, equation: str) -> Tensor:
    """`einsum` with the operands in front."""
    parsed = _parse(equation, tuple(x.shape for x in operands))
    terms = [_diagonals(x, names) for x, names in zip(operands, parsed.operands, strict=True)]
    while len(terms) > 1:
        first, second = _cheapest([names for _, names in terms], parsed)
        right, left = terms.pop(second), terms.pop(first)
        later = set(parsed.result).union(*[names for _, names in terms])
        terms.append(_contracted(*left, *right, later))
    x, names = _summed(*terms[0], parsed.result)
    return _arranged(x, names, parsed.result)


def einsum(equation: str, /, *operands: TensorLike) -> Tensor:
    """The sum of products by an equation, such as "ij,jk->ik" for a matrix product.

    Each operand has a term with one letter per axis. Axes with the same letter are multiplied
    together; letters that are not in the result are summed over. A letter twice in one term takes
    the diagonal; "..." is any number of further axes, which broadcast. Without "->" the result has
    the letters that occur once, in alphabetical order. Of several operands, the two with the
    smallest product are contracted first.

    Raises:
        InputValueError: for an invalid equation.
        ShapeError: for operands that do not fit the equation.

    >>> pb.einsum("ij,j->i", [[1.0, 2.0], [3.0, 4.0]], [1.0, 10.0]).tolist()
    [21.0, 43.0]
    >>> pb.einsum("...ii->...", [[1.0, 2.0], [3.0, 4.0]]).item()
    5.0
    """
    # Dispatch converts the operands.
    return _einsum(cast("tuple[Tensor, ...]", operands), equation=equation)


OPERATORS.einsum = einsum


def _diagonals(x: Tensor, names: Labels) -> tuple[Tensor, Labels]:
    """The operand with repeated letters reduced to their diagonal."""
    for name in dict.fromkeys(names):
        while names.count(name) > 1:
            first = names.index(name)
            second = names.index(name, first + 1)
            others = [a for a in range(x.ndim) if a not in (first, second)]
            x = diagonal(permute_dims(x, (*others, first, second)))
            names = (*[names[a] for a in others], name)
    return x, names


def _summed(x: Tensor, names: Labels, keep: Collection[str | int]) -> tuple[Tensor, Labels]:
    """The operand summed over the axes that neither the result nor another operand has."""
    axes = tuple(a for a, name in enumerate(names) if name not in keep)
    if not axes:
        return x, names
    return sum(x, axis=axes, dtype=x.dtype), tuple(name for name in names if name in keep)


def _arranged(x: Tensor, names: Labels, wanted: Labels) -> Tensor:
    return x if names == wanted else permute_dims(x, tuple(names.index(name) for name in wanted))


def _cheapest(terms: list[Labels], parsed: _Equation) -> tuple[int, int]:
    """The pair of terms whose product is smallest compared with the two terms."""

    def cost(pair: tuple[int, int]) -> tuple[int, int]:
        left, right = (set(terms[i]) for i in pair)
        both = left | right
        later = set(parsed.result).union(*[t for i, t in enumerate(terms) if i not in pair])
        result, first, second, work = (
            size_of(parsed.sizes[name] for name in names)
            for names in (both & later, left, right, both)
        )
        return result - first - second, work

    return min(itertools.combinations(range(len(terms)), 2), key=cost)


def _contracted(
    x1: Tensor, names1: Labels, x2: Tensor, names2: Labels, later: set[str | int]
) -> tuple[Tensor, Labels]:
    """The product of two operands, summed over the axes that nothing else has."""
    x1, names1 = _summed(x1, names1, later.union(names2))
    x2, names2 = _summed(x2, names2, later.union(names1))
    shared = [name for name in names1 if name in names2]
    batch = tuple(name for name in shared if name in later)
    inner = tuple(name for name in shared if name not in later)
    left = tuple(name for name in names1 if name not in names2)
    right = tuple(name for name in names2 if name not in names1)
    x1 = _arranged(x1, names1, (*batch, *left, *inner))
    x2 = _arranged(x2, names2, (*batch, *inner, *right))
    stacks, end = len(batch), len(batch) + len(left)
    rows, columns = x1.shape[stacks:end], x2.shape[stacks + len(inner) :]
    if not inner:
        spread = reshape(x1, (*x1.shape, *[1] * len(right)))
        return spread * reshape(x2, (*x2.shape[:stacks], *[1] * len(left), *columns)), (
            *batch,
            *left,
            *right,
        )
    terms = size_of(x1.shape[end:])
    product = matmul(
        _shaped(x1, (*x1.shape[:stacks], size_of(rows), terms)),
        _shaped(x2, (*x2.shape[:stacks], terms, size_of(columns))),
    )
    return _shaped(product, (*product.shape[:stacks], *rows, *columns)), (*batch, *left, *right)


def _shaped(x: Tensor, shape: Shape) -> Tensor:
    return x if x.shape == shape else reshape(x, shape)
