"""A small transformer in Keras: does a sequence have more of one letter than of another?

KERAS_BACKEND=pullback python transformer.py
"""

import keras
import numpy as np
from keras import layers, ops

keras.utils.set_random_seed(0)
rng = np.random.default_rng(0)
letters = rng.integers(0, 8, (1536, 16)).astype("int32")
more = ((letters == 1).sum(1) > (letters == 2).sum(1)).astype("int32")


class Positions(layers.Layer):
    """Adds an embedding of its position to each element of a sequence."""

    def build(self, shape):
        self.table = self.add_weight(shape=shape[1:], initializer="normal", name="table")

    def call(self, x):
        return x + ops.expand_dims(self.table, 0)


tokens = keras.Input((16,), dtype="int32")
x = Positions()(layers.Embedding(8, 32)(tokens))
for _ in range(2):
    y = layers.LayerNormalization()(x)
    x = x + layers.MultiHeadAttention(4, 8)(y, y)
    y = layers.LayerNormalization()(x)
    x = x + layers.Dense(32)(layers.Dense(64, activation="gelu")(y))
outputs = layers.Dense(2)(layers.GlobalAveragePooling1D()(x))
model = keras.Model(tokens, outputs)
model.compile(
    keras.optimizers.Adam(0.003),
    keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
model.fit(letters[:1280], more[:1280], epochs=6, batch_size=64, verbose=0)
print("accuracy", model.evaluate(letters[1280:], more[1280:], verbose=0)[1])
