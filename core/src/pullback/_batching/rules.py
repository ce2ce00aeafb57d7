"""The batching rules: an op on every item of a batch, by ops on tensors with one more axis.

A rule gets the op, and the inputs as the op has them: `Batched` arrays, None for one that is
absent, a list for a sequence. It returns tensors of the device below, with the items along their
first axis. Every primitive has a rule; a composite has one where its kernel takes a batch as it is,
and runs its body otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

from pullback import errors
from pullback._batching.arrays import Batched, VmapCall, aligned, whole
from pullback._dispatch import general
from pullback.ops.comparison import isnan, less
from pullback.ops.creation import arange, full
from pullback.ops.indexing import take, take_along_axis
from pullback.ops.joining import concat
from pullback.ops.linalg.linear_algebra import matmul
from pullback.ops.logical import logical_and, logical_not, logical_or
from pullback.ops.manipulation import broadcast_to, moveaxis, permute_dims, reshape
from pullback.ops.random import words_of
from pullback.ops.selection import where
from pullback.shapes import Shape, broadcast, size_of
from pullback.spec import OPS, Op
from pullback.tensor import Tensor


class BatchedOp(NamedTuple):
    """The op of a call, with all that a rule needs beside the inputs."""

    op: Op
    #: The number of items.
    size: int
    attributes: Mapping[str, Any]

    def on(self, *inputs: Any, **attributes: Any) -> Any:
        """The op on tensors of the device below, with some attributes in place of others."""
        given = {**self.attributes, **attributes}
        if self.op.fixed and inputs:
            return self.op.function(*inputs, **given)  # specialized code
        return general.call(self.op, inputs, given)

    def all_on(self, *inputs: Any, **attributes: Any) -> list[Tensor]:
        """As `on`, for a list of all results and residuals."""
        given = {**self.attributes, **attributes}
        if self.op.residuals:
            return general.call_with_residuals(self.op, inputs, given)
        found = general.call(self.op, inputs, given)
        return [*found] if isinstance(found, tuple) else [found]

    def shape(self, *shapes: Shape) -> Shape:
        """The shape of the result of one item."""
        shape = self.op.shape(*shapes, **self.attributes)
        assert isinstance(shape, tuple)
        return shape


Rule: TypeAlias = "Callable[..., Any]"
_RULES: dict[str, Rule] = {}


def batches(*names: str) -> Callable[[Rule], Rule]:
    """Adds a function as the rule of some ops."""

    def add(rule: Rule) -> Rule:
        _RULES.update(dict.fromkeys(names, rule))
        return rule

    return add


def rule_of(op: Op) -> Rule | None:
    """The rule of an op; None for a composite without one.

    Raises:
        DefinitionError: for a primitive without one.
    """
    rule = _RULES.get(op.name)
    if rule is None and op.shape is broadcast and op.inputs and not op.residuals:
        return elementwise
    if rule is None and op.primitive:
        raise errors.DefinitionError(
            f"{op.name} is a primitive, and pb.vmap has no rule for it; define it as a composite, "
            f"with a body made of other ops"
        )
    return rule


# ---------------------------------------------------------------------------------------------
# Element by element, along axes, on matrices.


@batches(
    *("astype", "bitcast", "complex_parts", "frexp"),
    *("relu", "relu6", "leaky_relu", "hard_tanh", "elu"),
    *("hard_sigmoid", "hard_silu", "celu", "selu", "sigmoid", "softplus", "log_sigmoid", "silu"),
    *("mish", "softsign", "gelu"),
)
def elementwise(call: BatchedOp, *inputs: Batched | None) -> Any:
    """Each element by itself: the axes of the items are aligned behind that of the batch."""
    ndim = max(len(x.shape) for x in inputs if x is not None)
    return call.on(*[aligned(x, ndim, call.size) for x in inputs])


@batches(
    *("sum", "prod", "max", "min", "mean", "any", "all", "count_nonzero", "var", "std"),
    *("logsumexp", "cumulative_sum", "cumulative_prod", "argsort", "sort", "fft", "flip"),
    *("softmax", "log_softmax"),
)
def along_axes(call: BatchedOp, x: Batched) -> Any:
    """Along some axes of an item, which stand one further back; None stands for all of them."""
    axis = call.attributes["axis"]
    if axis is None:
        axis = tuple(range(len(x.shape)))
    further = tuple(a + 1 for a in axis) if isinstance(axis, tuple) else axis + 1
    return call.on(x.tensor, axis=further)


@batches(
    *("cholesky", "slogdet", "eigh", "eig", "qr", "svd", "inv", "det", "matrix_transpose"),
    *("lu_factor", "row_order"),
    *("tril", "triu"),
)
def of_matrices(call: BatchedOp, x: Batched) -> Any:
    """On the matrices in the last two axes: the items are more of these."""
    return call.on(x.tensor)


# ---------------------------------------------------------------------------------------------
# Shapes and slices.


@batches("reshape")
def reshaped(call: BatchedOp, x: Batched) -> Tensor:
    """To another shape of the items."""
    return reshape(x.tensor, (call.size, *call.attributes["shape"]))


@batches("broadcast_to")
def broadcasted(call: BatchedOp, x: Batched) -> Tensor:
    """To a larger shape of the items."""
    shape: Shape = call.attributes["shape"]
    tensor = aligned(x, len(shape), call.size)
    assert tensor is not None
    return broadcast_to(tensor, (call.size, *shape))


@batches("squeeze")
def squeezed(call: BatchedOp, x: Batched) -> Tensor:
    """Without axes of the items."""
    return reshape(x.tensor, (call.size, *call.shape(x.shape)))


@batches("permute_dims")
def permuted(call: BatchedOp, x: Batched) -> Tensor:
    """With the axes of the items in another order."""
    return permute_dims(x.tensor, (0, *[axis + 1 for axis in call.attributes["axes"]]))


@batches("concat")
def joined(call: BatchedOp, arrays: list[Batched]) -> Tensor:
    """Side by side along an axis of the items; None stands for all elements in order."""
    axis, items = call.attributes["axis"], [whole(x, call.size) for x in arrays]
    if axis is None:
        return concat([reshape(x, (call.size, -1)) for x in items], axis=1)
    return concat(items, axis=axis + 1)


@batches("strided_slice")
def sliced(call: BatchedOp, x: Batched) -> Any:
    """A part of each item."""
    return call.on(x.tensor, key=_of_all(call))


@batches("strided_update")
def updated(call: BatchedOp, x: Batched, value: Batched) -> Any:
    """A part of each item replaced."""
    key = call.attributes["key"]
    ndim = len(x.shape) + sum((entry is None) - (type(entry) is int) for entry in key)
    return call.on(whole(x, call.size), aligned(value, ndim, call.size), key=_of_all(call))


def _of_all(call: BatchedOp) -> tuple[Any, ...]:
    """The key that takes all items, and the key of the call in each."""
    return (slice(0, call.size, 1), *call.attributes["key"])


# ---------------------------------------------------------------------------------------------
# Indices.


@batches("take")
def taken(call: BatchedOp, x: Batched, indices: Batched) -> Tensor:
    """At the indices of each item, which count from its own begin."""
    axis, count = call.attributes["axis"], len(indices.shape)
    if indices.run is None:
        return take(x.tensor, indices.tensor, axis=axis + 1)
    if x.run is None:
        found = take(x.tensor, indices.tensor, axis=axis)
        return moveaxis(found, axis, 0)
    found = take(_rows(x, axis, call.size), _positions(indices, x.shape[axis], call.size))
    return moveaxis(found, *_axes_of_indices(axis, count))


@batches("scatter_add", "scatter_update", "scatter_max", "scatter_min", "scatter_multiply")
def scattered(call: BatchedOp, x: Batched, indices: Batched, updates: Batched) -> Any:
    """To the indices of each item, which count from its own begin."""
    size, count = call.size, len(indices.shape)
    axis = call.attributes["axis"] % len(x.shape)
    new = whole(updates, size)
    if indices.run is None:
        return call.on(whole(x, size), indices.tensor, new, axis=axis + 1)
    first, own = _axes_of_indices(axis, count)
    new = moveaxis(new, own, first)
    positions = _positions(indices, x.shape[axis], size)
    rows = call.on(_rows(x, axis, size), positions, new, axis=0)
    others = (*x.shape[:axis], *x.shape[axis + 1 :])
    return moveaxis(reshape(rows, (size, x.shape[axis], *others)), 1, axis + 1)


def _axes_of_indices(axis: int, count: int) -> tuple[Shape, Shape]:
    """The axes after that of the items, and those where the call has the ones of its indices."""
    return tuple(range(1, 1 + count)), tuple(range(1 + axis, 1 + axis + count))


def _rows(x: Batched, axis: int, size: int) -> Tensor:
    """The slices along an axis, those of all items one after the other."""
    front = moveaxis(whole(x, size), axis + 1, 1)
    return reshape(front, (size * x.shape[axis], *front.shape[2:]))


def _positions(indices: Batched, length: int, size: int) -> Tensor:
    """The indices of each item, as those into all items one after the other."""
    device = indices.tensor.device
    # Looked up first: those that are out of range are an error, and negative ones count from the
    # end of the item.
    own = take(arange(length, dtype="int64", device=device), indices.tensor)
    begins = arange(size, dtype="int64", device=device) * length
    return own + reshape(begins, (size, *[1] * len(indices.shape)))


@batches("searchsorted")
def searched(call: BatchedOp, x1: Batched, x2: Batched, sorter: Batched | None) -> Tensor:
    """The places of values in one vector, or in one for each item, by bisection."""
    size, length = call.size, x1.shape[0]
    if x1.run is None and (sorter is None or sorter.run is None):
        found: Tensor = call.on(x1.tensor, x2.tensor, None if sorter is None else sorter.tensor)
        return found
    ordered = whole(x1, size)
    if sorter is not None:
        ordered = take_along_axis(ordered, whole(sorter, size), axis=1)
    values = reshape(whole(x2, size), (size, -1))
    low = full(values.shape, 0, dtype="int64", device=values.device)
    high = low + length
    for _ in range(length.bit_length()):
        middle = (low + high) // 2
        at = take_along_axis(ordered, where(middle < high, middle, 0), axis=1)
        # In the order that has NaN last.
        if call.attributes["side"] == "left":
            behind = _is_before(at, values)
        else:
            behind = logical_not(_is_before(values, at))
        behind = logical_and(behind, middle < high)
        low, high = where(behind, middle + 1, low), where(behind, high, middle)
    return reshape(low, (size, *x2.shape))


def _is_before(x: Tensor, y: Tensor) -> Tensor:
    return logical_or(less(x, y), logical_and(isnan(y), logical_not(isnan(x))))


@batches("argwhere")
def found_where(call: BatchedOp, x: Batched) -> Any:
    """Raises: each item has another number of them.

    Raises:
        ShapeError: always.
    """
    raise errors.ShapeError(
        f"{call.op.name} inside pb.vmap: the shape of its result depends on the values, and each "
        f"item has others; use a mask, as in pb.where(mask, x, 0)"
    )


# ---------------------------------------------------------------------------------------------
# Products and systems.


@batches("matmul")
def products(call: BatchedOp, x1: Batched, x2: Batched) -> Tensor:
    """Products of the items; vectors are matrices of one row or column meanwhile."""
    if x2.run is None and len(x2.shape) <= 2:
        return matmul(x1.tensor, x2.tensor)
    left = (1, *x1.shape) if len(x1.shape) == 1 else x1.shape
    right = (*x2.shape, 1) if len(x2.shape) == 1 else x2.shape
    return _on_matrices(call, (x1, left), (x2, right))


@batches("solve", "solve_triangular")
def solved(call: BatchedOp, x1: Batched, x2: Batched) -> Tensor:
    """Systems of each item; a vector is a matrix of one column meanwhile."""
    right = (*x2.shape, 1) if len(x2.shape) == 1 else x2.shape
    return _on_matrices(call, (x1, x1.shape), (x2, right))


def _on_matrices(call: BatchedOp, *inputs: tuple[Batched, Shape]) -> Tensor:
    """The op on inputs in shapes of matrices, with their stacks aligned behind the batch."""
    ndim = max(len(shape) for _, shape in inputs)
    tensors = []
    for x, shape in inputs:
        if x.run is not None:
            shape = (call.size, *[1] * (ndim - len(shape)), *shape)
        tensors.append(x.tensor if shape == x.tensor.shape else reshape(x.tensor, shape))
    found: Tensor = call.on(*tensors)
    return reshape(found, (call.size, *call.shape(*[x.shape for x, _ in inputs])))


# ---------------------------------------------------------------------------------------------
# Kernels of layers. Where an item has weights of its own, they return None: the body is called.

#: The inputs that begin with the axis of a layer's batch; the others are weights.
_IN_BATCHES = {
    "conv": (0,),
    "conv_input_gradient": (0,),
    "max_pool": (0,),
    "max_pool_gradient": (0, 1),
    "max_pool_gather": (0, 1),
    "avg_pool": (0,),
    "avg_pool_gradient": (0,),
    "lstm": (0, 1, 2, 6),
    "gru": (0, 1, 6),
}


@batches(*_IN_BATCHES)
def with_one_batch(call: BatchedOp, *inputs: Batched | None) -> list[Tensor] | None:
    """The items of all batches as those of one."""
    places, size = _IN_BATCHES[call.op.name], call.size
    if not size:
        return None
    tensors: list[Tensor | None] = []
    for i, x in enumerate(inputs):
        if x is None or i not in places:
            if x is not None and x.run is not None:
                return None
            tensors.append(None if x is None else x.tensor)
        else:
            tensors.append(reshape(whole(x, size), (size * x.shape[0], *x.shape[1:])))
    attributes: dict[str, Any] = {}
    if "input_shape" in call.attributes:
        count, *rest = call.attributes["input_shape"]
        attributes["input_shape"] = (size * count, *rest)
    found = call.all_on(*tensors, **attributes)
    return [reshape(y, (size, y.shape[0] // size, *y.shape[1:])) for y in found]


@batches("scaled_dot_product_attention", "scaled_dot_product_attention_gradient")
def attended(call: BatchedOp, *inputs: Batched | None) -> list[Tensor]:
    """One more axis in front of the heads, which may have any there."""
    q = inputs[0]
    assert q is not None
    tensors = [
        aligned(x, len(q.shape), call.size) if i == 3 or x is None else whole(x, call.size)
        for i, x in enumerate(inputs)
    ]
    return call.all_on(*tensors)


@batches("layer_norm", "rms_norm")
def normalized(call: BatchedOp, x: Batched, *weights: Batched | None) -> list[Tensor] | None:
    """Along axes of an item, which stand one further back."""
    if any(weight is not None and weight.run is not None for weight in weights):
        return None
    axis = call.attributes["axis"]
    further = tuple(a + 1 for a in (range(len(x.shape)) if axis is None else axis))
    tensors = [None if weight is None else weight.tensor for weight in weights]
    return call.all_on(x.tensor, *tensors, axis=further)


@batches(
    *("softmax_cross_entropy_with_logits", "sparse_softmax_cross_entropy_with_logits"),
    "sparse_softmax_cross_entropy_gradient",
)
def of_classes(call: BatchedOp, *inputs: Batched) -> list[Tensor]:
    """Along the axis of the classes, which stands one further back."""
    return call.all_on(*[whole(x, call.size) for x in inputs], axis=call.attributes["axis"] + 1)


# ---------------------------------------------------------------------------------------------
# Random numbers.


#: What `draws` makes, beside the primitive that it comes from.
DRAWN = ("random_bits", "random_uniform")


def draws(call: BatchedOp, run: VmapCall | None) -> Tensor:
    """Random numbers: of one stream for every item, or of a stream for each.

    The blocks of the streams come one after the other: item i has those from i times the number of
    blocks that one call uses.
    """
    shape, dtype = call.attributes["shape"], call.attributes["dtype"]
    if run is None or run.draws_alike:
        alike: Tensor = call.on()
        return alike
    size = size_of(shape)
    in_block = 32 // words_of(8, dtype)
    length = in_block * -(-size // in_block)
    drawn = reshape(call.on(shape=(run.size * length,)), (run.size, length))
    return reshape(drawn[:, :size], (run.size, *shape))


for _op in OPS.values():
    if _op.inputs:
        rule_of(_op)
