"""Precision: the dtype in which a layer keeps its variables, and the dtype in which it computes.

Mixed precision (Micikevicius et al., 2018) keeps variables in float32 and computes in 16 bits. With
float16, whose range is small, gradients need `pb.optimizers.LossScale`.
"""

from __future__ import annotations

import threading
from typing import TypeAlias

from pullback import dtypes, errors
from pullback._dispatch.recording import AMBIENT, announce_ambient
from pullback._symbols import TRACES
from pullback.devices import DeviceLike
from pullback.dtypes import DType, DTypeLike
from pullback.layers.calls import CALLS
from pullback.ops.data_types import astype
from pullback.tensor import Tensor, TensorLike
from pullback.variable import Variable

__all__ = ["Policy", "PolicyLike", "StoredVariable", "as_policy", "policy"]


class Policy:
    """The dtypes of a layer.

    Args:
        param_dtype: the dtype of its variables.
        compute_dtype: the dtype to which inputs, and variables as the layer reads them, are cast;
            `param_dtype` if None.

    >>> pb.layers.Policy("float32", "bfloat16")
    Policy('float32', 'bfloat16')

    Raises:
        DTypeError: for a compute dtype that is neither real floating nor `param_dtype`.
    """

    __slots__ = ("compute_dtype", "param_dtype")

    #: A policy holds no state to save.
    opaque_state = True

    def __init__(self, param_dtype: DTypeLike, compute_dtype: DTypeLike | None = None) -> None:
        self.param_dtype: DType = dtypes.as_dtype(param_dtype)
        self.compute_dtype: DType = (
            self.param_dtype if compute_dtype is None else dtypes.as_dtype(compute_dtype)
        )
        if (
            self.compute_dtype != self.param_dtype
            and self.compute_dtype not in dtypes.REAL_FLOATING
        ):
            raise errors.DTypeError(
                f"compute_dtype must be a real floating dtype, got {compute_dtype}"
            )

    @property
    def config_name(self) -> str:
        """The name that `as_policy` turns into this policy."""
        if self.compute_dtype is self.param_dtype:
            return self.param_dtype.name
        return f"{self.param_dtype.name}/{self.compute_dtype.name}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Policy) and self.config_name == other.config_name

    def __hash__(self) -> int:
        return hash(self.config_name)

    def __repr__(self) -> str:
        return f"Policy({self.param_dtype.name!r}, {self.compute_dtype.name!r})"


PolicyLike: TypeAlias = "Policy | DTypeLike"


def as_policy(value: PolicyLike) -> Policy:
    """Returns the policy for a policy, a dtype, "mixed_bfloat16" or "mixed_float16".

    "float32/bfloat16" keeps variables in float32 and computes in bfloat16.

    Raises:
        DTypeError: for anything else.
    """
    if isinstance(value, Policy):
        return value
    if isinstance(value, str):
        if value.startswith("mixed_"):
            return Policy(dtypes.float32, value.removeprefix("mixed_"))
        param_dtype, _, compute_dtype = value.partition("/")
        return Policy(param_dtype, compute_dtype or None)
    return Policy(value)


class _Active(threading.local):
    policy: Policy | None = None


_ACTIVE = _Active()


class policy:
    """Sets the policy of layers made inside `with pb.layers.policy(...)`.

    A layer that is made with a `dtype` of its own keeps that.

    Args:
        value: a policy, the name of one such as "mixed_bfloat16", or a dtype; None changes nothing.

    >>> with pb.layers.policy("mixed_bfloat16"):
    ...     model = pb.Sequential([pb.layers.Dense(4), pb.layers.Dense(2, dtype="float32")])
    >>> model(pb.ones((1, 3))).dtype, model.layers[0](pb.ones((1, 3))).dtype
    (dtype('float32'), dtype(bfloat16))
    >>> {variable.dtype for variable in model.variables}
    {dtype('float32')}

    Raises:
        DTypeError: for a value that names no policy.
    """

    def __init__(self, value: PolicyLike | None) -> None:
        self._value = None if value is None else as_policy(value)
        self._outer: list[Policy | None] = []

    def __enter__(self) -> Policy | None:
        self._outer.append(_ACTIVE.policy)
        if self._value is not None:
            _ACTIVE.policy = self._value
        return _ACTIVE.policy

    def __exit__(self, *_: object) -> None:
        _ACTIVE.policy = self._outer.pop()


def active_policy() -> Policy | None:
    """The policy that new layers follow."""
    announce_ambient()
    return _ACTIVE.policy


AMBIENT += [
    (CALLS, "training", "whether a layer is called for training"),
    (CALLS, "depth", "the number of layers in whose call it is"),
    (_ACTIVE, "policy", "the policy of layers"),
]


class StoredVariable(Variable):
    """A variable of a layer that computes in another dtype; inside calls it reads in that dtype."""

    __slots__ = ("_compute_dtype",)

    def __init__(
        self,
        value: TensorLike,
        compute_dtype: DType,
        *,
        name: str | None = None,
        trainable: bool = True,
        device: DeviceLike | None = None,
    ) -> None:
        super().__init__(value, name=name, trainable=trainable, device=device)
        self._compute_dtype = compute_dtype

    def __pullback_tensor__(self) -> Tensor:
        tensor = super().__pullback_tensor__()
        if TRACES.count:
            announce_ambient()
        if not CALLS.depth or CALLS.building:
            return tensor
        return astype(tensor, self._compute_dtype)

    def __copy__(self) -> StoredVariable:
        copy = StoredVariable(
            self.numpy(), self._compute_dtype, name=self.name, trainable=self._trainable,
            device=self.device,
        )  # fmt: skip
        copy.frozen = self._frozen
        return copy
