/* Kernels of elementwise ops that have no short way for contiguous float32. */
#include <math.h>

#include "families.h"

ELEMENTS(erfc, 1, OF_ONE, OF_FLOATS(erfc, erfc_wide, 1))
ELEMENTS(erfinv, 1, OF_ONE, OF_FLOATS(erfinv, erfinv_wide, 1))
ELEMENTS(sin, 1, OF_ONE, OF_FLOATS(sin, sin_wide, 1))
ELEMENTS(cos, 1, OF_ONE, OF_FLOATS(cos, cos_wide, 1))
ELEMENTS(lgamma, 1, OF_ONE, IN_DOUBLE(lgamma, 6))
ELEMENTS(digamma, 1, OF_ONE, IN_DOUBLE(digamma, 6))
ELEMENTS(log, 1, OF_ONE, IN_DOUBLE(log, 1.5))
ELEMENTS(log1p, 1, OF_ONE, IN_DOUBLE(log1p, 1.5))
ELEMENTS(log2, 1, OF_ONE, IN_DOUBLE(log2, 1.5))
ELEMENTS(log10, 1, OF_ONE, IN_DOUBLE(log10, 1.5))
ELEMENTS(exp2, 1, OF_ONE, IN_DOUBLE(exp2, 1.5))
ELEMENTS(sinh, 1, OF_ONE, IN_DOUBLE(sinh, 2))
ELEMENTS(cosh, 1, OF_ONE, IN_DOUBLE(cosh, 2))
ELEMENTS(log_cosh_loss, 2, OF_TWO, IN_DOUBLE(log_cosh_loss, 3))
ELEMENTS(hypot, 2, OF_TWO, IN_DOUBLE(hypot, 1.5))
ELEMENTS(mish, 1, OF_ONE, IN_DOUBLE(mish, 2))
ELEMENTS(gamma_density, 2, OF_TWO, IN_DOUBLE(gamma_density, 50))
ELEMENTS(xlogy, 2, OF_TWO, IN_DOUBLE(xlogy, 1.5))

/* From `least` elements on NumPy's loops for AVX-512, which compute float32 in float32, lead those
 * in double; with fewer its calls take longer than they do. */
static int numpy_leads(PyObject *x, ptrdiff_t least) {
#ifdef PULLBACK_VARIANTS
    return loops == loops_avx512 && PyArray_CheckExact(x) && PyArray_TYPE(as_array(x)) == NPY_FLOAT
        && size(x) >= least;
#else
    (void)x, (void)least;
    return 0;
#endif
}

#define LED_BY_NUMPY(name, inputs, form, cost, least)                                              \
    KERNEL(name) {                                                                                 \
        (void)module;                                                                              \
        int takes = count == inputs && !names && !numpy_leads(x[0], least);                        \
        ELSE_NUMPY(name, takes ? elements(IN_DOUBLE(name, cost), form, 0, x, inputs) : NULL);      \
    }
LED_BY_NUMPY(logaddexp, 2, OF_TWO, 2.5, 4096)
LED_BY_NUMPY(logaddexp2, 2, OF_TWO, 2.5, 4096)

/* Of the types that a loop of comparisons takes, one or two of which may be a number. */
#define COMPARISON(name) ELEMENTS(name, 2, COMPARED, OF_NUMBERS(name, name##_float64, 0.25))
COMPARISON(less)
COMPARISON(less_equal)
COMPARISON(greater)
COMPARISON(greater_equal)
COMPARISON(equal)
COMPARISON(not_equal)

