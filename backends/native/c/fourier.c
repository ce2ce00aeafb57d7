/* Kernels of Fourier transforms. NumPy's do lengths with a large prime factor, and arrays with
 * infinities or NaN. */
#include "calls.h"

#include <math.h>
#include <stdlib.h>

/* Small: what takes time are the loops. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("Os")
#endif

/* Nanoseconds of a vector operation of a plan's costs. */
#define OPERATION 0.15
/* Nanoseconds for a number from which on NumPy's transforms of large prime factors take less. */
#define SLOW 20
/* Nanoseconds that a call of NumPy's takes beside. */
#define NUMPYS_CALL 4000
/* Of these kernels. */
#define MOST_ATTRIBUTES 3
/* Fewer lanes take more time than NumPy's transforms. */
#define FEWEST_LANES 4
/* A piece of work takes so many. */
#define PIECE_TIME 3e4
/* Items of so many bytes stay in a cache from one transform to the next. */
#define ITEM 524288
/* Rows that are shared by threads have so many numbers, and they are so few. */
#define SHARED_ROW 32768
#define SHARED_ROWS 8

/* The op and what it needs: which side is real, the sign of the imaginary parts of x and those of
 * y, and the normalization that gives it its factor. */
typedef struct {
    int kind;
    double x_sign, y_sign;
    const char *divided;
} Transform;
#define FORWARD "forward"
#define BACKWARD "backward"
static const Transform to_complex = {WHOLE, 1, 1, FORWARD},
                       from_complex = {WHOLE, -1, -1, BACKWARD},
                       to_half = {FROM_REAL, 1, 1, FORWARD}, from_half = {TO_REAL, 1, 1, BACKWARD},
                       to_hermitian = {TO_REAL, -1, 1, FORWARD},
                       from_hermitian = {FROM_REAL, 1, -1, BACKWARD};

/* Numbers in a vector of the loops in use. */
static int lanes_of(int is_double) {
    int bytes = 16;
#ifdef PULLBACK_VARIANTS
    bytes = loops == loops_avx512 ? 64 : loops == loops_avx2 ? 32 : 16;
#endif
    return bytes / (is_double ? (int)sizeof(double) : (int)sizeof(float));
}

/* Runs a stage of rows that threads share, one row after another. */
static int run_shared(int loop, FourierArgs *args, double time) {
    const FourierPlan *plan = args->plan;
    const char *x = args->x;
    char *y = args->y, *room = malloc(fourier_room(plan) + 64);
    if (!room) {
        PyErr_NoMemory();
        return -1;
    }
    args->room = (char *)(((uintptr_t)room + 63) / 64 * 64);
    ptrdiff_t lanes = plan->lanes, columns = (plan->rows->n + lanes - 1) / lanes,
              rows = (plan->columns->n + lanes - 1) / lanes;
    int failed = 0;
    for (ptrdiff_t row = 0; row < args->rows && !failed; row++) {
        args->x = x, args->y = y;
        for (ptrdiff_t axis = args->axes - 1, rest = row; axis >= 0; axis--) {
            args->x += rest % args->shape[axis] * args->x_steps[axis];
            args->y += rest % args->shape[axis] * args->y_steps[axis];
            rest /= args->shape[axis];
        }
        const ptrdiff_t stages[][2] = {
            {BEFORE, 1}, {OF_COLUMNS, columns}, {OF_ROWS, rows}, {AFTER, 1}};
        for (int i = 0; i < 4 && !failed; i++) {
            ptrdiff_t count = stages[i][1], grain = (count + 15) / 16;
            args->stage = stages[i][0];
            failed = run_loop(loop, args, count, grain, time / 2 / (double)count);
        }
    }
    free(room);
    return failed;
}

/* A transform that is ready to run: `loop` counts so many, which take `time` nanoseconds each. */
typedef struct {
    FourierArgs args;
    FourierPlan *plan;
    int loop, is_single;
    ptrdiff_t count;
    double time;
} Ready;

/* Makes the transform of n numbers along an axis ready, of the axes from `lead` on: those before it
 * are items. Returns true where NumPy has to do it, and -1 with an error set. */
