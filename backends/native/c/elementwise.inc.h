/* Elementwise loops over contiguous arrays. */

#define UNARY(name, expression) UNARY_LOOP(name, float, expression)
#define BINARY(name, expression) BINARY_LOOP(name, float, expression)
#define WITH_NUMBER(name, expression) NUMBER_LOOP(name, float, args->number, expression)

#include "elements.inc.h"

/* From 3.93 on it is 1. */
INLINE float erf32(float x) {
    float size = at_most(fabsf(x), 3.93f), square = size * size;
    float near = size + size * erf_near32(at_most(square, 1.0f));
    float far = 1.0f - exp32_falling(-square) * erf_far32(size - 2.5f);
    return copysignf(size < 1.0f ? near : far, x);
}
UNARY(erf, erf32(x))

/* erfc(y) exp(y^2) (1 + 2 y) for y from 0.45 on, fitted to least relative error (5e-9). */
INLINE float erfc_scaled32(float y) {
    float u = (y - 2.0f) / (y + 2.0f);
    float p = -0.000245161762f;
    p = p * u - 0.00124600134f;
    p = p * u + 0.00115818845f;
    p = p * u + 0.00864582229f;
    p = p * u - 0.0080076009f;
    p = p * u - 0.0542084575f;
    p = p * u + 0.164048806f;
    p = p * u - 0.166031003f;
    p = p * u - 0.0927637592f;
    p = p * u + 1.27697837f;
    return p;
}

/* exp(-size^2) is that of the rounded square, times what its rounding adds: else an error of the
 * square would be one of the result. Factors of the exponential come last, as in silu32. */
INLINE float erfc32(float x) {
    float size = at_most(fabsf(x), 10.5f), square = size * size, low, high;
    float head = as_float(as_bits(size) & ~0xfff), rest = size - head;
    float lost = (head * head - square) + 2.0f * head * rest + rest * rest;
    float r = reduced(at_least(-square, exp_least), &low, &high) - lost;
    float p = erfc_scaled32(size), scaled = (p + p * expm1_reduced(r)) / (1.0f + 2.0f * size);
    float far = scaled * low * (size >= 10.1f ? 0.0f : high);
    float upper = size < 0.5f ? 1.0f - (size + size * erf_near32(at_most(square, 1.0f))) : far;
    return x < 0.0f ? 2.0f - upper : upper;
}
UNARY(erfc, erfc32(x))

/* x P(w) with w = -log(1 - x^2), P fitted to least relative error (6e-9): in w, and in its root
 * from 5 on. */
INLINE float erfinv32(float x) {
    float size = fabsf(x), w = minus_log32((1.0f - size) * (1.0f + size));
    float near = w - 2.5f, far = sqrtf(w) - 3.11803389f;
    float p = -8.79118112e-09f;
    p = p * near + 2.32327118e-08f;
    p = p * near + 4.66172366e-07f;
    p = p * near - 3.46270554e-06f;
    p = p * near - 4.96335588e-06f;
    p = p * near + 0.000218344445f;
    p = p * near - 0.0012527419f;
    p = p * near - 0.00417738687f;
    p = p * near + 0.24664028f;
    p = p * near + 1.50140941f;
    float q = 0.000128966829f;
    q = q * far - 0.000181724812f;
    q = q * far - 0.000312903314f;
    q = q * far + 0.00132603361f;
    q = q * far - 0.00257622707f;
    q = q * far + 0.00387047604f;
    q = q * far - 0.00540762348f;
    q = q * far + 0.00716093183f;
    q = q * far + 1.00361967f;
    q = q * far + 2.95132852f;
    float found = (w < 5.0f ? p : q) * size;
    return copysignf(size < 1.0f ? found : size == 1.0f ? HUGE_VALF : size - size + NAN, x);
}
UNARY(erfinv, erfinv32(x))
UNARY(bell, exp32(-x *x) * 1.1283791671f)

UNARY(floor, floorf(x))
UNARY(ceil, ceilf(x))
UNARY(trunc, truncf(x))
UNARY(round, rintf(x))

/* The powers of fixed_power. */
UNARY(power_3, x * x * x)
UNARY(power_4, (x * x) * (x * x))
UNARY(power_5, (x * x) * (x * x) * x)
UNARY(power_minus_2, (1.0f / x) * (1.0f / x))
UNARY(power_half, x == -HUGE_VALF ? HUGE_VALF : sqrtf(x) + 0.0f)
UNARY(reciprocal, 1.0f / x)
UNARY(rsqrt, 1.0f / sqrtf(x))
/* What is no farther from 0 than b is 0, and NaN stays. */
WITH_NUMBER(soft_shrink, a > b ? a - b : a < -b ? a + b : a * 0.0f)
WITH_NUMBER(hard_shrink, fabsf(a) <= b ? 0.0f : a)
WITH_NUMBER(celu, a > 0.0f ? a : expm1_32(at_most(a, 0.0f) / b) * b)
UNARY(power_minus_half, 1.0f / (x == -HUGE_VALF ? HUGE_VALF : sqrtf(x) + 0.0f))

