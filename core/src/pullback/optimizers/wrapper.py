"""Optimizers around another one, which takes the steps."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, SupportsFloat

from pullback import errors
from pullback.optimizers.optimizer import LearningRate, Optimizer
from pullback.variable import Variable

__all__ = ["OptimizerWrapper"]


class OptimizerWrapper(Optimizer):
    """The base of optimizers that hand changed gradients to another one.

    Args:
        optimizer: the optimizer that takes the steps.

    Raises:
        InputTypeError: for what is not an optimizer.
    """

    def __init__(self, optimizer: Optimizer) -> None:
        if not isinstance(optimizer, Optimizer):
            raise errors.InputTypeError(
                f"optimizer must be an optimizer, such as pb.optimizers.Adam(), got "
                f"{type(optimizer).__name__}"
            )
        self.optimizer = optimizer
        super().__init__(optimizer.learning_rate)

    def constructor_arguments(self) -> dict[str, Any]:
        """The arguments of the constructor by name."""
        arguments = super().constructor_arguments()
        del arguments["learning_rate"]
        return arguments

    @property
    def learning_rate(self) -> Any:
        """The learning rate of the optimizer that takes the steps."""
        return self.optimizer.learning_rate

    @learning_rate.setter
    def learning_rate(self, rate: LearningRate) -> None:
        self.optimizer.learning_rate = rate

    @property
    def schedule(self) -> Callable[[int], SupportsFloat] | None:
        """The schedule of the optimizer that takes the steps."""
        return self.optimizer.schedule

    @property
    def variables(self) -> list[Variable]:
        """The slots of the optimizer that takes the steps."""
        return self.optimizer.variables

    @property
    def step(self) -> int:
        """The number of steps taken, without skipped ones."""
        return self.optimizer.step

    @contextlib.contextmanager
    def averaged(self) -> Iterator[None]:
        """See `Optimizer.averaged`, of the optimizer that takes the steps."""
        with self.optimizer.averaged():
            yield

    def make_slots(self, variables: Iterable[Variable]) -> None:
        """Makes the slots of the optimizer that takes the steps."""
        self.optimizer.make_slots(variables)
