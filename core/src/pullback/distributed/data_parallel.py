"""Data parallel training: each rank has a part of the batch, and all take the same step."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from pullback import errors
from pullback._autodiff.tape import GradientTape
from pullback._dispatch.arguments import as_bool, as_list
from pullback._dispatch.recording import LOCAL, capturing, decided, paused
from pullback.distributed.collectives import (
    all_reduce,
    barrier,
    begin_all_reduce,
    broadcast,
    finish_all_reduce,
)
from pullback.distributed.share import Share, all_items, items
from pullback.distributed.world import current, rank, size
from pullback.ops.creation import full
from pullback.ops.joining import concat
from pullback.ops.manipulation import reshape
from pullback.ops.precision import widened
from pullback.optimizers.checks import Pairs, checked_pairs
from pullback.optimizers.optimizer import Optimizer, accumulate
from pullback.optimizers.slots import Slots
from pullback.optimizers.wrapper import OptimizerWrapper
from pullback.random import default_generator
from pullback.state import named_variables
from pullback.tensor import Tensor, TensorLike
from pullback.variable import Variable

__all__ = ["DataParallel", "Sharing", "broadcast_state"]

#: The bytes of the first bucket and of the others: the last layers' gradients are there first.
FIRST, OTHERS = 1 << 20, 25 << 20


class DataParallel(OptimizerWrapper):
    """An optimizer whose steps are those for the batches of all ranks together.

    Each step averages the gradients of all ranks, weighted by their items: those of the last
    `pb.distributed.share`, or as many on each rank. They travel in flat buckets, the last ones
    first: of 1 MiB, then of 25 MiB (Li et al., "PyTorch Distributed", VLDB 2020).

    `minimize` weights the loss, and `apply_gradients` the gradients. With batch normalization
    over ranks that have different numbers of items only `minimize` is exact.

    Args:
        optimizer: the optimizer that takes the steps.
        exact: True to add in an order of ranks that does not depend on the communicator, in pairs:
            4 ranks add (0 + 1) + (2 + 3).
        shard_slots: True to keep the slots of each variable on one rank alone, which moves it and
            sends it to the others (Rajbhandari et al., "ZeRO", 2020, stage 1).

    Raises:
        InputTypeError: for what is not an optimizer.
        InputValueError: for `shard_slots` with an optimizer that needs all gradients at once.

    >>> def train():
    ...     v = pb.Variable(1.0)
    ...     optimizer = pb.distributed.DataParallel(pb.optimizers.SGD(0.5))
    ...     x = pb.distributed.share(pb.asarray([1.0, 2.0, 6.0]))
    ...     optimizer.minimize(lambda: pb.mean(v * x), [v])
    ...     return v.numpy().item()
    >>> pb.distributed.run_threads(train, 2)
    [-0.5, -0.5]
    """

    def __init__(
        self, optimizer: Optimizer, *, exact: bool = False, shard_slots: bool = False
    ) -> None:
        super().__init__(optimizer)
        self.exact = as_bool(exact, "exact")
        self.shard_slots = as_bool(shard_slots, "shard_slots")
        self._owners = _Owners()
        whole = isinstance(optimizer, OptimizerWrapper) or optimizer.clip_global_norm is not None
        if self.shard_slots and whole:
            raise errors.InputValueError(
                "shard_slots: an optimizer with clip_global_norm, or around another one, needs "
                "all gradients at once; leave shard_slots out, or clip with clip_norm"
            )

    def scaled(self, loss: TensorLike) -> Tensor:
        """Returns the loss whose gradients `apply_gradients` takes."""
        found: Tensor = self.optimizer.scaled(loss)  # type: ignore[arg-type]
        return found

    def minimize(
        self, loss: Callable[[], Tensor], variables: Sequence[Variable] | None = None
    ) -> Tensor:
        """Takes a step against the gradient of the loss of all ranks; returns that of this one.

        Raises:
            PullbackError: see `Optimizer.minimize`.
        """
        if size() == 1:
            return super().minimize(loss, variables)
        watched = () if variables is None else as_list(variables, "variables", "variables")
        with GradientTape() as tape:
            if variables is not None:
                tape.watch(watched)
            value = loss()
            target = self.scaled(value) * self._weight()
        moved = list(tape.watched_variables() if variables is None else variables)
        gradients, begun = tape.gradients_into(target, moved, _Sums(self, moved))
        self._take(checked_pairs(zip(gradients, moved, strict=True)), begun)
        return value

    def apply_gradients(self, pairs: Iterable[tuple[TensorLike | None, Variable]]) -> None:
        """Takes one step against the mean of the gradients of all ranks.

        Raises:
            PullbackError: see `Optimizer.apply_gradients`.
            CommunicationError: if the ranks have gradients of different variables.
        """
        if size() == 1:
            self.optimizer.apply_gradients(pairs)
        else:
            checked = checked_pairs(pairs)
            self._take(checked, self._begun(checked, weighted=False))

    def _take(self, pairs: Pairs, begun: Sequence[Tensor]) -> None:
        with paused():
            found: dict[int, Tensor] = {}
            for bucket, vector in zip(_buckets(pairs), begun, strict=True):
                found.update(self._reduced(bucket, vector))
            reduced = [(found[id(variable)], variable) for _, variable in pairs]
        if self.shard_slots:
            self._take_own(reduced)
        else:
            self.optimizer.apply_gradients(reduced)

    def _weight(self) -> float:
        """The factor of gradients of this rank; exact sums are divided afterwards."""
        return items() if self.exact else items() / all_items()

    def _begun(self, pairs: Pairs, *, weighted: bool) -> list[Tensor]:
        """The gradients of each bucket as a vector whose sum is on its way."""
        buckets = list(_buckets(pairs))
        with paused():
            # Behind the last one nothing is left to compute.
            return [self._begun_one(b, weighted, b is not buckets[-1]) for b in buckets]

    def _begun_one(self, bucket: Pairs, weighted: bool, beside: bool) -> Tensor:
        weight = self._weight()
        own = []
        for gradient, _ in bucket:
            wide = widened(gradient)
            if not weight:
                wide = full(wide.shape, 0, dtype=wide.dtype, device=wide.device)
            own.append(wide if weighted or weight == 1 else wide * weight)
        return begin_all_reduce(own, in_pairs=self.exact, beside=beside, items=all_items())

    def _reduced(self, bucket: Pairs, vector: Tensor) -> Iterator[tuple[int, Tensor]]:
        """The means of the gradients of a bucket, by the identities of their variables."""
        mean = finish_all_reduce(vector)
        if self.exact:
            mean = mean / all_items()
        for (gradient, variable), part in zip(bucket, _parts(mean, bucket), strict=True):
            yield id(variable), part.astype(gradient.dtype)

    @contextmanager
    def whole_slots(self) -> Iterator[None]:
        """Has each rank keep all slots for a while, for a checkpoint; all ranks call it together.

        Without `shard_slots` they do so always. `pb.callbacks.Checkpoint` calls it. A checkpoint
        can be restored on any number of ranks; each has all slots then, until the next one.

        >>> def train():
        ...     v = pb.Variable([1.0, 2.0])
        ...     optimizer = pb.distributed.DataParallel(pb.optimizers.Adam(), shard_slots=True)
        ...     optimizer.minimize(lambda: pb.sum(v * v), [v])
        ...     with optimizer.whole_slots():
        ...         return len(optimizer.variables)
        >>> pb.distributed.run_threads(train, 2)
        [2, 2]
        """
        owners = self._owners
        if not owners.known or size() == 1:
            yield
            return
        slots = self.optimizer._slots
        version = slots.version
        own = owners.kept(slots)
        self.optimizer.make_slots(owners.variables)
        # A slot with a sum of gradients counts while the sum is one for the next step.
        flags = bytes(slots.is_summed(variable) for variable in owners.variables)
        for summed in current().gather("gives all ranks its slots", flags):
            for variable in itertools.compress(owners.variables, summed):
                slots.begin_sum(variable)
        with paused():
            for root in range(size()):
                theirs = [v for v in owners.variables if owners.known[id(v)] == root]
                send([slots.of(v)[name] for v in theirs for name in sorted(slots.of(v))], root)
        try:
            yield
        finally:
            slots.keep(own)
            slots.version = version  # a captured step finds its slots as they were

    def _take_own(self, pairs: Pairs) -> None:
        """Moves this rank's variables, and sends all from the rank that has moved them."""
        slots = self.optimizer._slots
        owners = self._owners.of([variable for _, variable in pairs])
        if slots.version != self._owners.version:
            # A checkpoint has given each rank all slots: those of others would stay as they are.
            slots.keep(self._owners.kept(slots))
            self._owners.version = slots.version
        own = [pair for pair, owner in zip(pairs, owners, strict=True) if owner == rank()]
        if own:
            self.optimizer.apply_gradients(own)
        else:
            capture = capturing()
            if capture is not None:
                capture.guard(lambda: slots.version, "the slots of an optimizer")
            if self.optimizer.accumulate_steps > 1:
                accumulate(self.optimizer, slots, [])
            if decided((0).__eq__, self.optimizer._accumulated.get()):
                self.optimizer._step.set(self.optimizer.step + 1)
        with paused():
            for root in range(size()):
                theirs = [p for p, owner in zip(pairs, owners, strict=True) if owner == root]
                send([variable for _, variable in theirs], root)


