"""The canonical form of a call's attributes, and the errors that an op's own rules explain."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from pullback import errors, shapes
from pullback._dispatch.recording import capturing
from pullback._hints import FURTHER
from pullback.devices import Device, as_device
from pullback.dtypes import STORED, DType, DTypeLike, accumulating, as_dtype, is_complex, kind
from pullback.spec import Op
from pullback.tensor import Tensor

#: The length to which an argument is quoted in a message.
_LONGEST = 80
#: The flag of code that takes any number of arguments (inspect.CO_VARARGS, without inspect).
_VARARGS = 0x04


def _is_scalar(value: object, kinds: str) -> bool:
    """True for a 0-d array, or a NumPy scalar, whose dtype is of one of NumPy's kinds `kinds`."""
    dtype = getattr(value, "dtype", None)
    return getattr(dtype, "kind", "-") in kinds and getattr(value, "shape", None) == ()


def as_bool(value: object, name: str) -> bool:
    """A boolean from a bool, or from an integer 0 or 1.

    Raises:
        InputTypeError: for everything else, even if Python would take it for a boolean.
    """
    if (isinstance(value, int) or _is_scalar(value, "biu")) and value in (0, 1):
        return bool(value)
    raise errors.InputTypeError(f"{name} must be True or False, got {value!r}")


def as_int(value: object, name: str) -> int:
    """An integer from anything with `__index__`.

    Raises:
        InputTypeError: for floats and other types that are not integers.
    """
    return shapes.as_int(value, f"an integer for {name}")


def as_float(value: Any, name: str) -> float:
    """A float from a real number of Python's or NumPy's.

    Raises:
        InputTypeError: for other types, and for tensors: no gradient would reach them.
        InputValueError: for integers that no float holds.
    """
    if isinstance(value, Tensor):
        raise errors.InputTypeError(f"{name} must be a Python number, got a tensor; pass x.item()")
    # bfloat16 is of kind V.
    if not isinstance(value, (int, float)) and not _is_scalar(value, "biufV"):
        raise errors.InputTypeError(
            f"{name} must be a real number, got {value!r} of type {type(value).__name__}"
        )
    try:
        return float(value)
    except OverflowError:
        raise errors.InputValueError(f"{name} is out of the range of floats") from None


def as_str(value: object, name: str) -> str:
    """A str.

    Raises:
        InputTypeError: for other types.
    """
    if isinstance(value, str):
        return value
    raise errors.InputTypeError(
        f"{name} must be a str, got {value!r} of type {type(value).__name__}"
    )


def as_list(values: Any, name: str, of: str) -> list[Any]:
    """A list of the items of an iterable; messages call it `name`, a list of `of`.

    Raises:
        InputTypeError: for what is not iterable.
    """
    try:
        several = iter(values)
    except TypeError:
        raise errors.InputTypeError(
            f"{name} must be a list of {of}, got {type(values).__name__}"
        ) from None
    return list(several)


#: The functions that check and convert plain attributes, by the annotation in the signature.
PLAIN: dict[str, Callable[[Any, str], Any]] = {
    "bool": as_bool,
    "int": as_int,
    "float": as_float,
    "str": as_str,
}

#: The forms in which None has no meaning, unless the annotation adds "| None".
REQUIRED = frozenset({*PLAIN, "Axis", "JoinedAxes", "ShapeLike", "DTypeLike"})
#: The forms whose canonical values have one type each, so that == tells them apart.
COMPARABLE = REQUIRED | {"Axes"}


