/* Products of a few rows by a matrix b that has rows in memory: b is read once, in place, at the
 * speed of memory. The sums stay in the caches, and a few rows of b stream by at once. b holds
 * float32, or bfloat16, which is widened as it is read. */

/* How many rows of b are read at once: that many streams of memory. */
#define STREAMS 8
typedef uint16_t Halves __attribute__((vector_size(2 * WIDTH), aligned(2), may_alias));
typedef uint32_t Bits __attribute__((vector_size(4 * WIDTH)));

INLINE float widened(Bfloat16 x) { return as_float((int32_t)((uint32_t)x << 16)); }

INLINE Vec widened_vector(const Bfloat16 *x) {
    return (Vec)(__builtin_convertvector(*(const Halves *)x, Bits) << 16);
}

/* sums += a @ b for `streams` rows of b, `vectors` vectors at once; a is (streams, rows). */
INLINE void add_streams(const int rows, const int vectors, const int streams, const int narrow,
                        const float *a, const void *b, ptrdiff_t step_b, ptrdiff_t columns,
                        float *sums) {
    const Bfloat16 *narrow_b = b;
    const float *wide_b = b;
    ptrdiff_t j = 0;
    for (; j + vectors * WIDTH <= columns; j += vectors * WIDTH) {
        Vec sum[MOST_FEW][2];
        _Pragma("GCC unroll 8")
        for (int i = 0; i < rows; i++)
            for (int v = 0; v < vectors; v++)
                sum[i][v] = *(const Vec *)(sums + i * columns + j + v * WIDTH);
        _Pragma("GCC unroll 8")
        for (int k = 0; k < streams; k++)
            for (int v = 0; v < vectors; v++) {
                ptrdiff_t at = k * step_b + j + v * WIDTH;
                Vec right = narrow ? widened_vector(narrow_b + at) : *(const Vec *)(wide_b + at);
                _Pragma("GCC unroll 8")
                for (int i = 0; i < rows; i++)
                    sum[i][v] += a[k * rows + i] * right;
            }
        _Pragma("GCC unroll 8")
        for (int i = 0; i < rows; i++)
            for (int v = 0; v < vectors; v++)
                *(Vec *)(sums + i * columns + j + v * WIDTH) = sum[i][v];
    }
    for (; j < columns; j++)
        for (int i = 0; i < rows; i++)
            for (int k = 0; k < streams; k++) {
                ptrdiff_t at = k * step_b + j;
                sums[i * columns + j] +=
                    a[k * rows + i] * (narrow ? widened(narrow_b[at]) : wide_b[at]);
            }
}

/* sums += a @ b for `inner` rows of b; a is (inner, rows). */
INLINE void add_products(const int rows, const int narrow, const float *a, const void *b,
                         ptrdiff_t step_b, ptrdiff_t inner, ptrdiff_t columns, float *sums) {
    /* As many sums as there are registers for. */
    const int vectors = WIDTH == 16 || rows <= 4 ? 2 : 1;
    const ptrdiff_t next = step_b * (ptrdiff_t)(narrow ? sizeof(Bfloat16) : sizeof(float));
    const char *row = b;
    ptrdiff_t k = 0;
    for (; k + STREAMS <= inner; k += STREAMS, row += STREAMS * next)
        add_streams(rows, vectors, STREAMS, narrow, a + k * rows, row, step_b, columns, sums);
    for (; k < inner; k++, row += next)
        add_streams(rows, vectors, 1, narrow, a + k * rows, row, step_b, columns, sums);
}
