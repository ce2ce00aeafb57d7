"""Multi-head attention: heads, masks, shared heads, weights, dropout, errors."""

from __future__ import annotations

import sys
from collections import Counter

import numpy as np
import pytest

import pullback as pb

L = pb.layers
RNG = np.random.default_rng(5)
X = RNG.normal(size=(2, 5, 6))
Y = RNG.normal(size=(2, 7, 4))


def by_hand(layer, x, y, allowed=None, bias=0.0):
    """Attention with loops over batch and heads, in float64."""
    v = {name: variable.numpy() for name, variable in layer.named_variables.items()}
    q, k, w = (
        z @ v[f"{name}/kernel"] + v[f"{name}/bias"]
        for z, name in ((x, "query"), (y, "key"), (y, "value"))
    )
    depth, width = layer.head_dim, layer.value_dim
    heads = np.zeros((*x.shape[:2], layer.num_heads * width))
    weights = np.zeros((x.shape[0], layer.num_heads, x.shape[1], y.shape[1]))
    for b in range(x.shape[0]):
        for head in range(layer.num_heads):
            shared = head * layer.num_kv_heads // layer.num_heads
            scores = (
                q[b, :, head * depth : (head + 1) * depth]
                @ k[b, :, shared * depth : (shared + 1) * depth].T
            ) / np.sqrt(depth) + bias
            if allowed is not None:
                scores = np.where(allowed[b], scores, -np.inf)
            for i, row in enumerate(scores):
                if np.isfinite(row).any():
                    raised = np.exp(row - row.max())
                    weights[b, head, i] = raised / raised.sum()
            value = w[b, :, shared * width : (shared + 1) * width]
            heads[b, :, head * width : (head + 1) * width] = weights[b, head] @ value
    return heads @ v["output/kernel"] + v["output/bias"], weights


def made(*args, **rest):
    return L.MultiHeadAttention(
        *args, dtype="float64", kernel_initializer="he_normal", bias_initializer="normal", **rest
    )


