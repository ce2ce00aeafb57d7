"""Tapes and the backward pass: gradients of what was recorded."""

# Whoever imports a part of this package gets this one: dispatch uses a function of it.
from pullback._autodiff import functional as functional
