"""A case as a differentiable function on the host, and central differences of it.

The loss is Re(sum(conj(c) * y)) for a random cotangent c. Its gradient g with respect to a complex
z satisfies dL = Re(conj(g) dz) (the convention of TensorFlow and PyTorch): a real step measures the
real part of g, an imaginary step its imaginary part.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from pullback import dtypes
from pullback._autodiff.tape import GradientTape
from pullback._dispatch.convert import unflatten
from pullback.spec import Arity
from pullback.tensor import Tensor
from pullback_conformance.case import Case, as_tuple, to_tensor
from pullback_conformance.compare import ConformanceError, require
from pullback_conformance.sample import Array

#: The step balances the truncation (its square) and the rounding (its inverse) in float64.
STEP = 6e-6
#: The number of random directions for inputs with too many elements to measure each.
DIRECTIONS = 2
#: The number of those along which all elements move at once, before any is measured by itself.
TOGETHER = 4


class Differentiation:
    """A case as a function of the inputs that it can be differentiated by."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.rng = np.random.default_rng(7)
        self.flat: list[Any] = []
        self.names: list[str] = []
        self.lengths: list[int | None] = []
        for parameter, value in zip(case.op.inputs, case.inputs, strict=False):
            many = parameter.arity is Arity.MANY
            self.lengths.append(len(value) if many else None)
            items = list(value) if many else [value]
            self.flat += items
            self.names += [
                f"{parameter.name}[{i}]" if many else parameter.name for i in range(len(items))
            ]
        rules = case.op.rules
        self.wanted = [
            i
            for i, value in enumerate(self.flat)
            if isinstance(value, np.ndarray)
            and dtypes.is_floating(value.dtype)
            and not (rules and rules.get(self.names[i].partition("[")[0]) is None)
        ]

    @property
    def point(self) -> list[Array]:
        """The inputs that have a gradient."""
        return [self.flat[i] for i in self.wanted]

    @property
    def wanted_names(self) -> list[str]:
        """Their names."""
        return [self.names[i] for i in self.wanted]

    def tensors(self, point: list[Array]) -> list[Tensor]:
        """A point as tensors on the device."""
        return [to_tensor(value, self.case.device) for value in point]

    def run(self, point: list[Tensor]) -> list[Tensor]:
        """The floating results of the op."""
        flat = [to_tensor(value, self.case.device) for value in self.flat]
        for i, tensor in zip(self.wanted, point, strict=True):
            flat[i] = tensor
        outputs = as_tuple(self.case.call(unflatten(flat, tuple(self.lengths))))
        return [output for output in outputs if dtypes.is_floating(output.dtype)]

    def gradient(self, point: list[Tensor], cotangents: list[Tensor]) -> list[Tensor | None]:
        """The gradient by the tape."""
        with GradientTape() as tape:
            tape.watch(point)
            results = self.run(point)
        gradients: list[Tensor | None] = tape.gradient(results, point, cotangents)
        return gradients

    @cached_property
    def cotangents(self) -> list[Array]:
        """A random cotangent for each floating result; none where no input has a gradient."""
        results = self.run(self.tensors(self.point)) if self.wanted else []
        return [self.like(output.numpy()) for output in results]

    def like(self, value: Array) -> Array:
        """Random numbers of the shape and dtype of `value`."""
        draw: Array = np.asarray(self.rng.standard_normal(value.shape))
        if dtypes.is_complex(value.dtype):
            draw = draw + 1j * self.rng.standard_normal(value.shape)
        return draw.astype(value.dtype)


def inner(left: list[Array], right: list[Array]) -> float:
    """Re(sum(conj(left) * right)) over all arrays, in float64."""
    return float(
        sum(
            np.sum((np.conj(a) * b).real, dtype=np.float64)
            for a, b in zip(left, right, strict=True)
        )
    )


def differences(
    subject: Case,
    loss: Callable[[list[Array]], float],
    point: list[Array],
    gradients: list[Array],
    names: list[str],
    *,
    elements: int,
    tolerance: float,
    quantity: str,
) -> None:
    """Checks that central differences of `loss` at `point` agree with `gradients`.

    All elements are moved at once first, each by a random step no shorter than its own would be. A
    wrong element is as far off there as by itself, and several do not cancel out in every random
    direction. Only where one disagrees is each element measured, which decides and says where.

    Raises:
        ConformanceError: with the first element, or direction, that differs.
    """
    rng = np.random.default_rng(11)
    sizes = [np.abs(g[np.isfinite(g)]) for g in gradients]
    scale = max([1.0, *(float(np.max(size, initial=0.0)) for size in sizes)])

    def along(steps: list[Array]) -> float:
        ahead = [x + STEP * s for x, s in zip(point, steps, strict=True)]
        behind = [x - STEP * s for x, s in zip(point, steps, strict=True)]
        return (loss(ahead) - loss(behind)) / (2 * STEP)

    units = sum(min(x.size, elements) * (1 + dtypes.is_complex(x.dtype)) for x in point)
    if units > TOGETHER:
        draws = np.random.default_rng(13)
        moves = ([_all_at_once(draws, x) for x in point] for _ in range(TOGETHER))
        if all(abs(inner(m, gradients) - along(m)) <= tolerance * scale for m in moves):
            return
    for k, value in enumerate(point):
        every = np.arange(value.size)
        chosen = every if value.size <= elements else rng.choice(every, elements, replace=False)
        for position in chosen:
            index = np.unravel_index(int(position), value.shape)
            for unit in (1.0, 1j) if dtypes.is_complex(value.dtype) else (1.0,):
                steps = [np.zeros_like(x) for x in point]
                steps[k][index] = unit
                g = gradients[k][index]
                actual, expected = float(g.real if unit == 1 else g.imag), along(steps)
                if not abs(actual - expected) <= tolerance * max(scale, abs(expected)):
                    raise ConformanceError(
                        f"{subject}: {quantity} with respect to {names[k]} at "
                        f"{tuple(map(int, index))} is "
                        f"{actual:.9g}, by central differences {expected:.9g}"
                        f"{' (imaginary step)' if unit == 1j else ''}"
                    )
    for _ in range(DIRECTIONS if any(value.size > elements for value in point) else 0):
        steps = [_direction(rng, x) for x in point]
        actual, expected = inner(steps, gradients), along(steps)
        require(
            abs(actual - expected) <= tolerance * max(scale, abs(expected)) * len(point) * 4,
            subject,
            f"{quantity} along a random direction is {actual:.9g}, by central differences "
            f"{expected:.9g}",
        )


def _all_at_once(rng: np.random.Generator, x: Array) -> Array:
    """A step of each element, one or two units long, forward or back."""
    draw: Array = rng.uniform(1, 2, x.shape) * rng.choice((-1.0, 1.0), x.shape)
    if x.dtype.kind == "c":
        draw = draw + 1j * rng.uniform(1, 2, x.shape) * rng.choice((-1.0, 1.0), x.shape)
    return np.asarray(draw)


def _direction(rng: np.random.Generator, x: Array) -> Array:
    """A random step, of the length of a step along one element."""
    draw: Array = np.asarray(rng.standard_normal(x.shape))
    if x.dtype.kind == "c":
        draw = draw + 1j * rng.standard_normal(x.shape)
    return np.asarray(draw / np.sqrt(max(1, x.size)))
