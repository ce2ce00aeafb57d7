"""`remat`: the bits of the function itself, less memory, and calls that are made again."""

import tracemalloc

import numpy as np
import pytest

import pullback as pb
from pullback.graph.emit import release_last_use


def values(*shape):
    return pb.asarray(np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32))


class World:
    """Functions of a tensor of shape (4, 4) that use what is around them."""

    def __init__(self):
        pb.random.seed(5)
        self.v = pb.Variable(values(4, 4), name="v")
        self.count = pb.Variable(0.0, trainable=False)
        self.norm = pb.layers.BatchNormalization()
        self.norm(values(4, 4))
        self.generator = pb.Generator(3)
        self.program = pb.function(lambda x: pb.sin(x @ self.v) * self.v)

    @property
    def variables(self):
        return [self.v, *self.norm.trainable_variables]

    def plain(self, x, outside):
        return pb.tanh(x @ x) * x

    def shared(self, x, outside):
        return pb.sin(x @ self.v) + x * self.v + self.v

    def dropout(self, x, outside):
        return pb.random.dropout(x * self.v, 0.5) + self.generator.dropout(pb.exp(-x * x), 0.3)

    def writes(self, x, outside):
        y = self.norm(x, training=True) * self.v
        self.count.assign_add(1.0)
        self.count.assign(self.count * 2.0)
        return y * y

    def closure(self, x, outside):
        return pb.cos(x) * outside * outside

    def inner_gradient(self, x, outside):
        return x * pb.grad(lambda z: pb.sum(pb.sin(z) * self.v))(x)

    def custom(self, x, outside):
        @pb.custom_gradient
        def halved(x, v):
            return x * v, lambda g: [g * 0.5, g * x]

        return halved(x, self.v) * x

    def nested(self, x, outside):
        return pb.remat(self.dropout)(pb.remat(self.shared)(x, outside), outside) + x

    def control(self, x, outside):
        y, _ = pb.scan(lambda c, row: (pb.tanh(c * row + self.v), c), x, x)
        return pb.cond(pb.sum(x) > 0, lambda y: y * x, lambda y: y + self.v, y)

    def captured(self, x, outside):
        return self.program(x) * x

    def itself(self, x, outside):
        return x


FUNCTIONS = [name for name in vars(World) if not name.startswith("_") and name != "variables"]


def twice(name, wrap):
    """A loss that calls a function on its own result, and uses its input elsewhere."""

    def loss(world, x):
        outside = pb.exp(x * 0.1)
        f = wrap(lambda x: getattr(world, name)(x, outside))
        return pb.sum(f(f(x)) * pb.cos(x) * outside)

    return loss


def recorded(world, loss, x):
    with pb.GradientTape() as tape:
        tape.watch(x)
        y = loss(world, x)
    return [y, *tape.gradient(y, [x, *world.variables])]


def in_program(world, loss, x):
    @pb.function
    def step(x):
        return recorded(world, loss, x)

    return repeated(world, lambda: step(x))


def around_program(world, loss, x):
    program = pb.function(lambda x: loss(world, x))
    return repeated(world, lambda: recorded(world, lambda _, x: program(x), x))


def repeated(world, call):
    """The last of several calls, from the same state of variables and generators each time."""
    state = [v.value for v in [world.count, *world.norm.variables]]
    for _ in range(4):
        for v, value in zip([world.count, *world.norm.variables], state, strict=True):
            v.assign(value)
        pb.random.seed(5)
        world.generator.seed(3)
        result = call()
    return result


def one_source(world, loss, x):
    return [pb.grad(lambda x: loss(world, x))(x)]


def one_variable(world, loss, x):
    with pb.GradientTape(persistent=True) as tape:
        y = loss(world, x)
    return [tape.gradient(y, world.v), tape.gradient(y, world.v)]


def two_tapes(world, loss, x):
    with pb.GradientTape(persistent=True) as outer, pb.GradientTape() as inner:
        inner.watch(x)
        outer.watch(x)
        y = loss(world, x)
    return [inner.gradient(y, [x, world.v]), outer.gradient(y, [x, world.v])]


def inside_batch(world, loss, x):
    batch = pb.stack([x, x * 0.5, -x])
    return [pb.vmap(pb.grad(lambda x: loss(world, x)))(batch)]


