"""Attributes of layers, models, optimizers, metrics, datasets and callbacks."""

from __future__ import annotations

__all__ = ["CALLBACK", "DATASET", "LAYER", "METRIC", "MODEL", "OPTIMIZER"]

LAYER = {
    "parameters": "write `layer.variables`, `layer.trainable_variables`; their number is "
        "`layer.parameter_count`",
    "named_parameters state_dict": "write `layer.named_variables`",
    "weights get_weights": "write `layer.variables`; `[v.numpy() for v in layer.variables]`",
    "trainable_weights": "write `layer.trainable_variables`",
    "non_trainable_variables non_trainable_weights":
        "write `[v for v in layer.variables if not v.trainable]`",
    "set_weights": "write `v.assign(x)` for each of `layer.variables`",
    "load_state_dict load_weights": "write `pb.checkpoint.load_weights(layer, file)`",
    "save_weights": "write `pb.checkpoint.save_weights(layer, file)`",
    "forward": "write `layer.call`, and call the layer itself: `layer(x)`",
    "children modules named_modules named_children submodules sub_layers":
        "write `layer.sublayers`",
    "register_buffer": "write `layer.add_variable(name, shape, trainable=False)`",
    "register_parameter add_weight": "write `layer.add_variable(name, shape)`",
    "register_forward_hook register_forward_pre_hook register_backward_hook "
    "register_full_backward_hook register_full_backward_pre_hook":
        "not here: override `call`, or call the layer inside another one; docs/not-here.md has a "
        "model of what layers return",
    "requires_grad requires_grad_ freeze": "write `layer.trainable = False`",
    "train training": "write `layer(x, training=True)`; a layer keeps no mode",
    "eval": "write `layer(x)`, or `layer(x, training=False)`; a layer keeps no mode",
    "to cuda cpu gpu": "variables are made where the first input is: `with pb.device(\"gpu:0\"):`, "
        "or give the layer inputs of that device",
    "half double float bfloat16":
        "write `pb.layers.Dense(3, dtype=\"bfloat16\")`, or `pb.layers.policy(\"mixed_bfloat16\")`",
    "zero_grad": "leave it out: gradients are results, and nothing keeps them",
    "apply": "write a loop over `layer.sublayers.values()`",
    "count_params num_parameters": "write `layer.parameter_count`",
    "input_spec": "leave it out: sizes come from the first call",
    "weight": "write `layer.kernel`; a kernel of Dense is (inputs, units)",
    "moving_mean running_mean": "write `layer.named_variables`, which has the moving averages",
    "add_metric add_update": "not here: return values from `train_step`",
    "compute_output_shape compute_output_spec":
        "write `pb.eval_shape(layer, pb.TensorSpec((1, 3)))`",
    "device": "write `v.device` of one of `layer.variables`",
}  # fmt: skip

MODEL = {
    "save": "write `pb.checkpoint.save_model(model, file)`, or "
        "`pb.Checkpoint(model=model).save(path)` with the optimizer",
    "load": "write `pb.checkpoint.load_weights(model, file)`, or `pb.checkpoint.load_model(file)`",
    "to_json to_yaml": "write `model.get_config()`",
    "export onnx":
        "write `pb.function(model).lower(x).save(folder)`; weights are exchanged by "
        "`pb.checkpoint.save_weights(model, file)`",
    "fit_generator": "write `model.fit(dataset)`",
    "predict_on_batch": "write `model(x)`",
    "predict_classes": "write `pb.argmax(model.predict(x), axis=-1)`",
    "test": "write `model.evaluate(x, y)`",
    "metrics metrics_names": "write `model.compiled.named_metrics`",
    "loss": "write `model.compiled.losses`; those that layers add are `model.losses`",
    "history": "write `history = model.fit(x, y)`: fit returns it",
    "compute_loss": "write `model.compiled.loss_of`",
    "make_train_function": "not here: override `train_step`",
    "pop": "write `del model.layers[-1]`",
    "append": "write `model.add(layer)`",
    "input_shape output_shape": "write `model.summary()`, which has the shapes of the first call",
    "configure_optimizers training_step":
        "write `model.compile(optimizer)`, and override `train_step`",
    "validation_step": "override `test_step`",
    "share_memory": "not here: a process has its own variables",
    "load_from_checkpoint": "write `pb.Checkpoint(model=model).restore(path)`",
    "reset_metrics": "leave it out: fit and evaluate begin with new metrics",
    "optimizers": "keep them in attributes, and override `train_step`",
    "run_eagerly": "leave it out: everything runs eagerly",
}  # fmt: skip

