"""Precision: in which dtype a layer keeps its variables, and in which it computes.

Mixed precision (Micikevicius et al., 2018) keeps variables in float32 and computes in 16 bits. With
float16, whose range is small, gradients need `pb.optimizers.LossScale`.
"""

from __future__ import annotations

import threading
from typing import Any, TypeAlias

from pullback import dtypes, errors
from pullback.dtypes import DType, DTypeLike
from pullback.layers.calls import CALLS
from pullback.ops.data_types import astype
from pullback.tensor import Tensor
from pullback.variable import Variable

__all__ = ["Policy", "PolicyLike", "StoredVariable", "as_policy", "policy"]


class Policy:
    """The dtypes of a layer.

    Args:
        variables: that of its variables.
        compute: that which its inputs and, as it reads them, its variables are cast to; that of the
            variables if None.

    >>> pb.layers.Policy("float32", "bfloat16")
    Policy('float32', 'bfloat16')

    Raises:
        DTypeError: for a dtype to compute in that is neither real floating nor the variables'.
    """

    opaque_state = True
    __slots__ = ("compute", "variables")

    def __init__(self, variables: DTypeLike, compute: DTypeLike | None = None) -> None:
        self.variables: DType = dtypes.as_dtype(variables)
        self.compute: DType = self.variables if compute is None else dtypes.as_dtype(compute)
        if self.compute != self.variables and self.compute not in dtypes.REAL_FLOATING:
            raise errors.DTypeError(f"a layer computes in a real floating dtype, not {compute}")

    @property
    def config_name(self) -> str:
        """The name by which `as_policy` gives it."""
        if self.compute is self.variables:
            return self.variables.name
        return f"{self.variables.name}/{self.compute.name}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Policy) and self.config_name == other.config_name

    def __hash__(self) -> int:
        return hash(self.config_name)

    def __repr__(self) -> str:
        return f"Policy({self.variables.name!r}, {self.compute.name!r})"


PolicyLike: TypeAlias = "Policy | DTypeLike"


def as_policy(value: PolicyLike) -> Policy:
    """The policy that is meant by a dtype, by "mixed_bfloat16", "mixed_float16", or a policy.

    "float32/bfloat16" is variables in float32, and bfloat16 to compute in.

    Raises:
        DTypeError: for anything else.
    """
    if isinstance(value, Policy):
        return value
    if isinstance(value, str):
        if value.startswith("mixed_"):
            return Policy(dtypes.float32, value.removeprefix("mixed_"))
        variables, _, compute = value.partition("/")
        return Policy(variables, compute or None)
    return Policy(value)


class _Local(threading.local):
    found: Policy | None = None


_IN_FORCE = _Local()


class policy:
    """Layers made inside `with pb.layers.policy(...)` follow a policy, where none is given to them.

    Args:
        value: a policy, the name of one such as "mixed_bfloat16", or a dtype; None changes nothing.

    >>> with pb.layers.policy("mixed_bfloat16"):
    ...     model = pb.Sequential([pb.layers.Dense(4), pb.layers.Dense(2, dtype="float32")])
    >>> model(pb.ones((1, 3))).dtype, model.layers[0](pb.ones((1, 3))).dtype
    (dtype('float32'), dtype(bfloat16))
    >>> {variable.dtype for variable in model.variables}
    {dtype('float32')}

    Raises:
        DTypeError: for what is neither.
    """

    def __init__(self, value: PolicyLike | None) -> None:
        self._value = None if value is None else as_policy(value)
        self._outer: list[Policy | None] = []

    def __enter__(self) -> Policy | None:
        self._outer.append(_IN_FORCE.found)
        if self._value is not None:
            _IN_FORCE.found = self._value
        return _IN_FORCE.found

    def __exit__(self, *_: Any) -> None:
        _IN_FORCE.found = self._outer.pop()


def in_force() -> Policy | None:
    """The policy that layers made now follow."""
    return _IN_FORCE.found


class StoredVariable(Variable):
    """A variable of a layer that computes in another dtype: inside calls it reads as that."""

    __slots__ = ("_compute",)

    def __init__(self, value: Any, compute: DType, **rest: Any) -> None:
        super().__init__(value, **rest)
        self._compute = compute

    def __pullback_tensor__(self) -> Tensor:
        tensor = super().__pullback_tensor__()
        if not CALLS.depth or CALLS.building:
            return tensor
        return astype(tensor, self._compute)

    def __copy__(self) -> StoredVariable:
        copy = StoredVariable(
            self.numpy(), self._compute, name=self.name, trainable=self._trainable,
            device=self.device,
        )  # fmt: skip
        copy.frozen = self._frozen
        return copy
