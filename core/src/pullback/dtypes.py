"""The data types, how they promote, and the dtype rules that op definitions name.

Dtypes are `np.dtype` instances; `bfloat16` is ml_dtypes' one. The namespace has them as
`NamedDType`. Promotion follows the Python array API standard, with two cases decided that it leaves
open: an integer and a floating dtype give the floating one (so the width of an index never doubles
the width of the data), and float16 with bfloat16 gives float32. Python scalars are weak: they take
the array's dtype where its kind allows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Final, NamedTuple, TypeAlias, cast

import ml_dtypes
import numpy as np

from pullback import errors
from pullback._settings import SETTINGS
from pullback._storage_dtypes import STORAGE as STORAGE
from pullback._storage_dtypes import storage_message

DType: TypeAlias = "np.dtype[Any]"

bool_: DType = np.dtype("bool")
SIGNED: tuple[DType, ...] = tuple(np.dtype(f"int{bits}") for bits in (8, 16, 32, 64))
UNSIGNED: tuple[DType, ...] = tuple(np.dtype(f"uint{bits}") for bits in (8, 16, 32, 64))
int8, int16, int32, int64 = SIGNED
uint8, uint16, uint32, uint64 = UNSIGNED
bfloat16: DType = np.dtype(ml_dtypes.bfloat16)
float16: DType = np.dtype("float16")
float32: DType = np.dtype("float32")
float64: DType = np.dtype("float64")
complex64: DType = np.dtype("complex64")
complex128: DType = np.dtype("complex128")

INTEGER: tuple[DType, ...] = SIGNED + UNSIGNED
REAL_FLOATING: tuple[DType, ...] = (bfloat16, float16, float32, float64)
COMPLEX: tuple[DType, ...] = (complex64, complex128)
FLOATING: tuple[DType, ...] = REAL_FLOATING + COMPLEX
ALL: tuple[DType, ...] = (bool_, *INTEGER, *FLOATING)

# The defaults, which `set_defaults` exchanges: read them from this module at each use.
DEFAULT_FLOAT: DType = float32
DEFAULT_INT: DType = int32
DEFAULT_COMPLEX: DType = complex64

_NAMES: dict[str, DType] = {dtype.name: dtype for dtype in (*ALL, *STORAGE)}
_NAME_OF: dict[DType, str] = {dtype: name for name, dtype in _NAMES.items()}
#: Python's types, and their names: `dtype="float"` is `dtype=float`.
_PYTHON: dict[type | str, DType] = {bool: bool_}
#: Every dtype to the one object of it: dispatch compares by identity.
_OWN: dict[DType, DType] = {dtype: dtype for dtype in _NAMES.values()}

# The kinds in the order in which a weak Python scalar lifts an array.
BOOL, INT, FLOAT, CMPLX = range(4)
STORED = -1  # stores values and does not compute
_KIND: dict[DType, int] = {
    bool_: BOOL,
    **dict.fromkeys(INTEGER, INT),
    **dict.fromkeys(REAL_FLOATING, FLOAT),
    **dict.fromkeys(COMPLEX, CMPLX),
    **dict.fromkeys(STORAGE, STORED),
}
_SCALAR_KIND: dict[type, int] = {bool: BOOL, int: INT, float: FLOAT, complex: CMPLX}

# A dtype, or the type of a weak Python scalar.
Operand: TypeAlias = "np.dtype[Any] | type[Any]"


class NamedDType:
    """A dtype as the namespace names it, such as `pb.float32`.

    It is the `np.dtype` in all but one: equal to it, of its hash, with its attributes, and taken in
    its place. But NumPy reads None as float64, so that `None == np.dtype("float64")` is true there,
    and whoever looks a dtype up and finds none finds float64. The array API standard has a dtype
    equal what names the same dtype, and nothing else.

    >>> pb.float32 == pb.ones(2).dtype, {pb.float32: "single"}[pb.ones(2).dtype]
    (True, 'single')
    >>> np.zeros(2, pb.float32).dtype, pb.float32.itemsize
    (dtype('float32'), 4)
    >>> pb.float64 == None
    False
    """

    __slots__ = ("__numpy_dtype__", "dtype", "itemsize", "kind", "name")

    def __init__(self, dtype: DType) -> None:
        #: The `np.dtype`: NumPy takes what has this attribute wherever it takes a dtype.
        self.dtype = dtype
        # The same for NumPy from 2.4 on, which looks for it first.
        self.__numpy_dtype__ = dtype
        # NumPy makes the name anew, in Python, whenever it is looked at.
        self.name = _NAME_OF[dtype]
        self.itemsize = dtype.itemsize
        self.kind = dtype.kind

    @property  # type: ignore[misc]
    def __class__(self) -> type[Any]:
        # `isinstance(x.dtype, np.dtype)` holds; NumPy's own dtypes cannot be subclassed.
        return np.dtype

    def __eq__(self, other: object) -> bool:
        if type(other) is NamedDType:
            return self is other  # there is one of each
        return other is not None and self.dtype == other

    def __hash__(self) -> int:
        return hash(self.dtype)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.dtype, name)

    def __repr__(self) -> str:
        return repr(self.dtype)

    def __str__(self) -> str:
        return str(self.dtype)

    def __reduce__(self) -> tuple[Any, ...]:
        return named, (self.name,)


#: What a caller may pass as a dtype. Its name is part of it: `@op` knows it by that.
DTypeLike: TypeAlias = Annotated[np.dtype[Any] | NamedDType | type[Any] | str, "DTypeLike"]

_NAMED = {name: NamedDType(dtype) for name, dtype in _NAMES.items()}


def named(name: str) -> DType:
    """The dtype of that name, as the namespace has it."""
    return cast("DType", _NAMED[name])


def named_dtype(value: DTypeLike) -> DType:
    """The dtype that `value` names, as the namespace has it.

    >>> named_dtype("float32").name
    'float32'
    """
    return named(_NAME_OF[as_dtype(value)])


def name_of(dtype: DType) -> str:
    """The name of one of pullback's dtypes, from a table: NumPy makes `dtype.name` anew each time.

    >>> name_of(float32)
    'float32'
    """
    return _NAME_OF[dtype]


def set_defaults(real: DType) -> None:
    """Sets the default dtypes: float64 with complex128 and int64, or float32 with their halves.

    `pullback.set_default_dtype` also has dispatch forget what it knows of the old ones.
    """
    global DEFAULT_FLOAT, DEFAULT_INT, DEFAULT_COMPLEX
    DEFAULT_FLOAT, DEFAULT_COMPLEX = real, complex_of(real)
    DEFAULT_INT = int64 if real == float64 else int32
    for kind, dtype in ((int, DEFAULT_INT), (float, DEFAULT_FLOAT), (complex, DEFAULT_COMPLEX)):
        _PYTHON[kind] = _PYTHON[kind.__name__] = dtype
    SETTINGS.change()


def as_dtype(value: DTypeLike) -> DType:
    """The public dtype that `value` names: a dtype, its name, or a type of Python's numbers.

    >>> as_dtype("float32")
    dtype('float32')

    Raises:
        DTypeError: for anything that is not one of pullback's dtypes.
    """
    if type(value) is NamedDType:
        return value.dtype
    if isinstance(value, np.dtype):
        own = _OWN.get(value)
        if own is not None:
            return own
    elif type(value) is str and value in _NAMES:
        return _NAMES[value]
    try:
        if value in _PYTHON:
            return _PYTHON[value]  # type: ignore[index]
        # np.dtype(None) is float64.
        dtype = None if value is None else np.dtype(value).newbyteorder("=")
    except (TypeError, ValueError):
        dtype = None
    if dtype is None or dtype not in _OWN:
        names = ", ".join(_NAMES)
        raise errors.DTypeError(f"{value!r} is not a pullback dtype; use one of {names}")
    return _OWN[dtype]


def kind(operand: Operand | NamedDType) -> int:
    """BOOL, INT, FLOAT or CMPLX, for a dtype or the type of a Python scalar."""
    if type(operand) is NamedDType:
        return _KIND[operand.dtype]  # without its hash and its type, which are in Python
    if isinstance(operand, type):
        return _SCALAR_KIND[operand]
    return _KIND[operand]  # type: ignore[index]


def is_floating(dtype: DType | NamedDType) -> bool:
    """Returns whether values of `dtype` have gradients: real or complex floating."""
    return _KIND[dtype.dtype if type(dtype) is NamedDType else dtype] >= FLOAT  # type: ignore[index]


def is_complex(dtype: DType | NamedDType) -> bool:
    """Returns whether `dtype` is complex."""
    return _KIND[dtype.dtype if type(dtype) is NamedDType else dtype] == CMPLX  # type: ignore[index]


def real_of(dtype: DType) -> DType:
    """The dtype of a complex number's parts; a real dtype gives itself."""
    return {complex64: float32, complex128: float64}.get(dtype, dtype)


