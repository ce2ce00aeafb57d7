"""Checkpoints that several ranks write, a part each, and that any number of ranks restores."""

from __future__ import annotations

import copy
import json
import os
import random
import shutil
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import pullback as pb
from pullback.checkpoint import folder, names, together
from pullback.distributed.world import World

dist = pb.distributed
DTYPES = ("float32", "float64", "float16", "bfloat16", "complex64", "int32", "bool", "uint8")


@pytest.fixture(autouse=True)
def _arrays_of_any_size_are_divided(monkeypatch):
    monkeypatch.setattr(together, "SMALL", 0)


def same(one, other):
    """Checks that two checkpoints have the same bits, and all else."""
    assert one.arrays.keys() == other.arrays.keys()
    for name, array in one.arrays.items():
        assert array.dtype == other.arrays[name].dtype
        assert array.shape == other.arrays[name].shape
        assert array.tobytes() == other.arrays[name].tobytes(), name
    assert one._replace(arrays={}) == other._replace(arrays={})


def parts(path):
    """The names of the arrays in each file, by the index that other programs read."""
    files = json.loads(Path(path, names.INDEX).read_text())["weight_map"]
    return [
        {name for name, file in files.items() if file == one} for one in names.files(count(path))
    ]


def count(path):
    return json.loads(Path(path, "manifest.json").read_text())["content"].get("parts", 1)


class Run:
    """A random model with a random optimizer, the same on all ranks."""

    def __init__(self, seed, *, shard_slots=None):
        draw = random.Random(seed)
        self.rng = np.random.default_rng(seed)
        sizes = [draw.randint(1, 9) for _ in range(draw.randint(1, 5))]
        self.width = sizes[-1]
        layers = [pb.layers.Dense(size, activation="tanh") for size in sizes]
        if draw.random() < 0.5:
            layers.insert(1, pb.layers.BatchNormalization())
        self.model = pb.Sequential([*layers, pb.layers.Dropout(0.1, seed=3)])
        self.model(np.zeros((1, 4), np.float32))
        for variable in self.model.trainable_variables:
            variable.assign(self.rng.normal(size=variable.shape).astype("float32"))
        self.others = [
            pb.Variable(self.rng.normal(size=draw.choice([(), (0, 2), (3, 2)])).astype(dtype))
            for dtype in draw.sample(DTYPES, 3)
        ]
        options = draw.choice([{}, {"ema_decay": 0.9}, {"accumulate_steps": 2}])
        kind = draw.choice([pb.optimizers.Adam, pb.optimizers.AdamW, pb.optimizers.RMSprop])
        shard_slots = draw.random() < 0.7 if shard_slots is None else shard_slots
        self.optimizer = dist.DataParallel(
            kind(0.01, **options), exact=True, shard_slots=shard_slots
        )
        self.generator = pb.Generator(seed)
        self.checkpoint = pb.Checkpoint(
            model=self.model, others=self.others, optimizer=self.optimizer,
            generator=self.generator, history=[seed, "x"],
        )  # fmt: skip

    def train(self, steps, first=0):
        for step in range(first, first + steps):
            rng = np.random.default_rng(step)
            x, y = rng.normal(size=(7, 4)), rng.normal(size=(7, self.width))
            x, y = dist.share((pb.asarray(x.astype("float32")), pb.asarray(y.astype("float32"))))
            self.optimizer.minimize(
                lambda x=x, y=y: pb.mean((self.model(x, training=True) - y) ** 2)
            )
            self.checkpoint.history.append(step)

    def whole(self):
        """All that a checkpoint of one rank would hold."""
        with self.optimizer.whole_slots():
            found = self.checkpoint.contents(1)
        return found._replace(arrays={n: np.asarray(array) for n, array in found.arrays.items()})


@pytest.mark.parametrize("seed", range(10))
def test_any_number_of_ranks_restores_what_any_number_has_saved(seed, tmp_path):
    """The bits of a checkpoint that rank 0 writes alone, and the same steps from there on."""
    check_restored(seed, tmp_path)


