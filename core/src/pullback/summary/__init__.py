"""Summaries for TensorBoard: numbers, histograms, images, texts, graphs, hyperparameters.

    writer = pb.summary.create_file_writer("logs")
    with writer.as_default():
        pb.summary.scalar("loss", loss, step=step)

A summary goes to the active writer. Without one nothing is recorded, so that the same code runs
with and without summaries. They need tensorboardX: `pip install 'pullback[tensorboard]'`.
"""

from __future__ import annotations

from pullback.summary.graph import graph
from pullback.summary.values import histogram, hparams, image, scalar, text
from pullback.summary.writer import (
    Writer,
    create_file_writer,
    record_every,
    record_if,
    set_step,
    should_record,
)

__all__ = [
    "Writer",
    "create_file_writer",
    "graph",
    "histogram",
    "hparams",
    "image",
    "record_every",
    "record_if",
    "scalar",
    "set_step",
    "should_record",
    "text",
]