/* |x| times the probability of the other side, and what both sides have. */
INLINE float cross_entropy32(float x, float z) {
    float size = fabsf(x), wrong = x > 0.0f ? 1.0f - z : z;
    float certain = wrong == 0.0f ? 0.0f : wrong * size;
    return certain + log1p_unit(exp32(-size));
}
BINARY(slope_quotient, (a == 0.0f) & (a / b != a / b) ? a : a / b)
BINARY(prelu, a > 0.0f ? a : a * b)
BINARY(sigmoid_cross_entropy, cross_entropy32(a, b))

/* The bits of a float, as an integer, count its neighbours from 0 on. */
INLINE float nextafter32(float a, float b) {
    int32_t bits = as_bits(a), away = (a < b) == (a > 0.0f);
    float moved = as_float(a == 0.0f ? (as_bits(b) & INT32_MIN) | 1 : bits + (away ? 1 : -1));
    return (a != a) | (b != b) ? a + b : a == b ? b : moved;
}
BINARY(nextafter, nextafter32(a, b))

#define BINARY_NUMBER(name, expression) BINARY_NUMBER_LOOP(name, float, expression)
BINARY_NUMBER(leaky_relu_gradient, b > 0.0f ? a : a * c)
BINARY_NUMBER(elu_gradient, b > 0.0f ? a : a * c * exp32(at_most(b, 0.0f)))
BINARY_NUMBER(threshold, a <= c ? b : a)

/* For c > 0. The bound of the last product has it rounded before it is added, as fused kernels
 * have it; the first is exact. */
INLINE float huber32(float error, float c) {
    float clipped = at_most(error, c);
    return clipped * clipped * 0.5f + at_least((error - clipped) * c, tail_least);
}
BINARY_NUMBER(huber_loss, huber32(fabsf(a - b), c))

LOOP(silu_gradient, BinaryArgs) {
    const float *restrict first = args->x1, *restrict second = args->x2;
    float *restrict target = args->y;
    int far = 0;
    _Pragma("omp simd reduction(| : far)")
    for (ptrdiff_t i = from; i < to; i++) {
        far |= second[i] < -80.0f;
        target[i] = first[i] * silu_slope(second[i]);
    }
    for (ptrdiff_t i = from; far && i < to; i++)
        if (second[i] < -80.0f)
            target[i] =
                second[i] < -210.0f ? first[i] * -0.0f : far_silu_gradient(first[i], second[i]);
}

/* As minimum of maximum. */
#define CLIP(name, T)                                                                              \
    LOOP(name, ClipArgs) {                                                                         \
        const T *restrict source = (const T *)args->x, *restrict least = (const T *)args->least;   \
        const T *restrict most = (const T *)args->most;                                            \
        T *restrict target = (T *)args->y;                                                         \
        _Pragma("omp simd")                                                                        \
        for (ptrdiff_t i = from; i < to; i++) {                                                    \
            T x = source[i], low = least[i], high = most[i];                                       \
            T y = ((x < low) | (low != low)) ? low : x;                                            \
            target[i] = ((high < y) | (high != high)) ? high : y;                                  \
        }                                                                                          \
    }
CLIP(clip, float)
CLIP(clip_wide, double)
CLIP(clip_int32, int32_t)
CLIP(clip_int64, int64_t)

LOOP(where, WhereArgs) {
    const unsigned char *restrict condition = args->condition;
    const float *restrict first = args->x1, *restrict second = args->x2;
    float *restrict target = args->y;
    float number1 = *first, number2 = *second;
    if (args->x1_is_number && args->x2_is_number) {
        _Pragma("omp simd")
        for (ptrdiff_t i = from; i < to; i++)
            target[i] = condition[i] ? number1 : number2;
    } else if (args->x1_is_number) {
        _Pragma("omp simd")
        for (ptrdiff_t i = from; i < to; i++) {
            float b = second[i];
            target[i] = condition[i] ? number1 : b;
        }
    } else if (args->x2_is_number) {
        _Pragma("omp simd")
        for (ptrdiff_t i = from; i < to; i++) {
            float a = first[i];
            target[i] = condition[i] ? a : number2;
        }
    } else {
        _Pragma("omp simd")
        for (ptrdiff_t i = from; i < to; i++) {
            float a = first[i], b = second[i];
            target[i] = condition[i] ? a : b;
        }
    }
}