@pytest.mark.campaign
@pytest.mark.parametrize("seed", range(10, 310))
def test_any_number_of_ranks_many_times(seed, tmp_path):
    check_restored(seed, tmp_path)


def check_restored(seed, tmp_path):
    draw = random.Random(seed)
    before, after = draw.choice([1, 2, 3, 4]), draw.choice([1, 2, 4])

    def save():
        run = Run(seed)
        run.train(3)
        path = run.checkpoint.save(tmp_path / "sharded" / "ckpt", step=1, sharded=True)
        whole = run.whole()
        if dist.rank() == 0:
            folder.write(tmp_path / "whole" / "ckpt-1", whole)
        run.train(2, 3)
        return path, run.whole()

    def go_on(path):
        run = Run(seed)
        run.checkpoint.restore(path).assert_complete()
        restored = run.whole()
        run.train(2, 3)
        return restored, run.whole()

    undisturbed = dist.run_threads(save, before)
    path = undisturbed[0][0]
    whole = tmp_path / "whole" / "ckpt-1"
    same(folder.read(path), folder.read(whole))
    assert count(path) == before
    found = dist.run_threads(lambda: go_on(path), after)
    wanted = dist.run_threads(lambda: go_on(whole), after)
    for one, other in zip(found, wanted, strict=True):
        same(one[0], folder.read(whole))
        same(one[1], other[1])
    if before == after:
        same(found[0][1], undisturbed[0][1])


@pytest.mark.parametrize("seed", range(20))
def test_arrays_are_divided_evenly(seed):
    draw = random.Random(seed)
    ranks = draw.randint(1, 6)
    own = [{} for _ in range(ranks)]
    for number in range(draw.randint(0, 40)):
        kind = ["uint8", [0], draw.randint(0, 10_000)]
        holders = draw.choice(
            [range(ranks), [draw.randrange(ranks)], range(draw.randint(0, ranks))]
        )
        for rank in holders:
            own[rank][f"v{number}"] = kind
    found = together.divided(own)
    assert sum(map(len, found)) == len({name for one in own for name in one})
    assert all(names <= one.keys() for names, one in zip(found, own, strict=True))
    everywhere = set.intersection(*(set(one) for one in own))
    loads = [sum(one[name][2] for name in names) for names, one in zip(found, own, strict=True)]
    for rank, listed in enumerate(found):
        # Whoever has a free one would not have less by giving it away.
        for name in listed & everywhere:
            assert loads[rank] - own[rank][name][2] <= min(loads)


def test_small_arrays_are_those_of_one_rank(tmp_path, monkeypatch):
    """Ranks may differ in means of a batch normalization; those that are read belong together."""
    monkeypatch.setattr(together, "SMALL", 100)

    def save():
        values = [pb.Variable(np.full(24, dist.rank(), np.float32)) for _ in range(8)]
        large = [pb.Variable(np.zeros(25, np.float32)) for _ in range(4)]
        return pb.Checkpoint(values=values, large=large).save(tmp_path, sharded=True)

    path = dist.run_threads(save, 2)[0]
    assert [sum("large" in name for name in part) for part in parts(path)] == [2, 2]
    arrays = folder.read(path).arrays
    assert {arrays[f"values/{i}"].sum() for i in range(8)} == {0.0}


def test_slots_are_written_where_they_are(tmp_path):
    def save():
        run = Run(3, shard_slots=True)
        run.train(2)
        own = {id(slot) for slot in run.optimizer.variables}
        path = run.checkpoint.save(tmp_path, sharded=True)
        assert {id(slot) for slot in run.optimizer.variables} == own
        slots = run.optimizer.optimizer.slot_variables()
        paths = {id(v): name for name, v in pb.state.named_variables(run.model).items()}
        return path, {f"{name}/model/{paths[id(v)]}" for v, name, _ in slots}

    found = dist.run_threads(save, 3)
    for part, (_, slots) in zip(parts(found[0][0]), found, strict=True):
        assert {name.partition("/slots/")[2] for name in part if "/slots/" in name} == slots


