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
        "TensorFlow's names are a package of their own, which is not installed: "
        "pip install pullback-tensorflow",
        name=__name__,
    ) from None

# One module under two names: the package has imported all of its modules, so that each is found
# here and none is loaded twice.
for _name in [name for name in sys.modules if name.partition(".")[0] == "pullback_tensorflow"]:
    sys.modules[__name__ + _name.removeprefix("pullback_tensorflow")] = sys.modules[_name]