#define COMPARE(name, operator)                                                                    \
    LOOP(name, CompareArgs) {                                                                      \
        const float *restrict first = args->x1, *restrict second = args->x2;                       \
        unsigned char *restrict target = args->y;                                                  \
        float number1 = *first, number2 = *second;                                                 \
        if (args->x1_is_number) {                                                                  \
            _Pragma("omp simd")                                                                    \
            for (ptrdiff_t i = from; i < to; i++)                                                  \
                target[i] = number1 operator second[i];                                            \
        } else if (args->x2_is_number) {                                                           \
            _Pragma("omp simd")                                                                    \
            for (ptrdiff_t i = from; i < to; i++)                                                  \
                target[i] = first[i] operator number2;                                             \
        } else {                                                                                   \
            _Pragma("omp simd")                                                                    \
            for (ptrdiff_t i = from; i < to; i++)                                                  \
                target[i] = first[i] operator second[i];                                           \
        }                                                                                          \
    }

COMPARE(less, <)
COMPARE(less_equal, <=)
COMPARE(greater, >)
COMPARE(greater_equal, >=)
COMPARE(equal, ==)
COMPARE(not_equal, !=)

/* Each row of an array with another row. */
#define WITH_ROW(name, expression)                                                                 \
    LOOP(name, RowArgs) {                                                                          \
        const float *restrict second = args->row;                                                  \
        ptrdiff_t width = args->width;                                                             \
        for (ptrdiff_t row = from; row < to; row++) {                                              \
            const float *restrict first = args->x + row * width;                                   \
            float *restrict target = args->y + row * width;                                        \
            _Pragma("omp simd")                                                                    \
            for (ptrdiff_t i = 0; i < width; i++) {                                                \
                float a = first[i], b = second[i];                                                 \
                target[i] = (expression);                                                          \
            }                                                                                      \
        }                                                                                          \
    }

WITH_ROW(add_row, a + b)
WITH_ROW(multiply_row, a *b)

/* Optimizers. ----------------------------------------- */

/* A term that is left out is not multiplied by 0, for 0 * inf is NaN. `decays` says whether the
 * term is there: a constant wherever this is called. */
INLINE void sgd_body(const int decays, ptrdiff_t from, ptrdiff_t to, const SgdArgs *args) {
    const float *p = args->p, *g = args->g;
    float *new_p = args->new_p;
    float rate = (float)args->rate, decay = (float)args->weight_decay;
    _Pragma("omp simd")
    for (ptrdiff_t i = from; i < to; i++)
        new_p[i] = p[i] - rate * (decays ? g[i] + decay * p[i] : g[i]);
}

LOOP(sgd, SgdArgs) {
    if (args->weight_decay != 0)
        sgd_body(1, from, to, args);
    else
        sgd_body(0, from, to, args);
}

/* With Nesterov's look ahead the step is g + momentum * v, else v. */
INLINE void momentum_body(const int decays, const int ahead, ptrdiff_t from, ptrdiff_t to,
                          const MomentumArgs *args) {
    const float *p = args->p, *g = args->g, *v = args->v;
    float *new_p = args->new_p, *new_v = args->new_v;
    float rate = (float)args->rate, decay = (float)args->weight_decay,
          momentum = (float)args->momentum;
    _Pragma("omp simd")
    for (ptrdiff_t i = from; i < to; i++) {
        float slope = decays ? g[i] + decay * p[i] : g[i];
        float velocity = momentum * v[i] + slope;
        new_v[i] = velocity;
        new_p[i] = p[i] - rate * (ahead ? slope + momentum * velocity : velocity);
    }
}

LOOP(momentum, MomentumArgs) {
    int decays = args->weight_decay != 0, ahead = args->nesterov != 0;
    if (decays && ahead)
        momentum_body(1, 1, from, to, args);
    else if (decays)
        momentum_body(1, 0, from, to, args);
    else if (ahead)
        momentum_body(0, 1, from, to, args);
    else
        momentum_body(0, 0, from, to, args);
}

INLINE void adam_body(const int decays, ptrdiff_t from, ptrdiff_t to, const AdamArgs *args) {
    const float *p = args->p, *g = args->g;
    const float *m = args->m, *v = args->v;
    float *new_p = args->new_p, *new_m = args->new_m, *new_v = args->new_v;
    float share1 = (float)args->share1, share2 = (float)args->share2, scale = (float)args->scale;
    float epsilon = (float)args->epsilon, decay = (float)args->step_decay;
    _Pragma("omp simd")
    for (ptrdiff_t i = from; i < to; i++) {
        float slope = g[i];
        float first = m[i] + share1 * (slope - m[i]);
        float second = v[i] + share2 * (slope * slope - v[i]);
        new_m[i] = first;
        new_v[i] = second;
        float change = scale * (first / (sqrtf(second) + epsilon));
        new_p[i] = p[i] - (decays ? change + decay * p[i] : change);
    }
}

LOOP(adam, AdamArgs) {
    if (args->weight_decay != 0)
        adam_body(1, from, to, args);
    else
        adam_body(0, from, to, args);
}
