"""Classifies short messages by a recurrent network over words.

    uv run examples/words.py
    uv run examples/words.py --say "the soup was not good"

The messages are made up: praise and complaints about food, in which "not" turns a word round. So
single words do not tell what is meant, and their order does.
"""

from __future__ import annotations

import argparse

import numpy as np

import pullback as pb

THINGS = ["soup", "bread", "pizza", "salad", "coffee", "tea", "cake", "rice"]
GOOD = ["good", "great", "lovely", "fresh", "tasty"]
BAD = ["bad", "awful", "cold", "stale", "bland"]
FILLERS = ["really", "quite", "very", "today", "honestly", "here"]
LENGTH = 10


# [data]
def message(rng: np.random.Generator) -> tuple[str, int]:
    """A message, and 1 if it is praise, 0 if it is a complaint."""
    good, turned = rng.integers(2, size=2)
    word = rng.choice(GOOD if good else BAD)
    before, after = (rng.choice(FILLERS, rng.integers(3)) for _ in range(2))
    words = ["the", rng.choice(THINGS), "was", *["not"] * turned, *before, word, *after]
    return " ".join(words), int(good != turned)


def encode(texts: list[str], vocabulary: dict[str, int]) -> np.ndarray:
    """The numbers of the words, (texts, LENGTH): 0 for padding, 1 for unknown words."""
    ids = np.zeros((len(texts), LENGTH), np.int32)
    for row, text in zip(ids, texts, strict=True):
        words = [vocabulary.get(word, 1) for word in text.split()[:LENGTH]]
        row[: len(words)] = words
    return ids


# [model]
class Classifier(pb.Model):
    """From numbers of words to the logits of the two classes."""

    def __init__(self, words: int, units: int) -> None:
        super().__init__()
        self.embedding = pb.layers.Embedding(words, 16)
        self.lstm = pb.layers.Bidirectional(pb.layers.LSTM(units))
        self.dropout = pb.layers.Dropout(0.2)
        self.out = pb.layers.Dense(2)

    def call(self, ids):
        state = self.lstm(self.embedding(ids), mask=ids > 0)
        return self.out(self.dropout(state))


# [end]
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--say", action="append", default=[], help="a message to classify")
    parser.add_argument("--device", help="such as cpu or gpu:0; the first GPU if there is one")
    options = parser.parse_args()
    try:
        pb.set_default_device(options.device)
    except pb.errors.PullbackError as error:
        parser.error(str(error))
    pb.random.seed(options.seed)

    rng = np.random.default_rng(options.seed)
    texts, labels = zip(*[message(rng) for _ in range(2000)], strict=True)
    known = sorted({word for text in texts for word in text.split()})
    vocabulary = {word: number for number, word in enumerate(known, start=2)}
    x, y = encode(list(texts), vocabulary), np.asarray(labels, np.int32)

    model = Classifier(len(vocabulary) + 2, units=16)
    model.compile(pb.optimizers.Adam(0.01), "sparse_softmax_cross_entropy", ["accuracy"])
    model.fit(x[:1600], y[:1600], epochs=options.epochs, verbose=False)
    result = model.evaluate(x[1600:], y[1600:], verbose=False)
    print(f"accuracy on messages not trained on: {result['accuracy']:.3f}")

    said = options.say or ["the soup was not good", "honestly the tea was not bad today"]
    praise = pb.softmax(model.predict(encode(said, vocabulary)), axis=-1).numpy()[:, 1]
    for text, probability in zip(said, praise, strict=True):
        print(f"{probability:6.1%}  {text}")


if __name__ == "__main__":
    main()
