"""`compile(..., capture=True)`: the results of eager loops, from captured steps."""

from __future__ import annotations

import copy
import pickle
import warnings

import numpy as np
import pytest

import pullback as pb

RNG = np.random.default_rng(5)
X = RNG.normal(size=(50, 4)).astype(np.float32)
Y = (X[:, 0] + X[:, 1] > 0).astype(np.int32)


def falling(step):
    return 0.01 / (1 + step)


def fitted(capture, **options):
    pb.random.seed(3)
    model = pb.Sequential(
        [
            pb.layers.Dense(8, kernel_regularizer="l2"), pb.layers.BatchNormalization(),
            pb.layers.ReLU(), pb.layers.Dropout(0.2), pb.layers.Dense(2),
        ]
    )  # fmt: skip
    model.compile(
        pb.optimizers.Adam(falling),
        "sparse_softmax_cross_entropy",
        ["accuracy"],
        weighted_metrics=["accuracy"] if "sample_weight" in options else None,
        capture=capture,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        history = model.fit(
            X, Y, epochs=4, batch_size=16, verbose=False, validation_data=(X, Y), **options
        )
        evaluation = dict(model.evaluate(X, Y, verbose=False))
        predictions = model.predict(X, batch_size=16).numpy()
    values = [variable.numpy().tobytes() for variable in model.variables]
    return [history.history, evaluation, predictions.tobytes(), values], model


@pytest.mark.parametrize(
    "options", [{}, {"class_weight": {0: 1.0, 1: 2.0}}, {"shuffle": False}], ids=str
)
def test_captured_loops_have_the_results_of_eager_ones(options):
    found, model = fitted(True, **options)
    assert found == fitted(False, **options)[0]
    for method in (model.train_step, model.test_step, model.predict_step):
        assert model.compiled.step(method)._all()


def test_single_batches_are_captured_too():
    found, model = fitted(True)
    expected, other = fitted(False)
    for each, results in ((model, found), (other, expected)):
        pb.random.seed(4)
        for _ in range(3):
            results.append(dict(each.train_on_batch(X, Y)))
            results.append(dict(each.test_on_batch(X, Y)))
    assert found == expected
    signatures = [
        str(program.signature) for program in model.compiled.step(model.train_step)._all()
    ]
    assert any("float32[50, 4]" in text for text in signatures)


def test_a_step_that_looks_at_values_runs_op_by_op():
    class Looks(pb.Model):
        def __init__(self):
            super().__init__()
            self.dense = pb.layers.Dense(2)

        def call(self, x):
            return self.dense(x) if float(pb.sum(x)) > -1e9 else x

    def run(capture):
        pb.random.seed(3)
        model = Looks()
        model.compile("adam", "sparse_softmax_cross_entropy", capture=capture)
        return model.fit(X, Y, epochs=2, verbose=False).history

    with pytest.warns(RuntimeWarning, match="looks at the values of a tensor at test_training_cap"):
        captured = run(True)
    assert captured == run(False)


def test_copies_capture_steps_of_their_own():
    _, model = fitted(True)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        before = [variable.numpy().copy() for variable in model.variables]
        other.fit(X, Y, epochs=3, verbose=False)
        assert other.compiled.step(other.train_step)._all()
        assert all(
            np.array_equal(variable.numpy(), value)
            for variable, value in zip(model.variables, before, strict=True)
        )
