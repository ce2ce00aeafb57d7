"""The cases of `layers.py`, once for each framework, by name: a function that does one call.

A name is "what, batch, how": of a layer f is a call for inference, g a call for training with the
gradients of its variables and its input. Losses have gradients of the predictions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Case = Callable[[], Any]
Cases = dict[str, Case]

BATCHES = (1, 32)
FEATURES, CLASSES, STEPS, WIDTH, CHANNELS = 64, 10, 8, 16, 8


def normal(*shape: int) -> Any:
    return np.random.default_rng(0).standard_normal(shape, np.float32)


#: Of each layer the shape of an input without its batch axis, channels last.
INPUTS: dict[str, tuple[int, ...]] = {
    "dense": (FEATURES,),
    "dense relu": (FEATURES,),
    "conv1d": (WIDTH, CHANNELS),
    "conv2d": (WIDTH, WIDTH, CHANNELS),
    "conv2d_transpose": (WIDTH, WIDTH, CHANNELS),
    "depthwise_conv": (WIDTH, WIDTH, CHANNELS),
    "einsum_dense": (STEPS, WIDTH),
    "time_distributed": (STEPS, WIDTH),
    "batch_norm": (FEATURES,),
    "batch_norm 2d": (WIDTH, WIDTH, CHANNELS),
    "layer_norm": (FEATURES,),
    "group_norm": (WIDTH, WIDTH, CHANNELS),
    "instance_norm": (WIDTH, WIDTH, CHANNELS),
    "rms_norm": (FEATURES,),
    "dropout": (FEATURES,),
    "embedding": (STEPS,),
    "lstm": (STEPS, CHANNELS),
    "gru": (STEPS, CHANNELS),
    "bidirectional": (STEPS, CHANNELS),
    "attention": (STEPS, WIDTH),
    "max_pool": (WIDTH, WIDTH, CHANNELS),
    "avg_pool": (WIDTH, WIDTH, CHANNELS),
    "global_avg_pool": (WIDTH, WIDTH, CHANNELS),
    "adaptive_avg_pool": (WIDTH, WIDTH, CHANNELS),
    "adaptive_max_pool": (WIDTH, WIDTH, CHANNELS),
    "flatten": (WIDTH, WIDTH, CHANNELS),
    "sequential": (FEATURES,),
    "sequential cnn": (WIDTH, WIDTH, CHANNELS),
}
#: The layers whose inputs have no gradients.
OF_INTEGERS = ("embedding",)
#: The layers whose inputs are sequences, without channels to be first.
SEQUENCES = ("lstm", "gru", "bidirectional", "attention", "einsum_dense", "time_distributed")


def inputs_of(name: str, batch: int) -> Any:
    if name in OF_INTEGERS:
        return np.random.default_rng(0).integers(0, 100, (batch, STEPS)).astype(np.int32)
    return normal(batch, *INPUTS[name])


def pairs(batch: int) -> dict[str, Any]:
    """Predictions and targets for losses and metrics."""
    rng = np.random.default_rng(1)
    scores = normal(batch, CLASSES)
    powers = np.exp(scores)
    probabilities = powers / powers.sum(-1, keepdims=True)
    labels = rng.integers(0, CLASSES, batch).astype(np.int32)
    return {
        "scores": scores,
        "targets": rng.standard_normal((batch, CLASSES), np.float32),
        "probabilities": probabilities,
        "labels": labels,
        "one_hot": np.eye(CLASSES, dtype=np.float32)[labels],
        "binary": rng.integers(0, 2, (batch, CLASSES)).astype(np.float32),
        "signs": rng.integers(0, 2, (batch, CLASSES)).astype(np.float32) * 2 - 1,
    }


# ---------------------------------------------------------------------------------------------


def pullback_cases() -> Cases:
    import pullback as pb

    layers, losses, metrics, optimizers = pb.layers, pb.losses, pb.metrics, pb.optimizers
    # One head's width is 4, as PyTorch's of 16 features and 4 heads.
    makers: dict[str, Callable[[], Any]] = {
        "dense": lambda: layers.Dense(FEATURES),
        "dense relu": lambda: layers.Dense(FEATURES, activation="relu"),
        "conv1d": lambda: layers.Conv1D(CHANNELS, 3, padding="same"),
        "conv2d": lambda: layers.Conv2D(CHANNELS, 3, padding="same"),
        "conv2d_transpose": lambda: layers.Conv2DTranspose(CHANNELS, 3),
        "depthwise_conv": lambda: layers.DepthwiseConv2D(3, padding="same"),
        "einsum_dense": lambda: layers.EinsumDense("btd,dhk->bthk", (None, 4, 4), bias_axes="hk"),
        "time_distributed": lambda: layers.TimeDistributed(layers.Dense(WIDTH)),
        "batch_norm": lambda: layers.BatchNormalization(),
        "batch_norm 2d": lambda: layers.BatchNormalization(),
        "layer_norm": lambda: layers.LayerNormalization(),
        "group_norm": lambda: layers.GroupNormalization(4),
        "instance_norm": lambda: layers.InstanceNormalization(),
        "rms_norm": lambda: layers.RMSNormalization(),
        "dropout": lambda: layers.Dropout(0.5),
        "embedding": lambda: layers.Embedding(100, WIDTH),
        "lstm": lambda: layers.LSTM(WIDTH, return_sequences=True),
        "gru": lambda: layers.GRU(WIDTH, return_sequences=True),
        "bidirectional": lambda: layers.Bidirectional(layers.LSTM(WIDTH, return_sequences=True)),
        "attention": lambda: layers.MultiHeadAttention(4, WIDTH // 4),
        "max_pool": lambda: layers.MaxPool2D(2),
        "avg_pool": lambda: layers.AveragePool2D(2),
        "global_avg_pool": lambda: layers.GlobalAveragePool2D(),
        "adaptive_avg_pool": lambda: layers.AdaptiveAveragePool2D(4),
        "adaptive_max_pool": lambda: layers.AdaptiveMaxPool2D(5),
        "flatten": lambda: layers.Flatten(),
        "sequential": lambda: small(),
        "sequential cnn": lambda: pb.Sequential(
            [
                layers.Conv2D(CHANNELS, 3, padding="same", activation="relu"),
                layers.BatchNormalization(),
                layers.MaxPool2D(2),
                layers.Flatten(),
                layers.Dense(CLASSES),
            ]
        ),
    }

    def small() -> Any:
        return pb.Sequential(
            [
                layers.Dense(FEATURES, activation="relu"),
                layers.Dense(FEATURES, activation="relu"),
                layers.Dense(CLASSES),
            ]
        )

    cases: Cases = {}

    def add_layer(name: str, batch: int) -> None:
        layer, x = makers[name](), pb.asarray(inputs_of(name, batch))
        arguments = (x, x, x) if name == "attention" else (x,)
        layer(*arguments, training=False)
        variables = layer.trainable_variables

        def graded() -> Any:
            sources = variables
            with pb.GradientTape() as tape:
                if name not in OF_INTEGERS:
                    tape.watch(x)
                    sources = [x, *sources]
                out = layer(*arguments, training=True)
            return tape.gradient(out, sources)

        cases[f"{name}, {batch}, f"] = lambda: layer(*arguments, training=False)
        if batch > 1 or "batch_norm" not in name:
            cases[f"{name}, {batch}, g"] = graded

    def add_loss(name: str, loss: Callable[..., Any], target: Any, prediction: Any) -> None:
        def graded() -> Any:
            with pb.GradientTape() as tape:
                tape.watch(prediction)
                value = loss(target, prediction)
            return tape.gradient(value, prediction)

        cases[f"{name}, f"] = lambda: loss(target, prediction)
        cases[f"{name}, g"] = graded

    for batch in BATCHES:
        for name in makers:
            add_layer(name, batch)
        of = {name: pb.asarray(value) for name, value in pairs(batch).items()}
        for name, function, target, prediction in (
            ("mse", losses.mean_squared_error, "targets", "scores"),
            ("mae", losses.mean_absolute_error, "targets", "scores"),
            ("huber", losses.huber, "targets", "scores"),
            ("bce of logits", losses.sigmoid_cross_entropy, "binary", "scores"),
            ("cross entropy", losses.sparse_softmax_cross_entropy, "labels", "scores"),
            ("cross entropy, dense", losses.softmax_cross_entropy, "one_hot", "scores"),
            ("cosine", losses.cosine_distance, "targets", "scores"),
            ("kl", losses.kl_divergence, "probabilities", "probabilities"),
            ("hinge", losses.hinge, "signs", "scores"),
            ("squared hinge", losses.squared_hinge, "signs", "scores"),
            ("focal", losses.sigmoid_focal_cross_entropy, "binary", "scores"),
            ("dice", losses.dice, "one_hot", "probabilities"),
            ("poisson", losses.poisson, "probabilities", "probabilities"),
            ("nll", losses.negative_log_likelihood, "labels", "scores"),
            ("triplet", lambda t, p: losses.triplet_margin(p, t, -t), "targets", "scores"),
        ):
            add_loss(f"{name}, {batch}", function, of[target], of[prediction])
        x, y = of["scores"], of["labels"]
        for name, metric, arguments in (
            ("accuracy", metrics.SparseCategoricalAccuracy(), (y, x)),
            ("binary accuracy", metrics.BinaryAccuracy(), (of["binary"], x)),
            ("mean", metrics.Mean(), (x,)),
            ("mean squared error", metrics.MeanSquaredError(), (of["targets"], x)),
        ):
            cases[f"{name}, {batch}, f"] = lambda m=metric, a=arguments: m(*a)

    for name, make in (
        ("sgd", lambda: optimizers.SGD(1e-4)),
        ("momentum", lambda: optimizers.SGD(1e-4, momentum=0.9)),
        ("adam", lambda: optimizers.Adam(1e-4)),
        ("adamw", lambda: optimizers.AdamW(1e-4)),
        ("clip_norm, sgd", lambda: optimizers.SGD(1e-4, clip_global_norm=1.0)),
    ):
        model = small()
        model(pb.asarray(normal(1, FEATURES)))
        moved = model.trainable_variables
        steps = [(pb.asarray(normal(*v.shape)), v) for v in moved]
        optimizer = make()
        cases[f"{name}, step"] = lambda o=optimizer, s=steps: o.apply_gradients(s)

    for name, make in (("sgd", lambda: optimizers.SGD(0.01)), ("adam", optimizers.Adam)):
        cases[f"train with {name}, 32"] = training(small(), make(), of)
    return cases


def training(model: Any, optimizer: Any, of: dict[str, Any]) -> Case:
    """A step of pullback's, with its loss and gradients."""
    import pullback as pb

    x, y = pb.asarray(normal(32, FEATURES)), of["labels"]

    def loss() -> Any:
        return pb.losses.sparse_softmax_cross_entropy(y, model(x, training=True))

    return lambda: optimizer.minimize(loss)


