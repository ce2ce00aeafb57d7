"""The arguments of ops, where a docstring leaves them out: most are the same everywhere."""

from __future__ import annotations

import inspect
import re
from typing import Any

#: By name; a pair is for `Axes` or `Axis | None`, and for an axis that there must be.
SAME = {
    "x": "a tensor, or what becomes one: an array, a number, nested lists.",
    "x1": "a tensor, or what becomes one.",
    "x2": "another one, with a shape that broadcasts with that of `x1`.",
    "predictions": "what the model has computed.",
    "targets": "what is right, in the shape of the predictions.",
    "keepdims": "whether the axes that are reduced stay, with size 1.",
    "shape": "the sizes of the axes: a tuple, or an int for one axis.",
    "offset": "the diagonal: 0 is the main one, above it are positive numbers.",
    "correction": "what is subtracted from the number of elements; 1 for that of a sample.",
    "descending": "whether the largest comes first.",
    "stable": "whether equal elements keep their order.",
    "negative_slope": "the factor of negative elements.",
    "alpha": "the limit of the result for negative elements is -alpha.",
    "norm": '`"backward"` divides by n, `"ortho"` by its root, `"forward"` not at all.',
    "axes": "the axes; None for all.",
}
AXES = "an axis, or a tuple of axes; None for all. Negative ones count from the end."
AXIS = "the axis; negative ones count from the end."
AXIS_OR_NONE = "the axis, negative ones from the end; None for the elements in C order."
DEFAULT = {"dtype": "default", "device": "active"}
TOTAL = {
    "dtype": "of the result; None for that of `x`, or the default one of small integers."
}
#: By op, where the name does not tell.
OWN = {
    "sum": TOTAL,
    "prod": TOTAL,
    "trace": TOTAL,
    "finfo": {"type": "a floating dtype, its name, or a tensor of it."},
    "iinfo": {"type": "an integer dtype, its name, or a tensor of it."},
    "full_like": {"fill_value": "the value of every element, a Python number."},
    "clip": {
        "min": "the lower bound, a tensor or a number; None for none.",
        "max": "the upper bound, in the same way.",
    },
    "copysign": {"x2": "where the signs are; its shape broadcasts with that of `x1`."},
    "nextafter": {"x2": "where to go; its shape broadcasts with that of `x1`."},
    "complex": {"real": "the real parts.", "imag": "the imaginary parts."},
    "polygamma": {"n": "the order of the derivative, at least 1."},
    "xlogy": {"y": "another tensor, with a shape that broadcasts with that of `x`."},
    "broadcast_arrays": {"arrays": "tensors, or what becomes tensors."},
    "matmul": {"x1": "a tensor of matrices, or a vector.", "x2": "another one."},
    "vecdot": {"x2": "another one."},
    "cross": {"x2": "another one."},
    "tensordot": {
        "x2": "another one.",
        "axes": "how many of the last axes of `x1` and first axes of `x2`, or two sequences.",
    },
    "outer": {"x1": "a vector.", "x2": "another one."},
    "solve": {
        "x1": "square matrices (..., n, n).",
        "x2": "(..., n, k), or a vector (n,).",
    },
    "ifft": {"n": "the size of the result along the axis; None for that of `x`."},
    "ifftn": {"s": "the sizes of the result along the axes; None for those of `x`."},
    "einsum": {
        "equation": 'letters for the axes of each operand, and after `"->"` of the result.',
        "operands": "a tensor for each part before the arrow.",
    },
    "top_k": {"k": "how many.", "largest": "whether the largest, or the smallest."},
    "cholesky": {"upper": "whether the factor is upper triangular."},
    "matrix_power": {"n": "the power, an integer."},
    "qr": {"mode": '`"reduced"`, or `"complete"` for a square Q.'},
    "svd": {"full_matrices": "whether U and Vh are square."},
    "huber_loss": {"delta": "the difference from which on the loss is linear."},
    "global_norm": {"tensors": "tensors, or None for what is skipped."},
}


def described(name: str, function: Any) -> str:
    """The docstring of an op, with the arguments that it leaves out."""
    doc = inspect.getdoc(function) or ""
    lines = [
        f"    {one.name}: {text}"
        for one in inspect.signature(function).parameters.values()
        if not is_described(doc, one.name) and (text := words(name, one))
    ]
    if not lines:
        return doc
    if "\nArgs:\n" in doc:
        return doc.replace("\nArgs:\n", "\n".join(["", "Args:", *lines, ""]), 1)
    block = "\n".join(["Args:", *lines, ""])
    # In front of what comes next.
    parts = re.split(r"^(Returns:|Raises:|>>>)", doc, maxsplit=1, flags=re.MULTILINE)
    before, mark, after = [*parts, "", ""][:3]
    return f"{before.rstrip()}\n\n{block}\n{mark}{after}"


def is_described(doc: str, name: str) -> bool:
    """Returns whether a docstring has an entry for a parameter."""
    return bool(
        re.search(rf"^ {{4}}\*{{0,2}}(\w+, )*{name}(, \w+)*: ", doc, re.MULTILINE)
    )


def words(op: str, parameter: inspect.Parameter) -> str:
    """Returns the words for a parameter; none where it has none."""
    name, kind = parameter.name, str(parameter.annotation)
    if text := OWN.get(op, {}).get(name):
        return text
    if name == "axis":
        return AXES if "Axes" in kind else AXIS_OR_NONE if "None" in kind else AXIS
    if name in ("dtype", "device"):
        default = "that of `x`" if op.endswith("_like") else f"the {DEFAULT[name]} one"
        return f"the {name} of the result; None for {default}."
    return SAME.get(name, "")
