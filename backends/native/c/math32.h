/* Elementary functions of one float without a branch, so that loops over them become vectors.
 *
 * Each is within 2 ulp over all floats, subnormal results included; infinities and NaN propagate.
 * The compiler may contract a * b + c, and may not reorder anything. */
#ifndef PULLBACK_MATH32_H
#define PULLBACK_MATH32_H

#include <math.h>
#include <stdint.h>

#define INLINE static inline __attribute__((always_inline))

INLINE float as_float(int32_t bits) {
    float x;
    __builtin_memcpy(&x, &bits, 4);
    return x;
}

INLINE int32_t as_bits(float x) {
    int32_t bits;
    __builtin_memcpy(&bits, &x, 4);
    return bits;
}

/* 2^n for n from -126 to 127, and any float for the n of NaN: shifted as an unsigned number, for
 * shifting a sign is undefined. */
INLINE float two_to(int32_t n) { return as_float((int32_t)((uint32_t)(n + 127) << 23)); }

/* Numbers between which a function is computed. They are variables whose values the compiler does
 * not see (bounds.c): GCC makes one instruction of a minimum or maximum with a variable, and two,
 * of which one is slow, of that with a constant. */
#ifndef BOUND
#define BOUND(name, value) extern const float name;
#endif
BOUND(exp_least, -105.0f)
BOUND(exp_most, 89.5f)
BOUND(falling_least, -87.0f)
BOUND(gate_least, -89.0f)
BOUND(gate_most, 87.0f)
BOUND(expm1_least, -20.0f)
BOUND(expm1_most, 88.8f)
BOUND(tanh_most, 20.0f)
BOUND(silu_least, -120.0f)
BOUND(silu_most, 120.0f)
BOUND(gelu_least, -100.0f)
BOUND(gelu_most, 100.0f)
BOUND(tail_least, 0.0f)
/* A sigmoid is 0 here; a bound, since 0 * inf is NaN. */
BOUND(far_below, -1000.0f)

/* x, or `least` if x is less; NaN stays. */
INLINE float at_least(float x, float least) { return x < least ? least : x; }
INLINE float at_most(float x, float most) { return x > most ? most : x; }

/* x = n ln 2 + r with |r| <= ln 2 / 2: returns r, and 2^n as the two factors low and high, since
 * 2^n alone may be out of range where its product with exp(r) is not. Adding 1.5 * 2^23 rounds to
 * an integer, which stands in the last bits. */
INLINE float reduced(float x, float *low, float *high) {
    const float shifter = 0x1.8p23f;
    float shifted = x * 0x1.715476p+0f + shifter;
    int32_t n = as_bits(shifted) - as_bits(shifter);
    float rounded = shifted - shifter;
    float r = x - rounded * 0x1.62e4p-1f;
    r = r - rounded * 0x1.7f7d1cp-20f;
    int32_t half = n >> 1;
    *low = two_to(half);
    *high = two_to(n - half);
    return r;
}

/* exp(r) - 1 for |r| <= ln 2 / 2: r + r^2 P(r), P fitted to least relative error of the whole. */
INLINE float expm1_reduced(float r) {
    float p = 0x1.a1716cp-13f;
    p = p * r + 0x1.6d753ep-10f;
    p = p * r + 0x1.1110bp-7f;
    p = p * r + 0x1.5554acp-5f;
    p = p * r + 0x1.555556p-3f;
    p = p * r + 0.5f;
    return r + (r * r) * p;
}

INLINE float exp32(float x) {
    float low, high;
    x = at_most(at_least(x, exp_least), exp_most);
    float r = reduced(x, &low, &high);
    /* 0 by a factor of 0: processors take a hundred times as long for a product that underflows. */
    return (expm1_reduced(r) + 1.0f) * low * (x <= exp_least ? 0.0f : high);
}

/* exp(x) for x <= 0, where results below 2^-126 may be 0: one factor fewer. */
INLINE float exp32_falling(float x) {
    const float shifter = 0x1.8p23f;
    float bounded = at_least(x, falling_least);
    float shifted = bounded * 0x1.715476p+0f + shifter;
    float rounded = shifted - shifter;
    float r = bounded - rounded * 0x1.62e4p-1f;
    r = r - rounded * 0x1.7f7d1cp-20f;
    float scale = two_to(as_bits(shifted) - as_bits(shifter));
    float e = (expm1_reduced(r) + 1.0f) * scale;
    return x < -87.0f ? 0.0f : e;
}

/* exp(x) - 1, of halves: 2^n alone may be out of range where its product with exp(r) is not. */
INLINE float expm1_32(float x) {
    const float shifter = 0x1.8p23f;
    float y = at_most(at_least(x, expm1_least), expm1_most);
    float shifted = y * 0x1.715476p+0f + shifter;
    float rounded = shifted - shifter;
    float r = y - rounded * 0x1.62e4p-1f;
    r = r - rounded * 0x1.7f7d1cp-20f;
    float half = two_to(as_bits(shifted) - as_bits(shifter) - 1);
    return copysignf(2.0f * (expm1_reduced(r) * half + (half - 0.5f)), x);
}