OPTIMIZER = {
    "lr rate": "write `optimizer.learning_rate`",
    "param_groups": "write `optimizer.learning_rate`; rates of their own for some variables are "
        "`pb.optimizers.Adam(0.001, rate_scale={v: 0.1})`",
    "add_param_group": "write `pb.optimizers.Adam(0.001, rate_scale={v: 0.1})`",
    "zero_grad": "leave it out: gradients are results, and nothing keeps them",
    "iterations": "write `optimizer.step`",
    "state_dict get_weights":
        "write `optimizer.variables`; `pb.Checkpoint(optimizer=optimizer)` saves them",
    "load_state_dict set_weights": "write `pb.Checkpoint(optimizer=optimizer).restore(path)`",
    "state slots get_slot get_slot_names": "write `optimizer.slot(v, name)`",
    "weights": "write `optimizer.variables`",
    "apply": "write `optimizer.apply_gradients(zip(gradients, variables))`",
    "compute_gradients get_gradients": "write `tape.gradient(loss, variables)`",
    "build": "leave it out: slots are made at the first step",
    "init": "leave it out: slots are made at the first step",
    "defaults": "write `optimizer.settings`",
    "clipnorm": "write `optimizer.clip_norm`",
    "clipvalue": "write `optimizer.clip_value`",
    "global_clipnorm": "write `optimizer.clip_global_norm`",
    "weight_decay": "write `optimizer.settings`",
    "exclude_from_weight_decay": "write `pb.optimizers.AdamW(no_decay=lambda v: v.ndim < 2)`",
    "finalize_variable_values": "write `with optimizer.averaged():`",
    "scale_loss": "write `optimizer.scaled(loss)`",
    "name": "an optimizer has no name; its class is `type(optimizer).__name__`",
}  # fmt: skip

METRIC = {
    "update_state":
        "write `metric(targets, predictions)`, or `metric.update(targets, predictions)`",
    "reset_state reset_states": "write `metric.reset()`",
    "compute": "write `metric.result()`",
    "value": "write `metric.result()`",
    "variables add_weight": "a metric keeps plain attributes, named in `metric.initial`",
    "merge_state": "write `metric.checkpoint_state()` and `metric.restore_state(state)`",
    "numpy item": "write `float(metric.result())`",
}  # fmt: skip

DATASET = {
    "apply": "write `f(dataset)`",
    "cardinality": "write `len(dataset)`",
    "as_numpy_iterator": "write `[x.numpy() for x in dataset]`",
    "make_one_shot_iterator": "write `iter(dataset)`",
    "flat_map": "write `dataset.interleave(f)`",
    "padded_shape": "write `dataset.padded_batch(32)`",
    "from_tensors": "write `pb.data.Dataset.from_iterable([x])`",
    "from_tensor_slice": "write `pb.data.Dataset.from_tensor_slices(x)`",
    "list_files": "write `pb.data.Dataset.from_files`",
    "reduce": "write a loop: `for x in dataset:`",
    "collate collate_fn": "write `dataset.batch(32)`, or `dataset.map(f)` before it",
    "element_spec shape": "write `next(iter(dataset))`, and look at it",
    "scan group_by_window rejection_resample":
        "not here: write `pb.data.Dataset.from_generator(f)`",
    "save": "write `dataset.cache(path)`",
    "with_options options":
        "not here: `dataset.map(f, parallel=4)` and `dataset.prefetch(2)` take numbers",
    "random": "write `pb.random.uniform` in `dataset.map(f, seed=0)`",
    "sample_from_datasets": "write `dataset.interleave(f)`",
    "get_single_element": "write `next(iter(dataset))`",
    "rebatch": "write `dataset.unbatch().batch(32)`",
    "ragged_batch": "write `dataset.padded_batch(32)`",
    "num_workers": "write `dataset.map(f, parallel=4)`",
    "batch_size": "a dataset yields what its stages make; write `dataset.batch(32)`",
    "unique": "write `dataset.filter(f)`",
    "join": "write `pb.data.Dataset.zip(dataset, dataset)`",
    "chain": "write `dataset.concatenate(dataset)`",
    "to_list": "write `list(dataset)`",
}  # fmt: skip

CALLBACK = {
    "params": "write `callback.run`: its epochs and steps",
    "set_model": "leave it out: `callback.model` is there while fit runs",
    "validation_data": "write `callback.run.validation`",
    "stop_training": "write `callback.model.stop_training = True`",
    "on_batch_end": "write `callback.on_train_batch_end`",
    "on_batch_begin": "write `callback.on_train_batch_begin`",
    "on_validation_end": "write `callback.on_test_end`",
    "trainer": "write `callback.run`, `callback.model`",
}  # fmt: skip
