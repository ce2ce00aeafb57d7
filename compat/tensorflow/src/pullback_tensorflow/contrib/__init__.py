"""`tf.contrib`, as far as the guides go into it."""

from __future__ import annotations

from pullback_tensorflow.contrib import data, eager, summary

__all__ = ["data", "eager", "summary"]
