/* 16-bit floats as float32. */
#ifdef __F16C__
#include <immintrin.h>
#endif

/* float16 as the instructions of F16C convert it: NaN becomes quiet, and keeps its first bits. */
INLINE float widened_half(uint16_t half) {
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, size = (uint32_t)(half & 0x7fff) << 13;
    /* The exponent of float32 is 112 higher; the product has subnormal numbers right too. */
    uint32_t bits = (uint32_t)as_bits(as_float((int32_t)size) * 0x1p112f);
    uint32_t quiet = size > 0x0f800000 ? 0x7fc00000 : 0x7f800000;
    return as_float((int32_t)(sign | (size >= 0x0f800000 ? size | quiet : bits)));
}

INLINE void widen_halves(const uint16_t *restrict x, ptrdiff_t count, float *restrict y) {
    ptrdiff_t i = 0;
#ifdef __AVX512F__
    for (; i + 16 <= count; i += 16)
        _mm512_storeu_ps(y + i, _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(x + i))));
#endif
#ifdef __F16C__
    for (; i + 8 <= count; i += 8)
        _mm256_storeu_ps(y + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(x + i))));
#endif
    _Pragma("omp simd")
    for (ptrdiff_t j = i; j < count; j++)
        y[j] = widened_half(x[j]);
}
