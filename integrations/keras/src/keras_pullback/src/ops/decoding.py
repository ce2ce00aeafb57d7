"""Labels from the scores of a CTC model."""

from __future__ import annotations

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
    labels, _, scores = pb.ctc_beam_search(
        inputs, lengths, beam_width=beam_width, top_paths=top_paths, blank=mask_index
    )
    return pb.permute_dims(labels, (1, 0, 2)).astype("int32"), scores
