"""Keras chooses its backend when it is imported."""

import os

from keras_pullback import _finder

os.environ["KERAS_BACKEND"] = "pullback"
# Where the package is installed, its .pth file has done so.
_finder.install()