# ---------------------------------------------------------------------------------------------


def torch_cases() -> Cases:
    import torch
    from torch import nn
    from torch.nn import functional as F

    class Attention(nn.MultiheadAttention):
        def forward(self, *inputs: Any) -> Any:
            return super().forward(*inputs, need_weights=False)[0]

    class Recurrent(nn.Module):
        def __init__(self, inner: Any) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, x: Any) -> Any:
            return self.inner(x)[0]

    class GlobalPool(nn.Module):
        def forward(self, x: Any) -> Any:
            return x.mean((2, 3))

    class EinsumDense(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.kernel = nn.Parameter(torch.rand(WIDTH, 4, 4))
            self.bias = nn.Parameter(torch.zeros(4, 4))

        def forward(self, x: Any) -> Any:
            return torch.einsum("btd,dhk->bthk", x, self.kernel) + self.bias

    def focal(scores: Any, labels: Any) -> Any:
        loss = F.binary_cross_entropy_with_logits(scores, labels, reduction="none")
        right = torch.sigmoid(scores) * (2 * labels - 1) + 1 - labels
        return ((1 - right) ** 2 * loss).mean()

    def dice(predictions: Any, targets: Any) -> Any:
        both = (predictions * targets).sum(-1)
        return (1 - 2 * both / (predictions.sum(-1) + targets.sum(-1) + 1e-7)).mean()

    def small() -> Any:
        return nn.Sequential(
            nn.Linear(FEATURES, FEATURES), nn.ReLU(),
            nn.Linear(FEATURES, FEATURES), nn.ReLU(),
            nn.Linear(FEATURES, CLASSES),
        )  # fmt: skip

    makers: dict[str, Callable[[], Any]] = {
        "dense": lambda: nn.Linear(FEATURES, FEATURES),
        "dense relu": lambda: nn.Sequential(nn.Linear(FEATURES, FEATURES), nn.ReLU()),
        "conv1d": lambda: nn.Conv1d(CHANNELS, CHANNELS, 3, padding="same"),
        "conv2d": lambda: nn.Conv2d(CHANNELS, CHANNELS, 3, padding="same"),
        "conv2d_transpose": lambda: nn.ConvTranspose2d(CHANNELS, CHANNELS, 3),
        "depthwise_conv": lambda: nn.Conv2d(
            CHANNELS, CHANNELS, 3, padding="same", groups=CHANNELS
        ),
        "einsum_dense": EinsumDense,
        "time_distributed": lambda: nn.Linear(WIDTH, WIDTH),
        "batch_norm": lambda: nn.BatchNorm1d(FEATURES),
        "batch_norm 2d": lambda: nn.BatchNorm2d(CHANNELS),
        "layer_norm": lambda: nn.LayerNorm(FEATURES),
        "group_norm": lambda: nn.GroupNorm(4, CHANNELS),
        "instance_norm": lambda: nn.InstanceNorm2d(CHANNELS, affine=True),
        "rms_norm": lambda: nn.RMSNorm(FEATURES),
        "dropout": lambda: nn.Dropout(0.5),
        "embedding": lambda: nn.Embedding(100, WIDTH),
        "lstm": lambda: Recurrent(nn.LSTM(CHANNELS, WIDTH, batch_first=True)),
        "gru": lambda: Recurrent(nn.GRU(CHANNELS, WIDTH, batch_first=True)),
        "bidirectional": lambda: Recurrent(
            nn.LSTM(CHANNELS, WIDTH, batch_first=True, bidirectional=True)
        ),
        "attention": lambda: Attention(WIDTH, 4, batch_first=True),
        "max_pool": lambda: nn.MaxPool2d(2),
        "avg_pool": lambda: nn.AvgPool2d(2),
        "global_avg_pool": GlobalPool,
        "adaptive_avg_pool": lambda: nn.AdaptiveAvgPool2d(4),
        "adaptive_max_pool": lambda: nn.AdaptiveMaxPool2d(5),
        "flatten": nn.Flatten,
        "sequential": small,
        "sequential cnn": lambda: nn.Sequential(
            nn.Conv2d(CHANNELS, CHANNELS, 3, padding="same"), nn.ReLU(),
            nn.BatchNorm2d(CHANNELS), nn.MaxPool2d(2), nn.Flatten(),
            nn.Linear(CHANNELS * (WIDTH // 2) ** 2, CLASSES),
        ),
    }  # fmt: skip

    cases: Cases = {}

    def add_layer(name: str, batch: int) -> None:
        array = inputs_of(name, batch)
        if len(INPUTS[name]) > 1 and name not in SEQUENCES:
            array = np.ascontiguousarray(np.moveaxis(array, -1, 1))  # channels first
        layer, trained, plain = makers[name]().eval(), makers[name](), torch.from_numpy(array)
        sources = [*trained.parameters()]
        x = plain
        if name not in OF_INTEGERS:
            x = plain.clone().requires_grad_()
            sources = [x, *sources]
        count = 3 if name == "attention" else 1
        with torch.no_grad():
            g = torch.ones_like(layer(*[plain] * count))

        def forward() -> Any:
            with torch.no_grad():
                return layer(*[plain] * count)

        cases[f"{name}, {batch}, f"] = forward
        if batch > 1 or "batch_norm" not in name:
            cases[f"{name}, {batch}, g"] = lambda: torch.autograd.grad(
                trained(*[x] * count), sources, g
            )

    def add_loss(name: str, loss: Callable[..., Any], target: Any, prediction: Any) -> None:
        watched = prediction.clone().requires_grad_()
        cases[f"{name}, f"] = lambda: loss(prediction, target)
        cases[f"{name}, g"] = lambda: torch.autograd.grad(loss(watched, target), watched)

    def add_metric(name: str, counted: Callable[[], Any]) -> None:
        total = torch.zeros((), dtype=torch.float64)
        cases[name] = lambda: total.add_(counted())

    for batch in BATCHES:
        for name in makers:
            add_layer(name, batch)
        of = {name: torch.from_numpy(value) for name, value in pairs(batch).items()}
        of["labels"] = of["labels"].long()
        for name, function, target, prediction in (
            ("mse", nn.MSELoss(), "targets", "scores"),
            ("mae", nn.L1Loss(), "targets", "scores"),
            ("huber", nn.HuberLoss(), "targets", "scores"),
            ("bce of logits", nn.BCEWithLogitsLoss(), "binary", "scores"),
            ("cross entropy", nn.CrossEntropyLoss(), "labels", "scores"),
            ("cross entropy, dense", nn.CrossEntropyLoss(), "one_hot", "scores"),
            ("cosine", lambda p, t: (1 - F.cosine_similarity(p, t)).mean(), "targets", "scores"),
            (
                "kl",
                lambda p, t: F.kl_div(p.log(), t, reduction="batchmean"),
                "probabilities",
                "probabilities",
            ),
            ("hinge", lambda p, t: F.relu(1 - t * p).mean(), "signs", "scores"),
            ("squared hinge", lambda p, t: (F.relu(1 - t * p) ** 2).mean(), "signs", "scores"),
            ("focal", focal, "binary", "scores"),
            ("dice", dice, "one_hot", "probabilities"),
            ("poisson", nn.PoissonNLLLoss(log_input=False), "probabilities", "probabilities"),
            ("nll", nn.NLLLoss(), "labels", "scores"),
            ("triplet", lambda p, t: F.triplet_margin_loss(p, t, -t), "targets", "scores"),
        ):
            add_loss(f"{name}, {batch}", function, of[target], of[prediction])
        x, y = of["scores"], of["labels"]
        # PyTorch has no metrics: the same sums by hand, kept on the device.
        for name, counted in (
            ("accuracy", lambda x=x, y=y: (x.argmax(-1) == y).sum()),
            ("binary accuracy", lambda x=x, y=of["binary"]: ((x > 0.5) == (y > 0.5)).sum()),
            ("mean", lambda x=x: x.double().sum()),
            ("mean squared error", lambda x=x, y=of["targets"]: (x - y).square().double().sum()),
        ):
            add_metric(f"{name}, {batch}, f", counted)

    def stepping(make: Callable[..., Any], limit: float | None = None) -> Case:
        model = small()
        parameters = [*model.parameters()]
        for parameter in parameters:
            parameter.grad = torch.from_numpy(normal(*parameter.shape))
        optimizer = make(parameters)

        def step() -> None:
            if limit is not None:
                nn.utils.clip_grad_norm_(parameters, limit)
            optimizer.step()

        return step

    optim = torch.optim
    cases["sgd, step"] = stepping(lambda p: optim.SGD(p, 1e-4))
    cases["momentum, step"] = stepping(lambda p: optim.SGD(p, 1e-4, momentum=0.9))
    cases["adam, step"] = stepping(lambda p: optim.Adam(p, 1e-4))
    cases["adamw, step"] = stepping(lambda p: optim.AdamW(p, 1e-4))
    cases["clip_norm, sgd, step"] = stepping(lambda p: optim.SGD(p, 1e-4), 1.0)

    def train(make: Callable[..., Any]) -> Case:
        model, x, y = small(), torch.from_numpy(normal(32, FEATURES)), of["labels"]
        optimizer, loss = make(model.parameters()), nn.CrossEntropyLoss()

        def step() -> Any:
            optimizer.zero_grad()
            value = loss(model(x), y)
            value.backward()
            optimizer.step()
            return value

        return step

    cases["train with sgd, 32"] = train(lambda p: optim.SGD(p, 0.01))
    cases["train with adam, 32"] = train(optim.Adam)
    return cases


BUILDERS = {"pullback": pullback_cases, "torch": torch_cases}
