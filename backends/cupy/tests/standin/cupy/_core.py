"""The compute type of cuBLAS: accepted, and without effect."""

import types

_routines_linalg = types.SimpleNamespace(COMPUTE_TYPE_DEFAULT=1, COMPUTE_TYPE_TF32=7)


def set_compute_type(dtype, compute_type):
    pass
