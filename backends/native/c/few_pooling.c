/* Kernels of pooling of few elements: in float32 and float64, of one to three spatial axes, in any
 * layout. A call takes less than one of NumPy; many elements are the kernels' in Python. */
#include <math.h>

#include "calls.h"

#define RANK 3
/* Elements in all windows up to which they are taken one by one; where the loops that take the
 * channels of a pixel at once would do them, fewer, if these are as fast. */
#define FEW 16384
#define FEW_OF_VECTORS 2048
#define FEW_APART 131072
#define FEWEST_CHANNELS 8
/* Elements of a window that are added one by one. */
#define MOST_TAPS 256
/* Channels whose sums are kept at once. */
#define SIDE_BY_SIDE 16

/* An array as (items, three spatial axes, channels): its steps in elements. */
typedef struct {
    void *at;
    ptrdiff_t item, steps[RANK], channel;
} View;

/* Axes that an array does not have are one element long, and come first. */
typedef struct {
    int rank, first, counts_padding, are_apart; /* whether no element is in two windows */
    ptrdiff_t items, channels, taps;
    double elements; /* in all windows */
    ptrdiff_t in[RANK], out[RANK], window[RANK], stride[RANK], low[RANK], step[RANK];
    npy_intp shape[NPY_MAXDIMS]; /* of the result */
} Windowing;

/* The numbers of a tuple, as the last ones of three; false where it is no such tuple. */
static int numbers_in(PyObject *tuple, int rank, ptrdiff_t *numbers) {
    if (!tuple || !PyTuple_CheckExact(tuple) || PyTuple_GET_SIZE(tuple) != rank)
        return 0;
    for (int i = 0; i < rank; i++) {
        ptrdiff_t one = PyLong_AsSsize_t(PyTuple_GET_ITEM(tuple, i));
        if (one < 0 || one > INT32_MAX)
            return 0;
        numbers[RANK - rank + i] = one;
    }
    return 1;
}

static int pairs_in(PyObject *tuple, int rank, ptrdiff_t *low, ptrdiff_t *high) {
    if (!tuple || !PyTuple_CheckExact(tuple) || PyTuple_GET_SIZE(tuple) != rank)
        return 0;
    for (int i = 0; i < rank; i++) {
        ptrdiff_t both[RANK] = {0};
        if (!numbers_in(PyTuple_GET_ITEM(tuple, i), 2, both))
            return 0;
        low[RANK - rank + i] = both[RANK - 2];
        high[RANK - rank + i] = both[RANK - 1];
    }
    return 1;
}

/* The windows over images of a shape, by the attributes of a call; false without an error where
 * there are many, `most` elements where loops over vectors would do them, or where another kernel
 * has to do it. */
static int as_windowing(Windowing *it, int ndim, const npy_intp *shape, double most,
                        PyObject *const *x, Py_ssize_t count, PyObject *names) {
    PyObject *format = attribute(x, count, names, "data_format");
    int rank = it->rank = ndim - 2;
    if (rank < 1 || rank > RANK || !format || !PyUnicode_Check(format)
        || is_true(x, count, names, "ceil_mode"))
        return 0;
    int last = !PyUnicode_CompareWithASCIIString(format, "channels_last");
    it->first = last ? 1 : 2;
    it->counts_padding = is_true(x, count, names, "count_include_pad");
    ptrdiff_t high[RANK] = {0};
    for (int i = 0; i < RANK; i++)
        it->in[i] = it->out[i] = it->window[i] = it->stride[i] = it->step[i] = 1, it->low[i] = 0;
    PyObject *dilation = attribute(x, count, names, "dilation");
    if (!numbers_in(attribute(x, count, names, "window"), rank, it->window)
        || !numbers_in(attribute(x, count, names, "strides"), rank, it->stride)
        || !pairs_in(attribute(x, count, names, "padding"), rank, it->low, high)
        || (dilation && !numbers_in(dilation, rank, it->step))) {
        PyErr_Clear();
        return 0;
    }
    it->items = it->shape[0] = shape[0];
    it->channels = shape[last ? ndim - 1 : 1];
    it->shape[last ? ndim - 1 : 1] = it->channels;
    it->taps = it->are_apart = 1;
    double all = (double)it->items * (double)it->channels;
    for (int i = RANK - rank, axis = it->first; i < RANK; i++, axis++) {
        ptrdiff_t reach = it->step[i] * (it->window[i] - 1) + 1;
        ptrdiff_t room = (it->in[i] = shape[axis]) + it->low[i] + high[i] - reach;
        if (it->window[i] < 1 || it->stride[i] < 1 || it->step[i] < 1 || room < 0
            || it->window[i] > MOST_TAPS)
            return 0;
        it->out[i] = it->shape[axis] = room / it->stride[i] + 1;
        it->taps *= it->window[i];
        it->are_apart &= reach <= it->stride[i];
        all *= (double)it->out[i];
    }
    int vectors = last && rank < 3 && it->channels >= FEWEST_CHANNELS;
    double elements = it->elements = all * (double)it->taps;
    return elements > 0 && elements <= (vectors ? most : FEW) && it->taps <= MOST_TAPS;
}

