"""Graph attention: tells the subjects of papers by words and citations.

    uv run examples/gallery/graph_attention.py

Graph attention (Veličković et al., 2018) on a graph that the program makes: 600 papers
of four subjects. A paper has words, most of them not of its subject, and cites papers
of its subject more often than others. Ten papers of each subject are known. The same
network without citations is trained beside it, to show what they are worth.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import pullback as pb

PAPERS, SUBJECTS, WORDS, KNOWN = 600, 4, 200, 10


# %% The graph
# Two arrays of the ends of all edges, in both directions, and each paper with itself.
# There is no matrix of papers by papers.
def make_graph(seed: int) -> tuple[np.ndarray, ...]:
    """Subjects, words, and the ends of edges: from `sender` to `receiver`."""
    rng = np.random.default_rng(seed)
    subjects = rng.integers(0, SUBJECTS, PAPERS).astype(np.int32)
    favored = rng.random((SUBJECTS, WORDS)) < 0.1
    words = rng.random((PAPERS, WORDS)) < 0.04 + 0.1 * favored[subjects]
    same = subjects[:, None] == subjects
    cites = np.triu(rng.random((PAPERS, PAPERS)) < np.where(same, 0.03, 0.003), 1)
    one, other = np.nonzero(cites)
    itself = np.arange(PAPERS)
    sender = np.concatenate([one, other, itself]).astype(np.int32)
    receiver = np.concatenate([other, one, itself]).astype(np.int32)
    return subjects, words.astype(np.float32), sender, receiver


# %% The model
# Each edge has a score. `pb.segment_softmax` makes weights of the scores of the edges that
# end in one paper, and `pb.segment_sum` adds up what comes along them.
class GraphAttention(pb.layers.Layer):
    def __init__(self, heads: int, size: int) -> None:
        super().__init__()
        self.heads, self.size = heads, size
        self.values = pb.layers.Dense(heads * size, use_bias=False)

    def build(self, input_shape) -> None:
        shape = (self.heads, self.size)
        self.sends = self.add_variable("sends", shape, initializer="glorot_uniform")
        self.receives = self.add_variable(
            "receives", shape, initializer="glorot_uniform"
        )

    def call(self, x, sender, receiver):
        values = self.values(x).reshape(-1, self.heads, self.size)
        sent = pb.take(pb.sum(values * self.sends, axis=-1), sender, axis=0)
        received = pb.take(pb.sum(values * self.receives, axis=-1), receiver, axis=0)
        scores = pb.leaky_relu(sent + received, negative_slope=0.2)
        weights = pb.segment_softmax(scores, receiver, len(x))
        messages = weights[..., None] * pb.take(values, sender, axis=0)
        return pb.segment_sum(messages, receiver, len(x)).reshape(len(x), -1)


class Network(pb.Model):
    def __init__(self) -> None:
        super().__init__()
        self.dropout = pb.layers.Dropout(0.5)
        self.first, self.second = GraphAttention(4, 8), GraphAttention(1, SUBJECTS)

    def call(self, x, sender, receiver, training=False):
        x = self.first(self.dropout(x, training=training), sender, receiver)
        x = self.dropout(pb.elu(x), training=training)
        return self.second(x, sender, receiver)


# %% Training
# All papers pass through the network in each step; the loss is that of the known ones.
def train(words, subjects, sender, receiver, known, steps: int) -> list[float]:
    """The accuracy on all other papers after every fifth step."""
    model, optimizer = Network(), pb.optimizers.Adam(0.003)

    @pb.function
    def step():
        with pb.GradientTape() as tape:
            logits = model(words, sender, receiver, training=True)
            loss = pb.losses.sparse_softmax_cross_entropy(
                subjects[known], logits[known]
            )
            loss = loss + 5e-4 * sum(pb.sum(v**2) for v in model.trainable_variables)
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))

    @pb.function
    def predict():
        return pb.argmax(model(words, sender, receiver), axis=1)

    others = np.setdiff1d(np.arange(PAPERS), known)
    history = []
    for i in range(steps):
        step()
        if i % 5 == 4:
            history.append(float(np.mean((predict().numpy() == subjects)[others])))
    return history


# %%
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plot", type=Path, help="a file to draw the accuracies into")
    options = parser.parse_args()
    pb.random.seed(options.seed)

    subjects, words, sender, receiver = make_graph(options.seed)
    known = np.concatenate(
        [np.flatnonzero(subjects == s)[:KNOWN] for s in range(SUBJECTS)]
    )
    itself = np.arange(PAPERS, dtype=np.int32)
    histories = {
        "with citations": train(
            words, subjects, sender, receiver, known, options.steps
        ),
        "without": train(words, subjects, itself, itself, known, options.steps),
    }
    for name, history in histories.items():
        print(f"{name}: {history[-1]:.3f}")
    if options.plot:
        draw(options.plot, histories)


def draw(path: Path, histories: dict[str, list[float]]) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
    for name, history in histories.items():
        axes.plot(5 * np.arange(1, len(history) + 1), history, label=name)
    axes.axhline(1 / SUBJECTS, color="grey", lw=0.8)
    axes.set(xlabel="step", ylabel="accuracy on other papers", ylim=(0, 1))
    axes.legend()
    figure.savefig(path, dpi=80)


if __name__ == "__main__":
    main()
