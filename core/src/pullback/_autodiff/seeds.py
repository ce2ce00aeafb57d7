"""Both ends of the backward pass: targets and their cotangents, gradients and Jacobians."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from pullback import dtypes, errors
from pullback._dispatch.convert import constant, from_any
from pullback._dispatch.recording import CONSTANT, RECORDING, unfollowed
from pullback.ops.complex import conj
from pullback.ops.creation import full
from pullback.ops.joining import stack
from pullback.ops.patterns import one_hot
from pullback.tensor import Tensor, new_tensor, wrap

#: The gradient of a source on which the target does not depend.
Unconnected = Literal["none", "zero"]


def target_of(value: Any) -> Tensor:
    """The target of a gradient, as a tensor that some tape has recorded.

    Raises:
        InputTypeError: for host data.
        TapeError: for a tensor made while no tape was recording, or of constants alone.
        DTypeError: for integers.
    """
    if type(value) is not Tensor:
        if not hasattr(type(value), "__pullback_tensor__"):
            raise errors.InputTypeError(
                f"the target of a gradient is a tensor, got {type(value).__name__}; "
                f"compute it with pullback's ops inside `with tape:`"
            )
        value = from_any(value)
    tensor: Tensor = value
    if tensor._node is None:
        raise errors.TapeError(
            "the target is not on the tape: it was made while no tape was recording, or of "
            "constants alone; compute it inside `with tape:`, from variables or from tensors that "
            "tape.watch(x) got"
        )
    if not dtypes.is_floating(tensor.dtype):
        raise errors.DTypeError(
            f"the target has dtype {tensor.dtype}, and integers have no gradient; "
            f"convert the inputs to a floating dtype"
        )
    return tensor


def ones(target: Tensor) -> Tensor:
    """The cotangent of a target that stands for its sum, as a tensor that a rule may change."""
    if target._array.shape:
        return full(target.shape, 1, dtype=target.dtype, device=target._device)
    device = target._device
    one: Tensor | None = device.constants.get(target._array.dtype)
    if one is None:
        with unfollowed():
            one = device.constants[target._array.dtype] = constant(1, target.dtype, device)
    return wrap(one._array, device)


def check_output_gradients(
    target: object, targets: list[Tensor], output_gradients: object
) -> list[Tensor]:
    """The cotangents that the caller passes, one for each target.

    Raises:
        InputValueError: for more or fewer of them.
        ShapeError: for a cotangent of another shape than its target.
    """
    matched = match(target, output_gradients)
    if matched is None or len(matched) != len(targets):
        raise errors.InputValueError(
            f"{len(targets)} targets, and output_gradients of another structure; give one for each"
        )
    seeds = []
    for tensor, seed in zip(targets, matched, strict=True):
        seed = from_any(seed, tensor.dtype, tensor.device)
        if seed.shape != tensor.shape:
            raise errors.ShapeError(
                f"an output_gradient of shape {seed.shape} for a target of shape {tensor.shape}"
            )
        seeds.append(conj(seed) if dtypes.is_complex(seed.dtype) else seed)
    return seeds


def match(target: object, cotangents: object) -> list[Any] | None:
    """The cotangent at the place of each leaf of `target`; None if the structures differ."""
    if isinstance(target, dict) and isinstance(cotangents, dict):
        if not cotangents.keys() <= target.keys():
            return None
        pairs = [(value, cotangents.get(key)) for key, value in target.items()]
    elif isinstance(target, (list, tuple)) and isinstance(cotangents, (list, tuple)):
        if len(target) != len(cotangents):
            return None
        pairs = list(zip(target, cotangents, strict=True))
    else:
        nested = isinstance(target, (dict, list, tuple))
        return None if nested or cotangents is None else [cotangents]
    flat: list[Any] = []
    for part, cotangent in pairs:
        if part is not None:
            below = match(part, cotangent)
            if below is None:
                return None
            flat += below
    return flat


def zeros(source: Any) -> Tensor:
    """The gradient of a source on which the target does not depend."""
    return full(tuple(source.shape), 0, dtype=source.dtype, device=source.device)


def finalize_gradient(gradient: Any) -> Tensor | None:
    """The gradient that the caller gets, made of the cotangent; None stays None."""
    if gradient is None:
        return None
    if isinstance(gradient, dict):
        gradient = next(iter(gradient.values()))
    if dtypes.is_complex(gradient.dtype):
        # Rules work with the plain transpose; the convention of the field is its conjugate.
        gradient = conj(gradient)
    # A handle of its own: a rule may hand on a cached constant, or one tensor to two sources.
    handle = new_tensor()
    handle._array = gradient._array
    handle._device = gradient._device
    handle._base = None
    handle._node = gradient._node or (CONSTANT if RECORDING.count else None)
    return handle


def unit_seeds(target: Tensor, *, batch: bool = False) -> Iterator[Tensor]:
    """One cotangent for each element of the target (or, with `batch`, of one of its items)."""
    lead = target.shape[:1] if batch else ()
    size = target.size // max(lead[0], 1) if batch else target.size
    for i in range(size):
        index = full(lead, i, dtype="int32", device=target.device)
        yield one_hot(index, size, dtype=target.dtype).reshape(target.shape)


def stacked(rows: list[list[Any]], target: Tensor, sources: list[Any]) -> list[Any]:
    """The Jacobian of the target for each source, from one gradient per element of the target."""
    results: list[Any] = []
    for position, source in enumerate(sources):
        shape = (*target.shape, *source.shape)
        column = [row[position] for row in rows]
        if not column:
            results.append(full(shape, 0, dtype=source.dtype, device=target.device))
        elif column[0] is None:
            results.append(None)
        else:
            results.append(stack(column).reshape(shape))
    return results


def stacked_by_item(rows: list[Any], target: Tensor, source: Any) -> Any:
    """The Jacobian of each item, from one gradient per element of an item of the target."""
    shape = (*target.shape, *source.shape[1:])
    if not rows:
        return full(shape, 0, dtype=source.dtype, device=target.device)
    if rows[0] is None:
        return None
    return stack(rows, axis=1).reshape(shape)
