"""The distributions of `Generator` that are made of uniform and normal numbers by rejection.

Each takes functions that draw numbers of the shape of the result: `uniform` in (0, 1], `normal`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

from pullback import dtypes, errors
from pullback._autodiff.custom_gradient import custom_gradient
from pullback._autodiff.functional import stop_gradient
from pullback._dispatch.convert import from_any
from pullback.casting import HALF
from pullback.devices import Device, DeviceLike, as_device
from pullback.dtypes import DType, DTypeLike, as_dtype
from pullback.ops.arithmetic import abs, maximum, minimum
from pullback.ops.creation import zeros_like
from pullback.ops.data_types import finfo
from pullback.ops.exponential import exp, log, log1p, sqrt
from pullback.ops.incomplete_gamma import gamma_density, gamma_order_slope
from pullback.ops.manipulation import broadcast_to
from pullback.ops.nn.softmax import softmax
from pullback.ops.precision import widest
from pullback.ops.reductions import all as all_of
from pullback.ops.reductions import any as any_of
from pullback.ops.rounding import floor
from pullback.ops.selection import where
from pullback.ops.special import digamma, lgamma
from pullback.shapes import Shape, ShapeLike, as_shape, broadcast_shapes, shape_first
from pullback.tensor import Tensor, TensorLike

__all__ = ["Distributions", "parameter"]

Draw: TypeAlias = Callable[[], Tensor]
#: Up to this mean the values are counted through, from 0 on; above they are proposed.
_FEW = 10.0
#: More values than this have no part of a mean up to _FEW that a float tells from 0.
_MOST = 128
#: Numbers between these are positive and finite in every dtype.
_LEAST, _GREATEST = 1e-4, 6e4
#: A number whose logarithm is below this one is no part of 1.
_TINY = -40.0


def _until_all(like: Tensor, open_: Tensor, trial: Callable[[], tuple[Tensor, Tensor]]) -> Tensor:
    """Values of a trial, which is repeated for those that it rejects: a few percent each time."""
    result = zeros_like(like)
    while bool(any_of(open_)):
        value, is_good = trial()
        result = where(open_ & is_good, value, result)
        open_ = open_ & ~is_good
    return result


def _gamma(
    concentration: Tensor | float, normal: Draw, uniform: Draw
) -> tuple[Tensor, Tensor | float]:
    """Two factors of Gamma-distributed numbers, of the second one the logarithm.

    Marsaglia and Tsang, "A simple method for generating gamma variables" (2000). The second factor
    may be too small for a float where the concentration is. The first has the gradient of both by
    the concentration; what is accepted depends on it too, so that it is not that of the ops.
    """
    if not isinstance(concentration, float):
        found, power = _accepted(stop_gradient(concentration), normal, uniform)
        assert isinstance(power, Tensor)
        return _as_quantile(concentration, found, power), power
    return _accepted(concentration, normal, uniform)


@custom_gradient
def _as_quantile(
    concentration: Tensor, found: Tensor, power: Tensor
) -> tuple[Tensor, Callable[[Tensor], tuple[Tensor | None, ...]]]:
    """The first factor of Gamma-distributed numbers, which are quantiles of one probability.

    Figurnov, Mohamed and Mnih, "Implicit reparameterization gradients" (2018).
    """

    def rule(g: Tensor) -> tuple[Tensor | None, ...]:
        moved = _as_quantile(concentration, found, power)
        return g * moved * _quantile_slope(concentration, log(moved) + power), None, None

    return found, rule


def _quantile_slope(concentration: Tensor, log_x: Tensor) -> Tensor:
    """The derivative by a of log(x) with the same gammainc(a, x)."""
    wide = widest(log_x.device)
    a, y = concentration.astype(wide), log_x.astype(wide)
    # For tiny x, gammainc(a, x) is x**a / gamma(a + 1); x itself may be 0.
    is_tiny = y < _TINY
    x = exp(where(is_tiny, 0, y))
    slope = -gamma_order_slope(a, x) / (x * gamma_density(a, x))
    return where(is_tiny, (digamma(a + 1) - y) / a, slope).astype(log_x.dtype)


def _accepted(
    concentration: Tensor | float, normal: Draw, uniform: Draw
) -> tuple[Tensor, Tensor | float]:
    """The numbers of `_gamma`, without a gradient."""
    d: Tensor | float
    c: Tensor | float
    if isinstance(concentration, float):
        d = concentration + (concentration < 1) - 1.0 / 3.0
        c = 1.0 / math.sqrt(d * 9.0)
    else:
        d = where(concentration < 1, concentration + 1, concentration) - 1.0 / 3.0
        c = 1.0 / sqrt(d * 9.0)

    def trial() -> tuple[Tensor, Tensor]:
        z = normal()
        v = (z * c + 1) ** 3
        u = uniform()
        is_inside = v > 0
        safe = where(is_inside, v, 1)
        return d * safe, is_inside & (log(u) < z * z * 0.5 + d * (1 - safe + log(safe)))

    found, is_good = trial()
    # A few percent are rejected each time.
    while not bool(all_of(is_good)):
        value, fits = trial()
        found = where(is_good, found, where(fits, value, 0))
        is_good = is_good | fits
    if isinstance(concentration, float):
        return found, 0.0 if concentration >= 1 else log(uniform()) / concentration
    # Gamma(a) = Gamma(a + 1) U^(1/a) for a < 1.
    power = log(uniform()) / minimum(maximum(concentration, 1e-30), 1)
    return found, where(concentration < 1, power, 0)


def _beta(alpha: Tensor, beta: Tensor, normal: Draw, uniform: Draw) -> Tensor:
    """Beta-distributed numbers: X / (X + Y) of Gamma-distributed ones, by their logarithms."""
    first, power1 = _gamma(alpha, normal, uniform)
    second, power2 = _gamma(beta, normal, uniform)
    return 1 / (1 + exp(log(second) - log(first) + power2 - power1))


def _counted(u: Tensor, open_: Tensor, first: Tensor, ratio: Callable[[int], Tensor]) -> Tensor:
    """The first value whose cumulated probability reaches u.

    Args:
        u: uniform numbers.
        open_: the elements to draw.
        first: the probability of 0.
        ratio: the quotient of the probability of a value and that of the value before.
    """
    found, share, left, value = zeros_like(u), first, u, 0
    open_ = open_ & (left > share)
    while value < _MOST and bool(any_of(open_)):
        value += 1
        left = left - share
        share = share * ratio(value)
        found = where(open_, value, found)
        open_ = open_ & (left > share)
    return found


def _transformed(
    u: Tensor, v: Tensor, a: Tensor, b: Tensor, center: Tensor, quick: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """A proposal of the transformed rejection method (Hoermann, 1993).

    Returns:
        The value, whether it is accepted at once, whether it may be at all, and the density of the
        proposal there.
    """
    u = u - 0.5
    us = maximum(0.5 - abs(u), 1e-12)
    value = floor((2 * a / us + b) * u + center)
    at_once = (us >= 0.07) & (v <= quick)
    return value, at_once, (us >= 0.013) | (v <= us), a / (us * us) + b


def _poisson(mean: Tensor, uniform: Draw) -> Tensor:
    """Poisson-distributed numbers.

    Hoermann, "The transformed rejection method for generating Poisson random variables" (1993); up
    to a mean of 10 the inverse of the distribution function.
    """
    is_few = mean < _FEW
    few, many = where(is_few, mean, 0), where(is_few, _FEW, mean)
    found = _counted(uniform(), is_few, exp(-few), lambda k: few / k)
    root = sqrt(many)
    b = 0.931 + 2.53 * root
    a = -0.059 + 0.02483 * b
    factor, quick = 1.1239 + 1.1328 / (b - 3.4), 0.9277 - 3.6224 / (b - 2)

    def trial() -> tuple[Tensor, Tensor]:
        v = uniform()
        k, at_once, may, density = _transformed(uniform(), v, a, b, many + 0.43, quick)
        size = maximum(k, 0)
        bound = size * log(many) - many - lgamma(size + 1)
        return k, at_once | (may & (k >= 0) & (log(v * factor / density) <= bound))

    return where(is_few, found, _until_all(mean, ~is_few, trial))


def _binomial(count: Tensor, p: Tensor, uniform: Draw) -> Tensor:
    """Binomially distributed numbers.

    Hoermann, "The generation of binomial random variates" (1993); up to a mean of 10 the inverse of
    the distribution function.
    """
    is_turned = p > 0.5
    rare = where(is_turned, 1 - p, p)
    mean = count * rare
    is_few = mean < _FEW
    odds = rare / (1 - rare)
    first = exp(where(is_few, count, 0) * log1p(-rare))
    found = _counted(uniform(), is_few, first, lambda k: (count - (k - 1)) / k * odds)
    found = minimum(found, count)
    # Where there are few, any numbers that have a trial.
    n, q = where(is_few, 100.0, count), where(is_few, 0.5, rare)
    spread = sqrt(n * q * (1 - q))
    b = 1.15 + 2.53 * spread
    a = -0.0873 + 0.0248 * b + 0.01 * q
    quick, factor = 0.92 - 4.2 / b, (2.83 + 5.1 / b) * spread
    top, log_odds = floor((n + 1) * q), log(q / (1 - q))
    height = lgamma(top + 1) + lgamma(n - top + 1)

    def trial() -> tuple[Tensor, Tensor]:
        v = uniform()
        k, at_once, may, density = _transformed(uniform(), v, a, b, n * q + 0.5, quick)
        is_inside = (k >= 0) & (k <= n)
        size = where(is_inside, k, top)
        bound = height - lgamma(size + 1) - lgamma(n - size + 1) + (size - top) * log_odds
        is_good = may & (log(v * factor / density) <= bound)
        return k, is_inside & (at_once | is_good)

    found = where(is_few, found, _until_all(count, ~is_few, trial))
    return where(is_turned, count - found, found)


class Distributions:
    """The methods of a generator that draw from these distributions."""

    normal: Callable[..., Tensor]
    uniform: Callable[..., Tensor]

    @shape_first
    def gamma(
        self,
        shape: ShapeLike | None = None,
        alpha: TensorLike = 1.0,
        scale: TensorLike = 1.0,
        *,
        dtype: DTypeLike | None = None,
        device: DeviceLike | None = None,
    ) -> Tensor:
        """Gamma-distributed numbers (Marsaglia and Tsang, 2000).

        They have gradients by alpha, as the quantiles of one probability (Figurnov, Mohamed and
        Mnih, "Implicit reparameterization gradients", 2018), to the second order; and by scale.

        Args:
            shape: the shape of the result; that of alpha by default.
            alpha: the shape parameter, positive.
            scale: the scale parameter.
            dtype: a real floating dtype; the default one if not given.
            device: the device of the result.

        >>> bool(pb.all(pb.Generator(7).gamma((100,), 0.5) >= 0))
        True

        Raises:
            InputValueError: for an alpha that is not positive and finite.
        """
        place = None if device is None else as_device(device)
        wide = dtypes.DEFAULT_FLOAT if dtype is None else as_dtype(dtype)
        if isinstance(alpha, (int, float)) and _LEAST < alpha < _GREATEST:
            draws = self._numbers(() if shape is None else as_shape(shape), wide, place)
            result, power = _gamma(float(alpha), *draws)
        else:
            concentration = _positive("gamma: alpha", alpha, wide, place)
            size: Shape = concentration.shape if shape is None else as_shape(shape)
            draws = self._numbers(size, wide, place)
            result, power = _gamma(broadcast_to(concentration, size), *draws)
        if not isinstance(power, float):
            result = result * exp(power)
        if not (type(scale) in (int, float) and scale == 1):
            result = result * parameter(scale, "scale")
        return result

    def _numbers(
        self, size: Shape, dtype: DType, device: Device | None
    ) -> tuple[Callable[[], Tensor], Callable[[], Tensor]]:
        """Functions that draw normal numbers, and uniform ones in (0, 1]."""
        return (
            lambda: self.normal(size, dtype=dtype, device=device),
            lambda: 1 - self.uniform(size, dtype=dtype, device=device),
        )

    def _inside(
        self, shape: ShapeLike, dtype: DTypeLike | None, device: DeviceLike | None
    ) -> Tensor:
        """Uniform numbers in (0, 1), for 16 bits in float32: 0 becomes half of the next number."""
        wide = dtypes.DEFAULT_FLOAT if dtype is None else as_dtype(dtype)
        u = self.uniform(shape, dtype=dtypes.float32 if wide in HALF else wide, device=device)
        return maximum(u, finfo(u.dtype).eps / 4)

    @shape_first
    def laplace(
        self,
        shape: ShapeLike = (),
        loc: TensorLike = 0.0,
        scale: TensorLike = 1.0,
        *,
        dtype: DTypeLike | None = None,
        device: DeviceLike | None = None,
    ) -> Tensor:
        """Numbers of the Laplace distribution: exponential ones of either sign, around `loc`.

        >>> pb.Generator(7).laplace((2, 3)).shape
        (2, 3)
        """
        u = self._inside(shape, dtype, device)
        # The first bit is the sign, and what is left of u another uniform number.
        upper = u >= 0.5
        size = -log1p(-where(upper, 2 * u - 1, 2 * u))
        return _placed(where(upper, size, -size), loc, scale, dtype)

    @shape_first
    def gumbel(
        self,
        shape: ShapeLike = (),
        loc: TensorLike = 0.0,
        scale: TensorLike = 1.0,
        *,
        dtype: DTypeLike | None = None,
        device: DeviceLike | None = None,
    ) -> Tensor:
        """Numbers of the Gumbel distribution: scores with these added have a softmax as argmax.

        >>> pb.Generator(7).gumbel((2, 3)).shape
        (2, 3)
        """
        u = self._inside(shape, dtype, device)
        return _placed(-log(-log1p(-u)), loc, scale, dtype)

    @shape_first
    def logistic(
        self,
        shape: ShapeLike = (),
        loc: TensorLike = 0.0,
        scale: TensorLike = 1.0,
        *,
        dtype: DTypeLike | None = None,
        device: DeviceLike | None = None,
    ) -> Tensor:
        """Numbers of the logistic distribution: the sigmoid of them is uniform in (0, 1).

        >>> pb.Generator(7).logistic((2, 3)).shape
        (2, 3)
        """
        u = self._inside(shape, dtype, device)
        return _placed(log(u) - log1p(-u), loc, scale, dtype)

    def dirichlet(
        self,
        alpha: TensorLike,
        shape: ShapeLike | None = None,
        *,
        dtype: DTypeLike | None = None,
        device: DeviceLike | None = None,
    ) -> Tensor:
        """Probabilities of classes, drawn from the Dirichlet distribution.

        They are numbers that `gamma` draws, over their sum: by logarithms, as they may be too small
        for a float. They have the gradients of those.

        Args:
            alpha: the concentrations (..., classes), positive.
            shape: the shape of the result without its last axis; that of alpha by default.
            dtype: a real floating dtype; the default one if not given.
            device: the device of the result.

        >>> float(pb.sum(pb.Generator(7).dirichlet([1.0]), axis=-1))
        1.0

        Raises:
            InputValueError: for an alpha that is not positive and finite.
            ShapeError: for an alpha without axes, and a shape that it does not broadcast to.
        """
        place = None if device is None else as_device(device)
        wide = dtypes.DEFAULT_FLOAT if dtype is None else as_dtype(dtype)
        given = _positive("dirichlet: alpha", alpha, wide, place)
        if not given.ndim:
            raise errors.ShapeError("dirichlet: alpha must be (..., classes), got a number")
        size = given.shape if shape is None else (*as_shape(shape), given.shape[-1])
        drawn, power = _gamma(broadcast_to(given, size), *self._numbers(size, wide, place))
        return softmax(log(drawn) + power, axis=-1)

    @shape_first
    def beta(
        self,
        shape: ShapeLike | None = None,
        alpha: TensorLike = 1.0,
        beta: TensorLike = 1.0,
        *,
        dtype: DTypeLike | None = None,
        device: DeviceLike | None = None,
    ) -> Tensor:
        """Beta-distributed numbers, made of two that `gamma` draws, and with their gradients.

        The arguments are those of `gamma`, with two shape parameters, which broadcast together.

        >>> bool(pb.all(pb.Generator(7).beta((100,), 0.5, 0.5) <= 1))
        True

        Raises:
            InputValueError: for an alpha or a beta that is not positive and finite.
        """
        place = None if device is None else as_device(device)
        wide = dtypes.DEFAULT_FLOAT if dtype is None else as_dtype(dtype)
        first = _positive("beta: alpha", alpha, wide, place)
        second = _positive("beta: beta", beta, wide, place)
        size = broadcast_shapes(first.shape, second.shape) if shape is None else as_shape(shape)
        first, second = broadcast_to(first, size), broadcast_to(second, size)
        return _beta(first, second, *self._numbers(size, wide, place))

    @shape_first
    def poisson(
        self,
        shape: ShapeLike | None = None,
        mean: TensorLike = 1.0,
        *,
        dtype: DTypeLike | None = None,
        device: DeviceLike | None = None,
    ) -> Tensor:
        """Poisson-distributed numbers; of the shape of `mean` and in int32 if not given.

        >>> pb.Generator(7).poisson((3,), 0.0).tolist()
        [0, 0, 0]

        Raises:
            InputValueError: for a mean that is negative or not finite.
        """
        place = None if device is None else as_device(device)
        given = _double(mean, place)
        if not bool(all_of((given >= 0) & (given < math.inf))):
            raise errors.InputValueError(f"poisson: mean must be 0 or more, and finite, got {mean}")
        size = given.shape if shape is None else as_shape(shape)
        uniform = self._numbers(size, given.dtype, place)[1]
        found = _poisson(broadcast_to(given, size), uniform)
        return found.astype(dtypes.DEFAULT_INT if dtype is None else dtype)

    @shape_first
    def binomial(
        self,
        shape: ShapeLike | None = None,
        count: TensorLike = 1,
        p: TensorLike = 0.5,
        *,
        dtype: DTypeLike | None = None,
        device: DeviceLike | None = None,
    ) -> Tensor:
        """The numbers of successes in `count` trials of probability p; in int32 if not given.

        >>> pb.Generator(7).binomial((3,), 5, 1.0).tolist()
        [5, 5, 5]

        Raises:
            InputValueError: for a count that is negative or not finite, and p outside [0, 1].
        """
        place = None if device is None else as_device(device)
        trials, chance = _double(count, place), _double(p, place)
        if not bool(all_of((trials >= 0) & (trials < math.inf))):
            raise errors.InputValueError(f"binomial: count must be 0 or more, got {count}")
        if not bool(all_of((chance >= 0) & (chance <= 1))):
            raise errors.InputValueError(f"binomial: p must be in [0, 1], got {p}")
        size = broadcast_shapes(trials.shape, chance.shape) if shape is None else as_shape(shape)
        trials, chance = broadcast_to(trials, size), broadcast_to(chance, size)
        uniform = self._numbers(size, trials.dtype, place)[1]
        found = _binomial(trials, chance, uniform)
        return found.astype(dtypes.DEFAULT_INT if dtype is None else dtype)


def _positive(name: str, given: TensorLike, dtype: DType, device: Device | None) -> Tensor:
    """A parameter of a distribution: for any other than a positive number all is rejected."""
    parameter = from_any(given, None, device).astype(dtype)
    if not bool(all_of((parameter > 0) & (parameter < math.inf))):
        raise errors.InputValueError(f"{name} must be positive and finite, got {given}")
    return parameter


def _placed(z: Tensor, loc: TensorLike, scale: TensorLike, dtype: DTypeLike | None) -> Tensor:
    """loc + scale * z."""
    z = z if dtype is None else z.astype(dtype)
    placed: Tensor = z * parameter(scale, "scale") + parameter(loc, "loc")
    return placed


def _double(value: TensorLike, device: Device | None) -> Tensor:
    """A parameter of integers, which have no gradient, in the widest floating dtype."""
    tensor = stop_gradient(from_any(value, None, device))
    return tensor.astype(widest(tensor.device))


def parameter(value: Any, name: str) -> Any:
    """Returns a parameter of a distribution, if a tensor can be multiplied by it.

    Raises:
        InputTypeError: for what is neither a number nor an array of numbers.
    """
    if not isinstance(value, (int, float)):
        try:
            from_any(value)
        except errors.ConversionError as error:
            raise errors.InputTypeError(f"{name} must be numbers: {error}") from None
    return value
