"""`pb.py_function`, `pb.print`: Python in a captured function, which is called at each run."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any, TypeVar

from pullback import errors
from pullback._autodiff.functional import stop_gradient
from pullback._dispatch.recording import CONSTANT, NO_TAPES, effect, tapes
from pullback._symbols import HostNumber
from pullback._tree import leaves, like, mapped
from pullback.devices import Device, as_device
from pullback.dtypes import DType
from pullback.graph.control.call import OPS_OF, capture_now, define, lifted, one_or_all
from pullback.graph.control.structures import check_alike, operands, tensors
from pullback.graph.control.subtrace import InnerCapture
from pullback.graph.eval_shape import TensorSpec, has_shapes_alone
from pullback.graph.trace import FunctionTrace
from pullback.ops.creation import full
from pullback.plugins.records import Kernel, Native
from pullback.shapes import Shape
from pullback.spec import Arity
from pullback.tensor import Tensor, wrap

__all__ = ["print", "py_function"]

R = TypeVar("R")


def print(*values: object, sep: str = " ", end: str = "\n") -> None:
    """Prints values as Python's `print` does; a captured function prints at the end of each run.

    Args:
        values: tensors, structures of them, and other values.
        sep: what stands between them.
        end: what stands after the last.

    Raises:
        InputTypeError: for a `sep` or `end` that is not a string.

    >>> @pb.function
    ... def halved(x):
    ...     pb.print("x is", x)
    ...     return x / 2
    >>> for number in (1.0, 3.0):
    ...     _ = halved(pb.asarray(number))
    x is 1.0
    x is 3.0
    """
    for name, text in (("sep", sep), ("end", end)):
        if not isinstance(text, str):
            raise errors.InputTypeError(
                f"pb.print: {name} is {text!r}; write a string, such as {name}=' '"
            )
    py_function(partial(builtins.print, sep=sep, end=end), *values)


def py_function(f: Callable[..., object], *args: Any, result: R = None) -> R:  # type: ignore[assignment]
    """Calls a Python function that looks at values, also from a captured function.

    A captured function calls it at each run, with tensors that have values. Its results are
    constants for tapes; `pb.custom_gradient` gives it a gradient. A function with results should
    depend on its arguments alone and change nothing: a call whose results are not used is left out,
    and a gradient may call it once more. One without results is called for its effect, at the end
    of each run, in the order of the calls.

    Args:
        f: the function; it returns tensors, arrays or numbers.
        args: its arguments: structures of tensors, and other values.
        result: a structure of tensors of the shapes and dtypes that `f` returns; their values do
            not matter. None for a function that is called for its effect.

    Returns:
        What `f` returns, as tensors.

    >>> import math
    >>> double = pb.function(lambda x: pb.py_function(lambda x: math.floor(x) * 2.0, x, result=x))
    >>> [double(pb.asarray(x)).item() for x in (1.5, 2.5, 3.5)]
    [2.0, 4.0, 6.0]

    Raises:
        InputValueError: if `f` returns another structure than `result`.
        ShapeError: if it returns a tensor of another shape.
        DTypeError: if it returns a tensor of another dtype.
        CaptureError: for a function without results in a branch or loop of a captured function.
    """
    capture = capture_now()
    expected = tensors(result)
    if has_shapes_alone():
        return mapped(stop_gradient, expected)  # type: ignore[no-any-return]
    given = operands(args)
    called = HostFunction(f, given, expected)
    if capture is None:
        found: R = like(expected, iter(called.tensors([x for x in leaves(given) if _is_tensor(x)])))
        return found
    if not leaves(expected):
        blanks = Blanks(given, _varies)
        # A program calls it at its end, with the tensors and numbers of the run.
        varying = [x for x in leaves(given) if _varies(x)]
        effect(lambda *values: f(*blanks.filled(values)), *varying)
        return result
    inputs = [x for x in leaves(given) if _is_tensor(x)]
    kinds = tuple((x.shape, x.dtype) for x in leaves(expected))
    recorded: R = like(expected, iter(_call(inputs, function=called, kinds=kinds)))
    return recorded


class HostFunction:
    """A function with its arguments that are not tensors, and the structure of its result.

    Args:
        f: the function.
        args: its arguments; the tensors among them come at each call.
        expected: tensors like those of the result.
    """

    def __init__(self, f: Callable[..., object], args: object, expected: object) -> None:
        self._f = f
        self._name = getattr(f, "__name__", type(f).__name__)
        self._args = Blanks(args, _is_tensor)
        # Its tensors may belong to a trace; what is compared is like them.
        self._expected = mapped(lambda x: TensorSpec(x.shape, x.dtype), expected)

    def __repr__(self) -> str:
        return self._name

    def tensors(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        """The tensors in what the function returns for tensors."""
        result = tensors(self._f(*self._args.filled(inputs)))
        advice = "result= gives its shapes and dtypes: convert with pb.asarray(x, dtype=...)"
        first = f"{self._name} returned"
        check_alike("pb.py_function", first, result, "and result is", self._expected, advice)
        return [stop_gradient(tensor) for tensor in leaves(result)]


class Blanks:
    """Arguments with blanks for the values that come at each call.

    Args:
        args: the arguments.
        is_blank: returns whether a value is such a one.
    """

    def __init__(self, args: Any, is_blank: Callable[[object], bool]) -> None:
        self._args = mapped(lambda x: _BLANK if is_blank(x) else x, args)

    def filled(self, values: Iterable[object]) -> Any:
        """The arguments with values in place of the blanks, in their order."""
        rest = iter(values)
        return mapped(lambda x: next(rest) if x is _BLANK else x, self._args)


def _varies(value: object) -> bool:
    return type(value) in (Tensor, HostNumber)


_BLANK = object()


def _is_tensor(value: object) -> bool:
    return type(value) is Tensor


def _host_kernel(function: HostFunction, device: Device) -> Kernel:
    """Calls a function with tensors of native arrays."""

    def run(args: list[Native], **_: object) -> Any:
        with beside_traces(device):
            results = function.tensors([wrap(array, device) for array in args])
            return one_or_all([tensor.to(device)._array for tensor in results])

    return run


@contextmanager
def beside_traces(device: Device) -> Iterator[None]:
    """Has no tape record, and new tensors be on the real device."""
    traced = isinstance(as_device(None).backend, FunctionTrace)
    with tapes(NO_TAPES), device if traced else nullcontext():
        yield


def _call(
    args: Sequence[Tensor], *, function: HostFunction, kinds: tuple[tuple[Shape, DType], ...]
) -> list[Tensor]:
    capture = capture_now()
    if capture is None:
        return function.tensors(args)
    (args,) = lifted(capture, [args])
    kernel = _host_kernel(function, capture.real_device)

    def zeros(*_: object, **__: object) -> Any:
        device = capture.real_device
        return one_or_all([full(s, 0, dtype=d, device=device)._array for s, d in kinds])

    # In a branch or step the values are examples, which the function should not get.
    example = zeros if isinstance(capture, InnerCapture) else kernel
    op = OPS_OF["py_function"](len(kinds))
    arrays = [tensor._array for tensor in args]
    attributes = {"function": function, "kinds": kinds}
    found = capture.trace._run(op, example, arrays, **attributes)
    calls = capture.trace._calls
    calls[-1] = calls[-1]._replace(kernel=kernel)
    results = found if isinstance(found, tuple) else (found,)
    return [wrap(array, capture.device, CONSTANT) for array in results]


def _kinds(*, kinds: tuple[tuple[Shape, DType], ...], **_: object) -> list[tuple[Shape, DType]]:
    return list(kinds)


define(
    "py_function",
    {"args": Arity.MANY},
    ["function", "kinds"],
    _kinds,
    _call,
    "It is what no op can say.",
)