class _Sums:
    """Begins the sums of gradients of a weighted loss: a sink of a backward pass."""

    def __init__(self, optimizer: DataParallel, variables: Sequence[Variable]) -> None:
        self._optimizer, self._variables = optimizer, variables
        # All that the ops take besides gradients.
        self.key = (optimizer.exact, items() > 0, all_items())

    def __call__(self, gradients: Sequence[Tensor | None]) -> list[Tensor]:
        found = zip(gradients, self._variables, strict=True)
        pairs = [(gradient, variable) for gradient, variable in found if gradient is not None]
        return self._optimizer._begun(pairs, weighted=True)


class _Owners:
    """The rank of each variable that has been moved, which keeps its slots from then on."""

    opaque_state = True
    __slots__ = ("known", "loads", "variables", "version")

    def __init__(self) -> None:
        #: The variables, which belong to a model, and the rank of each by its identity.
        self.variables: list[Variable] = []
        self.known: dict[int, int] = {}
        #: The number of elements that each rank moves.
        self.loads: list[int] = []
        #: The version of the slots when no rank had those of another.
        self.version = 0

    def __deepcopy__(self, memo: dict[int, Any]) -> _Owners:
        # As its slots, it is for the copies of the variables.
        made = _Owners()
        made.variables, made.loads = copy.deepcopy(self.variables, memo), [*self.loads]
        owners = [self.known[id(variable)] for variable in self.variables]
        made.known = dict(zip(map(id, made.variables), owners, strict=True))
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return _Owners, ()

    def of(self, variables: Sequence[Variable]) -> list[int]:
        """The rank of each variable; a new one has that with the fewest elements."""
        new = [variable for variable in variables if id(variable) not in self.known]
        self.loads = self.loads or [0] * size()
        self.variables += new
        for variable in sorted(new, key=lambda variable: -variable.size):
            self.known[id(variable)] = owner = self.loads.index(min(self.loads))
            self.loads[owner] += variable.size
        return [self.known[id(variable)] for variable in variables]

    def kept(self, slots: Slots) -> list[tuple[int, str]]:
        """The slots of this rank's variables, and of those that no rank has moved."""
        own = rank()
        return [(id(v), name) for v, name, _ in slots if self.known.get(id(v), own) == own]


