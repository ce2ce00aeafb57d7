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
from pullback.ops.arithmetic import multiply
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
    plan = _planned(equation, tuple(x.shape for x in operands))
    terms = list(operands)
    for step in plan.steps:
        right, left = terms.pop(step.second), terms.pop(step.first)
        product = (matmul if step.sums else multiply)(step.left(left), step.right(right))
        terms.append(product if step.shape is None else reshape(product, step.shape))
    return plan.last(terms[0])


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


# ---------------------------------------------------------------------------------------------
# Planning: all but the ops themselves, once for each equation and its shapes.


class _Change(NamedTuple):
    """The ops on an operand before it is multiplied, or on the last one."""

    #: Orders of the axes, each with the two of a diagonal at the end.
    diagonals: tuple[Shape, ...]
    summed: Shape  #: axes
    order: Shape | None  #: of the axes that are left
    shape: Shape | None

    def __call__(self, x: Tensor) -> Tensor:
        for order in self.diagonals:
            x = diagonal(permute_dims(x, order))
        if self.summed:
            x = sum(x, axis=self.summed, dtype=x.dtype)
        if self.order is not None:
            x = permute_dims(x, self.order)
        return x if self.shape is None else reshape(x, self.shape)


class _Contraction(NamedTuple):
    """The product of two terms, which goes behind those that are left."""

    first: int
    second: int
    left: _Change
    right: _Change
    sums: bool  #: False for a product without a sum
    shape: Shape | None  #: of the term


class _Contractions(NamedTuple):
    steps: list[_Contraction]
    last: _Change


@functools.lru_cache(maxsize=1024)
def _planned(equation: str, shapes: tuple[Shape, ...]) -> _Contractions:
    parsed = _parse(equation, shapes)
    terms = [_Factor(names, shape) for names, shape in zip(parsed.operands, shapes, strict=True)]
    steps = []
    while len(terms) > 1:
        first, second = _cheapest([term.names for term in terms], parsed)
        right, left = terms.pop(second), terms.pop(first)
        later = set(parsed.result).union(*[term.names for term in terms])
        step, term = _contracted(first, second, left, right, later)
        steps.append(step)
        terms.append(term)
    terms[0].sum_over(parsed.result)
    return _Contractions(steps, terms[0].change(parsed.result))


class _Factor:
    """An operand while it is planned: the names and the sizes of its axes, and its changes."""

    def __init__(self, names: Labels, shape: Shape) -> None:
        self.diagonals: list[Shape] = []
        self.summed: Shape = ()
        for name in dict.fromkeys(names):
            while names.count(name) > 1:
                first = names.index(name)
                second = names.index(name, first + 1)
                others = [a for a in range(len(names)) if a not in (first, second)]
                self.diagonals.append((*others, first, second))
                shape = (*[shape[a] for a in others], shape[first])
                names = (*[names[a] for a in others], name)
        self.names, self.shape = names, shape

    def sum_over(self, keep: Collection[str | int]) -> None:
        """Sums over the axes that neither the result nor another operand has."""
        left = [a for a, name in enumerate(self.names) if name in keep]
        self.summed = tuple(a for a in range(len(self.names)) if a not in left)
        self.names = tuple(self.names[a] for a in left)
        self.shape = tuple(self.shape[a] for a in left)

    def sizes(self, names: Labels) -> Shape:
        return tuple(self.shape[self.names.index(name)] for name in names)

    def change(self, wanted: Labels, shape: Shape | None = None) -> _Change:
        """The changes that give the axes in the order wanted, and in the shape."""
        order = None if self.names == wanted else tuple(map(self.names.index, wanted))
        shape = None if shape == self.sizes(wanted) else shape
        return _Change(tuple(self.diagonals), self.summed, order, shape)


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
    first: int, second: int, x1: _Factor, x2: _Factor, later: set[str | int]
) -> tuple[_Contraction, _Factor]:
    """The product of two operands, summed over the axes that nothing else has."""
    x1.sum_over(later.union(x2.names))
    x2.sum_over(later.union(x1.names))
    shared = [name for name in x1.names if name in x2.names]
    batch = tuple(name for name in shared if name in later)
    inner = tuple(name for name in shared if name not in later)
    left = tuple(name for name in x1.names if name not in x2.names)
    right = tuple(name for name in x2.names if name not in x1.names)
    rows, columns, terms = x1.sizes(left), x2.sizes(right), x1.sizes(inner)
    stacks1, stacks2 = x1.sizes(batch), x2.sizes(batch)
    # Axes of an ellipsis broadcast.
    stacks = tuple([b if a == 1 else a for a, b in zip(stacks1, stacks2, strict=True)])
    names, whole = (*batch, *left, *right), (*stacks, *rows, *columns)
    shape: Shape | None
    if inner:
        form1 = (*stacks1, size_of(rows), size_of(terms))
        form2 = (*stacks2, size_of(x2.sizes(inner)), size_of(columns))
        shape = (*stacks, form1[-1], form2[-1])
    else:
        form1 = (*stacks1, *rows, *[1] * len(right))
        form2 = (*stacks2, *[1] * len(left), *columns)
        shape = whole
    step = _Contraction(
        first,
        second,
        x1.change((*batch, *left, *inner), shape=form1),
        x2.change((*batch, *inner, *right), shape=form2),
        bool(inner),
        None if shape == whole else whole,
    )
    return step, _Factor(names, whole)
