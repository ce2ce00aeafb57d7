"""The part of a layer that depends on the backend: a short way through `Layer.__call__`.

Keras looks at each call of a layer anew: it binds the arguments to the signature, flattens them,
opens scopes. In a step op by op that is more work than the ops. Most calls are those of a built
layer with plain tensors; a call of another kind goes the long way, which is Keras's own.
"""

from __future__ import annotations

import functools

from keras.src.backend.common import global_state, name_scope
from keras.src.backend.common.stateless_scope import in_stateless_scope
from keras.src.layers.input_spec import InputSpec
from keras.src.utils import traceback_utils
from keras.src.utils.python_utils import is_default
from keras.src.version import __version__

from keras_pullback.src import calls
from pullback import Tensor

#: The attribute of a layer with what is known of its `call`.
PLAN = "_pullback_plan"
#: The one with the spec, the shape and the dtype of an input that fitted.
FITS = "_pullback_fits"
#: The policies of dtypes under which a layer has one dtype and computes as it is.
POLICIES = ("DTypePolicy", "FloatDTypePolicy")
PLAIN = (bool, int, float, str, type(None))
#: Whether the default of `training` in a layer reaches those it calls, and those after it: from
#: Keras 3.16 on it is the layer's alone.
REACHES = tuple(map(int, __version__.split(".")[:2])) < (3, 16)


class BackendLayer:
    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        for name, short in METHODS.get((cls.__module__, cls.__name__), {}).items():
            setattr(cls, name, short(getattr(cls, name)))


def _plan(layer):
    """Returns the number of tensors that `call` takes first, and its use of `training` and masks.

    The last is the names of arguments that may be None. None where the arguments need the long way.
    """
    count, counting, default, optional = 0, True, None, set()
    for name, parameter in layer._call_signature.parameters.items():
        plain = parameter.default is parameter.empty or isinstance(parameter.default, PLAIN)
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.KEYWORD_ONLY) or not plain:
            return None
        if name == "training" and parameter.default is not parameter.empty:
            default = parameter.default
        if name != "training" and parameter.default is None:
            optional.add(name)
        counting = counting and name != "training" and not name.endswith("mask")
        count += counting and parameter.kind is not parameter.VAR_KEYWORD
    makes_mask = layer._supports_masking and not is_default(layer.compute_mask)
    return count, layer._call_has_training_arg, default, makes_mask, optional


def _is_short(layer, args, kwargs):
    """Returns whether a call needs none of what the long way is for."""
    own = layer.__dict__
    if (
        not own.get("built")
        or not own["_called"]
        or own["_remat_mode"]
        or own["activity_regularizer"] is not None
        or len(own["_call_context_args"]) != 1
    ):
        return False
    plan = own.get(PLAN, PLAN)
    if plan is PLAN:
        plan = own[PLAN] = _plan(layer)
    if plan is None or not 0 < len(args) <= plan[0]:
        return False
    for name, value in kwargs.items():
        # A node of a graph may have `mask=None` among its arguments.
        if value is None if name == "training" else value is not None or name not in plan[4]:
            return False
    state = global_state.GLOBAL_STATE_TRACKER.__dict__
    if state.get("autocast_scope") or state.get("distribution") or state.get("_keras_mask_dict"):
        return False
    policy = own["_dtype_policy"]
    dtype = policy.compute_dtype
    if dtype != policy.variable_dtype or type(policy).__name__ not in POLICIES:
        return False
    for x in args:
        if type(x) is not Tensor:
            return False
        kind = x.dtype.name
        if kind != dtype and "float" in kind:
            return False
    return True


def _short(general):
    @functools.wraps(general)
    def __call__(self, *args, **kwargs):
        if _is_short(self, args, kwargs):
            return short(self, *args, **kwargs)
        return general(self, *args, **kwargs)

    @traceback_utils.filter_traceback
    def short(self, *args, **kwargs):
        _, trains, default, makes_mask, _ = self.__dict__[PLAN]
        spec, x = self.input_spec, args[0]
        if spec:
            fits = (spec, x.shape, x.dtype)
            if self.__dict__.get(FITS) != fits:
                self._assert_input_compatibility(x)
                if type(spec) is InputSpec:
                    self.__dict__[FITS] = fits
        context = self._get_call_context()
        training = kwargs.get("training") if kwargs else None
        if training is None:
            training = getattr(context, "training", None)
        if training is not None:
            context.training = training
        else:
            training = default
            if REACHES:
                context.training = default
        kwargs = {"training": training} if trains and training is not None else {}
        try:
            with name_scope.name_scope(self.name, caller=self):
                try:
                    outputs = self.call(*args, **kwargs)
                except Exception as error:
                    _explain(self, error, args, kwargs)
            if makes_mask:
                self._set_mask_metadata(args[0], outputs, None)
        finally:
            self._maybe_reset_call_context()
        return outputs

    return __call__


def _explain(layer, error, args, kwargs):
    """Raises the error with the arguments in its message, as Keras does."""
    name = f"{type(layer).__name__}.call()"
    explained = getattr(traceback_utils, "inject_argument_info_in_error", None)
    if explained is not None:  # from Keras 3.16 on
        is_plain = traceback_utils.is_traceback_filtering_enabled()
        if is_plain and not getattr(error, "_keras_call_info_injected", False):
            error = explained(error, layer.call, args, kwargs, name)
        raise error from None

    @functools.wraps(layer.call)
    def again(*args, **kwargs):
        raise error

    traceback_utils.inject_argument_info_in_traceback(again, name)(*args, **kwargs)


def _clear_losses(general):
    """`Layer._clear_losses`, which clears only what is there."""

    @functools.wraps(general)
    def clear(self):
        if in_stateless_scope():
            return general(self)
        for own in (self._losses, self._loss_ids):
            if own:
                own.clear()
        for layer in self._layers:
            layer._clear_losses()

    return clear


#: The methods that have a short way, by the module and the name of their class.
METHODS = {
    ("keras.src.layers.layer", "Layer"): {
        "__call__": _short,
        "_clear_losses": _clear_losses,
    },
    **calls.METHODS,
}
