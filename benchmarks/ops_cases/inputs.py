"""The inputs of the tables' expressions: what each name is in each family of shapes.

A family has names, each with a shape and a kind of values. The arrays are NumPy's and contiguous;
`LAYOUTS` says which forms of them a family has, and the worker makes these with its framework.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

FLOATS = ("float32", "float64", "float16", "bfloat16")
INTEGERS = ("int32", "int64")
DTYPES = {
    "float": FLOATS,
    "single": ("float32", "float64"),
    "int": INTEGERS,
    "bool": ("bool",),
    "complex": ("complex64",),
    "one": ("float32",),
}


class Spec(NamedTuple):
    """The shape of an input, and what its values are.

    Kinds: `normal`, `positive`, `inside` (-1 to 1), `above` (1 or more), `sorted`, `unit` (rows
    that sum to 1) and `definite` (matrices that can be inverted) have the case's dtype and a
    gradient; `plain` has the dtype and no gradient; `bool`, `few` (a mask with few true), `index N`
    (integers below N), `scale` (0 to 3 in the dtype) and `complex` have a dtype of their own.
    """

    shape: tuple[int, ...]
    kind: str = "normal"


Shapes = dict[str, Spec]
DIFFERENTIABLE = ("normal", "positive", "inside", "above", "unit", "definite", "complex")
#: The names whose layout varies; all others are contiguous.
VARIED = ("x", "p", "u", "a")
#: Sizes of one axis that no vector's length divides.
ODD = {10: (3, 1, 3), 1_000: (7, 11, 13), 100_000: (31, 53, 61), 1_000_000: (97, 101, 103)}


def split(n: int, axes: int) -> tuple[int, ...]:
    """The sizes of axes, about alike, that have about n elements."""
    sizes = []
    for left in range(axes, 0, -1):
        size = max(1, round(n ** (1 / left)))
        sizes.append(size)
        n = max(1, n // size)
    return tuple(sizes)


def flat(n: int, layout: str) -> Shapes:
    """Arrays of one shape of any rank."""
    if layout in ("transposed", "broadcast"):
        shape = split(n, 2)
    elif layout == "odd":
        shape = ODD.get(n, (n // 9 // 101, 9, 101))
    else:
        shape = (n,)
    names: Shapes = {name: Spec(shape) for name in "xyz"}
    names |= {name: Spec(shape, "positive") for name in "pq"}
    names |= {name: Spec(shape, "bool") for name in "bc"}
    return names | {
        "u": Spec(shape, "inside"),
        "a": Spec(shape, "above"),
        "s": Spec(()),
        "h": Spec(shape, "scale"),
        "k": Spec(shape, "index 5"),
        "w": Spec(shape, "complex"),
    }


def vector(n: int, layout: str) -> Shapes:
    """Vectors, with many indices and with few."""
    few = max(1, n // 2000)
    return {
        **{name: Spec((n,)) for name in "xy"},
        "p": Spec((n,), "positive"),
        "b": Spec((n,), "bool"),
        "m": Spec((n,), "few"),
        "i": Spec((max(1, n // 2),), f"index {n}"),
        "j": Spec((few,), f"index {n}"),
        "v": Spec((few,)),
        "h": Spec((max(1, n // 2),)),
        "g": Spec((n,), "sorted"),
        "k": Spec((n,), f"index {max(1, n // 10)}"),
        "s": Spec(()),
    }


def rows(n: int, layout: str) -> Shapes:
    """Matrices of r rows and c columns, vectors for each, labels of rows."""
    r, c = split(n, 2)
    if layout == "tall":
        r, c = max(1, n // 5), 5
    elif layout == "wide":
        r, c = 5, max(1, n // 5)
    elif layout == "odd":
        r, c = (3, 3) if n == 10 else (r | 1, (c - 2) | 1)
    return {
        **{name: Spec((r, c)) for name in "xyz"},
        "p": Spec((r, c), "positive"),
        "u": Spec((r, c), "inside"),
        "b": Spec((r, c), "bool"),
        "v": Spec((c,)),
        "q": Spec((c,), "positive"),
        "w": Spec((r,)),
        "i": Spec((r,), f"index {c}"),
        "j": Spec((max(1, r // 2),), f"index {r}"),
        "h": Spec((max(1, r // 2), c)),
        "k": Spec((r,), f"index {max(1, r // 5)}"),
        "t": Spec((r, c), f"index {c}"),
        "l": Spec((r,), f"index {r}"),
        "e": Spec((r, c), "unit"),
        "f": Spec((r, c), "unit"),
        "d": Spec((r, 5)),
    }


def cube(n: int, layout: str) -> Shapes:
    """Arrays of three axes."""
    r, m, c = ODD[n] if layout == "odd" and n in ODD else split(n, 3)
    return {
        **{name: Spec((r, m, c)) for name in "xy"},
        "p": Spec((r, m, c), "positive"),
        "b": Spec((r, m, c), "bool"),
        "v": Spec((c,)),
        "w": Spec((m, c)),
        "h": Spec((r, 1, c)),
        "i": Spec((m,), f"index {m}"),
    }


def product(n: int, layout: str) -> Shapes:
    """Matrices to multiply: k terms in each of r times c sums; n elements in each matrix."""
    k = split(n, 2)[0]
    r = c = k
    if layout == "tall":
        r, k, c = n // 4, 4, 8
    elif layout == "wide":
        r, k, c = 4, max(1, n // 4), 4
    elif layout == "odd":
        r, k, c = max(1, k - 3), k, k + 1
    return {
        "x": Spec((r, k)),
        "y": Spec((k, c)),
        "z": Spec((c, k)),
        "t": Spec((k, r)),
        "v": Spec((k,)),
        "w": Spec((r,)),
        "o": Spec((c,)),
    }


def batch(n: int, layout: str) -> Shapes:
    """Many small matrices, n elements in all."""
    k = 2 if n == 10 else 17 if layout == "odd" else 10
    count = max(1, n // (k * k))
    return {
        "x": Spec((count, k, k)),
        "y": Spec((count, k, k)),
        "z": Spec((k, k)),
        "v": Spec((count, k)),
        "w": Spec((count, k)),
        "e": Spec((count, 3)),
        "f": Spec((count, 3)),
    }


def square(n: int, layout: str) -> Shapes:
    """Matrices that can be inverted: one, or many of 5x5."""
    k = 3 if n == 10 else 5 if layout == "many" else split(n, 2)[0]
    more = (max(1, n // 25),) if layout == "many" else ()
    return {
        "x": Spec((*more, k, k), "definite"),
        "y": Spec((*more, k, 3)),
        "r": Spec((*more, k, max(1, k // 2))),
    }


def signal(n: int, layout: str) -> Shapes:
    """Rows of signals, real and complex; `one` has a single row, `odd` a length that is prime."""
    r, c = split(n, 2)
    if layout == "one":
        r, c = 1, n
    elif layout == "odd":
        c = {10: 3, 1_000: 31, 100_000: 317, 1_000_000: 997}.get(n, 3163)
    return {"x": Spec((r, c)), "w": Spec((r, c), "complex"), "h": Spec((r, c // 2 + 1), "complex")}


def image(n: int, layout: str) -> Shapes:
    """Images with their channels last, kernels of 3x3 and 1x1, weights of channels."""
    channels = 1 if layout == "gray" else 64 if layout == "deep" and n > 1_000 else 8
    if n == 10:
        channels = 1
    side = 3 if n == 10 else 10 if n == 1_000 else 27 if layout == "odd" else 32
    count = max(1, n // (side * side * channels))
    return {
        "x": Spec((count, side, side, channels)),
        "y": Spec((count, side, side, channels)),
        "k": Spec((3, 3, channels, 8)),
        "l": Spec((1, 1, channels, 8)),
        "d": Spec((3, 3, 1, channels)),
        "t": Spec((3, 3, 8, channels)),
        "v": Spec((channels,)),
        "w": Spec((channels,)),
        "m": Spec((channels,), "plain"),
        "p": Spec((channels,), "scale"),
    }


def sequence(n: int, layout: str) -> Shapes:
    """Sequences of 20 steps, heads for attention, weights of recurrent layers of 16 units."""
    steps, units = (2, 5) if n == 10 else (20, 16)
    count = max(1, n // (steps * units))
    heads = (max(1, count // 4), min(4, count), steps, units)
    return {
        "x": Spec((count, steps, units)),
        "h": Spec((count, units)),
        "c": Spec((count, units)),
        "k": Spec((units, units)),
        "r": Spec((units, units)),
        "b": Spec((units,)),
        "l": Spec((units, 4 * units)),
        "m": Spec((units, 4 * units)),
        "o": Spec((4 * units,)),
        "f": Spec((units, 3 * units)),
        "g": Spec((units, 3 * units)),
        "q": Spec(heads),
        "s": Spec(heads),
        "v": Spec(heads),
        "e": Spec((count, steps), f"index {max(1, n // 100)}"),
        "t": Spec((max(1, n // 100), units)),
        "w": Spec((3, units, 8)),
    }


FAMILIES: dict[str, tuple[Callable[[int, str], Shapes], tuple[str, ...]]] = {
    "flat": (flat, ("contiguous", "transposed", "second", "broadcast", "odd", "offset")),
    "vector": (vector, ("contiguous", "second", "offset")),
    "rows": (rows, ("contiguous", "transposed", "tall", "wide", "second", "odd", "broadcast")),
    "cube": (cube, ("contiguous", "transposed", "second", "odd", "broadcast")),
    "product": (product, ("contiguous", "transposed", "tall", "wide", "odd", "second")),
    "batch": (batch, ("contiguous", "transposed", "odd")),
    "square": (square, ("contiguous", "many", "transposed")),
    "signal": (signal, ("contiguous", "one", "odd", "transposed")),
    "image": (image, ("contiguous", "deep", "gray", "other order", "odd")),
    "sequence": (sequence, ("contiguous",)),
}
#: Layouts that are forms of an array; the others are other shapes.
FORMS = ("transposed", "second", "broadcast", "offset", "other order")


def specs(family: str, n: int, layout: str) -> Shapes:
    """The names of a family and what each is."""
    return FAMILIES[family][0](n, layout)


def base_shape(shape: tuple[int, ...], layout: str) -> tuple[int, ...]:
    """The shape of the contiguous array that an input is a form of."""
    if layout == "transposed":
        return shape[::-1]
    if layout == "second":
        return (*shape[:-1], 2 * shape[-1])
    if layout == "broadcast":
        return (1, *shape[1:])
    if layout == "offset":
        return (shape[0] + 1, *shape[1:])
    if layout == "other order":
        return (shape[0], shape[-1], *shape[1:-1])
    return shape


@functools.cache
def pool() -> np.ndarray[Any, Any]:
    """Normal numbers from which all values are taken."""
    return np.random.default_rng(0).standard_normal(1 << 20, np.float32)


def values(name: str, spec: Spec, dtype: str, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """The contiguous array of an input; bfloat16 as float32, for NumPy has none."""
    size = math.prod(shape)
    some = np.resize(pool()[ord(name) * 997 :], size).reshape(shape)
    kind, _, bound = spec.kind.partition(" ")
    if kind == "bool":
        return some > 0
    if kind == "few":
        return some > 3.3
    if kind == "index":
        return (np.abs(some) * 1e4).astype(np.int64) % int(bound)
    if kind == "complex":
        return some + 1j * np.roll(some, 1)
    if dtype == "bool":
        return some > 0
    if dtype == "complex64":
        return some + 1j * np.roll(some, 1)
    if dtype in INTEGERS:
        if kind == "scale":
            return (np.abs(some) * 2).astype(dtype) % 5
        whole = (some * 20).astype(dtype)
        whole = np.where(whole == 0, np.array(7, dtype), whole)
        if kind == "sorted":
            return np.sort(whole)
        return np.abs(whole) if kind == "positive" else whole
    changes: dict[str, Callable[[], Any]] = {
        "positive": lambda: np.abs(some) + 0.1,
        "scale": lambda: np.abs(some) + 0.1,
        "inside": lambda: np.tanh(some) * 0.9,
        "above": lambda: np.abs(some) + 1.1,
        "sorted": lambda: np.sort(some),
        "unit": lambda: np.exp(some) / np.exp(some).sum(-1, keepdims=True),
        "definite": lambda: some / max(1, shape[-1]) ** 0.5 + 3 * np.eye(shape[-1]),
    }
    made = changes.get(kind, lambda: some)()
    return np.asarray(made, np.float32 if dtype == "bfloat16" else dtype)
