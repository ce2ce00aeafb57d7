/* Elementwise loops in double: those of float64, and of narrower floats where there is no loop in
 * float32. The elements of 16 and 32 bits are widened block by block (strided.inc.h). */

#include "incomplete_gamma.h"

#define UNARY64(name, expression) UNARY_LOOP(name##_wide, double, expression)
#define BINARY64(name, expression) BINARY_LOOP(name##_wide, double, expression)
#define NUMBER64(name, expression) NUMBER_LOOP(name##_wide, double, args->number, expression)

UNARY64(exp, exp64(x))
UNARY64(exp2, exp2_64(x))
UNARY64(expm1, expm1_64(x))
UNARY64(log, log64(x))
UNARY64(log1p, log1p64(x))
UNARY64(log2, log2_64(x))
UNARY64(log10, log64(x) * 0.4342944819032518)
UNARY64(sinh, sinh64(x))
UNARY64(cosh, cosh64(x))
UNARY64(tanh, tanh64(x))
UNARY64(erf, erf64(x))
UNARY64(erfc, erfc64(x))
UNARY64(erfinv, erfinv64(x))
UNARY64(lgamma, lgamma64(x))
UNARY64(digamma, digamma64(x))
UNARY64(sigmoid, sigmoid64(x))
UNARY64(silu, silu64(x))
UNARY64(softplus, (x < 0.0 ? 0.0 : x) + log1p_unit64(exp64(-fabs(x))))
UNARY64(log_sigmoid, -((x < 0.0 ? -x : 0.0) + log1p_unit64(exp64(-fabs(x)))))
UNARY64(mish, mish64(x))
UNARY64(selu, x > 0.0 ? x * 1.0507009873554805 : expm1_64(at_most64(x, 0.0)) * 1.7580993408473766)
UNARY64(gelu_exact, gelu_exact64(x))
UNARY64(gelu_tanh, gelu_tanh64(x))
UNARY64(sign, x > 0.0 ? 1.0 : x < 0.0 ? -1.0 : x == 0.0 ? 0.0 : x)
UNARY64(relu6, BETWEEN(0.0, x, 6.0))
UNARY64(hard_tanh, BETWEEN(-1.0, x, 1.0))
UNARY64(hard_sigmoid, BETWEEN(0.0, x + 3.0, 6.0) / 6.0)
UNARY64(hard_silu, (x < -3.0 ? -3.0 : x) * (BETWEEN(0.0, x + 3.0, 6.0) / 6.0))
UNARY64(softsign, x / (fabs(x) + 1.0))
UNARY64(bell, exp64(-x *x) * 1.1283791670955126)
UNARY64(power_3, x * x * x)
UNARY64(power_4, (x * x) * (x * x))
UNARY64(power_5, (x * x) * (x * x) * x)
UNARY64(power_minus_2, (1.0 / x) * (1.0 / x))
UNARY64(power_half, x == -HUGE_VAL ? HUGE_VAL : sqrt(x) + 0.0)
UNARY64(power_minus_half, 1.0 / (x == -HUGE_VAL ? HUGE_VAL : sqrt(x) + 0.0))
UNARY64(relu, x <= 0.0 ? 0.0 : x)
NUMBER64(leaky_relu, a > 0.0 ? a : a * b)
NUMBER64(elu, a > 0.0 ? a : expm1_64(at_most64(a, 0.0)) * b)
UNARY64(reciprocal, 1.0 / x)
UNARY64(rsqrt, 1.0 / sqrt(x))
NUMBER64(soft_shrink, a > b ? a - b : a < -b ? a + b : a * 0.0)
NUMBER64(hard_shrink, fabs(a) <= b ? 0.0 : a)
NUMBER64(celu, a > 0.0 ? a : expm1_64(at_most64(a, 0.0) / b) * b)
/* Of large angles, which are rare, the library's function makes the results anew. */
#define ANGLES(name, T, near, far)                                                                 \
    LOOP(name, UnaryArgs) {                                                                        \
        const T *restrict x = (const T *)args->x;                                                  \
        T *restrict y = (T *)args->y;                                                              \
        int any = 0;                                                                               \
        _Pragma("omp simd reduction(| : any)")                                                     \
        for (ptrdiff_t i = from; i < to; i++) {                                                    \
            y[i] = near(x[i]);                                                                     \
            any |= fabs((double)x[i]) > MOST_ANGLE;                                                \
        }                                                                                          \
        for (ptrdiff_t i = from; any && i < to; i++)                                               \
            if (fabs((double)x[i]) > MOST_ANGLE)                                                   \
                y[i] = (T)far((double)x[i]);                                                       \
    }
