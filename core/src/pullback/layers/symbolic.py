"""Symbolic tensors: what `pb.Input` makes, and what layers and ops make of it.

A symbolic tensor has a shape and a dtype, and remembers the call that it is a result of. A layer,
operator or function that gets one is not called with values: its shapes are computed by
`pb.eval_shape`, and the call is kept. `pb.Model(inputs, outputs)` makes the calls again, with data.

An axis of any size is None in the shape. Shapes are computed for two sizes of each such axis: an
axis of a result that differs is None too, and a call that only one of them fits is an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import EllipsisType
from typing import Any, NoReturn

import numpy as np

from pullback import dtypes, errors
from pullback._array_methods import ArrayMethods
from pullback._codegen.lines import line_of_program
from pullback._dispatch.recording import capturing
from pullback._numpy.ufuncs import UFUNCS
from pullback._tree import leaves, like, mapped
from pullback.dtypes import DType, DTypeLike
from pullback.graph.eval_shape import TensorSpec, shapes_and_reads
from pullback.shapes import as_int
from pullback.spec import OPS
from pullback.tensor import Tensor
from pullback.variable import Variable

__all__ = ["Input", "SymbolicTensor"]

#: By axis, the two sizes that stand for any. Halves of them are whole, as in networks of images.
_SIZES = ((192, 384), (320, 640), (448, 896), (576, 1152), (704, 1408), (832, 1664))


class SymbolicCall:
    """A call of a layer or a function with symbolic tensors.

    Args:
        function: a layer, the function of an op, or a `TensorMethod`.
        args: its arguments, with symbolic tensors among them.
        kwargs: more of them, by keyword.
    """

    __slots__ = ("__weakref__", "args", "function", "kwargs", "line", "reads", "result")

    def __init__(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> None:
        self.function = function
        self.args = args
        self.kwargs = dict(kwargs)
        #: The line of the program that makes the call.
        self.line = line_of_program()
        #: What the call returns, with symbolic tensors.
        self.result: Any = None
        #: The variables that it reads.
        self.reads: list[Variable] = []

    @property
    def name(self) -> str:
        """The name of the layer or function."""
        function = self.function
        return str(getattr(function, "name", None) or getattr(function, "__name__", "function"))

    @property
    def inputs(self) -> list[SymbolicTensor]:
        """The symbolic tensors among the arguments."""
        return symbols((self.args, self.kwargs))


class SymbolicTensor:
    """A tensor of a model that is being made: a shape, a dtype, and no values yet.

    Operators and methods are those of tensors. An axis of any size is None in its shape.

    >>> x = pb.Input((28, 28))
    >>> y = pb.mean(x / 255.0, axis=-1)
    >>> y.shape, y[:, :3].shape
    ((None, 28), (None, 3))
    """

    opaque_state = True
    __slots__ = ("call", "dtype", "name", "shape", "specs")

    def __init__(
        self, specs: tuple[TensorSpec, TensorSpec], call: SymbolicCall | None, name: str | None
    ) -> None:
        first, second = specs
        #: For each of the two sizes of free axes.
        self.specs = specs
        self.shape: tuple[int | None, ...] = tuple(
            [m if m == n else None for m, n in zip(first.shape, second.shape, strict=True)]
        )
        self.dtype: DType = first.dtype
        #: None for an input.
        self.call = call
        self.name = name

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def T(self) -> SymbolicTensor:
        """The transpose of a matrix."""
        transposed: SymbolicTensor = apply(TensorMethod("T"), (self,), {})
        return transposed

    @property
    def mT(self) -> SymbolicTensor:
        """The transpose of the last two axes."""
        transposed: SymbolicTensor = apply(TensorMethod("mT"), (self,), {})
        return transposed

    def __getitem__(self, key: Any) -> SymbolicTensor:
        part: SymbolicTensor = apply(TensorMethod("__getitem__"), (self, key), {})
        return part

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not callable(getattr(ArrayMethods, name, None)):
            if not name.startswith("_") and name in vars(Tensor):
                self.reject()
            raise AttributeError(f"a symbolic tensor has no {name!r}")
        return lambda *args, **kwargs: apply(TensorMethod(name), (self, *args), kwargs)

    def __repr__(self) -> str:
        name = "" if self.name is None else f"{self.name!r} "
        return f"<SymbolicTensor {name}{self.shape} {self.dtype}>"

    __hash__ = object.__hash__

    def reject(self, *_: object, **__: object) -> NoReturn:
        """Raises: there are no values."""
        error = errors.SymbolicError(
            f"{self!r} has no values yet: build pb.Model(inputs, outputs), and call that with "
            f"data; what computes with values, or is no function of pb, goes into a layer: "
            f"pb.layers.Lambda(f)(x)"
        )
        error.apply = apply
        raise error

    def __array_ufunc__(
        self, ufunc: Callable[..., object], method: str, *inputs: object, **named: object
    ) -> Any:
        # As for tensors. Operators of NumPy's arrays come here too.
        name = ufunc.__name__
        if method != "__call__" or named or getattr(np, name, None) is not ufunc:
            self.reject()
        return UFUNCS.get(name, self.reject)(*inputs)

    def __format__(self, spec: str) -> str:
        if spec:
            self.reject()
        return repr(self)

    __array_function__ = __array__ = __bool__ = __int__ = __float__ = __complex__ = reject
    __index__ = __iter__ = __len__ = __contains__ = __setitem__ = reject


class TensorMethod:
    """A method or property of a tensor, as a function of it.

    Args:
        name: its name.
    """

    opaque_state = True
    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Calls the method."""
        found = getattr(x, self.name)
        return found(*args, **kwargs) if callable(found) else found


