"""Sparse matrices times dense ones, with gradients for both.

`CSR` holds a matrix by its rows: the values of all entries, their columns, and where in these each
row begins.
"""

from __future__ import annotations

from pullback_sparse.csr import CSR

__all__ = ["CSR"]
