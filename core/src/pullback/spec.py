"""The record of an op: its inputs, attributes, rules and class of accuracy. Data only.

The `@op` decorator fills these records; dispatch, the tape, the conformance kit and the API
reference read them. A rule or a kernel is looked up here and nowhere else.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any, TypeAlias

from pullback import errors
from pullback.dtypes import DType, DTypeRule, Operand
from pullback.shapes import Checked, ShapeRule

#: The version of the op specification, "major.minor"; a plugin names the one it was written for.
#: The major number grows when a kernel that was right becomes wrong, the minor one when ops or
#: optional methods of backends are added (docs/backends/publishing.md has the policy).
SPEC_VERSION = "1.0"


class Accuracy(enum.Enum):
    """The distance that a result may have from a float64 reference, in units in the last place."""

    EXACT = "0 ulp"
    ROUNDED = "1 ulp"
    FEW_ULP = "4 ulp"
    ACCUMULATED = "2 ulp times log2(n), relative to the sum of absolute terms"
    BACKWARD_STABLE = "n ulp of the result's norm and of what it moves by with the inputs"


EXACT = Accuracy.EXACT
ROUNDED = Accuracy.ROUNDED
FEW_ULP = Accuracy.FEW_ULP
ACCUMULATED = Accuracy.ACCUMULATED
BACKWARD_STABLE = Accuracy.BACKWARD_STABLE


class Tier(enum.StrEnum):
    """The sets of primitives that a backend claims as a whole; it is scored per tier."""

    CORE = "core"
    COMPLEX = "complex"
    LINALG = "linalg"
    FFT = "fft"
    #: Between processes: its kernels are communicators' (`pullback.distributed`).
    COLLECTIVE = "collective"


class Arity(enum.Enum):
    """The number of arrays that one input of an op stands for."""

    ONE = "one"
    OPTIONAL = "optional"
    MANY = "many"


# No dataclasses or named tuples here: generating their methods takes 4 ms of `import pullback`.


class Input:
    """A parameter of an op that takes a tensor (or None, or a sequence of tensors)."""

    __slots__ = ("arity", "name")

    def __init__(self, name: str, arity: Arity) -> None:
        self.name = name
        self.arity = arity

    def __repr__(self) -> str:
        return f"Input({self.name!r}, {self.arity})"


class Attribute:
    """A parameter of an op that is not a tensor.

    `form` is the annotation, which says how dispatch makes it canonical: "Axis" and "Axes" count
    from the front, "JoinedAxes" is an axis, and dispatch makes one of several, "ShapeLike" is a
    tuple of ints, "DTypeLike" an np.dtype, "DeviceLike" a Device; any other annotation leaves the
    value as it is.
    """

    __slots__ = ("form", "name", "optional")

    def __init__(self, name: str, form: str, optional: bool) -> None:
        self.name = name
        self.form = form
        self.optional = optional

    def __repr__(self) -> str:
        return f"Attribute({self.name!r}, {self.form!r}, optional={self.optional})"


class Rule:
    """A gradient rule: `function(g, *needs)` gives the cotangents of the inputs `targets`.

    `needs` names what the rule takes after g: inputs, outputs ("out" for a single one), residuals,
    attributes, `<input>_shape`, `<input>_dtype`, and for joint rules `wanted`.
    """

    __slots__ = ("function", "joint", "needs", "targets")

    def __init__(
        self,
        targets: tuple[str, ...],
        needs: tuple[str, ...],
        function: Callable[..., Any],
        *,
        joint: bool,
    ) -> None:
        self.targets = targets
        self.needs = needs
        self.function = function
        self.joint = joint

    def __repr__(self) -> str:
        return f"Rule({self.targets}, {self.needs}, {self.function!r}, joint={self.joint})"


#: From the type of a Python number beside a tensor, the dtype of the tensor, and whether the number
#: is the first input: a function of the tensor that computes the op in fewer steps, or None.
NumberForm: TypeAlias = "Callable[[type, DType, bool], Callable[[Any], Any] | None]"


def is_own(function: Callable[..., Any]) -> bool:
    """Returns whether a body or a rule is of this package: a function of what it names."""
    return str(function.__module__).startswith("pullback.")


class Op:
    """One op of the specification: what its definition says, and what dispatch keeps for it."""

    #: False for what only graphs call, such as a branch: it has no place in `OPS` and no kernels.
    in_table = True

    __slots__ = (
        "accuracy",
        "attributes",
        "body",
        "copies_elements",
        "creates",
        "differentiable",
        "dtype",
        "family",
        "fixed",
        "forms",
        "function",
        "identity_element",
        "identity_when",
        "index",
        "inputs",
        "joined",
        "missing",
        "name",
        "normalize",
        "number_forms",
        "on_any_device",
        "outputs",
        "own",
        "primitive",
        "public",
        "record",
        "residuals",
        "resolutions",
        "rules",
        "scalars",
        "shape",
        "simple",
        "tier",
        "update",
        "view",
        "vjp",
        "why",
    )

    def __init__(
        self,
        *,
        name: str,
        body: FunctionType,
        inputs: tuple[Input, ...],
        attributes: tuple[Attribute, ...],
        shape: ShapeRule,
        dtype: DTypeRule,
        accuracy: Accuracy,
        tier: Tier,
        primitive: str | None,
        differentiable: bool,
        public: bool,
        outputs: tuple[str, ...],
        residuals: tuple[str, ...] = (),
        normalize: Checked | Callable[..., dict[str, Any]] | None = None,
        identity_when: Callable[..., bool] | None = None,
        identity_element: int | None = None,
        copies_elements: bool = False,
        view: bool = False,
        update: bool = False,
        family: str,
        index: int,
        fixed: bool = False,
        creates: bool = False,
        simple: bool = False,
        number_forms: Mapping[float, NumberForm] | None = None,
        on_any_device: Callable[..., Any] | None = None,
    ) -> None:
        self.name = name
        self.body = body
        #: False for an op of another author: what it is made of may depend on the author's names.
        self.own = is_own(body)
        self.inputs = inputs
        self.attributes = attributes
        #: The attribute that may name several axes, which are made one; "" for none.
        self.joined = next((a.name for a in attributes if a.form == "JoinedAxes"), "")
        self.shape = shape
        self.dtype = dtype
        self.accuracy = accuracy
        self.tier = tier
        self.primitive = primitive is not None
        #: Of a primitive, why no body made of other ops can replace it.
        self.why = primitive or ""
        self.differentiable = differentiable
        #: False for an op that is in `pb.ops` but not in `pb`.
        self.public = public
        self.outputs = outputs
        self.residuals = residuals
        self.normalize = normalize
        #: From the shapes of the inputs and the attributes, as the shape rule gets them: True if
        #: the result is the first input. None if that does not follow from shapes.
        self.identity_when = identity_when
        #: Of an op on two real inputs: the number that as one of them leaves the other unchanged.
        self.identity_element = identity_element
        #: Of an op on two inputs: what finds a shorter form for a Python number as one of them.
        self.number_forms = number_forms or {}
        #: True if every element of the result is an element of the one input.
        self.copies_elements = copies_elements
        #: function(device, *inputs, **attributes), for backends without a kernel; mostly None.
        self.on_any_device = on_any_device
        #: True if the result shows the elements of the first input, as a view of NumPy's does:
        #: `x[...] = value` on the result raises while the input lives.
        self.view = view
        #: True for a step of an optimizer: the first input and those behind the second one have
        #: new values in the results, in this order, and no values make it fail.
        self.update = update
        self.family = family
        #: The op's position in `Device.tables`.
        self.index = index
        #: True if specialized code calls and records it: it has inputs, a fixed number of them.
        self.fixed = fixed
        #: The same for an op without inputs that makes one result on a given device.
        self.creates = creates
        #: True if its vjp is specialized code: it is fixed, has one result and no residuals.
        self.simple = simple
        #: What to write in place of a call that lacks inputs behind the first; "" for nothing.
        self.missing = ""
        self.rules: dict[str, Rule | None] = {}
        #: Input dtypes as they come, to the dtypes they are converted to.
        self.resolutions: dict[tuple[Operand | None, ...], tuple[DType | None, ...]] = {}
        #: Python numbers that came second to a tensor of a dtype, as tensors.
        self.scalars: dict[tuple[Any, ...], Any] = {}
        #: By the keys of `scalars` without the device: what `number_forms` gave for them.
        self.forms: dict[tuple[Any, ...], Callable[[Any], Any]] = {}
        #: The public function.
        self.function: Any = None
        #: Generated at the first use: records one call, and computes the cotangents of its inputs.
        self.record: Any = None
        self.vjp: Any = None

    @property
    def is_ordered(self) -> bool:
        """True if all calls stay, in their order: other processes make the same ones."""
        return self.tier is Tier.COLLECTIVE

    @property
    def begins(self) -> bool:
        """True for what goes on beside the calls that follow, until another one awaits it."""
        return self.is_ordered and self.name == "begin_all_reduce"

    @property
    def doc(self) -> str:
        """The docstring of the definition."""
        return self.body.__doc__ or ""

    @property
    def names(self) -> list[str]:
        """Every name that a rule may ask for."""
        names = [*self.outputs, *self.residuals, "wanted"]
        for parameter in self.inputs:
            name = parameter.name
            names += (name, f"{name}_shape", f"{name}_dtype")
        return names + [attribute.name for attribute in self.attributes]

    def __repr__(self) -> str:
        return f"<op {self.name}: {'primitive' if self.primitive else 'composite'}, {self.family}>"


#: Every op by name. Names are unique.
OPS: dict[str, Op] = {}


def register(op: Op) -> None:
    """Adds an op to the specification.

    Raises:
        DefinitionError: when the name is taken.
    """
    if op.name in OPS:
        raise errors.DefinitionError(
            f"the op {op.name!r} is defined twice, in {OPS[op.name].family} and in {op.family}; "
            f"give one of them another name"
        )
    OPS[op.name] = op
