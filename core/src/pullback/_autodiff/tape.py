"""`GradientTape`: which part of the graph a gradient is asked of."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from pullback import dtypes, errors
from pullback._autodiff import backward, replay, seeds
from pullback._autodiff.seeds import Unconnected
from pullback._dispatch.recording import LOCAL, RECORDING, Count, Leaf, Node
from pullback._tree import leaves, like
from pullback.tensor import Tensor

# Two tapes of two threads may mark one tensor: each mark stands on the one before it.
_MARKING = threading.Lock()


class _Token:
    """Whether a tape may still be asked for a gradient; its marks point to it, not to the tape."""

    live = True


#: How many tapes may still be asked for a gradient: while any may, no node is let go.
_LIVE = Count()


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

    __slots__ = (
        "__weakref__",
        "_marks",
        "_nodes",
        "_open",
        "_spans",
        "_state",
        "_token",
        "_used",
        "persistent",
        "start",
        "watch_accessed_variables",
    )

    def __init__(self, *, persistent: bool = False, watch_accessed_variables: bool = True) -> None:
        self.persistent = persistent
        self.watch_accessed_variables = watch_accessed_variables
        self._used = False
        self._token: _Token | None = None
        #: Where the open span began; None while the tape does not listen.
        self._open: int | None = None
        #: The serial number at which the tape first listened; -1 before.
        self.start = -1
        #: Closed spans of serial numbers in which the tape listened.
        self._spans: list[backward.Span] = []
        #: What the tape has marked by reading it (kept alive here), by identity.
        self._marks: dict[int, tuple[Any, Leaf]] = {}
        #: Every mark that the tape has made.
        self._nodes: set[Node] = set()

    def __del__(self) -> None:
        if self._token is not None:
            self._token.live = False
            _LIVE.count -= 1

    # Listening -----------------------------------------------------------------------------------

    def __enter__(self) -> GradientTape:
        if self._open is not None:
            raise errors.TapeError("this tape is listening already; make another one to nest")
        if self._used:
            raise errors.TapeError(
                "this tape has given its gradient; make a new one, call reset(), "
                "or make it with persistent=True"
            )
        if self._spans and self._state is not LOCAL.state:
            raise errors.TapeError(
                "this tape has listened in another thread; make one for each, or call reset()"
            )
        self._listen()
        return self

    def __exit__(self, *_: object) -> None:
        if self._open is None:
            return
        if self._state is not LOCAL.state:
            # A generator that stands still inside the block is closed wherever it is collected.
            self.stop()
            raise errors.TapeError(
                "a tape must be left in the thread in which it was entered; it listens no longer. "
                "Close a generator that has entered one (generator.close()) in its own thread"
            )
        self._rest()

    def stop(self) -> None:
        """The tape listens no longer; for any thread, also where its own has ended."""
        state, begun, self._open = self._state, self._open, None
        if begun is None:
            return
        self._spans.append((begun, state.next_serial()))
        state.tapes.remove(self)
        # CPython changes threads at calls only: the own thread enters no tape between these lines.
        if not state.tapes:
            state.recording = False
        RECORDING.count -= 1

    def _listen(self) -> None:
        self._state = state = LOCAL.state
        self._open = serial = state.next_serial()
        if self.start < 0:
            self.start = serial
        if self._token is None:
            self._token = _Token()
            _LIVE.count += 1
        tapes = state.tapes
        if not tapes or self.start < state.oldest_serial:
            state.oldest_serial = self.start
        tapes.append(self)
        state.recording = not state.paused
        RECORDING.count += 1

    def _rest(self) -> None:
        state = self._state
        if state is not LOCAL.state:
            raise errors.TapeError("a tape must be left in the thread in which it was entered")
        assert self._open is not None
        self._spans.append((self._open, state.next_serial()))
        self._open = None
        tapes = state.tapes
        tapes.remove(self)
        if tapes:
            state.update()
        else:
            state.recording = False
        RECORDING.count -= 1

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
            if not self._used:
                self._listen()

    def reset(self) -> None:
        """Forgets what the tape has heard and watches nothing; it goes on if it was listening."""
        listening = self._open is not None
        if listening:
            self._rest()
        self._used, self.start = False, -1
        self._spans, self._marks, self._nodes = [], {}, set()
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
        if type(tensors) is Tensor and dtypes.is_floating(tensors.dtype):
            self._watch_tensor(tensors)
            return
        for value in leaves(tensors):
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
            if type(value) is Tensor:
                self._watch_tensor(value)
            else:
                self.mark(value)

    def _watch_tensor(self, tensor: Tensor) -> None:
        with _MARKING:
            behind = node = tensor._node
            if node is not None:
                # What is older than the tape it cannot have heard; else it may be its own already.
                if node.op is None and not node.parents:
                    if node in self._nodes:
                        return
                elif (node.serial >= self.start or node.op is None) and self._sees(node):
                    return
                behind = backward.live_origin(node)
            serial = self._state.next_serial()
            mark = Leaf(serial) if behind is None else Leaf(serial, behind)
            mark.saved = self._token
            tensor._node = mark
            self._nodes.add(mark)

    def mark(self, source: Source) -> Leaf:
        """The node that stands for a variable on this tape, made when it is first read."""
        found = self._marks.get(id(source))
        if found is not None:
            return found[1]
        mark = Leaf(LOCAL.state.next_serial())
        mark.saved = self._token
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
            output_gradients: the cotangent of each target, in target's structure; ones if None.
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
        single, marks = type(sources) is Tensor, self._marks
        # Variables, as a training loop has them.
        read = type(sources) is list and marks.keys() >= {id(source) for source in sources}
        if read:
            flat = sources
            nodes: list[Node | None] = [marks[id(source)][1] for source in sources]
        else:
            flat = [sources] if single else leaves(sources)
            nodes = [self._source_node(source) for source in flat]
        found = None
        if output_gradients is None and self._open is None and len(self._spans) == 1:
            # What a training loop does at each step.
            release = not self.persistent and _LIVE.count == (self._token is not None)
            found = replay.gradients(target, nodes, self._nodes, self._spans[0], release)
        if found is None:
            found = self._walk(target, flat, nodes, output_gradients)
        elif not self.persistent:
            self._retire()
        if unconnected_gradients == "zero":
            found = [
                seeds.zeros(source) if gradient is None else gradient
                for source, gradient in zip(flat, found, strict=True)
            ]
        if read:
            return found
        return found[0] if single else like(sources, iter(found))

    def _walk(
        self, target: Any, flat: list[Any], nodes: list[Node | None], output_gradients: Any
    ) -> list[Tensor | None]:
        """The gradient with respect to each of the sources, which are collected at `nodes`."""
        targets = [seeds.target_of(value) for value in leaves(target)]
        if output_gradients is None:
            arriving = [seeds.ones(tensor) for tensor in targets]
        else:
            arriving = seeds.given(target, targets, output_gradients)
        spans = self._spans
        if self._open is not None:
            spans = [*spans, (self._open, self._state.next_serial())]
        own = self._nodes
        if not self.persistent:
            self._retire()
        ends = [tensor._node for tensor in targets]
        wanted = {node for node in nodes if node is not None}
        # With every mark wanted, all that the tape heard is: no need to look for the paths first.
        needed = None if wanted == own else backward.needed_nodes(ends, wanted, own, spans)
        release = not self.persistent and not _LIVE.count
        heads = zip(ends, arriving, strict=True)
        grads = backward.walk(heads, needed, wanted, own, spans, release)
        return [seeds.leave(node and grads.get(node)) for node in nodes]

    def _retire(self) -> None:
        """The tape has been used up: it stops listening and lets go of what it kept."""
        if self._open is not None:
            self._rest()
        self._used = True
        if self._token is not None:
            self._token.live = False
            self._token = None
            _LIVE.count -= 1
        self._nodes, self._marks = set(), {}

    def _source_node(self, source: Any) -> Node | None:
        """The node at which this tape collects the gradient of `source`."""
        if type(source) is not Tensor:
            found = self._marks.get(id(source))
            if found is not None:
                return found[1]
            if not hasattr(type(source), "__pullback_tensor__"):
                raise errors.InputTypeError(
                    f"gradients are taken with respect to tensors and variables, "
                    f"got {type(source).__name__}"
                )
            return None
        # Past the marks of other tapes, to this tape's own or to the op that made the tensor.
        node: Node | None = source._node
        while isinstance(node, Leaf) and node not in self._nodes:
            node = node.origin
        return node

    # Jacobians -----------------------------------------------------------------------------------

    def jacobian(
        self, target: Tensor, sources: Any, unconnected_gradients: Unconnected = "none"
    ) -> Any:
        """The Jacobian of a tensor: shape target.shape + source.shape for each source.

        Raises:
            TapeError: as `gradient`.
        """
        target = seeds.target_of(target)
        flat = leaves(sources)
        with self._again():
            rows = [
                self.gradient(target, flat, seed, unconnected_gradients)
                for seed in seeds.unit_seeds(target)
            ]
        return like(sources, iter(seeds.stacked(rows, target, flat)))

    def batch_jacobian(
        self, target: Tensor, source: Any, unconnected_gradients: Unconnected = "none"
    ) -> Any:
        """For each item i of a batch, the Jacobian of target[i] with respect to source[i].

        Shape (batch, *target.shape[1:], *source.shape[1:]). Items must not depend on each other.

        Raises:
            ShapeError: when the two do not have the same number of items.
            TapeError: as `gradient`.
        """
        target = seeds.target_of(target)
        shape = tuple(source.shape)
        if not target.ndim or not shape or target.shape[0] != shape[0]:
            raise errors.ShapeError(
                f"batch_jacobian: target {target.shape} and source {shape} need one batch axis "
                f"in front, of the same size"
            )
        with self._again():
            rows = [
                self.gradient(target, source, seed, unconnected_gradients)
                for seed in seeds.unit_seeds(target, batch=True)
            ]
        return seeds.stacked_by_item(rows, target, source)

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
            self._retire()
