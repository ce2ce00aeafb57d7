"""Makes `optimizers.npz`: where PyTorch's optimizers come to.

`tests/optimizers/test_optimizers.py` reads it.

    python tests/reference/make_optimizers.py

with a Python that has PyTorch. The gradients of a hundred steps are those that the test makes, from
the same seed; all in float64. Made with PyTorch 2.13 on a CPU.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parent))

from problem import GRADIENTS, START

T = torch.optim
MADE = {
    "sgd": lambda p: T.SGD(p, 0.1),
    "sgd decay": lambda p: T.SGD(p, 0.1, weight_decay=0.01),
    "momentum": lambda p: T.SGD(p, 0.1, 0.9),
    "nesterov": lambda p: T.SGD(p, 0.1, 0.9, nesterov=True),
    "adam": lambda p: T.Adam(p, 0.01),
    "adam betas": lambda p: T.Adam(p, 0.1, (0.5, 0.9), 1e-3),
    "amsgrad": lambda p: T.Adam(p, 0.01, amsgrad=True),
    "adamw": lambda p: T.AdamW(p, 0.01, weight_decay=0.1),
    "nadam": lambda p: T.NAdam(p, 0.01),
    "adamax": lambda p: T.Adamax(p, 0.01),
    "rmsprop": lambda p: T.RMSprop(p, 0.01, 0.9),
    "rmsprop momentum": lambda p: T.RMSprop(p, 0.01, 0.9, momentum=0.9),
    "rmsprop centered": lambda p: T.RMSprop(p, 0.01, 0.9, momentum=0.5, centered=True),
    "adagrad": lambda p: T.Adagrad(p, 0.1),
    "adadelta": lambda p: T.Adadelta(p, 1.0, 0.95),
    # PyTorch does not add to the squares, it bounds them: the same where none is 0.
    "adafactor": lambda p: T.Adafactor(p, 0.05, eps=(1e-30, 1e-3)),
}

found = {}
for name, make in MADE.items():
    parameter = torch.nn.Parameter(torch.from_numpy(START.copy()))
    optimizer = make([parameter])
    for gradient in GRADIENTS:
        parameter.grad = torch.from_numpy(gradient.copy())
        optimizer.step()
    found[name] = parameter.detach().numpy()
path = Path(__file__).with_name("optimizers.npz")
np.savez_compressed(path, **found)
print(f"{len(found)} optimizers, {path.stat().st_size / 1e3:.0f} KB, PyTorch {torch.__version__}")
