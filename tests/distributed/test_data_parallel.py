"""Training on several ranks is that of one process with the same batches."""

from __future__ import annotations

import gc
import time

import numpy as np
import pytest

import pullback as pb
from pullback.distributed.collectives import in_order
from pullback.distributed.data_parallel import _buckets

dist = pb.distributed


def data(count=22, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(count, 6)).astype(np.float32), rng.integers(0, 3, count)


def values(model):
    return [v.numpy() for v in model.variables]


def dense():
    return pb.Sequential([pb.layers.Dense(8, activation="tanh"), pb.layers.Dense(3)])


def normalized():
    return pb.Sequential(
        [
            # A bias has no gradient there but rounding, which Adam makes steps of.
            pb.layers.Dense(8, use_bias=False),
            pb.layers.BatchNormalization(),
            pb.layers.Activation("relu"),
            pb.layers.Dense(3),
        ]
    )


def with_weights(make):
    """A model with weights that do not depend on what the threads draw."""
    model = make()
    model(np.zeros((1, 6), np.float32))
    rng = np.random.default_rng(5)
    for v in model.trainable_variables:
        v.assign(rng.normal(size=v.shape).astype(np.float32) * 0.5)
    return model


def fitted(make, *, capture=False, batch=8, epochs=3, **options):
    def run():
        x, y = data()
        model = with_weights(make)
        optimizer = dist.DataParallel(pb.optimizers.Adam(0.05), **options)
        model.compile(
            optimizer,
            "sparse_softmax_cross_entropy",
            ["accuracy"],
            capture=capture,
            distributed=True,
        )
        history = model.fit(
            x, y, batch_size=batch, epochs=epochs, shuffle=False, verbose=False,
            validation_data=(x[:5], y[:5]),
        ).history  # fmt: skip
        return history, values(model), model.predict(x, batch_size=9).numpy()

    return run


