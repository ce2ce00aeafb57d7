"""`Layer`: variables and a computation with them; sizes come from the first input."""

from __future__ import annotations

import functools
import re
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

from pullback import dtypes, errors
from pullback._dispatch.arguments import as_bool
from pullback._dispatch.convert import from_any
from pullback._dispatch.host_data import SCALAR_TYPES
from pullback._dispatch.host_state import HostState
from pullback._dispatch.recording import announce_layer, capturing, paused, reject_making
from pullback._symbols import TRACES
from pullback._tree import leaves, like, mapped
from pullback.devices import Device
from pullback.dtypes import DType, DTypeLike
from pullback.layers import initializers, regularizers
from pullback.layers.building import builds_whole
from pullback.layers.call_errors import (
    add_layer_note,
    check_replacement,
    of_input,
    of_shape,
    with_path,
)
from pullback.layers.calls import (
    CALLS,
    BuiltFor,
    FirstCall,
    SymbolicCalls,
    SymbolicPart,
    batch_of,
    shapes_in,
)
from pullback.layers.initializers import InitializerLike
from pullback.layers.loss_terms import LossTerms, penalties
from pullback.layers.masks import has_mask, reject_mask
from pullback.layers.policy import (
    Policy,
    PolicyLike,
    StoredVariable,
    active_policy,
    as_policy,
    policy,
)
from pullback.layers.regularizers import RegularizerLike
from pullback.layers.summary import html
from pullback.layers.training_mode import takes_training
from pullback.ops.data_types import astype
from pullback.random import default_generator
from pullback.shapes import as_shape
from pullback.state import VariableList, objects
from pullback.state.serialization import Configurable, make
from pullback.strings import StringTensor, is_text
from pullback.tensor import Tensor
from pullback.variable import Variable

__all__ = ["Layer"]


