/* Functions of math32.h where their results are normal numbers: the same bits by fewer operations.
 * They set `far` where they are not, and for NaN. Fused kernels are compiled with them. */
#ifndef PULLBACK_NEAR32_H
#define PULLBACK_NEAR32_H

#include "math32.h"

/* exp32 for x from -86 to 88: a power of 2 is added to the exponent. */
INLINE float exp32_inside(float x) {
    const float shifter = 0x1.8p23f;
    float shifted = x * 0x1.715476p+0f + shifter;
    float rounded = shifted - shifter;
    float r = x - rounded * 0x1.62e4p-1f;
    r = r - rounded * 0x1.7f7d1cp-20f;
    uint32_t e = (uint32_t)as_bits(expm1_reduced(r) + 1.0f);
    return as_float((int32_t)(e + ((uint32_t)as_bits(shifted) << 23)));
}

INLINE float exp32_near(float x, int *far) {
    *far |= !(x >= -86.0f) | !(x <= 88.0f);
    return exp32_inside(x);
}

INLINE float sigmoid32_near(float x, int *far) {
    float size = -fabsf(x);
    *far |= !(size >= -86.0f);
    float e = exp32_inside(size);
    return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}

#endif