#define OF_ONE_FLOAT(name, cost) ELEMENTS(name, 1, OF_ONE, OF_FLOATS(name, name##_wide, cost))
#define OF_TWO_FLOATS(name, cost) ELEMENTS(name, 2, OF_TWO, OF_FLOATS(name, name##_wide, cost))
/* Of 16-bit floats: NumPy's loops for others are as fast. */
#define ROUNDING(name)                                                                             \
    ELEMENTS(name, 1, OF_ONE, (&(const Family){LOOP_##name, NO_LOOP, NO_LOOP, NO_LOOP, 0.25}))
ROUNDING(floor)
ROUNDING(ceil)
ROUNDING(trunc)
ROUNDING(round)
ELEMENTS(sign, 1, OF_ONE, OF_NUMBERS(sign, sign_wide, 0.25))
/* Of float32 and float64: in another dtype the next number is another one. */
OF_TWO_FLOATS(nextafter, 0.3)
OF_ONE_FLOAT(relu6, 0.25)
OF_ONE_FLOAT(reciprocal, 0.5)
OF_ONE_FLOAT(rsqrt, 0.4)
OF_ONE_FLOAT(hard_tanh, 0.25)
OF_ONE_FLOAT(hard_sigmoid, 0.3)
OF_ONE_FLOAT(hard_silu, 0.3)
OF_ONE_FLOAT(softsign, 0.3)
OF_ONE_FLOAT(bell, 0.6)
OF_TWO_FLOATS(squared_error, 0.3)
OF_TWO_FLOATS(prelu, 0.3)
OF_TWO_FLOATS(slope_quotient, 0.4)
ELEMENTS(sigmoid_cross_entropy_with_logits, 2, OF_TWO,
         OF_FLOATS(sigmoid_cross_entropy, sigmoid_cross_entropy_wide, 1))
ELEMENTS(mish_gradient, 2, OF_TWO, IN_DOUBLE(mish_gradient, 2.5))

/* Of one or two arrays, and of an attribute that has to be `fine`. */
#define WITH_ATTRIBUTE(name, inputs, form, attribute, fine, cost)                                  \
    KERNEL(name) {                                                                                 \
        (void)module;                                                                              \
        double given = ATTRIBUTE(attribute);                                                       \
        if (given == -1 && PyErr_Occurred())                                                       \
            return NULL;                                                                           \
        const Family *family = OF_FLOATS(name, name##_wide, cost);                                 \
        int takes = count == inputs && (fine);                                                     \
        ELSE_NUMPY(name, takes ? elements(family, form, given, x, inputs) : NULL);                 \
    }
WITH_ATTRIBUTE(soft_shrink, 1, OF_NUMBER, threshold, 1, 0.3)
WITH_ATTRIBUTE(hard_shrink, 1, OF_NUMBER, threshold, 1, 0.3)
WITH_ATTRIBUTE(celu, 1, OF_NUMBER, alpha, 1, 0.7)
WITH_ATTRIBUTE(leaky_relu_gradient, 2, OF_TWO, negative_slope, 1, 0.3)
WITH_ATTRIBUTE(elu_gradient, 2, OF_TWO, alpha, 1, 0.7)
WITH_ATTRIBUTE(huber_loss, 2, OF_TWO, delta, given > 0, 0.4)

/* x, or the number `value` in its dtype where x is not above the threshold. */
KERNEL(threshold) {
    (void)module;
    double limit = ATTRIBUTE(threshold);
    PyObject *other = attribute(x, count, names, "value");
    if (PyErr_Occurred())
        return NULL;
    if (count != 1 || !other || !PyArray_CheckExact(x[0]))
        return NUMPY_FALLBACK(threshold);
    PyArray_Descr *dtype = PyArray_DESCR(as_array(x[0]));
    Py_INCREF(dtype);
    PyObject *pair[2] = {x[0], PyArray_FromAny(other, dtype, 0, 0, NPY_ARRAY_FORCECAST, NULL)};
    if (!pair[1])
        return NULL;
    const Family *family = OF_FLOATS(threshold, threshold_wide, 0.3);
    PyObject *y = elements(family, OF_TWO, limit, pair, 2);
    Py_DECREF(pair[1]);
    ELSE_NUMPY(threshold, y);
}

/* Of the orders that the functions of order 0 and 1, and their gradients, are made of. */
KERNEL(bessel_i) {
    (void)module;
    double order = ATTRIBUTE(n), scaled = is_true(x, count, names, "scaled");
    if (PyErr_Occurred())
        return NULL;
    static const int of_order[] = {LOOP_bessel_i0_wide, LOOP_bessel_i1_wide, LOOP_bessel_i2_wide};
    if (count != 1 || !(order == 0 || order == 1 || order == 2))
        return NUMPY_FALLBACK(bessel_i);
    const Family family = {NO_LOOP, of_order[(int)order], NO_LOOP, NO_LOOP, 8};
    ELSE_NUMPY(bessel_i, elements(&family, OF_NUMBER, scaled, x, 1));
}

/* Derivatives of low orders: their factorials are small. */
KERNEL(polygamma) {
    (void)module;
    double order = ATTRIBUTE(n);
    if (order == -1 && PyErr_Occurred())
        return NULL;
    int low = order == 1 || order == 2 || order == 3 || order == 4;
    ELSE_NUMPY(polygamma, count == 1 && low
                              ? elements(IN_DOUBLE(polygamma, 20), OF_NUMBER, order, x, 1)
                              : NULL);
}

KERNEL(regularized_gamma) {
    (void)module;
    double upper = is_true(x, count, names, "upper");
    const Family *family = IN_DOUBLE(regularized_gamma, 100);
    ELSE_NUMPY(regularized_gamma, count == 2 ? elements(family, OF_TWO, upper, x, 2) : NULL);
}

KERNEL(clip) {
    (void)module;
    if (count != 3 || names || (x[1] == Py_None && x[2] == Py_None))
        return NUMPY_FALLBACK(clip);
    PyObject *bound[] = {x[0], x[1] == Py_None ? x[2] : x[1]};
    PyObject *y =
        x[2] == Py_None   ? elements(OF_NUMBERS(maximum, maximum_wide, 0.3), OF_TWO, 0, bound, 2)
        : x[1] == Py_None ? elements(OF_NUMBERS(minimum, minimum_wide, 0.3), OF_TWO, 0, bound, 2)
                          : elements(OF_NUMBERS(clip, clip_wide, 0.3), CLIPPED, 0, x, 3);
    ELSE_NUMPY(clip, y);
}

static const Family powers[] = {
#define POWER(name) {LOOP_##name, LOOP_##name##_wide, NO_LOOP, NO_LOOP, 0.3},
    POWER(power_3) POWER(power_4) POWER(power_5) POWER(power_minus_2) POWER(power_half)
        POWER(power_minus_half)};

KERNEL(fixed_power) {
    (void)module;
    static const double exponents[] = {3, 4, 5, -2, 0.5, -0.5};
    double exponent = ATTRIBUTE(exponent);
    if (exponent == -1 && PyErr_Occurred())
        return NULL;
    for (int i = 0; count == 1 && i < 6; i++)
        if (exponent == exponents[i])
            ELSE_NUMPY(fixed_power, elements(&powers[i], OF_ONE, 0, x, 1));
    return NUMPY_FALLBACK(fixed_power);
}

/* What many floats leave by 1 NumPy's kernel has sooner, by their integers, with the same bits. So
 * has it what integers of 64 bits leave by one of them, by products. */
#define MANY 2048
KERNEL(remainder) {
    (void)module;
    PyObject *y = NULL;
    int by_1 = count == 2 && !names && PyArray_CheckExact(x[1]) && !PyArray_NDIM(as_array(x[1]))
            && PyArray_TYPE(as_array(x[1])) == NPY_FLOAT && PyArray_CheckExact(x[0])
            && PyArray_TYPE(as_array(x[0])) == NPY_FLOAT && size(x[0]) >= MANY
            && *(const float *)data(x[1]) == 1.0f;
    int of_one = count == 2 && !names && PyArray_CheckExact(x[1]) && is_number(x[1])
              && PyArray_TYPE(as_array(x[1])) == NPY_INT64;
    const Family *family = &(const Family){NO_LOOP, LOOP_remainder_wide, LOOP_remainder_int32,
                                           LOOP_remainder_int64, 2};
    if (count == 2 && !names && !by_1 && !of_one)
        y = elements(family, OF_TWO, 0, x, 2);
    ELSE_NUMPY(remainder, y);
}
/* Of integers by one of them NumPy's loop multiplies, and does not divide. */
KERNEL(floor_divide) {
    (void)module;
    PyObject *y = NULL;
    int by_one = count == 2 && !names && PyArray_CheckExact(x[1]) && is_number(x[1])
              && PyArray_ISINTEGER(as_array(x[1]));
    const Family *family = &(const Family){NO_LOOP, LOOP_floor_divide_wide, LOOP_floor_divide_int32,
                                           LOOP_floor_divide_int64, 1};
    if (count == 2 && !names && !by_one)
        y = elements(family, OF_TWO, 0, x, 2);
    ELSE_NUMPY(floor_divide, y);
}
ELEMENTS(fmod, 2, OF_TWO, IN_DOUBLE(fmod, 2))

static int has_form(PyObject *exponent) {
    PyObject *number = PyNumber_Float(exponent);
    double given = number ? PyFloat_AS_DOUBLE(number) : 0.5;
    Py_XDECREF(number);
    PyErr_Clear();
    return fabs(given) <= 5 && (given == floor(given) || fabs(given) == 0.5);
}

/* One exponent that has a form of its own is NumPy's kernel's. */
KERNEL(pow) {
    (void)module;
    PyObject *y = NULL;
    if (count == 2 && !names && !(PyArray_CheckExact(x[1]) && is_number(x[1]) && has_form(x[1])))
        y = elements(IN_DOUBLE(pow, 3), OF_TWO, 0, x, 2);
    ELSE_NUMPY(pow, y);
}
