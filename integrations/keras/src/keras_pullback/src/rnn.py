"""Recurrent loops: of any step function, and pullback's fused LSTM and GRU where they fit."""

from __future__ import annotations

from keras.src import activations, tree

import pullback as pb
from keras_pullback.src.ops.core import cast, convert_to_tensor


def _swapped(x):
    return pb.moveaxis(x, 0, 1)


def rnn(
    step_function,
    inputs,
    initial_states,
    go_backwards=False,
    mask=None,
    constants=None,
    unroll=False,
    input_length=None,
    time_major=False,
    zero_output_for_mask=False,
    return_all_outputs=True,
):
    inputs = tree.map_structure(convert_to_tensor, inputs)
    if not time_major:
        inputs = tree.map_structure(_swapped, inputs)
    steps = tree.flatten(inputs)[0].shape[0]
    if unroll and not steps:
        raise ValueError("Unrolling requires a fixed number of timesteps.")
    if mask is not None:
        mask = cast(mask, "bool")
        mask = pb.expand_dims(mask, -1) if mask.ndim == 2 else mask
        mask = mask if time_major else _swapped(mask)
    states, constants = tuple(initial_states), tuple(constants or ())
    kept, outputs, last = [], {}, None

    def chosen(present, new, old):
        present = pb.reshape(present, present.shape + (1,) * (new.ndim - present.ndim))
        return pb.where(present, new, old)

    for t in reversed(range(steps)) if go_backwards else range(steps):
        part = tree.map_structure(lambda x, t=t: x[t], inputs)
        output, new_states = step_function(part, states + constants)
        if mask is not None:
            if last is None or zero_output_for_mask:
                last = pb.zeros_like(output)
            output = chosen(mask[t], output, last)
            kept = [
                chosen(mask[t], new, old)
                for new, old in zip(tree.flatten(new_states), tree.flatten(states), strict=True)
            ]
            new_states = tree.pack_sequence_as(states, kept)
        states, last = tuple(new_states), output
        outputs[len(outputs)] = output
    stacked = pb.stack(list(outputs.values()) if return_all_outputs else [last])
    stacked = stacked if time_major else _swapped(stacked)
    return last, stacked, list(states)


def _is(activation, function):
    return activation is function or getattr(activation, "__name__", "") == function.__name__


def cudnn_ok(activation, recurrent_activation, unroll, use_bias=True):
    return _is(activation, activations.tanh) and _is(recurrent_activation, activations.sigmoid)


def lstm(
    inputs,
    initial_state_h,
    initial_state_c,
    mask,
    kernel,
    recurrent_kernel,
    bias,
    activation,
    recurrent_activation,
    return_sequences=False,
    go_backwards=False,
    unroll=False,
    batch_first=True,
):
    # Whether a masked step has zeros for its output is not said here.
    if (mask is not None and return_sequences) or not batch_first:
        raise NotImplementedError
    if not cudnn_ok(activation, recurrent_activation, unroll):
        raise NotImplementedError
    args = [
        _ready(x)
        for x in (inputs, initial_state_h, initial_state_c, kernel, recurrent_kernel, bias)
    ]
    mask = None if mask is None else cast(mask, "bool")
    out, h, c = pb.lstm(*args, mask, reverse=go_backwards)
    return _results(out, go_backwards, return_sequences, h, c)


def gru(
    inputs,
    initial_state,
    mask,
    kernel,
    recurrent_kernel,
    bias,
    activation,
    recurrent_activation,
    return_sequences=False,
    go_backwards=False,
    unroll=False,
    reset_after=True,
):
    if mask is not None and return_sequences:
        raise NotImplementedError
    if not cudnn_ok(activation, recurrent_activation, unroll):
        raise NotImplementedError
    args = [_ready(x) for x in (inputs, initial_state, kernel, recurrent_kernel)]
    biases = (None,) if bias is None else (_ready(bias),)
    if reset_after and bias is not None:
        biases = pb.unstack(*biases)
    mask = None if mask is None else cast(mask, "bool")
    out, h = pb.gru(*args, *biases, mask=mask, reverse=go_backwards, reset_after=reset_after)
    return _results(out, go_backwards, return_sequences, h)


def _ready(x):
    return None if x is None else convert_to_tensor(x)


def _results(out, backwards, sequences, *states):
    # Keras has the outputs in the order in which they were computed.
    out = pb.flip(out, 1) if backwards and sequences else out
    return states[0], out if sequences else pb.expand_dims(states[0], 1), list(states)


def bidirectional_lstm(*args, **kwargs):
    raise NotImplementedError


def bidirectional_gru(*args, **kwargs):
    raise NotImplementedError


# Keras 3.15 calls `backend.rnn(...)` and `backend.lstm(...)`; plugins have them in `backend.rnn`.
for _function in (rnn, lstm, gru, bidirectional_lstm, bidirectional_gru, cudnn_ok):
    setattr(rnn, _function.__name__, _function)
