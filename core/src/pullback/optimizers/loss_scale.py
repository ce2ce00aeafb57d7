"""Loss scaling: float16 gradients that neither vanish nor overflow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pullback import dtypes, errors
from pullback._dispatch.convert import from_any
from pullback._dispatch.recording import paused
from pullback.ops.comparison import isfinite
from pullback.optimizers.optimizer import Optimizer
from pullback.variable import Variable

__all__ = ["LossScale"]


class LossScale(Optimizer):
    """An optimizer for losses that are scaled, as float16 needs (Micikevicius et al., 2018).

    Gradients are taken of `scaled(loss)`, which `minimize` does by itself. Each step they are
    divided by the scale again. Where one is infinite or NaN, the step is left out and the scale is
    made smaller; after `growth_steps` good steps in a row it is made larger.

    Args:
        optimizer: what takes the steps.
        scale: the first scale.
        growth_steps: how many good steps it takes for a larger one; None for never.
        factor: by how much it grows and shrinks.

    >>> v = pb.Variable(1.0)
    >>> optimizer = pb.optimizers.LossScale(pb.optimizers.SGD(0.1), scale=4.0)
    >>> with pb.GradientTape() as tape:
    ...     loss = optimizer.scaled(v * v)
    >>> optimizer.apply_gradients([(tape.gradient(loss, v), v)])
    >>> print(f"{v:.3f} {optimizer.step}")
    0.800 1
    >>> optimizer.apply_gradients([(float("inf"), v)])
    >>> print(f"{v:.3f} {optimizer.step} {optimizer.scale} {optimizer.skipped}")
    0.800 1 2.0 1

    Raises:
        InputValueError: for a scale below 1, a factor that is not above 1, or no growth steps.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        scale: float = 2.0**15,
        *,
        growth_steps: int | None = 2000,
        factor: float = 2.0,
    ) -> None:
        self.optimizer = optimizer
        super().__init__(optimizer.learning_rate)
        #: What losses are multiplied by.
        self.scale = float(scale)
        self.growth_steps = growth_steps
        self.factor = float(factor)
        #: How many steps have been left out.
        self.skipped = 0
        self._good = 0
        if not (scale >= 1 and factor > 1 and (growth_steps is None or growth_steps >= 1)):
            raise errors.InputValueError(
                f"a scale is 1 or more, a factor above 1 and growth_steps 1 or more, got "
                f"{scale}, {factor} and {growth_steps}"
            )

    def constructor_arguments(self) -> dict[str, Any]:
        """The arguments of the constructor by name."""
        found = super().constructor_arguments()
        del found["learning_rate"]
        return found

    @property
    def learning_rate(self) -> Any:
        """That of the optimizer that takes the steps."""
        return self.optimizer.learning_rate

    @learning_rate.setter
    def learning_rate(self, rate: Any) -> None:
        self.optimizer.learning_rate = rate

    @property
    def step(self) -> int:
        """The number of steps taken; those left out do not count."""
        return self.optimizer.step

    def averaged(self) -> Any:
        """As of the optimizer that takes the steps."""
        return self.optimizer.averaged()

    def scaled(self, loss: Any) -> Any:
        """The loss times the scale, in float32 where it has fewer bits."""
        value = from_any(loss)
        dtype = dtypes.promote_types(value.dtype, dtypes.float32)
        return self.optimizer.scaled(value.astype(dtype) * self.scale)

    def apply_gradients(self, pairs: Iterable[tuple[Any, Variable]]) -> None:
        """Takes one step against gradients of the scaled loss, unless one is not finite.

        Raises:
            PullbackError: as of `Optimizer.apply_gradients`.
        """
        with paused():
            found = [(self._unscaled(gradient, variable), variable) for gradient, variable in pairs]
            good = _all_finite([gradient for gradient, _ in found])
        if not good:
            self.scale = max(self.scale / self.factor, 1.0)
            self.skipped += 1
            self._good = 0
            return
        self.optimizer.apply_gradients(found)
        self._good += 1
        if self._good == self.growth_steps:
            self.scale *= self.factor
            self._good = 0

    def _unscaled(self, gradient: Any, variable: Any) -> Any:
        if gradient is None:
            return None
        device = variable.device if isinstance(variable, Variable) else None
        tensor = from_any(gradient, None, device)
        dtype = dtypes.promote_types(tensor.dtype, dtypes.float32)
        return tensor.astype(dtype) / self.scale

    def checkpoint_state(self) -> Mapping[str, Any]:
        """The scale, and what it depends on; the optimizer inside has a state of its own."""
        return {"scale": self.scale, "good": self._good, "skipped": self.skipped}

    def restore_state(self, saved: Mapping[str, Any]) -> None:
        """Takes over what `checkpoint_state` gave."""
        self.scale = float(saved["scale"])
        self._good, self.skipped = int(saved["good"]), int(saved["skipped"])


def _all_finite(gradients: list[Any]) -> bool:
    """Whether every element is finite; the answer is waited for once."""
    found: Any = None
    for gradient in gradients:
        if gradient is not None:
            # The sum of zeros, or NaN: cheaper than a mask, and one number to hand on.
            one = (gradient * 0).sum()
            found = one if found is None else found + one.to(found.device)
    return found is None or bool(isfinite(found))
