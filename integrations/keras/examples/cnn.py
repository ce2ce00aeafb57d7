"""A convolutional network in Keras, on digits of 8 x 8 pixels that scikit-learn has.

KERAS_BACKEND=pullback python cnn.py
"""

import keras
from keras import layers
from sklearn.datasets import load_digits

keras.utils.set_random_seed(0)
images, labels = load_digits(return_X_y=True)
images = images.reshape(-1, 8, 8, 1).astype("float32") / 16

model = keras.Sequential(
    [
        keras.Input((8, 8, 1)),
        layers.Conv2D(16, 3, activation="relu"),
        layers.MaxPooling2D(),
        layers.Flatten(),
        layers.Dropout(0.2),
        layers.Dense(10, activation="softmax"),
    ]
)
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(images[:1437], labels[:1437], epochs=12, batch_size=32, verbose=0)
print("accuracy", model.evaluate(images[1437:], labels[1437:], verbose=0)[1])
