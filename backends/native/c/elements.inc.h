/* What the elementwise loops compute of one element: of x, of a and b, or of a and a number b.
 *
 * Who includes this says what UNARY, BINARY and WITH_NUMBER make of an expression: a loop here, a
 * function in the C of a fused kernel, which has this text (src/pullback_native/compiled). */

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
/* -1, 0 or 1; NaN stays. */
UNARY(sign, x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : x == 0.0f ? 0.0f : x)
#define BETWEEN(least, x, most) ((x) < (least) ? (least) : (x) > (most) ? (most) : (x))
UNARY(relu6, BETWEEN(0.0f, x, 6.0f))
UNARY(hard_tanh, BETWEEN(-1.0f, x, 1.0f))
UNARY(hard_sigmoid, BETWEEN(0.0f, x + 3.0f, 6.0f) / 6.0f)
UNARY(hard_silu, (x < -3.0f ? -3.0f : x) * (BETWEEN(0.0f, x + 3.0f, 6.0f) / 6.0f))
UNARY(softsign, x / (fabsf(x) + 1.0f))
UNARY(selu, x > 0.0f ? x * 1.05070098f : expm1_32(at_most(x, 0.0f)) * 1.75809934f)

/* GELU. 2 sqrt(2 / pi), and that times 0.044715. */
#define SLOPE 1.5957691216057308f
#define CUBIC 0.07135481627362417f

INLINE float gelu_exact32(float x) {
    /* x Phi(x) = max(x, 0) - |x| (1 - Phi(|x|)), which cancels on neither side. From 38 on the tail
     * is 0, and 0 * inf would be NaN. The bound of the product has it rounded before it is taken
     * off: compilers differ there. */
    float size = at_most(fabsf(x), gelu_most);
    float tail = normal_tail(size, exp32(-0.5f * size * size));
    return (x < 0.0f ? 0.0f : x) - at_least(size * tail, tail_least);
}

INLINE float gelu_exact_slope(float x) {
    float bounded = at_most(at_least(x, gelu_least), gelu_most);
    float falling = exp32(-0.5f * bounded * bounded);
    float tail = normal_tail(fabsf(bounded), falling);
    float below = bounded < 0.0f ? tail : 1.0f - tail;
    return bounded * falling * (SLOPE * 0.25f) + below;
}

INLINE float gelu_tanh32(float x) {
    return at_least(x, far_below) * sigmoid32(x * (SLOPE + CUBIC * x * x));
}

INLINE float gelu_tanh_slope(float x) {
    float bounded = at_most(at_least(x, gelu_least), gelu_most), square = bounded * bounded;
    float s = gate32(bounded * (SLOPE + CUBIC * square));
    return s + bounded * (SLOPE + 3.0f * CUBIC * square) * s * (1.0f - s);
}

/* s + x s (1 - s), with s and 1 - s of one exponential; beyond, it is 0 or 1. As in silu32 the last
 * factor comes last. */
INLINE float silu_slope(float x) {
    float low, high, bounded = at_most(at_least(x, silu_least), silu_most);
    float e = expm1_reduced(reduced(-fabsf(bounded), &low, &high)) + 1.0f;
    float whole = e * low * high, near = 1.0f / (1.0f + whole);
    float slope = (1.0f + bounded * (x < 0.0f ? near : whole * near)) * near;
    return x < 0.0f ? slope * e * low * high : slope;
}

UNARY(gelu_exact, gelu_exact32(x))
UNARY(gelu_tanh, gelu_tanh32(x))

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

BINARY(add, a + b)
BINARY(subtract, a - b)
BINARY(multiply, a *b)
BINARY(divide, a / b)
BINARY(squared_error, (a - b) * (a - b))
BINARY(maximum, ((a < b) | (b != b)) ? b : a)
BINARY(minimum, ((b < a) | (b != b)) ? b : a)

WITH_NUMBER(add_number, a + b)
WITH_NUMBER(multiply_number, a *b)
WITH_NUMBER(divide_number, a / b)
WITH_NUMBER(subtract_from, b - a)
WITH_NUMBER(divide_from, b / a)
WITH_NUMBER(leaky_relu, a > 0.0f ? a : a * b)
WITH_NUMBER(elu, a > 0.0f ? a : expm1_32(at_most(a, 0.0f)) * b)
WITH_NUMBER(maximum_number, ((a < b) | (b != b)) ? b : a)
WITH_NUMBER(minimum_number, ((b < a) | (b != b)) ? b : a)
