"""Layers, training, data, summaries and checkpoints by the names of TensorFlow's eager guides."""

from __future__ import annotations

import itertools
import os
import struct

import numpy as np
import pytest

import pullback as pb
import pullback.compat.tensorflow as tf

tfe = tf.contrib.eager
RNG = np.random.default_rng(4)


@pytest.fixture(autouse=True, params=["default", "minimal"])
def _here(request, minimal):
    """Everything on the default device, and on the smallest of all backends."""
    tf.set_random_seed(1)
    tf.reset_default_graph()
    with pb.default_device() if request.param == "default" else minimal:
        yield


def digits(count=64):
    """Images in which the place of a bright row says the class."""
    labels = RNG.integers(0, 3, count)
    images = RNG.normal(0, 0.1, (count, 12, 12, 1)).astype(np.float32)
    images[np.arange(count), 4 * labels] += 1
    return images, labels


class TestLayers:
    def test_a_layer(self):
        layer = tf.keras.layers.Dense(10, input_shape=(None, 5))
        assert layer(tf.zeros([10, 5])).shape == (10, 10)
        assert [v.shape for v in layer.variables] == [(5, 10), (10,)]
        assert (layer.kernel.shape, layer.bias.shape) == ((5, 10), (10,))

    def test_own_layer(self):
        class MyDenseLayer(tf.keras.layers.Layer):
            def __init__(self, num_outputs):
                super().__init__()
                self.num_outputs = num_outputs

            def build(self, input_shape):
                self.kernel = self.add_variable(
                    "kernel", shape=[input_shape[-1].value, self.num_outputs]
                )

            def call(self, input):
                return tf.matmul(input, self.kernel)

        layer = MyDenseLayer(10)
        assert layer(tf.zeros([10, 5])).shape == (10, 10)
        assert [v.shape for v in layer.trainable_variables] == [(5, 10)]
        assert layer.weights == layer.trainable_weights

    def test_a_weight_with_all_its_arguments(self):
        class Scale(tf.keras.layers.Layer):
            def build(self, input_shape):
                assert input_shape.as_list() == [2, 3]
                twos = tf.keras.initializers.Constant(2.0)
                self.factor = self.add_weight(
                    "factor", input_shape[-1:], tf.float32, twos, trainable=False
                )

            def call(self, x):
                return x * self.factor

        layer = Scale(name="scale")
        assert layer(tf.ones([2, 3])).tolist() == [[2.0] * 3] * 2
        assert layer.name == "scale"
        assert not layer.trainable_variables

    @pytest.mark.parametrize(
        ("layer", "shape", "result"),
        [
            (
                lambda: tf.keras.layers.Conv2D(8, [3, 3], activation="relu"),
                (2, 8, 8, 3),
                (2, 6, 6, 8),
            ),
            (
                lambda: tf.layers.Conv2D(8, 5, (2, 2), "same", name="conv/1"),
                (2, 8, 8, 3),
                (2, 4, 4, 8),
            ),
            (
                lambda: tf.layers.Conv2D(8, 3, 1, "VALID", "channels_first"),
                (2, 3, 8, 8),
                (2, 8, 6, 6),
            ),
            (lambda: tf.layers.Conv1D(4, 3, dilation_rate=2), (2, 8, 3), (2, 4, 4)),
            (lambda: tf.layers.Conv2DTranspose(4, 2, strides=2), (1, 3, 3, 2), (1, 6, 6, 4)),
            (lambda: tf.layers.SeparableConv2D(4, 3), (1, 5, 5, 2), (1, 3, 3, 4)),
            (
                lambda: tf.layers.MaxPooling2D((2, 2), (2, 2), padding="same"),
                (1, 5, 5, 2),
                (1, 3, 3, 2),
            ),
            (lambda: tf.keras.layers.MaxPool2D(), (1, 4, 4, 2), (1, 2, 2, 2)),
            (lambda: tf.keras.layers.AveragePooling2D(pool_size=2), (1, 4, 4, 2), (1, 2, 2, 2)),
            (lambda: tf.keras.layers.GlobalAveragePooling2D(), (1, 4, 4, 2), (1, 2)),
            (lambda: tf.keras.layers.BatchNormalization(epsilon=1e-5), (2, 4), (2, 4)),
            (lambda: tf.layers.Dropout(0.4), (2, 4), (2, 4)),
            (lambda: tf.layers.Flatten(), (2, 4, 3), (2, 12)),
            (lambda: tf.keras.layers.Reshape((6, 2)), (2, 4, 3), (2, 6, 2)),
            (lambda: tf.keras.layers.Permute((2, 1)), (2, 4, 3), (2, 3, 4)),
            (lambda: tf.keras.layers.ZeroPadding2D((3, 3)), (1, 2, 2, 1), (1, 8, 8, 1)),
            (lambda: tf.keras.layers.UpSampling2D(2), (1, 2, 2, 1), (1, 4, 4, 1)),
            (lambda: tf.keras.layers.Activation(tf.nn.relu), (2, 3), (2, 3)),
            (lambda: tf.keras.layers.LeakyReLU(0.1), (2, 3), (2, 3)),
            (lambda: tf.keras.layers.Softmax(), (2, 3), (2, 3)),
            (lambda: tf.keras.layers.LSTM(5, return_sequences=True), (2, 3, 4), (2, 3, 5)),
            (lambda: tf.keras.layers.GRU(5, activation=tf.tanh), (2, 3, 4), (2, 5)),
            (lambda: tf.keras.layers.Bidirectional(tf.keras.layers.LSTM(5)), (2, 3, 4), (2, 10)),
            (lambda: tf.keras.layers.Lambda(lambda x: x * 2), (2, 3), (2, 3)),
        ],
        ids=lambda value: value.__code__.co_names[-1] if callable(value) else "",
    )
    def test_kinds(self, layer, shape, result):
        assert layer()(tf.zeros(shape)).shape == result

    def test_embedding(self):
        layer = tf.keras.layers.Embedding(10, 4, batch_input_shape=[2, None])
        assert layer(tf.constant([[1, 2, 3]])).shape == (1, 3, 4)

    def test_merging(self):
        x = tf.ones([2, 3])
        assert tf.keras.layers.Add()([x, x]).tolist() == (2 * x).tolist()
        assert tf.keras.layers.Concatenate()([x, x]).shape == (2, 6)

    def test_arguments_that_have_no_counterpart(self):
        with pytest.raises(TypeError, match="no kernel_constraint"):
            tf.layers.Dense(3, kernel_constraint=abs)
        assert tf.layers.Dense(3, kernel_constraint=None).units == 3
        assert tf.keras.layers.LSTM(3, tf.nn.tanh, recurrent_activation=tf.sigmoid).units == 3
        with pytest.raises(TypeError, match="activation is tanh"):
            tf.keras.layers.LSTM(3, activation="relu")
        with pytest.raises(TypeError, match="Dropout layer before it"):
            tf.keras.layers.GRU(3, dropout=0.5)
        with pytest.raises(TypeError, match="got units twice"):
            tf.layers.Dense(3, units=4)
        with pytest.raises(TypeError, match="by position"):
            tf.keras.layers.Reshape((1,), 2)

    def test_initializers(self):
        kernels = {}
        for name in ("he_normal", "RandomNormal", "glorot_uniform", "zeros", "Ones", "orthogonal"):
            layer = tf.layers.Dense(3, kernel_initializer=name, input_shape=(3,))
            kernels[name] = layer.kernel.numpy()
        assert kernels["zeros"].tolist() == np.zeros((3, 3)).tolist()
        assert kernels["Ones"].tolist() == np.ones((3, 3)).tolist()
        assert len({kernel.tobytes() for kernel in kernels.values()}) == 6
        layer = tf.layers.Dense(
            2,
            kernel_initializer=tf.constant_initializer(3.0),
            bias_initializer=tf.ones_initializer,
            input_shape=(1,),
        )
        assert layer(tf.ones([1, 1])).tolist() == [[4.0, 4.0]]
        seeded = [tf.random_normal_initializer(seed=2)((3,), tf.float32).tolist() for _ in "ab"]
        assert seeded[0] == seeded[1]

    def test_regularizers(self):
        layer = tf.keras.layers.Dense(
            2,
            kernel_initializer="ones",
            kernel_regularizer=tf.keras.regularizers.l2(l=0.5),
            input_shape=(3,),
        )
        assert [float(loss) for loss in layer.losses] == [3.0]
        assert float(tf.keras.regularizers.l1(0.1)(layer.kernel)) == pytest.approx(0.6)

    def test_functions_of_nn(self):
        x = tf.constant([[1.0, -2.0, 3.0]])
        assert tf.nn.relu(x).tolist() == [[1.0, 0.0, 3.0]]
        assert tf.nn.leaky_relu(x).tolist() == [[1.0, pytest.approx(-0.4), 3.0]]
        assert float(tf.reduce_sum(tf.nn.softmax(x))) == pytest.approx(1)
        assert tf.nn.dropout(x, keep_prob=1.0).tolist() == x.tolist()
        images = tf.ones([1, 4, 4, 1])
        y = tf.nn.conv2d(images, tf.ones([3, 3, 1, 2]), strides=[1, 1, 1, 1], padding="SAME")
        assert y.shape == (1, 4, 4, 2)
        pooled = tf.nn.max_pool(y, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="SAME")
        assert pooled.shape == (1, 2, 2, 2)
        assert tf.nn.bias_add(pooled, tf.ones([2])).shape == (1, 2, 2, 2)
        mean, variance = tf.nn.moments(x, axes=[0, 1])
        normal = tf.nn.batch_normalization(x, mean, variance, None, None, 1e-6)
        assert float(tf.reduce_mean(normal)) == pytest.approx(0, abs=1e-6)
        assert float(tf.nn.l2_loss(tf.constant([3.0, 4.0]))) == 12.5
        assert tf.nn.l2_normalize([3.0, 4.0], 0).tolist() == pytest.approx([0.6, 0.8])
        values, places = tf.nn.top_k([1.0, 3.0, 2.0], 2)
        assert (values.tolist(), places.tolist()) == ([3.0, 2.0], [1, 2])
        assert tf.nn.in_top_k([[0.1, 0.9], [0.9, 0.1]], [1, 1], 1).tolist() == [True, False]
        labels = [[0.0, 1.0]]
        loss = tf.nn.softmax_cross_entropy_with_logits(labels=labels, logits=[[0.0, 0.0]])
        sparse = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=[1], logits=[[0.0, 0.0]])
        assert loss.tolist() == sparse.tolist() == [pytest.approx(np.log(2))]

    @pytest.mark.parametrize("cell", ["BasicRNNCell", "BasicLSTMCell", "GRUCell"])
    def test_recurrent_cells(self, cell):
        cell = getattr(tf.nn.rnn_cell, cell)(5)
        x = tf.random_normal([2, 3, 4])
        outputs, state = tf.nn.dynamic_rnn(cell, x, dtype=tf.float32)
        assert outputs.shape == (2, 3, 5)
        step = cell.zero_state(2, tf.float32)
        for one in tf.unstack(x, axis=1):
            output, step = cell(one, step)
        assert output.tolist() == outputs[:, -1].tolist()
        last = state.h if hasattr(state, "h") else state
        assert last.tolist() == output.tolist()
        pairs = tfe.implicit_gradients(lambda: tf.reduce_sum(tf.nn.dynamic_rnn(cell, x)[0]))()
        assert len(pairs) == len(cell.variables)

    def test_lstm_cell_is_the_lstm_op(self):
        cell = tf.nn.rnn_cell.LSTMCell(5)
        x = tf.random_normal([2, 3, 4])
        outputs, _ = tf.nn.dynamic_rnn(cell, x)
        # Columns here are i, j, f, o; those of the op i, f, g, o, without a forget bias beside.
        i, j, f, o = tf.split(cell.kernel, 4, axis=1)
        kernel = tf.concat([i, f, j, o], 1)
        bias = tf.concat([tf.zeros([5]), tf.ones([5]), tf.zeros([10])], 0)
        zeros = tf.zeros([2, 5])
        expected, *_ = pb.lstm(x, zeros, zeros, kernel[:4], kernel[4:], bias)
        np.testing.assert_allclose(outputs, expected, rtol=1e-5, atol=1e-6)