def _buckets(pairs: Pairs) -> Iterator[Pairs]:
    """The pairs in buckets of one dtype and device, from the last to the first."""
    kinds: dict[Any, Pairs] = {}
    for gradient, variable in reversed(pairs):
        kinds.setdefault((gradient.dtype, gradient.device), []).append((gradient, variable))
    limit = FIRST
    for found in kinds.values():
        bucket: Pairs = []
        room = limit
        for pair in found:
            room -= pair[0].size * pair[0].dtype.itemsize
            bucket.append(pair)
            if room <= 0:
                yield bucket
                bucket, limit = [], OTHERS
                room = limit
        if bucket:
            yield bucket


def _parts(flat: Tensor, pairs: Pairs) -> Iterator[Tensor]:
    start = 0
    for _, variable in pairs:
        stop = start + variable.size
        yield reshape(flat[start:stop], variable.shape)
        start = stop


def send(variables: Sequence[Variable], root: int = 0) -> None:
    """Has variables have the values of one rank, on all ranks.

    Args:
        variables: variables with the same shapes and dtypes on all ranks.
        root: the rank whose values count.
    """
    kinds: dict[Any, list[Variable]] = {}
    for variable in variables:
        kinds.setdefault((variable.dtype, variable.device), []).append(variable)
    for alike in kinds.values():
        flat = concat([reshape(variable.value, (-1,)) for variable in alike])
        found = broadcast(flat, root=root)
        if rank() != root:
            pairs = [(variable.value, variable) for variable in alike]
            for variable, part in zip(alike, _parts(found, pairs), strict=True):
                variable.assign(part)


