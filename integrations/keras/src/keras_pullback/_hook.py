"""Lets the released Keras, which has no loader of plugins yet, find this backend.

Some modules of Keras choose by the name of the backend: `elif backend() == "openvino": ...`. As
they are imported, each such choice gets a branch for `"pullback"`. Layer normalization, which is a
kernel on torch alone and a dozen ops on all others, becomes one op.
"""

from __future__ import annotations

import ast
import importlib.machinery

#: The modules that choose, with the branch for this backend.
CHOICES = {
    "keras.src.backend": (
        "from keras_pullback.src import *\n"
        "from keras_pullback.src.variable import Variable as BackendVariable\n"
        "distribution_lib = None"
    ),
    "keras.src.models.model": "from keras_pullback.src.trainer import Trainer",
    "keras.src.layers.layer": "from keras_pullback.src.layer import BackendLayer",
    "keras.src.export.saved_model": (
        "from keras_pullback.src.export import ExportArchive as BackendSavedModelExportArchive"
    ),
}
#: What is added at the end of a module.
ADDED = {
    "keras.src.utils.backend_utils": """
def _with_pullback(cls):
    others, set_backend = cls.__getattr__, cls.set_backend

    def __getattr__(self, name):
        return getattr(backend_module if self._backend == "pullback" else _Others(self), name)

    class _Others:
        def __init__(self, backend):
            self.backend = backend

        def __getattr__(self, name):
            return others(self.backend, name)

    def choose(self, backend):
        if backend == "pullback":
            self._backend = backend
        else:
            set_backend(self, backend)

    cls.__getattr__, cls.set_backend = __getattr__, choose


_with_pullback(DynamicBackend)
""",
    "keras.src.ops.nn": """
def _with_pullback(general):
    from keras_pullback.src.ops.nn import layer_normalization

    def normalize(x, gamma=None, beta=None, axis=-1, epsilon=None, rms_scaling=False):
        epsilon = backend.epsilon() if epsilon is None else epsilon
        y = None if rms_scaling else layer_normalization(x, gamma, beta, axis, epsilon)
        return general(x, gamma, beta, axis, epsilon, rms_scaling) if y is None else y

    return normalize


_layer_normalization = _with_pullback(_layer_normalization)
""",
}
MODULES = {*CHOICES, *ADDED}


def _asks(test):
    """Returns whether a condition compares the name of the backend with a constant."""
    return (
        isinstance(test, ast.Compare)
        and ast.unparse(test.left) in ("backend()", "backend.backend()")
        and isinstance(test.comparators[0], ast.Constant)
    )


def _imports(node):
    return any(isinstance(statement, ast.ImportFrom) for statement in node.body)


def rewritten(source, name):
    """The syntax tree of a module in which the first choice has a branch for this backend."""
    if name in ADDED:
        return ast.parse(source + ADDED[name])
    tree = ast.parse(source)
    for i, node in enumerate(tree.body):
        if isinstance(node, ast.If) and _asks(node.test) and _imports(node):
            ours = ast.parse(f'if {ast.unparse(node.test.left)} == "pullback": pass').body[0]
            ours.body, ours.orelse = ast.parse(CHOICES[name]).body, [node]
            tree.body[i] = ours
            return ast.fix_missing_locations(tree)
    raise ImportError(
        f"{name} does not choose a backend as Keras 3.15 does; this version of Keras has its own "
        f"loader of plugins, or needs another version of keras-pullback"
    )


class _Loader(importlib.machinery.SourceFileLoader):
    def get_code(self, fullname):
        path = self.get_filename(fullname)
        source = self.get_data(path).decode()
        return compile(rewritten(source, fullname), path, "exec", dont_inherit=True)


def spec_of(name, path):
    """The spec of a module of Keras that chooses a backend; None of another module."""
    if name not in MODULES:
        return None
    spec = importlib.machinery.PathFinder.find_spec(name, path)
    if spec is not None and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
        spec.loader = _Loader(name, spec.loader.path)
    return spec
