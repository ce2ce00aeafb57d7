"""The finder that `keras_pullback.pth` installs when Python starts, asleep until Keras comes."""

import os
import sys


class Finder:
    """Finds the modules of Keras that `_hook` adds to, once this backend is chosen."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        """The spec of a module that chooses a backend; None, for other finders, of all else."""
        if name[:10] != "keras.src." or os.environ.get("KERAS_BACKEND") != "pullback":
            return None
        from keras_pullback import _hook

        return _hook.spec_of(name, path)


def install():
    """Has Keras find this backend, once."""
    if Finder not in sys.meta_path:
        sys.meta_path.insert(0, Finder)