class Layer(Configurable):
    """The base of every layer. A subclass writes `call`, and `build` where it has variables.

    `build(input_shape)` runs once, at the first call, with the shape of the first input; it makes
    the variables with `add_variable(name, shape)`. A layer that has variables of its own casts
    floating inputs to its dtype. A variable or layer in any attribute is part of the layer.

    Args:
        name: a name for messages; the path of a layer is that of the attributes it is in.
        trainable: whether its variables are trained.
        dtype: the dtype of its variables and of its inputs, which are cast; None takes the active
            `pb.layers.policy`, or float32. A policy such as "mixed_bfloat16" has one dtype for
            variables and another to compute in.
        input_shape: the shape of an input without its batch axis; with it, variables are made at
            once instead of at the first call.

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
    #: The shape that it was built for.
    _built_for: BuiltFor | None = None
    #: Its first call: what `summary` tells.
    _first_call: FirstCall | None = None
    #: Its calls with symbolic tensors.
    _symbolic_calls: SymbolicCalls | None = None
    #: The symbolic tensors that it was called with, and that it returned, if it was called so once.
    input: Any = SymbolicPart("args")
    output: Any = SymbolicPart("result")

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "build" in vars(cls):
            cls.build = builds_whole(vars(cls)["build"])  # type: ignore[method-assign]

    def _begin(self) -> None:
        """Takes the active policy."""
        active = active_policy()
        if active is not None:
            self._policy = active

    def __init__(
        self,
        *,
        name: str | None = None,
        trainable: bool = True,
        dtype: PolicyLike | None = None,
        input_shape: Sequence[int] | None = None,
    ) -> None:
        if name is not None and not isinstance(name, str):
            raise errors.InputTypeError(f"the name of a layer is a text, got {name!r}")
        if not isinstance(trainable, (bool, int)):
            raise errors.InputTypeError(f"trainable is True or False, got {trainable!r}")
        self._name = name
        self._trainable = bool(trainable)
        if dtype is not None:
            self._policy = as_policy(dtype)
            self._casts = True
        self._input_shape = None if input_shape is None else as_shape(input_shape)

    if not TYPE_CHECKING:  # a type checker would take any attribute then

        def __setattr__(self, name: str, value: object) -> None:
            if isinstance(vars(self).get(name), Variable):
                check_replacement(self, name, value)
            object.__setattr__(self, name, value)

    # For subclasses ------------------------------------------------------------------------------

    @builds_whole
    def build(self, input_shape: Any) -> None:
        """Makes the variables; a class has its own. The first call calls it.

        A program that wants them earlier calls it, and gets those of the layers in it as well; a
        layer that is built stays as it is.

        >>> model = pb.Sequential([pb.layers.Dense(10), pb.layers.Dense(1)])
        >>> model.build((None, 4))
        >>> model.parameter_count
        61

        Args:
            input_shape: the shape of the first input, with None for an axis of any size; a
                structure of shapes for a structure.
        """

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Computes the output. A parameter named `training` is passed where a call has it."""
        raise NotImplementedError(
            f"{type(self).__name__} has no call method; write `def call(self, x):`, which returns "
            f"the output"
        )

    def call_masked(self, *args: Any, **kwargs: Any) -> Any:
        """Returns the result of a call with `Masked` values. A class sets it, or writes a method.

        `call_masked = pb.layers.keep_mask` is for a layer that computes each step by itself, and
        `pb.layers.pass_mask` for one whose `call` gets the `Masked`. Without either, a call raises.

        Args:
            args: the inputs, a `Masked` among them or in a list of them.
            kwargs: `training`, and keyword arguments of `call`.

        >>> class Double(pb.layers.Layer):
        ...     call_masked = pb.layers.keep_mask
        ...     def call(self, x):
        ...         return x * 2
        >>> Double()(pb.layers.Masking()([[[1.0], [0.0]]])).mask.tolist()
        [[True, False]]

        Raises:
            LayerError: for a class that sets nothing.
        """
        reject_mask(self)

    def add_variable(
        self,
        name: str,
        shape: Sequence[int] = (),
        *,
        initializer: InitializerLike = "glorot_uniform",
        dtype: DTypeLike | None = None,
        trainable: bool = True,
        regularizer: RegularizerLike = None,
        autocast: bool = True,
    ) -> Variable:
        """Makes a variable of this layer.

        Args:
            name: its name, and the name of an attribute that is set to it unless it is taken.
            shape: its shape.
            initializer: a name from `pb.layers.initializers`, or a function of shape and dtype.
            dtype: its dtype; the layer's if None.
            trainable: whether it is trained.
            regularizer: a function of the variable, whose value is added to the `losses`, or the
                name of one of `pb.layers.regularizers`.
            autocast: whether, in mixed precision, it reads in the layer's compute dtype.

        Raises:
            InputTypeError: for a name that is not a str.
            LayerError: when the layer already has a variable of that name.
        """
        if not isinstance(name, str):
            raise errors.InputTypeError(f"name must be a str, got {type(name).__name__}")
        casts = as_bool(autocast, "autocast")
        # Before the initializer draws, which ends a trace as well.
        reject_making(f"a variable ({name!r})")
        kind = self.dtype if dtype is None else dtypes.as_dtype(dtype)
        value = initializers.get(initializer)(as_shape(shape), kind)
        if casts and kind != self.compute_dtype and dtypes.is_floating(kind):
            variable: Variable = StoredVariable(
                value, self.compute_dtype, name=name, trainable=trainable
            )
        else:
            variable = Variable(value, name=name, trainable=trainable)
        variable.frozen = not self._trainable
        self._casts = True
        existing = getattr(self, name, None)
        more: dict[str, Variable] = vars(self).get("_variables", {})
        if isinstance(existing, Variable) or name in more:
            raise errors.LayerError(
                f"the layer already has a variable {name!r}; choose another name"
            )
        if existing is None and name.isidentifier():
            setattr(self, name, variable)
        else:
            self._variables = {**more, name: variable}
        penalize = regularizers.get(regularizer)
        if penalize is not None:
            penalty = functools.partial(penalize, variable)
            self._penalties = LossTerms([*vars(self).get("_penalties", ()), penalty])
        return variable

    def add_loss(self, value: Tensor) -> None:
        """Adds a tensor to the `losses` of the current call."""
        if "_losses" not in vars(self):
            self._losses = HostState(LossTerms(), "the losses of a layer")
        earlier = CALLS.losses.get(id(self), list)
        added = LossTerms([*(earlier() or ()), value])
        CALLS.losses[id(self)] = weakref.ref(added)
        self._losses.set(added)

    # Properties ----------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """Its name; the name of its class, in lower case, if none was set."""
        if self._name is not None:
            return self._name
        return re.sub(r"(?<=[a-z])(?=[A-Z][a-z])", "_", type(self).__name__).lower()

    @property
    def dtype(self) -> DType:
        """The dtype of its variables."""
        return dtypes.DEFAULT_FLOAT if self._policy is None else self._policy.param_dtype

    @property
    def compute_dtype(self) -> DType:
        """The dtype to which inputs are cast, and variables as a call reads them."""
        return dtypes.DEFAULT_FLOAT if self._policy is None else self._policy.compute_dtype

    @property
    def named_variables(self) -> dict[str, Variable]:
        """Its variables, and those of the layers in it, by path."""
        return objects.named_variables(self)

    @property
    def variables(self) -> list[Variable]:
        """Its variables, and those of the layers in it, each once."""
        return VariableList(objects.named_variables(self).values())

    @property
    def trainable_variables(self) -> list[Variable]:
        """The variables that are trained."""
        return VariableList(variable for variable in self.variables if variable.trainable)

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
    def losses(self) -> list[Tensor]:
        """The values of `add_loss` and regularizers, of this layer and the layers in it."""
        losses: list[Tensor] = []
        if not LossTerms.ever:
            # Looking for layers takes a tenth of a step of a small model.
            return losses
        for layer in (self, *self.sublayers.values()):
            if "_losses" in vars(layer):
                losses += layer._losses.get()
            losses += penalties(vars(layer).get("_penalties", ()))
        return losses

    @property
    def trainable(self) -> bool:
        """True if its variables are trained; setting it also sets it for all layers in it."""
        return self._trainable

    @trainable.setter
    def trainable(self, trainable: bool) -> None:
        for layer in (self, *self.sublayers.values()):
            layer._trainable = bool(trainable)
        for variable in self.variables:
            variable.frozen = not trainable

    @property
    def parameter_count(self) -> int:
        """The number of elements of its variables."""
        return sum(variable.size for variable in self.variables)

    # Configuration -------------------------------------------------------------------------------

    def constructor_arguments(self) -> dict[str, Any]:
        """The arguments of the constructor by name, with `trainable` and the policy of now."""
        arguments = super().constructor_arguments()
        for name in ("name", "dtype", "input_shape", "trainable"):
            if name in arguments and (arguments[name] is None or arguments[name] is True):
                del arguments[name]
        if not self._trainable:
            arguments["trainable"] = False
        if self._policy is not None and arguments.get("dtype") is None:
            arguments["policy"] = self._policy
        return arguments

    @classmethod
    def from_constructor_arguments(cls, arguments: dict[str, Any]) -> Self:
        """Makes a layer from the result of `constructor_arguments`."""
        remaining = {name: value for name, value in arguments.items() if name != "policy"}
        frozen = remaining.pop("trainable", True) is False
        with policy(arguments.get("policy")):
            layer = make(cls, remaining)
        if frozen:
            layer.trainable = False
        return layer

    # Calling -------------------------------------------------------------------------------------

    def __call__(self, *args: Any, training: bool | None = None, **kwargs: Any) -> Tensor:
        """Calls the layer.

        Args:
            args: tensors, host data, or structures of them.
            training: whether this is a call for training, also for the layers in it; None takes
                the outer call's, or False.
            kwargs: keyword arguments of `call`.
        """
        outer = CALLS.training
        if training is None:
            training = outer
        if not CALLS.depth:
            CALLS.losses = {}
            if self._first_call is None:
                CALLS.batch = batch_of(args)
        CALLS.depth += 1
        CALLS.training = training
        try:
            # The loops end early where nothing has to be converted, which is nearly always.
            for arg in args:
                if type(arg) is not Tensor:
                    args = tuple([self._input(i, arg) for i, arg in enumerate(args)])
                    if has_mask(args):
                        of_mask: Tensor = self.call_masked(*args, training=training, **kwargs)
                        if of_mask is not NotImplemented:
                            return of_mask
                    break
            if not self.built:
                self._build(args)
            if self._casts:
                wanted = self.compute_dtype
                for arg in args:
                    if type(arg) is not Tensor or arg.dtype != wanted:
                        args = tuple([self._cast(arg) for arg in args])
                        break
            if training is not None and takes_training(type(self).call):
                kwargs["training"] = training
            if TRACES.count:
                announce_layer(self)
            result: Tensor = self.call(*args, **kwargs)
            if self._first_call is None:
                self._first_call = FirstCall(args[0] if args else None, result)
            return result
        except errors.SymbolicError as error:
            if error.apply is None or CALLS.depth > 1:
                raise
            keep = error.apply
        except errors.PullbackError as error:
            explained = with_path(self, error, args)
            if explained is error:
                raise
            # In the place of the error: with its frames, and with what it was raised from.
            context = None if error.__suppress_context__ else error.__context__
            raise explained.with_traceback(error.__traceback__) from error.__cause__ or context
        except Exception as error:
            wrong = of_input(self, error, args)
            if wrong is not None:
                raise wrong from error
            add_layer_note(self, error, args)
            raise
        finally:
            CALLS.depth -= 1
            CALLS.training = outer
        if training is not None and training is not outer:
            kwargs["training"] = training
        kept: Tensor = keep(self, args, kwargs)
        return kept

    def called_with_symbols(self, call: Any) -> None:
        """Takes note of a call with symbolic tensors."""
        before = 0 if self._symbolic_calls is None else self._symbolic_calls.count
        self._symbolic_calls = SymbolicCalls(before + 1, call)
        if not before and self._first_call is not None:
            self._first_call.batch, self._first_call.shapes = None, shapes_in(call.result)

    def _input(self, position: int, value: Any) -> Any:
        """Converts the host data in an argument; numbers and lists in the first argument only."""
        kind = type(value)
        if kind is Tensor:
            return value
        if hasattr(kind, "__pullback_tensor__"):
            return from_any(value)
        if is_text(value):
            return StringTensor(value)
        if hasattr(kind, "__array__"):
            return from_any(value, None, self._device())
        if position == 0 and kind in SCALAR_TYPES:
            return self._from_host(value)
        if isinstance(value, (list, tuple, dict)):
            flat = leaves(value)
            if any(hasattr(type(leaf), "__array__") for leaf in flat):
                return like(value, iter([self._input(position, leaf) for leaf in flat]))
            if position == 0 and isinstance(value, list):
                return self._from_host(value)
        return value

    def _from_host(self, value: object) -> Tensor:
        """A tensor of Python's numbers; a layer in double precision gets all their digits."""
        device = self._device()
        x = from_any(value, None, device)
        if x.dtype == dtypes.DEFAULT_FLOAT and self._numbers_dtype() == dtypes.float64:
            return from_any(value, dtypes.float64, device)
        return x

    def _numbers_dtype(self) -> DType | None:
        """The dtype of the first layer that has one of its own, or of the first float variable."""
        for place in objects.walk(self):
            part = place.value
            if isinstance(part, Layer) and part._policy is not None:
                return part.compute_dtype
            if isinstance(part, Variable) and dtypes.is_floating(part.dtype):
                return part.dtype
        return None

    def _device(self) -> Device | None:
        """The device of its variables, where host data go; None before there are any."""
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
            return mapped(self._cast, value)
        return value

    def _build(self, args: tuple[Any, ...]) -> None:
        flat = leaves(args[0]) if args else []
        first = next((leaf for leaf in flat if type(leaf) is Tensor), None)
        if first is None:
            self.build_for(None)
            return
        # Variables are made where the first input is.
        capture = capturing()
        with first.device if capture is None else capture.building(first.device):
            self.build_for(like(args[0], iter([getattr(leaf, "shape", None) for leaf in flat])))

    def build_for(self, shape: Any) -> None:
        """Builds the layer for inputs of a shape, as the first call does.

        Raises:
            InputTypeError: for what is not a shape.
        """
        before = default_generator.now if objects.PENDING_RESTORES else None
        CALLS.building.append(self)
        try:
            with paused():
                self.build(shape)
        except Exception as error:
            wrong = None if shape is None and CALLS.depth else of_shape(self, error, shape)
            if wrong is not None:
                raise wrong from error
            raise
        finally:
            CALLS.building.pop()
        self.built = True
        self._built_for = BuiltFor(shape)
        if not self._trainable:
            self.trainable = False
        if before is not None:
            self._restore_pending(before)

    def _restore_pending(self, before: tuple[int, int]) -> None:
        """Restores values that a checkpoint had for variables that did not exist yet.

        If all first values are replaced, the random numbers for them count as not drawn: the
        generator continues from the state that the checkpoint restored.
        """
        values = (*vars(self).values(), *vars(self).get("_variables", {}).values())
        own = [value for value in values if isinstance(value, Variable)]
        first, after = [variable._array for variable in own], default_generator.now
        objects.restore_pending()
        replaced = [part._array is not array for part, array in zip(own, first, strict=True)]
        if own and all(replaced) and default_generator.now == after:
            default_generator.state = before

    def _build_if_sized(self) -> None:
        """Builds a layer with an `input_shape`; the last call in an `__init__`."""
        if self._input_shape is not None:
            self.build_for((1, *self._input_shape))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}, {self.parameter_count} parameters>"

    def _repr_html_(self) -> str:
        # As notebooks show it: the table of `summary`.
        return html(self)
