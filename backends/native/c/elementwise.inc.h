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

/* A sigmoid is 0 here; a bound, since 0 * inf is NaN. */
#define FAR_BELOW (-1000.0f)

UNARY(exp, exp32(x))
UNARY(expm1, expm1_32(x))
UNARY(tanh, tanh32(x))
UNARY(sigmoid, sigmoid32(x))
UNARY(silu, silu32(x))
UNARY(softplus, (x < 0.0f ? 0.0f : x) + log1p_unit(exp32(-fabsf(x))))
UNARY(log_sigmoid, -((x < 0.0f ? -x : 0.0f) + log1p_unit(exp32(-fabsf(x)))))
UNARY(relu, x <= 0.0f ? 0.0f : x)
UNARY(negative, -x)
UNARY(abs, fabsf(x))
UNARY(square, x *x)
UNARY(sqrt, sqrtf(x))

/* GELU. 2 sqrt(2 / pi), and that times 0.044715. */
#define SLOPE 1.5957691216057308f
#define CUBIC 0.07135481627362417f

INLINE float gelu_exact32(float x) {
    /* x Phi(x) = max(x, 0) - |x| (1 - Phi(|x|)), which cancels on neither side. From 38 on the tail
     * is 0, and 0 * inf would be NaN. */
    float size = at_most(fabsf(x), 100.0f);
    float tail = normal_tail(size, exp32(-0.5f * size * size));
    return (x < 0.0f ? 0.0f : x) - size * tail;
}

INLINE float gelu_exact_slope(float x) {
    float bounded = at_most(at_least(x, -100.0f), 100.0f);
    float falling = exp32_falling(-0.5f * bounded * bounded);
    float tail = normal_tail(fabsf(bounded), falling);
    float below = bounded < 0.0f ? tail : 1.0f - tail;
    return bounded * falling * (SLOPE * 0.25f) + below;
}

INLINE float gelu_tanh32(float x) {
    return at_least(x, FAR_BELOW) * sigmoid32(x * (SLOPE + CUBIC * x * x));
}

INLINE float gelu_tanh_slope(float x) {
    float bounded = at_most(at_least(x, -100.0f), 100.0f), square = bounded * bounded;
    float s = gate32(bounded * (SLOPE + CUBIC * square));
    return s + bounded * (SLOPE + 3.0f * CUBIC * square) * s * (1.0f - s);
}

/* s + x s (1 - s), with s and 1 - s of one exponential; beyond, it is 0 or 1. As in silu32 the last
 * factor comes last. */
INLINE float silu_slope(float x) {
    float low, high, bounded = at_most(at_least(x, -120.0f), 120.0f);
    float e = expm1_reduced(reduced(-fabsf(bounded), &low, &high)) + 1.0f;
    float whole = e * low * high, near = 1.0f / (1.0f + whole);
    float slope = (1.0f + bounded * (x < 0.0f ? near : whole * near)) * near;
    return x < 0.0f ? slope * e * low * high : slope;
}

UNARY(gelu_exact, gelu_exact32(x))
UNARY(gelu_tanh, gelu_tanh32(x))

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

BINARY(gelu_exact_gradient, a *gelu_exact_slope(b))
BINARY(gelu_tanh_gradient, a *gelu_tanh_slope(b))
BINARY(relu_gradient, b > 0.0f ? a : 0.0f)
BINARY(tanh_gradient, a * ((1.0f - b) * (1.0f + b)))
BINARY(sigmoid_gradient, a *(b * (1.0f - b)))

/* Below -80 the slope is subnormal and has lost digits, which a large a would show. There it is
 * (1 + x) exp(x / 2)^2, multiplied in double. */
INLINE float far_silu_gradient(float a, float x) {
    float low, high, e = expm1_reduced(reduced(0.5f * x, &low, &high)) + 1.0f;
    double half = (double)e * low * high;
    return (float)((double)a * half * (1.0 + x) * half);
}

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

BINARY(add, a + b)
BINARY(subtract, a - b)
BINARY(multiply, a *b)
BINARY(divide, a / b)
BINARY(maximum, ((a < b) | (b != b)) ? b : a)
BINARY(minimum, ((b < a) | (b != b)) ? b : a)

/* With a number. */
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

WITH_NUMBER(add_number, a + b)
WITH_NUMBER(multiply_number, a *b)
WITH_NUMBER(divide_number, a / b)
WITH_NUMBER(subtract_from, b - a)
WITH_NUMBER(divide_from, b / a)
WITH_NUMBER(leaky_relu, a > 0.0f ? a : a * b)
WITH_NUMBER(elu, a > 0.0f ? a : expm1_32(at_most(a, 0.0f)) * b)
WITH_NUMBER(maximum_number, ((a < b) | (b != b)) ? b : a)
WITH_NUMBER(minimum_number, ((b < a) | (b != b)) ? b : a)

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
