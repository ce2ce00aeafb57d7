"""`remat`: functions that keep their inputs alone for the backward pass, and run again in it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from types import MethodType
from typing import Any, Generic, ParamSpec, TypeVar

import numpy as np

from pullback import errors
from pullback._autodiff.backward import backpropagate, needed_nodes
from pullback._autodiff.tape import GradientTape, any_live
from pullback._dispatch.general_vjp import pairs
from pullback._dispatch.recording import (
    AMBIENT,
    CONSTANT,
    LOCAL,
    Leaf,
    Node,
    Output,
    announce_call,
    capturing,
    node_of,
    reachable,
)
from pullback._tree import leaves, mapped
from pullback.devices import as_device
from pullback.dtypes import is_floating
from pullback.tensor import Tensor, wrap

__all__ = ["remat"]

P = ParamSpec("P")
R = TypeVar("R")


def remat(f: Callable[P, R]) -> Callable[P, R]:
    """Makes a function that keeps its inputs alone for the gradient, and runs again in it.

    What it computes on the way is not kept while a tape waits. The backward pass calls it once
    more: with the same values of variables and the same random numbers, so the bits of results and
    gradients are those of the function itself. In a captured function the program computes it
    again. (Chen et al., "Training deep nets with sublinear memory cost", 2016)

    Args:
        f: a function, or a layer, of any arguments that returns a structure of tensors. It may
            read variables and tensors from outside, and draw random numbers. What else it does,
            such as assigning a variable, it does once; it returns the same when it is called
            again.

    Returns:
        A function of the same arguments, which may be a method.

    >>> f = lambda x: pb.sum(pb.tanh(pb.sin(x) * 2.0))
    >>> x = pb.asarray([0.5, 1.0])
    >>> bool(pb.all(pb.grad(pb.remat(f))(x) == pb.grad(f)(x)))
    True

    Raises:
        InputTypeError: for what cannot be called.
        InputValueError: from the backward pass, for a function that returns something else when it
            is called again.
    """
    if not callable(f):
        raise errors.InputTypeError(f"pb.remat takes a function or a layer, got {type(f).__name__}")
    return Repeated(f)


class Repeated(Generic[P, R]):
    """A function that `remat` has made; the variables of a layer in it are found by its attribute.

    Args:
        f: the function.
    """

    def __init__(self, f: Callable[P, R]) -> None:
        self.function = f
        self.__name__: str = getattr(f, "__name__", type(f).__name__)
        self.__doc__ = getattr(f, "__doc__", None)

    @property
    def __signature__(self) -> inspect.Signature:
        return inspect.signature(self.function)

    def __get__(self, instance: object, owner: object = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __repr__(self) -> str:
        return f"<remat {self.__name__}>"

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Calls the function."""
        announce_call(self.function, self.__name__)
        state = LOCAL.state
        if not state.recording:
            return self.function(*args, **kwargs)
        call = _Repeat(self.__name__, self.function, args, kwargs)
        with call.running():
            result = self.function(*args, **kwargs)
        outputs = [value for value in leaves(result) if type(value) is Tensor]
        parents = call.inputs(outputs, call.begin)
        if not parents:
            return result
        call.kinds = [(tensor.shape, tensor.dtype) for tensor in outputs]
        node = node_of(_Remat(self.__name__), parents, call)
        handles = []
        for position, tensor in enumerate(outputs):
            is_moving = tensor._node not in (None, CONSTANT) and is_floating(tensor.dtype)
            own = Output(state.next_serial(), node, position) if is_moving else CONSTANT
            handles.append(wrap(tensor._array, tensor._device, own))
        given = iter(handles)
        found: R = mapped(lambda v: next(given) if type(v) is Tensor else v, result)
        return found


class _Remat:
    """The op of the node of such a call, which saves the call."""

    def __init__(self, name: str) -> None:
        self.name = name

    def vjp(self, node: Node, *rest: Any) -> list[tuple[Node, Tensor]]:
        """The cotangents of the inputs, from those of the results by position."""
        call: _Repeat = node.saved
        return call.vjp(node, *rest)


