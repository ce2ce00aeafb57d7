"""Attributes of tensors, variables and tapes that are called otherwise here."""

from __future__ import annotations

__all__ = ["TAPE", "TENSOR", "VARIABLE"]

TENSOR = {
    # Gradients.
    "backward": "write `pb.grad(f)(x)`, or `tape.gradient(loss, model.trainable_variables)`",
    "grad": "gradients are results: `pb.grad(f)(x)`, `tape.gradient(loss, x)`",
    "detach detach_ stop_gradient": "write `pb.stop_gradient(x)`",
    "requires_grad requires_grad_ retain_grad":
        "write `tape.watch(x)`, or `pb.grad(f)(x)`; a `pb.Variable(x)` is watched by itself",
    "grad_fn is_leaf register_hook":
        "tapes keep the graph, not tensors; for a gradient of your own there is "
        "`pb.custom_gradient`",
    # Shape.
    "view view_as reshape_as": "write `x.reshape(2, -1)`",
    "resize_ resize": "write `x.reshape(2, -1)`; images are resized by `pb.resize`",
    "unsqueeze expand_dims": "write `pb.expand_dims(x, axis=0)`, or `x[None]`",
    "squeeze squeeze_": "write `pb.squeeze(x, axis=0)`",
    "permute transpose swapaxes swapdims":
        "write `pb.permute_dims(x, (1, 0))`; `x.T` of a matrix, `x.mT` of the last two axes",
    "t": "write `x.T`",
    "movedim moveaxis": "write `pb.moveaxis(x, 0, -1)`",
    "expand expand_as broadcast_to": "write `pb.broadcast_to(x, (2, 3))`",
    "repeat_interleave": "write `pb.repeat(x, 2)`",
    "tile": "write `pb.tile(x, (2, 1))`",
    "chunk": "write `pb.split(x, 2)`, 2 parts",
    "split tensor_split":
        "write `pb.split(x, 2)`: 2 is the number of parts, not their size; or "
        "`pb.split_at(x, 1)`",
    "unbind": "write `pb.unstack(x)`",
    "narrow select index_select": "write `x[1:3]`, or `pb.take(x, indices, axis=0)`",
    "gather take_along_dim": "write `pb.take_along_axis(x, indices, axis=0)`",
    "flip fliplr flipud": "write `pb.flip(x, axis=0)`",
    "roll": "write `pb.roll(x, 1)`",
    "unfold": "write `pb.unfold` for images, or `x[i : i + size]` in a loop",
    "contiguous is_contiguous": "not needed: ops take any memory layout; leave it out",
    "dim ndimension get_shape rank": "write `x.ndim`, `x.shape`",
    "numel nelement": "write `x.size`",
    "itemsize element_size": "write `x.dtype.itemsize`",
    "stride":
        "a tensor has no public memory layout; `x.numpy().strides` tells that of a copy",
    # Dtypes and devices.
    "float": "write `x.astype(pb.float32)`; `float(x)` is a Python number",
    "double": "write `x.astype(pb.float64)`",
    "half": "write `x.astype(pb.float16)`",
    "bfloat16": "write `x.astype(pb.bfloat16)`",
    "long": "write `x.astype(pb.int64)`",
    "int": "write `x.astype(pb.int32)`; `int(x)` is a Python number",
    "short": "write `x.astype(pb.int16)`",
    "byte": "write `x.astype(pb.uint8)`",
    "bool": "write `x.astype(pb.bool)`; `bool(x)` is a Python value",
    "type type_as cast": "write `x.astype(pb.float32)`",
    "is_floating_point": "write `pb.isdtype(x.dtype, \"real floating\")`",
    "is_complex": "write `pb.isdtype(x.dtype, \"complex floating\")`",
    "cuda": "write `x.gpu()`, or `x.to(\"gpu:0\")`",
    "is_cuda get_device": "write `x.device`",
    "pin_memory share_memory_ is_pinned": "not here: a backend owns its memory; leave it out",
    "block_until_ready": "write `x.numpy()`, which waits for the result",
    "device_buffer addressable_data sharding": "write `x.device`: a tensor is on one device",
    # Copies and the host.
    "clone copy": "tensors do not change, so `x` itself will do; a NumPy copy is `np.array(x)`",
    "data": "write `pb.stop_gradient(x)`; NumPy's buffer is `x.numpy()`",
    "to_numpy cpu_numpy asnumpy": "write `x.numpy()`",
    "tofile dump save": "write `np.save(file, x.numpy())`; models are saved by `pb.Checkpoint`",
    # Changing in place.
    "add_ sub_ mul_ div_ addcmul_ addcdiv_ copy_ fill_ zero_ clamp_ normal_ uniform_ exp_ "
    "set_ fill":
        "tensors do not change: assign the result, such as `x = x + 1`; `v.assign(x)` changes a "
        "variable",
    "masked_fill masked_fill_": "write `pb.where(mask, value, x)`",
    "masked_select": "write `x[mask]`",
    "scatter_ index_copy_ index_put_ scatter index_fill_":
        "write `pb.scatter_update(x, indices, updates)`, or `x[i] = value`",
    "scatter_add scatter_add_ index_add index_add_": "write `pb.scatter_add(x, indices, updates)`",
    "scatter_reduce scatter_reduce_": "write `pb.scatter_add(x, indices, updates)`, or its like: "
        "`pb.scatter_max`, `pb.scatter_min`, `pb.scatter_multiply`",
    "at": "write `pb.scatter_update(x, indices, updates)`, or `x[i] = value`",
    "put itemset": "write `x[i] = value`",
    # Numbers.
    "abs absolute": "write `pb.abs(x)`",
    "exp": "write `pb.exp(x)`",
    "log": "write `pb.log(x)`",
    "sqrt": "write `pb.sqrt(x)`",
    "rsqrt": "write `pb.rsqrt(x)`",
    "pow": "write `x ** 2`",
    "square": "write `pb.square(x)`",
    "sin": "write `pb.sin(x)`",
    "cos": "write `pb.cos(x)`",
    "tanh": "write `pb.tanh(x)`",
    "sigmoid": "write `pb.sigmoid(x)`",
    "relu": "write `pb.relu(x)`",
    "softmax": "write `pb.softmax(x, axis=-1)`",
    "log_softmax": "write `pb.log_softmax(x, axis=-1)`",
    "floor": "write `pb.floor(x)`",
    "ceil": "write `pb.ceil(x)`",
    "sign": "write `pb.sign(x)`",
    "neg": "write `-x`",
    "reciprocal": "write `1 / x`",
    "add": "write `x + 1`",
    "sub": "write `x - 1`",
    "mul": "write `x * 2`",
    "div": "write `x / 2`",
    "clamp clip clamp_min clamp_max": "write `pb.clip(x, 0, 1)`",
    "angle": "write `pb.angle(x)`",
    "isnan": "write `pb.isnan(x)`",
    "isinf": "write `pb.isinf(x)`",
    "eq": "write `x == 1`",
    "ne": "write `x != 1`",
    "lt": "write `x < 1`",
    "gt": "write `x > 1`",
    "le": "write `x <= 1`",
    "ge": "write `x >= 1`",
    "logical_not": "write `pb.logical_not(x)`, or `~x`",
    "lerp": "write `x + weight * (y - x)`",
    # Reductions and products.
    "amax": "write `x.max(axis=0)`",
    "amin": "write `x.min(axis=0)`",
    "norm": "write `pb.linalg.vector_norm(x)`",
    "median": "write `pb.median(x)`",
    "quantile": "write `pb.quantile(x, 0.5)`",
    "ptp": "write `x.max() - x.min()`",
    "logsumexp": "write `pb.logsumexp(x, axis=-1)`",
    "count_nonzero": "write `pb.count_nonzero(x)`",
    "topk": "write `pb.top_k(x, 3)`",
    "unique": "write `pb.unique_values(x)`",
    "searchsorted": "write `pb.searchsorted(x, values)`",
    "matmul mm bmm mv dot": "write `x @ y`",
    "outer ger": "write `pb.linalg.outer(x, y)`",
    "diag diagonal": "write `pb.linalg.diagonal(x)`",
    "inverse": "write `pb.linalg.inv(x)`",
    "det": "write `pb.linalg.det(x)`",
    "tril": "write `pb.tril(x)`",
    "triu": "write `pb.triu(x)`",
    "flat": "write `x.reshape(-1)`",
    "map apply_": "write an op on the whole tensor, or `[f(row) for row in x]`",
}  # fmt: skip

