"""The CTC loss: a sum over all alignments of frames with labels."""

from __future__ import annotations

from pullback import dtypes, errors
from pullback._dispatch import op
from pullback.dtypes import Operands, Resolution
from pullback.ops.arithmetic import maximum
from pullback.ops.comparison import equal, not_equal
from pullback.ops.creation import arange, full
from pullback.ops.exponential import exp, log
from pullback.ops.indexing import take_along_axis
from pullback.ops.joining import concat, stack, unstack
from pullback.ops.linalg.linear_algebra import matmul
from pullback.ops.manipulation import broadcast_to, reshape
from pullback.ops.nn.softmax import log_softmax
from pullback.ops.precision import counting, narrowed, widened
from pullback.ops.reductions import max, sum
from pullback.ops.selection import where
from pullback.ops.slicing import strided_slice
from pullback.shapes import Shape
from pullback.spec import ACCUMULATED
from pullback.tensor import Tensor

__all__ = ["ctc_loss"]

#: The logarithm of probability 0: finite, so that the difference of two of them is 0, not NaN.
_NEVER = -1e30


def _ctc_shape(
    logits: Shape, labels: Shape, logit_lengths: Shape, label_lengths: Shape, **_: object
) -> Shape:
    """One loss per example."""
    if len(logits) != 3 or len(labels) != 2 or labels[0] != logits[0]:
        raise errors.ShapeError(
            f"logits must be (batch, frames, classes) and labels (batch, length), "
            f"got {logits} and {labels}"
        )
    for name, shape in (("logit_lengths", logit_lengths), ("label_lengths", label_lengths)):
        if shape != logits[:1]:
            raise errors.ShapeError(f"{name} must have shape {logits[:1]}, got {shape}")
    return logits[:1]


def _ctc_dtypes(operands: Operands, **_: object) -> Resolution:
    """Real floating logits, whose dtype the result has; integer labels and lengths."""
    logits = dtypes.real_floating(operands[:1]).inputs[0]
    integers = [dtypes.integer((operand,)).inputs[0] for operand in operands[1:]]
    assert logits is not None
    return Resolution((logits, *integers), (logits,))


def _ctc_checked(shapes: tuple[Shape, ...], *, blank: int) -> dict[str, object]:
    _ctc_shape(*shapes)
    classes = shapes[0][2]
    if not -classes <= blank < classes:
        raise errors.InputValueError(f"blank must be one of {classes} classes, got {blank}")
    return {"blank": blank % classes}


# ACCUMULATED: a sum over all alignments.
@op(shape=_ctc_shape, dtype=_ctc_dtypes, accuracy=ACCUMULATED, normalize=_ctc_checked)
def ctc_loss(
    logits: Tensor, labels: Tensor, logit_lengths: Tensor, label_lengths: Tensor, *, blank: int = 0
) -> Tensor:
    """Connectionist temporal classification (Graves et al., 2006): -log p(labels | logits).

    Args:
        logits: unnormalized log probabilities (batch, frames, classes).
        labels: the target classes (batch, length), padded at the end with any class. The blank
            class may be a label too.
        logit_lengths: the number of frames (batch).
        label_lengths: the number of labels (batch).
        blank: the class of the blank.

    Returns:
        One loss per item of the batch; infinity, with gradient 0, if there are too few frames for
        the labels.

    Raises:
        ShapeError: if the shapes do not fit.
        InputValueError: if blank is not a class.

    >>> loss = pb.ctc_loss(pb.zeros((1, 2, 2)), [[1]], [2], [1])
    >>> print(f"{loss.item():.4f}")
    0.2877
    """
    lattice = _Lattice(logits, labels, logit_lengths, label_lengths, blank)
    loss = -lattice.log_total(lattice.log_alphas()[-1])
    return narrowed(where(loss < -_NEVER / 2, loss, float("inf")), logits)