class _Repeat:
    """A call of such a function, with what is needed to repeat it.

    Args:
        name: the name of the function.
        function: the function.
        args: its arguments.
        kwargs: its arguments by keyword.
    """

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
    ) -> None:
        state = LOCAL.state
        self.name = name
        self.is_repeated = False
        self.begin = state.next_serial()
        #: The shape and dtype of each result.
        self.kinds: list[Any] = []
        self._function = function
        given = args, dict(kwargs)
        # What is assigned to parts of a handle or of an array later is not seen.
        self._given = mapped(_kept, given)
        self._ambient = [getattr(owner, name) for owner, name, _ in AMBIENT]
        self._device = as_device(None)
        self._values = dict(state.values)
        self._noted: dict[int, Any] = {}
        self._drawn: list[tuple[int, int]] = []
        self._outer: Any = None
        self._capture = state.capture
        self._paused = state.paused
        self._draws: Iterator[tuple[int, int]] = iter(())

    # What the call notes -------------------------------------------------------------------------

    @contextmanager
    def running(self) -> Iterator[None]:
        """Has variables and generators of this thread tell the call what is done with them."""
        state = LOCAL.state
        self._outer, state.again = state.again, self
        try:
            yield
        finally:
            state.again, self._outer = self._outer, None

    @contextmanager
    def _outside(self) -> Iterator[None]:
        state = LOCAL.state
        state.again = self._outer
        try:
            yield
        finally:
            state.again = self

    def note(self, variable: Any, read: Callable[[Any], Tensor]) -> None:
        """Keeps the value of a variable that is about to be read or written, by a function."""
        # A branch or loop of a trace asks its own trace, which asks that of the call.
        is_inside = LOCAL.state.capture is not self._capture
        if self.is_repeated or is_inside or id(variable) in self._noted:
            return
        with self._outside():
            # The variable is kept alive: its identity is the key.
            self._noted[id(variable)] = variable, read(variable)

    def draw(self, generator: Any, words: int) -> tuple[int, int]:
        """The key and counter of random numbers: the same in both calls."""
        if self.is_repeated:
            again = next(self._draws, None)
            if again is None:
                raise self._changed("draws more random numbers")
            return again
        with self._outside():
            drawn: tuple[int, int] = generator._drawn(words)
        # The first values of variables are drawn once.
        if LOCAL.state.paused == self._paused:
            self._drawn.append(drawn)
        return drawn

    def inputs(self, outputs: Sequence[Tensor], begin: int) -> list[Node]:
        """The nodes that results depend on from before the call.

        Args:
            outputs: the results.
            begin: a serial number from before it.
        """
        read: dict[Node, Node] = {}
        for _, tensor in self._noted.values():
            node = tensor._node
            # Behind the value of a variable are the leaves of several tapes.
            if type(node) is Leaf:
                read.update(dict.fromkeys((node, *filter(None, node.parents)), node))
        found: dict[Node, None] = {}
        seen: set[Node | None] = {None, CONSTANT}
        stack: list[Node | None] = [tensor._node for tensor in outputs]
        oldest = LOCAL.state.oldest_serial
        while stack:
            node = stack.pop()
            if node is None or node in seen:
                continue
            seen.add(node)
            if node in read:
                found[read[node]] = None
            elif node.serial >= begin:
                stack.extend(node.parents)
            elif reachable(node, oldest) is not None:
                found[node] = None
        return [*found]

    # Its gradient --------------------------------------------------------------------------------

    def vjp(
        self,
        node: Node,
        g: dict[int, Tensor],
        needed: Collection[Node] | None,
        take: Callable[[Node], Any],
    ) -> list[tuple[Node, Tensor]]:
        """The cotangents of the inputs, from those of the results by position."""
        parents: list[Any] = [*node.parents]
        own = {*parents}
        # Parts are added to what has arrived so far, in the order of the function's ops.
        begun = [(parent, part) for parent in parents if (part := take(parent)) is not None]
        capture = capturing()
        after = next(iter(g.values()))
        with nullcontext() if capture is None else capture.renewing(after):
            tape = _Second(parents)
            with tape, _revived(parents), self._again():
                given, kwargs = self._given
                result = self._function(*_fresh(given), **_fresh(kwargs))
            outputs = self._checked(result)
            ends = [(outputs[i]._node, part) for i, part in g.items()]
            starts = [*begun, *((end, part) for end, part in ends if end is not None)]
            wanted = own if needed is None else {one for one in parents if one in needed}
            tape.retire_token()
            through = (
                None
                if wanted == own
                else needed_nodes([end for end, _ in starts], wanted, own, tape.intervals)
            )
            release = not any_live() and not LOCAL.state.recording
            found = backpropagate(starts, through, wanted, own, tape.intervals, release)
        return pairs(node, [found.get(parent) for parent in parents])

    @contextmanager
    def _again(self) -> Iterator[None]:
        """Has variables, generators and settings be what they were in the first call."""
        state = LOCAL.state
        settings = [getattr(owner, name) for owner, name, _ in AMBIENT]
        before = state.values, state.again
        noted = {key: tensor.__copy__() for key, (_, tensor) in self._noted.items()}
        state.values, state.again = {**self._values, **noted}, self
        self.is_repeated, self._draws = True, iter(self._drawn)
        try:
            _set(self._ambient)
            with self._device:
                yield
        finally:
            self.is_repeated = False
            state.values, state.again = before
            _set(settings)

    def _checked(self, result: object) -> list[Tensor]:
        outputs = [value for value in leaves(result) if type(value) is Tensor]
        if [(tensor.shape, tensor.dtype) for tensor in outputs] != self.kinds:
            raise self._changed("returns other results")
        return outputs

    def _changed(self, what: str) -> errors.InputValueError:
        return errors.InputValueError(
            f"pb.remat: {self.name} {what} when it is called again for the gradient; it must "
            f"depend on nothing but its arguments, variables and pb.random"
        )


class _Second(GradientTape):
    """Records the second call; it sees the nodes that the first one depended on, as its leaves."""

    __slots__ = ()

    def __init__(self, inputs: Sequence[Node]) -> None:
        super().__init__(watch_accessed_variables=False)
        self._own = {*inputs}
        self.start = min(node.serial for node in inputs)

    @property
    def intervals(self) -> list[Any]:
        """The serial numbers between which it recorded."""
        return self._intervals


@contextmanager
def _revived(nodes: Sequence[Node]) -> Iterator[None]:
    """Has tapes that the function makes see through leaves of tapes that are done."""
    near = [leaf for node in nodes if type(node) is Leaf for leaf in (node, *node.parents)]
    tokens = {leaf.saved for leaf in near if type(leaf) is Leaf and leaf.saved is not None}
    done = [token for token in tokens if not token.live]
    for token in done:
        token.live = True
    try:
        yield
    finally:
        for token in done:
            token.live = False


def _kept(value: Any) -> Any:
    """A leaf of the arguments as it is now."""
    if type(value) is Tensor:
        return value.__copy__()
    return value.copy() if isinstance(value, np.ndarray) else value


def _fresh(structure: Any) -> Any:
    """A structure with new handles: the function may assign parts of them."""
    return mapped(_kept, structure)


def _set(settings: Sequence[Any]) -> None:
    for (owner, name, _), value in zip(AMBIENT, settings, strict=True):
        setattr(owner, name, value)
