/* Updates of optimizers: new values of a parameter and its slots, in new arrays or in the old. */
#include <math.h>

#include "calls.h"
#include "pool.h"

/* The most arrays that an update changes, and the most inputs with keywords that it takes. */
#define MOST_CHANGED 3
#define MOST_INPUTS 16
/* Elements of a piece: there are several arrays. */
#define SLOTS_PIECE (PIECE / 2)

typedef union {
    SgdArgs sgd;
    MomentumArgs momentum;
    AdamArgs adam;
} Args;

/* An op. Its inputs are the parameter, the gradient, the slots, and numbers. */
typedef struct {
    int kernel, loop;
    int changed; /* the parameter and its slots */
    int inputs;
    double cost; /* nanoseconds of an element */
    /* Takes numbers and attributes. */
    void (*numbers)(Args *, PyObject *const *x, Py_ssize_t count, PyObject *names);
    /* Takes the gradient, and the old and new values of what changes. */
    void (*arrays)(Args *, const float *g, float *const *old, float *const *new);
} Update;

/* A learning rate or a step: a plain array without axes, or NumPy's scalar, which its functions
 * make of such arrays. */
static int is_rate(PyObject *x) {
    return PyArray_IsScalar(x, Float) || (is_plain(x) && is_number(x));
}

static double rate_of(PyObject *x) {
    if (!PyArray_IsScalar(x, Float))
        return value(x);
    float number;
    PyArray_ScalarAsCtype(x, &number);
    return number;
}

static void sgd_numbers(Args *args, PyObject *const *x, Py_ssize_t count, PyObject *names) {
    args->sgd = (SgdArgs){.rate = rate_of(x[2]), .weight_decay = ATTRIBUTE(weight_decay)};
}

static void sgd_arrays(Args *args, const float *g, float *const *old, float *const *new) {
    SgdArgs *sgd = &args->sgd;
    sgd->g = g, sgd->p = old[0], sgd->new_p = new[0];
}

static void momentum_numbers(Args *args, PyObject *const *x, Py_ssize_t count, PyObject *names) {
    args->momentum = (MomentumArgs){.rate = rate_of(x[3]),
                                    .weight_decay = ATTRIBUTE(weight_decay),
                                    .momentum = ATTRIBUTE(momentum),
                                    .nesterov = is_true(x, count, names, "nesterov")};
}

static void momentum_arrays(Args *args, const float *g, float *const *old, float *const *new) {
    MomentumArgs *momentum = &args->momentum;
    momentum->g = g, momentum->p = old[0], momentum->v = old[1];
    momentum->new_p = new[0], momentum->new_v = new[1];
}

/* rate (m / c1) / (sqrt(v / c2) + epsilon), with the constants combined. */
static void adam_numbers(Args *args, PyObject *const *x, Py_ssize_t count, PyObject *names) {
    double rate = rate_of(x[4]), step = rate_of(x[5]);
    double beta1 = ATTRIBUTE(beta1), beta2 = ATTRIBUTE(beta2);
    double decay = ATTRIBUTE(weight_decay), root = sqrt(1 - pow(beta2, step));
    args->adam = (AdamArgs){.share1 = 1 - beta1,
                            .share2 = 1 - beta2,
                            .scale = rate * root / (1 - pow(beta1, step)),
                            .epsilon = ATTRIBUTE(epsilon) * root,
                            .weight_decay = decay,
                            .step_decay = decay * rate};
}

static void adam_arrays(Args *args, const float *g, float *const *old, float *const *new) {
    AdamArgs *adam = &args->adam;
    adam->g = g, adam->p = old[0], adam->m = old[1], adam->v = old[2];
    adam->new_p = new[0], adam->new_m = new[1], adam->new_v = new[2];
}

static const Update sgd = {KERNEL_sgd_update, LOOP_sgd, 1, 3, 0.4, sgd_numbers, sgd_arrays};
static const Update momentum = {KERNEL_momentum_update, LOOP_momentum,  2, 4, 0.6,
                                momentum_numbers,       momentum_arrays};
static const Update adam = {KERNEL_adam_update, LOOP_adam, 3, 6, 0.9, adam_numbers, adam_arrays};

/* The position among the inputs of what is changed: the gradient comes second. */
static int position(int i) { return i ? i + 1 : 0; }

/* True if arrays are plain and of one shape, and the inputs after them plain numbers. */
static int are_plain(const Update *update, PyObject *const *x, Py_ssize_t count) {
    if (count != update->inputs)
        return 0;
    for (int i = 0; i < count; i++)
        if (i <= update->changed ? !is_plain(x[i]) || !same_shape(x[0], x[i]) : !is_rate(x[i]))
            return 0;
    return 1;
}

static void release(int count, PyObject **objects) {
    for (int i = 0; i < count; i++)
        Py_CLEAR(objects[i]);
}

/* As a kernel: new arrays. --------------------------------------------------------------------- */

