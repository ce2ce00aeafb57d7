/* Batch normalization, channels last. Pixels of few channels are taken several at once, as one of
 * so many channels: numbers of channels are repeated. */

#define MANY_CHANNELS 64
typedef float Repeated[MANY_CHANNELS];

/* The channels of a pixel, or of several. */
INLINE ptrdiff_t channels_at_once(ptrdiff_t width) {
    return width <= MANY_CHANNELS / 2 ? MANY_CHANNELS / width * width : width;
}

INLINE const float *repeated(const float *x, ptrdiff_t width, ptrdiff_t span, float *room) {
    if (span == width)
        return x;
    for (ptrdiff_t i = 0; i < span; i++)
        room[i] = i < width ? x[i] : room[i - width];
    return room;
}

/* Four rows at a time, for sums of few numbers would wait for one another. */
#define SUM_OF_ROWS(sums, term, begin, end, size)                                                  \
    do {                                                                                           \
        ptrdiff_t at = (begin);                                                                    \
        for (; at + 4 * (size) <= (end); at += 4 * (size)) {                                       \
            _Pragma("omp simd")                                                                    \
            for (ptrdiff_t c = 0; c < (size); c++)                                                 \
                sums[c] += (term(at + c) + term(at + (size) + c))                                  \
                         + (term(at + 2 * (size) + c) + term(at + 3 * (size) + c));                \
        }                                                                                          \
        for (; at < (end); at += (size)) {                                                         \
            _Pragma("omp simd")                                                                    \
            for (ptrdiff_t c = 0; c < (size); c++)                                                 \
                sums[c] += term(at + c);                                                           \
        }                                                                                          \
    } while (0)

#define SUM_OF_CHANNELS(sums, term)                                                                \
    do {                                                                                           \
        ptrdiff_t first_at = from * width, end_at = to * width;                                    \
        if (span > width) {                                                                        \
            float all[MANY_CHANNELS] = {0};                                                        \
            ptrdiff_t whole = first_at + (end_at - first_at) / span * span;                        \
            SUM_OF_ROWS(all, term, first_at, whole, span);                                         \
            for (ptrdiff_t i = 0; i < span; i += width)                                            \
                for (ptrdiff_t c = 0; c < width; c++)                                              \
                    sums[c] += all[i + c];                                                         \
            first_at = whole;                                                                      \
        }                                                                                          \
        SUM_OF_ROWS(sums, term, first_at, end_at, width);                                          \
    } while (0)

LOOP(channel_moments, ChannelMomentsArgs) {
    ptrdiff_t width = args->width, span = channels_at_once(width);
    Repeated firsts, means;
    const float *restrict x = args->x;
    const float *first = repeated(x + from * width, width, span, firsts);
    float *restrict sums = piece_sums(args->sums, from / args->piece_rows, 2, width);
    float *restrict squares = sums + width;
    /* Distances from the first pixel: sums of numbers far from 0 would lose digits. */
#define AWAY(i) (x[i] - first[c])
    SUM_OF_CHANNELS(sums, AWAY);
#undef AWAY
    float share = 1.0f / (float)(to - from);
    for (ptrdiff_t c = 0; c < width; c++)
        sums[c] = first[c] + sums[c] * share;
    const float *mean = repeated(sums, width, span, means);
#define SQUARE(i) ((x[i] - mean[c]) * (x[i] - mean[c]))
    SUM_OF_CHANNELS(squares, SQUARE);
#undef SQUARE
}

LOOP(channel_slopes, ChannelSlopesArgs) {
    ptrdiff_t width = args->width, span = channels_at_once(width);
    Repeated means;
    const float *restrict x = args->x, *restrict g = args->g;
    const float *restrict mean = repeated(args->mean, width, span, means);
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
    ptrdiff_t width = args->width, span = channels_at_once(width);
    Repeated means, factors, offsets;
    const float *restrict mean = repeated(args->mean, width, span, means);
    const float *restrict factor = repeated(args->factor, width, span, factors);
    const float *restrict offset = repeated(args->offset, width, span, offsets);
    for (ptrdiff_t at = from * width; at < to * width; at += span) {
        const float *restrict x = args->x + at;
        float *restrict y = args->y + at;
        ptrdiff_t some = least(span, to * width - at);
        _Pragma("omp simd")
        for (ptrdiff_t c = 0; c < some; c++)
            y[c] = (x[c] - mean[c]) * factor[c] + offset[c];
    }
}

/* (x - mean) * by_x + g * factor + constant. */
LOOP(channel_combine, ChannelCombineArgs) {
    ptrdiff_t width = args->width, span = channels_at_once(width);
    Repeated means, slopes, factors, constants;
    const float *restrict mean = repeated(args->mean, width, span, means);
    const float *restrict by_x = repeated(args->by_x, width, span, slopes);
    const float *restrict factor = repeated(args->factor, width, span, factors);
    const float *restrict constant = repeated(args->constant, width, span, constants);
    for (ptrdiff_t at = from * width; at < to * width; at += span) {
        const float *restrict x = args->x + at;
        const float *restrict g = args->g + at;
        float *restrict dx = args->dx + at;
        ptrdiff_t some = least(span, to * width - at);
        _Pragma("omp simd")
        for (ptrdiff_t c = 0; c < some; c++)
            dx[c] = (x[c] - mean[c]) * by_x[c] + (g[c] * factor[c] + constant[c]);
    }
}

/* A piece is widened to memory that stays in the cache. */
LOOP(channel_halves, ChannelHalvesArgs) {
    const ptrdiff_t skipped = from * args->width, count = (to - from) * args->width;
    float *x = room_for(3 * count), *g = x + count, *y = g + count;
    if (!x) {
        set_status(args->status, NO_MEMORY);
        return;
    }
    for (int i = 0; i < (args->g ? 2 : 1); i++) {
        const uint16_t *source = (i ? args->g : args->x) + skipped;
        if (args->is_bfloat16)
            widen_row(source, count, i ? g : x);
        else
            widen_halves(source, count, i ? g : x);
    }
    ChannelHalvesArgs wide = *args;
    switch (args->loop) {
    case LOOP_channel_moments:
        wide.part.moments.x = x - skipped;
        break;
    case LOOP_channel_slopes:
        wide.part.slopes.x = x - skipped, wide.part.slopes.g = g - skipped;
        break;
    case LOOP_channel_affine:
        wide.part.affine.x = x - skipped, wide.part.affine.y = y - skipped;
        break;
    default:
        wide.part.combine.x = x - skipped, wide.part.combine.g = g - skipped;
        wide.part.combine.dx = y - skipped;
    }
    TABLE[args->loop](from, to, &wide.part);
    if (args->y && args->is_bfloat16)
        narrow_sums(y, NULL, count, args->y + skipped);
    else if (args->y)
        narrow_halves(y, count, args->y + skipped);
    free(x);
}
