"""Snippets as TensorFlow's eager guides have them run with only the import line changed."""

from __future__ import annotations

import time

import numpy as np
import pytest

import pullback as pb
import pullback.compat.tensorflow as tf
import pullback.compat.tensorflow.contrib.eager as tfe


@pytest.fixture(autouse=True, params=["default", "minimal"])
def here(request, minimal):
    """Each snippet on the default device, and on the smallest of all backends."""
    tf.set_random_seed(1)
    tf.reset_default_graph()
    with pb.default_device() if request.param == "default" else minimal as device:
        yield device


class TestSetup:
    def test_enabling_eager_execution_does_nothing(self):
        tf.enable_eager_execution()
        tf.enable_eager_execution(config=tf.ConfigProto(log_device_placement=True))
        tfe.enable_eager_execution(device_policy=tfe.DEVICE_PLACEMENT_SILENT)
        assert tf.executing_eagerly()
        assert tfe.in_eager_mode()

    def test_what_only_graphs_have_says_what_to_write(self):
        with pytest.raises(TypeError, match="as arguments"):
            tf.placeholder(tf.float32, [None, 784])
        # The error and its words are those of TensorFlow's eager mode.
        with pytest.raises(RuntimeError, match=r"tf\.placeholder\(\) is not compatible with eager"):
            tf.placeholder(tf.float32)
        with pytest.raises(pb.errors.PullbackError):
            tf.placeholder(tf.float32, shape=(3,), name="x")
        with pytest.raises(TypeError, match="results exist at once"):
            tf.Session()
        with pytest.raises(TypeError, match="remove this call"):
            tf.global_variables_initializer()

    def test_contrib_is_a_package(self):
        assert tf.contrib.eager is tfe


class TestBasics:
    def test_matmul_prints(self, here):
        x = [[2.0]]
        m = tf.matmul(x, x)
        assert f"hello, {m}" == f"hello, [[4.]] shape=(1, 1) dtype=float32 device={here}"

    def test_constants_and_operators(self):
        a = tf.constant([[1, 2], [3, 4]])
        b = tf.add(a, 1)
        assert b.numpy().tolist() == [[2, 3], [4, 5]]
        assert (a * b).numpy().tolist() == [[2, 6], [12, 20]]
        assert np.multiply(a, b).tolist() == [[2, 6], [12, 20]]

    def test_operations_of_the_first_notebook(self):
        assert int(tf.add(1, 2)) == 3
        assert tf.add([1, 2], [3, 4]).tolist() == [4, 6]
        assert int(tf.square(5)) == 25
        assert int(tf.reduce_sum([1, 2, 3])) == 6
        assert int(tf.square(2) + tf.square(3)) == 13
        x = tf.matmul([[1]], [[2, 3]])
        assert (x.shape, x.dtype) == ((1, 2), tf.int32)
        tensor = tf.multiply(np.ones([3, 3]), 42)
        assert np.add(tensor, 1).tolist() == [[43.0] * 3] * 3
        assert tensor.numpy().tolist() == [[42.0] * 3] * 3

    def test_fizzbuzz(self, capsys):
        def fizzbuzz(max_num):
            counter = tf.constant(0)
            max_num = tf.convert_to_tensor(max_num)
            for num in range(1, max_num.numpy() + 1):
                num = tf.constant(num)
                if int(num % 3) == 0 and int(num % 5) == 0:
                    print("FizzBuzz")
                elif int(num % 3) == 0:
                    print("Fizz")
                elif int(num % 5) == 0:
                    print("Buzz")
                else:
                    print(num.numpy())
                counter += 1
            return counter

        assert int(fizzbuzz(5)) == 5
        assert capsys.readouterr().out.split() == ["1", "2", "Fizz", "4", "Buzz"]

    def test_collatz(self):
        a, counter, numbers = tf.constant(12), tf.constant(0), []
        while not tf.equal(a, 1):
            a = a / 2 if tf.equal(a % 2, 0) else 3 * a + 1
            numbers.append(f"{a:g}")
            counter += 1
        assert numbers == ["6", "3", "10", "5", "16", "8", "4", "2", "1"]

    def test_loops_and_conditions_of_graphs(self):
        x = tf.constant(3)
        assert int(tf.cond(x > 2, lambda: x * 2, lambda: x)) == 6
        i, total = tf.while_loop(
            lambda i, t: i < 4, lambda i, t: (i + 1, t + i), [tf.constant(0), 0]
        )
        assert (int(i), int(total)) == (4, 6)

    def test_variables(self):
        v = tf.Variable(1.0)
        assert v.numpy() == 1.0
        v.assign(3.0)
        v.assign(tf.square(v))
        assert v.numpy() == 9.0
        tf.assign_add(v, 1.0)
        assert tf.assign_sub(v, 2.0).read_value().numpy() == 8.0
        w = tfe.Variable(lambda: tf.zeros([2, 3]), name="weight", dtype=tf.float64)
        assert (w.name, w.shape, w.dtype) == ("weight", (2, 3), tf.float64)
        counter = tf.Variable(0, trainable=False)
        assert not counter.trainable
        bias = tf.get_variable("bias", [4], initializer=tf.zeros_initializer())
        assert bias.numpy().tolist() == [0.0] * 4

    def test_strings(self):
        names = tf.constant(["cat", "dog"])
        assert list(names) == ["cat", "dog"]
        assert [str(x) for x in tf.data.Dataset.from_tensor_slices(["cat", "dog"])] == [
            "cat",
            "dog",
        ]

    def test_devices(self, here):
        def measure(x, steps):
            tf.matmul(x, x)
            start = time.time()
            for _ in range(steps):
                x = tf.matmul(x, x)
            x.numpy()
            return time.time() - start

        with tf.device("/cpu:0"):
            x = tf.random_normal((20, 20))
            assert str(x.device) == "cpu:0"
            assert measure(x, 3) > 0
        assert tf.zeros([1]).device is here
        assert tf.device("/device:CPU:0") is tf.device("CPU") is pb.device("cpu:0")
        assert tfe.num_gpus() == len(pb.devices("gpu"))
        assert tf.test.is_gpu_available() == bool(tfe.num_gpus())
        if not tf.test.is_gpu_available():
            with pytest.raises(pb.errors.PullbackError, match="gpu"), tf.device("/gpu:0"):
                tf.zeros([1])

    def test_functions_that_would_be_captured(self):
        @tfe.defun
        def square(x):
            return tf.square(x)

        assert int(square(tf.constant(3))) == 9
        assert int(tfe.defun(tf.add)(1, 2)) == 3
        (doubled,) = tfe.py_func(lambda x: [2 * x], [tf.constant(3)], tf.int32)
        assert int(doubled) == 6


