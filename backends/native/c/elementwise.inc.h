/* Elementwise loops over contiguous arrays. */

#define UNARY(name, expression)                                                                    \
    LOOP(name, UnaryArgs) {                                                                        \
        const float *restrict source = args->x;                                                    \
        float *restrict target = args->y;                                                          \
        _Pragma("omp simd")                                                                        \
        for (ptrdiff_t i = from; i < to; i++) {                                                    \
            float x = source[i];                                                                   \
            target[i] = (expression);                                                              \
        }                                                                                          \
    }

#define BINARY(name, expression)                                                                   \
    LOOP(name, BinaryArgs) {                                                                       \
        const float *restrict first = args->x1, *restrict second = args->x2;                       \
        float *restrict target = args->y;                                                          \
        _Pragma("omp simd")                                                                        \
        for (ptrdiff_t i = from; i < to; i++) {                                                    \
            float a = first[i], b = second[i];                                                     \
            target[i] = (expression);                                                              \
        }                                                                                          \
    }

#define WITH_NUMBER(name, expression)                                                              \
    LOOP(name, NumberArgs) {                                                                       \
        const float *restrict source = args->x;                                                    \
        float *restrict target = args->y;                                                          \
        float b = (float)args->number;                                                             \
        _Pragma("omp simd")                                                                        \
        for (ptrdiff_t i = from; i < to; i++) {                                                    \
            float a = source[i];                                                                   \
            target[i] = (expression);                                                              \
        }                                                                                          \
    }

#include "elements.inc.h"

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
