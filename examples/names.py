"""Learns how names are spelt, from a list of them, and makes up new ones.

    uv run examples/names.py

An LSTM reads a name character by character, and says after each which may come next. Then it writes
names of its own: what it says is drawn from, and read in turn. The list, of 1025 names, is
data/pokemon_names.txt. Names that are on it are not shown.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from tqdm import tqdm

import pullback as pb

NAMES = Path(__file__).parent / "data" / "pokemon_names.txt"
# The first character stands for both the beginning and the end of a name.
BORDER = "\n"
BATCH_SIZE = 64
HELD_OUT = 100


class Speller(pb.Model):
    """From characters, by number, to the logits of those that follow."""

    def __init__(self, characters: int, units: int) -> None:
        super().__init__()
        self.embedding = pb.layers.Embedding(characters, 32)
        self.lstm = pb.layers.LSTM(units, return_sequences=True, return_state=True)
        self.out = pb.layers.Dense(characters)

    def call(self, ids, state=None):
        y, *state = self.lstm(self.embedding(ids), initial_state=state)
        return self.out(y), state


def encode(names: list[str], alphabet: str):
    """Inputs, targets, and which of them are there, each (names, time)."""
    time = max(map(len, names)) + 1
    inputs = np.zeros((len(names), time), np.int32)
    targets = np.zeros((len(names), time), np.int32)
    present = np.zeros((len(names), time), np.float32)
    for row, name in enumerate(names):
        ids = [alphabet.index(character) for character in name]
        inputs[row, 1 : len(ids) + 1] = ids
        targets[row, : len(ids)] = ids
        present[row, : len(ids) + 1] = 1
    return inputs, targets, present


def loss_of(model, inputs, targets, present):
    """The mean cross entropy of a character."""
    logits, _ = model(inputs)
    total = pb.losses.sparse_softmax_cross_entropy(targets, logits, present, reduction="sum")
    return total / pb.sum(present)


def train(model, names: list[str], alphabet: str, epochs: int, seed: int) -> None:
    order = np.random.default_rng(seed).permutation(len(names))
    shuffled = [names[i] for i in order]
    held_out = encode(shuffled[:HELD_OUT], alphabet)
    dataset = (
        pb.data.Dataset.from_tensor_slices(encode(shuffled[HELD_OUT:], alphabet))
        .shuffle(seed=seed)
        .batch(BATCH_SIZE)
    )
    optimizer = pb.optimizers.Adam(0.006)
    with tqdm(total=epochs * len(dataset), desc="training") as bar:
        for _ in range(epochs):
            mean = pb.metrics.Mean("loss")
            for batch in dataset:
                mean(optimizer.minimize(lambda batch=batch: loss_of(model, *batch)))
                bar.update()
            unseen = float(loss_of(model, *held_out))
            bar.set_postfix(loss=f"{mean.result():.3f}", unseen=f"{unseen:.3f}")
    print(f"loss of a character: {mean.result():.3f}; in names not trained on: {unseen:.3f}")


def write(model, alphabet: str, count: int, temperature: float, generator) -> list[str]:
    """Names drawn from the model, all at once. A low temperature keeps to what is likely."""
    written = np.zeros((count, 0), np.int32)
    ids, state = pb.zeros((count, 1), dtype="int32"), None
    for _ in range(20):
        logits, state = model(ids, state)
        ids = generator.categorical(logits / temperature)
        written = np.concatenate([written, ids.numpy()], axis=1)
    lines = ["".join(alphabet[i] for i in row) for row in written]
    return [line.split(BORDER)[0] for line in lines if BORDER in line]


def new_names(model, known: list[str], alphabet: str, count: int, options) -> list[str]:
    generator = pb.Generator(options.seed + 1)
    seen = {name.lower() for name in known}
    found = []
    for _ in range(20):
        for name in write(model, alphabet, 2 * count, options.temperature, generator):
            if len(name) > 2 and name.lower() not in seen and len(found) < count:
                seen.add(name.lower())
                found.append(name)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=18)
    parser.add_argument("--units", type=int, default=96, help="of the LSTM")
    parser.add_argument("--count", type=int, default=30, help="how many names to write")
    parser.add_argument("--temperature", type=float, default=0.7)
    parser.add_argument("--names", type=Path, default=NAMES, help="a file with a name on each line")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", help="such as cpu or gpu:0; the first GPU if there is one")
    options = parser.parse_args()
    try:
        pb.set_default_device(options.device)
    except pb.errors.PullbackError as error:
        parser.error(str(error))
    pb.random.seed(options.seed)

    names = options.names.read_text(encoding="utf-8").split("\n")
    names = [name.strip() for name in names if name.strip()]
    alphabet = BORDER + "".join(sorted(set("".join(names))))
    model = Speller(len(alphabet), options.units)
    train(model, names, alphabet, options.epochs, options.seed)
    found = new_names(model, names, alphabet, options.count, options)
    print()
    width = 2 + max(map(len, found), default=0)
    for row in range(0, len(found), 5):
        print("".join(f"{name:{width}}" for name in found[row : row + 5]).rstrip())


if __name__ == "__main__":
    main()