/* tanh(|x|) = e / (e + 2) with e = exp(2 |x|) - 1, which cancels nowhere. */
INLINE float tanh32(float x) {
    const float shifter = 0x1.8p23f;
    float y = at_most(fabsf(x) * 2.0f, tanh_most);
    float shifted = y * 0x1.715476p+0f + shifter;
    float rounded = shifted - shifter;
    float r = y - rounded * 0x1.62e4p-1f;
    r = r - rounded * 0x1.7f7d1cp-20f;
    float scale = two_to(as_bits(shifted) - as_bits(shifter));
    float e = expm1_reduced(r) * scale + (scale - 1.0f);
    return copysignf(e / (e + 2.0f), x);
}

/* 1 / (1 + exp(-x)), with all digits where that is small. */
INLINE float sigmoid32(float x) {
    float e = exp32(-fabsf(x));
    return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}

/* x / (1 + exp(-x)). Far below 0 exp(x) has few digits left before x makes it larger, so the last
 * factor comes last. */
INLINE float silu32(float x) {
    float low, high, size = at_most(fabsf(x), silu_most);
    float e = expm1_reduced(reduced(-size, &low, &high)) + 1.0f;
    float y = (x < 0.0f ? at_least(x, silu_least) * e * low : x) / (1.0f + e * low * high);
    return x < 0.0f ? y * high : y;
}

/* sigmoid32 with an absolute error of 2^-23: for gates, and as a factor. exp(-x) is infinite where
 * the result is below 2^-127, which becomes 0. */
INLINE float gate32(float x) {
    const float shifter = 0x1.8p23f;
    float bounded = at_most(at_least(x, gate_least), gate_most);
    float shifted = bounded * -0x1.715476p+0f + shifter;
    float rounded = shifted - shifter;
    float r = -bounded - rounded * 0x1.62e4p-1f;
    r = r - rounded * 0x1.7f7d1cp-20f;
    float scale = two_to(as_bits(shifted) - as_bits(shifter));
    return 1.0f / ((expm1_reduced(r) + 1.0f) * scale + 1.0f);
}

/* f - f^2 / 2 + ... = log(1 + f) for f from sqrt(1/2) - 1 to sqrt(2) - 1: what comes behind f. The
 * polynomial is Cephes' logf. */
INLINE float log1p_rest(float f) {
    float p = 7.0376836292e-2f;
    p = p * f - 1.1514610310e-1f;
    p = p * f + 1.1676998740e-1f;
    p = p * f - 1.2420140846e-1f;
    p = p * f + 1.4249322787e-1f;
    p = p * f - 1.6668057665e-1f;
    p = p * f + 2.0000714765e-1f;
    p = p * f - 2.4999993993e-1f;
    p = p * f + 3.3333331174e-1f;
    float square = f * f;
    return p * f * square - 0.5f * square;
}

/* -log(t) for normal t from 0 to 1. */
INLINE float minus_log32(float t) {
    int32_t above = as_bits(t) - 0x3f3504f3; /* the bits of the root of 1/2 */
    float f = as_float((above & 0x7fffff) + 0x3f3504f3) - 1.0f, n = (float)(above >> 23);
    return n * -0.693147182f - (f + log1p_rest(f));
}

/* log(1 + e) for 0 <= e <= 1: of (1 + e) / 2 and log 2 where that is nearer to 1. */
INLINE float log1p_unit(float e) {
    int far = e > 0.41421356f;
    float f = far ? (e - 1.0f) * 0.5f : e;
    float rest = log1p_rest(f);
    return far ? (f + (rest - 2.12194440e-4f)) + 0.693359375f : f + rest;
}

/* 0.5 erfc(|x| / sqrt 2), the probability of a normal number above |x|, given exp(-x^2 / 2):
 * falling t Q(t) with t = 1 / (1 + 0.4 |x| / sqrt 2), Q fitted to least relative error (6e-9). */
INLINE float normal_tail(float size, float falling) {
    float t = 1.0f / (size * 0.2828427125f + 1.0f);
    float q = -0.02921498224f;
    q = q * t + 0.1404460232f;
    q = q * t - 0.2355257377f;
    q = q * t + 0.137559563f;
    q = q * t - 0.04689380554f;
    q = q * t + 0.0839157727f;
    q = q * t + 0.119008479f;
    q = q * t + 0.1717392548f;
    q = q * t + 0.2076137318f;
    q = q * t + 0.22567586f;
    q = q * t + 0.2256758348f;
    return q * t * falling * 0.5f;
}

#endif
