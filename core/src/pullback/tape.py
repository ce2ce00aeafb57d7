"""`GradientTape`: which part of the graph a gradient is asked of, and the walk back through it."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Literal, Protocol

from pullback import dtypes, errors
from pullback.dispatch.convert import from_any
from pullback.dispatch.recording import (
    HEARD,
    LISTENING,
    LOCAL,
    Node,
    Output,
    Watched,
    start,
    stop,
)
from pullback.tensor import CALL, Tensor

Unconnected = Literal["none", "zero"]

#: Tapes that may still be asked for a gradient: nodes that one of them can see are not let go.
_LIVE: weakref.WeakSet[GradientTape] = weakref.WeakSet()


class Source(Protocol):
    """What a tape can watch besides a tensor: something that is read as one, such as a Variable."""

    def __pullback_tensor__(self) -> Tensor: ...


class GradientTape:
    """Listens to ops, then gives gradients of what they computed.

    Variables are watched as they are read, tensors with `watch`. Tapes nest: a gradient computed
    while an outer tape listens can be differentiated again.

    Args:
        persistent: any number of `gradient` calls; the record is kept until the tape goes.
        watch_accessed_variables: whether trainable variables are watched by being read.

    >>> import pullback as pb
    >>> x = pb.asarray(3.0)
    >>> with pb.GradientTape() as tape:
    ...     tape.watch(x)
    ...     y = x * x
    >>> float(tape.gradient(y, x))
    6.0
    """

    def __init__(self, *, persistent: bool = False, watch_accessed_variables: bool = True) -> None:
        self.persistent = persistent
        self.watch_accessed_variables = watch_accessed_variables
        self._used = False
        self._clear()

    def _clear(self) -> None:
        self.start = 0
        #: Closed spans of serial numbers in which the tape listened.
        self._spans: list[tuple[int, int]] = []
        #: Where the open span began; None while the tape does not listen.
        self._open: int | None = None
        self._state: Any = None
        #: The marks this tape has made, by the identity of what they are on (kept alive here).
        self._marks: dict[int, tuple[Any, Watched]] = {}
        self._nodes: set[Node] = set()
        self._first = True

    # Listening -----------------------------------------------------------------------------------

    def __enter__(self) -> GradientTape:
        if self._open is not None:
            raise errors.TapeError("this tape is listening already; make another one to nest")
        if self._used:
            raise errors.TapeError(
                "this tape has given its gradient; make a new one, call reset(), "
                "or make it with persistent=True"
            )
        self._listen()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._open is not None:
            self._rest()

    def _listen(self) -> None:
        self._state = state = LOCAL.state
        self._open = state.tick()
        if self._first:
            self.start = self._open
            self._first = False
            _LIVE.add(self)
        start(self)

    def _rest(self) -> None:
        state = LOCAL.state
        if state is not self._state:
            raise errors.TapeError("a tape must be left in the thread in which it was entered")
        assert self._open is not None
        self._spans.append((self._open, state.tick()))
        self._open = None
        stop(self)

    @contextmanager
    def stop_recording(self) -> Iterator[None]:
        """The tape does not listen inside the block; other tapes still do.

        Raises:
            TapeError: when the tape is not listening.
        """
        if self._open is None:
            raise errors.TapeError("stop_recording() is for use inside `with tape:`")
        self._rest()
        try:
            yield
        finally:
            self._listen()

    def reset(self) -> None:
        """Forgets what the tape has heard and watches nothing; it goes on if it was listening."""
        listening = self._open is not None
        if listening:
            self._rest()
        self._used = False
        self._clear()
        if listening:
            self._listen()

    # Watching ------------------------------------------------------------------------------------

    def watch(self, tensors: Any) -> None:
        """From now on, gradients with respect to `tensors` (a tensor, a variable, or a structure).

        Raises:
            TapeError: when the tape is not listening.
            DTypeError: for integer and boolean tensors, which have no gradient.
            InputTypeError: for host data: make a tensor of it first.
        """
        if self._open is None:
            raise errors.TapeError("watch() is for use inside `with tape:`")
        for value in _leaves(tensors):
            if not hasattr(type(value), "__pullback_tensor__"):
                raise errors.InputTypeError(
                    f"a tape watches tensors and variables, got {type(value).__name__}; "
                    f"make a tensor with pb.asarray(...) and use that in the computation"
                )
            if not dtypes.is_floating(value.dtype):
                raise errors.DTypeError(
                    f"a tape watches floating and complex tensors, got {value.dtype}; "
                    f"convert with x.astype('float32') before watching"
                )
            if isinstance(value, Tensor):
                self._watch_tensor(value)
            else:
                self.mark(value)

    def _watch_tensor(self, tensor: Tensor) -> None:
        node = tensor._node
        if node is not None and self._sees(node):
            return
        origin = _origin(node)
        mark = Watched(LOCAL.state.tick(), *([] if origin is None else [origin]))
        tensor._node = mark
        self._nodes.add(mark)

    def mark(self, source: Source) -> Watched:
        """The node that stands for a variable on this tape, made when it is first read."""
        found = self._marks.get(id(source))
        if found is not None:
            return found[1]
        mark = Watched(LOCAL.state.tick())
        self._marks[id(source)] = (source, mark)
        self._nodes.add(mark)
        return mark

    def watched_variables(self) -> tuple[Any, ...]:
        """The variables that the tape watches, in the order in which it met them."""
        return tuple(source for source, _ in self._marks.values())

    def _sees(self, node: Node) -> bool:
        """Whether the tape has a path from `node` to something it watches."""
        stack, seen = [node], set()
        while stack:
            here = stack.pop()
            if here in self._nodes:
                return True
            if here in seen or not self._covers(here):
                continue
            seen.add(here)
            stack.extend(parent for parent in here.parents if parent is not None)
        return False

    def _covers(self, node: Node) -> bool:
        if node.op is None:
            return True  # marks and outputs are looked through
        serial = node.serial
        if self._open is not None and serial >= self._open:
            return self._state is LOCAL.state or serial >> 48 == self._open >> 48
        return any(begin <= serial < end for begin, end in self._spans)

    # Gradients -----------------------------------------------------------------------------------

    def gradient(
        self,
        target: Any,
        sources: Any,
        output_gradients: Any = None,
        unconnected_gradients: Unconnected = "none",
    ) -> Any:
        """The gradient of `target` (or of the sum of several) with respect to `sources`.

        Args:
            target: a tensor or a structure of them; one of several elements stands for its sum.
            sources: tensors and variables, in any structure of lists, tuples and dicts.
            output_gradients: the cotangent of each target, in target's structure; ones if not given.
            unconnected_gradients: what a source gets on which target does not depend: None
                ("none") or zeros of its shape ("zero").

        Returns:
            One gradient per source, in the structure of `sources`. Gradients with respect to
            complex sources follow TensorFlow's and PyTorch's convention (the conjugate of
            d target / d z), so that a step against them goes downhill.

        Raises:
            TapeError: when the tape has been used already (and is not persistent), or the target
                was computed where the tape did not listen.
        """
        if self._used:
            raise errors.TapeError(
                "gradient() was called on this tape before; make it with "
                "pb.GradientTape(persistent=True) to call it more than once"
            )
        if unconnected_gradients not in ("none", "zero"):
            raise errors.InputValueError(
                f'unconnected_gradients is "none" or "zero", got {unconnected_gradients!r}'
            )
        targets = [_target(value) for value in _leaves(target)]
        flat = list(_leaves(sources))
        for source in flat:
            if not hasattr(type(source), "__pullback_tensor__"):
                raise errors.InputTypeError(
                    f"gradients are taken with respect to tensors and variables, "
                    f"got {type(source).__name__}"
                )
        seeds = _seeds(target, targets, output_gradients)
        if not self.persistent:
            if self._open is not None:
                self._rest()
            self._used = True
            _LIVE.discard(self)
        nodes = [self._source_node(source) for source in flat]
        grads = self._walk(targets, seeds, nodes)
        if not self.persistent:
            self._nodes, self._marks = set(), {}
        results = [
            _leave(source, grads.get(node) if node is not None else None, unconnected_gradients)
            for source, node in zip(flat, nodes, strict=True)
        ]
        return _like(sources, iter(results))

    def _source_node(self, source: Any) -> Node | None:
        """The node at which this tape collects the gradient of `source`."""
        found = self._marks.get(id(source))
        if found is not None:
            return found[1]
        if not isinstance(source, Tensor):
            return None
        # Past the marks of other tapes, to this tape's own or to the op that made the tensor.
        node: Node | None = source._node
        while isinstance(node, Watched) and node not in self._nodes:
            node = node.origin
        return node

    def _walk(
        self, targets: list[Tensor], seeds: list[Tensor], sources: list[Node | None]
    ) -> dict[Node, Any]:
        wanted = {node for node in sources if node is not None}
        order, needed = self._order([t._node for t in targets], wanted)
        grads: dict[Node, Any] = {}
        for target, seed in zip(targets, seeds, strict=True):
            if target._node in needed:
                _accumulate(grads, target._node, seed)
        release = not self.persistent and not _LIVE
        for node in order:
            g = grads.get(node) if node in wanted else grads.pop(node, None)
            if g is None:
                continue
            op = node.op
            if op is not None:
                if node.saved is None:
                    raise errors.TapeError(
                        "this part of the graph was let go by the gradient() of another tape; "
                        "make that tape with persistent=True"
                    )
                parts = op.pull(node, g, needed)
                for parent, part in zip(node.parents, parts, strict=True):
                    if part is not None and parent in needed:
                        _accumulate(grads, parent, part)
                if release:
                    # Nobody else may ask for these: what they saved goes while the walk goes on.
                    node.saved = None
                    node.parents = ()
            elif type(node) is Output:
                parent = node.parents[0]
                assert parent is not None
                by_position = grads.setdefault(parent, {})
                _accumulate(by_position, node.saved, g)
            elif node not in self._nodes:
                for parent in node.parents:
                    if parent in needed:
                        _accumulate(grads, parent, g)
        return grads

    def _order(
        self, targets: list[Node | None], wanted: set[Node]
    ) -> tuple[list[Node], set[Node]]:
        """The nodes between targets and sources, latest first; and the same as a set."""
        spans = list(self._spans)
        if self._open is not None:
            spans.append((self._open, LOCAL.state.tick()))
        low, high = (spans[0] if len(spans) == 1 else (0, -1)) if spans else (0, -1)
        own = self._nodes
        seen: set[Node] = set()
        found: list[Node] = []
        stack = [node for node in targets if node is not None]
        while stack:
            node = stack.pop()
            if node in seen:
                continue
            if node.op is not None:
                serial = node.serial
                if not (low <= serial < high or any(a <= serial < b for a, b in spans)):
                    continue
            seen.add(node)
            found.append(node)
            if node in own:
                continue
            for parent in node.parents:
                if parent is not None and parent not in seen:
                    stack.append(parent)
        found.sort(key=_serial)
        needed: set[Node] = set()
        for node in found:
            if node in wanted:
                needed.add(node)
                continue
            if node in own:
                continue
            for parent in node.parents:
                if parent in needed:
                    needed.add(node)
                    break
        found.reverse()
        return [node for node in found if node in needed], needed

    # Jacobians -----------------------------------------------------------------------------------

    def jacobian(
        self, target: Tensor, sources: Any, unconnected_gradients: Unconnected = "none"
    ) -> Any:
        """The Jacobian of a tensor: shape target.shape + source.shape for each source.

        Raises:
            TapeError: as `gradient`.
        """
        return self._rows(target, sources, unconnected_gradients, lambda t: t.shape)

    def batch_jacobian(
        self, target: Tensor, source: Any, unconnected_gradients: Unconnected = "none"
    ) -> Any:
        """For each item i of a batch, the Jacobian of target[i] with respect to source[i].

        Shape (batch, *target.shape[1:], *source.shape[1:]). Items must not depend on each other.

        Raises:
            ShapeError: when the two do not have the same number of items.
            TapeError: as `gradient`.
        """
        target = _target(target)
        shape = tuple(source.shape)
        if not target.ndim or not shape or target.shape[0] != shape[0]:
            raise errors.ShapeError(
                f"batch_jacobian: target {target.shape} and source {shape} need one batch axis "
                f"in front, of the same size"
            )
        batch, rest = target.shape[0], target.shape[1:]
        size = 1
        for length in rest:
            size *= length
        rows: list[Any] = []
        with self._again():
            for i in range(size):
                seed = CALL["one_hot"](
                    CALL["full"]((batch,), i, dtype="int32", device=target.device),
                    size,
                    dtype=target.dtype,
                ).reshape(target.shape)
                rows.append(self.gradient(target, source, seed, unconnected_gradients))
        if not rows or rows[0] is None:
            return None if rows else CALL["full"]((batch, *rest, *shape[1:]), 0, dtype=target.dtype)
        return CALL["stack"](rows, axis=1).reshape((batch, *rest, *shape[1:]))

    def _rows(
        self,
        target: Any,
        sources: Any,
        unconnected: Unconnected,
        shape_of: Callable[[Tensor], tuple[int, ...]],
    ) -> Any:
        target = _target(target)
        shape = shape_of(target)
        flat = list(_leaves(sources))
        rows: list[list[Any]] = []
        with self._again():
            for i in range(target.size):
                seed = CALL["one_hot"](
                    CALL["full"]((), i, dtype="int32", device=target.device),
                    target.size,
                    dtype=target.dtype,
                ).reshape(shape)
                rows.append(self.gradient(target, flat, seed, unconnected))
        results: list[Any] = []
        for position, source in enumerate(flat):
            column = [row[position] for row in rows]
            if not column:
                zeros = CALL["full"]((*shape, *source.shape), 0, dtype=source.dtype)
                results.append(zeros)
            elif column[0] is None:
                results.append(None)
            else:
                results.append(CALL["stack"](column).reshape((*shape, *source.shape)))
        return _like(sources, iter(results))

    @contextmanager
    def _again(self) -> Iterator[None]:
        """Several walks; a tape that is not persistent is used up by all of them together."""
        if self.persistent or self._used:
            yield  # a used tape raises in `gradient`
            return
        if self._open is not None:
            self._rest()
        self.persistent = True
        try:
            yield
        finally:
            self.persistent = False
            self._used = True
            self._nodes, self._marks = set(), {}
            _LIVE.discard(self)


def read(source: Any, value: Tensor, trainable: bool) -> None:
    """Links a tensor just read from a variable to the marks of the tapes that watch it."""
    state = LOCAL.state
    if not state.recording:
        return
    marks = []
    for tape in state.tapes:
        if trainable and tape.watch_accessed_variables:
            marks.append(tape.mark(source))
        elif id(source) in tape._marks:
            marks.append(tape._marks[id(source)][1])
    if not marks:
        value._node = HEARD
    elif len(marks) == 1:
        value._node = marks[0]
    else:
        # Each tape finds its own mark behind this one.
        value._node = Watched(state.tick(), *marks)


def _serial(node: Node) -> int:
    return node.serial


def _accumulate(grads: dict[Any, Any], key: Any, part: Tensor) -> None:
    have = grads.get(key)
    grads[key] = part if have is None else have + part


def _origin(node: Node | None) -> Node | None:
    """What a new mark on a tensor stands on: marks that no live tape owns are passed over."""
    while isinstance(node, Watched):
        mark = node
        if any(mark in tape._nodes for tape in _LIVE):
            return node
        node = node.origin
    return node


def _target(value: Any) -> Tensor:
    if not hasattr(type(value), "__pullback_tensor__"):
        raise errors.InputTypeError(
            f"the target of a gradient is a tensor, got {type(value).__name__}; "
            f"compute it with pullback's ops inside `with tape:`"
        )
    tensor = value if isinstance(value, Tensor) else from_any(value)
    if tensor._node is None:
        raise errors.TapeError(
            "the target is not on the tape: it was made where no tape listened; "
            "compute it inside `with tape:`, from variables or from what tape.watch(x) was given"
        )
    if not dtypes.is_floating(tensor.dtype):
        raise errors.DTypeError(
            f"the target has dtype {tensor.dtype}, and integers have no gradient; "
            f"convert the inputs to a floating dtype"
        )
    return tensor


def _seeds(target: Any, targets: list[Tensor], output_gradients: Any) -> list[Tensor]:
    if output_gradients is None:
        return [
            CALL["full"](t.shape, 1, dtype=t.dtype, device=t.device) for t in targets
        ]
    if isinstance(target, Tensor) or hasattr(type(target), "__pullback_tensor__"):
        given = [output_gradients]
    else:
        given = list(_leaves(output_gradients))
    if len(given) != len(targets):
        raise errors.InputValueError(
            f"{len(targets)} targets and {len(given)} output_gradients; give one for each"
        )
    seeds = []
    for tensor, seed in zip(targets, given, strict=True):
        seed = from_any(seed, tensor.dtype, tensor.device)
        if seed.shape != tensor.shape:
            raise errors.ShapeError(
                f"an output_gradient of shape {seed.shape} for a target of shape {tensor.shape}"
            )
        seeds.append(CALL["conj"](seed) if dtypes.is_complex(seed.dtype) else seed)
    return seeds


def _leave(source: Any, gradient: Any, unconnected: Unconnected) -> Any:
    if gradient is None:
        if unconnected == "none":
            return None
        return CALL["full"](tuple(source.shape), 0, dtype=source.dtype, device=source.device)
    if isinstance(gradient, dict):
        gradient = next(iter(gradient.values()))
    if dtypes.is_complex(gradient.dtype):
        # Rules work with the plain transpose; the convention of the field is its conjugate.
        gradient = CALL["conj"](gradient)
    if LISTENING.count and gradient._node is None:
        gradient = gradient.__copy__()
        gradient._node = HEARD
    return gradient


def _leaves(structure: Any) -> Iterable[Any]:
    if isinstance(structure, dict):
        for value in structure.values():
            yield from _leaves(value)
    elif isinstance(structure, (list, tuple)):
        for value in structure:
            yield from _leaves(value)
    elif structure is not None:
        yield structure


def _like(structure: Any, values: Iterator[Any]) -> Any:
    if isinstance(structure, dict):
        return {key: _like(value, values) for key, value in structure.items()}
    if isinstance(structure, (list, tuple)):
        items = [_like(value, values) for value in structure]
        if isinstance(structure, tuple) and hasattr(structure, "_fields"):
            return type(structure)(*items)
        return tuple(items) if isinstance(structure, tuple) else items
    return None if structure is None else next(values)


def _vjp(function: Callable[..., list[Tensor]], inputs: list[Tensor], cotangents: list[Tensor]) -> Any:
    """Cotangents of `inputs`, in the transpose convention, through a function of them."""
    copies = [value.__copy__() for value in inputs]
    with GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(copies)
        results = function(*copies)
    conjugated = [CALL["conj"](c) if dtypes.is_complex(c.dtype) else c for c in cotangents]
    gradients = tape.gradient(results, copies, conjugated)
    return [
        CALL["conj"](g) if g is not None and dtypes.is_complex(g.dtype) else g for g in gradients
    ]


CALL["__vjp__"] = _vjp
