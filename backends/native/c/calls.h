/* Shared by the kernels: NumPy arrays in and out, and calls of loops. */
#ifndef PULLBACK_CALLS_H
#define PULLBACK_CALLS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#define NPY_TARGET_VERSION NPY_2_0_API_VERSION
#define PY_ARRAY_UNIQUE_SYMBOL pullback_native_api
#ifndef PULLBACK_MODULE
#define NO_IMPORT_ARRAY
#endif
#include <numpy/arrayobject.h>

#include "job.h"

/* The ops whose kernels are all in C, by their names. */
/* clang-format off */
#define KERNELS(X)                                                                                \
    X(sin) X(cos) X(threshold) X(reciprocal) X(log_cosh_loss) X(exp) X(tanh) X(sigmoid) X(silu) X(softplus) X(log_sigmoid) X(relu) X(negative)              \
    X(gelu) X(gelu_gradient) X(relu_gradient)                                                     \
    X(tanh_gradient) X(sigmoid_gradient) X(silu_gradient)                                         \
    X(add) X(subtract) X(multiply) X(divide) X(maximum) X(minimum) X(matmul) X(linear)            \
    X(selu) X(erf) X(erfc) X(erfinv) X(lgamma) X(digamma) X(bessel_i) X(mish) X(log) X(log1p) X(log2)         \
    X(log10) X(exp2) X(sinh) X(cosh) X(hypot) X(logaddexp) X(logaddexp2) X(less) X(less_equal) X(greater)       \
    X(greater_equal) X(equal) X(not_equal) X(sign) X(nextafter) X(relu6) X(hard_tanh) X(hard_sigmoid)          \
    X(hard_silu) X(softsign) X(bell) X(squared_error) X(sigmoid_cross_entropy_with_logits)        \
    X(mish_gradient) X(leaky_relu_gradient) X(elu_gradient) X(huber_loss) X(clip)                 \
    X(fixed_power) X(remainder) X(floor_divide) X(pow) X(floor) X(ceil) X(trunc) X(round) X(fmod)  \
    X(abs) X(square) X(sqrt) X(expm1) X(where) X(leaky_relu) X(elu) X(astype)                     \
    X(sgd_update) X(momentum_update) X(adam_update)                                               \
    X(softmax) X(log_softmax) X(softmax_gradient) X(log_softmax_gradient)                         \
    X(softmax_cross_entropy_with_logits)                                                          \
    X(sparse_softmax_cross_entropy_with_logits) X(sparse_softmax_cross_entropy_gradient)          \
    X(layer_norm) X(layer_norm_gradient) X(rms_norm) X(rms_norm_gradient)                         \
    X(sum) X(mean) X(prod) X(max) X(min) X(vector_norm) X(cumulative_sum) X(cumulative_prod) X(top_k) \
    X(cumulative_max) X(cumulative_min) X(linear_recurrence) X(cdist) X(cdist_gradient)           \
    X(segment_sum) X(scatter_add) X(take) X(take_along_axis) X(place_along_axis)                  \
    X(reshape) X(concat) X(argwhere)                                                              \
    X(batch_norm) X(batch_norm_gradient) X(batch_norm_inference)                                  \
    X(var) X(std) X(logsumexp) X(tril) X(triu) X(prelu) X(slope_quotient) X(xlogy) X(group_norm) X(scatter_max)    \
    X(scatter_min) X(group_norm_gradient) X(ctc_loss) X(ctc_loss_gradient)                        \
    X(negative_log_likelihood_of_classes) X(gamma_density) X(regularized_gamma)                                                         \
    X(max_pool) X(max_pool_gradient) X(avg_pool) X(avg_pool_gradient) X(lu_factor) X(lu_solve)    \
    X(solve_triangular) X(soft_shrink) X(hard_shrink) X(celu) X(rsqrt) X(polygamma) X(scatter_multiply) X(segment_prod) X(stack) X(pad) X(cross)                                                                 \
    X(random_bits) X(random_uniform) X(random_normal) X(dropout)                                  \
    X(fft) X(ifft) X(rfft) X(irfft) X(hfft) X(ihfft) X(fftn) X(ifftn) X(rfftn) X(irfftn)
