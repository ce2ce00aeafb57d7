"""The normal form of a call's attributes, and the errors that an op's own rules explain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from pullback import errors, shapes
from pullback.devices import Device, as_device
from pullback.dtypes import as_dtype
from pullback.spec import Op
from pullback.tensor import Tensor


def normalise(op: Op, inputs: list[Any], attributes: dict[str, Any]) -> dict[str, Any]:
    """The attributes in the form that kernels and bodies are given."""
    result = dict(attributes)
    for attribute in op.attributes:
        value = result[attribute.name]
        form = attribute.form
        if form == "DeviceLike":
            result[attribute.name] = as_device(value)
        elif value is None:
            continue
        elif form in ("Axis", "Axes"):
            ndim = _leading(inputs).ndim
            normal = shapes.normal_axis if form == "Axis" else shapes.normal_axes
            result[attribute.name] = normal(value, ndim)
        elif form == "ShapeLike":
            result[attribute.name] = shapes.as_shape(value)
        elif form == "DTypeLike":
            result[attribute.name] = as_dtype(value)
    if op.normalize is not None:
        result = op.normalize(shapes_of(inputs), **result)
    return result


def _leading(inputs: list[Any]) -> Tensor:
    first = inputs[0]
    if isinstance(first, list):
        if not first:
            raise errors.InputValueError("needs at least one tensor, got an empty sequence")
        first = first[0]
    assert isinstance(first, Tensor)
    return first


def shapes_of(inputs: Sequence[Any]) -> tuple[Any, ...]:
    """What a shape rule gets for the inputs."""
    return tuple(
        [t.shape for t in value]
        if isinstance(value, (list, tuple))
        else (None if value is None else value.shape)
        for value in inputs
    )


# ---------------------------------------------------------------------------------------------
# Errors.


def explain(op: Op, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> Exception | None:
    """The error that the op's own rules give for this call; None if they find none."""
    try:
        normal = normalise(op, list(inputs), attributes)
        op.shape(*shapes_of(inputs), **normal)
    except errors.PullbackError as error:
        return _named(op, error)
    except Exception:
        return None
    return None


def inside(op: Op, error: errors.PullbackError) -> errors.PullbackError:
    """The error with the op's name before what it says, which may be the name of one inside."""
    named = type(error)(f"{op.name}: {error}")
    # What a class of error carries beside its message goes along.
    named.__dict__.update(error.__dict__)
    named.op = op.name  # type: ignore[attr-defined]
    return named


def _named(op: Op, error: errors.PullbackError) -> errors.PullbackError:
    return error if getattr(error, "op", None) is not None else inside(op, error)


def fail(op: Op, error: Exception, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> NoReturn:
    """Raises what explains `error` to whoever called the op."""
    explained = explain(op, inputs, attributes)
    if explained is not None:
        raise explained from None
    if isinstance(error, errors.PullbackError):
        raise _named(op, error) from None
    device = next((x.device for x in inputs if isinstance(x, Tensor)), None)
    lacking = None if device is None else lacks(op, device, attributes)
    if lacking is not None:
        raise lacking from None
    given = ", ".join(_describe(value) for value in inputs)
    keywords = "".join(f", {name}={value!r}" for name, value in attributes.items())
    message = f"{op.name}({given}{keywords}): {error}"
    if isinstance(error, IndexError):
        raise errors.IndexingError(message) from error
    if isinstance(error, (TypeError, ValueError)):
        raise errors.InputValueError(message) from error
    if isinstance(error, MemoryError):
        raise error
    raise errors.BackendError(message) from error


def lacks(op: Op, device: Device, attributes: dict[str, Any]) -> errors.DTypeError | None:
    """The error for a dtype that was asked for and that the device's backend does not hold."""
    held = device.backend.dtypes
    for attribute in op.attributes:
        dtype = attributes[attribute.name]
        if attribute.form == "DTypeLike" and dtype is not None and as_dtype(dtype) not in held:
            return errors.DTypeError(f"{op.name}: {device.backend.holds_no(dtype)}")
    return None


def _describe(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"{value.dtype}{list(value.shape)}"
    if isinstance(value, list):
        return "[" + ", ".join(_describe(item) for item in value) + "]"
    return repr(value)


def for_dtype(flat: Sequence[Tensor | None]) -> str:
    """A remark on the dtype of the inputs, for an error on a missing kernel."""
    first = next((tensor for tensor in flat if tensor is not None), None)
    return "" if first is None else f" (or none for {first.dtype})"
