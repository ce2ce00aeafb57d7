"""Patterns of random programs beside plain ops: batches, models, masks, prints, remat.

`random_programs.py` puts these patterns among its own. `MADE` has the objects that a pattern names;
a world makes those whose name its program has.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pullback as pb


def lines(text: str) -> tuple[str, ...]:
    """The lines of a text without their indentation."""
    return tuple(line.strip() for line in text.strip().splitlines())


#: Expressions of one tensor.
ANY = lines(
    """
    pb.vmap(lambda r: r * cfg.sub.k, axis_size=2, in_axes=None)({a})[1]
    pb.associative_scan(pb.maximum, {a}, -1, reverse=cfg.flag) if {a}.ndim and {a}.size else {a}
    pb.remat(custom)({a})
    pb.remat(inner)({a})
    pb.remat(lambda z: pb.tanh(z * v1) + gen.uniform(z.shape))({a})
    pb.remat(lambda z: layer(z) + norm(z))({a})
    pb.remat(lambda z: {{'k': z * d['k']}})({a})['k']
    pb.remat(lambda z: pb.cond(pb.sum(z) > 0, lambda: z * 2.0, lambda: again(z) * 1.0))({a})
    pb.grad(lambda z: pb.sum(again(pb.remat(box)(z)) ** 2))({a} * 1.0)
    pb.remat(pb.remat(lambda z: pb.sin(z) * SCALE))({a})
    pb.cond(pb.sum({a}) > 0, lambda: custom({a}) * cfg.rate, lambda: other_custom({a}) * 1.0)
    pb.grad(lambda z: pb.sum(pb.switch(num % 2, [lambda: custom(z) * z, lambda: z])))({a} * 1.0)
    pb.scan(lambda c, _: (custom(c) * 0.5, pb.sum(other_custom(c))), {a} * 1.0, length=3)[0]
    pb.remat(nested)({a})
    masking(series({a})).values.mean() + {a}
    reader(masking(series({a}))).sum() + {a}
    reader(series({a}), mask=pb.abs(series({a}))[..., 0] > 0.5).mean() * {a}
    pb.sum(dense(masking(series({a}))).values) * {a}
    pb.sum(words(pb.clip(pb.abs(series({a})[..., 0]), 0, 4).astype('int32')).values) + {a}
    pb.sum(reader(words(pb.clip(pb.abs(series({a})[..., 0]), 0, 4).astype('int32')))) * {a}
    pb.mean(attention(series({a}))) + {a}
    pb.mean(attention(series({a}), training=cfg.flag)) + {a}
    pb.sum(pb.tanh(pb.rotary(series({a}), offset=1))) + {a}
    pb.rotary(series({a}), positions=pb.arange(4) * num, interleaved=cfg.flag).mean() * {a}
    {a} * len(pb.eval_shape(lambda z: pb.stack([z, z * cfg.rate]), {a}).shape)
    {a} + pb.eval_shape(model, rows({a})).shape[-1]
    {a} * pb.eval_shape(lambda z: noise(z) + pb.random.normal(z.shape), {a}).ndim
    pb.sum(model(rows({a}))) * {a}
    pb.mean(pair((rows({a}), rows({a}) * 0.5))['b']) + {a}
    pb.mean(pair((rows({a}), rows({a})))['a'][0]) + {a}
    pb.sum(again_model(rows({a}), training=cfg.flag)) + {a}
    pb.mean(averaged(rows({a}), training=cfg.flag)) * {a}
    pb.mean(spectral(rows({a}), training=cfg.flag)) * {a}
    pb.mean(penalty(rows({a}))) + {a}
    pb.functional_call(model, [w * 0.5 for w in weights_of(model)], rows({a})).mean() + {a}
    {a} * len(model.trainable_variables)
    sum([pb.sum(w * w) for w in averaged.variables], {a} * 0)
    pb.mean(pb.functional_call(averaged, {{}}, rows({a}), training=True)) + {a}
    pb.vmap(model)(pb.stack([rows({a}), rows({a}) * 2])).mean() + {a}
    pb.grad(lambda z: pb.sum(pb.tanh(model(rows(z)))))({a} * 1.0)
    pb.jvp(box, [{a} * 1.0], [pb.cos({a} * 1.0)])[1]
    pb.linearize(lambda z: pb.tanh(z) * cfg.rate, {a} * 1.0)[1]({a} * 0.5 + 0.0)
    pb.hvp(lambda z: pb.sum(pb.tanh(z) * z * cfg.rate), {a} * 1.0, pb.sin({a} * 1.0))
    forward({a} * 1.0)
    pb.grad(lambda z: pb.sum(forward(z)))({a} * 1.0)
    pb.jvp(forward, [{a} * 1.0], [{a} * 1.0])[1]
    pb.sum(root(1.0, pb.mean(pb.abs({a} * 1.0)) + 1.0)) + {a}
    pb.tree.map(lambda z: z * cfg.rate, {{'k': {a}, 'n': (2.0, {a})}})['n'][1]
    sum(pb.tree.leaves([{a}, {{'k': {a} * d['k']}}]))
    nested({a})
    counter.step({a})
    pb.clip_by_global_norm([{a} * 1.0, {a} * 2.0], abs(cfg.rate) + 0.5)[0][0]
    pb.take({a}, pb.asarray([0, -1, 0]), axis=-1).sum() + {a} if {a}.ndim and {a}.shape[-1] else {a}
    {a}[..., :num] if {a}.ndim and type(num) is int else {a}
    {a} * pb.one_hot(pb.asarray(1), 3) if {a}.shape[-1:] == (3,) else {a}
    np.tanh({a}) * 2
    np.where({a} > 0, {a}, cfg.rate)
    pb.switch(pb.asarray(n % 2), [lambda: {a} * 2.0, lambda: {a} * 3.0, lambda: again({a}) * 1.0])
    """
)
#: Of some axes.
AXES = lines(
    """
    pb.vmap(lambda r: r * pb.sum(r) + v1)({a})
    pb.vmap(lambda r: pb.tanh(r) * cfg.rate, -1, -1)({a})
    pb.vmap(pb.grad(lambda z: pb.sum(pb.tanh(z) * cfg.rate)))({a} * 1.0)
    pb.grad(lambda z: pb.sum(pb.vmap(lambda r: r * pb.sum(r * v1))(z)))({a} * 1.0)
    pb.vmap(custom)({a})
    pb.vmap(other_custom)({a})
    pb.vmap(noise)({a})
    pb.vmap(again)({a})
    pb.vmap(lambda r: r + pb.random.normal(r.shape))({a})
    pb.vmap(lambda r: r + pb.random.uniform(r.shape), randomness='same')({a})
    pb.vmap(layer)({a})
    pb.vmap(lambda r: pb.cond(pb.sum(r) > 0, lambda: r * 2, lambda: r - lst[0] * 2))({a})
    pb.vmap(lambda r: pb.fori_loop(0, 2, lambda i, s: s * 0.5 + r, r * 1.0))({a})
    pb.cond(pb.sum({a}) > 0, lambda: pb.vmap(box)({a}) * 1.0, lambda: {a} * 2.0)
    pb.vmap(nested)({a})
    pb.segment_max({a}, pb.arange({a}.shape[0]) % 2, 3)
    pb.segment_min({a} * 1.0, pb.arange({a}.shape[0]) % 2, 2)
    pb.segment_mean({a}, pb.arange({a}.shape[0]) // 2, 3)
    pb.segment_softmax({a} * 1.0, pb.arange({a}.shape[0]) % 2, 2)
    pb.segment_sum({a}, pb.asarray(segments)[: {a}.shape[0]], 3)
    pb.vmap(lambda r: each_model(model, r))({a}).mean() + {a}
    pb.sort({a})
    sum({a})
    pb.einsum('...i,...i->...', {a}, {a})
    """
)
#: Of a first axis that is not empty.
FILLED = lines(
    """
    pb.map(box, {a})
    pb.map(lambda r: r * v1 + cfg.rate, {a}, batch_size=2)
    pb.associative_scan(lambda p, q: p * 0.5 + q * cfg.rate, {a})
    pb.scatter_add({a}, pb.asarray([[0]]), {a}[:1])
    """
)
#: Of two axes.
TABLES = lines(
    """
    pb.vmap(lambda r: table * pb.mean(r) + v0)({a})
    pb.vmap(pb.vmap(box))({a})
    pb.vmap(lambda r: pb.scan(lambda c, e: (c * 0.5 + e, c), pb.mean(r), r)[1])({a})
    """
)
#: Of one axis.
VECTORS = lines(
    """
    pb.vmap(lambda r, q: helper(r, q), in_axes=(0, None))({a}, {a})
    pb.segment_max({a}, (pb.abs(pb.sum({a} * 0) + pb.arange({a}.shape[0]))).astype('int32') % 3, 3)
    {a}[pb.argsort({a})]
    """
)
UNARY = (
    *ANY,
    *(f"{text} if {{a}}.ndim else {{a}}" for text in AXES),
    *(f"{text} if {{a}}.ndim and {{a}}.shape[0] else {{a}}" for text in FILLED),
    *(f"{text} if {{a}}.ndim == 2 else {{a}}" for text in TABLES),
    *(f"{text} if {{a}}.ndim == 1 else {{a}}" for text in VECTORS),
)

STATEMENTS = (
    "pb.print('value', {t})",
    "pb.print({t}, n, cfg.rate, sep=cfg.mode, end=';')",
    "pb.print([{s}, {{'k': {t}}}])",
    "pb.py_function(note, {s}, n)",
    "if cfg.flag:\n    pb.py_function(note, {t}, 'flag')\n    pb.print('flag')",
    "pb.py_function(strict_note, {s})",
    "penalty(rows({t}))\n{t} = {t} + sum(penalty.losses)",
    "cfg.count += 1\n{t} = {t} * cfg.count",
    "cfg.count += 1",
    "cfg.turn = not cfg.turn\n{t} = {t} * 2 if cfg.turn else {t}",
    "cfg.count = (cfg.count + 1) % 3\n{t} = {t} + cfg.count",
    "lst.append(lst.pop(0)) if lst else None",
    "d['calls'] = d.get('calls', 0) + 1",
    "with pb.GradientTape() as tape:\n    loss = pb.mean(model(rows({t})) ** 2)\n"
    "trainer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), "
    "model.trainable_variables))",
    "with pb.GradientTape() as tape:\n    loss = pb.mean(averaged(rows({t}), training=True) ** 2)\n"
    "changes = tape.gradient(loss, averaged.trainable_variables)\n"
    "changes, size = pb.clip_by_global_norm(changes, 1.0)\n"
    "trainer.apply_gradients(zip(changes, averaged.trainable_variables))\n{t} = {t} * 1 + size",
    "with pb.GradientTape() as tape:\n    loss = scaler.scaled(pb.sum(v1 * {s}))\n"
    "scaler.apply_gradients([(tape.gradient(loss, v1), v1)])",
    "with pb.GradientTape() as tape:\n    with tape.stop_recording():\n        kept = v0 * 2\n"
    "    loss = pb.sum(v0 * kept)\n{t} = {t} * 1 + pb.sum(tape.gradient(loss, v0))",
    "with pb.GradientTape(persistent=True) as tape:\n    first = pb.sum(v0 * v0)\n"
    "    second = pb.sum(again(v0 * 1) * v1)\n"
    "{t} = {t} + tape.gradient(first, v1, unconnected_gradients='zero')\n"
    "{t} = {t} + pb.sum(tape.gradient(second, v0))",
    "with pb.GradientTape() as outer:\n    with pb.GradientTape() as tape:\n"
    "        loss = pb.sum(pb.tanh(v0) * {s})\n    first = tape.gradient(loss, v0)\n"
    "    norm2 = pb.sum(first ** 2)\n{t} = {t} * 1 + pb.sum(outer.gradient(norm2, v0))",
    "model.trainable_variables[0].assign_add(pb.ones_like(model.trainable_variables[0]) * {s})",
    "drawn = pb.random.permutation(4)\n{t} = {t} + drawn[0]",
    "def local(z, by=cfg.rate):\n    return z * by + d['k']\n"
    "{t} = pb.vmap(local)({t}) if {t}.ndim else local({t})",
    "class Local:\n    k = cfg.shift\n    def __call__(self, z):\n        return z * self.k\n"
    "{t} = Local()({t})",
    "try:\n    pb.print('tried')\n    {t} = {t} * d['missing']\n"
    "except KeyError:\n    pb.print('missing')",
    "perplexity(pb.asarray([0] * rows({t}).shape[0]), rows({t}))",
    "{t} = pb.vmap(lambda r: r * cfg.rate if cfg.flag else r)({t}) if {t}.ndim else {t}",
    "for name, value in sorted(d.items(), key=lambda item: item[0]):\n"
    "    if isinstance(value, float):\n        {t} = {t} * value",
)

RESULTS = (
    "pb.layers.Masked({t}, {t} > 0)",
    "pb.tree.map(lambda z: z * 2, [{t}, ({t}, None)])",
    "pb.eval_shape(lambda z: z, {t}), {t}",
)

HELP = """
import sys

def weights_of(model):
    return model.trainable_variables

def each_model(model, r):
    return pb.functional_call(model, [w * pb.sum(r) for w in weights_of(model)], rows(r))

def rows(t):
    t = pb.where(pb.abs(t) < 50, t, 0).astype('float32')
    is_table = t.ndim == 2 and t.shape[1] == 3 and t.shape[0]
    return t if is_table else pb.ones((2, 3)) * pb.sum(t) * 0.25

def series(t):
    return pb.stack([rows(t) * k for k in (1.0, 0.0, -0.5, 0.25)], axis=1)[..., :2]

def note(value, what):
    notes.append((what, value))

def strict_note(value):
    if value.item() > 4:
        raise ValueError('too large')
    notes.append(value)

@pb.custom_jvp
def forward(t):
    y = pb.tanh(t * cfg.sub.k)
    return y, lambda dt: (1 - y * y) * dt * cfg.sub.k

def newton(f, x, a):
    for _ in range(3):
        x = x - f(x, a) / pb.grad(f)(x, a)
    return x

root = pb.custom_root(lambda x, a: x * x - a * cfg.sub.k, newton)

def nested_plain(t):
    return pb.tanh(t * cfg.rate) + v1 * SCALE

class Counter:
    def __init__(self):
        self.by, self.calls = 2.0, 0
    def step(self, t):
        return t * self.by + v1
"""

#: Changes between two calls of what these patterns use; each looks for the name first.
CHANGES: tuple[Callable[[dict[str, Any], random.Random], None], ...] = (
    lambda w, r: w["segments"].__setitem__(r.randrange(5), r.randrange(3)),
    lambda w, r: setattr(w["cfg"], "count", r.choice([0, 3])),
    lambda w, r: w["d"].pop("calls", None),
    lambda w, r: w.__setitem__("managed", r.choice([w["scale"], w["custom"]])),
    lambda w, r: w.__setitem__("again", pb.remat(r.choice([w["scale"], w["managed"]]))),
    lambda w, r: change(w, "counter", "by", r.choice([2, 2.0, 4.0])),
    lambda w, r: change(w, "masking", "mask_value", r.choice([0.0, 1.0])),
    lambda w, r: setattr(w["averaged"].layers[1], "momentum", 0.5) if "averaged" in w else None,
    lambda w, r: change(w, "penalty", "l2", r.choice([0.1, 0.5])),
    lambda w, r: first_of(w, "model", lambda v: v.assign(v * 0.5)),
    lambda w, r: first_of(w, "averaged", lambda v: v.assign(v + 0.25)),
    lambda w, r: change(w, "model", "trainable", r.random() < 0.5),
    lambda w, r: change(w, "trainer", "learning_rate", r.choice([0.01, 0.1])),
    lambda w, r: w["perplexity"].reset() if "perplexity" in w else None,
)  # fmt: skip


def change(w: dict[str, Any], name: str, attribute: str, value: object) -> None:
    """Sets an attribute of an object that the world has."""
    if name in w:
        setattr(w[name], attribute, value)


def first_of(w: dict[str, Any], name: str, change: Callable[[pb.Variable], None]) -> None:
    """Changes the first variable of a model that the world has."""
    if name in w and w[name].variables:
        change(w[name].variables[0])


def _model() -> pb.Model:
    x = pb.Input((3,))
    hidden = pb.layers.Dense(4, activation="tanh")(x)
    return pb.Model(x, pb.layers.Dense(3)(hidden) + x)


def _pair() -> pb.Model:
    x, y = pb.Input((3,)), pb.Input((3,))
    shared = pb.layers.Dense(2)
    added = pb.layers.Add()([shared(x), shared(y)])
    return pb.Model((x, y), {"a": [added, shared(x)], "b": pb.tanh(added) * 0.5})


def _averaged() -> pb.Model:
    return pb.Sequential([pb.layers.Dense(3), pb.layers.BatchNormalization()])


TRAINERS = ("SGD", "Adam", "AdamW", "Lion", "Adagrad", "Adadelta", "Adamax", "Nadam", "LAMB",
            "Adafactor", "RMSprop")  # fmt: skip

#: The objects by name: each is made of the seed of the world.
MADE: dict[str, Callable[[int], Any]] = {
    "model": lambda seed: _model(),
    "pair": lambda seed: _pair(),
    "again_model": lambda seed: pb.Sequential(
        [pb.layers.Dense(3, activation="tanh"), pb.layers.Dropout(0.25), pb.layers.Dense(2)],
        remat=True,
    ),
    "averaged": lambda seed: _averaged(),
    "spectral": lambda seed: pb.layers.SpectralNormalization(pb.layers.Dense(2)),
    "penalty": lambda seed: pb.layers.ActivityRegularization(l2=0.1),
    "masking": lambda seed: pb.layers.Masking(),
    "words": lambda seed: pb.layers.Embedding(5, 2, mask_zero=True),
    "dense": lambda seed: pb.layers.Dense(2),
    "attention": lambda seed: pb.layers.MultiHeadAttention(
        1, 2, dropout=0.25 * (seed % 2), rotary=pb.layers.RotaryEmbedding() if seed % 3 else None
    ),
    "reader": lambda seed: (
        pb.layers.LSTM, pb.layers.GRU, pb.layers.SimpleRNN)[seed % 3](2),
    "trainer": lambda seed: getattr(pb.optimizers, TRAINERS[seed % len(TRAINERS)])(0.05),
    "scaler": lambda seed: pb.optimizers.LossScale(pb.optimizers.SGD(0.1)),
    "perplexity": lambda seed: pb.metrics.Perplexity(),
}  # fmt: skip
