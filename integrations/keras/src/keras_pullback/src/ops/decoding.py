"""Labels from the scores of a CTC model."""

from __future__ import annotations

import numpy as np

import pullback as pb
from keras_pullback.src.ops.core import cast, convert_to_tensor, name_of, result, to


def ctc_decode(
    inputs,
    sequence_lengths,
    strategy="greedy",
    beam_width=100,
    top_paths=1,
    merge_repeated=True,
    mask_index=0,
):
    inputs = convert_to_tensor(inputs)
    inputs = to(inputs, result(name_of(inputs), "float32"))
    lengths = cast(sequence_lengths, "int32")
    mask_index = inputs.shape[-1] - 1 if mask_index is None else mask_index
    if strategy == "greedy":
        return _greedy(inputs, lengths, merge_repeated, mask_index)
    if strategy == "beam_search":
        return _beam_search(inputs, lengths, beam_width, top_paths, mask_index)
    raise ValueError(
        f"Invalid strategy {strategy}. Supported values are 'greedy' and 'beam_search'."
    )


def _greedy(inputs, lengths, merge_repeated, mask_index):
    steps = inputs.shape[1]
    ended = pb.arange(steps) >= lengths[:, None]
    indices = pb.where(ended, mask_index, pb.argmax(inputs, axis=-1).astype("int32"))
    scores = pb.where(ended, 0.0, pb.max(inputs, axis=-1))
    if merge_repeated:
        repeated = pb.pad((indices[:, 1:] == indices[:, :-1]).astype("int32"), [(0, 0), (1, 0)]) > 0
        indices = pb.where(repeated, mask_index, indices)
    blank = indices == mask_index
    order = pb.argsort(pb.where(blank, steps, pb.arange(steps)), axis=-1)
    indices = pb.take_along_axis(pb.where(blank, -1, indices), order, axis=-1)
    return pb.expand_dims(indices, 0), -pb.sum(scores, axis=1)[:, None]


def _beam_search(inputs, lengths, beam_width, top_paths, mask_index):
    """Prefix beam search (Hannun et al., 2014), on the host: beams are found by their labels."""
    scores = pb.log_softmax(inputs, axis=-1).numpy().astype("float64")
    batch, steps, classes = scores.shape
    paths = np.full((top_paths, batch, steps), -1, "int32")
    totals = np.full((batch, top_paths), -np.inf, "float32")
    for row, length in enumerate(lengths.tolist()):
        # For each path, the logarithms of its probabilities to end with a label and a blank.
        beams = {(): (-np.inf, 0.0)}
        for t in range(length):
            grown = {}

            def add(path, label, blank, grown=grown):
                old = grown.get(path, (-np.inf, -np.inf))
                grown[path] = np.logaddexp(old[0], label), np.logaddexp(old[1], blank)

            for path, (label, blank) in beams.items():
                either = np.logaddexp(label, blank)
                for c in range(classes):
                    score = scores[row, t, c]
                    if c == mask_index:
                        add(path, -np.inf, either + score)
                    elif path and path[-1] == c:
                        add(path, label + score, -np.inf)
                        add((*path, c), blank + score, -np.inf)
                    else:
                        add((*path, c), either + score, -np.inf)
            best = sorted(grown.items(), key=lambda item: -np.logaddexp(*item[1]))[:beam_width]
            beams = dict(best)
        for i, (path, ends) in enumerate(list(beams.items())[:top_paths]):
            paths[i, row, : len(path)] = path
            totals[row, i] = np.logaddexp(*ends)
    return convert_to_tensor(paths), to(convert_to_tensor(totals), name_of(inputs))