@pytest.mark.parametrize("sharded", [False, True])
def test_slots_of_variables_that_are_moved_in_turns(sharded, tmp_path):
    """A variable stays with its rank, whichever others a step moves, and so do its slots."""

    def train(restore, save):
        pb.random.seed(0)
        sizes = (5, 3, 8, 2)
        v = [pb.Variable(np.arange(1.0, 1 + size, dtype=np.float32)) for size in sizes]
        optimizer = dist.DataParallel(pb.optimizers.Adam(0.1), shard_slots=sharded)
        checkpoint = pb.Checkpoint(v=v, optimizer=optimizer)
        if restore:
            checkpoint.restore(restore).assert_complete()
        for turn in range(7):
            moved = [v[:2], v[1:], v[2:]][turn % 3]
            optimizer.minimize(lambda moved=moved: sum(pb.sum(x**3) for x in moved), moved)
            if turn == 3 and save:
                checkpoint.save(save, step=turn, sharded=True)
                with optimizer.whole_slots():
                    assert len(optimizer.variables) == 8
        with optimizer.whole_slots():
            arrays = checkpoint.contents().arrays
            return [np.asarray(arrays[name]) for name in sorted(arrays)]

    one = train(None, tmp_path / "one" / "ckpt")
    for found in dist.run_threads(lambda: train(None, tmp_path / "all" / "ckpt"), 3):
        np.testing.assert_allclose(np.concatenate(found), np.concatenate(one), rtol=1e-5)
    after = train(tmp_path / "one" / "ckpt-3", None)
    for found in dist.run_threads(lambda: train(tmp_path / "all" / "ckpt-3", None), 2):
        np.testing.assert_allclose(np.concatenate(found), np.concatenate(after), rtol=1e-5)


def test_sums_of_gradients_that_other_ranks_have(tmp_path):
    """After three calls a sum is under way: a whole checkpoint has it, and a sharded one."""

    def save():
        v = [pb.Variable(np.full(size, 1.0, np.float32)) for size in (4, 3, 2)]
        adam = pb.optimizers.Adam(0.1, accumulate_steps=2)
        optimizer = dist.DataParallel(adam, shard_slots=True)
        checkpoint = pb.Checkpoint(v=v, optimizer=optimizer)
        for _ in range(3):
            optimizer.minimize(lambda: sum(pb.sum(x * x) for x in v), v)
        path = checkpoint.save(tmp_path, sharded=True)
        with optimizer.whole_slots():
            return path, checkpoint.contents().arrays

    for path, arrays in dist.run_threads(save, 2):
        for found in (arrays, folder.read(path).arrays):
            sums = {name: np.asarray(array) for name, array in found.items() if "/accum" in name}
            assert len(sums) == 3
            for array in sums.values():
                np.testing.assert_allclose(array, 1.8, rtol=1e-5)


def test_a_rank_that_moves_nothing_drops_the_slots_that_it_reads(tmp_path):
    """Captured steps go on after a restoration amid a run; what is saved then is the owner's."""

    def run():
        v = pb.Variable(np.arange(5.0))
        optimizer = dist.DataParallel(pb.optimizers.Adam(0.1), shard_slots=True)
        manager = pb.CheckpointManager(
            pb.Checkpoint(v=v, optimizer=optimizer), tmp_path / str(dist.size()), sharded=True
        )

        @pb.function
        def step():
            optimizer.minimize(lambda: pb.sum(v**3), [v])

        for turn in range(3):
            for _ in range(3):
                step()
            manager.save()
            assert len(optimizer.variables) in (0, 2)
            if turn < 2:
                manager.restore_latest().assert_complete()
                assert len(optimizer.variables) == 2
        assert len(optimizer.variables) == 2 * (dist.rank() == 0)
        return manager.latest

    one, several = (folder.read(dist.run_threads(run, ranks)[0]).arrays for ranks in (1, 3))
    assert len(one) == 3
    for name, array in one.items():
        np.testing.assert_allclose(several[name], array, rtol=1e-6)


