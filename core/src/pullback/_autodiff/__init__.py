"""Tapes and the backward pass: gradients of what was recorded."""
