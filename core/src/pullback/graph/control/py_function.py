"""`pb.py_function`: Python in a captured function, which is called at each run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, TypeVar

from pullback._autodiff.functional import stop_gradient
from pullback._dispatch.recording import CONSTANT
from pullback._tree import leaves, like
from pullback.devices import Device, as_device
from pullback.dtypes import DType
from pullback.graph.control.call import lifted, one_or_all, trace_now
from pullback.graph.control.op import control_op, define
from pullback.graph.control.structures import check_alike, operands, tensors
from pullback.graph.control.subtrace import Subtrace
from pullback.graph.record import Recorder
from pullback.graph.tapes import NONE, tapes
from pullback.ops.creation import full
from pullback.plugins.records import Native
from pullback.shapes import Shape
from pullback.spec import Arity
from pullback.tensor import Tensor, wrap

__all__ = ["py_function"]

R = TypeVar("R")


def py_function(f: Callable[..., object], *args: Any, result: R) -> R:
    """Calls a Python function that looks at values, also from a captured function.

    A captured function calls it at each run, with tensors that have values. Its results are
    constants for tapes; `pb.custom_gradient` gives it a gradient. It should depend on its
    arguments alone and change nothing: a call whose results are not used is left out, and a
    gradient may call it once more.

    Args:
        f: the function; it returns tensors, arrays or numbers.
        args: its arguments: structures of tensors, and other values.
        result: a structure of tensors of the shapes and dtypes that `f` returns; their values do
            not matter.

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
    """
    trace = trace_now()
    expected = tensors(result)
    given = operands(args)
    called = HostFunction(f, given, expected)
    if trace is None:
        found: R = like(expected, iter(called.tensors([x for x in leaves(given) if _is_tensor(x)])))
        return found
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

    def __init__(self, f: Callable[..., object], args: Any, expected: Any) -> None:
        self._f = f
        self._name = getattr(f, "__name__", type(f).__name__)
        self._args = like(args, iter([_TENSOR if _is_tensor(x) else x for x in leaves(args)]))
        # Its tensors may belong to a trace; what is compared is like them.
        self._expected = like(expected, iter([_Like(x.shape, x.dtype) for x in leaves(expected)]))

    def __repr__(self) -> str:
        return self._name

    def tensors(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        """The tensors in what the function returns for tensors."""
        values = iter(inputs)
        args = like(
            self._args, iter([next(values) if x is _TENSOR else x for x in leaves(self._args)])
        )
        result = tensors(self._f(*args))
        advice = "result= gives its shapes and dtypes: convert with pb.asarray(x, dtype=...)"
        first = f"{self._name} returned"
        check_alike("pb.py_function", first, result, "and result is", self._expected, advice)
        return [stop_gradient(tensor) for tensor in leaves(result)]


class _Like:
    """The kind of a tensor."""

    def __init__(self, shape: Shape, dtype: DType) -> None:
        self.shape = shape
        self.dtype = dtype


_TENSOR = object()


def _is_tensor(value: object) -> bool:
    return type(value) is Tensor


class HostKernel:
    """Calls a function with tensors of native arrays."""

    def __init__(self, function: HostFunction, device: Device) -> None:
        self._function = function
        self._device = device

    def __call__(self, args: list[Native], **_: object) -> Any:
        """Returns the native arrays of the results."""
        with beside_traces(self._device):
            inputs = [wrap(array, self._device) for array in args]
            results = [tensor.to(self._device)._array for tensor in self._function.tensors(inputs)]
        return one_or_all(results)


@contextmanager
def beside_traces(device: Device) -> Iterator[None]:
    """Has no tape record, and new tensors be on the real device."""
    traced = isinstance(as_device(None).backend, Recorder)
    with tapes(NONE), device if traced else nullcontext():
        yield


def _call(
    args: Sequence[Tensor], *, function: HostFunction, kinds: tuple[tuple[Shape, DType], ...]
) -> list[Tensor]:
    trace = trace_now()
    if trace is None:
        return function.tensors(args)
    if not kinds:
        return []
    (args,) = lifted(trace, [args])
    kernel = HostKernel(function, trace.real_device)

    def zeros(*_: object, **__: object) -> Any:
        device = trace.real_device
        return one_or_all([full(s, 0, dtype=d, device=device)._array for s, d in kinds])

    # In a branch or step the values are examples, which the function should not get.
    example = zeros if isinstance(trace, Subtrace) else kernel
    op = control_op("py_function", len(kinds))
    arrays = [tensor._array for tensor in args]
    attributes = {"function": function, "kinds": kinds}
    found: Any = trace._run(op, example, arrays, **attributes)
    trace._calls[-1] = trace._calls[-1]._replace(kernel=kernel)
    results = found if isinstance(found, tuple) else (found,)
    return [wrap(array, trace.device, CONSTANT) for array in results]


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
