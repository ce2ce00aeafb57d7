"""GPT: learns characters, and writes with a cache of keys and values.

    uv run examples/gallery/gpt.py
    uv run examples/gallery/gpt.py --steps 3000 --prompt "A tensor"

A small decoder-only transformer (Radford et al., 2018) reads the pages of this
documentation character by character. After half a minute it spells, and makes up words;
after some minutes it writes sentences without sense. What it has learned is held
against tables: the entropy of a character, and of a character after the one before it.
A model that has only learned which letters are frequent does not get below the first,
and one that sees a single letter does not get below the second.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import pullback as pb

DOCS = Path(__file__).parents[2] / "docs"
LENGTH = 48  # characters that the model sees


# %% The text
# All pages as one array of numbers of characters. The last tenth is for testing.
def read_text() -> tuple[np.ndarray, str]:
    text = "\n".join(path.read_text("utf-8") for path in sorted(DOCS.glob("*.md")))
    letters, ids = np.unique(list(text), return_inverse=True)
    return ids.astype(np.int32), "".join(letters)


def entropies(ids: np.ndarray, size: int) -> tuple[float, float]:
    """Of a character, and of one after the character before it, in nats."""
    pairs = np.zeros((size, size))
    np.add.at(pairs, (ids[:-1], ids[1:]), 1.0)
    joint, single = (p[p > 0] / p.sum() for p in (pairs, pairs.sum(1)))
    one, two = (-float(np.sum(p * np.log(p))) for p in (single, joint))
    return one, two - one


# %% The model
# Attention is written out here, because generation keeps its keys and values. `call`
# works on whole sequences, for training. `step` works on one character: it writes its
# keys and values to their place in the cache, which has room for all characters, and so
# one shape at every step.
class Block(pb.layers.Layer):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = (pb.layers.LayerNormalization() for _ in range(2))
        self.qkv, self.out = pb.layers.Dense(3 * width), pb.layers.Dense(width)
        self.wide = pb.layers.Dense(4 * width, activation="gelu")
        self.narrow = pb.layers.Dense(width)

    def split(self, x):
        """Queries, keys and values, each (batch, heads, time, width / heads)."""
        batch, time, _ = x.shape
        parts = self.qkv(self.norm1(x)).reshape(batch, time, 3, self.heads, -1)
        return pb.unstack(pb.permute_dims(parts, (2, 0, 3, 1, 4)))

    def merge(self, x, heads):
        x = x + self.out(pb.permute_dims(heads, (0, 2, 1, 3)).reshape(x.shape))
        return x + self.narrow(self.wide(self.norm2(x)))

    def call(self, x):
        q, k, v = self.split(x)
        return self.merge(x, pb.scaled_dot_product_attention(q, k, v, is_causal=True))

    def step(self, x, cache, position):
        q, *new = self.split(x)
        places = pb.arange(LENGTH)
        here = (places == position)[:, None]
        keys, values = (
            pb.where(here, n, old) for n, old in zip(new, cache, strict=True)
        )
        seen = places <= position
        y = pb.scaled_dot_product_attention(q, keys, values, seen[None, :])
        return self.merge(x, y), (keys, values)


class GPT(pb.Model):
    def __init__(self, size: int, width: int = 64, heads: int = 4, blocks: int = 2):
        super().__init__()
        self.heads, self.width = heads, width
        self.letters = pb.layers.Embedding(size, width)
        self.places = pb.layers.Embedding(LENGTH, width)
        self.blocks = [Block(width, heads) for _ in range(blocks)]
        self.norm, self.out = pb.layers.LayerNormalization(), pb.layers.Dense(size)

    def call(self, ids):
        x = self.letters(ids) + self.places(pb.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.out(self.norm(x))

    def step(self, ids, caches, position):
        x = self.letters(ids) + self.places(position)
        for i, block in enumerate(self.blocks):
            x, caches[i] = block.step(x, caches[i], position)
        return self.out(self.norm(x))[:, 0], caches

    def empty(self, batch: int) -> list:
        shape = (batch, self.heads, LENGTH, self.width // self.heads)
        return [(pb.zeros(shape), pb.zeros(shape)) for _ in self.blocks]


# %% Training
# The step is captured: from the third call on it is one program.
def train(model: GPT, ids: np.ndarray, steps: int, seed: int, batch: int = 8) -> list:
    rng = np.random.default_rng(seed)
    rate = pb.optimizers.schedules.cosine_decay(5e-3, steps, warmup_steps=20)
    optimizer = pb.optimizers.AdamW(rate, weight_decay=0.1, clip_global_norm=1.0)

    @pb.function
    def step(rows):
        with pb.GradientTape() as tape:
            loss = loss_of(model, rows)
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return loss

    return [float(step(rows(ids, rng, batch))) for _ in range(steps)]


def rows(ids: np.ndarray, rng: np.random.Generator, count: int) -> np.ndarray:
    """Pieces of the text that begin anywhere."""
    starts = rng.integers(0, len(ids) - LENGTH - 1, count)
    return ids[starts[:, None] + np.arange(LENGTH + 1)]


def loss_of(model: GPT, rows):
    logits = model(rows[:, :-1])
    return pb.losses.sparse_softmax_cross_entropy(rows[:, 1:], logits)


# %% Writing
# A step of the model, and the draw of a character from what it expects, are a program
# too. The cache goes in and out of it. The position is a tensor: as a Python number it
# would make a program for each place.
def write(model: GPT, prompt: list[int], count: int, seed: int) -> np.ndarray:
    """Texts that begin so, (count, LENGTH), all at once."""
    generator = pb.Generator(seed)

    @pb.function
    def step(ids, caches, position):
        logits, caches = model.step(ids, caches, position)
        return generator.categorical(logits / 0.7)[:, None], caches

    ids, caches = pb.full((count, 1), prompt[0], dtype="int32"), model.empty(count)
    written = [ids]
    for i in range(LENGTH - 1):
        ids, caches = step(ids, caches, pb.asarray(i))
        if i + 1 < len(prompt):
            ids = pb.full((count, 1), prompt[i + 1], dtype="int32")
        written.append(ids)
    return pb.concat(written, axis=1).numpy()


# %%
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--prompt", default="The ")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plot", type=Path, help="a file to draw the losses into")
    options = parser.parse_args()
    pb.random.seed(options.seed)

    ids, letters = read_text()
    training, held_out = np.split(ids, [len(ids) * 9 // 10])
    one, two = entropies(training, len(letters))
    print(f"entropy of a character: {one:.3f}; after the one before it: {two:.3f}")
    model = GPT(len(letters))
    losses = train(model, training, options.steps, options.seed)
    test = rows(held_out, np.random.default_rng(1), 64)
    print(f"loss in text not trained on: {float(loss_of(model, test)):.3f}")

    prompt = [letters.index(letter) for letter in options.prompt]
    written = write(model, prompt, 4, options.seed)
    for row in written:
        print(repr("".join(letters[i] for i in row)))
    if options.plot:
        draw(options.plot, losses, one, two)


def draw(path: Path, losses: list, one: float, two: float) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 3.2), layout="constrained")
    axes.plot(losses, lw=1)
    for value, name in ((one, "a character"), (two, "after the one before it")):
        axes.axhline(value, color="grey", lw=0.8)
        axes.text(len(losses), value, f"entropy {name}", ha="right", va="bottom")
    axes.set(xlabel="step", ylabel="loss of a character")
    figure.savefig(path, dpi=80)


if __name__ == "__main__":
    main()
