"""Steps of Keras's optimizers by pullback's updates: one pass over a variable and its slots."""

from __future__ import annotations

import functools
import math

from keras.src import optimizers
from keras.src.backend.common.stateless_scope import in_stateless_scope

import pullback as pb
from keras_pullback.src.ops.core import convert_to_tensor
from pullback.optimizers.update import Update
from pullback.spec import OPS


def hasten(optimizer):
    """Gives an optimizer of Keras's own steps of ours; one that a user wrote keeps its own."""
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)
    rule = RULES.get(type(optimizer))
    if rule and {"update_step", "_backend_update_step"}.isdisjoint(vars(optimizer)):
        optimizer._backend_update_step = Steps(optimizer, rule)


class Steps:
    """The move of all variables, which an optimizer calls."""

    def __init__(self, optimizer, rule):
        self.optimizer, self.rule = optimizer, rule
        #: The update of each variable, by its place in the optimizer.
        self.updates = {}
        #: The variables of the last step, and of each its dtype, place and update.
        self.variables, self.places = [], []

    def __call__(self, gradients, variables, learning_rate):
        optimizer = self.optimizer
        if in_stateless_scope():
            type(optimizer)._backend_update_step(optimizer, gradients, variables, learning_rate)
            return
        if list(map(id, variables)) != list(map(id, self.variables)):
            self.variables, self.places = list(variables), []
            for variable in variables:
                index = optimizer._get_variable_index(variable)
                update = self.updates.setdefault(index, Update())
                self.places.append((variable, variable.dtype, index, update))
        calls = {}
        for gradient, (variable, dtype, index, update) in zip(gradients, self.places, strict=True):
            if dtype not in calls:
                # 1 - 0.999 is nothing in bfloat16.
                wide = dtype if dtype == "float64" else "float32"
                calls[dtype] = self.rule(optimizer, convert_to_tensor(learning_rate, wide))
            op, slots, numbers, attributes, factor = calls[dtype]
            gradient = convert_to_tensor(gradient, dtype)
            if factor is not None:
                gradient = gradient * factor.astype(gradient.dtype)
            moved = [variable._value]
            for slot in slots:
                moved.append(slot[index]._value)
            update(op, moved, gradient, numbers, attributes)


@functools.lru_cache(64)
def _kept(value, dtype, device):
    return pb.asarray(value, dtype=dtype, device=device)


def _number(value, like):
    make = _kept if pb.executing_eagerly() else _kept.__wrapped__
    return make(value, like.dtype, like.device)


def _betas(optimizer):
    return {"beta1": optimizer.beta_1, "beta2": optimizer.beta_2}


def adam(optimizer, rate):
    """Adam, AMSGrad and AdamW, whose weights Keras has decayed before.

    Keras adds its epsilon to the root of the second moment as it is, algorithm 1 of the paper to
    the corrected one. So the rate has the corrections, and the update those of step infinity: 1.
    """
    step = convert_to_tensor(optimizer.iterations).astype(rate.dtype) + 1
    root = pb.sqrt(1 - pb.pow(optimizer.beta_2, step))
    rate = rate * root / (1 - pb.pow(optimizer.beta_1, step))
    op, slots = "adam_update", [optimizer._momentums, optimizer._velocities]
    if optimizer.amsgrad:
        op, slots = "amsgrad_update", [*slots, optimizer._velocity_hats]
    attributes = _betas(optimizer) | {"epsilon": optimizer.epsilon}
    return OPS[op], slots, [rate, _number(math.inf, rate)], attributes, None


def sgd(optimizer, rate):
    """Gradient descent. Keras's momentum has the rate in it, so its gradient has it here."""
    if not optimizer.momentum:
        return OPS["sgd_update"], [], [rate], {}, None
    attributes = {"momentum": optimizer.momentum, "nesterov": optimizer.nesterov}
    numbers = [_number(-1.0, rate)]
    return OPS["momentum_update"], [optimizer.momentums], numbers, attributes, -rate


def lion(optimizer, rate):
    return OPS["lion_update"], [optimizer._momentums], [rate], _betas(optimizer), None


#: The op of a step, its slots, numbers and attributes, and a factor of the gradient.
RULES = {
    optimizers.Adam: adam,
    optimizers.AdamW: adam,
    optimizers.Lion: lion,
    optimizers.SGD: sgd,
}
