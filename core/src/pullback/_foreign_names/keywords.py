"""Keyword arguments that are called otherwise here, by the package of what was called."""

from __future__ import annotations

__all__ = ["CALLS", "DEVICES", "KEYWORDS"]

_LAYER = {
    "in_features in_channels input_size": "leave it out: the size comes from the first input",
    "out_features output_size": "write `units=`",
    "out_channels": "write `filters=`",
    "hidden_size": "write `units=`",
    "num_layers": "write a list of layers: one is one layer",
    "batch_first": "leave it out: inputs are (batch, time, features)",
    "bidirectional": "write `pb.layers.Bidirectional(layer)`",
    "bias": "write `use_bias=`",
    "stride": "write `strides=`",
    "dilation_rate": "write `dilation=`",
    "eps": "write `epsilon=`",
    "affine elementwise_affine": "write `center=` and `scale=`",
    "track_running_stats": "leave it out: a call with `training=False` uses the moving averages",
    "p": "write `rate=`",
    "inplace": "leave it out: tensors do not change",
    "num_embeddings": "write `input_dim=`",
    "embedding_dim": "write `output_dim=`",
    "padding_idx": "write `mask_zero=`, with 0 for padding",
    "input_length": "leave it out: sizes come from the first call",
    "embed_dim": "write `head_dim=`: the size of one head, embed_dim divided by the heads",
    "key_dim": "write `head_dim=`",
    "heads n_heads nhead": "write `num_heads=`",
    "num_features num_channels normalized_shape":
        "leave it out: the size comes from the first input",
    "num_groups": "write `groups=`",
    "merge_mode": "write `merge=`",
    "backward_layer": "write `backward=`",
    "go_backwards": "write `reverse=`",
    "return_all_outputs": "write `return_sequences=`",
    "linear_before_reset": "write `reset_after=`",
    "recurrent_activation implementation unroll": "leave it out: the gates are those of the paper",
    "recurrent_dropout": "not here: put `pb.layers.Dropout(0.5)` between the layers",
    "batch_input_shape input_dim": "write `input_shape=`, without the batch axis",
    "weights": "write `v.assign(x)` after the first call",
    "kernel_constraint bias_constraint": "not here: call `v.assign(pb.clip(v, 0, 1))` after a step",
    "bias_regularizer activity_regularizer": "write `layer.add_loss(value)` in `call`",
    "beta_initializer gamma_initializer": "leave it out: scales begin as 1, offsets as 0",
    "autocast": "write `dtype=`",
    "device": "write `with pb.device(\"gpu:0\"):` around the first call",
    "kernel": "write `kernel_size=`",
    "kernel_size": "write `pool_size=`",
    "padding_mode": "not here: write `pb.pad` before the layer",
    "dropout": "put `pb.layers.Dropout(0.5)` after the layer",
    "scale_factor": "write `size=`",
    "mode": "write `interpolation=`",
    "dim": "write `axis=`",
    "alpha": "write `negative_slope=`",
    "dtype_policy": "write `dtype=`",
    "seed": "write `pb.random.seed(0)` before, or an initializer with a generator",
}  # fmt: skip

_OPTIMIZER = {
    "decay_steps total_steps T_max": "write `steps=`",
    "eta_min end_value end_learning_rate": "write `final=`",
    "initial_learning_rate init_value": "write `initial=`",
    "warmup": "write `warmup_steps=`",
    "lr": "write `learning_rate=`",
    "betas": "write `beta1=` and `beta2=`",
    "beta_1 b1": "write `beta1=`",
    "beta_2 b2": "write `beta2=`",
    "eps eps_root": "write `epsilon=`",
    "alpha": "write `rho=`",
    "initial_accumulator_value": "leave it out: accumulators begin as 0",
    "clipnorm": "write `clip_norm=`",
    "clipvalue": "write `clip_value=`",
    "global_clipnorm max_grad_norm": "write `clip_global_norm=`",
    "use_ema ema_momentum": "write `ema_decay=`",
    "weight_decay": "write `decoupled_weight_decay=`, or `pb.optimizers.AdamW(weight_decay=0.01)`",
    "gradient_accumulation_steps": "write `accumulate_steps=`",
    "params": "leave it out: variables come to `minimize` and `apply_gradients`",
    "name": "leave it out: an optimizer has no name",
    "decay": "write a function of the step, such as "
        "`pb.optimizers.schedules.exponential_decay`, for `learning_rate=`",
    "dampening maximize foreach fused capturable differentiable jit_compile":
        "leave it out: there is one way to compute a step",
    "loss_scale_factor": "write `pb.optimizers.LossScale(optimizer)`",
    "exclude_from_weight_decay mask": "write `no_decay=`",
    "momentum_decay": "leave it out",
    "centered": "leave it out: `pb.optimizers.RMSprop` says what there is",
}  # fmt: skip

