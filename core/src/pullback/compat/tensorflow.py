"""The names of TensorFlow's eager guides: the package `pullback_tensorflow`, under this name.

    import pullback.compat.tensorflow as tf
    import pullback.compat.tensorflow.contrib.eager as tfe

The package is a distribution of its own: `pip install pullback-tensorflow`.
"""

from __future__ import annotations

import sys
from importlib import import_module

try:
    import_module("pullback_tensorflow")
except ModuleNotFoundError as error:
    if error.name != "pullback_tensorflow":
        raise
    raise ModuleNotFoundError(
        "pullback.compat.tensorflow needs the package pullback-tensorflow, which is not installed; "
        "run: pip install pullback-tensorflow",
        name=__name__,
    ) from None

# Each module has two names. The package has imported all of its modules, so the import system finds
# them under the second name and loads none of them twice.
for _name in [name for name in sys.modules if name.partition(".")[0] == "pullback_tensorflow"]:
    sys.modules[__name__ + _name.removeprefix("pullback_tensorflow")] = sys.modules[_name]