def canonicalize(op: Op, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes in the form that kernels and bodies get."""
    result = dict(attributes)
    for attribute in op.attributes:
        value = result[attribute.name]
        form = attribute.form
        if form == "DeviceLike":
            result[attribute.name] = device = as_device(value)
            capture = capturing()
            if capture is not None:
                result[attribute.name] = capture.traced_device(device)
        elif value is None and (attribute.optional or form not in REQUIRED):
            continue
        elif form in PLAIN:
            result[attribute.name] = PLAIN[form](value, attribute.name)
        elif form in ("Axis", "Axes", "JoinedAxes"):
            ndim = _leading(inputs).ndim
            canonical = shapes.canonical_axes if form == "Axes" else shapes.canonical_axis
            result[attribute.name] = canonical(value, ndim)
        elif form == "ShapeLike":
            result[attribute.name] = shapes.as_shape(value)
        elif form == "DTypeLike":
            result[attribute.name] = (
                as_accumulated(value, _leading(inputs).dtype)
                if op.dtype is accumulating
                else as_dtype(value)
            )
    if op.normalize is not None:
        result = {**op.normalize(shapes_of(inputs), **result)}
    return result


def dtype_attributes(op: Op) -> list[str]:
    """The names of the attributes that give the dtypes of the results."""
    return [attribute.name for attribute in op.attributes if attribute.form == "DTypeLike"]


def _leading(inputs: Sequence[Any]) -> Tensor:
    first = inputs[0]
    if isinstance(first, list):
        if not first:
            raise errors.InputValueError("needs at least one tensor, got an empty sequence")
        first = first[0]
    assert isinstance(first, Tensor)
    return first


def shapes_of(inputs: Sequence[Any]) -> tuple[Any, ...]:
    """The shapes of the inputs, as a shape rule gets them."""
    return tuple(
        [t.shape for t in value]
        if isinstance(value, (list, tuple))
        else (None if value is None else value.shape)
        for value in inputs
    )


# ---------------------------------------------------------------------------------------------
# Errors.


def explain(op: Op, inputs: tuple[Any, ...], attributes: Mapping[str, Any]) -> Exception | None:
    """The error that the op's own rules raise for this call; None if they raise none."""
    try:
        canonical = canonicalize(op, inputs, attributes)
    except errors.PullbackError as error:
        return _named(op, error)
    except Exception as error:
        if is_from_signal_handler(error):
            raise
        # It sees the call's arguments only: they are at fault.
        wrong = _wrong_argument(error) or errors.InputTypeError
        return wrap_op_error(op, wrong(f"{_call(op, inputs, attributes)}: {error}"))
    try:
        op.shape(*shapes_of(inputs), **canonical)
    except errors.PullbackError as error:
        return _named(op, error)
    except Exception as error:
        if is_from_signal_handler(error):
            raise
        return None
    return None


def is_from_signal_handler(error: Exception) -> bool:
    """Returns whether a signal handler raised the error: it has nothing to do with the call.

    Python runs handlers between any two of its instructions, those of kernels among them. It gives
    them the frame that they interrupt, which is below theirs, and nothing else is called like that.
    """
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        below, at = at.tb_frame, at.tb_next
        code = at.tb_frame.f_code
        if code.co_argcount < 2 and not code.co_flags & _VARARGS:
            continue
        values = at.tb_frame.f_locals
        for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + 1]:
            value = values.get(name)
            if value is below or (type(value) is tuple and any(item is below for item in value)):
                return True
    return False


def _wrong_argument(error: Exception) -> type[errors.PullbackError] | None:
    """The class for an error of Python's or NumPy's that is due to a wrong argument."""
    if isinstance(error, IndexError):
        return errors.IndexingError
    if isinstance(error, MemoryError):
        return errors.OutOfMemoryError
    if isinstance(error, (TypeError, ValueError, ArithmeticError)):
        return errors.InputValueError
    return None


def _said(error: Exception, kind: type[errors.PullbackError]) -> str:
    """The message of an error, with its class where ours does not tell it: "KeyError: 'inv'"."""
    text, name = str(error), type(error).__name__
    if not text:
        return name
    told = kind is not errors.BackendError or type(error) is RuntimeError
    return text if told else f"{name}: {text}"