static int make_ready(Ready *it, const Transform *way, PyObject *x, PyObject *y, int axis,
                      ptrdiff_t n, double factor, int lead, int32_t *status) {
    PyArrayObject *from = as_array(x), *to = as_array(y);
    int is_double = PyArray_TYPE(from) == NPY_DOUBLE || PyArray_TYPE(from) == NPY_CDOUBLE;
    int lanes = lanes_of(is_double), is_pairs = way->kind != WHOLE && n % 2 == 0;
    ptrdiff_t m = is_pairs ? n / 2 : n, there = PyArray_DIM(from, axis);
    ptrdiff_t most = way->kind == TO_REAL ? n / 2 + 1 : n;
    it->args = (FourierArgs){.x = data(x),
                             .y = data(y),
                             .status = status,
                             .kind = way->kind,
                             .is_real = !PyArray_ISCOMPLEX(from),
                             .n = n,
                             .have = there < most ? there : most,
                             .rows = 1,
                             .x_step = PyArray_STRIDE(from, axis),
                             .y_step = PyArray_STRIDE(to, axis),
                             .x_sign = way->x_sign,
                             .re_scale = factor,
                             .im_scale = factor * way->y_sign};
    FourierArgs *args = &it->args;
    for (int i = lead; i < PyArray_NDIM(from); i++)
        if (i != axis && PyArray_DIM(from, i) != 1) {
            args->shape[args->axes] = PyArray_DIM(from, i);
            args->x_steps[args->axes] = PyArray_STRIDE(from, i);
            args->y_steps[args->axes++] = PyArray_STRIDE(to, i);
            args->rows *= PyArray_DIM(from, i);
        }
    FourierCosts costs;
    if (lanes < FEWEST_LANES || !fourier_costs(m, is_double, lanes, &costs))
        return 1;
    ptrdiff_t blocks = (args->rows + lanes - 1) / lanes;
    double many = costs.many * (double)(blocks * lanes), single = costs.single * (double)args->rows;
    /* Numbers of all lanes leave the caches, or lie where others do. */
    many *= m > 4096 ? 4 : m % 512 == 0 ? 1.3 : 1;
    /* The last lanes of a single row are written apart. */
    single *= m % (lanes * lanes) == 0 ? 0.9 : 1.3;
    /* Pairs are split one by one. */
    single += way->kind == WHOLE ? 0 : 8.0 * (double)(m * args->rows);
    it->is_single = costs.single >= 0 && single < many;
    if (OPERATION * (it->is_single ? single : many) > SLOW * (double)(m * args->rows) + NUMPYS_CALL)
        return 1;
    if (lead) {
        if (it->is_single || 4 * blocks * lanes > 5 * args->rows)
            return 1;
        args->x_item = PyArray_STRIDE(from, lead - 1);
        args->y_item = PyArray_STRIDE(to, lead - 1);
    }
    it->args.plan = it->plan = fourier_plan(m, is_pairs, is_double, lanes, it->is_single);
    if (!it->plan) {
        PyErr_NoMemory();
        return -1;
    }
    it->loop = is_double ? LOOP_fourier_float64 : LOOP_fourier_float32;
    it->time = OPERATION * (it->is_single ? costs.single : costs.many * lanes);
    it->count = it->is_single ? args->rows : blocks;
    return 0;
}

/* Runs a loop, and says whether NumPy has to do it, or -1 with an error set. */
static int run_ready(Ready *it) {
    int failed;
    if (it->is_single && it->count < SHARED_ROWS && it->plan->n >= SHARED_ROW)
        failed = run_shared(it->loop, &it->args, it->time);
    else
        failed = run_loop(it->loop, &it->args, it->count, (ptrdiff_t)(PIECE_TIME / it->time) + 1,
                          it->time);
    int status = *it->args.status;
    if (!failed && status & NO_MEMORY) {
        PyErr_NoMemory();
        return -1;
    }
    return failed ? -1 : status != 0;
}

static int is_served(PyObject *x, int kind) {
    if (!PyArray_CheckExact(x) || !PyArray_ISNOTSWAPPED(as_array(x))
        || !PyArray_ISALIGNED(as_array(x)) || !size(x) || PyArray_NDIM(as_array(x)) > MOST_AXES)
        return 0;
    int type = PyArray_TYPE(as_array(x));
    int of_real = type == NPY_FLOAT || type == NPY_DOUBLE;
    int of_complex = type == NPY_CFLOAT || type == NPY_CDOUBLE;
    return (kind != TO_REAL && of_real) || (kind != FROM_REAL && of_complex);
}

/* Calls NumPy's kernel, which has other last bits for real numbers than for complex ones. */
static PyObject *by_numpy(int kind, int kernel, PyObject *const *x, Py_ssize_t count,
                          PyObject *names) {
    int type = count == 1 && PyArray_Check(x[0]) ? PyArray_TYPE(as_array(x[0])) : NPY_BOOL;
    if (kind != WHOLE || (type != NPY_FLOAT && type != NPY_DOUBLE))
        return numpy_fallback(kernel, x, count, names);
    Py_ssize_t all = 1 + (names ? PyTuple_GET_SIZE(names) : 0);
    PyObject *converted[1 + MOST_ATTRIBUTES];
    if (all > 1 + MOST_ATTRIBUTES)
        return numpy_fallback(kernel, x, count, names);
    memcpy(converted, x, (size_t)all * sizeof *x);
    converted[0] = PyArray_Cast(as_array(x[0]), type == NPY_FLOAT ? NPY_CFLOAT : NPY_CDOUBLE);
    PyObject *y = converted[0] ? numpy_fallback(kernel, converted, count, names) : NULL;
    Py_XDECREF(converted[0]);
    return y;
}

