"""`pullback conform --communicator NAME -n N`: a communicator against NumPy, on its ranks.

Every rank draws what all ranks give from one seed, so each knows what it has to get.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

import pullback.distributed as dist
from pullback import dtypes, errors
from pullback._autodiff.tape import GradientTape
from pullback.devices import as_device
from pullback.dtypes import DType, as_dtype
from pullback.graph.function import function as captured
from pullback.ops.conversion import asarray
from pullback.ops.manipulation import matrix_transpose
from pullback.ops.reductions import sum as sum_of
from pullback.tensor import Tensor
from pullback_conformance.sample import Array

__all__ = ["COLLECTIVES", "Collective", "check", "draw"]

#: The sizes of vectors, beside small arrays of several axes; each is rounded to a part for a rank.
SIZES = (0, 1, 7, 1000, 10**5, 10**7)


class Collective(NamedTuple):
    """A collective as it is checked."""

    name: str
    call: Callable[[Any], Tensor]
    #: From the arrays of all ranks in float64, along the first axis, and the rank.
    reference: Callable[[Array, int], Array]
    #: The dtypes that it takes: "any", "numeric", "real" or "floating".
    takes: str
    #: Whether the first axis has a part for each rank.
    parts: bool = False


def _parts(array: Array, rank: int) -> Array:
    return np.split(array, dist.size())[rank]


COLLECTIVES = (
    Collective("all_reduce sum", dist.all_reduce, lambda x, _: x.sum(0), "numeric"),
    Collective("all_reduce mean", lambda x: dist.all_reduce(x, "mean"),
               lambda x, _: x.mean(0), "floating"),
    Collective("all_reduce max", lambda x: dist.all_reduce(x, "max"),
               lambda x, _: x.max(0), "real"),
    Collective("all_reduce min", lambda x: dist.all_reduce(x, "min"),
               lambda x, _: x.min(0), "real"),
    Collective("broadcast", lambda x: dist.broadcast(x, root=dist.size() - 1),
               lambda x, _: x[-1], "any"),
    Collective("all_gather", dist.all_gather, lambda x, _: np.concatenate([*x]), "any", True),
    Collective("reduce_scatter", dist.reduce_scatter,
               lambda x, rank: _parts(x.sum(0), rank), "numeric", True),
    Collective("all_to_all", dist.all_to_all,
               lambda x, rank: np.concatenate([_parts(y, rank) for y in x]), "any", True),
)  # fmt: skip


def draw(seed: int, shape: tuple[int, ...], dtype: DType) -> Array:
    """The arrays of all ranks: small whole numbers, whose sums are exact in every dtype."""
    rng = np.random.default_rng([seed, *shape])
    whole = (dist.size(), *shape)
    if dtype == dtypes.bool_:
        return rng.integers(0, 2, whole).astype(bool)
    found: Any = rng.integers(0 if dtype.kind == "u" else -8, 9, whole)
    if dtypes.is_complex(dtype):
        found = found + 1j * rng.integers(-8, 9, whole)
    return np.asarray(found.astype(dtype))


def check(sizes: tuple[int, ...] = SIZES, *, device: str = "cpu") -> Iterator[tuple[str, str]]:
    """Checks every collective; all ranks run it.

    Args:
        sizes: the sizes of vectors.
        device: the device of the tensors.

    Yields:
        Titles of checks, each with what is wrong on this rank; empty for nothing.
    """
    backend = as_device(device).backend
    for one in COLLECTIVES:
        for dtype in backend.dtypes:
            if _takes(one.takes, as_dtype(dtype)):
                yield f"{one.name}, {dtype}", _values(one, as_dtype(dtype), device)
        yield (
            f"{one.name}, sizes to {max(sizes)}",
            _first_of(_compared(one, (size,), dtypes.float32, device) for size in sizes),
        )
        yield f"{one.name}, layouts", _layouts(one, device)
        for title, wrap in (("op by op", lambda f: f), ("captured", captured)):
            yield f"{one.name}, gradients {title}", _gradients(one, wrap, device)
    yield "calls that differ", _differing()


def _takes(kind: str, dtype: DType) -> bool:
    if kind == "any":
        return True
    if dtype == dtypes.bool_:
        return False
    if kind == "floating":
        return dtype not in dtypes.INTEGER
    return kind == "numeric" or not dtypes.is_complex(dtype)


def _first_of(problems: Iterator[str]) -> str:
    return next((problem for problem in [*problems] if problem), "")


def _values(one: Collective, dtype: DType, device: str) -> str:
    shapes: list[tuple[int, ...]] = [(3,), (2, 3), (1, 0), (2, 2, 5)]
    if not one.parts:
        shapes.append(())
    return _first_of(_compared(one, shape, dtype, device) for shape in shapes)


def _sized(one: Collective, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape with a first axis that the ranks divide."""
    size = dist.size()
    return (-(-shape[0] // size) * size, *shape[1:]) if one.parts else shape


def _compared(
    one: Collective,
    shape: tuple[int, ...],
    dtype: DType,
    device: str,
    form: Callable[[Tensor], Tensor] = lambda x: x,
) -> str:
    shape = _sized(one, shape)
    given = draw(11, shape, dtype)
    wide = np.complex128 if dtypes.is_complex(dtype) else np.float64
    wanted = one.reference(given.astype(wide), dist.rank())
    found = one.call(form(asarray(given[dist.rank()], device=device)))
    if found.shape != wanted.shape or found.dtype != dtype:
        return f"{found.dtype}{list(found.shape)} in place of {dtype}{list(wanted.shape)}"
    rounding = 2.0**-8 if dtype.itemsize == 2 else 1e-6
    loose = rounding if one.name.endswith("mean") else 0.0
    if not np.allclose(found.numpy().astype(wide), wanted, rtol=loose, atol=0):
        return f"wrong values for {dtype}{list(shape)}"
    return ""


def _layouts(one: Collective, device: str) -> str:
    forms: list[Callable[[Tensor], Tensor]] = [
        lambda x: matrix_transpose(matrix_transpose(x) + 0),
        lambda x: (x[::-1] + 0)[::-1],
        lambda x: asarray(np.repeat(x.numpy(), 2, axis=1), device=device)[:, ::2],
    ]
    return _first_of(_compared(one, (6, 4), dtypes.float32, device, form) for form in forms)


def _gradients(one: Collective, wrap: Callable[[Any], Any], device: str) -> str:
    """Against finite differences of the sum of all ranks' losses."""
    size, rank = dist.size(), dist.rank()
    rng = np.random.default_rng(5)
    given = rng.normal(size=(size, 2 * size, 2))
    weights = rng.normal(size=(size, 2 * size * size, 2))

    def loss(x: Array) -> float:
        results = [one.reference(x, other) for other in range(size)]
        pairs = zip(results, weights, strict=True)
        return float(sum((y**2 * w[: len(y)]).sum() for y, w in pairs))

    own = asarray(weights[rank], device=device)

    def gradient(x: Tensor) -> Tensor:
        with GradientTape() as tape:
            tape.watch(x)
            y = one.call(x)
            value = sum_of(y * y * own[: y.shape[0]])
        found: Tensor = tape.gradient(value, x)
        return found

    step = wrap(gradient)
    found = [step(asarray(given[rank], device=device)).numpy() for _ in range(3)]
    for i in range(2 * size):
        moved = given.copy()
        moved[rank, i, 0] += 1e-6
        slope = (loss(moved) - loss(given)) / 1e-6
        for array in found:
            if not abs(array[i, 0] - slope) < 1e-3 * max(1.0, abs(slope)):
                return f"{array[i, 0]} in place of {slope} at [{i}, 0]"
    return ""


def _differing() -> str:
    """A call that differs on one rank must be an error on all, and no hang."""
    if dist.size() == 1:
        return ""
    try:
        dist.all_reduce(asarray([1.0] * (1 + (dist.rank() == 1))))
    except errors.CommunicationError as error:
        return "" if "rank 1 calls" in str(error) else f"the error does not name both: {error}"
    return "no error for shapes that differ"
