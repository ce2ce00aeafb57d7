"""`LBFGS`: steps of a quasi-Newton method, for losses that are the same at each evaluation."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from pullback import dtypes, errors
from pullback._autodiff.tape import GradientTape
from pullback._dispatch.arguments import as_float, as_list
from pullback._dispatch.convert import from_any
from pullback._dispatch.host_state import HostState
from pullback._dispatch.recording import paused, reject_use
from pullback.ops.arithmetic import abs as absolute
from pullback.ops.data_types import astype, finfo
from pullback.ops.joining import concat
from pullback.ops.linalg.linear_algebra import matmul
from pullback.ops.manipulation import reshape
from pullback.ops.precision import widest
from pullback.ops.reductions import max as max_of
from pullback.ops.reductions import sum as sum_of
from pullback.optimizers.checks import Pairs, checked_pairs
from pullback.optimizers.line_search import Point, wolfe_search
from pullback.optimizers.optimizer import LearningRate, Optimizer
from pullback.shapes import as_count
from pullback.state import objects
from pullback.tensor import Tensor, TensorLike
from pullback.variable import Variable

__all__ = ["LBFGS"]

#: The slot of the last steps, and behind them the changes of the gradient in each, oldest first.
_PAIRS = "pairs"
#: How many points of a line are tried.
_EVALUATIONS = 25


class LBFGS(Optimizer):
    """Limited-memory BFGS with a line search (Nocedal and Wright, 2006, algorithms 7.5 and 3.5).

    It is for losses of all data, without dropout: gradients at two points are compared, and the
    loss is evaluated several times in a step. So `minimize` is the only way to take steps; capture
    the loss by `pb.function` to make them faster.

    Args:
        learning_rate: the first length of a step that is tried, in units of the quasi-Newton step.
        history: how many steps the model of the curvature is made of.
        iterations: how many steps a call of `minimize` takes at most.
        tolerance: the largest element of the gradient at which no step is needed.

    >>> x = pb.Variable([-1.2, 1.0], dtype="float64")
    >>> optimizer = pb.optimizers.LBFGS(iterations=100)
    >>> loss = optimizer.minimize(lambda: (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2)
    >>> x.numpy().round(4).tolist(), optimizer.step < 50
    ([1.0, 1.0], True)

    Raises:
        InputValueError: for a history or iterations below 1, or a negative tolerance.
    """

    slot_names = (_PAIRS,)

    def __init__(
        self,
        learning_rate: LearningRate = 1.0,
        *,
        history: int = 10,
        iterations: int = 20,
        tolerance: float = 1e-7,
    ) -> None:
        super().__init__(learning_rate)
        self.history = as_count(history, "history")
        self.iterations = as_count(iterations, "iterations")
        self.tolerance = as_float(tolerance, "tolerance")
        if not self.tolerance >= 0:
            raise errors.InputValueError(f"tolerance must be 0 or more, got {tolerance}")
        #: The number of steps in the slots.
        self._known = HostState(0, "the history of LBFGS")

    def minimize(
        self, loss: Callable[[], Tensor], variables: Sequence[Variable] | None = None
    ) -> Tensor:
        """Takes steps until the gradient is small, or no step along the line lowers the loss.

        Args:
            loss: a function without arguments that returns one number, the same for the same
                values of the variables.
            variables: the variables to move; if None, every trainable one that `loss` reads.

        Returns:
            The loss at the values that the variables have now, the lowest that were found.

        Raises:
            InputValueError: if the loss or its gradient is not finite before the first step, or
                depends on no variable.
            ShapeError: for a loss of several elements.
            DTypeError: for complex variables.
        """
        if not callable(loss):
            raise errors.InputTypeError(
                f"loss must be a function that computes the loss, got {type(loss).__name__}; "
                f"write optimizer.minimize(lambda: ...)"
            )
        reject_use("takes steps of LBFGS", "capture the loss alone, and call minimize outside")
        if objects.PENDING_RESTORES:
            objects.restore_pending()
        chosen = None if variables is None else as_list(variables, "variables", "variables")
        value, pairs = _evaluated(loss, chosen)
        gradients, moved = [gradient for gradient, _ in pairs], [variable for _, variable in pairs]
        for variable in moved:
            if dtypes.is_complex(variable.dtype):
                raise errors.DTypeError(
                    f"LBFGS moves real variables, and {variable.name or 'one'} is "
                    f"{variable.dtype}; optimize its real and imaginary parts"
                )
            if _PAIRS not in self._slots.of(variable):
                # What is known of the others says nothing of all together.
                self._known.set(0)
        if not (math.isfinite(float(value)) and math.isfinite(_largest(gradients))):
            raise errors.InputValueError(
                f"the loss {float(value)} or its gradient is not finite; LBFGS needs a point to "
                f"begin with at which both are"
            )
        for _ in range(self.iterations):
            if _largest(gradients) <= self.tolerance:
                break
            reached = self._advance(loss, moved, value, gradients)
            if reached is None:
                break
            value, gradients = reached
        return value

    def _advance(
        self,
        loss: Callable[[], Tensor],
        moved: list[Variable],
        value: Tensor,
        gradients: list[Tensor],
    ) -> tuple[Tensor, list[Tensor]] | None:
        """Takes a step; returns the loss and gradients there, or None if there is none to take."""
        before = [variable.value for variable in moved]
        with paused():
            directions, slope = self._directions(moved, gradients)
            rate = float(self._rate())
            if not (rate and -math.inf < slope < 0):
                return None
            if not self._known.get():
                # Of a gradient without a model of the curvature only the direction counts.
                rate *= min(1.0, 1 / math.sqrt(-slope))

        def at(step: float) -> Point:
            with paused():
                for variable, x, d in zip(moved, before, directions, strict=True):
                    variable.assign(astype(astype(x, d.dtype) + step * d, x.dtype))
            value, pairs = _evaluated(loss, moved)
            found = {id(variable): gradient for gradient, variable in pairs}
            with paused():
                gradients = [
                    found[id(v)] if id(v) in found else d * 0
                    for v, d in zip(moved, directions, strict=True)
                ]
                slope = _product(gradients, directions)
            return Point(step, float(value), slope, (value, gradients))

        smallest = finfo(value.dtype).eps * abs(float(value))
        start = Point(0.0, float(value), slope, None)
        reached = start
        try:
            reached = wolfe_search(at, start, rate, _EVALUATIONS, smallest)
        finally:
            with paused():
                for variable, x, d in zip(moved, before, directions, strict=True):
                    end = x if reached is start else astype(x, d.dtype) + reached.step * d
                    variable.assign(astype(end, x.dtype))
        if reached is start:
            if not self._known.get():
                return None
            # Along the gradient itself, without a model that may be of another loss.
            self._known.set(0)
            return self._advance(loss, moved, value, gradients)
        new: tuple[Tensor, list[Tensor]] = reached.found
        with paused():
            if reached.slope > slope:  # else the model would have no minimum
                self._remember(moved, before, gradients, new[1])
        self._restored.clear()
        self._step.set(self._step.get() + 1)
        return new

    def _directions(
        self, moved: list[Variable], gradients: list[Tensor]
    ) -> tuple[list[Tensor], float]:
        """The quasi-Newton step of each variable, and the slope of the loss along all.

        Algorithm 7.4 on coefficients: the step is a sum of what is remembered and the gradient, so
        that it takes their products, of all with all, and no pass for each (Chen et al., 2014).
        """
        m, known = self.history, self._known.get()
        pairs = [_rows(self.slot(variable, _PAIRS)) for variable in moved]
        flat = [reshape(astype(g, p.dtype), (-1, 1)) for g, p in zip(gradients, pairs, strict=True)]
        products = [[0.0] * (2 * m + 1) for _ in range(2 * m + 1)]
        products[-1][-1] = _product(gradients, gradients)
        for p, g in zip(pairs, flat, strict=True) if known else ():
            for i, row in enumerate(matmul(p, concat([p.T, g], axis=1)).tolist()):
                products[i] = [x + y for x, y in zip(products[i], row, strict=True)]
                products[-1][i] = products[i][-1]
        c = _two_loops(products, m, known)
        slope = sum([x * row[-1] for x, row in zip(c, products, strict=True)])
        if not -math.inf < slope < 0:
            self._known.set(0)
            c, slope = [0.0] * (2 * m) + [-1.0], -products[-1][-1]
        directions = []
        for variable, p, g in zip(moved, pairs, flat, strict=True):
            d = g * c[-1]
            if self._known.get():
                d = d + matmul(p.T, from_any([[x] for x in c[:-1]], p.dtype, p.device))
            directions.append(reshape(d, variable.shape))
        return directions, slope

    def _remember(
        self,
        moved: list[Variable],
        before: list[Tensor],
        gradients: list[Tensor],
        new: list[Tensor],
    ) -> None:
        """Keeps a step and the change of the gradient in it, in place of the oldest."""
        m = self.history
        for variable, x, g, h in zip(moved, before, gradients, new, strict=True):
            pairs = self.slot(variable, _PAIRS)
            step, change = (
                reshape(astype(b, pairs.dtype) - astype(a, pairs.dtype), (1, *x.shape))
                for a, b in ((x, variable.value), (g, h))
            )
            pairs.assign(concat([pairs[1:m], step, pairs[m + 1 :], change]))
        self._known.set(min(self._known.get() + 1, m))

    def slot_shape(self, variable: Variable, name: str) -> Sequence[int]:
        """Twice the history, and the shape of the variable."""
        return (2 * self.history, *variable.shape)

    def apply_gradients(self, pairs: Iterable[tuple[TensorLike | None, Variable]]) -> None:
        """Raises: one gradient is not enough.

        Raises:
            InputTypeError: always.
        """
        raise errors.InputTypeError(
            "LBFGS evaluates the loss several times in a step, so it takes no gradients; call "
            "optimizer.minimize(lambda: ...) with the loss of all data"
        )

    def checkpoint_state(self) -> Mapping[str, Any]:
        """The number of steps taken, and of those in the slots."""
        return {**super().checkpoint_state(), "known": self._known.get()}

    def restore_state(self, saved: Mapping[str, Any]) -> None:
        """Restores the result of `checkpoint_state`."""
        super().restore_state(saved)
        self._known.set(int(saved["known"]))


def _evaluated(
    loss: Callable[[], Tensor], variables: list[Variable] | None
) -> tuple[Tensor, Pairs]:
    """The loss, and the gradients of the variables that it depends on."""
    with GradientTape() as tape:
        if variables is not None:
            tape.watch(variables)
        value = loss()
    if not isinstance(value, Tensor) or value.shape != ():
        raise errors.ShapeError(
            f"LBFGS needs a loss of one number, got "
            f"{f'shape {value.shape}' if isinstance(value, Tensor) else type(value).__name__}; "
            f"write pb.mean(...)"
        )
    moved = list(tape.watched_variables() if variables is None else variables)
    return value, checked_pairs(zip(tape.gradient(value, moved), moved, strict=True))


def _rows(pairs: Variable) -> Tensor:
    return reshape(pairs.value, (pairs.shape[0], pairs.size // pairs.shape[0]))


def _product(a: list[Tensor], b: list[Tensor]) -> float:
    """The inner product of two vectors that are in parts."""
    parts = [sum_of(astype(x, widest(x.device)) * y) for x, y in zip(a, b, strict=True)]
    return math.fsum(map(float, parts))


def _largest(gradients: list[Tensor]) -> float:
    """The largest size of an element; NaN if there is one."""
    sizes = [float(max_of(absolute(g))) for g in gradients if g.size]
    return math.nan if any(map(math.isnan, sizes)) else max(sizes, default=0.0)


def _two_loops(products: list[list[float]], m: int, known: int) -> list[float]:
    """The coefficients of the step, of m steps, m changes and the gradient, from their products."""
    c = [0.0] * (2 * m) + [-1.0]
    shares = {}
    newest_first = [i for i in reversed(range(m - known, m)) if products[i][m + i] > 0]
    for i in newest_first:
        total = sum(x * row[i] for x, row in zip(c, products, strict=True))
        shares[i] = total / products[i][m + i]
        c[m + i] -= shares[i]
    if newest_first:
        last = newest_first[0]
        scale = products[last][m + last] / products[m + last][m + last]
        c = [scale * x for x in c]
    for i in reversed(newest_first):
        total = sum(x * row[m + i] for x, row in zip(c, products, strict=True))
        c[i] += shares[i] - total / products[i][m + i]
    return c