@pytest.mark.parametrize("make", [dense, normalized])
@pytest.mark.parametrize("capture", [False, True])
@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_fit_is_that_of_one_rank(make, capture, ranks):
    """22 items in batches of 8: the last one has 6, which 4 ranks have 2, 2, 1 and 1 of."""
    run = fitted(make, capture=capture)
    (history, weights, outputs), *_ = dist.run_threads(run, 1)
    for other, theirs, predicted in dist.run_threads(run, ranks):
        assert other.keys() == history.keys()
        for name, numbers in history.items():
            np.testing.assert_allclose(other[name], numbers, rtol=2e-5, atol=1e-6)
        for a, b in zip(theirs, weights, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(predicted, outputs, rtol=1e-3, atol=1e-4)


def test_batches_with_fewer_items_than_ranks():
    run = fitted(normalized, batch=7)  # 22 items: the last batch has 1, which cannot be normalized
    with pytest.raises(pb.errors.LayerError, match="a batch of 1"):
        dist.run_threads(run, 3)
    run = fitted(normalized, batch=10)  # the last one has 2
    (_, weights, _), *_ = dist.run_threads(run, 1)
    for _, theirs, _ in dist.run_threads(run, 3):
        for a, b in zip(theirs, weights, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("options", [{"exact": True}, {"shard_slots": True}])
def test_options(options):
    (_, weights, _), *_ = dist.run_threads(fitted(dense), 1)
    found = dist.run_threads(fitted(dense, **options), 3)
    for _, theirs, _ in found:
        for a, b, c in zip(theirs, weights, found[0][1], strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)
            np.testing.assert_array_equal(a, c)


def test_slots_are_on_one_rank_alone():
    def run():
        model = with_weights(dense)
        optimizer = dist.DataParallel(pb.optimizers.Adam(0.05), shard_slots=True)
        x, y = data(8)
        x, y = dist.share((pb.asarray(x), pb.asarray(y)))
        optimizer.minimize(lambda: pb.losses.sparse_softmax_cross_entropy(y, model(x)))
        return sum(v.size for v in optimizer.variables), optimizer.step, values(model)

    one = dist.run_threads(run, 1)[0]
    found = dist.run_threads(run, 2)
    assert sum(size for size, _, _ in found) == one[0]
    assert max(size for size, _, _ in found) < 0.7 * one[0]
    assert [step for _, step, _ in found] == [1, 1]


@pytest.mark.parametrize("captured", [False, True])
def test_own_loops(captured):
    def run():
        model = with_weights(dense)
        optimizer = dist.DataParallel(pb.optimizers.SGD(0.1))

        def step(x, y):
            with pb.GradientTape() as tape:
                loss = pb.losses.sparse_softmax_cross_entropy(y, model(x))
            variables = model.trainable_variables
            optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))

        step = pb.function(step) if captured else step
        x, y = data()
        for start in (0, 8, 0, 8, 16, 0, 16):
            part = dist.share((pb.asarray(x[start : start + 8]), pb.asarray(y[start : start + 8])))
            step(*part)
        return values(model)

    (weights,) = dist.run_threads(run, 1)
    for theirs in dist.run_threads(run, 3):
        for a, b in zip(theirs, weights, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_dropout_draws_what_one_process_would():
    def run():
        generator = pb.Generator(3)
        x = dist.share(pb.ones((7, 5)))
        found = [generator.dropout(x, 0.5).numpy() for _ in range(2)]
        return np.stack(found, axis=1), generator.state

    ((whole, state),) = dist.run_threads(run, 1)
    found = dist.run_threads(run, 3)
    np.testing.assert_array_equal(np.concatenate([part for part, _ in found]), whole)
    assert {other for _, other in found} == {state}


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 5])
def test_sums_in_pairs(ranks):
    rng = np.random.default_rng(1)
    parts = rng.normal(size=(ranks, 11)).astype(np.float32)
    wanted = [*parts]
    while len(wanted) > 1:
        wanted = [a + b for a, b in zip(wanted[::2], wanted[1::2], strict=False)] + (
            [wanted[-1]] if len(wanted) % 2 else []
        )
    for found in dist.run_threads(lambda: in_order(pb.asarray(parts[dist.rank()])).numpy(), ranks):
        np.testing.assert_array_equal(found, wanted[0])


def test_buckets():
    sizes = [1000, 300_000, 10, 4_000_000, 4_000_000, 5]
    variables = [pb.Variable(np.zeros(size, np.float32)) for size in sizes]
    found = [[v.size for _, v in bucket] for bucket in _buckets([(v.value, v) for v in variables])]
    assert found == [[5, 4_000_000], [4_000_000, 10, 300_000, 1000]]


def test_callbacks_that_write_run_on_one_rank(tmp_path):
    def run():
        model = with_weights(dense)
        model.compile("sgd", "sparse_softmax_cross_entropy", distributed=True)
        seen = []

        class Seen(pb.callbacks.Callback):
            def on_epoch_end(self, epoch, logs):
                seen.append(float(logs["loss"]))

        path = tmp_path / f"{dist.rank()}.csv"
        stop = pb.callbacks.EarlyStopping("loss", min_delta=10.0, patience=1)
        x, y = data()
        model.fit(x, y, epochs=9, verbose=False, shuffle=False,
                  callbacks=[Seen(), stop, pb.callbacks.CSVLogger(str(path))])  # fmt: skip
        return seen

    found = dist.run_threads(run, 2)
    assert found[0] == found[1]
    assert len(found[0]) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["0.csv"]


def test_one_rank_with_distributed():
    x, y = data()
    found = []
    for distributed in (False, True):
        model = with_weights(normalized)
        model.compile("adam", "sparse_softmax_cross_entropy", distributed=distributed)
        model.fit(x, y, epochs=2, shuffle=False, verbose=False)
        found.append(values(model))
    for a, b in zip(*found, strict=True):
        np.testing.assert_array_equal(a, b)


