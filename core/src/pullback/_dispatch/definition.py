"""`@op`: one function is the signature, the docstring, the rules and, for a composite, the body.

What `@op` returns is a plain function. Until its first call it holds a stub; the first call
compiles code for exactly this signature (see `call_code`) and puts it in the stub's place, so
importing hundreds of ops costs nothing and calling one goes through no `*args`.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any, ParamSpec, Protocol, TypeVar, cast, overload

from pullback import errors
from pullback._dispatch import call_code, vjp_code
from pullback._dispatch.annotations import ARITIES, Copy, canonical
from pullback._dispatch.arguments import foreign_keywords
from pullback._dispatch.infix import make_infix
from pullback._hints import check_keywords
from pullback._operators import INFIX, OPERATORS, REFLECTED
from pullback.dtypes import DTypeRule, Resolution
from pullback.shapes import Checked, ShapeRule
from pullback.spec import (
    Accuracy,
    Arity,
    Attribute,
    Input,
    NumberForm,
    Op,
    Rule,
    Tier,
    is_own,
    register,
)

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

__all__ = ["VJP", "Copy", "GeneratedCode", "OpFunction", "op"]

_INDICES = itertools.count()
_LOCK = threading.Lock()


class OpFunction(Protocol[P, R_co]):
    """The public function of an op."""

    spec: Op
    vjp: VJP
    source: GeneratedCode

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Calls the op."""


class GeneratedCode:
    """The text of the code that dispatch generates for an op: `print(pb.add.source)`.

    Tracebacks and debuggers show the lines of code that has run. The text is generated when it
    is read, for the gradient rules that the op then has.

    >>> print(pb.negative.source.call.splitlines()[0])
    def negative(x, /):
    >>> print(pb.negative.source.vjp.splitlines()[0])
    def vjp(node, g, needed):
    """

    __slots__ = ("_op",)

    def __init__(self, op: Op) -> None:
        self._op = op

    @property
    def call(self) -> str:
        """The public function."""
        return str(call_code.call_source(self._op))

    @property
    def record(self) -> str:
        """The function that makes the node of a call; "" for an op without one of its own."""
        return str(vjp_code.record_source(self._op)) if self._op.fixed else ""

    @property
    def vjp(self) -> str:
        """The function of a node's cotangents; "" for an op without one of its own."""
        return str(vjp_code.vjp_source(self._op)) if self._op.simple else ""

    def __str__(self) -> str:
        return self.call

    def __repr__(self) -> str:
        return self.call


class VJP:
    """Adds gradient rules (vector-Jacobian products) to an op.

    `f.vjp(x1=rule, x2=rule)` gives one rule an input; `@f.vjp("x")` decorates a longer one;
    `@f.vjp("x", "y")` a joint rule that returns one cotangent for each. A rule's first parameter is
    the cotangent g of the result (a tuple of them where an op has several); the others, or an
    attribute `needs` of the rule, name what it needs, and only that is kept while the tape waits.
    None in place of a rule says that the op has no gradient in that input.
    """

    def __init__(self, op: Op) -> None:
        self._op = op

    @overload
    def __call__(self, *targets: str) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
    @overload
    def __call__(self, **rules: Callable[..., Any] | None) -> None: ...
    def __call__(self, *targets: str, **rules: Callable[..., Any] | None) -> Any:
        """Adds rules, or gives a decorator that adds one for `targets`."""
        for name, function in rules.items():
            self._add((name,), function)
        if not targets:
            return None

        def decorator(function: Callable[P, R]) -> Callable[P, R]:
            self._add(targets, function)
            return function

        return decorator

    def _add(self, targets: tuple[str, ...], function: Callable[..., Any] | None) -> None:
        op = self._op
        inputs = {parameter.name for parameter in op.inputs}
        for target in targets:
            if target not in inputs:
                raise errors.DefinitionError(
                    f"{op.name}.vjp: there is no input {target!r}; use one of {sorted(inputs)}"
                )
            if target in op.rules:
                raise errors.DefinitionError(
                    f"{op.name}.vjp: {target!r} has a rule already; an input takes one"
                )
        if not op.differentiable:
            raise errors.DefinitionError(
                f"{op.name} is not differentiable, yet has a rule; leave one of them out"
            )
        rule = None if function is None else self._rule(targets, function)
        op.rules.update(dict.fromkeys(targets, rule))
        _forget(op)

    def _rule(self, targets: tuple[str, ...], function: Callable[..., Any]) -> Rule:
        op, code = self._op, function.__code__
        named = code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]
        needs: tuple[str, ...] = getattr(function, "needs", named)
        names = op.names
        unknown = [need for need in needs if need not in names]
        if unknown:
            raise errors.DefinitionError(
                f"{op.name}.vjp: a rule asks for {unknown}; it may ask for {names}"
            )
        op.own &= is_own(function)
        return Rule(targets, tuple(needs), function, joint=len(targets) > 1)