/* False where elements are not aligned, or lie at odd places. */
static int as_view(PyObject *x, const Windowing *it, View *view) {
    PyArrayObject *array = as_array(x);
    ptrdiff_t item = PyArray_ITEMSIZE(array);
    *view = (View){.at = PyArray_DATA(array)};
    if (!PyArray_ISBEHAVED_RO(array))
        return 0;
    for (int axis = 0; axis < it->rank + 2; axis++) {
        ptrdiff_t stride = PyArray_STRIDE(array, axis);
        if (stride % item)
            return 0;
        int inside = axis - it->first;
        *(!axis                              ? &view->item
          : inside >= 0 && inside < it->rank ? &view->steps[RANK - it->rank + inside]
                                             : &view->channel) = stride / item;
    }
    return 1;
}

static int is_float(PyObject *x) {
    return PyArray_CheckExact(x)
        && (PyArray_TYPE(as_array(x)) == NPY_FLOAT || PyArray_TYPE(as_array(x)) == NPY_DOUBLE);
}

static PyObject *new_result(PyObject *x, int ndim, const npy_intp *shape) {
    return new_array_of(PyArray_TYPE(as_array(x)), PyArray_ITEMSIZE(as_array(x)), ndim, shape);
}

/* The offsets of a window at `start` that are inside of an image of `size` elements. */
typedef struct {
    ptrdiff_t from, to;
} Range;
static Range inside_of(ptrdiff_t start, ptrdiff_t window, ptrdiff_t step, ptrdiff_t size) {
    ptrdiff_t from = start < 0 ? (step - 1 - start) / step : 0;
    ptrdiff_t to = size > start ? (size - start + step - 1) / step : 0;
    to = to < window ? to : window;
    return (Range){from, from < to ? to : from};
}

/* Runs a statement for each window: `cell` is the place of its element in the view `result`,
 * `start` that of its first element in the view `image`, which may be outside, both of the first
 * channel, and `inside` has the offsets that are not. */
#define EACH_WINDOW(image, result, ...)                                                            \
    for (ptrdiff_t item = 0; item < it->items; item++)                                             \
        for (ptrdiff_t a = 0; a < it->out[0]; a++)                                                 \
            for (ptrdiff_t b = 0; b < it->out[1]; b++)                                             \
                for (ptrdiff_t c = 0; c < it->out[2]; c++) {                                       \
                    const ptrdiff_t at[] = {a, b, c};                                              \
                    ptrdiff_t cell = item * (result)->item, start = item * (image)->item;          \
                    ptrdiff_t valid = 1;                                                           \
                    Range inside[RANK];                                                            \
                    for (int i = 0; i < RANK; i++) {                                               \
                        ptrdiff_t begin = at[i] * it->stride[i] - it->low[i];                      \
                        inside[i] = inside_of(begin, it->window[i], it->step[i], it->in[i]);       \
                        valid *= inside[i].to - inside[i].from;                                    \
                        cell += at[i] * (result)->steps[i];                                        \
                        start += begin * (image)->steps[i];                                        \
                    }                                                                              \
                    (void)valid;                                                                   \
                    __VA_ARGS__                                                                    \
                }

/* The same for each channel of a window. */
#define EACH_CHANNEL(image, result, ...)                                                           \
    for (ptrdiff_t channel = 0; channel < it->channels;                                            \
         channel++, cell += (result)->channel, start += (image)->channel) {                        \
        __VA_ARGS__                                                                                \
    }