def complex_of(dtype: DType) -> DType:
    """The complex dtype whose parts hold `dtype`."""
    return complex128 if dtype in (float64, complex128) else complex64


set_defaults(float32)


def _promote_pair(a: DType, b: DType) -> DType | None:
    if a is b or a == b:
        return a
    ka, kb = _KIND[a], _KIND[b]
    if ka > kb:
        a, b, ka, kb = b, a, kb, ka
    if ka == BOOL:
        return b
    if ka == INT and kb >= FLOAT:
        return b
    if kb == CMPLX:
        return complex_of(b) if complex_of(a) == complex64 else complex128
    if ka == FLOAT:
        if {a, b} == {bfloat16, float16}:
            return float32
        return a if a.itemsize > b.itemsize else b
    if (a in SIGNED and b in SIGNED) or (a in UNSIGNED and b in UNSIGNED):
        return a if a.itemsize > b.itemsize else b
    signed, unsigned = (a, b) if a in SIGNED else (b, a)
    if unsigned is uint64 or unsigned == uint64:
        return None
    wider = SIGNED[UNSIGNED.index(unsigned) + 1]
    return wider if wider.itemsize > signed.itemsize else signed


_TABLE: dict[tuple[DType, DType], DType | None] = {
    **{(a, b): _promote_pair(a, b) for a in ALL for b in ALL},
    **{(dtype, dtype): dtype for dtype in STORAGE},
}