def _parameters(body: FunctionType) -> tuple[tuple[Input, ...], tuple[Attribute, ...]]:
    code, annotations = body.__code__, body.__annotations__
    positional = code.co_argcount
    inputs: list[Input] = []
    attributes: list[Attribute] = []
    for i, name in enumerate(code.co_varnames[: positional + code.co_kwonlyargcount]):
        annotation = annotations.get(name)
        if annotation is None:
            raise errors.DefinitionError(
                f"{body.__name__}: parameter {name!r} needs an annotation, such as TensorLike"
            )
        text = canonical(annotation, body.__globals__)
        arity = ARITIES.get(text)
        if arity is not None:
            if attributes and i >= positional:
                raise errors.DefinitionError(f"{body.__name__}: {name!r} must not be keyword-only")
            inputs.append(Input(name, arity))
            if "TensorLike" not in text:
                # Callers pass whatever becomes a tensor, and `help` says so.
                annotations[name] = text.replace("Tensor", "TensorLike")
            continue
        if text == "Copy":
            continue
        form, _, rest = text.partition(" | ")
        attributes.append(Attribute(name, form if rest in ("", "None") else text, bool(rest)))
    return tuple(inputs), tuple(attributes)


def op(
    *,
    shape: ShapeRule,
    dtype: DTypeRule | Callable[..., Resolution],
    accuracy: Accuracy,
    tier: Tier = Tier.CORE,
    primitive: str | None = None,
    differentiable: bool = True,
    outputs: Sequence[str] = ("out",),
    residuals: Sequence[str] = (),
    normalize: Checked | Callable[..., dict[str, Any]] | None = None,
    identity_when: Callable[..., bool] | None = None,
    identity_element: int | None = None,
    number_forms: Mapping[float, NumberForm] | None = None,
    copies_elements: bool = False,
    missing: str = "",
    view: bool = False,
    update: bool = False,
    on_any_device: Callable[..., object] | None = None,
    public: bool = True,
    name: str | None = None,
    family: str | None = None,
) -> Callable[[Callable[P, R]], OpFunction[P, R]]:
    """Defines an op; the decorated function is its signature, its docstring and its body.

    Parameters annotated `Tensor`, `Tensor | None` or `Sequence[Tensor]` (or the same with
    `TensorLike`) are inputs; all others are attributes.

    Args:
        shape: the rule for the result's shape (`pullback.shapes`).
        dtype: the rule for the inputs' common dtype and the result's (`pullback.dtypes`).
        accuracy: the class of accuracy that every backend is held to.
        tier: the set of primitives it belongs to.
        primitive: a sentence that says why no body made of other ops can replace the op. Every
            backend that claims the tier has a kernel for it, and its body is never called.
        differentiable: False if no input has a gradient.
        outputs: a name for each result, if there are several.
        residuals: names of what kernel and body return after the outputs, for the rules only.
        normalize: gets the inputs' shapes and the attributes, returns the attributes in the form
            that kernels and body get.
        identity_when: gets the inputs' shapes and the attributes, as the shape rule does; returns
            True if the result is the first input, element by element.
        identity_element: the number that leaves the other input unchanged, bit for bit, if either
            of two real inputs consists of it: 1 for a product. 0 for a sum it is not: -0.0 + 0 is
            0.0.
        number_forms: for Python numbers that stand beside a tensor, a function that gets the type
            of the number, the dtype of the tensor, and whether the number is the first input. It
            returns a function of the tensor that computes the same in fewer steps, as accurately
            as the op promises, or None. So x ** 2 is `square(x)`.
        copies_elements: True if every element of the result is an element of the one input.
        missing: what to write in place of a call that lacks inputs behind the first, for an error.
        view: True if the result shows the elements of the first input, where NumPy gives a view:
            a write into it raises while that input lives.
        update: True for a step of an optimizer, whose results are new values of the first input and
            of those behind the second one, and which no values make fail: captured functions write
            them to the variables at once.
        on_any_device: what computes the op for backends that have no kernel of it, from the device,
            native arrays and the attributes.
        public: False keeps the op out of `pb`: it is in `pb.ops` only.
        name: the op's name; the function's if not given.
        family: the page of the reference; the module's name if not given.

    Raises:
        DefinitionError: for a definition that contradicts itself.
    """
    rule = (
        dtype
        if isinstance(dtype, DTypeRule)
        else DTypeRule(dtype, uniform=hasattr(dtype, "uniform"))
    )

    def decorator(body: Callable[P, R]) -> OpFunction[P, R]:
        assert isinstance(body, FunctionType)
        inputs, attributes = _parameters(body)
        placed = [attribute.name for attribute in attributes if attribute.form == "DeviceLike"]
        single = len(outputs) == 1 and not residuals
        arities = [parameter.arity for parameter in inputs]
        fixed = arities[:1] == [Arity.ONE] and Arity.MANY not in arities and not placed
        spec = Op(
            name=name or body.__name__,
            body=body,
            inputs=inputs,
            attributes=attributes,
            shape=shape,
            dtype=rule,
            accuracy=accuracy,
            tier=tier,
            primitive=primitive,
            differentiable=differentiable,
            public=public,
            outputs=tuple(outputs),
            residuals=tuple(residuals),
            normalize=normalize,
            identity_when=identity_when,
            identity_element=identity_element,
            number_forms=number_forms,
            on_any_device=on_any_device,
            copies_elements=copies_elements,
            view=view,
            update=update,
            family=family or body.__module__.rpartition(".")[2],
            index=next(_INDICES),
            fixed=fixed,
            creates=not inputs and placed == ["device"] and single,
            simple=fixed and single,
        )
        spec.missing = missing
        register(spec)
        function = _public(spec, body)
        spec.function = function
        setattr(OPERATORS, spec.name, function)
        if spec.name in REFLECTED:
            make_infix(spec, function, _stub.__code__, _LOCK)
        return cast("OpFunction[P, R]", function)

    return decorator