/* Runs a statement for each element of a window: `place` is its place in the view. */
#define EACH_TAP(image, ...)                                                                       \
    for (ptrdiff_t i = inside[0].from; i < inside[0].to; i++)                                      \
        for (ptrdiff_t j = inside[1].from; j < inside[1].to; j++)                                  \
            for (ptrdiff_t k = inside[2].from; k < inside[2].to; k++) {                            \
                ptrdiff_t place = start + i * it->step[0] * (image)->steps[0]                      \
                                + j * it->step[1] * (image)->steps[1]                              \
                                + k * it->step[2] * (image)->steps[2];                             \
                __VA_ARGS__                                                                        \
            }

/* `places` are of the shape and layout of y; both are in C order. The first maximum wins, and NaN
 * over every number; padding is never larger. Where the channels of a pixel lie side by side, a tap
 * of all of them is taken at once, in vectors. */
#define FEW_FUNCTIONS(T)                                                                           \
    static void maxima_##T(const Windowing *it, const View *x, const View *y, int32_t *places) {   \
        int beside = x->channel == 1 && y->channel == 1 && it->channels > 1;                       \
        EACH_WINDOW(x, y, {                                                                        \
            if (beside) {                                                                          \
                T *restrict most = (T *)y->at + cell;                                              \
                int32_t *restrict found = places + cell;                                           \
                for (ptrdiff_t channel = 0; channel < it->channels; channel++)                     \
                    most[channel] = -(T)INFINITY, found[channel] = 0;                              \
                EACH_TAP(x, {                                                                      \
                    const T *restrict of = (const T *)x->at + place;                               \
                    int32_t tap = (int32_t)((i * it->window[1] + j) * it->window[2] + k);          \
                    for (ptrdiff_t channel = 0; channel < it->channels; channel++) {               \
                        T one = of[channel], so_far = most[channel];                               \
                        int32_t before = found[channel];                                           \
                        int larger = !(one <= so_far) & (so_far == so_far);                        \
                        most[channel] = larger ? one : so_far;                                     \
                        found[channel] = larger ? tap : before;                                    \
                    }                                                                              \
                })                                                                                 \
                continue;                                                                          \
            }                                                                                      \
            EACH_CHANNEL(x, y, {                                                                   \
                T most = -(T)INFINITY;                                                             \
                ptrdiff_t found = 0;                                                               \
                EACH_TAP(x, {                                                                      \
                    T one = ((const T *)x->at)[place];                                             \
                    if (!(one <= most) && most == most)                                            \
                        most = one, found = (i * it->window[1] + j) * it->window[2] + k;           \
                })                                                                                 \
                ((T *)y->at)[cell] = most;                                                         \
                places[cell] = (int32_t)found;                                                     \
            })                                                                                     \
        })                                                                                         \
    }                                                                                              \
    static void at_maxima_##T(const Windowing *it, const View *dx, const View *g,                  \
                              const View *places) {                                                \
        EACH_WINDOW(dx, g, EACH_CHANNEL(dx, g, {                                                   \
                        ptrdiff_t other = item * places->item + a * places->steps[0]               \
                                        + b * places->steps[1] + c * places->steps[2]              \
                                        + channel * places->channel;                               \
                        ptrdiff_t tap = ((const int32_t *)places->at)[other];                      \
                        ptrdiff_t i = tap / it->window[2] / it->window[1];                         \
                        ptrdiff_t j = tap / it->window[2] % it->window[1],                         \
                                  k = tap % it->window[2];                                         \
                        if (i >= inside[0].from && i < inside[0].to && j >= inside[1].from         \
                            && j < inside[1].to && k >= inside[2].from && k < inside[2].to)        \
                            ((T *)dx->at)[start + i * it->step[0] * dx->steps[0]                   \
                                          + j * it->step[1] * dx->steps[1]                         \
                                          + k * it->step[2] * dx->steps[2]] +=                     \
                                ((const T *)g->at)[cell];                                          \
                    }))                                                                            \
    }                                                                                              \
    static void means_##T(const Windowing *it, const View *x, const View *y) {                     \
        int beside = x->channel == 1 && y->channel == 1 && it->channels > 1;                       \
        EACH_WINDOW(x, y, {                                                                        \
            ptrdiff_t number = it->counts_padding ? it->taps : valid ? valid : 1;                  \
            for (ptrdiff_t first = 0; beside && first < it->channels; first += SIDE_BY_SIDE) {     \
                ptrdiff_t many = it->channels - first;                                             \
                many = many < SIDE_BY_SIDE ? many : SIDE_BY_SIDE;                                  \
                double sums[SIDE_BY_SIDE] = {0};                                                   \
                EACH_TAP(x, {                                                                      \
                    const T *of = (const T *)x->at + place + first;                                \
                    for (ptrdiff_t channel = 0; channel < many; channel++)                         \
                        sums[channel] += (double)of[channel];                                      \
                })                                                                                 \
                for (ptrdiff_t channel = 0; channel < many; channel++)                             \
                    ((T *)y->at)[cell + first + channel] = (T)(sums[channel] / (double)number);    \
            }                                                                                      \
            if (beside)                                                                            \
                continue;                                                                          \
            EACH_CHANNEL(x, y, {                                                                   \
                double sum = 0;                                                                    \
                EACH_TAP(x, { sum += (double)((const T *)x->at)[place]; })                         \
                ((T *)y->at)[cell] = (T)(sum / (double)number);                                    \
            })                                                                                     \
        })                                                                                         \
    }                                                                                              \
    static void shares_##T(const Windowing *it, const View *dx, const View *g) {                   \
        int beside = dx->channel == 1 && g->channel == 1 && it->channels > 1;                      \
        EACH_WINDOW(dx, g, {                                                                       \
            T number = (T)(it->counts_padding ? it->taps : valid ? valid : 1);                     \
            for (ptrdiff_t first = 0; beside && first < it->channels; first += SIDE_BY_SIDE) {     \
                ptrdiff_t many = it->channels - first;                                             \
                many = many < SIDE_BY_SIDE ? many : SIDE_BY_SIDE;                                  \
                T shares[SIDE_BY_SIDE];                                                            \
                for (ptrdiff_t channel = 0; channel < many; channel++)                             \
                    shares[channel] = ((const T *)g->at)[cell + first + channel] / number;         \
                EACH_TAP(dx, {                                                                     \
                    T *to = (T *)dx->at + place + first;                                           \
                    if (it->are_apart) {                                                           \
                        memcpy(to, shares, (size_t)many * sizeof(T));                              \
                        continue;                                                                  \
                    }                                                                              \
                    for (ptrdiff_t channel = 0; channel < many; channel++)                         \
                        to[channel] += shares[channel];                                            \
                })                                                                                 \
            }                                                                                      \
            if (beside)                                                                            \
                continue;                                                                          \
            EACH_CHANNEL(dx, g, {                                                                  \
                T share = ((const T *)g->at)[cell] / number;                                       \
                EACH_TAP(dx, { ((T *)dx->at)[place] += share; })                                   \
            })                                                                                     \
        })                                                                                         \
    }
