"""PPO: learns to balance a pole on a cart.

    uv run examples/gallery/ppo.py

Proximal policy optimization (Schulman et al., 2017) on the cart and pole of Barto,
Sutton and Anderson (1983), which is written out below: 32 carts at a time, in NumPy. An
episode ends when the pole falls, when the cart leaves its track, or after 500 steps;
random pushes reach some 22.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import pullback as pb

CARTS, HORIZON, LONGEST = 32, 64, 500


# %% The world
# Position, speed, angle and its speed of each cart; a push to the left or to the right
# in each step of 20 ms.
class Carts:
    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.state = self.rng.uniform(-0.05, 0.05, (CARTS, 4)).astype(np.float32)
        self.age = np.zeros(CARTS, int)

    def step(self, push: np.ndarray) -> tuple[np.ndarray, list[int]]:
        """Which carts are at an end, and the lengths of their episodes."""
        x, v, angle, w = self.state.T
        sine, cosine = np.sin(angle), np.cos(angle)
        force = (np.where(push, 10.0, -10.0) + 0.05 * w**2 * sine) / 1.1
        turn = (9.8 * sine - cosine * force) / (0.5 * (4 / 3 - 0.1 * cosine**2 / 1.1))
        pull = force - 0.05 * turn * cosine / 1.1
        self.state = np.stack(
            [x + 0.02 * v, v + 0.02 * pull, angle + 0.02 * w, w + 0.02 * turn], axis=1
        ).astype(np.float32)
        self.age += 1
        x, angle = self.state[:, 0], self.state[:, 2]
        ends = (np.abs(x) > 2.4) | (np.abs(angle) > 0.209) | (self.age >= LONGEST)
        lengths = self.age[ends].tolist()
        fresh = self.rng.uniform(-0.05, 0.05, (CARTS, 4)).astype(np.float32)
        self.state = np.where(ends[:, None], fresh, self.state)
        self.age[ends] = 0
        return ends, lengths


# %% The model
# One network for the logits of the two pushes, one for the value of a state: what is
# still to come.
class Agent(pb.Model):
    def __init__(self, units: int = 64) -> None:
        super().__init__()
        self.policy, self.value = (
            pb.Sequential(
                [
                    pb.layers.Dense(units, activation="tanh"),
                    pb.layers.Dense(units, activation="tanh"),
                    pb.layers.Dense(outputs),
                ]
            )
            for outputs in (2, 1)
        )

    def call(self, states):
        return pb.log_softmax(self.policy(states)), self.value(states)[..., 0]


# %% What was better than expected
# Generalized advantages (Schulman et al., 2015): errors of the value in steps to come,
# each counted less. It is a scan from the end; at the end of an episode it begins anew.
@pb.function
def advantages(values, last, ends, discount=0.99, decay=0.95):
    rewards = 1.0
    going = 1.0 - pb.astype(ends, pb.float32)
    after = pb.concat([values[1:], last[None]])
    errors = rewards + discount * going * after - values

    def back(later, inputs):
        error, goes_on = inputs
        later = error + discount * decay * goes_on * later
        return later, later

    return pb.scan(back, pb.zeros_like(last), (errors, going), reverse=True)[1]


# %% Training
# A push that turned out well becomes more likely, but where its probability has changed
# by a fifth, the gradient is zero: `pb.minimum` takes the clipped value there.
def make_step(agent: Agent, steps: int):
    rate = pb.optimizers.schedules.cosine_decay(3e-3, steps)
    optimizer = pb.optimizers.Adam(rate, clip_global_norm=0.5)

    @pb.function
    def step(states, pushes, before, gains, returns):
        gains = (gains - pb.mean(gains)) / (pb.std(gains) + 1e-6)
        with pb.GradientTape() as tape:
            logs, values = agent(states)
            now = pb.take_along_axis(logs, pushes[:, None], axis=1)[:, 0]
            ratio = pb.exp(now - before)
            better = pb.minimum(ratio * gains, pb.clip(ratio, 0.8, 1.2) * gains)
            entropy = -pb.sum(pb.exp(logs) * logs, axis=1)
            loss = 0.5 * pb.mean((values - returns) ** 2) - pb.mean(
                better + 0.01 * entropy
            )
        variables = agent.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return loss

    return step


def train(agent: Agent, rounds: int, seed: int) -> list[float]:
    """The mean length of the episodes that end in each round."""
    carts, rng = Carts(seed), np.random.default_rng(seed)
    act, step, history = pb.function(agent), make_step(agent, 32 * rounds), []
    for _ in range(rounds):
        kept, ended = [], []
        for _ in range(HORIZON):
            states = carts.state
            logs, values = (result.numpy() for result in act(states))
            pushes = (rng.random(CARTS) < np.exp(logs[:, 1])).astype(np.int32)
            ends, lengths = carts.step(pushes)
            chosen = logs[np.arange(CARTS), pushes]
            kept.append((states, pushes, chosen, values, ends))
            ended += lengths
        states, pushes, chosen, values, ends = map(np.stack, zip(*kept, strict=True))
        gains = advantages(values, act(carts.state)[1], ends).numpy()
        columns = (states, pushes, chosen, gains, gains + values)
        columns = [part.reshape(-1, *part.shape[2:]) for part in columns]
        for _ in range(4):
            for some in np.split(rng.permutation(HORIZON * CARTS), 8):
                step(*(column[some] for column in columns))
        history.append(float(np.mean(ended)) if ended else history[-1])
    return history


# %%
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plot", type=Path, help="a file to draw the lengths into")
    options = parser.parse_args()
    pb.random.seed(options.seed)

    history = train(Agent(), options.rounds, options.seed)
    print(f"steps until an end, first round: {history[0]:.0f}; last: {history[-1]:.0f}")
    if options.plot:
        draw(options.plot, history)


def draw(path: Path, history: list[float]) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
    axes.plot(history)
    axes.set(xlabel=f"round of {CARTS} x {HORIZON} steps", ylabel="steps until an end")
    figure.savefig(path, dpi=80)


if __name__ == "__main__":
    main()