/* clang-format on */

#define KERNEL_NUMBER(name) KERNEL_##name,
enum { KERNELS(KERNEL_NUMBER) KERNEL_COUNT };
#undef KERNEL_NUMBER

#define KERNEL(name)                                                                               \
    PyObject *kernel_##name(PyObject *module, PyObject *const *x, Py_ssize_t count, PyObject *names)
typedef PyObject *(*KernelFunction)(PyObject *, PyObject *const *, Py_ssize_t, PyObject *);
#define KERNEL_DECLARATION(name) KERNEL(name);
KERNELS(KERNEL_DECLARATION)
#undef KERNEL_DECLARATION

/* The optimizers whose updates can be done in place, as functions NAME_in_place. */
#define UPDATES(X) X(sgd) X(momentum) X(adam)

/* The loops for this processor. */
extern const Loop *loops;

/* In extremes.c: scatter_add of integers; NULL without an error where NumPy has to do it. */
PyObject *summed_integers(PyObject *const *x, Py_ssize_t count, PyObject *names);

/* Calls NumPy's kernel with the same arguments: for arrays that are not contiguous float32. */
PyObject *numpy_fallback(int kernel, PyObject *const *x, Py_ssize_t count, PyObject *names);
#define NUMPY_FALLBACK(name) numpy_fallback(KERNEL_##name, x, count, names)

/* Calls a kernel with copies of the arrays of float32 and float64 that are not contiguous, and
 * NumPy's if all are: gradients of sums and means repeat one number, others lie as it happens. */
PyObject *plain_or_numpy(KernelFunction kernel, int number, PyObject *const *x, Py_ssize_t count,
                         PyObject *names);
#define PLAIN_OR_NUMPY(name) plain_or_numpy(kernel_##name, KERNEL_##name, x, count, names)

/* Runs a loop over `count` items that take about `cost` nanoseconds each, in pieces of `grain`;
 * returns -1 with an error set. Asking for the number of threads runs Python, and so handlers of
 * signals, which may raise any exception. */
int run_loop(int loop, const void *args, ptrdiff_t count, ptrdiff_t grain, double cost);