FEW_FUNCTIONS(float)
FEW_FUNCTIONS(double)

#define OF_TYPE(x, name, ...)                                                                      \
    (PyArray_TYPE(as_array(x)) == NPY_FLOAT ? name##_float(__VA_ARGS__)                            \
                                            : name##_double(__VA_ARGS__))

/* The windows over one image, and its view; false where another kernel has to do it, as of float32
 * where there are more elements than `most`. */
static int as_pooling(Windowing *it, View *view, double most, PyObject *const *x, Py_ssize_t count,
                      PyObject *names) {
    if (count != 1 || !is_float(x[0]))
        return 0;
    PyArrayObject *array = as_array(x[0]);
    return as_windowing(it, PyArray_NDIM(array), PyArray_DIMS(array),
                        PyArray_TYPE(array) == NPY_FLOAT ? most : FEW, x, count, names)
        && as_view(x[0], it, view);
}

KERNEL(max_pool) {
    (void)module;
    Windowing it;
    View image, result;
    if (!as_pooling(&it, &image, FEW, x, count, names))
        return NUMPY_FALLBACK(max_pool);
    int ndim = it.rank + 2;
    PyObject *y = new_result(x[0], ndim, it.shape);
    PyObject *places = y ? new_array_of(NPY_INT32, sizeof(int32_t), ndim, it.shape) : NULL;
    if (places) {
        as_view(y, &it, &result);
        OF_TYPE(x[0], maxima, &it, &image, &result, data(places));
    }
    return pair(y, places);
}

KERNEL(avg_pool) {
    (void)module;
    Windowing it;
    View image, result;
    if (!as_pooling(&it, &image, FEW_OF_VECTORS, x, count, names))
        return NUMPY_FALLBACK(avg_pool);
    PyObject *y = new_result(x[0], it.rank + 2, it.shape);
    if (y) {
        as_view(y, &it, &result);
        OF_TYPE(x[0], means, &it, &image, &result);
    }
    return y;
}

/* The windows over the images of a gradient, and a view of it; false where another kernel has to do
 * it. `shape` gets that of the images. */
static int as_gradient(Windowing *it, View *view, npy_intp *shape, double most, PyObject *const *x,
                       Py_ssize_t count, PyObject *names) {
    PyObject *given = attribute(x, count, names, "input_shape");
    if (!is_float(x[0]) || !given || !PyTuple_CheckExact(given)
        || PyTuple_GET_SIZE(given) != PyArray_NDIM(as_array(x[0])) || PyTuple_GET_SIZE(given) > 5)
        return 0;
    int ndim = PyArray_NDIM(as_array(x[0]));
    for (int i = 0; i < ndim; i++)
        shape[i] = PyLong_AsSsize_t(PyTuple_GET_ITEM(given, i));
    if (PyErr_Occurred()) {
        PyErr_Clear();
        return 0;
    }
    return as_windowing(it, ndim, shape, PyArray_TYPE(as_array(x[0])) == NPY_FLOAT ? most : FEW, x,
                        count, names)
        && PyArray_CompareLists(it->shape, PyArray_DIMS(as_array(x[0])), ndim)
        && as_view(x[0], it, view);
}

/* New zeros in the shape of the images. */
static PyObject *zeros_of(PyObject *g, int ndim, const npy_intp *shape) {
    PyObject *dx = new_result(g, ndim, shape);
    if (dx)
        memset(data(dx), 0, (size_t)PyArray_NBYTES(as_array(dx)));
    return dx;
}

KERNEL(avg_pool_gradient) {
    (void)module;
    Windowing it;
    View g, result;
    npy_intp shape[NPY_MAXDIMS];
    /* Sums of windows that overlap are in another order in the loops over vectors. */
    if (count != 1 || !as_gradient(&it, &g, shape, FEW_APART, x, count, names)
        || (!it.are_apart && it.elements > FEW))
        return NUMPY_FALLBACK(avg_pool_gradient);
    PyObject *dx = zeros_of(x[0], it.rank + 2, shape);
    if (dx) {
        as_view(dx, &it, &result);
        OF_TYPE(x[0], shares, &it, &result, &g);
    }
    return dx;
}

/* False if an index is not in its window. */
static int are_places(PyObject *places, ptrdiff_t taps) {
    const int32_t *at = data(places);
    for (ptrdiff_t i = 0; i < size(places); i++)
        if (at[i] < 0 || at[i] >= taps)
            return 0;
    return 1;
}

KERNEL(max_pool_gradient) {
    (void)module;
    Windowing it;
    View g, places, result;
    npy_intp shape[NPY_MAXDIMS];
    if (count != 2 || !PyArray_CheckExact(x[1]) || PyArray_TYPE(as_array(x[1])) != NPY_INT32
        || !as_gradient(&it, &g, shape, FEW, x, count, names) || !same_shape(x[0], x[1]))
        return NUMPY_FALLBACK(max_pool_gradient);
    /* In C order, so that they are looked through at once. */
    PyObject *at = plain_copy(x[1]);
    if (!at)
        return NULL;
    PyObject *dx = NULL;
    if (!are_places(at, it.taps))
        dx = NUMPY_FALLBACK(max_pool_gradient);
    else if ((dx = zeros_of(x[0], it.rank + 2, shape))) {
        as_view(at, &it, &places);
        as_view(dx, &it, &result);
        OF_TYPE(x[0], at_maxima, &it, &result, &g, &places);
    }
    Py_DECREF(at);
    return dx;
}