class TestArrays:
    def test_made(self):
        assert tf.constant([1, 2, 3, 4], shape=[2, 2]).tolist() == [[1, 2], [3, 4]]
        assert tf.constant(7.0, shape=[2]).tolist() == [7.0, 7.0]
        assert tf.fill([2], 3).tolist() == [3, 3]
        assert tf.zeros([2], tf.int32).dtype == tf.int32
        assert tf.ones_like(tf.zeros([1, 2])).tolist() == [[1.0, 1.0]]
        assert tf.range(3).tolist() == [0, 1, 2]
        assert tf.range(1, 6, 2).tolist() == [1, 3, 5]
        assert tf.linspace(0.0, 1.0, 3).tolist() == [0.0, 0.5, 1.0]
        assert tf.eye(2).tolist() == [[1, 0], [0, 1]]
        assert tf.one_hot([1, 0], depth=2).tolist() == [[0.0, 1.0], [1.0, 0.0]]
        assert tf.one_hot([1], 2, on_value=5, off_value=2, dtype=tf.int32).tolist() == [[2, 5]]

    def test_drawn(self):
        assert tf.random_normal([2, 3]).shape == (2, 3)
        assert tf.random_normal([4], seed=3).tolist() == tf.random_normal([4], seed=3).tolist()
        x = tf.random_uniform([100], minval=2.0, maxval=3.0)
        assert 2 <= float(tf.reduce_min(x)) <= float(tf.reduce_max(x)) < 3
        die = tf.random_uniform([100], 1, 7, dtype=tf.int32)
        assert set(die.tolist()) <= {1, 2, 3, 4, 5, 6}
        drawn = tf.multinomial([[0.0, -1e9]], num_samples=5)
        assert (drawn.shape, drawn.dtype) == ((1, 5), tf.int64)
        assert drawn[-1, 0].numpy() == 0
        assert sorted(tf.random_shuffle(tf.range(5)).tolist()) == [0, 1, 2, 3, 4]
        assert tf.random.normal([2]).shape == tf.random.truncated_normal([2]).shape == (2,)

    def test_reshaped(self):
        x = tf.reshape(tf.range(6), [2, -1])
        assert x.shape == (2, 3)
        assert tf.transpose(x).shape == tf.transpose(x, perm=[1, 0]).shape == (3, 2)
        assert tf.shape(x).tolist() == [2, 3]
        assert (int(tf.size(x)), int(tf.rank(x))) == (6, 2)
        assert tf.expand_dims(x, 0).shape == tf.expand_dims(x, axis=0).shape == (1, 2, 3)
        assert tf.squeeze(tf.zeros([1, 2, 1])).shape == (2,)
        assert tf.squeeze(tf.zeros([1, 2, 1]), [2]).shape == (1, 2)
        assert tf.concat([x, x], 0).shape == (4, 3)
        assert tf.stack([x, x], axis=1).shape == (2, 2, 3)
        assert [p.tolist() for p in tf.unstack(x)] == [[0, 1, 2], [3, 4, 5]]
        assert [p.shape for p in tf.split(x, [1, 2], axis=1)] == [(2, 1), (2, 2)]
        assert tf.tile([1, 2], [2]).tolist() == [1, 2, 1, 2]
        assert tf.pad([[1]], [[0, 1], [1, 0]]).tolist() == [[0, 1], [0, 0]]
        assert tf.reverse([1, 2], [0]).tolist() == [2, 1]
        assert x[tf.newaxis].shape == (1, 2, 3)

    def test_selected(self):
        x = tf.reshape(tf.range(6), [2, 3])
        assert tf.gather(x, [1]).tolist() == [[3, 4, 5]]
        assert tf.gather_nd(x, [[0, 1], [1, 2]]).tolist() == [1, 5]
        assert tf.slice(x, [0, 1], [2, -1]).tolist() == [[1, 2], [4, 5]]
        assert tf.boolean_mask([1, 2, 3], [True, False, True]).tolist() == [1, 3]
        assert tf.where([True, False], [1, 2], [3, 4]).tolist() == [1, 4]
        assert tf.where([False, True]).tolist() == [[1]]
        assert int(tf.argmax([1, 3, 2])) == 1
        assert tf.argmax([[1, 3]], axis=1, output_type=tf.int32).dtype == tf.int32

    def test_reductions_and_arithmetic(self):
        x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
        assert tf.reduce_mean(x, axis=0).tolist() == [2.0, 3.0]
        assert tf.reduce_sum(x, reduction_indices=[1], keep_dims=True).tolist() == [[3.0], [7.0]]
        assert float(tf.reduce_max(x)) == 4.0
        assert tf.matmul(x, x, transpose_b=True).tolist() == [[5.0, 11.0], [11.0, 25.0]]
        assert tf.cast(x, tf.int32).dtype == tf.to_int32(x).dtype == tf.int32
        assert float(tf.norm([3.0, 4.0])) == 5.0
        assert tf.add_n([x, x]).tolist() == (2 * x).tolist()
        assert tf.cumsum([1, 2, 3], exclusive=True).tolist() == [0, 1, 3]
        assert tf.cumsum([1, 2, 3], reverse=True).tolist() == [6, 5, 3]
        assert tf.clip_by_value([1, 5], 2, 4).tolist() == [2, 4]
        assert tf.rsqrt([4.0]).tolist() == [0.5]
        assert tf.floordiv(7, 2).item() == 3
        assert float(tf.squared_difference(3.0, 1.0)) == 4.0
        clipped, norm = tf.clip_by_global_norm([tf.constant([3.0, 4.0]), None], 1.0)
        assert (float(norm), clipped[1]) == (5.0, None)
        assert clipped[0].tolist() == pytest.approx([0.6, 0.8])
        assert tf.confusion_matrix([0, 1, 1], [0, 0, 1]).tolist() == [[1, 0], [1, 1]]
        tf.assert_equal(x, x)
        with pytest.raises(ValueError, match="differ"):
            tf.assert_equal(x, x + 1, message="they differ")