@pytest.mark.parametrize("captured", [False, True])
def test_a_rank_that_moves_nothing_counts_the_same_steps(captured):
    def run():
        v = pb.Variable(np.arange(3.0))
        adam = pb.optimizers.Adam(0.1, accumulate_steps=2)
        optimizer = dist.DataParallel(adam, shard_slots=True)

        def step():
            optimizer.minimize(lambda: pb.sum(v**2), [v])

        called, steps = pb.function(step) if captured else step, []
        for _ in range(7):
            called()
            steps.append(optimizer.step)
        return steps

    assert dist.run_threads(run, 3) == [[0, 1, 1, 2, 2, 3, 3]] * 3


def test_a_copy_of_model_and_optimizer_goes_on(tmp_path):
    def run():
        v = [pb.Variable(np.full(size, 2.0)) for size in (3, 4, 5)]
        optimizer = dist.DataParallel(pb.optimizers.Adam(0.1), shard_slots=True)
        # In this order another rank has each of them than it would have at once.
        for moved in (v[:1], v[1:2], v):
            optimizer.minimize(lambda moved=moved: sum(pb.sum(x**3) for x in moved), moved)
        found = []
        for objects in (copy.deepcopy((v, optimizer)), (v, optimizer)):
            variables, own = objects
            own.minimize(lambda v=variables: sum(pb.sum(x**3) for x in v), variables)
            checkpoint = pb.Checkpoint(v=variables, optimizer=own)
            found.append(folder.read(checkpoint.save(tmp_path, sharded=True)))
            dist.barrier()
        return found

    for one, other in dist.run_threads(run, 2):
        assert len(one.arrays) == 9
        same(one._replace(step=None), other._replace(step=None))


# ---------------------------------------------------------------------------------------------
# fit.


def fit(place, ranks, *, until=None, epochs=4, capture=False, **options):
    """The history of a run, which may end after a step; and what the ranks keep of slots."""

    class Fails(pb.callbacks.Callback):
        order = 2000  # after the checkpoint

        def on_train_batch_end(self, batch, logs):
            if self.run.total == until:
                raise KeyError

    def run():
        rng = np.random.default_rng(0)
        x, y = rng.normal(size=(22, 6)).astype("float32"), rng.integers(0, 3, 22)
        pb.random.seed(1)
        model = pb.Sequential([pb.layers.Dense(8, activation="tanh"), pb.layers.Dense(3)])
        model(x[:1])
        for variable in model.trainable_variables:
            variable.assign(rng.normal(size=variable.shape).astype("float32"))
        optimizer = dist.DataParallel(pb.optimizers.Adam(0.05), exact=True, shard_slots=True)
        loss = "sparse_softmax_cross_entropy"
        model.compile(optimizer, loss, ["accuracy"], capture=capture, distributed=True)
        stop = pb.callbacks.EarlyStopping(
            "loss", patience=1, min_delta=0.02, restore_best_weights=True
        )
        save = pb.callbacks.Checkpoint(place, resume=True, sharded=True, **options)
        callbacks = [save, stop, Fails()]
        batches = pb.data.Dataset.from_tensor_slices((x, y)).shuffle(seed=3).batch(8)
        history = model.fit(batches, epochs=epochs, callbacks=callbacks, verbose=False).history
        return history, sum(v.size for v in optimizer.variables), model.variables[0].tolist()

    return dist.run_threads(run, ranks)