def promote_types(a: DType, b: DType) -> DType:
    """The dtype that a and b promote to.

    >>> promote_types(int64, float32)
    dtype('float32')

    Raises:
        DTypeError: for uint64 with a signed integer dtype, which no integer dtype holds.
    """
    found = _TABLE.get((a, b))
    if found is None:
        raise errors.DTypeError(
            f"{a} and {b} do not promote to one dtype without losing values; "
            f"convert one with x.astype(...) first"
        )
    return found


def _lift(dtype: DType, scalar: type) -> DType:
    """The dtype of an array of `dtype` beside a weak Python scalar."""
    wanted = _SCALAR_KIND[scalar]
    if wanted <= _KIND[dtype]:
        return dtype
    if wanted == CMPLX:
        return complex_of(dtype) if _KIND[dtype] == FLOAT else DEFAULT_COMPLEX
    return DEFAULT_FLOAT if wanted == FLOAT else DEFAULT_INT


def promote(operands: Sequence[Operand]) -> DType:
    """The dtype of a result computed from all operands; types of Python scalars are weak.

    >>> promote([float32, float])
    dtype('float32')
    >>> promote([int32, float])
    dtype('float32')
    """
    result: DType | None = None
    for operand in operands:
        if not isinstance(operand, type):
            if _KIND[operand] == STORED:
                raise errors.DTypeError(storage_message(operand))
            result = operand if result is None else promote_types(result, operand)
    scalars = [operand for operand in operands if isinstance(operand, type)]
    if result is None:
        return _PYTHON[max(scalars, key=_SCALAR_KIND.__getitem__)]
    for scalar in scalars:
        result = _lift(result, scalar)
    return result


# ---------------------------------------------------------------------------------------------
# Dtype rules. A rule gets the operands of an op's inputs (None for an absent optional input) and
# its attributes; it returns the dtypes that the inputs are converted to and those of the outputs.
# The conversion of the inputs may depend on the inputs' dtypes only: it is cached by them.


class Resolution(NamedTuple):
    """The result of a dtype rule: inputs are converted to `inputs`, results have `outputs`."""

    inputs: tuple[DType | None, ...]
    outputs: tuple[DType, ...]


Operands: TypeAlias = "tuple[Operand | None, ...]"


class DTypeRule:
    """A dtype rule: `rule(operands, **attributes)` gives a `Resolution`.

    Calls find conversions and kernels by dtypes alone. So an error that depends on an attribute has
    to be the kernel's and the body's too: the rule says it to `eval_shape`.

    Args:
        function: what computes it.
        uniform: True if all inputs are converted to one dtype. Kernels are then looked up by the
            dtype of the first input alone.
    """

    __slots__ = ("function", "uniform")

    def __init__(self, function: Callable[..., Resolution], *, uniform: bool = False) -> None:
        self.function: Final = function
        self.uniform: Final = uniform

    def __call__(self, operands: Operands, /, **attributes: Any) -> Resolution:
        """Returns what inputs are converted to, and the dtypes of the results."""
        return self.function(operands, **attributes)


def uniform(function: Callable[..., Resolution]) -> DTypeRule:
    """A decorator: the rule converts all inputs to one dtype.

    >>> @uniform
    ... def to_float64(operands, **attributes):
    ...     return Resolution(tuple(float64 for _ in operands), (float64,))
    >>> to_float64((int32, bool)).outputs, to_float64.uniform
    ((dtype('float64'),), True)
    """
    return DTypeRule(function, uniform=True)


