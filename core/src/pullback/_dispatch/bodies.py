"""The bodies of composite ops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pullback import errors
from pullback._dispatch.arguments import (
    explain,
    is_from_signal_handler,
    raise_explained,
    wrap_op_error,
)
from pullback.spec import Op


def run_body(op: Op, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Any:
    """The results of the op's body, for aligned inputs and canonical attributes."""
    if op.primitive:
        raise errors.MissingKernelError(
            f"{op.name}: a primitive has no body to fall back on: {op.why}"
        )
    code = op.body.__code__
    keywords = dict(attributes)
    for parameter, value in zip(op.inputs, inputs, strict=True):
        keywords[parameter.name] = value
    positional = [keywords.pop(name) for name in code.co_varnames[: code.co_posonlyargcount]]
    try:
        return op.body(*positional, **keywords)
    except Exception as error:
        if getattr(error, "op", None) == op.name or is_from_signal_handler(error):
            raise
        # The op that the caller named explains its shapes better than one inside its body.
        explained = explain(op, tuple(inputs), attributes)
        if explained is not None:
            raise explained.with_traceback(error.__traceback__) from error.__cause__
        if isinstance(error, errors.PullbackError):
            named = wrap_op_error(op, error)
            raise named.with_traceback(error.__traceback__) from error.__cause__
        raise_explained(op, error, tuple(inputs), attributes)


def without_residuals(op: Op, result: Any) -> Any:
    """The result of a body without its residuals."""
    if not op.residuals:
        return result
    outputs = result[: len(op.outputs)]
    return outputs[0] if len(outputs) == 1 else tuple(outputs)
