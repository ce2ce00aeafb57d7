/* The BLAS that NumPy was linked with, found at run time: GEMM is not written a second time. */
#ifndef PULLBACK_BLAS_H
#define PULLBACK_BLAS_H

#include <stddef.h>
#include <stdint.h>

enum { ROW_MAJOR = 101, PLAIN = 111, TURNED = 112 };

/* With integers of 64 bits (OpenBLAS's ILP64 builds), or of 32. */
typedef void (*Gemm64)(int, int, int, int64_t, int64_t, int64_t, float, const float *, int64_t,
                       const float *, int64_t, float, float *, int64_t);
typedef void (*Gemm32)(int, int, int, int, int, int, float, const float *, int, const float *, int,
                       float, float *, int);

typedef void (*Gemv64)(int, int, int64_t, int64_t, float, const float *, int64_t, const float *,
                       int64_t, float, float *, int64_t);
typedef void (*Gemv32)(int, int, int, int, float, const float *, int, const float *, int, float,
                       float *, int);

extern Gemm64 gemm64;
extern Gemm32 gemm32;
extern Gemv64 gemv64;
extern Gemv32 gemv32;

/* c = beta * c + a @ b of row-major matrices, (rows, inner) and (inner, columns), which are stored
 * transposed where that is said. */
static inline void gemm(int turn_a, int turn_b, ptrdiff_t rows, ptrdiff_t columns, ptrdiff_t inner,
                        const float *a, ptrdiff_t step_a, const float *b, ptrdiff_t step_b,
                        float beta, float *c, ptrdiff_t step_c) {
    if (gemm64)
        gemm64(ROW_MAJOR, turn_a ? TURNED : PLAIN, turn_b ? TURNED : PLAIN, rows, columns, inner,
               1.0f, a, step_a, b, step_b, beta, c, step_c);
    else
        gemm32(ROW_MAJOR, turn_a ? TURNED : PLAIN, turn_b ? TURNED : PLAIN, (int)rows, (int)columns,
               (int)inner, 1.0f, a, (int)step_a, b, (int)step_b, beta, c, (int)step_c);
}

/* y = beta * y + x @ a, or x @ a.T where `turn`, for a of (rows, columns). */
static inline void gemv(int turn, ptrdiff_t rows, ptrdiff_t columns, const float *a, const float *x,
                        float beta, float *y) {
    int how = turn ? PLAIN : TURNED;
    if (gemv64)
        gemv64(ROW_MAJOR, how, rows, columns, 1.0f, a, columns, x, 1, beta, y, 1);
    else
        gemv32(ROW_MAJOR, how, (int)rows, (int)columns, 1.0f, a, (int)columns, x, 1, beta, y, 1);
}

#endif