@pytest.mark.parametrize("capture", [False, True])
@pytest.mark.parametrize("ways", [(2, 1), (1, 3), (4, 2, 3)], ids=str)
def test_a_run_goes_on_with_other_ranks(ways, capture, tmp_path):
    """It is stopped amid an epoch, again and again, and reads the same batches as undisturbed."""
    (history, size, weights), *_ = fit(tmp_path / "whole", 1, capture=capture)
    until = 0
    for ranks in ways[:-1]:
        until += 4
        with pytest.raises(KeyError):
            fit(tmp_path / "run", ranks, until=until, capture=capture, every_steps=1)
        assert count(pb.latest_checkpoint(tmp_path / "run")) == ranks
    found = fit(tmp_path / "run", ways[-1], capture=capture, every_steps=1)
    for other, _, moved in found:
        assert other.keys() == history.keys()
        for name, numbers in history.items():
            np.testing.assert_allclose(other[name], numbers, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(moved, weights, rtol=1e-3, atol=1e-4)
    assert sum(own for _, own, _ in found) == size  # each slot is on one rank


def test_fit_removes_old_ones_and_keeps_the_best(tmp_path):
    fit(tmp_path, 2, keep=1, keep_best=1, monitor="loss", epochs=3)
    assert sorted(os.listdir(tmp_path)) == ["ckpt-9"]
    with pytest.raises(pb.errors.InputValueError, match="leave background out"):
        fit(tmp_path, 2, background=1)


def test_one_rank_tells_where_an_interrupted_run_was_saved(tmp_path, capsys):
    def run():
        model = pb.Sequential([pb.layers.Dense(3)])
        model.compile("adam", "sparse_softmax_cross_entropy", distributed=True)
        save = pb.callbacks.Checkpoint(tmp_path, sharded=True)
        model.fit(np.ones((8, 2)), np.zeros(8, int), callbacks=[save], verbose=False)
        save.on_interrupt({})

    dist.run_threads(run, 2)
    assert capsys.readouterr().err.count("interrupted after") == 1


# ---------------------------------------------------------------------------------------------
# Failures.


def outcomes(place, act, ranks=3, **options):
    """Returns what each rank has raised when one of them did something; then all save again."""

    def run():
        x = [pb.Variable(np.full(3, 1.0)) for _ in range(6)]
        manager = pb.CheckpointManager(pb.Checkpoint(x=x), place, keep=2, sharded=True, **options)
        manager.save(step=1)
        x[0].assign(np.full(3, 2.0))
        error = None
        try:
            act(manager)
        except BaseException as raised:
            error = raised
        if error is not None:
            assert manager.latest == str(place / "ckpt-1")
            dist.barrier()
            left = [name for name in os.listdir(place) if name.startswith(".")]
            assert left == []
            dist.barrier()
        manager.save(step=3)
        return error

    found = dist.run_threads(run, ranks)
    assert float(folder.read(pb.latest_checkpoint(place)).arrays["x/0"][0]) == 2.0
    return found


def failing(error, rank, *, name, monkeypatch):
    """Has one rank fail once, at the second save, where it calls a function of the module."""
    original, calls = getattr(folder, name), []

    def fails(*arguments):
        if threading.current_thread().name == f"rank {rank}":
            calls.append(arguments)
            if "ckpt-2." in str(arguments):
                raise error
        return original(*arguments)

    monkeypatch.setattr(folder, name, fails)


@pytest.mark.parametrize("rank", [0, 1, 2])
@pytest.mark.parametrize(
    "error",
    [OSError(28, "No space left on device"), MemoryError(), KeyboardInterrupt(), SystemExit(3)],
    ids=lambda error: type(error).__name__,
)
def test_all_ranks_fail_if_one_does(error, rank, tmp_path, monkeypatch):
    failing(error, rank, name="write_file", monkeypatch=monkeypatch)
    found = outcomes(tmp_path, lambda manager: manager.save(step=2))
    for number, raised in enumerate(found):
        if number == rank and not isinstance(error, OSError):
            assert raised is error
        else:
            assert isinstance(raised, pb.errors.CheckpointError)
            assert "could not be written" in str(raised)
            assert str(raised).endswith("No space left on device") or rank != number
            if number != rank:
                assert f"rank {rank} on " in str(raised)
                assert type(error).__name__ in str(raised)


def test_an_object_that_one_rank_cannot_save(tmp_path):
    def act(manager):
        manager.checkpoint.more = object() if dist.rank() == 1 else pb.Variable(1.0)
        try:
            manager.save(step=2)
        finally:
            del manager.checkpoint.more

    found = outcomes(tmp_path, act)
    assert all(isinstance(error, pb.errors.CheckpointError) for error in found)
    assert "cannot hold more" in str(found[1])
    assert "rank 1 on " in str(found[0])


def test_ranks_that_save_other_arrays(tmp_path):
    def act(manager):
        manager.checkpoint.more = pb.Variable(np.zeros(2 + dist.rank() // 2))
        try:
            manager.save(step=2)
        finally:
            del manager.checkpoint.more

    for error in outcomes(tmp_path, act):
        assert "more is float64[2] on rank 0, and float64[3] on rank 2" in str(error)


def test_a_rank_that_does_something_else_is_an_error_on_all(tmp_path):
    def run():
        x = pb.Variable(1.0)
        if dist.rank():
            return dist.barrier()
        return pb.Checkpoint(x=x).save(tmp_path, sharded=True)

    with pytest.raises(pb.errors.CommunicationError, match=r"saves a checkpoint, but.*barrier"):
        dist.run_threads(run, 2)
    assert os.listdir(tmp_path) == []


def test_a_folder_that_is_not_shared(tmp_path):
    """As on two machines with disks of their own, or with a temporary folder of each rank."""

    def run():
        place = tmp_path / str(dist.rank())
        manager = pb.CheckpointManager(pb.Checkpoint(x=pb.Variable(1.0)), place, sharded=True)
        with pytest.raises(pb.errors.CheckpointError) as raised:
            manager.save()
        return str(raised.value)

    for rank, text in enumerate(dist.run_threads(run, 2)):
        assert ("rank 1 on " in text) == (rank == 0)
        assert f"there is no folder '{tmp_path}/1/.ckpt-1." in text
        assert "a folder that all ranks see" in text
        assert "sharded=False" in text
    assert os.listdir(tmp_path / "0") == os.listdir(tmp_path / "1") == []


def test_a_part_that_rank_0_does_not_see_whole(tmp_path, monkeypatch):
    write = folder.write_file

    def short(path, data):
        late = path.name.startswith("arrays-00002") and "ckpt-2" in path.parent.name
        write(path, data[:-1] if late else data)

    monkeypatch.setattr(folder, "write_file", short)
    for error in outcomes(tmp_path, lambda manager: manager.save(step=2)):
        assert "arrays-00002-of-00003.safetensors has " in str(error)


def test_a_rank_that_ends_amid_a_checkpoint_leaves_the_one_before(tmp_path, monkeypatch):
    original = folder.together

    def run():
        manager = pb.CheckpointManager(pb.Checkpoint(x=pb.Variable(1.0)), tmp_path, sharded=True)
        manager.save()
        if dist.rank() == 1:
            monkeypatch.setattr(folder, "together", dies)
        manager.save()

    def dies(ranks, does, action):
        if ranks.communicator.rank == 1 and "writes" in does:
            raise KeyError("gone")
        return original(ranks, does, action)

    with pytest.raises(KeyError):
        dist.run_threads(run, 3)
    assert sorted(os.listdir(tmp_path)) == ["ckpt-1"]
    monkeypatch.undo()
    pb.Checkpoint(x=pb.Variable(0.0)).restore(pb.latest_checkpoint(tmp_path)).assert_complete()


def test_sums_that_have_begun_end_before_ranks_exchange_more():
    """Those of a step that has failed, after which a program may save."""
    heard = []

    class Records(dist.Communicator):
        size, concurrent = 2, True

        def exchange(self, data):
            heard.append("exchange")
            return [data, data]

    def add():
        time.sleep(0.05)
        heard.append("sum")

    world = World(Records())
    world.begin(None, add, beside=True)
    assert world.gather("saves", b"what it has") == [b"what it has"] * 2
    assert world.gather("saves nothing", b"") == [b"", b""]
    assert heard[:2] == ["sum", "exchange"]
    assert heard.count("sum") == 1


def test_clocks_that_differ(tmp_path, monkeypatch):
    """The first rank gives the time, and a clock that was set back hides nothing."""
    clock = {"rank 0": 5 * 10**18, "rank 1": 9 * 10**18}
    monkeypatch.setattr(time, "time_ns", lambda: clock[threading.current_thread().name])

    def run():
        x = pb.Variable(0.0)
        manager = pb.CheckpointManager(pb.Checkpoint(x=x), tmp_path, keep=2, sharded=True)
        for step in (1, 2, 3):
            clock["rank 0"] -= 10**9
            x.assign(float(step))
            path = manager.save(step=step)
            assert manager.latest == path
            dist.barrier()
        return manager.checkpoints

    one, two = dist.run_threads(run, 2)
    assert one == two == [str(tmp_path / "ckpt-2"), str(tmp_path / "ckpt-3")]


def test_states_are_those_of_the_first_rank(tmp_path):
    """Such as that of a callback that writes: other ranks have none, or another one."""

    class State:
        def __init__(self, *arrays):
            self.arrays = list(arrays)

        def checkpoint_state(self):
            return {"arrays": self.arrays}

        def restore_state(self, state):
            self.arrays = state["arrays"]

    def save():
        rank = dist.rank()
        state = State(*(np.full(4 + rank, rank) for _ in range(2 + rank)))
        x = [pb.Variable(np.zeros(size)) for size in (5, 6, 7)]
        return pb.Checkpoint(state=state, x=x).save(tmp_path, sharded=True)

    path = dist.run_threads(save, 3)[0]
    state = State()
    pb.Checkpoint(state=state).restore(path)
    assert [array.tolist() for array in state.arrays] == [[0.0] * 4] * 2


def test_one_rank_alone_removes_and_renames(tmp_path, monkeypatch):
    threads = set()
    for name in ("tidy", "tidy_all", "settle", "put", "remove", "discard"):
        called = getattr(folder, name)

        def noted(*arguments, called=called):
            threads.add(threading.current_thread().name)
            return called(*arguments)

        monkeypatch.setattr(folder, name, noted)

    def run():
        checkpoint = pb.Checkpoint(x=pb.Variable(0.0))
        manager = pb.CheckpointManager(checkpoint, tmp_path, keep=1, sharded=True)
        for step in (1, 1, 2):
            manager.save(step=step)
        manager.clear()

    dist.run_threads(run, 3)
    assert threads == {"rank 0"}


def test_numbers_and_clearing(tmp_path):
    def run():
        manager = pb.CheckpointManager(
            pb.Checkpoint(x=pb.Variable(0.0)), tmp_path, name="run", sharded=True
        )
        found = [manager.save(), manager.save(), manager.save(step=7), manager.save()]
        dist.barrier()
        manager.clear()
        dist.barrier()
        assert manager.checkpoints == []
        return [*found, manager.save()]

    one, two = dist.run_threads(run, 2)
    assert one == two
    assert [path.rpartition("-")[2] for path in one] == ["1", "2", "7", "8", "1"]


# ---------------------------------------------------------------------------------------------
# Reading.


@pytest.fixture
def saved(tmp_path):
    """A checkpoint of three ranks, and one that is older."""

    def run():
        x = [pb.Variable(np.full(3, 1.0 + i, np.float32)) for i in range(6)]
        manager = pb.CheckpointManager(pb.Checkpoint(x=x), tmp_path, sharded=True)
        return [manager.save(), manager.save()][1]

    return Path(dist.run_threads(run, 3)[0])


def test_files(saved):
    assert sorted(os.listdir(saved)) == [
        "arrays-00001-of-00003.safetensors",
        "arrays-00002-of-00003.safetensors",
        "arrays-00003-of-00003.safetensors",
        "arrays.safetensors.index.json",
        "manifest.json",
    ]
    assert [len(part) for part in parts(saved)] == [2, 2, 2]
    assert json.loads((saved / "manifest.json").read_text())["version"] == 2


def test_one_rank_writes_what_older_programs_read(tmp_path):
    path = Path(pb.Checkpoint(x=pb.Variable(1.0)).save(tmp_path, sharded=True))
    assert sorted(os.listdir(path)) == ["arrays.safetensors", "manifest.json"]
    assert json.loads((path / "manifest.json").read_text())["version"] == 1


def test_other_programs_read_the_arrays_by_the_index(saved):
    x = [pb.Variable(np.zeros(3, np.float32)) for _ in range(6)]
    for path in (saved / "arrays.safetensors", saved / names.INDEX):
        for variable in x:
            variable.assign(np.zeros(3))
        pb.checkpoint.load_weights(x, path, names=lambda path: f"x/{path}")
        assert [variable.tolist()[0] for variable in x] == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_part_that_is_missing(number, saved):
    part = saved / f"arrays-0000{number}-of-00003.safetensors"
    part.unlink()
    with pytest.raises(pb.errors.CheckpointError) as raised:
        folder.read(saved)
    assert f"{part.name} is missing" in str(raised.value)
    assert "the files of all 3 ranks" in str(raised.value)
    assert "copy" in str(raised.value)
    assert pb.latest_checkpoint(saved.parent) == str(saved.parent / "ckpt-1")


@pytest.mark.parametrize("seed", range(40))
def test_damage_is_found(seed, saved):
    """Whatever byte of whatever file has changed, or however files are mixed up."""
    draw = random.Random(seed)
    name = draw.choice(sorted({*os.listdir(saved)} - {names.INDEX}))
    data = bytearray((saved / name).read_bytes())
    match draw.randrange(4):
        case 0:
            data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        case 1:
            del data[draw.randrange(len(data)) :]
        case 2:
            data = bytearray((saved / draw.choice(names.files(3))).read_bytes())
        case 3:
            data = bytearray()
    before = folder.read(saved)
    changed = bytes(data) != (saved / name).read_bytes()
    (saved / name).write_bytes(data)
    try:
        # What has changed may be no part of an array, such as a space in a header.
        same(folder.read(saved), before)
    except pb.errors.CheckpointError:
        with pytest.raises(pb.errors.CheckpointError, match="damaged"):
            folder.read(saved)
        assert pb.latest_checkpoint(saved.parent) == str(saved.parent / "ckpt-1")
    else:
        assert not changed or name != "manifest.json"


@pytest.mark.parametrize("number", [0, -1, 2, 4, 10**9, 10**30, 1.0, True, None, "3", [3]])
def test_numbers_of_parts_that_nobody_has_written(number, saved):
    from pullback._array_files import sealed
    from pullback.checkpoint import manifest

    content = json.loads((saved / "manifest.json").read_text())["content"]
    data = sealed(manifest.FORMAT, 2, {**content, "parts": number})
    (saved / "manifest.json").write_bytes(data)
    begin = time.monotonic()
    with pytest.raises(pb.errors.CheckpointError, match="damaged"):
        folder.read(saved)
    assert time.monotonic() - begin < 5


def test_a_copy_without_its_manifest_is_no_checkpoint_and_stays(saved):
    """As while somebody copies it there: it is not known to be ours."""
    half = saved.parent / "ckpt-9"
    half.mkdir()
    shutil.copy(saved / "arrays-00001-of-00003.safetensors", half)

    def run():
        manager = pb.CheckpointManager(
            pb.Checkpoint(x=pb.Variable(1.0)), saved.parent, keep=1, sharded=True
        )
        assert manager.latest == str(saved)
        return manager.save(step=20)

    assert {*dist.run_threads(run, 2)} == {str(saved.parent / "ckpt-20")}
    assert sorted(os.listdir(saved.parent)) == ["ckpt-20", "ckpt-9"]