def Input(
    shape: Sequence[int | None] = (), dtype: DTypeLike | None = None, name: str | None = None
) -> SymbolicTensor:
    """An input of a model that is made of calls: `pb.Model(inputs, outputs)`.

    Args:
        shape: the shape of an item, without the batch axis; None for an axis of any size.
        dtype: the dtype; the default float if not given.
        name: the name of the input, for messages and for data in a dict.

    Returns:
        A symbolic tensor, which layers, operators and the functions of `pb` take.

    >>> x = pb.Input((4,), name="x")
    >>> model = pb.Model(x, pb.layers.Dense(2)(x) * 0.5)
    >>> model(pb.ones((3, 4))).shape
    (3, 2)

    Raises:
        InputTypeError: for a size that is neither an integer nor None.
    """
    is_scalar = not hasattr(type(shape), "__iter__") or getattr(shape, "shape", None) == ()
    if isinstance(shape, (str, bytes)) or is_scalar:
        raise errors.InputTypeError(
            f"pb.Input takes the shape of an item, such as (28, 28, 1), got {shape!r}; write "
            f"({shape!r},) for one axis"
        )
    sizes = (None, *(n if n is None else as_int(n, "a size, or None,") for n in shape))
    kind = dtypes.DEFAULT_FLOAT if dtype is None else dtypes.as_dtype(dtype)
    first, second = (TensorSpec(free_sizes(sizes, number), kind) for number in (0, 1))
    return SymbolicTensor((first, second), None, name)


def free_sizes(shape: Sequence[int | None], number: int) -> list[int]:
    """A shape with one of the two sizes that stand for any in place of None."""
    return [_SIZES[min(i, 5)][number] if n is None else n for i, n in enumerate(shape)]


def symbols(structure: Any) -> list[SymbolicTensor]:
    """The symbolic tensors in a structure."""
    return [leaf for leaf in leaves(structure) if isinstance(leaf, SymbolicTensor)]


