/* Kernels of elementwise ops. */
#include <math.h>

#include "calls.h"

typedef int (*RunUnary)(const UnaryArgs *, ptrdiff_t, ptrdiff_t, double);
static PyObject *unary(RunUnary run, double cost, PyObject *x) {
    PyObject *y = new_like(x);
    if (y) {
        UnaryArgs args = {.x = data(x), .y = data(y)};
        return unless(run(&args, size(x), PIECE, cost), y);
    }
    return y;
}

typedef int (*RunBinary)(const BinaryArgs *, ptrdiff_t, ptrdiff_t, double);
static PyObject *binary(RunBinary run, double cost, PyObject *x1, PyObject *x2) {
    PyObject *y = new_like(x1);
    if (y) {
        BinaryArgs args = {.x1 = data(x1), .x2 = data(x2), .y = data(y)};
        return unless(run(&args, size(x1), PIECE, cost), y);
    }
    return y;
}

#define UNARY(name, cost)                                                                          \
    KERNEL(name) {                                                                                 \
        (void)module;                                                                              \
        if (count == 1 && !names && is_plain(x[0]))                                                \
            return unary(run_##name, cost, x[0]);                                                  \
        PyObject *y = count == 1 && !names ? narrow_elements(LOOP_##name, cost, x, 1) : NULL;      \
        return y || PyErr_Occurred() ? y : NUMPY_FALLBACK(name);                                   \
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

KERNEL(gelu) {
    (void)module;
    int tanh_form = is_true(x, count, names, "approximate");
    if (count == 1 && is_plain(x[0]))
        return unary(tanh_form ? run_gelu_tanh : run_gelu_exact, 0.9, x[0]);
    int loop = tanh_form ? LOOP_gelu_tanh : LOOP_gelu_exact;
    PyObject *y = count == 1 ? narrow_elements(loop, 0.9, x, 1) : NULL;
    return y || PyErr_Occurred() ? y : NUMPY_FALLBACK(gelu);
}

static int are_alike(PyObject *x1, PyObject *x2) {
    return is_plain(x1) && is_plain(x2) && same_shape(x1, x2);
}

KERNEL(gelu_gradient) {
    (void)module;
    int tanh_form = is_true(x, count, names, "approximate");
    if (count == 2 && are_alike(x[0], x[1]))
        return binary(tanh_form ? run_gelu_tanh_gradient : run_gelu_exact_gradient, 1.0, x[0],
                      x[1]);
    int loop = tanh_form ? LOOP_gelu_tanh_gradient : LOOP_gelu_exact_gradient;
    PyObject *y = count == 2 ? narrow_elements(loop, 1.0, x, 2) : NULL;
    return y || PyErr_Occurred() ? y : NUMPY_FALLBACK(gelu_gradient);
}

/* Of g, and of the array that the slope is a function of. */
#define GRADIENT(name, cost)                                                                       \
    KERNEL(name) {                                                                                 \
        (void)module;                                                                              \
        if (count == 2 && !names && are_alike(x[0], x[1]))                                         \
            return binary(run_##name, cost, x[0], x[1]);                                           \
        PyObject *y = count == 2 && !names ? narrow_elements(LOOP_##name, cost, x, 2) : NULL;      \
        return y || PyErr_Occurred() ? y : NUMPY_FALLBACK(name);                                   \
    }

GRADIENT(relu_gradient, 0.3)
GRADIENT(tanh_gradient, 0.3)
GRADIENT(sigmoid_gradient, 0.3)
GRADIENT(silu_gradient, 0.8)

/* Arithmetic: arrays of one shape, an array and a number, an array and a row. ---------------- */

typedef int (*RunNumber)(const NumberArgs *, ptrdiff_t, ptrdiff_t, double);
static PyObject *with_number(RunNumber run, PyObject *x, double number) {
    PyObject *y = new_like(x);
    if (y) {
        NumberArgs args = {.x = data(x), .y = data(y), .number = number};
        return unless(run(&args, size(x), PIECE, 0.25), y);
    }
    return y;
}

typedef int (*RunRow)(const RowArgs *, ptrdiff_t, ptrdiff_t, double);
static PyObject *with_row(RunRow run, PyObject *x, PyObject *row) {
    PyObject *y = new_like(x);
    if (y) {
        ptrdiff_t width = size(row);
        RowArgs args = {.x = data(x), .row = data(row), .y = data(y), .width = width};
        return unless(run(&args, size(x) / width, 1 + PIECE / width, 0.25 * (double)width + 2), y);
    }
    return y;
}

static int is_row_of(PyObject *row, PyObject *x) {
    int ndim = PyArray_NDIM(as_array(x));
    return PyArray_NDIM(as_array(row)) == 1 && ndim > 1 && size(row)
        && PyArray_DIM(as_array(row), 0) == PyArray_DIM(as_array(x), ndim - 1);
}

/* True if all elements of x share one address, as in the gradient of a sum. */
static int is_repeated(PyObject *x) {
    if (!PyArray_CheckExact(x) || PyArray_TYPE(as_array(x)) != NPY_FLOAT || !size(x)
        || !PyArray_ISALIGNED(as_array(x)) || !PyArray_ISNOTSWAPPED(as_array(x)))
        return 0;
    for (int i = 0; i < PyArray_NDIM(as_array(x)); i++)
        if (PyArray_STRIDE(as_array(x), i) && PyArray_DIM(as_array(x), i) > 1)
            return 0;
    return 1;
}

/* An array, and an array of its shape that repeats a number. Times 1 is the array itself, for
 * values are never written to. */
static PyObject *with_repeated(RunNumber right, RunNumber left, PyObject *x1, PyObject *x2) {
    int on_right = right && is_plain(x1) && is_repeated(x2);
    int on_left = !on_right && left && is_plain(x2) && is_repeated(x1);
    if (!(on_right || on_left) || !same_shape(x1, x2))
        return NULL;
    RunNumber run = on_right ? right : left;
    PyObject *x = on_right ? x1 : x2;
    double number = value(on_right ? x2 : x1);
    if (run == run_multiply_number && number == 1.0)
        return Py_NewRef(x);
    return with_number(run, x, number);
}

/* Runs the loop for two arrays, for an array and a number on the right or on the left, or for an
 * array and a row. NULL in place of a loop: there is none. */
static PyObject *arithmetic(RunBinary same, RunNumber right, RunNumber left, RunRow row,
                            PyObject *x1, PyObject *x2) {
    if (same_shape(x1, x2))
        return binary(same, 0.3, x1, x2);
    if (right && is_number(x2))
        return with_number(right, x1, value(x2));
    if (left && is_number(x1))
        return with_number(left, x2, value(x1));
    if (row && is_row_of(x2, x1))
        return with_row(row, x1, x2);
    if (row && is_row_of(x1, x2))
        return with_row(row, x2, x1);
    return NULL;
}

#define ARITHMETIC(name, same, right, left, row)                                                   \
    KERNEL(name) {                                                                                 \
        (void)module;                                                                              \
        if (count == 2 && !names) {                                                                \
            PyObject *y = is_plain(x[0]) && is_plain(x[1])                                         \
                            ? arithmetic(same, right, left, row, x[0], x[1])                       \
                            : with_repeated(right, left, x[0], x[1]);                              \
            if (!y && !PyErr_Occurred())                                                           \
                y = narrow_elements(LOOP_##name, 0.3, x, 2);                                       \
            if (y || PyErr_Occurred())                                                             \
                return y;                                                                          \
        }                                                                                          \
        return NUMPY_FALLBACK(name);                                                               \
    }

ARITHMETIC(add, run_add, run_add_number, run_add_number, run_add_row)
ARITHMETIC(multiply, run_multiply, run_multiply_number, run_multiply_number, run_multiply_row)
ARITHMETIC(divide, run_divide, run_divide_number, run_divide_from, NULL)
ARITHMETIC(maximum, run_maximum, run_maximum_number, run_maximum_number, NULL)
ARITHMETIC(minimum, run_minimum, run_minimum_number, run_minimum_number, NULL)

/* x - number is x + (-number), to the sign of a zero. */
KERNEL(subtract) {
    (void)module;
    if (count == 2 && !names) {
        PyObject *y;
        if (!is_plain(x[0]) || !is_plain(x[1]))
            y = narrow_elements(LOOP_subtract, 0.3, x, 2);
        else if (is_number(x[1]) && !is_number(x[0]))
            y = with_number(run_add_number, x[0], -value(x[1]));
        else
            y = arithmetic(run_subtract, NULL, run_subtract_from, NULL, x[0], x[1]);
        if (y || PyErr_Occurred())
            return y;
    }
    return NUMPY_FALLBACK(subtract);
}

static PyObject *with_attribute(RunNumber run, int kernel, const char *name, PyObject *const *x,
                                Py_ssize_t count, PyObject *names) {
    if (count != 1 || !is_plain(x[0]))
        return numpy_fallback(kernel, x, count, names);
    double attribute_value = number(x, count, names, name);
    return PyErr_Occurred() ? NULL : with_number(run, x[0], attribute_value);
}

KERNEL(leaky_relu) {
    (void)module;
    return with_attribute(run_leaky_relu, KERNEL_leaky_relu, "negative_slope", x, count, names);
}

KERNEL(elu) {
    (void)module;
    return with_attribute(run_elu, KERNEL_elu, "alpha", x, count, names);
}

/* Arrays or numbers, selected by an array of booleans. */
KERNEL(where) {
    (void)module;
    PyObject *condition = count == 3 && !names ? x[0] : NULL;
    if (!condition || !PyArray_CheckExact(condition)
        || PyArray_TYPE(as_array(condition)) != NPY_BOOL
        || !PyArray_ISCARRAY_RO(as_array(condition)) || !size(condition) || !is_plain(x[1])
        || !is_plain(x[2]))
        return NUMPY_FALLBACK(where);
    int first_is_number = is_number(x[1]), second_is_number = is_number(x[2]);
    if (!(first_is_number || same_shape(condition, x[1]))
        || !(second_is_number || same_shape(condition, x[2])))
        return NUMPY_FALLBACK(where);
    PyObject *y = new_like(condition);
    if (y) {
        WhereArgs args = {.condition = data(condition),
                          .x1 = data(x[1]),
                          .x2 = data(x[2]),
                          .y = data(y),
                          .x1_is_number = first_is_number,
                          .x2_is_number = second_is_number};
        return unless(run_where(&args, size(y), PIECE, 0.3), y);
    }
    return y;
}
