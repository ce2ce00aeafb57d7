"""`GradientTape`: records ops, and gives gradients of what they computed."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from pullback import dtypes, errors
from pullback._autodiff import backward, replay, seeds
from pullback._autodiff.jacobians import Jacobians
from pullback._autodiff.seeds import Unconnected
from pullback._dispatch.recording import LOCAL, RECORDING, Leaf, Node
from pullback._foreign_names.tensors import TAPE
from pullback._hints import answer_attributes
from pullback._symbols import SharedCount
from pullback._tree import leaves, like
from pullback.shapes import check_choice
from pullback.tensor import Tensor

# Two tapes of two threads may watch one tensor: each leaf stands on the one before it.
_WATCHING = threading.Lock()


class _Token:
    """Says whether a tape may still be asked for a gradient; its leaves hold this, not the tape."""

    live = True


#: The usual `unconnected_gradients`, which `gradient` knows by identity.
_NONE: Unconnected = "none"


def _are_zeros(unconnected_gradients: object) -> bool:
    """Returns whether a source without a gradient gets zeros."""
    check_choice(unconnected_gradients, "unconnected_gradients", ("none", "zero"))
    return unconnected_gradients == "zero"


#: How many tapes may still be asked for a gradient: while any may, no node is released.
_LIVE = SharedCount()


def any_live() -> bool:
    """Returns whether a tape may still be asked for a gradient: then no node is released."""
    return bool(_LIVE.count)


class Watchable(Protocol):
    """An object that a tape can watch besides a tensor: it is read as one, such as a Variable."""

    def __pullback_tensor__(self) -> Tensor: ...


class GradientTape(Jacobians):
    """Records ops, then gives gradients of what they computed.

    Variables are watched as they are read, tensors with `watch`. Tapes nest: a gradient computed
    while an outer tape records can be differentiated again.

    Args:
        persistent: allows any number of `gradient` calls; the record is kept as long as the tape.
        watch_accessed_variables: whether reading a trainable variable watches it.

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
        "_assigned",
        "_intervals",
        "_leaves",
        "_open",
        "_own",
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
        #: The serial number at which the open interval began; None while the tape does not record.
        self._open: int | None = None
        #: The serial number at which the tape first recorded; -1 before.
        self.start = -1
        #: Closed intervals of serial numbers in which the tape recorded.
        self._intervals: list[backward.Interval] = []
        #: The variables that the tape watches (kept alive here) with their leaves, by identity.
        self._leaves: dict[int, tuple[Watchable, Leaf]] = {}
        #: Every leaf that the tape has made.
        self._own: set[Node] = set()
        #: The variables that were given values that a tape had recorded, with the serial number
        #: of the last time, by identity; None before there is one.
        self._assigned: dict[int, tuple[Any, int]] | None = None

    def __del__(self) -> None:
        try:
            token = self._token
        except AttributeError:
            return  # a constructor that has raised has set nothing
        if token is not None:
            token.live = False
            _LIVE.count -= 1

    # Recording -----------------------------------------------------------------------------------

    def __enter__(self) -> GradientTape:
        if self._open is not None:
            raise errors.TapeError("this tape is recording already; make another tape to nest them")
        if self._used:
            raise errors.TapeError(
                "gradient() was called on this tape before; make a new tape, call reset(), "
                "or make it with persistent=True"
            )
        if self._intervals and self._state is not LOCAL.state:
            raise errors.TapeError(
                "this tape has recorded in another thread; make a tape for each, or call reset()"
            )
        self._begin()
        return self

    def __exit__(self, *_: object) -> None:
        if self._open is None:
            return
        if self._state is not LOCAL.state:
            # A generator that stands still inside the block is closed wherever it is collected.
            self.stop()
            raise errors.TapeError(
                "a tape must be left in the thread in which it was entered; it no longer records. "
                "Close a generator that has entered a tape (generator.close()) in its own thread"
            )
        self._close(self._open)

    def stop(self) -> None:
        """Ends recording; any thread may call this, also when the thread of the tape has ended."""
        begin, self._open = self._open, None
        if begin is None:
            return
        state = self._state
        self._intervals.append((begin, state.next_serial()))
        state.tapes.remove(self)
        # CPython changes threads at calls only: the own thread enters no tape between these lines.
        if not state.tapes:
            state.recording = False
        RECORDING.count -= 1

    def _begin(self) -> None:
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

    def _end(self) -> None:
        state = self._state
        if state is not LOCAL.state:
            raise errors.TapeError("a tape must be left in the thread in which it was entered")
        assert self._open is not None
        self._close(self._open)

    def _close(self, begin: int) -> None:
        """Ends recording in the thread of the tape."""
        state = self._state
        self._intervals.append((begin, state.next_serial()))
        self._open = None
        state.tapes.remove(self)
        if state.tapes:
            state.update()
        else:
            state.recording = False
        RECORDING.count -= 1

    @contextmanager
    def stop_recording(self) -> Iterator[None]:
        """Pauses the tape inside the block; other tapes go on recording.

        Raises:
            TapeError: when the tape is not recording; in a function of `pb.remat` that the tape
                is outside of, which is recorded again as a whole.
        """
        if self._open is None:
            raise errors.TapeError("stop_recording() is for use inside `with tape:`")
        again = LOCAL.state.again
        if again is not None and self._open < again.begin:
            raise errors.TapeError(
                "stop_recording() in a function of pb.remat, of a tape outside of it: the gradient "
                "records all of it again; write pb.stop_gradient(x) for what has no gradient"
            )
        self._end()
        try:
            yield
        finally:
            if not self._used:
                self._begin()

    def reset(self) -> None:
        """Forgets what the tape has recorded and watches nothing; a tape that records goes on."""
        recording = self._open is not None
        if recording:
            self._end()
        self._used, self.start = False, -1
        self._intervals, self._leaves, self._own, self._assigned = [], {}, set(), None
        if recording:
            self._begin()

    # Watching ------------------------------------------------------------------------------------

    def watch(self, tensors: Any) -> None:
        """Makes leaves of `tensors` (a tensor, a variable, or a structure of them) from now on.

        Raises:
            TapeError: when the tape is not recording.
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
                self.leaf_of(value, wanted=True)

    def _watch_tensor(self, tensor: Tensor) -> None:
        with _WATCHING:
            behind = node = tensor._node
            if node is not None:
                # A tape has not recorded what is older than itself; else this may be its own.
                if node.op is None and not node.parents:
                    if node in self._own:
                        return
                elif (node.serial >= self.start or node.op is None) and self._sees(node):
                    return
                behind = backward.live_origin(node)
            serial = self._state.next_serial()
            leaf = Leaf(serial) if behind is None else Leaf(serial, behind)
            leaf.saved = self._token
            tensor._node = leaf
            self._own.add(leaf)

    def leaf_of(self, variable: Watchable, wanted: bool) -> Leaf | None:
        """The leaf of a variable, made when it is first asked for.

        None if the tape has none and `wanted` is False.
        """
        entry = self._leaves.get(id(variable))
        if entry is not None:
            return entry[1]
        if not wanted:
            return None
        leaf = Leaf(LOCAL.state.next_serial())
        leaf.saved = self._token
        self._leaves[id(variable)] = (variable, leaf)
        self._own.add(leaf)
        return leaf

    def note_assigned(self, variable: Watchable) -> None:
        """Notes that a variable gets a value that a tape has recorded; see `_warn_of_assigned`."""
        if self._assigned is None:
            self._assigned = {}
        self._assigned[id(variable)] = variable, LOCAL.state.next_serial()

    def watched_variables(self) -> tuple[Any, ...]:
        """The variables that the tape watches, in the order in which it met them."""
        return tuple(source for source, _ in self._leaves.values())

    def _sees(self, node: Node) -> bool:
        """Returns whether the tape has a path from `node` to a leaf of its own."""
        stack, seen = [node], set()
        while stack:
            here = stack.pop()
            if here in self._own:
                return True
            if here in seen or not self._covers(here):
                continue
            seen.add(here)
            stack.extend(parent for parent in here.parents if parent is not None)
        return False

    def _covers(self, node: Node) -> bool:
        if node.op is None:
            return True  # leaves and outputs are looked through
        serial = node.serial
        if self._open is not None and serial >= self._open:
            return serial >> 48 == self._open >> 48
        return any(begin <= serial < end for begin, end in self._intervals)

    # Gradients -----------------------------------------------------------------------------------

    def gradient(
        self,
        target: object,
        sources: Any,
        output_gradients: object = None,
        unconnected_gradients: Unconnected = _NONE,
    ) -> Any:
        """The gradient of `target` (or of the sum of several) with respect to `sources`.

        Args:
            target: a tensor or a structure of them; one of several elements stands for its sum.
            sources: tensors and variables, in any structure of lists, tuples and dicts.
            output_gradients: the cotangent of each target, in target's structure; ones if None.
            unconnected_gradients: the gradient of a source on which target does not depend: None
                ("none") or zeros of its shape ("zero").

        Returns:
            One gradient per source, in the structure of `sources`. Gradients with respect to
            complex sources follow TensorFlow's and PyTorch's convention (the conjugate of
            d target / d z), so that a step against them goes downhill.

        Raises:
            TapeError: when the tape has been used already (and is not persistent), or the target
                was computed while the tape did not record.
        """
        if self._used:
            raise errors.TapeError(
                "gradient() was called on this tape before; make it with "
                "pb.GradientTape(persistent=True) to call it more than once"
            )
        zeros = unconnected_gradients is not _NONE and _are_zeros(unconnected_gradients)
        single = type(sources) is Tensor
        nodes = self._read_nodes(sources) if type(sources) is list else None
        read = nodes is not None
        if nodes is not None:
            flat = sources
        elif single:
            flat = [sources]
            nodes = [self._source_node(sources)]
        else:
            flat = leaves(sources)
            nodes = [self._source_node(source) for source in flat]
        if self._assigned is not None:
            self._warn_of_assigned(target, flat, nodes, self._assigned)
        gradients = None
        given = output_gradients
        if (
            (given is None or type(given) is Tensor)
            and self._open is None
            and len(self._intervals) == 1
        ):
            # The case of a training loop, whose sources are variables.
            release = not self.persistent and _LIVE.count == (self._token is not None)
            gradients = replay.gradients(
                target, nodes, self._own, self._intervals[0], release, None, given
            )
        if gradients is None:
            gradients = self._backpropagate(target, flat, nodes, output_gradients)
        elif not self.persistent:
            self._retire()
        if zeros:
            gradients = [
                seeds.zeros(source) if gradient is None else gradient
                for source, gradient in zip(flat, gradients, strict=True)
            ]
        if read:
            return gradients
        return gradients[0] if single else like(sources, iter(gradients))

    def _warn_of_assigned(
        self,
        target: object,
        flat: list[Any],
        nodes: list[Node | None],
        assigned: dict[int, tuple[Any, int]],
    ) -> None:
        """Warns where a gradient stops at a value that a source was given while the tape recorded.

        A step such as `v.assign(v - rate * slope)` is not followed: the gradient is that at the
        new value, which is not the gradient through the step.
        """
        since = {
            node: assigned[id(source)]
            for source, node in zip(flat, nodes, strict=True)
            if node is not None and id(source) in assigned
        }
        stack = [value._node for value in leaves(target) if type(value) is Tensor]
        seen: set[Node | None] = {None}
        while stack and since:
            node = stack.pop()
            if node in seen or not self._covers(node):
                continue
            seen.add(node)
            stack.extend(node.parents)
            for parent in node.parents:
                source, serial = since.get(parent, (None, node.serial))
                if serial < node.serial:
                    warnings.warn(
                        f"{source._label} was assigned a value that this tape has recorded, and "
                        f"read again: the gradient stops there, since tapes do not follow "
                        f"assignments. For gradients through a step, keep its result in a tensor: "
                        f"pb.functional_call(model, values, x) (docs/transforms.md)",
                        RuntimeWarning,
                        stacklevel=3,
                    )
                    return

    def gradients_into(
        self, target: Tensor, variables: list[Any], sink: backward.Sink
    ) -> tuple[list[Tensor | None], list[Tensor]]:
        """The gradients of variables, and what a sink has begun with them.

        A compiled backward pass calls it as soon as the gradients are there that each of its ops
        needs; without one it is called at the end.

        Raises:
            InputTypeError: if variables are not in a list, or a sink cannot be called.
        """
        if type(variables) is not list or not callable(sink):
            raise errors.InputTypeError(
                f"gradients_into takes a list of variables and a sink that is called, got "
                f"{type(variables).__name__} and {type(sink).__name__}"
            )
        nodes = self._read_nodes(variables)
        if (
            nodes is not None
            and not self._used
            and self._open is None
            and len(self._intervals) == 1
        ):
            release = not self.persistent and _LIVE.count == (self._token is not None)
            found = replay.gradients(target, nodes, self._own, self._intervals[0], release, sink)
            if found is not None:
                if not self.persistent:
                    self._retire()
                return found[: len(nodes)], [x for x in found[len(nodes) :] if x is not None]
        gradients: list[Tensor | None] = self.gradient(target, variables)
        return gradients, sink(gradients)

    def _backpropagate(
        self, target: object, flat: list[Any], nodes: list[Node | None], output_gradients: object
    ) -> list[Tensor | None]:
        """The gradients with respect to the sources, which are collected at `nodes`."""
        targets = [seeds.target_of(value) for value in leaves(target)]
        if output_gradients is None:
            cotangents = [seeds.ones(tensor) for tensor in targets]
        else:
            cotangents = seeds.check_output_gradients(target, targets, output_gradients)
        intervals = self._intervals
        if self._open is not None:
            intervals = [*intervals, (self._open, self._state.next_serial())]
        own = self._own
        if not self.persistent:
            self._retire()
        ends = [tensor._node for tensor in targets]
        wanted = {node for node in nodes if node is not None}
        # If every leaf is wanted, so is all that the tape has recorded: no search for paths.
        needed = None if wanted == own else backward.needed_nodes(ends, wanted, own, intervals)
        release = not self.persistent and not _LIVE.count
        starts = zip(ends, cotangents, strict=True)
        collected = backward.backpropagate(starts, needed, wanted, own, intervals, release)
        return [seeds.finalize_gradient(node and collected.get(node)) for node in nodes]

    def _retire(self) -> None:
        """Ends the use of the tape: it stops recording and releases what it kept."""
        if self._open is not None:
            self._end()
        self._used = True
        self.retire_token()
        self._own, self._leaves = set(), {}

    def retire_token(self) -> None:
        """Counts no more among the tapes for which nodes are kept."""
        if self._token is not None:
            self._token.live = False
            self._token = None
            _LIVE.count -= 1

    def _read_nodes(self, sources: list[Any]) -> list[Node | None] | None:
        """The nodes of a list of variables that the tape watches; None for all else."""
        entries = self._leaves
        if not entries:
            return None
        try:
            return [entries[id(source)][1] for source in sources]
        except KeyError:
            return None

    def _source_node(self, source: Any) -> Node | None:
        """The node at which this tape collects the gradient of `source`."""
        if type(source) is not Tensor:
            entry = self._leaves.get(id(source))
            if entry is not None:
                return entry[1]
            if not hasattr(type(source), "__pullback_tensor__"):
                raise errors.InputTypeError(
                    f"gradients are taken with respect to tensors and variables, "
                    f"got {type(source).__name__}"
                )
            return None
        # Past the leaves of other tapes, to this tape's own or to the op that made the tensor.
        node: Node | None = source._node
        while isinstance(node, Leaf) and node not in self._own:
            node = node.origin
        return node

    @contextmanager
    def _again(self) -> Iterator[None]:
        """Allows several backward passes; together they use up a tape that is not persistent."""
        if self.persistent or self._used:
            yield  # a used tape raises in `gradient`
            return
        if self._open is not None:
            self._end()
        self.persistent = True
        try:
            yield
        finally:
            self.persistent = False
            self._retire()


answer_attributes(GradientTape, TAPE)
