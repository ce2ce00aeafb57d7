"""What must work where core and one backend have just been installed from their wheels."""

import tempfile
from pathlib import Path

import numpy as np

import pullback as pb

assert "site-packages" in pb.__file__, f"not the installed package: {pb.__file__}"

x = pb.asarray([1.0, 2.0, 3.0])
np.testing.assert_array_equal((x * x + 1).numpy(), [2.0, 5.0, 10.0])

v = pb.Variable([1.0, 2.0, 3.0])
with pb.GradientTape() as tape:
    loss = pb.sum(v * v)
np.testing.assert_array_equal(tape.gradient(loss, v).numpy(), [2.0, 4.0, 6.0])

with tempfile.TemporaryDirectory() as folder:
    checkpoint = pb.Checkpoint(v=v)
    path = checkpoint.save(str(Path(folder) / "checkpoint"))
    v.assign([0.0, 0.0, 0.0])
    checkpoint.restore(path)
np.testing.assert_array_equal(v.numpy(), [1.0, 2.0, 3.0])

print(f"pullback {pb.__version__} on {x.device}: an op, a gradient and a checkpoint")