class MNISTModel(tfe.Network):
    def __init__(self):
        super().__init__()
        self.layer1 = self.track_layer(tf.layers.Dense(units=10))
        self.layer2 = self.track_layer(tf.layers.Dense(units=10))

    def call(self, input):
        result = self.layer1(input)
        return self.layer2(self.layer2(result))


class Line(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.W = tfe.Variable(5.0, name="weight")
        self.B = tfe.Variable(10.0, name="bias")

    def call(self, inputs):
        return inputs * self.W + self.B


class TestModels:
    def test_sequential(self):
        model = tf.keras.Sequential(
            [tf.keras.layers.Dense(10, input_shape=(784,)), tf.keras.layers.Dense(10)]
        )
        assert len(model.variables) == 4
        assert model(tf.zeros([1, 1, 784])).shape == (1, 1, 10)
        grown = tf.keras.Sequential()
        grown.add(tf.keras.layers.Dense(3))
        assert grown(tf.zeros([2, 4])).shape == (2, 3)

    def test_network(self):
        model = MNISTModel()
        assert model(tf.zeros([1, 1, 784])).shape == (1, 1, 10)
        assert len(model.variables) == 4
        assert model.layers == [model.layer1, model.layer2]
        assert model.get_layer(index=1) is model.layer2
        with pytest.raises(ValueError, match="tracks no layer"):
            model.get_layer("third")

        class ThreeLayerMNISTModel(tfe.Network):
            def __init__(self):
                super().__init__()
                self.a = self.track_layer(MNISTModel())
                self.b = self.track_layer(tf.layers.Dense(units=10))

            def call(self, input):
                return self.b(self.a(input))

        assert ThreeLayerMNISTModel()(tf.zeros([2, 784])).shape == (2, 10)
        steps = tfe.Sequential([tf.layers.Dense(4), tf.nn.relu, tf.layers.Dense(2)])
        assert steps(tf.zeros([3, 5])).shape == (3, 2)

    def test_resnet_block(self):
        class ResnetIdentityBlock(tf.keras.Model):
            def __init__(self, kernel_size, filters):
                super().__init__(name="")
                filters1, filters2, filters3 = filters
                self.conv2a = tf.keras.layers.Conv2D(filters1, (1, 1))
                self.bn2a = tf.keras.layers.BatchNormalization()
                self.conv2b = tf.keras.layers.Conv2D(filters2, kernel_size, padding="same")
                self.bn2b = tf.keras.layers.BatchNormalization()
                self.conv2c = tf.keras.layers.Conv2D(filters3, (1, 1))
                self.bn2c = tf.keras.layers.BatchNormalization()

            def call(self, input_tensor, training=False):
                x = tf.nn.relu(self.bn2a(self.conv2a(input_tensor), training=training))
                x = tf.nn.relu(self.bn2b(self.conv2b(x), training=training))
                x = self.bn2c(self.conv2c(x), training=training)
                x += input_tensor
                return tf.nn.relu(x)

        block = ResnetIdentityBlock(1, [1, 2, 3])
        assert block(tf.zeros([1, 2, 3, 3])).shape == (1, 2, 3, 3)
        assert len(block.trainable_variables) == 12
        assert len(block.layers) == 6
        block(tf.ones([2, 2, 3, 3]), training=True)
        assert float(tf.reduce_sum(block.bn2a.moving_mean)) != 0

    def test_text_model(self):
        class TextModel(tf.keras.Model):
            def __init__(self, vocab_size, embedding_dim, units):
                super().__init__()
                self.embedding = tf.keras.layers.Embedding(vocab_size, embedding_dim)
                self.gru = tf.keras.layers.GRU(
                    units,
                    return_sequences=True,
                    recurrent_activation="sigmoid",
                    recurrent_initializer="glorot_uniform",
                    stateful=True,
                )
                self.fc = tf.keras.layers.Dense(vocab_size)

            def call(self, x):
                return self.fc(self.gru(self.embedding(x)))

        model = TextModel(7, 4, 8)
        model.build(tf.TensorShape([2, None]))
        first = model(tf.constant([[1, 2, 3], [3, 2, 1]]))
        assert first.shape == (2, 3, 7)
        assert model(tf.constant([[1, 2, 3], [3, 2, 1]])).tolist() != first.tolist()
        model.reset_states()
        assert model(tf.constant([[1, 2, 3], [3, 2, 1]])).tolist() == first.tolist()


class TestTraining:
    def test_images(self):
        images, labels = digits()
        dataset = tf.data.Dataset.from_tensor_slices(
            (tf.cast(images, tf.float32), tf.cast(labels, tf.int64))
        )
        dataset = dataset.shuffle(1000).batch(32)
        model = tf.keras.Sequential(
            [
                tf.keras.layers.Conv2D(8, [3, 3], activation="relu", input_shape=(None, None, 1)),
                tf.keras.layers.Flatten(),
                tf.keras.layers.Dense(3),
            ]
        )
        for images, _ in dataset.take(1):
            assert model(images[0:1]).numpy().shape == (1, 3)
        optimizer = tf.train.AdamOptimizer(0.01)
        history = []
        for _batch, (images, labels) in enumerate(dataset.repeat(10).take(16)):
            with tf.GradientTape() as tape:
                logits = model(images, training=True)
                loss_value = tf.losses.sparse_softmax_cross_entropy(labels, logits)
            history.append(loss_value.numpy())
            grads = tape.gradient(loss_value, model.trainable_variables)
            optimizer.apply_gradients(
                zip(grads, model.trainable_variables, strict=True),
                global_step=tf.train.get_or_create_global_step(),
            )
        assert len(history) == 16
        assert history[-1] < 0.3 * history[0]
        assert int(tf.train.get_global_step()) == 16

    def test_linear_fit_by_gradients_function(self):
        inputs = tf.random_normal([1000])
        outputs = inputs * 3 + 2 + tf.random_normal([1000])

        def loss(weight, bias):
            error = inputs * weight + bias - outputs
            return tf.reduce_mean(tf.square(error))

        grad = tfe.gradients_function(loss)
        weight, bias = 5.0, 10.0
        assert 60 < loss(weight, bias).numpy() < 80
        for _ in range(200):
            weight_grad, bias_grad = grad(weight, bias)
            weight -= weight_grad * 0.01
            bias -= bias_grad * 0.01
        assert f"{weight.numpy():.0f} {bias.numpy():.0f}" == "3 2"

    def test_linear_fit_by_a_model(self):
        training_inputs = tf.random_normal([2000])
        training_outputs = training_inputs * 3 + 2 + tf.random_normal([2000])

        def loss(model, inputs, targets):
            error = model(inputs) - targets
            return tf.reduce_mean(tf.square(error))

        model, other = Line(), Line()
        grad = tfe.implicit_gradients(loss)
        optimizer = tf.train.GradientDescentOptimizer(learning_rate=0.01)
        second = tf.train.GradientDescentOptimizer(0.01)
        step = tf.train.create_global_step()
        for _ in range(300):
            optimizer.apply_gradients(grad(model, training_inputs, training_outputs), step)
            second.minimize(
                lambda: loss(other, training_inputs, training_outputs), global_step=step
            )
        assert f"{loss(model, training_inputs, training_outputs):.1f}" in ("0.9", "1.0", "1.1")
        assert float(model.W) == pytest.approx(3, abs=0.1)
        assert float(model.B) == pytest.approx(2, abs=0.1)
        assert [v.tolist() for v in model.variables] == [v.tolist() for v in other.variables]
        assert int(step) == 600

    def test_a_vector_of_losses(self):
        model, optimizer = MNISTModel(), tf.train.GradientDescentOptimizer(learning_rate=0.001)

        def loss_function(model, x, y):
            y_ = model(x)
            return tf.nn.softmax_cross_entropy_with_logits(labels=y, logits=y_)

        x = tf.random_normal([32, 784])
        y = tf.one_hot(tf.random_uniform([32], 0, 10, tf.int32), 10)
        dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(8)
        before = tf.reduce_sum(loss_function(model, x, y))
        for xs, ys in tfe.Iterator(dataset):
            optimizer.apply_gradients(tfe.implicit_gradients(loss_function)(model, xs, ys))
        for xs, ys in tfe.Iterator(dataset):
            optimizer.minimize(lambda xs=xs, ys=ys: loss_function(model, xs, ys))
        assert tf.reduce_sum(loss_function(model, x, y)) < before

    @pytest.mark.parametrize(
        "make",
        [
            lambda: tf.train.GradientDescentOptimizer(0.1),
            lambda: tf.train.MomentumOptimizer(0.02, momentum=0.9, use_nesterov=True),
            lambda: tf.train.AdamOptimizer(learning_rate=0.5),
            lambda: tf.train.AdagradOptimizer(1.0),
            lambda: tf.train.AdadeltaOptimizer(10.0),
            lambda: tf.train.RMSPropOptimizer(0.1),
            lambda: tf.train.AdamOptimizer(
                tf.train.exponential_decay(0.5, tf.train.get_or_create_global_step(), 10, 0.9)
            ),
        ],
    )
    def test_optimizers(self, make):
        optimizer, v = make(), tf.Variable([3.0, -2.0])
        for _ in range(30):
            pairs = optimizer.compute_gradients(lambda: tf.reduce_sum(v * v))
            optimizer.apply_gradients(pairs, tf.train.get_or_create_global_step())
        assert float(tf.reduce_sum(v * v)) < 12
        assert len(optimizer.variables()) == len(optimizer.get_slot_names())
        assert tfe.get_optimizer_variables(optimizer) == optimizer.variables()
        assert optimizer.step == int(tf.train.get_global_step()) == 30

    def test_learning_rates(self):
        step = tf.train.get_or_create_global_step()
        rates = {
            "exponential": tf.train.exponential_decay(1.0, step, 10, 0.5),
            "staircase": tf.train.exponential_decay(1.0, step, 10, 0.5, staircase=True),
            "piecewise": tf.train.piecewise_constant(step, [10, 20], [1.0, 0.1, 0.01]),
            "polynomial": tf.train.polynomial_decay(1.0, step, 20, 0.0),
            "cosine": tf.train.cosine_decay(1.0, step, 20),
            "inverse": tf.train.inverse_time_decay(1.0, step, 10, 1.0),
            "natural": tf.train.natural_exp_decay(1.0, step, 10, 1.0),
        }
        assert {name: rate() for name, rate in rates.items()} == dict.fromkeys(rates, 1.0)
        step.assign(10)
        assert rates["piecewise"]() == 1.0  # TensorFlow changes it behind the boundary
        assert rates["exponential"]() == rates["staircase"]() == 0.5
        assert rates["polynomial"]() == rates["cosine"]() == pytest.approx(0.5)
        assert rates["inverse"]() == 0.5
        assert rates["natural"]() == pytest.approx(np.exp(-1))
        step.assign(15)
        assert rates["staircase"]() == 0.5
        assert rates["piecewise"]() == 0.1

    def test_losses(self):
        labels, logits = [[0.0, 1.0], [1.0, 0.0]], [[0.0, 1.0], [0.0, 2.0]]
        each = [np.log(1 + np.exp(-1)), np.log(1 + np.exp(2))]
        loss = tf.losses.softmax_cross_entropy(labels, logits)
        assert float(loss) == pytest.approx(np.mean(each))
        sparse = tf.losses.sparse_softmax_cross_entropy(labels=[[1], [0]], logits=logits)
        assert float(sparse) == pytest.approx(np.mean(each))
        # A mean over the weights that are not 0.
        weighted = tf.losses.softmax_cross_entropy(labels, logits, weights=[2.0, 0.0])
        assert float(weighted) == pytest.approx(2 * each[0])
        total = tf.losses.softmax_cross_entropy(labels, logits, reduction=tf.losses.Reduction.SUM)
        assert float(total) == pytest.approx(sum(each))
        none = tf.losses.sparse_softmax_cross_entropy(
            [1, 0], logits, reduction=tf.losses.Reduction.NONE
        )
        assert none.tolist() == pytest.approx(each)
        assert float(tf.losses.mean_squared_error([1, 2], [2.0, 4.0])) == 2.5
        assert float(tf.losses.absolute_difference([1.0], predictions=[3.0])) == 2.0
        assert float(tf.losses.huber_loss([0.0], [3.0], delta=1.0)) == 2.5
        assert float(tf.losses.hinge_loss([0.0, 1.0], [-0.5, 3.0])) == 0.25
        assert float(tf.losses.sigmoid_cross_entropy([1.0], [0.0])) == pytest.approx(np.log(2))
        assert float(tf.losses.log_loss([1.0], [0.5])) == pytest.approx(np.log(2), abs=1e-5)
        assert float(tf.losses.cosine_distance([[1.0, 0.0]], [[0.0, 1.0]], axis=1)) == 1.0
        probable = tf.keras.losses.sparse_categorical_crossentropy([1], [[0.25, 0.75]])
        assert probable.tolist() == [pytest.approx(-np.log(0.75))]
        binary = tf.keras.losses.binary_crossentropy([[1.0]], [[0.75]])
        assert binary.tolist() == [pytest.approx(-np.log(0.75))]
        assert tf.keras.utils.to_categorical([1], 3).tolist() == [[0.0, 1.0, 0.0]]

    def test_metrics(self):
        m = tfe.metrics.Mean("loss")
        m(0)
        m(5)
        assert m.result().numpy() == 2.5
        m([8, 9])
        assert m.result().numpy() == 5.5
        accuracy = tfe.metrics.Accuracy("accuracy")
        accuracy(tf.argmax([[0.0, 1.0], [1.0, 0.0]], axis=1, output_type=tf.int64), [1, 1])
        assert f"{accuracy.result():.1%}" == "50.0%"
        # As the guides name them.
        accuracy(labels=[1, 1], predictions=[1, 1], weights=[1.0, 0.0])
        assert float(accuracy.result()) == pytest.approx(2 / 3)
        for kind, labels in (("Categorical", [[0, 1]]), ("Sparse", [1]), ("Binary", [[0, 1]])):
            metric = getattr(tfe.metrics, f"{kind}Accuracy")()
            metric(labels=labels, predictions=[[0.2, 0.8]])
            assert float(metric.result()) == 1.0
        sparse = tfe.metrics.SparseAccuracy()
        sparse([1, 1], [[0.0, 1.0], [1.0, 0.0]])
        assert float(sparse.result()) == 0.5
        sparse.init_variables()
        assert float(sparse.result()) == 0.0


class TestData:
    def test_stages(self):
        tensors = tf.data.Dataset.from_tensor_slices([1, 2, 3, 4, 5, 6])
        tensors = tensors.map(tf.square, num_parallel_calls=2).shuffle(2).batch(2)
        seen = [batch.tolist() for batch in tensors]
        assert sorted(itertools.chain(*seen)) == [1, 4, 9, 16, 25, 36]
        pairs = tf.data.Dataset.zip((tf.data.Dataset.range(3), tf.data.Dataset.range(3, 6)))
        assert [(int(a), int(b)) for a, b in pairs.prefetch(1)] == [(0, 3), (1, 4), (2, 5)]
        repeated = tf.data.Dataset.range(2).repeat(2).filter(lambda x: x > 0)
        assert [int(x) for x in repeated] == [1, 1]
        whole = tf.data.Dataset.range(5).batch(2, drop_remainder=True)
        assert [x.tolist() for x in whole] == [[0, 1], [2, 3]]
        applied = tf.data.Dataset.range(5).apply(tf.contrib.data.batch_and_drop_remainder(2))
        assert len(list(applied)) == 2
        made = tf.data.Dataset.from_generator(lambda: iter([1, 2]), tf.int32)
        assert [int(x) for x in made] == [1, 2]
        flat = tf.data.Dataset.range(1, 3).flat_map(tf.data.Dataset.range)
        assert [int(x) for x in flat] == [0, 0, 1]

    def test_iterators(self):
        iterator = tfe.Iterator(tf.data.Dataset.range(2))
        assert [int(iterator.next()), int(next(iterator))] == [0, 1]
        with pytest.raises(tf.errors.OutOfRangeError):
            iterator.next()
        assert int(tf.data.Dataset.range(2).make_one_shot_iterator().next()) == 0

    def test_lines_of_a_file(self, tmp_path):
        filename = tmp_path / "lines.txt"
        filename.write_text("Line 1\nLine 2\nLine 3\n")
        lines = tf.data.TextLineDataset(str(filename)).batch(2)
        assert [list(batch) for batch in lines] == [["Line 1", "Line 2"], ["Line 3"]]

    def test_records(self, tmp_path):
        path = str(tmp_path / "two.tfrecord")
        with pb.data.TFRecordWriter(path) as writer:
            writer.write(b"one")
            writer.write(b"two")
        assert list(tf.data.TFRecordDataset(path)) == [b"one", b"two"]


def scalars(folder):
    """(tag, step) of what is in the event files of a folder."""
    from tensorboardX.proto.event_pb2 import Event

    found = []
    for path in sorted(folder.iterdir()):
        data, at = path.read_bytes(), 0
        while at < len(data):
            (length,) = struct.unpack_from("<Q", data, at)
            event = Event.FromString(data[at + 12 : at + 12 + length])
            found += [(value.tag, event.step) for value in event.summary.value]
            at += length + 16
    return found


class TestSummaries:
    def test_every_n_global_steps(self, tmp_path):
        global_step = tf.train.get_or_create_global_step()
        writer = tf.contrib.summary.create_file_writer(str(tmp_path), flush_millis=10000)
        with writer.as_default():
            for _ in range(10):
                global_step.assign_add(1)
                with tf.contrib.summary.record_summaries_every_n_global_steps(5):
                    tf.contrib.summary.scalar("global_step", global_step)
                    tf.contrib.summary.histogram("h", tf.random_normal([10]))
        tf.contrib.summary.flush(writer)
        tags = ("global_step", "h")
        assert scalars(tmp_path) == [(tag, step) for step in (5, 10) for tag in tags]

    def test_with_and_without_being_called(self, tmp_path):
        summary = tf.contrib.summary
        step = tf.train.get_or_create_global_step()
        with summary.create_file_writer(str(tmp_path)) as writer, writer.as_default():
            with summary.always_record_summaries():
                summary.scalar("called", 1.0)
            with summary.always_record_summaries:
                summary.scalar("as it is", 1.0, family="f")
            with summary.never_record_summaries():
                summary.scalar("never", 1.0)
            step.assign(3)
            with summary.record_summaries_every_n_global_steps(2, global_step=step):
                summary.scalar("odd", 1.0)
            with summary.record_summaries_every_n_global_steps:
                summary.scalar("every", 1.0)
        assert scalars(tmp_path) == [("called", 0), ("f/as it is", 0), ("every", 3)]


class TestSaving:
    def test_values(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        x = tf.Variable(10.0)
        checkpoint = tf.train.Checkpoint(x=x)
        x.assign(2.0)
        checkpoint_path = "./ckpt/"
        checkpoint.save("./ckpt/")
        x.assign(11.0)
        checkpoint.restore(tf.train.latest_checkpoint(checkpoint_path)).assert_consumed()
        assert x.numpy() == 2.0

    def test_model_optimizer_and_step(self, tmp_path):
        checkpoint_dir = str(tmp_path / "path" / "to" / "model_dir")
        if not os.path.exists(checkpoint_dir):
            os.makedirs(checkpoint_dir)
        checkpoint_prefix = os.path.join(checkpoint_dir, "ckpt")
        images, labels = digits(8)

        def make():
            model = tf.keras.Sequential([tf.keras.layers.Flatten(), tf.keras.layers.Dense(3)])
            optimizer = tf.train.AdamOptimizer(learning_rate=0.001)
            step = tf.Variable(0, trainable=False, dtype=tf.int64)
            root = tf.train.Checkpoint(optimizer=optimizer, model=model, optimizer_step=step)
            return model, optimizer, step, root

        def train(model, optimizer, step):
            return optimizer.minimize(
                lambda: tf.losses.sparse_softmax_cross_entropy(labels, model(images)),
                global_step=step,
            )

        *parts, root = make()
        train(*parts)
        path = root.save(checkpoint_prefix)
        assert path == checkpoint_prefix + "-1"
        straight = [float(train(*parts)) for _ in range(3)]
        *parts, root = make()
        status = root.restore(tf.train.latest_checkpoint(checkpoint_dir))
        status.initialize_or_restore()
        assert [float(train(*parts)) for _ in range(3)] == straight
        status.assert_consumed()
        assert int(parts[2]) == 4

    def test_restoring_nothing_does_nothing(self, tmp_path):
        checkpoint = tf.train.Checkpoint(x=tf.Variable(1.0))
        checkpoint.restore(tf.train.latest_checkpoint(str(tmp_path)))
        assert checkpoint.x.numpy() == 1.0

    def test_new_objects_keep_their_values(self, tmp_path):
        path = tf.train.Checkpoint(x=tf.Variable(1.0)).save(str(tmp_path / "ckpt"))
        other = tf.train.Checkpoint(x=tf.Variable(2.0), y=tf.Variable(3.0))
        status = other.restore(path)
        assert (other.x.numpy(), other.y.numpy()) == (1.0, 3.0)
        with pytest.raises(pb.errors.CheckpointError, match="y"):
            status.assert_existing_objects_matched()

    def test_saver(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        step = tf.train.get_or_create_global_step()
        step.assign(100)
        model = MNISTModel()
        x = tf.zeros([2, 784])
        model(x)
        saver = tfe.Saver(model.variables)
        before = [v.numpy().copy() for v in model.variables]
        path = saver.save("checkpoints/checkpoint.ckpt", global_step=step)
        assert path == "checkpoints/checkpoint.ckpt-100"
        for v in model.variables:
            v.assign(v * 2)
        saver.restore(tf.train.latest_checkpoint("checkpoints"))
        assert [v.tolist() for v in model.variables] == [v.tolist() for v in before]
        named = {"w": tf.Variable(1.0)}
        path = tfe.Saver(named).save(str(tmp_path / "named"))
        named["w"].assign(2.0)
        tfe.Saver(named).restore(path)
        assert float(named["w"]) == 1.0

    def test_networks(self, tmp_path):
        one, other, x = MNISTModel(), MNISTModel(), tf.random_normal([2, 784])
        y = one(x)
        path = tfe.save_network_checkpoint(one, str(tmp_path / "net"), global_step=7)
        tfe.restore_network_checkpoint(other, path)
        assert other(x).tolist() == y.tolist()

    def test_manager(self, tmp_path):
        checkpoint = tf.train.Checkpoint(x=tf.Variable(1.0))
        manager = tf.train.CheckpointManager(checkpoint, str(tmp_path), max_to_keep=2)
        paths = [manager.save() for _ in range(3)]
        assert manager.checkpoints == paths[1:]
        assert manager.latest_checkpoint == paths[-1]