class TestGradients:
    def test_gradients_function(self):
        def square(x):
            return tf.multiply(x, x)

        grad = tfe.gradients_function(square)
        assert square(3.0).numpy() == 9.0
        assert [g.numpy() for g in grad(3.0)] == [6.0]
        gradgrad = tfe.gradients_function(lambda x: grad(x)[0])
        assert [g.numpy() for g in gradgrad(3.0)] == [2.0]
        gradgradgrad = tfe.gradients_function(lambda x: gradgrad(x)[0])
        assert float(gradgradgrad(3.0)[0]) == 0.0

    def test_gradient_of_control_flow(self):
        def absolute(x):
            return x if x > 0.0 else -x

        grad = tfe.gradients_function(absolute)
        assert (float(grad(3.0)[0]), float(grad(-3.0)[0])) == (1.0, -1.0)

        def f(x, y):
            output = 1.0
            for _ in range(int(y)):
                output = tf.multiply(output, x)
            return output

        def g(x, y):
            return tfe.gradients_function(f)(x, y)[0]

        assert (f(3.0, 2).numpy(), g(3.0, 2).numpy()) == (9.0, 6.0)
        assert (f(4.0, 3).numpy(), g(4.0, 3).numpy()) == (64.0, 48.0)

    def test_which_arguments(self):
        def f(x, y):
            return x * x * y

        value, both = tfe.value_and_gradients_function(f)(3.0, 2.0)
        assert (float(value), [float(g) for g in both]) == (18.0, [12.0, 9.0])
        for params in ([1], ["y"]):
            assert [float(g) for g in tfe.gradients_function(f, params)(3.0, 2.0)] == [9.0]
        assert [float(g) for g in tfe.gradients_function(f)(3.0, 2.0, dy=10.0)] == [120.0, 90.0]
        assert tfe.gradients_function(f)(3.0, 2)[1] is None
        with pytest.raises(TypeError, match="no argument 'z'"):
            tfe.gradients_function(f, ["z"])

    def test_tape(self):
        w = tf.Variable([[1.0]])
        with tf.GradientTape() as tape:
            loss = w * w
        assert tape.gradient(loss, w).numpy().tolist() == [[2.0]]
        x = tf.ones((2, 2))
        with tf.GradientTape(persistent=True) as t:
            t.watch(x)
            y = tf.reduce_sum(x)
            z = tf.multiply(y, y)
        assert t.gradient(z, x).numpy().tolist() == [[8.0, 8.0], [8.0, 8.0]]
        assert float(t.gradient(z, y)) == 8.0

    def test_custom_gradient(self):
        def plain(x):
            return tf.log(1 + tf.exp(x))

        @tf.custom_gradient
        def log1pexp(x):
            e = tf.exp(x)

            def grad(dy):
                return dy * (1 - 1 / (1 + e))

            return tf.log(1 + e), grad

        for function, end in ((plain, np.nan), (log1pexp, 1.0)):
            found = [float(tfe.gradients_function(function)(x)[0]) for x in (0.0, 100.0)]
            np.testing.assert_equal(found, [0.5, end])
        assert tfe.custom_gradient is tf.custom_gradient

    def test_gradient_clipped_on_the_way_back(self):
        @tf.custom_gradient
        def clip_gradient_by_norm(x, norm):
            y = tf.identity(x)

            def grad_fn(dresult):
                return [tf.clip_by_norm(dresult, norm), None]

            return y, grad_fn

        x = tf.Variable([3.0, 4.0])
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(clip_gradient_by_norm(x, 0.5) ** 2)
        assert tape.gradient(loss, x).tolist() == pytest.approx([0.3, 0.4])

    def test_line_search(self):
        def line_search_step(fn, init_x, rate=1.0):
            with tf.GradientTape() as tape:
                tape.watch(init_x)
                value = fn(init_x)
            grad = tape.gradient(value, init_x)
            grad_norm = tf.reduce_sum(grad * grad)
            init_value = value
            while value > init_value - rate * grad_norm:
                x = init_x - rate * grad
                value = fn(x)
                rate /= 2.0
            return x, value

        x, value = tf.constant([1.0, -2.0]), None
        for _ in range(60):
            x, value = line_search_step(lambda x: tf.reduce_sum(x * x * [1.0, 4.0]), x)
            if value < 1e-6:
                break
        assert value < 1e-6


def test_einsum():
    x = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(tf.einsum("ij->ji", x).numpy(), x.T)
    np.testing.assert_array_equal(tf.einsum("ij,kj->ik", x, x).numpy(), x @ x.T)
