/* Batch normalization, channels last: four pixels at a time, for the sums of few
 * channels would wait for one another. */

#define SUM_OF_CHANNELS(sums, term)                                                                \
    do {                                                                                           \
        ptrdiff_t row = from;                                                                      \
        for (; row + 4 <= to; row += 4) {                                                          \
            ptrdiff_t at = row * width;                                                            \
            _Pragma("omp simd")                                                                    \
            for (ptrdiff_t c = 0; c < width; c++)                                                  \
                sums[c] += (term(at + c) + term(at + width + c))                                   \
                         + (term(at + 2 * width + c) + term(at + 3 * width + c));                  \
        }                                                                                          \
        for (; row < to; row++) {                                                                  \
            ptrdiff_t at = row * width;                                                            \
            _Pragma("omp simd")                                                                    \
            for (ptrdiff_t c = 0; c < width; c++)                                                  \
                sums[c] += term(at + c);                                                           \
        }                                                                                          \
    } while (0)

LOOP(channel_moments, ChannelMomentsArgs) {
    ptrdiff_t width = args->width;
    const float *restrict x = args->x, *restrict first = x + from * width;
    float *restrict mean = piece_sums(args->sums, from / args->piece_rows, 2, width);
    float *restrict squares = mean + width;
    /* Distances from the first pixel: sums of numbers far from 0 would lose digits. */
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

LOOP(channel_slopes, ChannelSlopesArgs) {
    ptrdiff_t width = args->width;
    const float *restrict x = args->x, *restrict mean = args->mean, *restrict g = args->g;
    float *restrict level = piece_sums(args->sums, from / args->piece_rows, 2, width);
    float *restrict slope = level + width;
#define LEVEL(i) g[i]
    SUM_OF_CHANNELS(level, LEVEL);
#undef LEVEL
#define PRODUCT(i) (g[i] * (x[i] - mean[c]))
    SUM_OF_CHANNELS(slope, PRODUCT);
#undef PRODUCT
}

/* (x - mean) * factor + offset. */
LOOP(channel_affine, ChannelAffineArgs) {
    ptrdiff_t width = args->width;
    const float *restrict mean = args->mean, *restrict factor = args->factor;
    const float *restrict offset = args->offset;
    for (ptrdiff_t row = from; row < to; row++) {
        const float *restrict x = args->x + row * width;
        float *restrict y = args->y + row * width;
        _Pragma("omp simd")
        for (ptrdiff_t c = 0; c < width; c++)
            y[c] = (x[c] - mean[c]) * factor[c] + offset[c];
    }
}

/* (x - mean) * by_x + g * factor + constant. */
LOOP(channel_combine, ChannelCombineArgs) {
    ptrdiff_t width = args->width;
    const float *restrict mean = args->mean, *restrict by_x = args->by_x;
    const float *restrict factor = args->factor, *restrict constant = args->constant;
    for (ptrdiff_t row = from; row < to; row++) {
        const float *restrict x = args->x + row * width;
        const float *restrict g = args->g + row * width;
        float *restrict dx = args->dx + row * width;
        _Pragma("omp simd")
        for (ptrdiff_t c = 0; c < width; c++)
            dx[c] = (x[c] - mean[c]) * by_x[c] + (g[c] * factor[c] + constant[c]);
    }
}
