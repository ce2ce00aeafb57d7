"""Metrics: values that are accumulated over many batches.

Call a metric with each batch, read `result()`, and `reset()` it for the next epoch. Its state is
part of a checkpoint that contains the metric. Sums are kept in double precision: they neither
saturate nor depend on the split into batches. Weights are per item: their axes are the first axes
of the values.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from pullback import _hints
from pullback._foreign_names.objects import METRIC
from pullback.metrics.accuracy import (
    Accuracy,
    BinaryAccuracy,
    CategoricalAccuracy,
    Perplexity,
    SparseCategoricalAccuracy,
    SparseTopKAccuracy,
    TopKAccuracy,
)
from pullback.metrics.base import Mean, Metric, Sum
from pullback.metrics.confusion import ConfusionMatrix, MatthewsCorrelation, MeanIoU
from pullback.metrics.detection import F1Score, FBetaScore, Precision, Recall
from pullback.metrics.ranking import AUC
from pullback.metrics.regression import (
    CosineSimilarity,
    ExplainedVariance,
    MeanAbsoluteError,
    MeanAbsolutePercentageError,
    MeanOf,
    MeanSquaredError,
    MeanSquaredLogarithmicError,
    PearsonCorrelation,
    R2Score,
    RootMeanSquaredError,
)

__all__ = [
    "AUC",
    "Accuracy",
    "BinaryAccuracy",
    "CategoricalAccuracy",
    "ConfusionMatrix",
    "CosineSimilarity",
    "ExplainedVariance",
    "F1Score",
    "FBetaScore",
    "MatthewsCorrelation",
    "Mean",
    "MeanAbsoluteError",
    "MeanAbsolutePercentageError",
    "MeanIoU",
    "MeanOf",
    "MeanSquaredError",
    "MeanSquaredLogarithmicError",
    "Metric",
    "PearsonCorrelation",
    "Perplexity",
    "Precision",
    "R2Score",
    "Recall",
    "RootMeanSquaredError",
    "SparseCategoricalAccuracy",
    "SparseTopKAccuracy",
    "Sum",
    "TopKAccuracy",
]


if not TYPE_CHECKING:
    __getattr__ = _hints.answer_module("pullback.metrics")
    _hints.answer_calls(sys.modules[__name__])
    _hints.answer_attributes(Metric, METRIC)