def apply(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """The result of a call with symbolic tensors among its arguments.

    Raises:
        PullbackError: for what the function raises for tensors of these shapes.
        SymbolicError: for results besides tensors that depend on the size of a free axis.
    """
    call = SymbolicCall(function, args, kwargs)
    if capturing() is not None:
        raise errors.SymbolicError(
            f"{call.name} gets a symbolic tensor from outside of the layer or function that calls "
            f"it; make it an argument of that"
        )
    first = _result(call, 0)
    try:
        second = _result(call, 1)
    except errors.PullbackError as error:
        raise type(error)(
            f"{call.name} fits one size of an axis that is None, and no other: give that size in "
            f"pb.Input, or reduce the axis before ({error})"
        ) from None
    if isinstance(function, TensorMethod) and function.name == "__getitem__":
        second = _shortened(call, first, second)
    one, other = leaves(first), leaves(second)
    if [*map(_fixed, one)] != [*map(_fixed, other)]:
        raise errors.SymbolicError(
            f"{call.name} returns what depends on the size of an axis that is None, other than as "
            f"sizes of a tensor: give that size in pb.Input, or return tensors alone"
        )
    found = [
        SymbolicTensor(pair, call, None) if isinstance(pair[0], TensorSpec) else pair[0]
        for pair in zip(one, other, strict=True)
    ]
    call.result = like(first, iter(found))
    told = getattr(function, "called_with_symbols", None)
    if told is not None:
        told(call)
    return call.result


def _fixed(leaf: Any) -> Any:
    """Returns what is the same of a result's part for all sizes of free axes."""
    if isinstance(leaf, TensorSpec):
        return TensorSpec, len(leaf.shape), leaf.dtype
    # Other objects may be made anew in each call.
    return leaf if isinstance(leaf, (int, float, complex, str, np.generic)) else type(leaf)


def _shortened(call: SymbolicCall, first: TensorSpec, second: TensorSpec) -> TensorSpec:
    """The second spec of a part whose slices end in a free axis: `x[:, :100]` may be shorter.

    As with an index, the first element is taken to be there.
    """
    x, key = call.args
    if not isinstance(x, SymbolicTensor):
        return second
    keys = key if isinstance(key, tuple) else (key,)
    if any(part is not None and not isinstance(part, (int, slice, EllipsisType)) for part in keys):
        return second
    sizes, axis, at = [*second.shape], 0, 0
    for part in keys:
        if part is Ellipsis:
            skipped = len(x.shape) - sum(k is not None and k is not Ellipsis for k in keys)
            axis, at = axis + skipped, at + skipped
        elif isinstance(part, slice):
            if x.shape[axis] is None and 1 < sizes[at] == first.shape[at]:
                sizes[at] -= 1
            axis, at = axis + 1, at + 1
        elif part is None:
            at += 1
        else:
            axis += 1
    return TensorSpec(sizes, second.dtype)


def _result(call: SymbolicCall, number: int) -> Any:
    """The specs of the result of a call, for one of the two sizes of free axes."""

    def spec(leaf: Any) -> Any:
        return leaf.specs[number] if isinstance(leaf, SymbolicTensor) else leaf

    arguments = call.args, call.kwargs
    args, kwargs = mapped(spec, arguments)
    try:
        result, call.reads = shapes_and_reads(call.function, args, kwargs)
        return result
    except errors.PullbackError as error:
        if not number:
            # As the user has written the shapes.
            given = {m for x in call.inputs for m in x.specs[0].shape} - {
                n for x in call.inputs for n in x.shape
            }
            for size in given:
                error.args = (re.sub(rf"\b{size}\b", "None", str(error)),)
        raise


def calls_before(
    outputs: Sequence[SymbolicTensor], inputs: Sequence[SymbolicTensor]
) -> Iterator[SymbolicCall]:
    """Yields the calls that make outputs of inputs, each behind those that it needs."""
    given = {id(x) for x in inputs}

    def makers(tensors: Sequence[SymbolicTensor]) -> list[SymbolicCall]:
        return [x.call for x in tensors if x.call is not None and id(x) not in given]

    done: set[int] = set()
    stack = makers(outputs)[::-1]
    while stack:
        call = stack[-1]
        before = makers(call.inputs)
        missing = [one for one in before if id(one) not in done]
        if missing:
            stack += reversed(missing)
            continue
        stack.pop()
        if id(call) not in done:
            done.add(id(call))
            yield call


_BINARY = {
    **{"add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "pow": "pow"},
    **{"floordiv": "floor_divide", "mod": "remainder", "matmul": "matmul"},
    **{"and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor"},
    **{"lshift": "bitwise_left_shift", "rshift": "bitwise_right_shift"},
}
_COMPARISONS = {
    **{"lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal"},
    **{"eq": "equal", "ne": "not_equal"},
}
_UNARY = {"neg": "negative", "pos": "positive", "abs": "abs", "invert": "bitwise_invert"}


def _operator(op_name: str, *, reflected: bool = False) -> Callable[..., Any]:
    def method(self: SymbolicTensor, *others: Any) -> Any:
        values = (*others, self) if reflected else (self, *others)
        return apply(OPS[op_name].function, values, {})

    return method


for _name, _op in {**_BINARY, **_COMPARISONS, **_UNARY}.items():
    setattr(SymbolicTensor, f"__{_name}__", _operator(_op))
for _name, _op in _BINARY.items():
    setattr(SymbolicTensor, f"__r{_name}__", _operator(_op, reflected=True))