def _call(op: Op, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> str:
    values = [_describe(value) for value in inputs]
    # In the order of the signature: that of the dict depends on the way that the call took.
    names = [attribute.name for attribute in op.attributes if attribute.name in attributes]
    return f"({', '.join([*values, *(f'{name}={_short(attributes[name])}' for name in names)])})"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


def wrap_op_error(op: Op, error: errors.PullbackError) -> errors.PullbackError:
    """The error with the op's name before its message, which may begin with an inner op's name."""
    named = type(error)(f"{op.name}: {error}")
    # The attributes that a class of error has beside its message.
    named.__dict__.update(error.__dict__)
    named.op = op.name
    return named


def rename(error: errors.PullbackError, name: str) -> errors.PullbackError:
    """The same error, of a function that the user called, which calls one op under another name."""
    if error.op is not None:
        error.args = (f"{name}: {str(error).removeprefix(f'{error.op}: ')}",)
        error.op = name
    return error


def _named(op: Op, error: errors.PullbackError) -> errors.PullbackError:
    return error if error.op is not None else wrap_op_error(op, error)


def raise_explained(
    op: Op, error: Exception, inputs: tuple[Any, ...], attributes: Mapping[str, Any]
) -> NoReturn:
    """Raises the error that explains `error` to the caller of the op.

    An error of a signal handler is raised as it is: code that waits for a TimeoutError sees it.
    """
    if is_from_signal_handler(error) or getattr(error, "op", None) == op.name:
        raise error  # that of the op itself is from its body, and explained
    explained = explain(op, inputs, attributes)
    if explained is not None:
        raise explained from None
    if isinstance(error, errors.PullbackError):
        raise _named(op, error) from None
    device = next((x.device for x in inputs if isinstance(x, Tensor)), None)
    unsupported = None if device is None else unsupported_dtype(op, device, attributes)
    if unsupported is not None:
        raise unsupported from None
    kind = _wrong_argument(error) or errors.BackendError
    raise kind(f"{op.name}{_call(op, inputs, attributes)}: {_said(error, kind)}") from error


def as_accumulated(value: DTypeLike, source: DType) -> DType:
    """The dtype of a sum or product of values of the dtype `source`.

    The table of a sum is keyed by the dtype of its input alone, so it is checked here.

    Raises:
        DTypeError: for one that does not compute, or that would drop imaginary parts.
    """
    dtype = as_dtype(value)
    if kind(dtype) == STORED:
        raise errors.DTypeError(
            f"{dtype} stores values and does not compute; leave dtype out, and convert the result"
        )
    if is_complex(source) and not is_complex(dtype):
        raise errors.DTypeError(
            f"{source} in {dtype} would drop the imaginary parts; take pb.real(x) or pb.abs(x)"
        )
    return dtype


def unsupported_dtype(
    op: Op, device: Device, attributes: Mapping[str, Any]
) -> errors.DTypeError | None:
    """The error for a dtype among the attributes that the device's backend does not support."""
    backend = device.backend
    # What makes a tensor makes none that cannot compute.
    holds = backend.holds if op.inputs else backend.dtypes.__contains__
    for attribute in op.attributes:
        dtype = attributes[attribute.name]
        if attribute.form == "DTypeLike" and dtype is not None and not holds(as_dtype(dtype)):
            return errors.DTypeError(f"{op.name}: {backend.unsupported_dtype_message(dtype)}")
    return None


def _describe(value: object) -> str:
    if isinstance(value, Tensor):
        return f"{value.dtype}{list(value.shape)}"
    if isinstance(value, list):
        return "[" + ", ".join(_describe(item) for item in value) + "]"
    return _short(value)


def dtype_remark(flat: Sequence[Tensor | None]) -> str:
    """A remark on the dtype of the inputs, for an error on a missing kernel."""
    first = next((tensor for tensor in flat if tensor is not None), None)
    return "" if first is None else f" (or none for {first.dtype})"


def foreign_keywords(op: Op) -> list[str]:
    """PyTorch's names of `axis` and `keepdims`, and others', which a public op answers.

    They are parameters because Python rejects other keywords before any code of ours runs. As
    positional ones with a default they cost a third of what `**keywords` does. The first of them,
    or `FURTHER`, gets the first keyword argument that is given by position.
    """
    forms = {attribute.name: attribute.form for attribute in op.attributes}
    if not op.public:
        return []
    foreign = []
    if forms.keys() & {"axis", "axes"}:
        foreign.append("dim")
        if "keepdims" in forms:
            foreign.append("keepdim")
        elif op.name in _OF_DIMS:
            foreign.append("dims")
    foreign += _FURTHER.get(op.name, ())
    found = [name for name in foreign if name not in op.names]
    return found or [FURTHER] * bool(op.body.__kwdefaults__)


#: The ops that have `dims` in PyTorch.
_OF_DIMS = ("flip", "permute_dims", "roll", "tensordot")
#: What ops have elsewhere, and not in the standard.
_FURTHER = {"round": ["decimals"]}
