"""Loss scaling: keeps float16 gradients from vanishing and overflowing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pullback import dtypes, errors
from pullback._dispatch.arguments import as_float, as_int
from pullback._dispatch.convert import from_any
from pullback._dispatch.host_state import HostState
from pullback._dispatch.recording import effect, paused, when
from pullback.ops.comparison import isfinite
from pullback.optimizers.checks import unpacked
from pullback.optimizers.optimizer import Optimizer
from pullback.optimizers.wrapper import OptimizerWrapper
from pullback.tensor import Tensor, TensorLike
from pullback.variable import Variable

__all__ = ["LossScale"]


class LossScale(OptimizerWrapper):
    """An optimizer with loss scaling, as float16 needs it (Micikevicius et al., 2018).

    Take the gradients of `scaled(loss)`; `minimize` does that. Each step divides them by the scale
    again. If one is infinite or NaN, the step is skipped and the scale is divided by `factor`;
    after `growth_steps` steps in a row without a skip it is multiplied by `factor`.

    Args:
        optimizer: the optimizer that takes the steps.
        initial_scale: the first scale.
        growth_steps: the number of steps without a skip before the scale grows; None for never.
        factor: the factor by which the scale grows and shrinks.

    >>> v = pb.Variable(1.0)
    >>> optimizer = pb.optimizers.LossScale(pb.optimizers.SGD(0.1), initial_scale=4.0)
    >>> with pb.GradientTape() as tape:
    ...     loss = optimizer.scaled(v * v)
    >>> optimizer.apply_gradients([(tape.gradient(loss, v), v)])
    >>> print(f"{v:.3f} {optimizer.step}")
    0.800 1
    >>> optimizer.apply_gradients([(float("inf"), v)])
    >>> print(f"{v:.3f} {optimizer.step} {optimizer.scale} {optimizer.skipped}")
    0.800 1 2.0 1

    Raises:
        InputValueError: for a scale below 1, a factor of 1 or less, or growth_steps below 1.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        initial_scale: float = 2.0**15,
        *,
        growth_steps: int | None = 2000,
        factor: float = 2.0,
    ) -> None:
        super().__init__(optimizer)
        self.growth_steps = None if growth_steps is None else as_int(growth_steps, "growth_steps")
        self.factor = as_float(factor, "factor")
        first = as_float(initial_scale, "initial_scale")
        self._scale = HostState(first, "the scale of a LossScale")
        self._skipped = HostState(0, "the skipped steps of a LossScale")
        self._good = HostState(0, "the good steps of a LossScale")
        if first < 1 or self.factor <= 1 or (growth_steps is not None and growth_steps < 1):
            raise errors.InputValueError(
                f"initial_scale must be 1 or more, factor above 1 and growth_steps 1 or more, got "
                f"{initial_scale}, {factor} and {growth_steps}"
            )

    @property
    def scale(self) -> float:
        """The factor of losses; it may be set."""
        scale: float = self._scale.get()
        return scale

    @scale.setter
    def scale(self, scale: float) -> None:
        self._scale.set(as_float(scale, "scale"))

    @property
    def skipped(self) -> int:
        """The number of skipped steps."""
        skipped: int = self._skipped.get()
        return skipped

    def scaled(self, loss: TensorLike) -> Tensor:
        """Returns the loss times the scale, in at least float32."""
        value = from_any(loss)
        dtype = dtypes.promote_types(value.dtype, dtypes.float32)
        return self.optimizer.scaled(value.astype(dtype) * self.scale)

    def apply_gradients(self, pairs: Iterable[tuple[TensorLike | None, Variable]]) -> None:
        """Takes one step against gradients of the scaled loss; skips it unless all are finite.

        Raises:
            PullbackError: see `Optimizer.apply_gradients`.
        """
        with paused():
            unscaled = [
                (self._unscaled(gradient, variable), variable)
                for gradient, variable in unpacked(pairs)
            ]
            finite = _all_finite([gradient for gradient, _ in unscaled])
        if finite is None:
            # The optimizer says what is wrong with gradients that are all None.
            self.optimizer.apply_gradients(unscaled)
            return
        when(finite, lambda: self.optimizer.apply_gradients(unscaled))
        moved = tuple(variable for gradient, variable in unscaled if gradient is not None)
        effect(self._count, finite, moved, sets=(self._scale, self._skipped, self._good))

    def _count(self, finite: Tensor, variables: Sequence[Variable]) -> None:
        """Adjusts the scale after a step, or one that was skipped."""
        if not bool(finite):
            # A captured step has slots from the second call on, even if the first one was skipped.
            self.make_slots(variables)
            self._scale.set(max(self.scale / self.factor, 1.0))
            self._skipped.set(self.skipped + 1)
            self._good.set(0)
        elif self._good.get() + 1 == self.growth_steps:
            self._scale.set(self.scale * self.factor)
            self._good.set(0)
        else:
            self._good.set(self._good.get() + 1)

    def _unscaled(self, gradient: TensorLike | None, variable: Variable) -> Tensor | None:
        if gradient is None:
            return None
        device = variable.device if isinstance(variable, Variable) else None
        tensor = from_any(gradient, None, device)
        dtype = dtypes.promote_types(tensor.dtype, dtypes.float32)
        return tensor.astype(dtype) / self.scale

    def checkpoint_state(self) -> Mapping[str, Any]:
        """The scale and its counters; the state of `optimizer` is saved on its own."""
        return {"scale": self.scale, "good": self._good.get(), "skipped": self.skipped}

    def restore_state(self, saved: Mapping[str, Any]) -> None:
        """Restores the result of `checkpoint_state`."""
        self.scale = float(saved["scale"])
        self._good.set(int(saved["good"]))
        self._skipped.set(int(saved["skipped"]))


def _all_finite(gradients: list[Tensor | None]) -> Tensor | None:
    """Returns whether every element is finite, as a tensor; None if there are no gradients."""
    total: Tensor | None = None
    for gradient in gradients:
        if gradient is not None:
            # A sum of zeros, or NaN: cheaper than a mask.
            zero = (gradient * 0).sum()
            total = zero if total is None else total + zero.to(total.device)
    return None if total is None else isfinite(total)
