"""Trains a small transformer on very short stories, and has it tell new ones.

    uv run examples/transformer.py
    uv run examples/transformer.py --prompt "Anna has nine eggs. She loses four."

The stories are made here: somebody has some things, and gets or loses a few. To tell one, word by
word, is to keep in mind who it was and whether that is a she or a he, what things they were and how
many, and to add. In what the model tells before it is trained and after, each of these is counted.
"""

from __future__ import annotations

import argparse
import re

import numpy as np
from tqdm import tqdm

import pullback as pb

WOMEN = ("Anna", "Clara", "Emma", "Ida", "Lena", "Mia", "Nora", "Rosa")
MEN = ("Adam", "Ben", "Carl", "Finn", "Hugo", "Jack", "Max", "Tom")
THINGS = ("apples", "books", "cards", "coins", "eggs", "nuts", "pears", "plums", "stones", "toys")
NUMBERS = (
    "no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven",
    "twelve",
)  # fmt: skip
MORE = ("buys", "finds", "gets")
LESS = ("drops", "loses", "sells")
STORIES, UNSEEN = 10_000, 500

END = "\n"  # stands before a story, and after it
LENGTH = 18  # of a story in words, with both ends; full stops are words


def make_story(rng: np.random.Generator) -> str:
    """Such as "Anna has two nuts. Ben gives her three. Now she has five nuts."."""
    name = rng.choice(WOMEN + MEN)
    she, her = ("she", "her") if name in WOMEN else ("he", "him")
    things = rng.choice(THINGS)
    had = rng.integers(2, 11)
    change = rng.integers(2, 11)
    if change <= had and rng.random() < 0.5:
        has = had - change
        event = f"{she.capitalize()} {rng.choice(LESS)} {NUMBERS[change]}"
    else:
        has = min(had + change, 12)
        giver = rng.choice([other for other in WOMEN + MEN if other != name])
        who = (f"{she.capitalize()} {rng.choice(MORE)}", f"{giver} gives {her}")
        event = f"{rng.choice(who)} {NUMBERS[has - had]}"
    left = things.removesuffix("s") if has == 1 else things
    return f"{name} has {NUMBERS[had]} {things}. {event}. Now {she} has {NUMBERS[has]} {left}."


def judge(story: str) -> tuple[bool, bool, bool]:
    """Tests that it is a story, that its person and things stay the same, and that it adds up."""
    names, numbers = "|".join(WOMEN + MEN), "|".join(NUMBERS)
    found = re.fullmatch(
        rf"({names}) has ({numbers}) ({'|'.join(THINGS)})\. "
        rf"(?:(She|He) ({'|'.join(MORE + LESS)})|(?:{names}) gives (her|him)) ({numbers})\. "
        rf"Now (she|he) has ({numbers}) (\w+)\.",
        story,
    )
    if not found:
        return False, False, False
    name, had, things, she, verb, her, change, now, has, left = found.groups()
    called = {word.lower() for word in (she, her, now) if word}
    fits = called <= ({"she", "her"} if name in WOMEN else {"he", "him"})
    same = left == (things.removesuffix("s") if has == "one" else things)
    sign = -1 if verb in LESS else 1
    first, second, last = (NUMBERS.index(number) for number in (had, change, has))
    return True, fits and same, first + sign * second == last


