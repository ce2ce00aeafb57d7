"""The cases of `overhead.py`, once for each framework. A block runs its case n times."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Block = Callable[[int], None]
Cases = dict[str, Block]


def data() -> tuple[Any, Any, Any, Any]:
    """Two 10x10 matrices, and 1000 points about y = 3x + 2."""
    import numpy as np

    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, 10, 10), np.float32)
    inputs, noise = rng.standard_normal((2, 1000), np.float32)
    return x, y, inputs, 3 * inputs + 2 + noise


def repeat(step: Callable[[], Any]) -> Block:
    def block(n: int) -> None:
        for _ in range(n):
            step()

    return block


def pairwise(add: Callable[..., Any], matmul: Callable[..., Any], x: Any, y: Any) -> Cases:
    # Written out: a call of a lambda would cost as much as what is measured.
    def add_block(n: int) -> None:
        for _ in range(n):
            add(x, y)

    def matmul_block(n: int) -> None:
        for _ in range(n):
            matmul(x, y)

    return {"add": add_block, "matmul": matmul_block}


def numpy_cases() -> Cases:
    import numpy as np

    x, y, inputs, targets = data()
    state = {"w": np.float32(5), "b": np.float32(10)}

    def fit() -> float:
        error = state["w"] * inputs + state["b"] - targets
        loss = np.mean(error * error)
        state["w"] -= np.float32(0.1) * np.mean(2 * error * inputs)
        state["b"] -= np.float32(0.1) * np.mean(2 * error)
        return float(loss)

    return {
        **pairwise(np.add, np.matmul, x, y),
        "chain": repeat(lambda: ((x * 2 + 1) * x).sum()),
        "linear fit": repeat(fit),
    }


def pullback_cases() -> Cases:
    import pullback as pb

    x, y, inputs, targets = map(pb.asarray, data())
    plain = pairwise(pb.add, pb.matmul, x, y)
    w, b = pb.Variable(5.0), pb.Variable(10.0)

    def recorded(block: Block) -> Block:
        def run(n: int) -> None:
            with pb.GradientTape() as tape:
                tape.watch([x, y])
                block(n)

        return run

    def gradient() -> Any:
        with pb.GradientTape() as tape:
            tape.watch(x)
            total = ((x * 2 + 1) * x).sum()
        return tape.gradient(total, x)

    def fit() -> float:
        with pb.GradientTape() as tape:
            error = w * inputs + b - targets
            loss = pb.mean(error * error)
        dw, db = tape.gradient(loss, [w, b])
        w.assign_sub(0.1 * dw)
        b.assign_sub(0.1 * db)
        return float(loss)

    return {
        **plain,
        "add recorded": recorded(plain["add"]),
        "matmul recorded": recorded(plain["matmul"]),
        "chain": repeat(lambda: ((x * 2 + 1) * x).sum()),
        "chain gradient": repeat(gradient),
        "linear fit": repeat(fit),
    }


def torch_cases() -> Cases:
    import torch

    x, y, inputs, targets = map(torch.from_numpy, data())
    watched = x.clone().requires_grad_()
    w, b = torch.tensor(5.0, requires_grad=True), torch.tensor(10.0, requires_grad=True)
    tracked = pairwise(torch.add, torch.matmul, watched, y)

    def gradient() -> Any:
        watched.grad = None
        ((watched * 2 + 1) * watched).sum().backward()
        return watched.grad

    def fit() -> float:
        error = w * inputs + b - targets
        loss = torch.mean(error * error)
        w.grad = b.grad = None
        loss.backward()
        with torch.no_grad():
            w.sub_(0.1 * w.grad)
            b.sub_(0.1 * b.grad)
        return float(loss.detach())

    return {
        **pairwise(torch.add, torch.matmul, x, y),
        "add recorded": tracked["add"],
        "matmul recorded": tracked["matmul"],
        "chain": repeat(lambda: ((x * 2 + 1) * x).sum()),
        "chain gradient": repeat(gradient),
        "linear fit": repeat(fit),
    }


def jax_cases() -> Cases:
    """Compiled functions, each waited for: JAX's own advice, and several times its eager speed."""
    import jax
    import jax.numpy as jnp

    x, y, inputs, targets = map(jnp.asarray, data())

    def waiting(function: Callable[..., Any], *arguments: Any) -> Block:
        compiled = jax.jit(function)
        return repeat(lambda: jax.block_until_ready(compiled(*arguments)))

    def chain(x: Any) -> Any:
        return ((x * 2 + 1) * x).sum()

    def loss(w: Any, b: Any) -> Any:
        return jnp.mean((w * inputs + b - targets) ** 2)

    @jax.jit
    def step(w: Any, b: Any) -> Any:
        value, (dw, db) = jax.value_and_grad(loss, (0, 1))(w, b)
        return value, w - 0.1 * dw, b - 0.1 * db

    state = [jnp.float32(5), jnp.float32(10)]

    def fit() -> float:
        value, *state[:] = step(*state)
        return float(value)

    return {
        "add": waiting(jnp.add, x, y),
        "matmul": waiting(jnp.matmul, x, y),
        "chain": waiting(chain, x),
        "chain gradient": waiting(jax.grad(chain), x),
        "linear fit": repeat(fit),
    }


BUILDERS = {
    "numpy": numpy_cases,
    "pullback": pullback_cases,
    "torch": torch_cases,
    "jax": jax_cases,
}
