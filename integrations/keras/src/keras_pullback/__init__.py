"""Keras on pullback: `KERAS_BACKEND=pullback`.

Keras's plugins have their version here and the rest in `src`.
"""

__version__ = "0.1.0"