def check(layer, x, y=None, allowed=None, bias=0.0, **how):
    given = (x,) if y is None else (x, y)
    expected, weights = by_hand(layer_built(layer, *given), x, x if y is None else y, allowed, bias)
    np.testing.assert_allclose(layer(*given, **how).numpy(), expected, rtol=1e-9, atol=1e-12)
    both = layer(*given, return_weights=True, **how)
    np.testing.assert_allclose(both[0].numpy(), expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(both[1].numpy(), weights, rtol=1e-9, atol=1e-12)


def layer_built(layer, *given):
    layer(*given)
    return layer


class TestValues:
    def test_self(self):
        check(made(3, 4), X)

    def test_cross(self):
        check(made(3, 4, value_dim=2, output_dim=9), X, Y)

    @pytest.mark.parametrize("shared", [1, 2, 4])
    def test_shared_heads(self, shared):
        layer = made(4, 3, num_kv_heads=shared)
        check(layer, X)
        assert layer.key.kernel.shape == layer.value.kernel.shape == (6, 3 * shared)

    def test_keys_of_something_else(self):
        layer = made(2, 3)
        y = layer(X, Y, Y * 2.0)
        assert y.shape == X.shape
        assert abs(y.numpy() - layer(X, Y).numpy()).max() > 1e-3


class TestMasks:
    ALLOWED = RNG.random((2, 5, 7)) < 0.6
    ALLOWED[:, :, 0] = True

    def test_causal(self):
        allowed = np.broadcast_to(np.tril(np.ones((5, 5), bool)), (2, 5, 5))
        check(made(2, 3), X, allowed=allowed, is_causal=True)

    def test_by_item(self):
        check(made(2, 3), X, Y, allowed=self.ALLOWED, mask=self.ALLOWED)
        check(made(2, 3), X, Y, allowed=self.ALLOWED, mask=self.ALLOWED[:, None])

    def test_for_all_items(self):
        allowed = np.broadcast_to(self.ALLOWED[0], (2, 5, 7))
        check(made(2, 3, num_kv_heads=1), X, Y, allowed=allowed, mask=pb.asarray(self.ALLOWED[0]))

    def test_of_keys(self):
        there = np.arange(7) < np.asarray([[7], [3]])
        check(made(2, 3), X, Y, allowed=there[:, None] & np.ones((5, 1), bool), key_mask=there)

    def test_all_of_them(self):
        there = np.arange(5) < np.asarray([[5], [3]])
        allowed = self.ALLOWED[..., :5] & there[:, None] & np.tril(np.ones((5, 5), bool))
        check(
            made(2, 3), X, allowed=allowed, mask=self.ALLOWED[..., :5], key_mask=there,
            is_causal=True,
        )  # fmt: skip

    @pytest.mark.parametrize("is_causal", [False, True])
    def test_a_key_mask_costs_a_reshape(self, is_causal):
        # The op gives a query without keys 0, and knows causal masks: the layer computes neither.
        layer = made(2, 3)
        x, there = pb.asarray(X), pb.asarray(np.arange(5) < np.asarray([[5], [3]]))
        layer(x, key_mask=there, is_causal=is_causal)

        def calls(**masks):
            called = Counter()

            def profile(frame, event, _):
                if event == "call" and frame.f_code.co_filename.startswith("<pullback "):
                    called[frame.f_code.co_name] += 1

            sys.setprofile(profile)
            try:
                layer(x, is_causal=is_causal, **masks)
            finally:
                sys.setprofile(None)
            return called

        more = calls(key_mask=there) - calls()
        more.pop("where", None)  # in the body of the op
        assert set(more) <= {"reshape", "astype"}

    def test_numbers_are_added(self):
        bias = RNG.normal(size=(5, 7))
        check(made(2, 3), X, Y, bias=bias, mask=bias)
        there = np.arange(7) < np.asarray([[7], [3]])
        allowed = there[:, None] & np.ones((5, 1), bool)
        check(made(2, 3), X, Y, allowed=allowed, bias=bias, mask=bias, key_mask=there)

    def test_queries_that_see_nothing(self):
        allowed = self.ALLOWED.copy()
        allowed[1, 2] = False
        layer = made(2, 3)
        check(layer, X, Y, allowed=allowed, mask=allowed)
        np.testing.assert_allclose(
            layer(X, Y, mask=allowed)[1, 2].numpy(), layer.output.bias.numpy(), rtol=1e-12
        )
        x = pb.asarray(X)
        for training in (False, True):
            layer.dropout = 0.5 if training else 0.0
            with pb.GradientTape() as tape:
                tape.watch(x)
                total = layer(x, Y, mask=allowed, training=training).sum()
            found = tape.gradient(total, [x, *layer.variables])
            assert all(np.isfinite(one.numpy()).all() for one in found)


class TestDropout:
    def test_only_while_training(self):
        layer = made(2, 3, dropout=0.5, seed=1)
        expected = by_hand(layer_built(layer, X), X, X)[0]
        np.testing.assert_allclose(layer(X).numpy(), expected, rtol=1e-9)
        trained = layer(X, training=True).numpy()
        assert abs(trained - expected).max() > 1e-3
        _, weights = layer(X, training=True, return_weights=True)
        # The weights that are given are those before dropout.
        np.testing.assert_allclose(weights.numpy().sum(-1), 1.0, rtol=1e-9)

    def test_is_right_in_the_mean(self):
        layer = made(2, 3, dropout=0.3, seed=1)
        expected = layer(X).numpy()
        pb.random.default_generator.seed(1)  # the same numbers whatever ran before
        drawn = np.array([layer(X, training=True).numpy() for _ in range(2000)])
        # Five standard errors of the mean.
        error = 5 * drawn.std(axis=0) / np.sqrt(len(drawn))
        assert (abs(drawn.mean(axis=0) - expected) <= error).all()


class TestVariables:
    def test_paths_and_sizes(self):
        layer = L.MultiHeadAttention(4, 3, num_kv_heads=2, value_dim=5, input_shape=(7, 6))
        shapes = {name: v.shape for name, v in layer.named_variables.items() if "kernel" in name}
        assert shapes == {
            "query/kernel": (6, 12),
            "key/kernel": (6, 6),
            "value/kernel": (6, 10),
            "output/kernel": (20, 6),
        }
        assert L.MultiHeadAttention(1, 2, use_bias=False, input_shape=(1, 2)).parameter_count == 16

    def test_errors(self):
        with pytest.raises(pb.errors.InputValueError, match="must divide num_heads, got 3 and 4"):
            L.MultiHeadAttention(4, 2, num_kv_heads=3)
        with pytest.raises(pb.errors.InputValueError, match="dropout"):
            L.MultiHeadAttention(4, 2, dropout=1.0)
        model = pb.Sequential([L.Flatten(), L.MultiHeadAttention(4, 2)])
        with pytest.raises(pb.errors.LayerError, match=r"layers/1 \(Mul.*sequences.*\(2, 30\)"):
            model(X)
        layer = L.MultiHeadAttention(4, 2)
        with pytest.raises(
            pb.errors.LayerError, match=r"key_mask must have shape \(2, 7\), got \(2, 5\)"
        ):
            layer(X, Y, key_mask=np.ones((2, 5), bool))
        with pytest.raises(
            pb.errors.LayerError, match=r"mask with 2 axes must have shape \(5, 7\)"
        ):
            layer(X, Y, mask=np.ones((7, 5), bool))


class TestCausalAlignment:
    """With other keys than queries, PyTorch, JAX and FlashAttention differ in what causal means."""

    @pytest.mark.parametrize(("queries", "keys"), [(1, 4), (3, 4), (4, 1)])
    def test_other_keys_than_queries_raise(self, queries, keys):
        q, k = pb.ones((1, 1, queries, 2)), pb.ones((1, 1, keys, 2))
        with pytest.raises(pb.errors.ShapeError, match=f"got {queries} and {keys}"):
            pb.scaled_dot_product_attention(q, k, k, is_causal=True)
        with pytest.raises(pb.errors.ShapeError, match=f"got {queries} and {keys}"):
            pb.grad(lambda q: pb.scaled_dot_product_attention(q, k, k, is_causal=True))(q)
        layer = pb.layers.MultiHeadAttention(1, 2)
        for mask in (None, pb.ones((queries, keys), dtype="bool")):
            with pytest.raises(pb.errors.PullbackError, match="as many queries as keys"):
                layer(pb.ones((1, queries, 2)), pb.ones((1, keys, 2)), mask=mask, is_causal=True)

    def test_the_masks_that_the_error_names(self):
        rng = np.random.default_rng(0)
        q, k, v = (pb.asarray(rng.normal(size=(1, 1, 4, 3)).astype("float32")) for _ in range(3))
        whole = pb.scaled_dot_product_attention(q, k, v, is_causal=True).numpy()
        first = pb.tril(pb.ones((2, 4), dtype="bool"))
        last = pb.tril(pb.ones((2, 4), dtype="bool"), k=2)
        got = pb.scaled_dot_product_attention(q[:, :, :2], k, v, first).numpy()
        np.testing.assert_allclose(got, whole[:, :, :2], rtol=1e-6)
        got = pb.scaled_dot_product_attention(q[:, :, 2:], k, v, last).numpy()
        np.testing.assert_allclose(got, whole[:, :, 2:], rtol=1e-6)
