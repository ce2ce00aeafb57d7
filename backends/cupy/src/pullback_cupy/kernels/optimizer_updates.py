"""Optimizer steps, each in one pass over the parameter and its slots.

Every array keeps its own dtype (P, G, M, V, S). The computation is in W, the dtype of the learning
rate: double if the parameter is, else float. Each thread computes the numbers of the step: to fetch
the learning rate from the device would make the host wait.
"""

from __future__ import annotations

from typing import Any

from pullback.plugins.records import Kernel
from pullback_cupy.compile import elementwise
from pullback_cupy.typing import Array

_MOMENTS = (
    "const W h = W(g), mean = W(m) + (h - W(m)) * W(1 - beta1),"
    " square = W(v) + (h * h - W(v)) * W(1 - beta2);"
)
#: 1 - beta**step, the sum of the weights in a moving average, without cancellation.
_SHARES = (
    "const W share1 = beta1 == 0 ? W(1) : W(-expm1(double(step) * log(beta1))),"
    " share2 = beta2 == 0 ? W(1) : W(-expm1(double(step) * log(beta2)));"
)
_DECAYED = "const W h = W(g) + (decay != 0 ? W(p) * W(decay) : W(0));"
_WEIGHT_DECAY = "(decay != 0 ? W(p) * W(decay) : W(0))"


def _update(name: str, slots: str, numbers: str, operation: str, *, counts: bool = False) -> Kernel:
    """The kernel of an op `name`, with slots such as "m v" and attributes such as "beta1 beta2"."""
    slot_names, number_names = slots.split(), numbers.split()
    inputs = ["P p", "G g", *(f"{slot.upper()} {slot}" for slot in slot_names), "W rate"]
    if counts:
        inputs.append("W step")
    inputs += [f"float64 {_SHORT.get(number, number)}" for number in number_names]
    outputs = ["P new_p", *(f"{slot.upper()} new_{slot}" for slot in slot_names)]
    compiled = elementwise(name, ", ".join(inputs), ", ".join(outputs), operation)

    def kernel(*arrays: Array, **attributes: float) -> Any:
        return compiled(*arrays, *[float(attributes[number]) for number in number_names])

    return kernel


_SHORT = {"weight_decay": "decay"}
_ADAM = "beta1 beta2 epsilon weight_decay"

KERNELS: dict[str, Kernel] = {
    "adadelta_update": _update(
        "adadelta_update", "s c", "rho epsilon weight_decay",
        f"{_DECAYED} const W square = W(s) + (h * h - W(s)) * W(1 - rho),"
        " change = h * (sqrt(W(c) + W(epsilon)) / sqrt(square + W(epsilon)));"
        " new_p = P(W(p) - change * rate); new_s = S(square);"
        " new_c = C(W(c) + (change * change - W(c)) * W(1 - rho));",
    ),
    "adagrad_update": _update(
        "adagrad_update", "s", "epsilon weight_decay",
        f"{_DECAYED} const W total = W(s) + h * h;"
        " new_p = P(W(p) - h / (sqrt(total) + W(epsilon)) * rate); new_s = S(total);",
    ),
    "adam_update": _update(
        "adam_update", "m v", _ADAM,
        f"{_MOMENTS} {_SHARES}"
        " const W change = mean / share1 / (sqrt(square / share2) + W(epsilon))"
        f" + {_WEIGHT_DECAY};"
        " new_p = P(W(p) - change * rate); new_m = M(mean); new_v = V(square);",
        counts=True,
    ),
    "adamax_update": _update(
        "adamax_update", "m u", "beta1 beta2 epsilon",
        f"{_SHARES} const W h = W(g), mean = W(m) + (h - W(m)) * W(1 - beta1),"
        " past = W(u) * W(beta2), largest = past > fabs(h) || past != past ? past : fabs(h);"
        " new_p = P(W(p) - mean / ((largest + W(epsilon)) * share1) * rate);"
        " new_m = M(mean); new_u = U(largest);",
        counts=True,
    ),
    "amsgrad_update": _update(
        "amsgrad_update", "m v s", _ADAM,
        f"{_MOMENTS} {_SHARES}"
        " const W largest = W(s) > square || W(s) != W(s) ? W(s) : square,"
        " change = mean / share1 / (sqrt(largest / share2) + W(epsilon))"
        f" + {_WEIGHT_DECAY};"
        " new_p = P(W(p) - change * rate); new_m = M(mean); new_v = V(square);"
        " new_s = S(largest);",
        counts=True,
    ),
    "lion_update": _update(
        "lion_update", "m", "beta1 beta2 weight_decay",
        "const W h = W(g), way = W(m) * W(beta1) + h * W(1 - beta1),"
        " sign = way > 0 ? W(1) : way < 0 ? W(-1) : way;"
        f" new_p = P(W(p) - (sign + {_WEIGHT_DECAY}) * rate);"
        " new_m = M(W(m) + (h - W(m)) * W(1 - beta2));",
    ),
    "momentum_update": _update(
        "momentum_update", "v", "momentum nesterov weight_decay",
        f"{_DECAYED} const W speed = W(v) * W(momentum) + h,"
        " move = nesterov != 0 ? h + speed * W(momentum) : speed;"
        " new_p = P(W(p) - move * rate); new_v = V(speed);",
    ),
    "rmsprop_update": _update(
        "rmsprop_update", "s", "rho epsilon weight_decay",
        f"{_DECAYED} const W square = W(s) + (h * h - W(s)) * W(1 - rho);"
        " new_p = P(W(p) - h / (sqrt(square) + W(epsilon)) * rate); new_s = S(square);",
    ),
    "sgd_update": _update(
        "sgd_update", "", "weight_decay", f"{_DECAYED} new_p = P(W(p) - h * rate);"
    ),
}  # fmt: skip