class Block(pb.Model):
    """At each word: look at the words up to it, then think."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm = pb.layers.LayerNormalization()
        self.look = pb.layers.MultiHeadAttention(heads, width // heads)
        self.think = pb.Sequential(
            [
                pb.layers.LayerNormalization(),
                pb.layers.Dense(4 * width, activation="relu"),
                pb.layers.Dense(width),
            ]
        )

    def call(self, x):
        x = x + self.look(self.norm(x), is_causal=True)
        return x + self.think(x)


class Storyteller(pb.Model):
    """From words, by number, to the logits of those that follow (Radford et al., 2018)."""

    def __init__(self, words: int, width: int, heads: int, blocks: int) -> None:
        super().__init__()
        self.words = pb.layers.Embedding(words, width)
        self.places = pb.layers.Embedding(LENGTH, width)
        self.blocks = [Block(width, heads) for _ in range(blocks)]
        self.norm = pb.layers.LayerNormalization()
        self.out = pb.layers.Dense(words)

    def call(self, ids):
        x = self.words(ids) + self.places(pb.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.out(self.norm(x))


def split(text: str) -> list[str]:
    return re.findall(r"\w+|\S", text)


def encode(stories: list[str], vocabulary: list[str]) -> np.ndarray:
    """The words of each story by number, (stories, LENGTH); after the end come more ends."""
    number = {word: i for i, word in enumerate(vocabulary)}
    ids = np.full((len(stories), LENGTH), number[END], np.int32)
    for row, story in zip(ids, stories, strict=True):
        words = [number[word] for word in split(story)]
        row[1 : len(words) + 1] = words
    return ids


def loss_of(model, ids):
    """The mean cross entropy of a word, given those before it."""
    return pb.losses.sparse_softmax_cross_entropy(ids[:, 1:], model(ids[:, :-1]))


def train(model, ids: np.ndarray, unseen: np.ndarray, options) -> None:
    dataset = pb.data.Dataset.from_tensor_slices(ids).shuffle(seed=options.seed).repeat()
    batches = dataset.batch(options.batch_size).take(options.steps)
    rate = pb.optimizers.schedules.cosine_decay(
        options.rate, options.steps, warmup_steps=options.steps // 10
    )
    optimizer = pb.optimizers.AdamW(
        rate,
        weight_decay=0.1,
        no_decay=lambda variable: variable.ndim < 2,  # biases, and the scales of normalizations
        clip_global_norm=1.0,
    )
    with tqdm(total=options.steps, desc="training") as bar:
        for batch in batches:
            loss = optimizer.minimize(lambda batch=batch: loss_of(model, batch))
            bar.set_postfix(loss=f"{loss:.3f}", refresh=False)
            bar.update()
    print(f"loss of a word: {loss:.3f}; in stories not trained on: {loss_of(model, unseen):.3f}")


def tell(model, vocabulary, beginning: list[str], count: int, temperature, seed) -> list[str]:
    """Stories that begin so, all at once: each word is drawn from what the model expects."""
    generator = pb.Generator(seed)
    ids = np.array([[vocabulary.index(word) for word in [END, *beginning]]] * count, np.int32)
    while ids.shape[1] < LENGTH:
        logits = model(ids)[:, -1]
        drawn = generator.categorical(logits / temperature).numpy()
        ids = np.concatenate([ids, drawn[:, np.newaxis]], axis=1)
    lines = [" ".join(vocabulary[i] for i in row[1:]) for row in ids]
    return [line.partition(END)[0].strip().replace(" .", ".") for line in lines]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prompt", default="", help="how the stories begin that it tells")
    parser.add_argument("--count", type=int, default=8, help="how many stories to show")
    parser.add_argument("--temperature", type=float, default=0.7)
    parser.add_argument("--steps", type=int, default=800)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--rate", type=float, default=0.003, help="the highest learning rate")
    parser.add_argument("--width", type=int, default=96)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--blocks", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", help="such as cpu or gpu:0; the first GPU if there is one")
    options = parser.parse_args()
    try:
        pb.set_default_device(options.device)
    except pb.errors.PullbackError as error:
        parser.error(str(error))
    pb.random.seed(options.seed)

    rng = np.random.default_rng(options.seed)
    stories = [make_story(rng) for _ in range(STORIES)]
    vocabulary = sorted({END, *split(" ".join(stories))})
    beginning = split(options.prompt)
    unknown = sorted({*beginning} - {*vocabulary})
    if unknown or len(beginning) > LENGTH - 2:
        parser.error(f"--prompt: {', '.join(unknown) or 'too long'}; its words: {vocabulary[1:]}")
    ids = encode(stories, vocabulary)
    model = Storyteller(len(vocabulary), options.width, options.heads, options.blocks)

    def show(title: str) -> list[str]:
        told = tell(model, vocabulary, beginning, 200, options.temperature, options.seed)
        print(f"\n{title}:", *told[: options.count], sep="\n    ")
        return told

    before = show("Before training")
    print()
    train(model, ids[UNSEEN:], ids[:UNSEEN], options)
    after = show("After training")

    known = {*stories[UNSEEN:]}
    print(f"\n{'of 200 told':40}  before   after")
    for row, name in enumerate(("are stories", "keep to one person and thing", "add up")):
        shares = [np.mean([judge(story)[row] for story in told]) for told in (before, after)]
        print(f"{name:40}  {shares[0]:6.0%}  {shares[1]:6.0%}")
    shares = [np.mean([story not in known for story in told]) for told in (before, after)]
    print(f"{'are none of those it was trained on':40}  {shares[0]:6.0%}  {shares[1]:6.0%}")


if __name__ == "__main__":
    main()