_TRAINING = {
    "nb_epoch num_epochs n_epochs": "write `epochs=`",
    "batch": "write `batch_size=`",
    "validation": "write `validation_data=`",
    "val_data eval_set": "write `validation_data=`",
    "workers use_multiprocessing max_queue_size":
        "write `pb.data.Dataset.map(f, parallel=4, processes=True)`",
    "return_dict": "leave it out: results are by name",
    "run_eagerly steps_per_execution": "leave it out: ops run one by one",
    "jit_compile": "write `capture=True`",
    "criterion loss_fn": "write `loss=`",
    "metric": "write `metrics=`",
    "opt": "write `optimizer=`",
    "learning_rate lr": "write `model.compile(pb.optimizers.Adam(0.001), loss)`",
    "inputs data": "write `x=`",
    "targets labels": "write `y=`",
}  # fmt: skip

_LOSS = {
    "y_true target": "write `targets`, the first argument",
    "y_pred input": "write `predictions`, the second argument",
    "from_logits": "leave it out: cross entropies take logits; leave out softmax in the model",
    "sample_weight weight": "write `weights=`",
    "ignore_index": "write `weights=`, 0 for the items to ignore",
    "axis dim": "leave it out: classes are on the last axis",
    "size_average": "write `reduction=`",
}  # fmt: skip

_METRIC = {
    "classes n_classes": "write `num_classes=`",
    "top_k": "write `k=`",
    "average": "see `help(pb.metrics.F1Score)` for what there is",
    "from_logits": "leave it out: give the metric probabilities",
    "sparse_y_true sparse_y_pred": "write another metric: `pb.metrics.SparseCategoricalAccuracy()`",
    "task": "write the metric for the task, such as `pb.metrics.BinaryAccuracy()`",
    "dtype": "leave it out: metrics count in float64",
    "thresholds": "write `threshold=`",
    "labels": "write `num_labels=`",
    "num_thresholds": "write `bins=`",
}  # fmt: skip

_DATA = {
    "num_parallel_calls num_workers workers": "write `parallel=`",
    "buffer": "write `buffer_size=`",
    "buffer_size": "write `size=`",
    "drop_last": "write `drop_remainder=`",
    "reshuffle_each_iteration": "leave it out: each pass has another order",
    "deterministic": "leave it out: the order is always that of the data",
    "batch_size": "write `size=`",
    "padded_shapes": "write `shapes=`",
    "padding_values": "write `value=`",
    "pin_memory prefetch_factor": "write `dataset.prefetch(2)`",
    "shuffle": "write `dataset.shuffle()`",
    "collate_fn": "write `dataset.map(f)` before `batch`",
    "cycle_length": "write `cycle=`",
    "block_length": "write `block=`",
    "output_types output_shapes output_signature": "leave it out: elements say what they are",
    "num_shards": "write `shards=`",
    "stride": "write `shift=`",
    "index": "write `shard=`",
}  # fmt: skip

_CALLBACK = {
    "filepath dirpath filename": "write `directory=`",
    "save_best_only save_top_k": "write `keep_best=`",
    "save_freq every_n_train_steps": "write `every_steps=`",
    "save_weights_only": "leave it out: a checkpoint has what resuming needs",
    "verbose": "leave it out",
    "max_to_keep": "write `keep=`",
    "min_lr": "write `min_rate=`",
    "epsilon threshold": "write `min_delta=`",
    "restore_best": "write `restore_best_weights=`",
    "baseline": "leave it out",
    "log_dir": "write `directory=`",
    "histogram_freq": "see `help(pb.callbacks.TensorBoard)`",
}  # fmt: skip

