"""Training that is killed and goes on ends in the bits of training that was never stopped."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import pullback as pb
from pullback.checkpoint import folder

#: Trains for 200 steps with everything that has state: dropout, batch normalization, shuffled and
#: augmented data that are made ahead, Adam with a schedule, a metric, the default generator.
#: Saves every 10 steps; at the step that it is given it kills itself.
PROGRAM = """
import json, os, signal, sys
import numpy as np
import pullback as pb

place, background, die_at = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
# As a program that begins again does, which does not know that it will go on.
pb.random.seed(int(sys.argv[4]))
rng = np.random.default_rng(0)
images = rng.standard_normal((90, 6, 6, 1)).astype(np.float32)
labels = (images.mean((1, 2, 3)) > 0).astype(np.int32)


def augment(image, label, generator):
    return image + 0.1 * generator.normal((6, 6, 1)), label


def data():
    return (
        pb.data.Dataset.from_tensor_slices((images, labels))
        .cache().shuffle(50).repeat().map(augment, seed=3, parallel=2).batch(16).prefetch(3)
    )


model = pb.Sequential([
    pb.layers.Conv2D(4, 3), pb.layers.BatchNormalization(), pb.layers.Dropout(0.3),
    pb.layers.Flatten(), pb.layers.Dense(2),
])
optimizer = pb.optimizers.Adam(pb.optimizers.schedules.cosine_decay(0.02, 200, warmup_steps=20))
batches = iter(data())
mean = pb.metrics.Mean("loss")
checkpoint = pb.Checkpoint(
    model=model, optimizer=optimizer, batches=batches, mean=mean,
    generator=pb.random.default_generator, step=0, losses=[],
)
manager = pb.CheckpointManager(checkpoint, place, keep=2, background=background)
restored = manager.restore_latest()
while checkpoint.step < 200:
    x, y = next(batches)
    with pb.GradientTape() as tape:
        noise = 0.01 * pb.random.normal(x.shape)
        loss = pb.losses.sparse_softmax_cross_entropy(y, model(x + noise, training=True))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    mean(loss)
    checkpoint.step += 1
    checkpoint.losses.append(float(loss))
    if checkpoint.step % 10 == 0:
        manager.save(step=checkpoint.step)
    if checkpoint.step == die_at:
        manager.wait()
        os.kill(os.getpid(), signal.SIGKILL)
if restored is not None:
    restored.assert_complete()
manager.close()
"""


def train(place, background, die_at=0, seed=0):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(place), str(background), str(die_at), str(seed)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == (-signal.SIGKILL if die_at else 0), done.stderr[-3000:]


def state(place):
    """Everything in the last checkpoint, bit for bit."""
    contents = folder.read(pb.latest_checkpoint(place))
    assert contents.step == 200
    return (
        {name: (a.dtype.name, a.shape, a.tobytes()) for name, a in contents.arrays.items()},
        json.dumps(contents.states, sort_keys=True),
        contents.data,
    )


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    place = tmp_path_factory.mktemp("straight")
    train(place, background=0)
    return state(place)


@pytest.mark.slow
@pytest.mark.parametrize(("background", "stops"), [(0, [100]), (2, [37, 104])])
def test_ends_in_the_same_bits(tmp_path, straight, background, stops):
    for number, stop in enumerate(stops):
        train(tmp_path, background, die_at=stop, seed=number)
    train(tmp_path, background, seed=99)
    arrays, states, data = state(tmp_path)
    assert data == straight[2]
    assert states == straight[1]
    assert arrays == straight[0]
    losses = data["losses"]
    assert len(losses) == 200
    assert np.mean(losses[-20:]) < np.mean(losses[:20])
    assert sorted(Path(tmp_path).iterdir()) == [tmp_path / "ckpt-190", tmp_path / "ckpt-200"]