/* The same for each loop, with the type of its arguments: run_exp, run_softmax and so on. */
#define RUN(name, Args)                                                                            \
    static inline int run_##name(const Args *args, ptrdiff_t count, ptrdiff_t grain,               \
                                 double cost) {                                                    \
        return run_loop(LOOP_##name, args, count, grain, cost);                                    \
    }
LOOPS(RUN)
#undef RUN

/* The number of threads for work of so many nanoseconds; -1 with an error set. */
int threads_for(double cost);

/* Nanoseconds of work from which on it pays to release the GIL. */
#define WORTH_THE_LOCK 3e3

/* Adds the sums of the pieces of rows: `partial` is (outer, pieces, inner), and is written to. */
void add_sums(double *partial, ptrdiff_t outer, ptrdiff_t pieces, ptrdiff_t inner, double factor,
              float *result);

/* scale / sqrt(variance + epsilon) for each channel; `scale` may be NULL. */
void channel_factors(const float *variance, const float *scale, double epsilon, ptrdiff_t width,
                     float *factor);

/* Returns y, or releases it and returns NULL if the loop that fills it failed. */
static inline PyObject *unless(int failed, PyObject *y) {
    if (failed)
        Py_CLEAR(y);
    return y;
}

/* The value of an attribute among the keywords of a call, or NULL. */
PyObject *attribute(PyObject *const *x, Py_ssize_t count, PyObject *names, const char *name);

/* New arrays of the values of 16-bit floats in any layout, as float32, and of contiguous float32,
 * as bfloat16. */
PyObject *widened(PyObject *x);
PyObject *narrowed(PyObject *x);

/* A new array of which elements are not 0, by vectors; NULL without an error where NumPy has to do
 * it. */
PyObject *truth(PyObject *x);

/* x of float32, whose reference is stolen and which may be NULL, as one of the 16-bit floats. */
PyObject *narrowed_to(PyObject *x, int type);

/* The loops of an op in float32, float64 and integers, or -1. Narrower floats are computed in
 * float32, or in double where there is nothing else. */
typedef struct {
    int single, wide, int32, int64;
    double cost;
    int bits; /* of 16-bit floats as they are; 0, the number of exp, where there is none */
} Family;
#define NO_LOOP (-1)

/* A type of args.h by NumPy's number; -1 for others. */
int type_numbered(int number);

/* What the loops of a family compute of arrays of any strides, which are broadcast. NULL without
 * an error for dtypes that have no loop, and for arrays that NumPy has to do. */
PyObject *elements(const Family *family, int form, double number, PyObject *const *x,
                   Py_ssize_t operands);

/* The same for arguments whose loop and types are there: fills in shapes and steps. */
PyObject *filled(ElementsArgs *args, PyObject *const *x, double cost);

/* The attribute as a number; -1 with an error set if it is not a number. */
static inline double number(PyObject *const *x, Py_ssize_t count, PyObject *names,
                            const char *name) {
    PyObject *value = attribute(x, count, names, name);
    if (!value) {
        if (!PyErr_Occurred())
            PyErr_Format(PyExc_TypeError, "the attribute '%s' is missing", name);
        return -1;
    }
    return PyFloat_AsDouble(value);
}
#define ATTRIBUTE(name) number(x, count, names, #name)

static inline int is_true(PyObject *const *x, Py_ssize_t count, PyObject *names, const char *name) {
    return attribute(x, count, names, name) == Py_True;
}

static inline PyArrayObject *as_array(PyObject *x) { return (PyArrayObject *)x; }

/* NumPy's number of the type bfloat16, which ml_dtypes adds; -1 before `prepare`. */
extern int bfloat16;

static inline int is_bfloat16(PyObject *x) {
    return PyArray_CheckExact(x) && PyArray_TYPE(as_array(x)) == bfloat16
        && PyArray_ISNOTSWAPPED(as_array(x));
}

/* As is_plain, of bfloat16. */
static inline int is_plain_bfloat16(PyObject *x) {
    return is_bfloat16(x) && PyArray_ISCARRAY_RO(as_array(x));
}

/* True if x is a float32 array in the machine's byte order, in any layout. */
static inline int is_float32(PyObject *x) {
    return PyArray_CheckExact(x) && PyArray_TYPE(as_array(x)) == NPY_FLOAT
        && PyArray_ISNOTSWAPPED(as_array(x));
}

/* True if x is a float32 array, C-contiguous, aligned, in the machine's byte order. */
static inline int is_plain(PyObject *x) {
    return PyArray_CheckExact(x) && PyArray_TYPE(as_array(x)) == NPY_FLOAT
        && PyArray_ISCARRAY_RO(as_array(x));
}

static inline void *data(PyObject *x) { return PyArray_DATA(as_array(x)); }
static inline ptrdiff_t size(PyObject *x) { return PyArray_SIZE(as_array(x)); }

/* x, or a copy of it in C order if it is not; a new reference. */
static inline PyObject *plain_copy(PyObject *x) {
    return PyArray_ISCARRAY_RO(as_array(x)) ? Py_NewRef(x)
                                            : PyArray_NewCopy(as_array(x), NPY_CORDER);
}

/* True for many rows of few elements: NumPy's kernels, which take them as columns, are faster. */
static inline int is_short(PyObject *x, ptrdiff_t width) {
    return width < 12 && PyArray_SIZE(as_array(x)) > 16384;
}

/* A new float32 array; a large one begins at a cache line. */
PyObject *new_array(int ndim, const npy_intp *shape);
/* The same for another of NumPy's numbers of types. */
PyObject *new_array_of(int type, npy_intp item_size, int ndim, const npy_intp *shape);

static inline PyObject *new_like(PyObject *x) {
    return new_array(PyArray_NDIM(as_array(x)), PyArray_DIMS(as_array(x)));
}

/* A number, as a 0-d array. */
static inline int is_number(PyObject *x) { return PyArray_NDIM(as_array(x)) == 0; }
static inline double value(PyObject *number) { return *(float *)data(number); }

static inline int same_shape(PyObject *x, PyObject *y) {
    return PyArray_NDIM(as_array(x)) == PyArray_NDIM(as_array(y))
        && PyArray_CompareLists(PyArray_DIMS(as_array(x)), PyArray_DIMS(as_array(y)),
                                PyArray_NDIM(as_array(x)));
}

/* The name "_array", under which tensors and variables have their arrays; made in module.c. */
extern PyObject *array_name;

/* True if an array of a tensor or a variable has so many references, that of its owner and those of
 * the caller, and its memory is its own. All others who can look at the memory have a reference:
 * tensors, views, buffers, capsules, tapes. */
static inline int is_owners_alone(PyObject *array, Py_ssize_t references) {
#ifdef Py_GIL_DISABLED
    (void)array, (void)references;
    return 0;
#else
    return Py_REFCNT(array) <= references && !PyArray_BASE(as_array(array))
        && PyArray_CHKFLAGS(as_array(array), NPY_ARRAY_OWNDATA | NPY_ARRAY_WRITEABLE);
#endif
}

/* Positions along an axis, of 32 or 64 bits. */
typedef struct {
    const void *at;
    ptrdiff_t count;
    int wide;
} Indices;

static inline int as_indices(PyObject *x, Indices *indices) {
    if (!PyArray_CheckExact(x) || !PyArray_ISCARRAY_RO(as_array(x)))
        return 0;
    int type = PyArray_TYPE(as_array(x));
    if (type != NPY_INT32 && type != NPY_INT64)
        return 0;
    *indices = (Indices){data(x), size(x), type == NPY_INT64};
    return 1;
}

static inline ptrdiff_t index_of(const Indices *indices, ptrdiff_t i) {
    return indices->wide ? (ptrdiff_t)((const int64_t *)indices->at)[i]
                         : (ptrdiff_t)((const int32_t *)indices->at)[i];
}

/* Tuples of new arrays, whose references they steal; NULL if any is NULL. */
static inline PyObject *pair(PyObject *first, PyObject *second) {
    PyObject *both = first && second ? PyTuple_Pack(2, first, second) : NULL;
    Py_XDECREF(first);
    Py_XDECREF(second);
    return both;
}

static inline PyObject *triple(PyObject *first, PyObject *second, PyObject *third) {
    PyObject *all = first && second && third ? PyTuple_Pack(3, first, second, third) : NULL;
    Py_XDECREF(first);
    Py_XDECREF(second);
    Py_XDECREF(third);
    return all;
}

/* float32 is added in double precision. So many numbers of float64 may be added one by one; of
 * more, what each sum loses is kept beside it. */
#define FEW_SUMMANDS 32

/* A number added to a sum, and what that loses to `lost`. */
static inline void add_exactly(double *sum, double *lost, double number) {
    double total = *sum + number, part = total - *sum;
    *lost += (*sum - (total - part)) + (number - part);
    *sum = total;
}

/* Adds what sums have lost; infinities and NaN stay. */
static inline void add_lost(double *sums, const double *lost, ptrdiff_t size) {
    for (ptrdiff_t i = 0; i < size; i++)
        sums[i] += sums[i] - sums[i] == 0 ? lost[i] : 0;
}

/* Drops the strips that are kept of an array: it is about to change. */
void forget_strips(PyObject *array);

/* Elements of a piece: several arrays of this size fit into a second-level cache. */
#define PIECE 32768

#endif
