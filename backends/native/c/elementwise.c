/* Kernels of elementwise ops. */
#include <math.h>

#include "families.h"

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

/* The same, with a short way for contiguous float32. */
#define UNARY_OF(name, family, cost)                                                               \
    KERNEL(name) {                                                                                 \
        (void)module;                                                                              \
        if (count == 1 && !names && is_plain(x[0]))                                                \
            return unary(run_##name, cost, x[0]);                                                  \
        ELSE_NUMPY(name, count == 1 && !names ? elements(family, OF_ONE, 0, x, 1) : NULL);         \
    }
#define UNARY(name, cost) UNARY_OF(name, OF_FLOATS(name, name##_wide, cost), cost)

UNARY(exp, 0.5)
UNARY(expm1, 0.6)
UNARY(tanh, 0.7)
UNARY(sigmoid, 0.7)
UNARY(silu, 0.7)
UNARY(softplus, 0.8)
UNARY(log_sigmoid, 0.8)
UNARY(selu, 0.6)
UNARY(erf, 0.9)
UNARY(relu, 0.25)
UNARY_OF(negative, OF_SIGNS(negative, 0.25), 0.25)
UNARY_OF(abs, OF_SIGNS(abs, 0.25), 0.25)
UNARY_OF(square, OF_NUMBERS(square, square_float64, 0.25), 0.25)
UNARY_OF(sqrt, OF_FLOATS(sqrt, sqrt_float64, 0.3), 0.3)

KERNEL(gelu) {
    (void)module;
    int tanh_form = is_true(x, count, names, "approximate");
    if (count == 1 && is_plain(x[0]))
        return unary(tanh_form ? run_gelu_tanh : run_gelu_exact, 0.9, x[0]);
    const Family *family = tanh_form ? OF_FLOATS(gelu_tanh, gelu_tanh_wide, 0.9)
                                     : OF_FLOATS(gelu_exact, gelu_exact_wide, 0.9);
    ELSE_NUMPY(gelu, count == 1 ? elements(family, OF_ONE, 0, x, 1) : NULL);
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
    const Family *family = tanh_form
                             ? OF_FLOATS(gelu_tanh_gradient, gelu_tanh_gradient_wide, 1.0)
                             : OF_FLOATS(gelu_exact_gradient, gelu_exact_gradient_wide, 1.0);
    ELSE_NUMPY(gelu_gradient, count == 2 ? elements(family, OF_TWO, 0, x, 2) : NULL);
}

/* Of g, and of the array that the slope is a function of. */
#define GRADIENT(name, cost)                                                                       \
    KERNEL(name) {                                                                                 \
        (void)module;                                                                              \
        if (count == 2 && !names && are_alike(x[0], x[1]))                                         \
            return binary(run_##name, cost, x[0], x[1]);                                           \
        const Family *family = OF_FLOATS(name, name##_wide, cost);                                 \
        ELSE_NUMPY(name, count == 2 && !names ? elements(family, OF_TWO, 0, x, 2) : NULL);         \
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

#define ARITHMETIC(name, family, right, left, row)                                                 \
    KERNEL(name) {                                                                                 \
        (void)module;                                                                              \
        PyObject *y = NULL;                                                                        \
        if (count == 2 && !names) {                                                                \
            y = is_plain(x[0]) && is_plain(x[1])                                                   \
                  ? arithmetic(run_##name, right, left, row, x[0], x[1])                           \
                  : with_repeated(right, left, x[0], x[1]);                                        \
            if (!y && !PyErr_Occurred())                                                           \
                y = elements(family, OF_TWO, 0, x, 2);                                             \
        }                                                                                          \
        ELSE_NUMPY(name, y);                                                                       \
    }

ARITHMETIC(add, OF_NUMBERS(add, add_float64, 0.3), run_add_number, run_add_number, run_add_row)
ARITHMETIC(multiply, OF_NUMBERS(multiply, multiply_float64, 0.3), run_multiply_number,
           run_multiply_number, run_multiply_row)
ARITHMETIC(divide, OF_FLOATS(divide, divide_float64, 0.4), run_divide_number, run_divide_from, NULL)
ARITHMETIC(maximum, OF_NUMBERS(maximum, maximum_wide, 0.3), run_maximum_number, run_maximum_number,
           NULL)
ARITHMETIC(minimum, OF_NUMBERS(minimum, minimum_wide, 0.3), run_minimum_number, run_minimum_number,
           NULL)

/* x - number is x + (-number), to the sign of a zero. */
KERNEL(subtract) {
    (void)module;
    PyObject *y = NULL;
    if (count == 2 && !names) {
        if (is_plain(x[0]) && is_plain(x[1]))
            y = is_number(x[1]) && !is_number(x[0])
                  ? with_number(run_add_number, x[0], -value(x[1]))
                  : arithmetic(run_subtract, NULL, run_subtract_from, NULL, x[0], x[1]);
        if (!y && !PyErr_Occurred())
            y = elements(OF_NUMBERS(subtract, subtract_float64, 0.3), OF_TWO, 0, x, 2);
    }
    ELSE_NUMPY(subtract, y);
}

/* A kernel of an array and of an attribute. */
#define WITH_ATTRIBUTE(name, attribute, cost)                                                      \
    KERNEL(name) {                                                                                 \
        (void)module;                                                                              \
        if (count != 1)                                                                            \
            return NUMPY_FALLBACK(name);                                                           \
        double given = ATTRIBUTE(attribute);                                                       \
        if (given == -1 && PyErr_Occurred())                                                       \
            return NULL;                                                                           \
        if (is_plain(x[0]))                                                                        \
            return with_number(run_##name, x[0], given);                                           \
        ELSE_NUMPY(name, elements(OF_FLOATS(name, name##_wide, cost), OF_NUMBER, given, x, 1));    \
    }
WITH_ATTRIBUTE(leaky_relu, negative_slope, 0.3)
WITH_ATTRIBUTE(elu, alpha, 0.6)

/* Arrays or numbers, selected by an array of booleans. */
KERNEL(where) {
    (void)module;
    PyObject *condition = count == 3 && !names ? x[0] : NULL;
    if (!condition)
        return NUMPY_FALLBACK(where);
    int is_flat = PyArray_CheckExact(condition) && PyArray_TYPE(as_array(condition)) == NPY_BOOL
               && PyArray_ISCARRAY_RO(as_array(condition)) && is_plain(x[1]) && is_plain(x[2])
               && size(condition);
    int first_is_number = is_flat && is_number(x[1]), second_is_number = is_flat && is_number(x[2]);
    if (!is_flat || !(first_is_number || same_shape(condition, x[1]))
        || !(second_is_number || same_shape(condition, x[2])))
        ELSE_NUMPY(where, elements(OF_NUMBERS(where, where_float64, 0.3), SELECTED, 0, x, 3));
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