ANGLES(sin, float, sin32, sin)
ANGLES(cos, float, cos32, cos)
ANGLES(sin_wide, double, sin64, sin)
ANGLES(cos_wide, double, cos64, cos)
/* Where no number is negative, the sums over negative integers are left out. */
LOOP(polygamma_wide, NumberArgs) {
    const double *restrict x = (const double *)args->x;
    double *restrict y = (double *)args->y, n = args->number;
    int below = 0;
    for (ptrdiff_t i = from; i < to; i++)
        below |= x[i] < 0.0;
    if (below) {
        _Pragma("omp simd")
        for (ptrdiff_t i = from; i < to; i++)
            y[i] = polygamma64(x[i], n, 1);
    } else {
        _Pragma("omp simd")
        for (ptrdiff_t i = from; i < to; i++)
            y[i] = polygamma64(x[i], n, 0);
    }
}
NUMBER64(bessel_i0, bessel_i0_64(a, b))
NUMBER64(bessel_i1, bessel_i1_64(a, b))
NUMBER64(bessel_i2, bessel_i2_64(a, b))

BINARY64(gelu_exact_gradient, a *gelu_exact64_slope(b))
BINARY64(gelu_tanh_gradient, a *gelu_tanh64_slope(b))
BINARY64(relu_gradient, b > 0.0 ? a : 0.0)
BINARY64(tanh_gradient, a * ((1.0 - b) * (1.0 + b)))
BINARY64(sigmoid_gradient, a *(b * (1.0 - b)))
BINARY64(silu_gradient, a *silu64_slope(b))
BINARY64(maximum, ((a < b) | (b != b)) ? b : a)
BINARY64(minimum, ((b < a) | (b != b)) ? b : a)
BINARY64(hypot, hypot64(a, b))
BINARY64(logaddexp, logaddexp64(a, b))
BINARY64(logaddexp2, logaddexp2_64(a, b))
BINARY64(log_cosh_loss, log_cosh64(a, b))
BINARY64(squared_error, (a - b) * (a - b))
BINARY64(mish_gradient, a *mish64_slope(b))
BINARY64(pow, pow64(a, b))
/* Of two zeros, and of 0 and NaN, it is 0: nothing comes from there. */
BINARY64(slope_quotient, (a == 0.0) & (a / b != a / b) ? a : a / b)
BINARY64(prelu, a > 0.0 ? a : a * b)
BINARY64(xlogy, (a == 0.0) & (b == b) ? 0.0 : a * log64(b))
BINARY64(floor_divide, floor(a / b))

BINARY64(gamma_density, gamma_density64(a, b))

INLINE double cross_entropy64(double x, double z) {
    double size = fabs(x), wrong = x > 0.0 ? 1.0 - z : z;
    double certain = wrong == 0.0 ? 0.0 : wrong * size;
    return certain + log1p_unit64(exp64(-size));
}
BINARY64(sigmoid_cross_entropy, cross_entropy64(a, b))

INLINE double nextafter64(double a, double b) {
    int64_t bits = as_bits64(a), away = (a < b) == (a > 0.0);
    double moved = as_double(a == 0.0 ? (as_bits64(b) & INT64_MIN) | 1 : bits + (away ? 1 : -1));
    return (a != a) | (b != b) ? a + b : a == b ? b : moved;
}
BINARY64(nextafter, nextafter64(a, b))

UNARY_LOOP(sign_int32, int32_t, (x > 0) - (x < 0))
UNARY_LOOP(sign_int64, int64_t, (x > 0) - (x < 0))