def test_ranks_with_other_variables():
    def run():
        variables = [pb.Variable([1.0]) for _ in range(2 + dist.rank())]
        optimizer = dist.DataParallel(pb.optimizers.SGD(0.1))
        optimizer.minimize(lambda: pb.sum(sum(v.value for v in variables)), variables)

    with pytest.raises(pb.errors.CommunicationError, match=r"float32\[2\].*float32\[3\]"):
        dist.run_threads(run, 2)


def test_options_that_do_not_fit():
    with pytest.raises(pb.errors.InputValueError, match="clip_norm"):
        dist.DataParallel(pb.optimizers.SGD(0.1, clip_global_norm=1.0), shard_slots=True)
    with pytest.raises(pb.errors.InputTypeError, match="optimizer"):
        dist.DataParallel("sgd")
    with pytest.raises(pb.errors.InputValueError, match="arrays"):
        dist.share(())


def test_nobody_saves_before_all_ranks_have_read(tmp_path):
    """A run that was killed before the end of an epoch saves at once, in place of what it read."""

    class Fails(pb.callbacks.Callback):
        order = 2000  # after the checkpoint

        def on_train_batch_end(self, batch, logs):
            if self.run.total == 3:
                raise KeyError

    class Late(pb.callbacks.Callback):
        def on_restore(self, logs):
            if dist.rank() == 1:
                time.sleep(0.3)

    def run(*callbacks):
        model = with_weights(dense)
        model.compile("sgd", "sparse_softmax_cross_entropy", distributed=True)
        x, y = data()
        save = pb.callbacks.Checkpoint(tmp_path, resume=True, every_steps=1)
        model.fit(x, y, batch_size=8, epochs=3, shuffle=False, verbose=False,
                  callbacks=[save, *callbacks])  # fmt: skip
        return values(model)

    with pytest.raises(KeyError):
        dist.run_threads(lambda: run(Fails()), 1)
    first, second = dist.run_threads(lambda: run(Late()), 2)
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("capture", [False, True])
@pytest.mark.parametrize("ranks", [1, 3])
def test_sharded_slots_are_saved_and_restored_on_other_ranks(capture, ranks, tmp_path):
    """A checkpoint amid an epoch has the slots of all ranks; another number of ranks goes on."""

    class Fails(pb.callbacks.Callback):
        order = 2000  # after the checkpoint

        def on_train_batch_end(self, batch, logs):
            if self.run.total == 5:
                raise KeyError

    def run(*callbacks, folder=None):
        model = with_weights(dense)
        optimizer = dist.DataParallel(pb.optimizers.Adam(0.05), shard_slots=True)
        loss = "sparse_softmax_cross_entropy"
        model.compile(optimizer, loss, capture=capture, distributed=True)
        x, y = data()
        if folder:
            callbacks += (pb.callbacks.Checkpoint(folder, resume=True, every_steps=1),)
        model.fit(x, y, batch_size=8, epochs=4, shuffle=False, verbose=False,
                  callbacks=callbacks)  # fmt: skip
        return values(model), sum(v.size for v in optimizer.variables)

    (whole, size), *_ = dist.run_threads(run, 1)
    with pytest.raises(KeyError):
        dist.run_threads(lambda: run(Fails(), folder=tmp_path), 2)
    found = dist.run_threads(lambda: run(folder=tmp_path), ranks)
    for weights, _ in found:
        for a, b in zip(weights, whole, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)
    assert sum(own for _, own in found) == size  # and each is on one rank again


def test_no_garbage_is_collected_while_a_rank_traces():
    collects = []

    def run():
        @pb.function
        def summed(x):
            total = dist.all_reduce(x)
            if not pb.executing_eagerly():
                collects.append(gc.isenabled())
            return total * 2

        return [summed(pb.ones(2)).tolist() for _ in range(3)]

    before = gc.isenabled()
    gc.enable()
    try:
        assert dist.run_threads(run, 3) == [[[6.0, 6.0]] * 3] * 3
        # Once more where a call finds that the collector, which the function asks, is on again.
        assert set(collects) == {False}
        assert len(collects) >= 3
        assert gc.isenabled()
    finally:
        if not before:
            gc.disable()
