"""The CTC loss and its gradient in NumPy: a few calls for each frame."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.plugins.records import Kernel
from pullback_numpy.half import narrowed, widened
from pullback_numpy.typing import Array

#: The logarithm of probability 0, as the body has it.
_NEVER = -1e30


class _Lattice:
    """Frames and states, as the body has them, behind two states that no path reaches."""

    def __init__(
        self, logits: Array, labels: Array, lengths: Array, counts: Array, blank: int
    ) -> None:
        batch, frames, _ = logits.shape
        wide = widened(logits)
        log_y = wide - wide.max(axis=-1, keepdims=True)
        log_y -= np.log(np.exp(log_y).sum(axis=-1, keepdims=True))
        self.log_y = log_y
        self.states = states = 2 * labels.shape[1] + 1
        self.path = path = np.full((batch, states), blank, np.intp)
        path[:, 1::2] = labels
        #: Added to what goes two states further: 0 between two labels that differ.
        self.skip = np.full((batch, states), _NEVER, log_y.dtype)
        self.skip[:, 2:][path[:, 2:] != path[:, :-2]] = 0
        if states > 1:
            self.skip[:, 1][path[:, 1] != blank] = 0
        places = np.broadcast_to(path[:, None], (batch, frames, states))
        emitted = np.take_along_axis(log_y, places, axis=2)
        self.emitted = np.maximum(emitted, log_y.dtype.type(_NEVER), out=emitted)
        self.lasting: Any = lengths[:, None] > np.arange(frames)
        self.all_last: Any = self.lasting.all(axis=0)
        last = 2 * counts[:, None].astype(np.int64)
        state = np.arange(states)
        self.is_end = (state == last) | (state == last - 1)

    def log_alphas(self) -> Array:
        """Those before the first frame, and after each."""
        batch, frames = self.lasting.shape
        found = np.full((frames + 1, batch, self.states + 2), _NEVER, self.log_y.dtype)
        found[0, :, 2] = 0
        for frame in range(frames):
            before, reached = found[frame], found[frame + 1, :, 2:]
            np.logaddexp(before[:, 2:], before[:, 1:-1], out=reached)
            np.logaddexp(reached, before[:, :-2] + self.skip, out=reached)
            reached += self.emitted[:, frame]
            if not self.all_last[frame]:
                over = ~self.lasting[:, frame]
                reached[over] = before[over, 2:]
        return found[:, :, 2:]

    def log_betas(self) -> Array:
        """Those after each frame."""
        batch, frames = self.lasting.shape
        end = np.where(self.is_end, 0, self.log_y.dtype.type(_NEVER))
        found = np.empty((frames, batch, self.states), self.log_y.dtype)
        found[-1] = end
        after = np.full((batch, self.states + 2), _NEVER, self.log_y.dtype)
        skipping = after.copy()
        for frame in range(frames - 1, 0, -1):
            reached = found[frame - 1]
            np.add(found[frame], self.emitted[:, frame], out=after[:, :-2])
            np.add(after[:, :-2], self.skip, out=skipping[:, :-2])
            np.logaddexp(after[:, :-2], after[:, 1:-1], out=reached)
            np.logaddexp(reached, skipping[:, 2:], out=reached)
            if not self.all_last[frame]:
                over = ~self.lasting[:, frame]
                reached[over] = end[over]
        return found

    def log_total(self, log_alpha: Array) -> Array:
        """log p(labels | logits)."""
        never = self.log_y.dtype.type(_NEVER)
        found: Array = np.logaddexp.reduce(np.where(self.is_end, log_alpha, never), axis=1)
        return found


def _ctc_loss(logits: Array, labels: Array, lengths: Array, counts: Array, *, blank: int) -> Array:
    lattice = _Lattice(logits, labels, lengths, counts, blank)
    loss = -lattice.log_total(lattice.log_alphas()[-1])
    return narrowed(np.where(loss < -_NEVER / 2, loss, loss.dtype.type(np.inf)), logits)


def _ctc_loss_gradient(
    logits: Array, labels: Array, lengths: Array, counts: Array, g: Array, *, blank: int
) -> Array:
    if not logits.size:
        return logits
    lattice = _Lattice(logits, labels, lengths, counts, blank)
    alphas = lattice.log_alphas()
    total = lattice.log_total(alphas[-1])
    taken = alphas[1:] + lattice.log_betas()
    taken -= total[:, None]
    taken = np.exp(taken, out=taken).transpose(1, 0, 2)
    classes: Any = lattice.path[:, :, None] == np.arange(logits.shape[2])
    slopes = np.exp(lattice.log_y)
    slopes -= taken @ classes.astype(taken.dtype)
    slopes *= widened(g)[:, None, None]
    slopes[~(lattice.lasting & (-total < -_NEVER / 2)[:, None])] = 0
    return narrowed(slopes, logits)


KERNELS: dict[str, Kernel] = {"ctc_loss": _ctc_loss, "ctc_loss_gradient": _ctc_loss_gradient}