/* The factor of a transform of n numbers; 0 for an unknown normalization. */
static double factor_of(const Transform *way, PyObject *norm, ptrdiff_t n) {
    if (!norm || !PyUnicode_Check(norm))
        return 0;
    if (!PyUnicode_CompareWithASCIIString(norm, "ortho"))
        return 1 / sqrt((double)n);
    if (!PyUnicode_CompareWithASCIIString(norm, way->divided))
        return 1 / (double)n;
    return PyUnicode_CompareWithASCIIString(norm, FORWARD)
                && PyUnicode_CompareWithASCIIString(norm, BACKWARD)
             ? 0
             : 1;
}

/* What a call asks for along an axis. */
typedef struct {
    const Transform *way;
    int axis;
    ptrdiff_t n;
    double factor;
} Wanted;

static int is_wanted(Wanted *it, const Transform *way, PyObject *x, PyObject *axis, PyObject *n,
                     PyObject *norm) {
    if (!axis || !n || !PyLong_CheckExact(axis) || !PyLong_CheckExact(n))
        return 0;
    Py_ssize_t at = PyLong_AsSsize_t(axis);
    *it = (Wanted){way, (int)at, PyLong_AsSsize_t(n), 0};
    it->factor = it->n > 0 ? factor_of(way, norm, it->n) : 0;
    return at >= 0 && at < PyArray_NDIM(as_array(x)) && it->factor != 0;
}

/* The array for the result: x itself, if it is `own`, where that is as large. */
static PyObject *array_for(const Wanted *it, PyObject *x, int own) {
    int ndim = PyArray_NDIM(as_array(x)), type = PyArray_TYPE(as_array(x)), kind = it->way->kind;
    if (own && kind == WHOLE && it->n == PyArray_DIM(as_array(x), it->axis))
        return Py_NewRef(x);
    npy_intp shape[NPY_MAXDIMS];
    memcpy(shape, PyArray_DIMS(as_array(x)), (size_t)ndim * sizeof *shape);
    shape[it->axis] = kind == FROM_REAL ? it->n / 2 + 1 : it->n;
    int is_double = type == NPY_DOUBLE || type == NPY_CDOUBLE;
    if (kind == TO_REAL)
        return new_array_of(is_double ? NPY_DOUBLE : NPY_FLOAT, is_double ? 8 : 4, ndim, shape);
    return new_array_of(is_double ? NPY_CDOUBLE : NPY_CFLOAT, is_double ? 16 : 8, ndim, shape);
}

/* The transform along an axis: a new reference, or NULL, without an error where NumPy has to do it.
 */
static PyObject *transformed(const Wanted *it, PyObject *x, int own) {
    int32_t status = 0;
    Ready ready;
    PyObject *y = array_for(it, x, own);
    if (!y)
        return NULL;
    int failed = make_ready(&ready, it->way, x, y, it->axis, it->n, it->factor, 0, &status);
    if (!failed) {
        failed = run_ready(&ready);
        fourier_done(ready.plan);
    }
    return unless(failed, y);
}

/* The axes before all that are transformed, whose items fit into a cache and follow each other; 0
 * if there are none. */
static int items_before(const Wanted *wanted, Py_ssize_t some, PyObject *x) {
    PyArrayObject *from = as_array(x);
    int lead = PyArray_NDIM(from);
    for (Py_ssize_t i = 0; i < some; i++)
        lead = wanted[i].axis < lead ? wanted[i].axis : lead;
    double bytes = 16;
    for (int axis = lead; axis < PyArray_NDIM(from); axis++)
        bytes *= (double)PyArray_DIM(from, axis);
    for (int axis = 0; axis + 1 < lead; axis++)
        if (PyArray_STRIDE(from, axis)
            != PyArray_STRIDE(from, axis + 1) * PyArray_DIM(from, axis + 1))
            return 0;
    return bytes > ITEM || !lead || !PyArray_STRIDE(from, lead - 1) ? 0 : lead;
}