#define BINARY_NUMBER64(name, expression) BINARY_NUMBER_LOOP(name##_wide, double, expression)
BINARY_NUMBER64(leaky_relu_gradient, b > 0.0 ? a : a * c)
BINARY_NUMBER64(elu_gradient, b > 0.0 ? a : a * c * exp64(at_most64(b, 0.0)))
INLINE double huber64(double error, double c) {
    double clipped = at_most64(error, c);
    return clipped * clipped * 0.5 + (error - clipped) * c;
}
BINARY_NUMBER64(threshold, a <= c ? b : a)
BINARY_NUMBER64(huber_loss, huber64(fabs(a - b), c))
BINARY_NUMBER64(regularized_gamma, regularized_gamma64(a, b, c))

/* Remainders: with the sign of the divisor, and with that of the dividend. --------------------- */

/* Any two doubles, as Python has it. */
static double remainder_of(double a, double b) {
    double rest = fmod(a, b);
    if (b == 0.0 || rest == 0.0)
        return b == 0.0 ? as_double(0x7ff8000000000000) : copysign(0.0, b);
    return (rest < 0.0) != (b < 0.0) ? rest + b : rest;
}

/* A quotient below 2^50 that is rounded to an integer, down or towards 0, is 1 too far from 0 or
 * too large at most, and a fused product with it is rounded once, where the remainder is. */
#ifdef __FMA__
#define REMAINDERS(name, like, rounded, one, of_any)                                               \
    LOOP(name, BinaryArgs) {                                                                       \
        const double *restrict first = (const double *)args->x1;                                   \
        const double *restrict second = (const double *)args->x2;                                  \
        double *restrict target = (double *)args->y;                                               \
        int far = 0;                                                                               \
        _Pragma("omp simd reduction(| : far)")                                                     \
        for (ptrdiff_t i = from; i < to; i++) {                                                    \
            double a = first[i], b = second[i], q = rounded(a / b), size = fabs(b);                \
            far |= !(fabs(q) < 0x1p50) | !(size < HUGE_VAL);                                       \
            double rest = copysign(1.0, like) * __builtin_fma(-q, b, a);                           \
            q -= rest < 0.0 ? one : 0.0;                                                           \
            double found = __builtin_fma(-q, b, a);                                                \
            target[i] = found == 0.0 ? copysign(0.0, like) : found;                                \
        }                                                                                          \
        for (ptrdiff_t i = from; far && i < to; i++)                                               \
            if (!(fabs(first[i] / second[i]) < 0x1p49) || fabs(second[i]) == HUGE_VAL)             \
                target[i] = of_any(first[i], second[i]);                                           \
    }
#else
#define REMAINDERS(name, like, rounded, one, of_any) BINARY_LOOP(name, double, of_any(a, b))
#endif
REMAINDERS(remainder_wide, b, floor, 1.0, remainder_of)
REMAINDERS(fmod_wide, a, trunc, copysign(1.0, q), fmod)

/* Of integers: 0 for a divisor of 0, and quotients that wrap around. Those of 32 bits are exact in
 * double. */
#define INTEGER_QUOTIENTS(type, T, U, Q)                                                           \
    BINARY_LOOP(floor_divide_##type, T, (T)Q(a, b))                                                \
    BINARY_LOOP(remainder_##type, T, b ? (T)((U)a - (U)Q(a, b) * (U)b) : 0)
INLINE int64_t quotient_int32(int32_t a, int32_t b) {
    double q = floor((double)a / (double)(b ? b : 1));
    return b ? (int64_t)q : 0;
}
INLINE int64_t quotient_int64(int64_t a, int64_t b) {
    if (b == 0 || b == -1)
        return b ? (int64_t)(0 - (uint64_t)a) : 0;
    int64_t q = a / b;
    return q - ((a % b != 0) & ((a < 0) != (b < 0)));
}
INTEGER_QUOTIENTS(int32, int32_t, uint32_t, quotient_int32)
INTEGER_QUOTIENTS(int64, int64_t, uint64_t, quotient_int64)
