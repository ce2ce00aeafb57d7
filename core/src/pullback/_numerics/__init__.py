"""Formulas of functions over any array API namespace: the bodies of ops over the ops themselves.

Kernels for a backend's own namespace are made of the same formulas (`pullback.array_api.special`).
"""