class _Lattice:
    """The frames and states that paths run through.

    A path runs through blank, label, blank, label, ..., blank: 2 * length + 1 states.
    """

    def __init__(
        self,
        logits: Tensor,
        labels: Tensor,
        logit_lengths: Tensor,
        label_lengths: Tensor,
        blank: int,
    ) -> None:
        batch, frames, classes = logits.shape
        device = logits.device
        labels, length = counting(labels), labels.shape[1]
        self.log_y = log_softmax(widened(logits), axis=-1)
        blanks = full((batch, length, 1), blank, dtype=labels.dtype, device=device)
        pairs = concat([blanks, reshape(labels, (batch, length, 1))], axis=2)
        end = full((batch, 1), blank, dtype=labels.dtype, device=device)
        path = concat([reshape(pairs, (batch, 2 * length)), end], axis=1)
        self.states = states = 2 * length + 1
        self.rows = slice(0, batch, 1)
        # A path may go from a label to the next one without the blank, unless both are equal.
        # Blanks need no test: two states before a blank is a blank, which is equal. A label of the
        # blank class is a label too, as in PyTorch and Keras.
        self.may_skip = not_equal(path, self._moved(concat([end, end, path], axis=1), 0))
        state = arange(states, device=device)
        self.never = full((batch, 2), _NEVER, dtype=self.log_y.dtype, device=device)
        # Before the first frame, all are in state 0, from which it reaches states 0 and 1.
        nothing = full(path.shape, 0, dtype=self.log_y.dtype, device=device)
        self.start = where(state == 0, nothing, _NEVER)
        # A path ends in the last label, or in the blank after it.
        last = reshape(label_lengths.astype(state.dtype), (batch, 1)) * 2
        self.is_end = (state == last) | (state == last - 1)
        self.end = where(self.is_end, nothing, _NEVER)
        places = broadcast_to(reshape(path, (batch, 1, states)), (batch, frames, states))
        emitted = maximum(take_along_axis(self.log_y, places, axis=2), _NEVER)
        self.emissions = unstack(emitted, axis=1)
        counts = reshape(logit_lengths.astype(state.dtype), (batch, 1, 1))
        self.lasting = counts > reshape(arange(frames, device=device), (1, frames, 1))
        self.lasts = unstack(self.lasting, axis=1)
        self.classes = equal(reshape(path, (batch, states, 1)), arange(classes, device=device))

    def _moved(self, x: Tensor, first: int) -> Tensor:
        """The states of x, to which two others are added, from `first` on."""
        return strided_slice(x, key=(self.rows, slice(first, first + self.states, 1), ...))

    def log_alphas(self) -> list[Tensor]:
        """log alpha(t, s): of all paths that are in state s after t frames."""
        found = [self.start]
        for emitted, lasting in zip(self.emissions, self.lasts, strict=True):
            before = concat([self.never, found[-1]], axis=1)
            two = where(self.may_skip, self._moved(before, 0), _NEVER)
            reached = _log_sum([found[-1], self._moved(before, 1), two]) + emitted
            found.append(where(lasting, reached, found[-1]))
        return found

    def log_betas(self) -> list[Tensor]:
        """log beta(t, s): of all paths from state s to the end, once frame t has been emitted."""
        found = [self.end]
        for emitted, lasting in zip(self.emissions[:0:-1], self.lasts[:0:-1], strict=True):
            after = found[-1] + emitted
            both = concat([after, self.never], axis=1)
            skipping = concat([where(self.may_skip, after, _NEVER), self.never], axis=1)
            reached = _log_sum([after, self._moved(both, 1), self._moved(skipping, 2)])
            found.append(where(lasting, reached, found[-1]))
        return found[::-1]

    def log_total(self, log_alpha: Tensor) -> Tensor:
        """log p(labels | logits)."""
        return _log_sum_last(where(self.is_end, log_alpha, _NEVER))


def _ctc_gradient_shape(
    logits: Shape,
    labels: Shape,
    logit_lengths: Shape,
    label_lengths: Shape,
    g: Shape,
    **_: object,
) -> Shape:
    """The shape of the logits."""
    if g != _ctc_shape(logits, labels, logit_lengths, label_lengths):
        raise errors.ShapeError(f"g must have shape {logits[:1]}, got {g}")
    return logits


def _ctc_gradient_dtypes(operands: Operands, **_: object) -> Resolution:
    """Each input keeps its dtype; the result has that of the logits."""
    inputs, outputs = _ctc_dtypes(operands[:4])
    return Resolution((*inputs, *dtypes.each("any")(operands[4:]).inputs), outputs)


def _ctc_gradient_checked(shapes: tuple[Shape, ...], *, blank: int) -> dict[str, object]:
    _ctc_gradient_shape(*shapes)
    return _ctc_checked(shapes[:4], blank=blank)


@op(
    shape=_ctc_gradient_shape,
    dtype=_ctc_gradient_dtypes,
    accuracy=ACCUMULATED,
    normalize=_ctc_gradient_checked,
    public=False,
)
def ctc_loss_gradient(
    logits: Tensor,
    labels: Tensor,
    logit_lengths: Tensor,
    label_lengths: Tensor,
    g: Tensor,
    *,
    blank: int = 0,
) -> Tensor:
    """The gradient of `ctc_loss` with respect to the logits, by all paths to and from each state.

    Args:
        logits: the input of the op.
        labels: the input of the op.
        logit_lengths: the input of the op.
        label_lengths: the input of the op.
        g: the gradient with respect to the losses.
        blank: the class of the blank.

    >>> inputs = pb.zeros((1, 1, 2)), [[1]], [1], [1]
    >>> pb.ops.ctc_loss_gradient(*inputs, [1.0]).tolist()
    [[[0.5, -0.5]]]
    """
    lattice = _Lattice(logits, labels, logit_lengths, label_lengths, blank)
    batch, frames, _ = logits.shape
    if not frames:
        return logits
    alphas = lattice.log_alphas()
    total = lattice.log_total(alphas[-1])
    log_paths = stack(alphas[1:], axis=1) + stack(lattice.log_betas(), axis=1)
    taken = exp(log_paths - reshape(total, (batch, 1, 1)))
    by_class = matmul(taken, lattice.classes.astype(taken.dtype))
    # Where no path fits, the loss is infinite and has no slope.
    counted = lattice.lasting & reshape(-total < -_NEVER / 2, (batch, 1, 1))
    slopes = (exp(lattice.log_y) - by_class) * reshape(widened(g), (batch, 1, 1))
    return narrowed(where(counted, slopes, 0), logits)


@ctc_loss.vjp("logits")
def _(
    g: Tensor,
    logits: Tensor,
    labels: Tensor,
    logit_lengths: Tensor,
    label_lengths: Tensor,
    blank: int,
) -> Tensor:
    return ctc_loss_gradient(logits, labels, logit_lengths, label_lengths, g, blank=blank)


ctc_loss.vjp(labels=None, logit_lengths=None, label_lengths=None)


def _log_sum(terms: list[Tensor]) -> Tensor:
    """log(sum(exp(term))), element by element."""
    return _log_sum_last(stack(terms, axis=-1))


def _log_sum_last(x: Tensor) -> Tensor:
    largest = max(x, axis=-1, keepdims=True)
    total = sum(exp(x - largest), axis=-1)
    return log(total) + reshape(largest, total.shape)