static PyObject *updated(const Update *update, PyObject *const *x, Py_ssize_t count,
                         PyObject *names) {
    if (!are_plain(update, x, count))
        return numpy_fallback(update->kernel, x, count, names);
    Args args;
    update->numbers(&args, x, count, names);
    if (PyErr_Occurred())
        return NULL;
    PyObject *made[MOST_CHANGED] = {NULL};
    float *old[MOST_CHANGED], *new[MOST_CHANGED];
    for (int i = 0; i < update->changed; i++) {
        if (!(made[i] = new_like(x[0]))) {
            release(i, made);
            return NULL;
        }
        old[i] = data(x[position(i)]), new[i] = data(made[i]);
    }
    update->arrays(&args, data(x[1]), old, new);
    if (run_loop(update->loop, &args, size(x[0]), SLOTS_PIECE, update->cost)) {
        release(update->changed, made);
        return NULL;
    }
    if (update->changed == 1)
        return made[0];
    return update->changed == 2 ? pair(made[0], made[1]) : triple(made[0], made[1], made[2]);
}

#define UPDATE(name)                                                                               \
    KERNEL(name##_update) {                                                                        \
        (void)module;                                                                              \
        return updated(&name, x, count, names);                                                    \
    }
UPDATE(sgd)
UPDATE(momentum)
UPDATE(adam)

/* In place: into the arrays of variables. ------------------------------------------------------ */

/* The new array i of what a kernel of NumPy has made; NULL with an error for anything else. */
static PyObject *made_array(PyObject *made, const Update *update, int i) {
    PyObject *array = made;
    if (update->changed > 1)
        array = PyTuple_CheckExact(made) && PyTuple_GET_SIZE(made) == update->changed
                  ? PyTuple_GET_ITEM(made, i)
                  : Py_None;
    if (PyArray_CheckExact(array))
        return Py_NewRef(array);
    if (PyArray_IsScalar(array, Generic)) /* of a parameter without axes */
        return PyArray_FromScalar(array, NULL);
    PyErr_Format(PyExc_TypeError, "the kernel of an update must return %d arrays, got %s",
                 update->changed, Py_TYPE(array)->tp_name);
    return NULL;
}

/* Gives variables what NumPy's kernel makes: all of it, or none if that is not arrays. */
static int by_numpy(const Update *update, PyObject *const *x, PyObject *const *inputs,
                    Py_ssize_t count, PyObject *names) {
    PyObject *arrays[MOST_CHANGED] = {NULL};
    PyObject *made = numpy_fallback(update->kernel, inputs, count, names);
    int failed = !made;
    for (int i = 0; i < update->changed && !failed; i++)
        failed = !(arrays[i] = made_array(made, update, i));
    for (int i = 0; i < update->changed && !failed; i++)
        failed = PyObject_SetAttr(x[position(i)], array_name, arrays[i]);
    release(update->changed, arrays);
    Py_XDECREF(made);
    return failed;
}

/* The update of variables x[0], x[2] and so on, which have their arrays in an attribute. The GIL
 * is held from the test of the references until the arrays are written: no thread sees an array
 * half written, and no handler of a signal runs. */
static PyObject *in_place(const Update *update, PyObject *const *x, Py_ssize_t count,
                          PyObject *names) {
    Py_ssize_t all = count + (names ? PyTuple_GET_SIZE(names) : 0);
    if (count != update->inputs || all > MOST_INPUTS) {
        PyErr_Format(PyExc_TypeError, "an update takes %d inputs and its attributes, got %zd",
                     update->inputs, all);
        return NULL;
    }
    /* What runs Python comes first. */
    int is_array = PyArray_CheckExact(x[1]);
    int threads = is_array ? threads_for((double)size(x[1]) * update->cost) : 1;
    if (threads < 0)
        return NULL;
    PyObject *inputs[MOST_INPUTS], *held[MOST_CHANGED] = {NULL}, *made[MOST_CHANGED] = {NULL};
    memcpy(inputs, x, (size_t)all * sizeof *x);
    int failed = 0;
    for (int i = 0; i < update->changed && !failed; i++) {
        inputs[position(i)] = held[i] = PyObject_GetAttr(x[position(i)], array_name);
        failed = !held[i];
    }
    Args args;
    if (!failed && !are_plain(update, inputs, count)) {
        failed = by_numpy(update, x, inputs, count, names);
    } else if (!failed) {
        update->numbers(&args, inputs, count, names);
        failed = PyErr_Occurred() != NULL;
        float *old[MOST_CHANGED], *new[MOST_CHANGED];
        for (int i = 0; i < update->changed && !failed; i++) {
            old[i] = new[i] = data(held[i]);
            forget_strips(held[i]);
            if (!is_owners_alone(held[i], 2)) {
                made[i] = new_like(held[i]);
                failed = !made[i];
                new[i] = failed ? NULL : data(made[i]);
            }
        }
        if (!failed) {
            update->arrays(&args, data(x[1]), old, new);
            pool_run(loops[update->loop], &args, size(x[1]), SLOTS_PIECE, threads);
        }
        for (int i = 0; i < update->changed && !failed; i++)
            failed = made[i] && PyObject_SetAttr(x[position(i)], array_name, made[i]);
    }
    release(update->changed, held);
    release(update->changed, made);
    if (failed)
        return NULL;
    Py_RETURN_NONE;
}

#define IN_PLACE(name)                                                                             \
    PyObject *name##_in_place(PyObject *module, PyObject *const *x, Py_ssize_t count,              \
                              PyObject *names) {                                                   \
        (void)module;                                                                              \
        return in_place(&name, x, count, names);                                                   \
    }
UPDATES(IN_PLACE)
