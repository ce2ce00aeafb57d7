"""Ranks that are actors of Ray: each trains on its items of every batch.

    pip install pullback-torch pullback-numpy ray
    python examples/ray_actors.py --ranks 2

Ray starts the processes, on one machine or on many, and starts one again that has failed; they meet
at an address that the first of them gives, by gloo. The batches are those of one process.
"""

from __future__ import annotations

import argparse
import os
import socket

import numpy as np

import pullback as pb


class Rank:
    """A process with one rank."""

    def address(self) -> tuple[str, int]:
        import ray

        with socket.socket() as free:
            free.bind(("", 0))
            return ray.util.get_node_ip_address(), free.getsockname()[1]

    def train(self, rank: int, meeting: tuple[str, int], given: argparse.Namespace) -> list[float]:
        host, port = meeting
        os.environ |= {
            "RANK": str(rank), "WORLD_SIZE": str(given.ranks),
            "MASTER_ADDR": host, "MASTER_PORT": str(port),
        }  # fmt: skip
        if given.device:
            pb.set_default_device(given.device)
        pb.distributed.init("gloo")
        rng = np.random.default_rng(0)
        x = rng.normal(size=(256, 8)).astype("float32")
        y = (x[:, :3] + 0.1 * rng.normal(size=(256, 3))).argmax(axis=1)
        pb.random.seed(given.seed)
        model = pb.Sequential([pb.layers.Dense(16, activation="tanh"), pb.layers.Dense(3)])
        model.compile(
            pb.optimizers.Adam(0.02), "sparse_softmax_cross_entropy", capture=True, distributed=True
        )
        found = model.fit(x, y, batch_size=32, epochs=given.epochs, verbose=False)
        return [float(loss) for loss in found.history["loss"]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", help="such as cpu or torch:cpu; the default device without it")
    given = parser.parse_args()
    try:
        pb.device(given.device or "cpu")
    except pb.errors.PullbackError as error:
        parser.error(str(error))

    import ray

    ray.init(num_cpus=given.ranks, include_dashboard=False, log_to_driver=False)
    actor = ray.remote(max_restarts=0)(Rank)
    ranks = [actor.remote() for _ in range(given.ranks)]
    meeting = ray.get(ranks[0].address.remote())
    losses = ray.get(
        [rank.train.remote(number, meeting, given) for number, rank in enumerate(ranks)]
    )
    print("losses", *[f"{loss:.6f}" for loss in losses[0]])
    print("alike on all ranks:", all(other == losses[0] for other in losses))


if __name__ == "__main__":
    main()