VARIABLE = {
    "read_value": "write `v.value`",
    "assign_mul": "write `v.assign(v * 2)`",
    "grad": "gradients are results: `tape.gradient(loss, v)`, `pb.implicit_gradients(f)()`",
    "data": "write `v.value`, and `v.assign(x)` to change it",
    "requires_grad requires_grad_":
        "write `v.trainable` to read it, `pb.Variable(x, trainable=False)`, and "
        "`layer.trainable = False` to freeze a layer",
    "detach": "write `pb.stop_gradient(v)`",
    "set_value set load copy_ update": "write `v.assign(x)`",
    "add_ sub_": "write `v.assign_add(x)`, `v.assign_sub(x)`",
    "scatter_update scatter_nd_update scatter_add index_put_":
        "write `v.assign(pb.scatter_update(v, indices, updates))`",
    "zero_ zero_grad": "write `v.assign(pb.zeros_like(v))`; gradients are not kept in variables",
    "initialized_value initializer": "a variable has its value at once; leave it out",
    "path": "write `model.named_variables`: paths are those of attributes",
    "trainable_variables": "write `layer.trainable_variables`",
    "constraint regularizer":
        "write `pb.layers.Dense(3, kernel_regularizer=\"l2\")`; for a constraint call "
        "`v.assign(pb.clip(v, 0, 1))` after each step",
}  # fmt: skip

TAPE = {
    "backward": "write `tape.gradient(loss, variables)`",
    "grad": "write `tape.gradient(loss, variables)`",
    "hessian": "write `pb.hessian(f)(x)`",
    "jvp": "write `pb.jvp`",
}  # fmt: skip
