/* Batch normalization, channels last: pixels of n[0] channels, n[1] of them in a piece. Four pixels
 * at a time: the sums of few channels would wait for one another. */

#define SUM_OF_CHANNELS(sums, term)                                                               \
    do {                                                                                          \
        ptrdiff_t row = from;                                                                     \
        for (; row + 4 <= to; row += 4) {                                                         \
            ptrdiff_t at = row * width;                                                           \
            _Pragma("omp simd") for (ptrdiff_t c = 0; c < width; c++)                             \
                sums[c] += (term(at + c) + term(at + width + c))                                  \
                         + (term(at + 2 * width + c) + term(at + 3 * width + c));                 \
        }                                                                                         \
        for (; row < to; row++) {                                                                 \
            ptrdiff_t at = row * width;                                                           \
            _Pragma("omp simd") for (ptrdiff_t c = 0; c < width; c++) sums[c] += term(at + c);    \
        }                                                                                         \
    } while (0)

/* x in; for each piece the means of its pixels, and the sums of their squared distances. */
LOOP(channel_moments) {
    ptrdiff_t width = job->n[0];
    const float *restrict x = job->p[0], *restrict first = x + from * width;
    float *restrict mean = piece_sums(job, 1, from, width, 2), *restrict squares = mean + width;
    /* Distances from the first pixel: sums of what is far from 0 would lose the digits that count. */
#define AWAY(i) (x[i] - first[c])
    SUM_OF_CHANNELS(mean, AWAY);
#undef AWAY
    float share = 1.0f / (float)(to - from);
    for (ptrdiff_t c = 0; c < width; c++)
        mean[c] = first[c] + mean[c] * share;
#define SQUARE(i) ((x[i] - mean[c]) * (x[i] - mean[c]))
    SUM_OF_CHANNELS(squares, SQUARE);
#undef SQUARE
}

/* x, means and g in; for each piece the sums of g and of g * (x - mean). */
LOOP(channel_slopes) {
    ptrdiff_t width = job->n[0];
    const float *restrict x = job->p[0], *restrict mean = job->p[1], *restrict g = job->p[2];
    float *restrict level = piece_sums(job, 3, from, width, 2), *restrict slope = level + width;
#define LEVEL(i) g[i]
    SUM_OF_CHANNELS(level, LEVEL);
#undef LEVEL
#define PRODUCT(i) (g[i] * (x[i] - mean[c]))
    SUM_OF_CHANNELS(slope, PRODUCT);
#undef PRODUCT
}

/* (x - mean) * factor + offset. */
LOOP(channel_affine) {
    ptrdiff_t width = job->n[0];
    const float *restrict mean = job->p[1], *restrict factor = job->p[2], *restrict offset = job->p[3];
    for (ptrdiff_t row = from; row < to; row++) {
        const float *restrict x = (const float *)job->p[0] + row * width;
        float *restrict y = (float *)job->p[4] + row * width;
        _Pragma("omp simd") for (ptrdiff_t c = 0; c < width; c++)
            y[c] = (x[c] - mean[c]) * factor[c] + offset[c];
    }
}

/* (x - mean) * by_x + g * factor + constant. */
LOOP(channel_combine) {
    ptrdiff_t width = job->n[0];
    const float *restrict mean = job->p[1], *restrict by_x = job->p[3];
    const float *restrict factor = job->p[4], *restrict constant = job->p[5];
    for (ptrdiff_t row = from; row < to; row++) {
        const float *restrict x = (const float *)job->p[0] + row * width;
        const float *restrict g = (const float *)job->p[2] + row * width;
        float *restrict dx = (float *)job->p[6] + row * width;
        _Pragma("omp simd") for (ptrdiff_t c = 0; c < width; c++)
            dx[c] = (x[c] - mean[c]) * by_x[c] + (g[c] * factor[c] + constant[c]);
    }
}