def _stub(*args: object, **kwargs: object) -> object:
    return SPECIALIZE(kwargs)(*args, **kwargs)  # type: ignore[name-defined]  # noqa: F821


def _forget(op: Op) -> None:
    """Puts the stub back: the next call generates code for the op's new rules."""
    with _LOCK:
        function = op.function
        if function is not None and function.__code__ is not _stub.__code__:
            function.__code__ = _stub.__code__
            if op.name in REFLECTED:
                vars(INFIX)[op.name].__code__ = _stub.__code__


def _public(spec: Op, body: FunctionType) -> FunctionType:
    # Filled at the first call, as the code is made.
    names: dict[str, Any] = {"__name__": body.__module__}
    function = FunctionType(_stub.__code__, names, body.__name__)

    def specialize(keywords: Mapping[str, Any]) -> FunctionType:
        # Afterwards Python rejects them by itself, in fewer words, except for those of `foreign`.
        check_keywords(body, keywords)
        with _LOCK:
            if function.__code__ is _stub.__code__:
                names.update(call_code.namespace(spec))
                code = call_code.call_source(spec, names).compile(spec.name).__code__
                vjp_code.install(spec, names)
                # Defaults first: another thread may call the function between two of these lines.
                more = (*(spec.inputs[1:] if spec.missing else ()), *foreign_keywords(spec))
                function.__defaults__ = (*(body.__defaults__ or ()), *[... for _ in more])
                function.__kwdefaults__ = body.__kwdefaults__
                function.__code__ = code
        return function

    names["SPECIALIZE"] = specialize
    function.__doc__ = body.__doc__
    function.__qualname__ = body.__qualname__
    function.__module__ = body.__module__
    function.__annotations__ = body.__annotations__
    function.__wrapped__ = body  # type: ignore[attr-defined]  # inspect.signature follows it
    function.spec = spec  # type: ignore[attr-defined]
    function.vjp = VJP(spec)  # type: ignore[attr-defined]
    function.source = GeneratedCode(spec)  # type: ignore[attr-defined]
    return function
