"""`Model`: a model, as training knows it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from pullback.tensor import Tensor
from pullback.training.objective import CompileConfig
from pullback.training.types import Structure, Values

__all__ = ["TrainedModel"]


class TrainedModel(Protocol):
    """A model, as training knows it: a callable with variables, losses and steps."""

    stop_training: bool
    _compiled: CompileConfig | None

    def __call__(self, *args: Any, training: bool | None = None) -> Structure:
        """Returns the outputs for some inputs."""

    @property
    def compiled(self) -> CompileConfig:
        """The arguments of `compile`."""

    @property
    def losses(self) -> Sequence[Tensor]:
        """The losses that layers added in the last call."""

    def train_step(
        self, inputs: Structure, targets: Structure, weights: Structure
    ) -> Values | None:
        """Trains on one batch."""

    def test_step(self, inputs: Structure, targets: Structure, weights: Structure) -> Values | None:
        """Evaluates one batch."""

    def predict_step(self, inputs: Structure) -> Structure:
        """Returns the outputs for one batch."""