def around_batch(world, loss, x):
    batch = pb.stack([x, x * 0.5, -x])
    return recorded(world, lambda world, b: pb.sum(pb.vmap(lambda x: loss(world, x))(b)), batch)


def replaced(world, loss, x):
    held = pb.layers.Lambda(lambda x: loss(world, x))
    held.v = world.v

    def total(value, x):
        return pb.functional_call(held, {"v": value}, x)

    return [pb.grad(total, (0, 1))(values(4, 4) * 0.3, x)]


WAYS = [
    recorded, in_program, around_program, one_source, one_variable, two_tapes, inside_batch,
    around_batch, replaced,
]  # fmt: skip


def outcome(name, way, remat):
    """All results of a way, and the state of the world after it."""
    world = World()
    results = way(world, twice(name, pb.remat if remat else lambda f: f), values(4, 4))
    found = [t for r in results for t in (r if isinstance(r, (list, tuple)) else [r])]
    state = [world.count, *world.norm.variables, pb.random.default_generator.normal((2,))]
    return [None if t is None else t.numpy() for t in [*found, *state]]


@pytest.mark.each("way", WAYS)
def test_bits(way):
    for name in FUNCTIONS:
        if name in ("plain", "closure", "itself") and way is one_variable:
            continue  # the loss does not depend on the variable: the tape says so
        if name == "writes" and way in (inside_batch, around_batch):
            continue  # items of a batch cannot assign a variable
        if name == "inner_gradient" and way is around_program:
            continue
        expected, found = outcome(name, way, False), outcome(name, way, True)
        assert len(found) == len(expected)
        for x, y in zip(found, expected, strict=True):
            assert (x is None) == (y is None), name
            if x is not None:
                assert x.tobytes() == y.tobytes(), (name, x - y)


def test_higher_orders():
    for name in ("plain", "shared", "dropout", "closure", "inner_gradient", "nested"):
        found = []
        for wrap in (pb.remat, lambda f: f):
            world = World()
            loss = twice(name, wrap)

            def square(x, world=world, loss=loss):
                return pb.sum(pb.grad(lambda x: loss(world, x))(x) ** 2)

            def third(x, square=square):
                return pb.sum(pb.grad(square)(x) * pb.cos(x))

            x = values(4, 4) * 0.3
            found.append([pb.grad(square)(x).numpy(), pb.grad(third)(x).numpy()])
        for x, y in zip(*found, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-3, atol=1e-3 * np.abs(y).max(), err_msg=name)


def test_structures_and_keywords():
    def f(pair, *, scale, words):
        assert words == "text"
        return {"sum": pair[0] + pair[1] * scale, "n": 3, "both": (pair[0] * pair[1], None)}

    host = np.ones((4, 4), np.float32)

    def loss(f, x):
        made = f((pb.sin(x), host), scale=x, words="text")
        host[...] = 7.0  # an array that is written to later counts as it was
        total = pb.sum(made["sum"] * made["both"][0]) * made["n"]
        host[...] = 1.0
        return total

    x = values(4, 4)
    plain = pb.grad(lambda x: loss(f, x))(x)
    assert plain.numpy().tobytes() == pb.grad(lambda x: loss(pb.remat(f), x))(x).numpy().tobytes()


def test_handles_may_be_changed():
    def f(x):
        x[0] = x[1] * 2.0
        return pb.sin(x)

    def gradient(f):
        def loss(x):
            y = pb.exp(x)
            z = f(y)
            return pb.sum(z * y)

        return pb.grad(loss)(values(4, 4)).numpy()

    np.testing.assert_array_equal(gradient(f), gradient(pb.remat(f)))


def test_methods_and_first_calls():
    class Block(pb.layers.Layer):
        def build(self, shape):
            self.dense = pb.layers.Dense(4)
            self.drop = pb.layers.Dropout(0.5)

        @pb.remat
        def call(self, x):
            return self.drop(pb.tanh(self.dense(x)))

    def gradients(kind):
        pb.random.seed(1)
        block = kind()
        with pb.GradientTape() as tape:
            y = pb.sum(block(values(4, 4), training=True))  # makes the variables meanwhile
        variables = block.trainable_variables
        assert [v.shape for v in variables] == [(4, 4), (4,)]
        return [g.numpy() for g in tape.gradient(y, variables)]

    plain = type("Plain", (Block,), {"call": Block.__dict__["call"].function})
    for x, y in zip(gradients(Block), gradients(plain), strict=True):
        np.testing.assert_array_equal(x, y)


