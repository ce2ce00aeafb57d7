"""What an op is: its inputs, attributes, rules and class of accuracy. Data only.

The `@op` decorator (floor 3) fills these records; dispatch, the tape, the conformance kit and the
API reference read them. A rule or a kernel is looked up here and nowhere else.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any, NamedTuple

from pullback import errors
from pullback.dtypes import DTypeRule
from pullback.shapes import ShapeRule

#: The version of the op specification. A plugin says which one it was written for.
SPEC_VERSION = 1


class Accuracy(enum.Enum):
    """How near to a float64 reference a result must be, in units in the last place (ulp)."""

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


class Arity(enum.Enum):
    """How many arrays one input of an op stands for."""

    ONE = "one"
    OPTIONAL = "optional"
    MANY = "many"


class Input(NamedTuple):
    """A parameter of an op that takes a tensor (or None, or a sequence of tensors)."""

    name: str
    arity: Arity


class Attribute(NamedTuple):
    """A parameter of an op that is no tensor.

    `form` is the annotation that says how dispatch normalises it: "Axis" and "Axes" count from the
    front, "ShapeLike" is a tuple of ints, "DTypeLike" an np.dtype, "DeviceLike" a Device; any other
    annotation leaves the value as it is.
    """

    name: str
    form: str
    optional: bool


class Rule(NamedTuple):
    """A gradient rule: `function(g, *needs)` gives the cotangents of the inputs `targets`.

    `needs` names what the rule takes after g: inputs, outputs ("out" for a single one), residuals,
    attributes, `<input>_shape`, `<input>_dtype`, and for joint rules `wanted`.
    """

    targets: tuple[str, ...]
    needs: tuple[str, ...]
    function: Callable[..., Any]
    joint: bool


class Op:
    """One op of the specification. Takes the fields before `rules` as keywords."""

    # No dataclasses here: generating their methods takes 3 ms of every `import pullback`.
    __slots__ = (
        "accuracy",
        "attributes",
        "body",
        "creates",
        "differentiable",
        "dtype",
        "family",
        "fixed",
        "function",
        "index",
        "inputs",
        "name",
        "normalize",
        "outputs",
        "primitive",
        "record",
        "residuals",
        "resolutions",
        "rules",
        "scalars",
        "shape",
        "simple",
        "tier",
        "vjp",
    )
    name: str
    body: Callable[..., Any]
    inputs: tuple[Input, ...]
    attributes: tuple[Attribute, ...]
    shape: ShapeRule
    dtype: DTypeRule
    accuracy: Accuracy
    tier: Tier
    primitive: bool
    differentiable: bool
    outputs: tuple[str, ...]
    residuals: tuple[str, ...]
    normalize: Callable[..., dict[str, Any]] | None
    family: str
    index: int
    #: Whether straight-line code calls and records it: it has inputs, a fixed number of them.
    fixed: bool
    #: The same for an op without inputs that makes one result on the device it is told.
    creates: bool
    #: Whether straight-line code pulls it back: it is fixed, and has one result and no residuals.
    simple: bool
    rules: dict[str, Rule | None]
    #: Input dtypes as they come, to the dtypes they are converted to.
    resolutions: dict[Any, Any]
    #: Python numbers that came second to a tensor of a dtype, as tensors.
    scalars: dict[Any, Any]
    #: The public function.
    function: Any
    #: Generated at the first use: records a call; gives the cotangents of its inputs.
    record: Any
    vjp: Any

    def __init__(self, **given: Any) -> None:
        for name, value in given.items():
            setattr(self, name, value)
        self.rules = {}
        self.resolutions = {}
        self.scalars = {}
        self.function = self.record = self.vjp = None

    @property
    def doc(self) -> str:
        """The docstring of the definition."""
        return self.body.__doc__ or ""

    @property
    def why(self) -> str:
        """Of a primitive, why no body can replace it: what its body says to `primitive`."""
        # Read from the compiled body when somebody asks: no import pays for it.
        said = [one for one in self.body.__code__.co_consts if isinstance(one, str)]
        return said[-1] if self.primitive and said and said[-1] != self.body.__doc__ else ""

    @property
    def names(self) -> list[str]:
        """Every name that a rule may ask for."""
        found = [*self.outputs, *self.residuals, "wanted"]
        for one in self.inputs:
            found += (one.name, f"{one.name}_shape", f"{one.name}_dtype")
        found += [attribute.name for attribute in self.attributes]
        return found

    def __repr__(self) -> str:
        return f"<op {self.name}: {'primitive' if self.primitive else 'composite'}, {self.family}>"


#: Every op by name. One name a thing.
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
