"""Trains the digits example on a device, to compare one backend with another."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pullback as pb

EXAMPLE = Path(__file__).parent.parent / "examples" / "digits.py"


def example() -> ModuleType:
    """Imports the example."""
    module = sys.modules.get("pullback_digits_example")
    if module is None:
        spec = importlib.util.spec_from_file_location("pullback_digits_example", EXAMPLE)
        assert spec is not None
        assert spec.loader is not None
        module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return module


def digits_losses(device: str, steps: int, seed: int = 0) -> list[float]:
    """The losses of the first steps of the example: its data, model, dropout and optimizer."""
    digits = example()
    images, labels = digits.load_data(seed)[0]
    losses: list[float] = []
    with pb.device(device):
        pb.random.seed(seed)
        model = digits.make_model(seed)
        optimizer = pb.optimizers.Adam(0.001)
        dataset = pb.data.Dataset.from_tensor_slices((images, labels)).shuffle(seed=seed)
        while len(losses) < steps:
            for x, y in dataset.batch(digits.BATCH_SIZE):
                with pb.GradientTape() as tape:
                    logits = model(x, training=True)
                    loss = pb.losses.sparse_softmax_cross_entropy(y, logits)
                variables = model.trainable_variables
                gradients = tape.gradient(loss, variables)
                optimizer.apply_gradients(zip(gradients, variables, strict=True))
                assert loss.device is pb.device(device)
                losses.append(float(loss))
                if len(losses) == steps:
                    break
    return losses