def test_layers_keep_their_losses():
    class Penal(pb.layers.Layer):
        def call(self, x):
            self.add_loss(pb.sum(x * x))
            return pb.sin(x)

    def gradient(remat):
        model = pb.Sequential([Penal(), Penal()], remat=remat)

        def loss(x):
            y = pb.sum(model(x))
            return y + sum(model.losses)

        found = pb.grad(loss)(values(4, 4))
        return found.numpy(), len(model.losses)

    (x, n), (y, m) = gradient(False), gradient(True)
    assert n == m == 2
    np.testing.assert_allclose(x, y, rtol=1e-6)


def test_sequential():
    model = pb.Sequential(
        [pb.layers.Dense(4, "tanh"), pb.layers.Dropout(0.5), lambda x: x * 2.0],
        remat=True,
    )
    model(values(4, 4))
    assert list(model.named_variables) == ["layers/0/kernel", "layers/0/bias"]
    assert model[:1].remat
    made = pb.Sequential.from_config(pb.Sequential([pb.layers.Dense(2)], remat=True).get_config())
    assert made.remat


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_mixed_precision(policy):
    def gradients(remat, captured):
        pb.random.seed(0)
        with pb.layers.policy(policy):
            parts = [pb.layers.Dense(4, "gelu"), pb.layers.LayerNormalization(), pb.layers.Dense(1)]
            model = pb.Sequential(parts, remat=remat)
        x = values(4, 4)
        model(x)

        def step(x):
            with pb.GradientTape() as tape:
                loss = pb.mean(model(x) ** 2)
            return tape.gradient(loss, model.trainable_variables)

        step = pb.function(step) if captured else step
        return [[g.numpy() for g in step(x)] for _ in range(3)][-1]

    expected = gradients(False, False)
    for captured in (False, True):
        for x, y in zip(gradients(True, captured), expected, strict=True):
            assert x.tobytes() == y.tobytes()


@pytest.mark.parametrize("capture", [False, True])
def test_training(capture):
    """Moving averages, dropout and the steps of an optimizer have the bits of plain training."""
    x = np.random.default_rng(0).standard_normal((64, 4)).astype(np.float32)

    def trained(remat):
        pb.random.seed(0)
        dense = pb.layers.Dense(4, "gelu", kernel_regularizer="l2")
        parts = [dense, pb.layers.BatchNormalization(), pb.layers.Dropout(0.3)]
        model = pb.Sequential([*parts, pb.layers.Dense(1)], remat=remat)
        model.compile(optimizer="adam", loss="mse", capture=capture)
        history = model.fit(x, x[:, :1], epochs=2, batch_size=16, verbose=0)
        return [*history.history["loss"], *(v.numpy().tolist() for v in model.variables)]

    assert trained(False) == trained(True)


def test_saved_programs(tmp_path):
    def block(x):
        return pb.tanh(x @ x) * x

    x = values(4, 4) * 0.3
    slope = pb.grad(lambda x: pb.sum(pb.remat(block)(pb.remat(block)(x))))
    program = pb.function(slope)
    program.lower(x).save(tmp_path / "program")
    loaded = pb.load_program(tmp_path / "program")
    assert loaded(x).numpy().tobytes() == slope(x).numpy().tobytes()
    second = pb.grad(lambda x: pb.sum(slope(x)))(x)
    found = pb.grad(lambda x: pb.sum(loaded(x)))(x)
    np.testing.assert_allclose(found.numpy(), second.numpy(), rtol=1e-4)