_TENSOR = {
    "dim dims": "write `axis=`",
    "keepdim keep_dims": "write `keepdims=`",
    "axes": "write `axis=`",
    "unbiased": "write `correction=1` for unbiased, `correction=0` for biased",
    "ddof": "write `correction=`",
    "requires_grad": "leave it out: tapes watch variables; `tape.watch(x)` watches a tensor",
    "non_blocking": "leave it out",
    "memory_format order": "leave it out: tensors are in row-major order to their user",
    "out": "leave it out: tensors do not change; use the result",
    "input": "write it as the first argument",
    "decimals": "write `pb.numpy.round(x, 1)`",
    "name": "leave it out: ops have no names",
    "size": "write `shape=`",
    "loc mean": "write `mean=`",
    "std": "write `stddev=`",
    "trainable": "write `pb.Variable(x, trainable=False)`",
    "generator": "write `pb.Generator(0).normal((2, 3))`",
    "minval": "write `low=`",
    "maxval": "write `high=`",
    "a": "write it as the first argument",
    "p": "write `pb.random.categorical(logits)` for chances of your own",
    "replace": "write `pb.random.permutation(10)[:3]` to draw without replacement",
}  # fmt: skip

_VARIABLE = {
    "requires_grad": "write `trainable=`",
    "initial_value data": "write it as the first argument",
    "shape": "write the shape of the value: `pb.Variable(pb.zeros((2, 3)))`",
    "initializer": "write the value: `pb.Variable(pb.zeros((2, 3)))`",
    "constraint": "not here: call `v.assign(pb.clip(v, 0, 1))` after a step",
    "aggregation synchronization validate_shape caching_device": "leave it out",
}  # fmt: skip

_FUNCTION = {
    "jit_compile autograph reduce_retracing": "leave it out: a program is compiled as well as "
        "the backend can",
    "input_signature": "leave it out: there is a program for each shape and dtype; `limit=` says "
        "for how many",
    "static_argnums static_argnames": "leave it out: what decides between programs is compared",
    "donate_argnums fullgraph dynamic mode backend": "leave it out",
}  # fmt: skip

_VMAP = {
    "in_dims": "write `in_axes=`",
    "out_dims": "write `out_axes=`",
    "chunk_size": "write `pb.map(f, xs, batch_size=64)`, which computes some items at once",
    "axis_name spmd_axis_name": "leave it out: a function does not know of the other items",
}  # fmt: skip

_GRAD = {
    "argnum": "write `argnums=`",
    "allow_int holomorphic": "leave it out",
}  # fmt: skip

#: The tables by the package of what was called.
KEYWORDS = {
    "layers": _LAYER,
    "optimizers": _OPTIMIZER,
    "training": _TRAINING,
    "losses": _LOSS,
    "metrics": _METRIC,
    "data": _DATA,
    "callbacks": _CALLBACK,
    "variable": _VARIABLE,
    "graph": _FUNCTION,
    "_batching": _VMAP,
    "_autodiff": _GRAD,
    "": _TENSOR,
}

#: What to write for names of devices.
DEVICES = {
    "cuda mps hip rocm xpu": "a GPU is 'gpu' or 'gpu:0'",
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 bfloat16 float16 float32 float64 "
    "complex64 complex128 float int": 'that is a dtype: write `x.astype("float32")`',
}

#: What to write where the number of arguments is wrong, or where a module is called.
CALLS = {
    "Sequential": "write `pb.Sequential([pb.layers.Dense(10), pb.layers.Dense(3)])`",
    "Flatten": "write `pb.layers.Flatten()`: it keeps the batch axis and flattens the others",
    "LSTM GRU SimpleRNN": "write `pb.layers.LSTM(64)`: the size of the inputs comes from the first",
    "Add": "write `pb.layers.Add()([x, y])`",
    "Model": "write a class: `class Net(pb.Model)` with `call`; layers are set to attributes",
    "zip": "write `pb.data.Dataset.zip(dataset, dataset)`, without a tuple around them",
    "from_tensor_slices": "write `pb.data.Dataset.from_tensor_slices((x, y))`, one tuple",
    "tensor": "`pullback.tensor` is a module; write `pb.asarray(x)`",
    "zeros ones empty": "write `pb.zeros((2, 3))`: the shape is one tuple",
    "variable": "`pullback.variable` is a module; write `pb.Variable(x)`",
}
