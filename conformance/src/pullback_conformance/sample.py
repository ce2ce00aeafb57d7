"""Samples: calls of one op, with inputs made from a seed, and a float64 reference.

Samples are data. Inputs are NumPy arrays in float64, complex128, int32 or bool; the checks cast
floating arrays to each dtype under test. References get the cast inputs back in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from pullback import errors
from pullback.casting import HALF
from pullback.dtypes import as_dtype, bool_, is_complex

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Sample:
    """One call of an op.

    Args:
        inputs: for each input of the op an array, None, or a list of arrays for a sequence.
        attributes: the attributes as a caller writes them.
        gradient: whether the gradient is defined and smooth at these inputs, so that finite
            differences must agree with it.
        dtypes: the floating dtypes to try; None for every one that the op and the backend take.
        note: the purpose of the sample.
        checks: the names of the checks to run; None for all that apply.
        period: of an elementwise op, the number of elements after which those of the inputs repeat,
            or of the suite's `items`: the reference is computed for them alone.
        every_dtype: whether a quick run tries it in every dtype.
        slopes: the slopes of the sum of the results by each input, where no difference measures
            them.
        seed: of a random call, the seed that makes it.
        either_zero: whether a zero of either sign is right in it, as in parts of complex numbers.
    """

    inputs: tuple[Any, ...]
    attributes: dict[str, Any] = field(default_factory=dict)
    gradient: bool = True
    dtypes: tuple[str, ...] | None = None
    note: str = ""
    checks: tuple[str, ...] | None = None
    period: int | None = None
    every_dtype: bool = False
    slopes: tuple[Array, ...] | None = None
    seed: int | None = None
    either_zero: bool = False


class WrongCall(NamedTuple):
    """A call that must raise."""

    inputs: tuple[Any, ...]
    attributes: dict[str, Any]
    error: type[Exception]


@dataclass(frozen=True, slots=True)
class Suite:
    """All samples of one op, and the reference.

    Args:
        samples: the calls.
        reference: the op in NumPy (or plain Python), in float64, with the op's signature.
        errors: calls that must raise.
        compare: maps a result (of op and reference alike) to the values that must be equal, for
            results that are correct in more than one way (signs of eigenvectors); takes
            (inputs, result).
        scale: for ops of the class ACCUMULATED, the sum of the absolute terms of a result,
            with the op's signature; by default the reference for |inputs|.
        domain: for an input the lowest and the highest value that it may have; others have all.
        integer_domain: the same for integers.
        either_zero: whether a zero of either sign is right, as in the larger of 0 and -0.
        slow: whether the reference takes long for many elements, or errors grow: random calls are
            fewer, and small.
        as_given: whether the reference takes the inputs in the dtype under test, not a wider one.
        items: the inputs whose first axis has items, such as images, that the op takes one by one:
            a result has that axis too, or is the sum over them.
        without: the rules that do not hold for the op, of those in `derived.RULES`, each with the
            reason.
    """

    op: str
    samples: tuple[Sample, ...]
    reference: Callable[..., Any]
    errors: tuple[WrongCall, ...] = ()
    compare: Callable[..., Any] | None = None
    scale: Callable[..., Any] | None = None
    domain: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    integer_domain: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    either_zero: bool = False
    slow: bool = False
    as_given: bool = False
    items: tuple[str, ...] = ()
    without: Mapping[str, str] = field(default_factory=dict)


#: Every suite, by op name.
SUITES: dict[str, Suite] = {}


def suite(op: str, reference: Callable[..., Any], **options: Any) -> Callable[..., None]:
    """Returns a function that takes the samples of an op, and registers them.

    Args:
        op: the name of the op.
        reference: the op in NumPy (or plain Python), in float64, with the op's signature.
        options: the other fields of a `Suite`.

    Raises:
        DefinitionError: if the op has a suite already, or a row is not a sample.
    """

    def register(*rows: Sample | WrongCall) -> None:
        if op in SUITES:
            raise errors.DefinitionError(f"the op {op!r} has two suites of samples; merge them")
        samples = tuple(row for row in rows if isinstance(row, Sample))
        failing = tuple(row for row in rows if isinstance(row, WrongCall))
        if len(samples) + len(failing) < len(rows):
            raise errors.DefinitionError(f"the rows of {op!r} are to be made by `call` or `wrong`")
        SUITES[op] = Suite(op, samples, reference, failing, **options)

    return register


def call(
    *inputs: Any, dtypes: tuple[str, ...] | None = None, note: str = "", **attributes: Any
) -> Sample:
    """A sample, written as a caller writes it; `dtypes` and `note` are those of `Sample`."""
    return Sample(inputs, attributes, dtypes=dtypes, note=note)


def rough(*inputs: Any, **arguments: Any) -> Sample:
    """The same where the gradient is not defined, or not smooth."""
    return replace(call(*inputs, **arguments), gradient=False)


def wrong(error: type[Exception], *inputs: Any, **attributes: Any) -> WrongCall:
    """A call of a suite that must raise."""
    return WrongCall(inputs, attributes, error)


def reachable(x: Array, dtype: Any) -> Any:
    """`dtype`, into which a reference converts x; a TypeError where x would lose imaginary parts.

    The samples that are derived leave such calls out.
    """
    found = as_dtype(dtype)
    if x.dtype.kind == "c" and not (is_complex(found) or found == bool_):
        raise TypeError(f"{x.dtype} has no values of {found}")
    return found


def rounded(x: Array, dtype: Any) -> Array:
    """x in a dtype; for 16-bit floats not rounded, as results of these are compared."""
    if dtype not in HALF:
        return x.astype(dtype)
    return x if x.dtype.kind == "f" else x.astype(np.float64)
