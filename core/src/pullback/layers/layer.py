"""`Layer`: variables, and what is computed with them; sizes come from the first input."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Sequence
from typing import Any

from pullback import dtypes, errors
from pullback._dispatch.convert import SCALAR_TYPES, from_any
from pullback._dispatch.recording import paused
from pullback._tree import leaves, like
from pullback.devices import Device
from pullback.dtypes import DType, DTypeLike
from pullback.layers import initializers
from pullback.layers.calls import CALLS
from pullback.layers.initializers import InitializerLike
from pullback.layers.policy import Policy, PolicyLike, StoredVariable, as_policy, in_force, policy
from pullback.ops.data_types import astype
from pullback.random import default_generator
from pullback.shapes import as_shape
from pullback.state import objects
from pullback.state.serialization import Configurable, make
from pullback.tensor import Tensor
from pullback.variable import Variable

__all__ = ["Layer"]


class Layer(Configurable):
    """The base of every layer. A subclass writes `call`, and `build` where it has variables.

    `build(input_shape)` runs once, at the first call, with the shape of the first input; there
    `add_variable(name, shape)` makes the variables. A layer that has variables of its own casts
    floating inputs to its dtype. A variable, or another layer, in any attribute is the layer's.

    Args:
        name: a name for messages; the path of a layer is that of the attributes it is in.
        trainable: whether its variables are trained.
        dtype: the dtype of its variables, and what inputs are cast to; float32 if None, or what
            `pb.layers.policy` says. A policy, such as "mixed_bfloat16", sets the two apart.
        input_shape: the shape of an input without its batch axis: layers that bring their sizes
            have their variables from the beginning.

    >>> class Scale(pb.layers.Layer):
    ...     def build(self, input_shape):
    ...         self.factor = self.add_variable("factor", input_shape[-1:], initializer="ones")
    ...     def call(self, x):
    ...         return x * self.factor
    >>> scale = Scale()
    >>> scale([[1.0, 2.0]]).tolist(), scale.factor.shape
    ([[1.0, 2.0]], (2,))
    """

    # Defaults on the class: a subclass need not call `super().__init__`.
    built: bool = False
    _name: str | None = None
    _trainable: bool = True
    _policy: Policy | None = None
    _input_shape: tuple[int, ...] | None = None
    _casts: bool = False
    _turn: object = None
    #: The shapes of the input and of the output of its first call.
    _shapes: tuple[Any, Any] | None = None

    def _begin(self) -> None:
        """Takes over the policy in force."""
        found = in_force()
        if found is not None:
            self._policy = found

    def __init__(
        self,
        *,
        name: str | None = None,
        trainable: bool = True,
        dtype: PolicyLike | None = None,
        input_shape: Sequence[int] | None = None,
    ) -> None:
        self._name = name
        self._trainable = bool(trainable)
        if dtype is not None:
            self._policy = as_policy(dtype)
            self._casts = True
        self._input_shape = None if input_shape is None else as_shape(input_shape)

    # For subclasses ------------------------------------------------------------------------------

    def build(self, input_shape: Any) -> None:
        """Makes the variables. `input_shape` is that of the first input, in its structure."""

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """What the layer computes. It gets `training` if it has a parameter of that name."""
        raise NotImplementedError(
            f"{type(self).__name__} has no call method; write `def call(self, x):`, which gives "
            f"what it computes"
        )

    def add_variable(
        self,
        name: str,
        shape: Sequence[int] = (),
        *,
        initializer: InitializerLike = "glorot_uniform",
        dtype: DTypeLike | None = None,
        trainable: bool = True,
        regularizer: Callable[[Variable], Tensor] | None = None,
        autocast: bool = True,
    ) -> Variable:
        """Makes a variable of this layer, which is found under `name`.

        Args:
            name: its name; also that of the attribute, if there is none of that name.
            shape: its shape.
            initializer: a name from `pb.layers.initializers`, or a function of shape and dtype.
            dtype: the layer's if None.
            trainable: whether it is trained.
            regularizer: a function of the variable, whose value is among the `losses`.
            autocast: whether, in mixed precision, it reads in the dtype that the layer computes in.

        Raises:
            LayerError: when the layer has a variable of that name.
        """
        kind = self.dtype if dtype is None else dtypes.as_dtype(dtype)
        value = initializers.get(initializer)(as_shape(shape), kind)
        compute = self.compute_dtype
        if autocast and kind != compute and dtypes.is_floating(kind):
            variable: Variable = StoredVariable(value, compute, name=name, trainable=trainable)
        else:
            variable = Variable(value, name=name, trainable=trainable)
        variable.frozen = not self._trainable
        self._casts = True
        there = getattr(self, name, None)
        more: dict[str, Variable] = vars(self).get("_variables", {})
        if isinstance(there, Variable) or name in more:
            raise errors.LayerError(f"there is a variable {name!r} already; name it otherwise")
        if there is None and name.isidentifier():
            setattr(self, name, variable)
        else:
            self._variables = {**more, name: variable}
        if regularizer is not None:
            penalty = functools.partial(regularizer, variable)
            self._penalties = [*vars(self).get("_penalties", ()), penalty]
        return variable

    def add_loss(self, value: Any) -> None:
        """Adds a tensor to the `losses` of the call that is under way."""
        if self._turn is not CALLS.turn or CALLS.turn is None:
            self._turn = CALLS.turn
            self._losses: list[Any] = []
        self._losses.append(value)

    # What it is ----------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The name it was given, or one made of its class."""
        if self._name is not None:
            return self._name
        return re.sub(r"(?<=[a-z])(?=[A-Z][a-z])", "_", type(self).__name__).lower()

    @property
    def dtype(self) -> DType:
        """The dtype of its variables."""
        return dtypes.DEFAULT_FLOAT if self._policy is None else self._policy.variables

    @property
    def compute_dtype(self) -> DType:
        """The dtype that its inputs are cast to, and its variables as they are read in a call."""
        return dtypes.DEFAULT_FLOAT if self._policy is None else self._policy.compute

    @property
    def named_variables(self) -> dict[str, Variable]:
        """Its variables, and those of the layers in it, by path."""
        return objects.named_variables(self)

    @property
    def variables(self) -> list[Variable]:
        """Its variables, and those of the layers in it, each once."""
        return list(objects.named_variables(self).values())

    @property
    def trainable_variables(self) -> list[Variable]:
        """The variables that are trained."""
        return [variable for variable in self.variables if variable.trainable]

    @property
    def sublayers(self) -> dict[str, Layer]:
        """The layers in it, by path."""
        places = objects.walk(self)
        return {
            place.path: place.value
            for place in places
            if place.first is None and place.path and isinstance(place.value, Layer)
        }

    @property
    def losses(self) -> list[Any]:
        """What `add_loss` and regularizers gave, in it and in the layers in it."""
        found: list[Any] = []
        for layer in (self, *self.sublayers.values()):
            found += vars(layer).get("_losses", ())
            found += [penalty() for penalty in vars(layer).get("_penalties", ())]
        return found

    @property
    def trainable(self) -> bool:
        """Whether its variables are trained; setting it is for all layers in it as well."""
        return self._trainable

    @trainable.setter
    def trainable(self, trainable: bool) -> None:
        for layer in (self, *self.sublayers.values()):
            layer._trainable = bool(trainable)
        for variable in self.variables:
            variable.frozen = not trainable

    @property
    def parameters(self) -> int:
        """The number of elements of its variables."""
        return sum(variable.size for variable in self.variables)

    # Configuration -------------------------------------------------------------------------------

    def constructor_arguments(self) -> dict[str, Any]:
        """The arguments of the constructor by name, and what else was set since."""
        found = super().constructor_arguments()
        for name in ("name", "dtype", "input_shape", "trainable"):
            if name in found and (found[name] is None or found[name] is True):
                del found[name]
        if not self._trainable:
            found["trainable"] = False
        if self._policy is not None and found.get("dtype") is None:
            found["policy"] = self._policy
        return found

    @classmethod
    def from_constructor_arguments(cls, arguments: dict[str, Any]) -> Any:
        """Makes a layer from what `constructor_arguments` gave."""
        rest = {name: value for name, value in arguments.items() if name != "policy"}
        frozen = rest.pop("trainable", True) is False
        with policy(arguments.get("policy")):
            layer = make(cls, rest)
        if frozen:
            layer.trainable = False
        return layer

    # Calling -------------------------------------------------------------------------------------

    def __call__(self, *args: Any, training: bool | None = None, **kwargs: Any) -> Any:
        """Calls the layer. `training` holds for the layers in it, too; it is False if not given."""
        outer = CALLS.training
        if training is None:
            training = outer
        if not CALLS.depth:
            CALLS.turn = object()
        CALLS.depth += 1
        CALLS.training = training
        try:
            # The loops leave quickly where there is nothing to do, which is nearly always.
            for arg in args:
                if type(arg) is not Tensor:
                    args = tuple([self._input(i, arg) for i, arg in enumerate(args)])
                    break
            if not self.built:
                self._build(args)
            if self._casts:
                wanted = self.compute_dtype
                for arg in args:
                    if type(arg) is not Tensor or arg.dtype is not wanted:
                        args = tuple([self._cast(arg) for arg in args])
                        break
            kind: Any = type(self)
            if training is not None and _takes_training(kind.call):
                kwargs["training"] = training
            result = self.call(*args, **kwargs)
            if self._shapes is None:
                self._shapes = (_shapes_in(args[0] if args else None), _shapes_in(result))
            return result
        except errors.PullbackError as error:
            raise self._explained(error, args) from error.__cause__
        finally:
            CALLS.depth -= 1
            CALLS.training = outer

    def _input(self, position: int, value: Any) -> Any:
        """An argument with tensors for host data; other arguments than the first may be no data."""
        kind = type(value)
        if kind is Tensor:
            return value
        if hasattr(kind, "__pullback_tensor__"):
            return from_any(value)
        if hasattr(kind, "__array__") or (position == 0 and kind in SCALAR_TYPES):
            return from_any(value, None, self._device())
        if isinstance(value, (list, tuple, dict)):
            flat = leaves(value)
            if any(hasattr(type(leaf), "__array__") for leaf in flat):
                return like(value, iter([self._input(position, leaf) for leaf in flat]))
            if position == 0 and isinstance(value, list):
                return from_any(value, None, self._device())
        return value

    def _device(self) -> Device | None:
        """Where host data go: to the variables, if there are any yet."""
        for place in objects.walk(self):
            if isinstance(place.value, Variable):
                return place.value.device
        return None

    def _cast(self, value: Any) -> Any:
        if type(value) is Tensor:
            dtype = value.dtype
            if dtype != self.compute_dtype and dtype in dtypes.REAL_FLOATING:
                return astype(value, self.compute_dtype)
            return value
        if isinstance(value, (list, tuple, dict)):
            return like(value, iter([self._cast(leaf) for leaf in leaves(value)]))
        return value

    def _build(self, args: tuple[Any, ...]) -> None:
        flat = leaves(args[0]) if args else []
        first = next((leaf for leaf in flat if type(leaf) is Tensor), None)
        if first is None:
            self.build_for(None)
            return
        # Variables are made where the first input is.
        with first.device:
            self.build_for(like(args[0], iter([getattr(leaf, "shape", None) for leaf in flat])))

    def build_for(self, shape: Any) -> None:
        """Builds for inputs of a shape, as the first call does."""
        before = default_generator.state
        CALLS.building += 1
        try:
            with paused():
                self.build(shape)
        finally:
            CALLS.building -= 1
        self.built = True
        if not self._trainable:
            self.trainable = False
        if objects.PENDING_RESTORES:
            self._settle(before)

    def _settle(self, before: tuple[int, int]) -> None:
        """Takes over what has been restored before there were variables.

        First values that are not needed then have not been drawn: random numbers go on from where
        the checkpoint put their generator.
        """
        held = (*vars(self).values(), *vars(self).get("_variables", {}).values())
        own = [value for value in held if isinstance(value, Variable)]
        first, after = [variable._array for variable in own], default_generator.state
        objects.restore_pending()
        replaced = [one._array is not array for one, array in zip(own, first, strict=True)]
        if own and all(replaced) and default_generator.state == after:
            default_generator.state = before

    def _build_if_sized(self) -> None:
        """For the end of a subclass's `__init__`: builds where sizes have been given."""
        if self._input_shape is not None:
            self.build_for((1, *self._input_shape))

    def _explained(self, error: errors.PullbackError, args: tuple[Any, ...]) -> Exception:
        """The error with the path of the layer that it happened in, seen from this one."""
        innermost: Layer | None = getattr(error, "layer", None)
        if innermost is None:
            reason = str(error)
            if isinstance(error, (errors.ShapeError, errors.AxisError)):
                given = ", ".join(_description(arg) for arg in args)
                error = errors.LayerError(f"{reason} (called with {given})" if given else reason)
            innermost = error.layer = self  # type: ignore[attr-defined]
            error.reason = str(error)  # type: ignore[attr-defined]
        path = objects.path_of(self, innermost)
        kind = type(innermost).__name__
        where = f"{path} ({kind})" if path else f"{innermost.name} ({kind})"
        error.args = (f"{where}: {error.reason}",)  # type: ignore[attr-defined]
        return error

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}, {self.parameters} parameters>"


@functools.lru_cache(maxsize=4096)
def _takes_training(call: Any) -> bool:
    """Whether a `call` as a class has it takes `training`; a class may be given another one."""
    parameters = inspect.signature(call).parameters
    if call is Layer.call:
        return False
    return "training" in parameters or any(
        parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values()
    )


def _shapes_in(value: Any) -> Any:
    """The shapes of the tensors in a structure, in it."""
    found = [tuple(leaf.shape) if isinstance(leaf, Tensor) else None for leaf in leaves(value)]
    return like(value, iter(found))


def _description(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"{value.dtype} {value.shape}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_description(item) for item in value) + "]"
    return type(value).__name__
