"""The compiled module (c/module.c)."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

#: The ops that have a kernel in C; each is a function of this module.
KERNELS: list[str]
#: The numbers of the loops by their names.
LOOPS: dict[str, int]
#: The names of the arguments of each loop that `run` takes.
FIELDS: dict[str, tuple[str, ...]]

def run(
    loop: int,
    count: int,
    grain: int,
    cost: float,
    numbers: dict[str, Any] = ...,
    /,
    **arguments: Any,
) -> int:
    """Runs a loop over `count` things of about `cost` nanoseconds each, in pieces of `grain`.

    Arguments that `numbers` has need not be keywords. Returns the bits of the loop's status.
    """

def empty(shape: tuple[int, ...], /) -> npt.NDArray[np.float32]:
    """A new float32 array; a large one begins at a cache line."""

def fused(fallback: Callable[..., Any], /, *plan: Any) -> Callable[..., Any]:
    """A fused kernel, as `fused_plan` describes it; `fallback` takes arrays that it does not.

    Its method `explain` says how it runs; its attribute `reason` is why it is not compiled.
    """

def direct(run: Callable[..., Any], /, *fields: Any) -> Callable[..., Any]:
    """What a call of a small program runs, from the fields of a `DirectProgram`."""

def chosen(
    many: Callable[..., Any],
    few: Callable[..., Any] | None,
    least: int,
    plain: bool,
    may_decline: bool,
    /,
) -> Callable[..., Any]:
    """A kernel that calls `few` for fewer elements of its first array than `least`, else `many`.

    Where `plain`, it calls `few` for all arrays without gaps, too. It has the attribute
    `may_decline`.
    """

def kept(
    kernel: Callable[..., Any], by_strips: Callable[..., Any], owner: Any, /
) -> Callable[..., Any]:
    """A kernel that keeps the strips of its second input, which is the array of `owner`.

    With strips it calls by_strips(strips, *inputs), and `kernel` without.
    """

def kept_strips() -> list[npt.NDArray[np.float32]]:
    """All strips that are kept."""

def matmul_by_strips(
    strips: npt.NDArray[Any], x1: npt.NDArray[Any], x2: npt.NDArray[Any], /
) -> npt.NDArray[Any]: ...
def linear_by_strips(
    strips: npt.NDArray[Any],
    x: npt.NDArray[Any],
    kernel: npt.NDArray[Any],
    bias: npt.NDArray[Any] | None,
    /,
) -> npt.NDArray[Any]: ...
def when_hot(kernel: Any, function: Callable[[Any], object], /) -> None:
    """Calls function(kernel) once, when the kernel has run often."""

def adopt(kernel: Any, block: int, near: int, /) -> None:
    """Has a fused kernel run the compiled blocks at these addresses; its loops where they are 0."""

def block(
    kernel: Any,
    address: int,
    arrays: tuple[npt.NDArray[Any], ...],
    numbers: tuple[float, ...],
    begin: int,
    count: int,
    /,
) -> bool:
    """Runs one block on an array for each register, by the loops if the address is 0.

    Returns whether the compiled one left it to the loops.
    """

def prepare(
    kernels: dict[str, Callable[..., Any]],
    threads: Callable[[], int],
    bfloat16: np.dtype[Any] = ...,
    /,
) -> None:
    """Takes NumPy's kernels, a function that returns how many threads to use, and that dtype."""

def use(name: str = ..., /) -> str:
    """Takes the loops of an instruction set; without a name, the best of this processor."""

def write_part(tensor: Any, value: npt.NDArray[Any], key: Any, /) -> bool:
    """tensor[key] = value in the tensor's own array; False where that takes a copy."""

def write_rows(tensor: Any, positions: npt.NDArray[Any], values: npt.NDArray[Any], /) -> bool:
    """The same at positions along the first axis."""

def sgd_in_place(
    p: Any, g: npt.NDArray[Any], rate: npt.NDArray[Any], /, *, weight_decay: float
) -> None:
    """The update of a variable, which has its array in `_array`."""

def momentum_in_place(
    p: Any,
    g: npt.NDArray[Any],
    velocity: Any,
    rate: npt.NDArray[Any],
    /,
    *,
    momentum: float,
    nesterov: bool,
    weight_decay: float,
) -> None:
    """The update of a variable and its velocity."""

def adam_in_place(
    p: Any,
    g: npt.NDArray[Any],
    m: Any,
    v: Any,
    rate: npt.NDArray[Any],
    step: npt.NDArray[Any],
    /,
    *,
    beta1: float,
    beta2: float,
    epsilon: float,
    weight_decay: float,
) -> None:
    """The update of a variable and its moments."""

def matmul(x1: npt.NDArray[Any], x2: npt.NDArray[Any], /) -> npt.NDArray[Any]: ...
def linear(
    x: npt.NDArray[Any], kernel: npt.NDArray[Any], bias: npt.NDArray[Any] | None, /
) -> npt.NDArray[Any]: ...
def sum(
    x: npt.NDArray[Any], /, *, axis: tuple[int, ...] | None, keepdims: bool, dtype: Any
) -> npt.NDArray[Any]: ...
def avg_pool(x: npt.NDArray[Any], /, **options: Any) -> npt.NDArray[Any]: ...
def max_pool(x: npt.NDArray[Any], /, **options: Any) -> tuple[npt.NDArray[Any], ...]: ...
def astype(x: npt.NDArray[Any], /, *, dtype: Any) -> npt.NDArray[Any]: ...
def abs(x: npt.NDArray[Any], /) -> npt.NDArray[Any]: ...
def add(x1: npt.NDArray[Any], x2: npt.NDArray[Any], /) -> npt.NDArray[Any]: ...
def equal(x1: npt.NDArray[Any], x2: npt.NDArray[Any], /) -> npt.NDArray[Any]: ...
def multiply(x1: npt.NDArray[Any], x2: npt.NDArray[Any], /) -> npt.NDArray[Any]: ...
def not_equal(x1: npt.NDArray[Any], x2: npt.NDArray[Any], /) -> npt.NDArray[Any]: ...
def subtract(x1: npt.NDArray[Any], x2: npt.NDArray[Any], /) -> npt.NDArray[Any]: ...
def mean(
    x: npt.NDArray[Any], /, *, axis: tuple[int, ...] | None, keepdims: bool
) -> npt.NDArray[Any]: ...
def vector_norm(
    x: npt.NDArray[Any], /, *, axis: tuple[int, ...] | None, keepdims: bool, ord: float
) -> npt.NDArray[Any]: ...
def scatter_add(
    x: npt.NDArray[Any], indices: npt.NDArray[Any], updates: npt.NDArray[Any], /, *, axis: int
) -> npt.NDArray[Any]: ...
