"""The types of batches, losses and metrics, as training knows them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from pullback.tensor import Tensor

__all__ = ["Logs", "LossLike", "MetricsLike", "Structure", "Values"]

#: Arrays or tensors, in tuples, lists and dicts.
Structure: TypeAlias = Any
#: Metrics by name, such as {"loss": 0.3, "val_loss": 0.4}.
Logs: TypeAlias = Mapping[str, Any]
#: The values of a step by name, whose means over an epoch are logged.
Values: TypeAlias = "Mapping[str, Tensor | float]"
#: A loss: a function of targets and predictions, or its name; or several by output.
LossLike: TypeAlias = (
    "Callable[..., Any] | str | Mapping[Any, LossLike] | Sequence[LossLike] | None"
)
#: Metrics: functions of targets and predictions, or their names; or lists of them by output.
MetricsLike: TypeAlias = (
    "Callable[..., Any] | str | Mapping[Any, MetricsLike] | Sequence[MetricsLike] | None"
)