def broadcast_state(*objects: object, root: int = 0) -> None:
    """Has the variables of objects, and the default generator, be those of one rank.

    `init` has done that for the generator. Models that are built afterwards, by the same program,
    therefore begin alike; after one rank has read weights, call it.

    Args:
        objects: models, optimizers, anything with variables.
        root: the rank whose values count.

    Raises:
        CommunicationError: if the ranks have different variables.

    >>> def read():
    ...     v = pb.Variable(float(pb.distributed.rank()))
    ...     pb.distributed.broadcast_state(v, root=1)
    ...     return v.numpy().item()
    >>> pb.distributed.run_threads(read, 2)
    [1.0, 1.0]
    """
    if size() == 1:
        return
    world = current()
    world.agree("broadcasts the state of objects")
    key, counter = default_generator.now
    given = key.to_bytes(16, "little") + counter.to_bytes(32, "little")
    sent = world.communicator.exchange(given)[root]
    if sent != given:
        default_generator.state = (
            int.from_bytes(sent[:16], "little"), int.from_bytes(sent[16:], "little")
        )  # fmt: skip
    with paused():
        send([v for held in objects for v in named_variables(held).values()], root)


class Sharing:
    """The part of `fit`, `evaluate` and `predict` that several ranks have to agree on."""

    opaque_state = True

    def begin(self, model: object, optimizer: object) -> None:
        """Has all ranks begin with the state of the first one."""
        broadcast_state(model, optimizer)

    @property
    def is_first(self) -> bool:
        """True on the rank that writes files and shows progress."""
        return rank() == 0

    @property
    def is_several(self) -> bool:
        """True if there are other ranks."""
        return size() > 1

    def any_of(self, asked: bool) -> bool:
        """Returns whether any rank was asked to stop: all of them do at the same step."""
        return bool(all_reduce(int(asked), "max"))

    def agree(self, what: str) -> None:
        """Checks that all ranks do the same now, and waits until they are here."""
        if size() > 1:
            current().agree(what)

    def saving(self, optimizer: object) -> AbstractContextManager[None]:
        """Has the rank that writes keep all that a checkpoint needs for a while."""
        whole = isinstance(optimizer, DataParallel) and optimizer.shard_slots
        return optimizer.whole_slots() if whole else nullcontext()  # type: ignore[attr-defined]

    def wait(self) -> None:
        """Waits until all ranks are here."""
        barrier()

    def step(self, step: Callable[..., Any], batch: Any) -> Any:
        """The values of a step with a batch, as means over all ranks."""
        if size() == 1:
            return step(*batch)
        own, values = self._run(step, batch, batch.size)
        return own.mean(values) if values else values

    def outputs(self, step: Callable[..., Any], inputs: object, count: int) -> Any:
        """The outputs for all items."""
        if size() == 1:
            return step(inputs)
        own, found = self._run(step, (inputs,), count)
        return own.whole(found)

    def _run(
        self, step: Callable[..., Any], arguments: Iterable[object], count: int
    ) -> tuple[Share, Any]:
        LOCAL.state.share = own = Share(count)
        try:
            return own, step(*own.of(tuple(arguments)))
        finally:
            LOCAL.state.share = None

    def whole(self, structure: object) -> Any:
        """Arrays of this rank's items, with those of all ranks."""
        own = LOCAL.state.share
        return own.whole(structure) if isinstance(own, Share) else structure
