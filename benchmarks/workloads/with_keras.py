"""ResNet-50 in Keras, as its users write it: a functional model, `compile`, `train_on_batch`.

Its backend is what `KERAS_BACKEND` names.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import layers

from . import shared
from .shared import Array, Block, Builder, Weights, repeat


def builders(compiled: bool) -> dict[str, Builder]:
    assert compiled
    return {
        "infer_resnet50_b1": lambda: infer(resnet50(), shared.images(1, 224, 3)),
        "infer_resnet50_b8": lambda: infer(resnet50(), shared.images(8, 224, 3)),
        "resnet50": lambda: train(resnet50(), shared.images(4, 224, 3)),
    }


def train(model: Any, data: tuple[Array, Array]) -> Block:
    model.compile(
        keras.optimizers.SGD(shared.MOMENTUM["rate"], shared.MOMENTUM["momentum"]),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    # The loss of a batch, not its mean since the last epoch.
    return repeat(lambda: (model.reset_metrics(), float(model.train_on_batch(*data)))[1])


def infer(model: Any, data: tuple[Array, Array]) -> Block:
    return repeat(lambda: model.predict_on_batch(data[0]))


def resnet50() -> Any:
    """The model with the weights of all peers."""
    weights = shared.resnet50_weights()
    x = image = layers.Input((224, 224, 3))
    x = layers.ReLU()(normalized(weights, "stem", x, 2))
    # Zeros are as good as no border here: everything is 0 or more.
    x = layers.MaxPooling2D(3, 2)(layers.ZeroPadding2D(1)(x))
    for name, inputs, size, stride in shared.bottlenecks():
        y = layers.ReLU()(normalized(weights, f"{name}.narrow", x))
        y = layers.ReLU()(normalized(weights, f"{name}.middle", y, stride))
        y = normalized(weights, f"{name}.wide", y)
        if inputs != 4 * size:
            x = normalized(weights, f"{name}.shortcut", x, stride)
        x = layers.ReLU()(layers.Add()([y, x]))
    x = layers.GlobalAveragePooling2D()(x)
    dense = layers.Dense(weights["dense.bias"].size)
    model = keras.Model(image, dense(x))
    dense.set_weights([weights["dense.kernel"], weights["dense.bias"]])
    return model


def normalized(weights: Weights, name: str, x: Any, stride: int = 1) -> Any:
    """A convolution and a batch normalization."""
    kernel = weights[f"{name}.kernel"]
    window, filters = kernel.shape[0], kernel.shape[-1]
    if window > 1:
        x = layers.ZeroPadding2D(window // 2)(x)
    conv = layers.Conv2D(filters, window, stride, use_bias=False)
    norm = layers.BatchNormalization(
        momentum=shared.BATCH_NORM_MOMENTUM, epsilon=shared.BATCH_NORM_EPSILON
    )
    x = norm(conv(x))
    conv.set_weights([kernel])
    norm.set_weights(
        [weights[f"{name}.{part}"] for part in ("scale", "offset", "mean", "variance")]
    )
    return x
