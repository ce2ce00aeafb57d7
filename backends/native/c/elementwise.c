/* Kernels of elementwise ops, and of the optimizers' updates. */
#include <math.h>

#include "calls.h"

static PyObject *unary(int loop, double cost, PyObject *x) {
    PyObject *y = new_like(x);
    if (y) {
        Job job = {.p = {data(x), data(y)}};
        return unless(run_loop(loop, &job, size(x), PIECE, cost), y);
    }
    return y;
}

static PyObject *binary(int loop, double cost, PyObject *x1, PyObject *x2) {
    PyObject *y = new_like(x1);
    if (y) {
        Job job = {.p = {data(x1), data(x2), data(y)}};
        return unless(run_loop(loop, &job, size(x1), PIECE, cost), y);
    }
    return y;
}

#define UNARY(name, cost)                                                                         \
    KERNEL(name) {                                                                                \
        (void)module;                                                                             \
        return count == 1 && !names && is_plain(x[0]) ? unary(LOOP_##name, cost, x[0])            \
                                                      : NUMPYS(name);                             \
    }

UNARY(exp, 0.5)
UNARY(expm1, 0.6)
UNARY(tanh, 0.7)
UNARY(sigmoid, 0.7)
UNARY(silu, 0.7)
UNARY(softplus, 0.8)
UNARY(log_sigmoid, 0.8)
UNARY(relu, 0.25)
UNARY(negative, 0.25)
UNARY(abs, 0.25)
UNARY(square, 0.25)
UNARY(sqrt, 0.3)

/* The attribute as a number; -1 with an error set where it is none. */
static double number(PyObject *const *x, Py_ssize_t count, PyObject *names, const char *name) {
    PyObject *value = attribute(x, count, names, name);
    if (!value) {
        if (!PyErr_Occurred())
            PyErr_Format(PyExc_TypeError, "%s is missing", name);
        return -1;
    }
    return PyFloat_AsDouble(value);
}
#define ATTRIBUTE(name) number(x, count, names, #name)

static int is_true(PyObject *const *x, Py_ssize_t count, PyObject *names, const char *name) {
    return attribute(x, count, names, name) == Py_True;
}

KERNEL(gelu) {
    (void)module;
    if (count != 1 || !is_plain(x[0]))
        return NUMPYS(gelu);
    int loop = is_true(x, count, names, "approximate") ? LOOP_gelu_tanh : LOOP_gelu_exact;
    return unary(loop, 0.9, x[0]);
}

static int are_alike(PyObject *x1, PyObject *x2) {
    return is_plain(x1) && is_plain(x2) && same_shape(x1, x2);
}

KERNEL(gelu_gradient) {
    (void)module;
    if (count != 2 || !are_alike(x[0], x[1]))
        return NUMPYS(gelu_gradient);
    int tanh_form = is_true(x, count, names, "approximate");
    return binary(tanh_form ? LOOP_gelu_tanh_gradient : LOOP_gelu_exact_gradient, 1.0, x[0], x[1]);
}

/* g, and what the slope is a function of. */
#define GRADIENT(name, cost)                                                                      \
    KERNEL(name) {                                                                                \
        (void)module;                                                                             \
        return count == 2 && !names && are_alike(x[0], x[1])                                      \
                 ? binary(LOOP_##name, cost, x[0], x[1])                                          \
                 : NUMPYS(name);                                                                  \
    }

GRADIENT(relu_gradient, 0.3)
GRADIENT(tanh_gradient, 0.3)
GRADIENT(sigmoid_gradient, 0.3)
GRADIENT(silu_gradient, 0.8)

/* Arithmetic: arrays of one shape, an array and a number, an array and a row. ------------------- */

static double value(PyObject *number) { return *(float *)data(number); }

static PyObject *with_number(int loop, PyObject *x, double number) {
    PyObject *y = new_like(x);
    if (y) {
        Job job = {.p = {data(x), data(y)}, .c = {number}};
        return unless(run_loop(loop, &job, size(x), PIECE, 0.25), y);
    }
    return y;
}

static PyObject *with_row(int loop, PyObject *x, PyObject *row) {
    PyObject *y = new_like(x);
    if (y) {
        ptrdiff_t width = size(row);
        Job job = {.p = {data(x), data(row), data(y)}, .n = {width}};
        return unless(run_loop(loop, &job, size(x) / width, 1 + PIECE / width, 0.25 * (double)width + 2), y);
    }
    return y;
}

static int is_row_of(PyObject *row, PyObject *x) {
    int ndim = PyArray_NDIM(as_array(x));
    return PyArray_NDIM(as_array(row)) == 1 && ndim > 1 && size(row)
        && PyArray_DIM(as_array(row), 0) == PyArray_DIM(as_array(x), ndim - 1);
}

static inline int is_number(PyObject *x) { return PyArray_NDIM(as_array(x)) == 0; }

/* Whether every element of x is one and the same place in memory, as in the gradient of a sum. */
static int is_repeated(PyObject *x) {
    if (!PyArray_CheckExact(x) || PyArray_TYPE(as_array(x)) != NPY_FLOAT || !size(x)
        || !PyArray_ISALIGNED(as_array(x)) || !PyArray_ISNOTSWAPPED(as_array(x)))
        return 0;
    for (int i = 0; i < PyArray_NDIM(as_array(x)); i++)
        if (PyArray_STRIDE(as_array(x), i) && PyArray_DIM(as_array(x), i) > 1)
            return 0;
    return 1;
}

/* An array and one of its shape that repeats a number. Once 1 is the array itself: nobody ever writes
 * to one that is a value. */
static PyObject *with_repeated(int right, int left, PyObject *x1, PyObject *x2) {
    int on_right = right >= 0 && is_plain(x1) && is_repeated(x2);
    int on_left = !on_right && left >= 0 && is_plain(x2) && is_repeated(x1);
    if (!(on_right || on_left) || !same_shape(x1, x2))
        return NULL;
    int loop = on_right ? right : left;
    PyObject *x = on_right ? x1 : x2;
    double number = value(on_right ? x2 : x1);
    if (loop == LOOP_multiply_number && number == 1.0)
        return Py_NewRef(x);
    return with_number(loop, x, number);
}

/* Loops for two arrays; an array and a number on the right, on the left; an array and a row. -1 is
 * none. */
static PyObject *arithmetic(int same, int right, int left, int row, PyObject *x1, PyObject *x2) {
    if (same_shape(x1, x2))
        return binary(same, 0.3, x1, x2);
    if (right >= 0 && is_number(x2))
        return with_number(right, x1, value(x2));
    if (left >= 0 && is_number(x1))
        return with_number(left, x2, value(x1));
    if (row >= 0 && is_row_of(x2, x1))
        return with_row(row, x1, x2);
    if (row >= 0 && is_row_of(x1, x2))
        return with_row(row, x2, x1);
    return NULL;
}

#define ARITHMETIC(name, same, right, left, row)                                                  \
    KERNEL(name) {                                                                                \
        (void)module;                                                                             \
        if (count == 2 && !names) {                                                               \
            PyObject *y = is_plain(x[0]) && is_plain(x[1])                                        \
                            ? arithmetic(same, right, left, row, x[0], x[1])                      \
                            : with_repeated(right, left, x[0], x[1]);                             \
            if (y || PyErr_Occurred())                                                            \
                return y;                                                                         \
        }                                                                                         \
        return NUMPYS(name);                                                                      \
    }

ARITHMETIC(add, LOOP_add, LOOP_add_number, LOOP_add_number, LOOP_add_row)
ARITHMETIC(multiply, LOOP_multiply, LOOP_multiply_number, LOOP_multiply_number, LOOP_multiply_row)
ARITHMETIC(divide, LOOP_divide, LOOP_divide_number, LOOP_divide_from, -1)
ARITHMETIC(maximum, LOOP_maximum, LOOP_maximum_number, LOOP_maximum_number, -1)
ARITHMETIC(minimum, LOOP_minimum, LOOP_minimum_number, LOOP_minimum_number, -1)

/* x - number is x + (-number), to the sign of a zero. */
KERNEL(subtract) {
    (void)module;
    if (count == 2 && !names && is_plain(x[0]) && is_plain(x[1])) {
        PyObject *y = is_number(x[1]) && !is_number(x[0])
                        ? with_number(LOOP_add_number, x[0], -value(x[1]))
                        : arithmetic(LOOP_subtract, -1, LOOP_subtract_from, -1, x[0], x[1]);
        if (y || PyErr_Occurred())
            return y;
    }
    return NUMPYS(subtract);
}

static PyObject *with_attribute(int loop, int kernel, const char *name, PyObject *const *x,
                                Py_ssize_t count, PyObject *names) {
    if (count != 1 || !is_plain(x[0]))
        return numpys(kernel, x, count, names);
    double given = number(x, count, names, name);
    return PyErr_Occurred() ? NULL : with_number(loop, x[0], given);
}

KERNEL(leaky_relu) {
    (void)module;
    return with_attribute(LOOP_leaky_relu, KERNEL_leaky_relu, "negative_slope", x, count, names);
}

KERNEL(elu) {
    (void)module;
    return with_attribute(LOOP_elu, KERNEL_elu, "alpha", x, count, names);
}

/* Arrays or numbers, chosen by an array of truth values. */
KERNEL(where) {
    (void)module;
    PyObject *chosen = count == 3 && !names ? x[0] : NULL;
    if (!chosen || !PyArray_CheckExact(chosen) || PyArray_TYPE(as_array(chosen)) != NPY_BOOL
        || !PyArray_ISCARRAY_RO(as_array(chosen)) || !size(chosen) || !is_plain(x[1])
        || !is_plain(x[2]))
        return NUMPYS(where);
    int one = is_number(x[1]), other = is_number(x[2]);
    if (!(one || same_shape(chosen, x[1])) || !(other || same_shape(chosen, x[2])))
        return NUMPYS(where);
    PyObject *y = new_like(chosen);
    if (y) {
        Job job = {.p = {data(chosen), data(x[1]), data(x[2]), data(y)}, .n = {one, other}};
        return unless(run_loop(LOOP_where, &job, size(y), PIECE, 0.3), y);
    }
    return y;
}

/* Optimizers. ---------------------------------------------------------------------------------- */

/* Whether x[0..arrays) are plain and alike, and the numbers after them plain. */
static int are_slots(PyObject *const *x, Py_ssize_t arrays, Py_ssize_t count) {
    for (Py_ssize_t i = 0; i < count; i++)
        if (!is_plain(x[i]) || (i < arrays ? !same_shape(x[0], x[i]) : !is_number(x[i])))
            return 0;
    return 1;
}

/* New arrays for a parameter and its slots, as a tuple, and the loop over them. */
static PyObject *updated(int loop, PyObject *const *x, Py_ssize_t arrays, Job *job, double cost) {
    Py_ssize_t results = arrays - 1; /* the gradient has none */
    PyObject *new[4] = {NULL};
    for (Py_ssize_t i = 0; i < arrays; i++)
        job->p[i] = data(x[i]);
    for (Py_ssize_t i = 0; i < results; i++) {
        new[i] = new_like(x[0]);
        if (!new[i]) {
            while (i)
                Py_DECREF(new[--i]);
            return NULL;
        }
        job->p[arrays + i] = data(new[i]);
    }
    int failed = run_loop(loop, job, size(x[0]), PIECE / 2, cost);
    if (results == 1)
        return unless(failed, new[0]);
    PyObject *tuple = failed ? NULL : PyTuple_New(results);
    for (Py_ssize_t i = 0; i < results; i++) {
        if (tuple)
            PyTuple_SET_ITEM(tuple, i, new[i]);
        else
            Py_DECREF(new[i]);
    }
    return tuple;
}

KERNEL(sgd_update) {
    (void)module;
    if (count != 3 || !are_slots(x, 2, count))
        return NUMPYS(sgd_update);
    Job job = {.c = {value(x[2]), ATTRIBUTE(weight_decay)}};
    return PyErr_Occurred() ? NULL : updated(LOOP_sgd, x, 2, &job, 0.4);
}

KERNEL(momentum_update) {
    (void)module;
    if (count != 4 || !are_slots(x, 3, count))
        return NUMPYS(momentum_update);
    Job job = {.c = {value(x[3]), ATTRIBUTE(weight_decay), ATTRIBUTE(momentum),
                     is_true(x, count, names, "nesterov")}};
    return PyErr_Occurred() ? NULL : updated(LOOP_momentum, x, 3, &job, 0.6);
}

/* rate (m / c1) / (sqrt(v / c2) + epsilon), with the constants drawn together. */
KERNEL(adam_update) {
    (void)module;
    if (count != 6 || !are_slots(x, 4, count))
        return NUMPYS(adam_update);
    double rate = value(x[4]), step = value(x[5]);
    double beta1 = ATTRIBUTE(beta1), beta2 = ATTRIBUTE(beta2);
    double decay = ATTRIBUTE(weight_decay), root = sqrt(1 - pow(beta2, step));
    Job job = {.c = {1 - beta1, 1 - beta2, rate * root / (1 - pow(beta1, step)),
                     ATTRIBUTE(epsilon) * root, decay * rate, decay}};
    return PyErr_Occurred() ? NULL : updated(LOOP_adam, x, 4, &job, 0.9);
}
