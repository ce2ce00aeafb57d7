"""`pullback` with each function called inside of `pb.vmap`, for the array API's own tests.

    ARRAY_API_TESTS_MODULE=batched PYTHONPATH=../pullback/tests pytest array_api_tests

A call with tensors is made as it is, and for a batch of three that all are these tensors. Shapes
and dtypes of the two are compared, and the result is that of one of the three: the tests look at
its values.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

import pullback as pb

#: What has a size that depends on values, asks for them, or moves between libraries.
LEFT_OUT = {
    *("nonzero", "argwhere", "unique_all", "unique_counts", "unique_inverse", "unique_values"),
    *("from_dlpack", "asarray", "isdtype", "result_type", "can_cast", "finfo", "iinfo"),
}
#: Functions of which the first argument alone is of a batch: the others say sizes.
FIRST = {"repeat"}


def _is_tensor(value: object) -> bool:
    return type(value) is pb.Tensor


def batched(name: str, f: Callable[..., Any]) -> Callable[..., Any]:
    """A function that is called for a batch, too."""

    @functools.wraps(f)
    def call(*args: Any, **kwargs: Any) -> Any:
        expected = f(*args, **kwargs)
        given = args, kwargs
        if name in LEFT_OUT or not any(map(_is_tensor, pb.tree.leaves(given))):
            return expected
        chosen = args[:1] if name in FIRST else given
        mapped = {id(leaf) for leaf in pb.tree.leaves(chosen) if _is_tensor(leaf)}
        axes = pb.tree.map(lambda leaf: 0 if id(leaf) in mapped else None, given)
        items = pb.tree.map(lambda x: pb.stack([x, x, x]) if id(x) in mapped else x, given)
        called = pb.vmap(lambda args, kwargs: f(*args, **kwargs), axes)
        found = pb.tree.map(lambda rows: rows[1], called(*items))
        for x, y in zip(pb.tree.leaves(found), pb.tree.leaves(expected), strict=True):
            assert (x.shape, x.dtype) == (y.shape, y.dtype), (
                f"{name}: {x.dtype}{x.shape} in a batch"
            )
        return found

    return call


def _namespace(module: Any) -> dict[str, Any]:
    names = {}
    for name in module.__all__:
        value = getattr(module, name)
        is_function = isinstance(value, types.FunctionType) and not name.startswith("_")
        names[name] = batched(name, value) if is_function else value
    return names


_NAMES = _namespace(pb)
linalg = types.SimpleNamespace(**_namespace(pb.linalg))
fft = types.SimpleNamespace(**_namespace(pb.fft))
__all__ = [*_NAMES, "fft", "linalg"]


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(name)
    return _NAMES[name]