_CLASSES: dict[str, tuple[DType, ...]] = {
    "boolean": (bool_,),
    "integer": INTEGER,
    "integer or boolean": (bool_, *INTEGER),
    "ordered": (bool_, *INTEGER, *REAL_FLOATING),
    "real": (*INTEGER, *REAL_FLOATING),
    "real floating": REAL_FLOATING,
    "floating": FLOATING,
    "complex": COMPLEX,
    "numeric": (*INTEGER, *FLOATING),
    "any": ALL,
}


def _all_to(dtype: DType, operands: Operands) -> tuple[DType | None, ...]:
    return tuple(None if operand is None else dtype for operand in operands)


def _common(operands: Operands) -> DType:
    return promote([operand for operand in operands if operand is not None])


def _check(dtype: DType, allowed: str) -> DType:
    if dtype not in _CLASSES[allowed]:
        if dtype == bool_:
            raise errors.DTypeError(
                f'needs {allowed} inputs, got bool; write x.astype("int32") to count, or '
                f"pb.logical_or, pb.logical_and or pb.logical_xor of two conditions"
            )
        raise errors.DTypeError(
            f"needs {allowed} inputs, got {dtype}; convert with x.astype(...) first"
        )
    return dtype


def promoting(
    allowed: str = "any",
    *,
    to: DType | None = None,
    lift: bool = False,
    booleans: DType | None = None,
) -> DTypeRule:
    """A rule: all inputs are promoted to one dtype of class `allowed`.

    Args:
        allowed: "any", "numeric", "ordered" (real or boolean), "real", "floating",
            "real floating", "integer", "integer or boolean", "boolean" or "complex".
        to: the dtype of the result; without it, the promoted one.
        lift: integer and boolean inputs are taken as the default floating dtype.
        booleans: the dtype that booleans are taken as: kernels of comparisons take numbers.
    """

    @uniform
    def rule(operands: Operands, **_: object) -> Resolution:
        dtype = _common(operands)
        if lift and _KIND[dtype] < FLOAT:
            dtype = DEFAULT_FLOAT
        if booleans is not None and dtype == bool_:
            dtype = booleans
        _check(dtype, allowed)
        return Resolution(_all_to(dtype, operands), (dtype if to is None else to,))

    return rule


same: DTypeRule = promoting("any")
numeric: DTypeRule = promoting("numeric")
real: DTypeRule = promoting("real")
#: Real numbers, and False before True.
ordered: DTypeRule = promoting("ordered")
floating: DTypeRule = promoting("floating", lift=True)
real_floating: DTypeRule = promoting("real floating", lift=True)
complex_: DTypeRule = promoting("complex")
integer: DTypeRule = promoting("integer")
integer_or_boolean: DTypeRule = promoting("integer or boolean")
boolean: DTypeRule = promoting("boolean")
predicate: DTypeRule = promoting("any", to=bool_)
numeric_predicate: DTypeRule = promoting("numeric", to=bool_, booleans=int32)
real_predicate: DTypeRule = promoting("real", to=bool_, booleans=int32)
#: The positions of elements by their order.
position: DTypeRule = promoting("real", to=int64, booleans=int32)


def each(*classes: str, result: int | DType = 0) -> DTypeRule:
    """A rule: input i keeps its own dtype, which must be of class classes[i].

    Args:
        classes: one class per input; the last one serves all further inputs.
        result: the position of the input whose dtype the result has, or a dtype.
    """

    @DTypeRule
    def rule(operands: Operands, **_: object) -> Resolution:
        inputs: list[DType | None] = []
        for position, operand in enumerate(operands):
            if operand is None:
                inputs.append(None)
                continue
            allowed = classes[min(position, len(classes) - 1)]
            inputs.append(_check(_common((operand,)), allowed))
        out = inputs[result] if isinstance(result, int) else result
        if out is None:
            raise errors.DTypeError("the input that gives the result its dtype is missing")
        return Resolution(tuple(inputs), (out,))

    return rule


def accumulated(dtype: DType, default: DType | None = None) -> DType:
    """The dtype of a sum or product over values of `dtype` (array API: small integers widen).

    Kernels widen to int32 and uint32 by themselves; where that is not the default integer dtype,
    dispatch names the dtype to them.
    """
    widest = DEFAULT_INT if default is None else default
    if dtype is bool_ or dtype == bool_:
        return widest
    if dtype in INTEGER and dtype.itemsize < widest.itemsize:
        return widest if dtype in SIGNED else UNSIGNED[SIGNED.index(widest)]
    return dtype


@uniform
def accumulating(operands: Operands, dtype: DType | None = None, **_: object) -> Resolution:
    """The requested dtype, or that of x, widened for small integers and booleans."""
    inputs = same(operands).inputs
    assert inputs[0] is not None
    return Resolution(inputs, (accumulated(inputs[0]) if dtype is None else dtype,))