/* All transforms of one item after another. NULL without an error where they are not done so. */
static PyObject *transformed_by_items(const Wanted *wanted, Py_ssize_t some, PyObject *x) {
    int lead = some > 1 && some <= MOST_AXES ? items_before(wanted, some, x) : 0, failed = !lead;
    ptrdiff_t items = 1;
    for (int axis = 0; axis < lead; axis++)
        items *= PyArray_DIM(as_array(x), axis);
    if (failed || items < 2)
        return NULL;
    int32_t status = 0;
    Ready ready[MOST_AXES];
    PyObject *arrays[MOST_AXES + 1] = {Py_NewRef(x)}, *y = NULL;
    Py_ssize_t made = 0, linked = 0;
    double time = 0;
    for (; made < some && !failed; made++) {
        const Wanted *it = wanted + made;
        y = arrays[made + 1] = array_for(it, arrays[made], made > 0);
        failed = y ? make_ready(ready + made, it->way, arrays[made], y, it->axis, it->n, it->factor,
                                lead, &status)
                   : -1;
        linked += !failed;
        if (made && !failed)
            ready[made - 1].args.next = &ready[made].args;
        time += failed ? 0 : ready[made].time * (double)ready[made].count;
    }
    if (!failed) {
        ready[0].count = items, ready[0].time = time;
        failed = run_ready(ready);
    }
    y = failed ? NULL : Py_NewRef(y);
    for (Py_ssize_t i = 0; i <= made; i++)
        Py_XDECREF(arrays[i]);
    for (Py_ssize_t i = 0; i < linked; i++)
        fourier_done(ready[i].plan);
    return y;
}

static PyObject *along_axis(const Transform *way, int kernel, PyObject *const *x, Py_ssize_t count,
                            PyObject *names) {
    Wanted wanted;
    PyObject *y = NULL;
    if (count == 1 && is_served(x[0], way->kind)
        && is_wanted(&wanted, way, x[0], attribute(x, count, names, "axis"),
                     attribute(x, count, names, "n"), attribute(x, count, names, "norm")))
        y = transformed(&wanted, x[0], 0);
    return y || PyErr_Occurred() ? y : by_numpy(way->kind, kernel, x, count, names);
}

/* Along several axes: the last one first, by `last`, or by it at the end if its results are real.
 */
static PyObject *along_axes(const Transform *way, const Transform *last, int kernel,
                            PyObject *const *x, Py_ssize_t count, PyObject *names) {
    PyObject *s = attribute(x, count, names, "s"), *axes = attribute(x, count, names, "axes"),
             *norm = attribute(x, count, names, "norm"), *y = NULL;
    Wanted wanted[MOST_AXES];
    Py_ssize_t some = axes && PyTuple_CheckExact(axes) ? PyTuple_GET_SIZE(axes) : 0;
    int served = count == 1 && some > 0 && some <= MOST_AXES && s && PyTuple_CheckExact(s)
              && PyTuple_GET_SIZE(s) == some && is_served(x[0], last->kind);
    for (Py_ssize_t i = 0; served && i < some; i++) {
        Py_ssize_t at = last->kind == TO_REAL ? i : some - 1 - i;
        served = is_wanted(wanted + i, at == some - 1 ? last : way, x[0],
                           PyTuple_GET_ITEM(axes, at), PyTuple_GET_ITEM(s, at), norm);
    }
    /* As many of the first as can be, item by item. */
    Py_ssize_t done = served ? some : 0;
    while (done > 1 && !(y = transformed_by_items(wanted, done, x[0])) && !PyErr_Occurred())
        done--;
    if (served && !y && !PyErr_Occurred())
        y = Py_NewRef(x[0]), done = 0;
    for (; y && done < some; done++)
        Py_SETREF(y, transformed(wanted + done, y, done > 0));
    int kind = last->kind == WHOLE ? WHOLE : FROM_REAL;
    return y || PyErr_Occurred() ? y : by_numpy(kind, kernel, x, count, names);
}

#define ALONG_AXIS(name, way)                                                                      \
    KERNEL(name) {                                                                                 \
        (void)module;                                                                              \
        return along_axis(&way, KERNEL_##name, x, count, names);                                   \
    }
#define ALONG_AXES(name, way, last)                                                                \
    KERNEL(name) {                                                                                 \
        (void)module;                                                                              \
        return along_axes(&way, &last, KERNEL_##name, x, count, names);                            \
    }
ALONG_AXIS(fft, to_complex)
ALONG_AXIS(ifft, from_complex)
ALONG_AXIS(rfft, to_half)
ALONG_AXIS(irfft, from_half)
ALONG_AXIS(hfft, to_hermitian)
ALONG_AXIS(ihfft, from_hermitian)
ALONG_AXES(fftn, to_complex, to_complex)
ALONG_AXES(ifftn, from_complex, from_complex)
ALONG_AXES(rfftn, to_complex, to_half)
ALONG_AXES(irfftn, from_complex, from_half)