@pytest.mark.parametrize("captured", [False, True])
@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("where", ["outside", "around", "own", "inside"])
def test_tapes_that_stop_recording(where, nested, captured):
    w = pb.Variable([1.0, 2.0, 3.0])

    def gradients(wrapped):
        def step(x):
            with pb.GradientTape() as tape:
                tape.watch(x)

                def f(x):
                    y = pb.tanh(x * w)
                    if where == "own":
                        with pb.GradientTape() as own:
                            own.watch(x)
                            z = pb.sin(x)
                            with own.stop_recording():
                                z = z * pb.cos(x)
                            total = pb.sum(z * x)
                        return y * own.gradient(total, x)
                    if where == "inside":
                        with tape.stop_recording():
                            return y * x
                    return y * x

                g = wrapped(lambda x: wrapped(f)(x) * 2.0) if nested else wrapped(f)
                y = g(x)
                if where == "outside":
                    with tape.stop_recording():
                        factor = g(x)
                    y = y * factor
                if where == "around":
                    with tape.stop_recording():
                        with pb.GradientTape() as other:
                            other.watch(x)
                            total = pb.sum(g(x))
                        factor = other.gradient(total, x)
                    y = y * factor
                loss = pb.sum(y)
            return tape.gradient(loss, [x, w])

        call = pb.function(step) if captured else step
        return [[g.tolist() for g in call(pb.asarray([1.0, -2.0, 0.5]))] for _ in range(3)]

    if where == "inside":
        with pytest.raises(pb.errors.TapeError, match=r"write pb\.stop_gradient"):
            gradients(pb.remat)
    else:
        assert gradients(pb.remat) == gradients(lambda f: f)


def test_other_results_are_an_error():
    sizes = iter([2, 3])

    def f(x):
        return x[: next(sizes)] * 2.0

    with pytest.raises(pb.errors.InputValueError, match="returns other results when it is called"):
        pb.grad(lambda x: pb.sum(pb.remat(f)(x)))(values(4))
    calls = iter([1, 2])

    def g(x):
        for _ in range(next(calls)):
            x = pb.random.dropout(x, 0.5)
        return x

    with pytest.raises(pb.errors.InputValueError, match="draws more random numbers"):
        pb.grad(lambda x: pb.sum(pb.remat(g)(x)))(values(4))
    with pytest.raises(pb.errors.InputTypeError, match="takes a function or a layer"):
        pb.remat(3)


# Memory -------------------------------------------------------------------------------------------


def deep(remat, layers=24):
    def block(x):
        for _ in range(6):
            x = pb.sin(x * 1.1)
        return x

    def loss(x):
        for _ in range(layers):
            x = pb.remat(block)(x) if remat else block(x)
        return pb.sum(x)

    return loss


def most_alive(graph):
    """The bytes that are alive at most while a graph runs, call by call."""
    _, *released = release_last_use(graph)
    alive = most = 0

    def size(value):
        return int(np.prod(value.shape)) * value.dtype.itemsize

    for call, gone in zip(graph.calls, released, strict=True):
        if call.op.name != "barrier":
            alive += sum(map(size, call.results))
        most = max(most, alive)
        alive -= sum(size(v) for v in gone if v.name.startswith("v"))
    return most


def test_peak_op_by_op():
    def peak(remat):
        x = pb.asarray(np.linspace(0, 1, 20_000))
        gradient = pb.grad(deep(remat))
        tracemalloc.start()
        gradient(x)
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    assert peak(True) < 0.4 * peak(False)


def test_peak_of_programs():
    x = values(100)
    graphs = {}
    for remat in (False, True):
        step = pb.function(pb.value_and_grad(deep(remat)))
        for _ in range(3):
            step(x)
        graphs[remat] = step.graph
    count = {
        remat: sum(call.op.name == "sin" for call in graph.calls) for remat, graph in graphs.items()
    }
    # The last sine of a block is not wanted again.
    assert count == {False: 24 * 6, True: 24 * 6 + 24 * 5}
    assert most_alive(graphs[True]) < 0.4 * most_alive(graphs[False])


def test_what_nodes_of_programs_save():
    """With a tape outside the program keeps the inputs of the blocks."""
    program = pb.function(deep(True))
    x = values(100)
    for _ in range(3):
        pb.grad(program)(x)
    with pb.GradientTape() as tape:
        tape.watch(x)
        y = program(x)
        node = y._node.parents[0]
    saved = {id(array) for array in node.saved}
    assert node.op.name == "loss"
    assert len(saved) <= 24 + 2
    assert tape.gradient(y, x) is not None
