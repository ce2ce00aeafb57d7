/* One number of each row: variances, deviations, and logarithms of sums of exponentials. Sums are
 * taken in double, and in groups, so that an error does not grow with the row. */

#define SUMMED 512

/* The sum of an expression of x over a row. */
#define ROW_TOTAL(T, total, row, width, expression)                                                \
    for (ptrdiff_t begin = 0; begin < (width); begin += SUMMED) {                                  \
        ptrdiff_t some = (width) - begin < SUMMED ? (width) - begin : SUMMED;                      \
        const T *restrict part = (row) + begin;                                                    \
        double group = 0.0;                                                                        \
        _Pragma("omp simd reduction(+ : group)")                                                   \
        for (ptrdiff_t i = 0; i < some; i++) {                                                     \
            T x = part[i];                                                                         \
            group += (double)(expression);                                                         \
        }                                                                                          \
        (total) += group;                                                                          \
    }

#define VARIANCE(type, T)                                                                          \
    LOOP(variance_##type, RowwiseArgs) {                                                           \
        ptrdiff_t width = args->width;                                                             \
        for (ptrdiff_t row = from; row < to; row++) {                                              \
            const T *at = (const T *)args->x + row * width;                                        \
            double mean = 0.0, squares = 0.0, rest = 0.0;                                          \
            ROW_TOTAL(T, mean, at, width, x)                                                       \
            mean /= (double)width;                                                                 \
            ROW_TOTAL(T, squares, at, width, ((double)x - mean) * ((double)x - mean))              \
            /* The rounding of the mean may be large compared with the differences. */             \
            ROW_TOTAL(T, rest, at, width, (double)x - mean)                                        \
            squares -= rest / (double)width * rest;                                                \
            double variance = (squares < 0.0 ? 0.0 : squares) / args->left;                        \
            ((T *)args->y)[row] = (T)(args->root ? sqrt(variance) : variance);                     \
        }                                                                                          \
    }
VARIANCE(float32, float)
VARIANCE(float64, double)

#define LOGSUMEXP(type, T, EXP)                                                                    \
    LOOP(logsumexp_##type, RowwiseArgs) {                                                          \
        ptrdiff_t width = args->width;                                                             \
        for (ptrdiff_t row = from; row < to; row++) {                                              \
            const T *at = (const T *)args->x + row * width;                                        \
            T most = at[0];                                                                        \
            _Pragma("omp simd reduction(max : most)")                                              \
            for (ptrdiff_t i = 0; i < width; i++)                                                  \
                most = at[i] > most ? at[i] : most;                                                \
            /* An infinite maximum is the result: it is not subtracted, for inf - inf is NaN. */   \
            most = most - most == (T)0 ? most : (T)0;                                              \
            double total = 0.0;                                                                    \
            ROW_TOTAL(T, total, at, width, EXP(x - most))                                          \
            ((T *)args->y)[row] = (T)(log64(total) + (double)most);                                \
        }                                                                                          \
    }
LOGSUMEXP(float32, float, exp32)
LOGSUMEXP(float64, double, exp64)

/* Few channels are taken for several pixels at once, as lanes of a row of so many at least. */
#define FEWEST_LANES 64

/* Lanes of items of so many pixels: a multiple of the channels. */
static inline ptrdiff_t lanes_of(ptrdiff_t pixels, ptrdiff_t channels) {
    ptrdiff_t side = (FEWEST_LANES + channels - 1) / channels;
    return (side < pixels ? side : pixels) * channels;
}

/* Stores the total of each group, over `elements`, in all lanes of its channels; and the total of
 * each channel where `each` is not NULL. */
static void total_groups(double *sums, ptrdiff_t lanes, ptrdiff_t channels, ptrdiff_t width,
                         double elements, double *each) {
    for (ptrdiff_t at = channels; at < lanes; at += channels)
        for (ptrdiff_t c = 0; c < channels; c++)
            sums[c] += sums[at + c];
    for (ptrdiff_t c = 0; each && c < channels; c++)
        each[c] = sums[c];
    for (ptrdiff_t c = 0; c < channels; c += width) {
        double total = 0.0;
        for (ptrdiff_t i = 0; i < width; i++)
            total += sums[c + i];
        for (ptrdiff_t i = 0; i < width; i++)
            sums[c + i] = total / elements;
    }
    for (ptrdiff_t c = channels; c < lanes; c++)
        sums[c] = sums[c - channels];
}

/* Something for each element of an item: lane c of those that begin at `at`. */
#define EACH_LANE(statement)                                                                       \
    for (ptrdiff_t at = 0; at < elements; at += lanes) {                                           \
        const ptrdiff_t many = elements - at < lanes ? elements - at : lanes;                      \
        _Pragma("omp simd")                                                                        \
        for (ptrdiff_t c = 0; c < many; c++) {                                                     \
            statement;                                                                             \
        }                                                                                          \
    }

/* Groups of channels: the sums of each channel, and from them those of its group. The means of the
 * groups, and 1 / their deviations, for each lane. */
#define GROUP_NORM(type, T, ROOT)                                                                  \
    static void group_moments_##type(const T *restrict x, ptrdiff_t elements, ptrdiff_t lanes,     \
                                     ptrdiff_t channels, ptrdiff_t width, double epsilon,          \
                                     T *restrict means, T *restrict spreads) {                     \
        double sums[MOST_CHANNELS], some = (double)(elements / channels * width);                  \
        for (ptrdiff_t c = 0; c < lanes; c++)                                                      \
            sums[c] = 0.0;                                                                         \
        EACH_LANE(sums[c] += (double)x[at + c])                                                    \
        total_groups(sums, lanes, channels, width, some, NULL);                                    \
        for (ptrdiff_t c = 0; c < lanes; c++)                                                      \
            means[c] = (T)sums[c], sums[c] = 0.0;                                                  \
        EACH_LANE(T away = x[at + c] - means[c]; sums[c] += (double)away * (double)away)           \
        total_groups(sums, lanes, channels, width, some, NULL);                                    \
        for (ptrdiff_t c = 0; c < lanes; c++)                                                      \
            spreads[c] = (T)1 / ROOT((T)sums[c] + (T)epsilon);                                     \
    }                                                                                              \
    LOOP(group_norm_##type, GroupNormArgs) {                                                       \
        const ptrdiff_t channels = args->channels, elements = args->pixels * channels;             \
        const ptrdiff_t lanes = lanes_of(args->pixels, channels);                                  \
        const T *scale = args->scale, *offset = args->offset;                                      \
        T means[MOST_CHANNELS], factors[MOST_CHANNELS], summands[MOST_CHANNELS];                   \
        for (ptrdiff_t item = from; item < to; item++) {                                           \
            const T *restrict x = (const T *)args->x + item * elements;                            \
            T *restrict y = (T *)args->y + item * elements;                                        \
            group_moments_##type(x, elements, lanes, channels, channels / args->groups,            \
                                 args->epsilon, means, factors);                                   \
            for (ptrdiff_t c = 0; c < lanes; c++) {                                                \
                factors[c] = c >= channels ? factors[c - channels]                                 \
                           : scale         ? factors[c] * scale[c]                                 \
                                           : factors[c];                                           \
                summands[c] = c >= channels ? summands[c - channels] : offset ? offset[c] : (T)0;  \
            }                                                                                      \
            EACH_LANE(y[at + c] = (x[at + c] - means[c]) * factors[c] + summands[c])               \
        }                                                                                          \
    }                                                                                              \
    /* dx = (h - mean(h) - y * mean(h * y)) / deviation, where h is g * scale and y normalized. */ \
    LOOP(group_norm_gradient_##type, GroupNormGradientArgs) {                                      \
        const ptrdiff_t channels = args->channels, elements = args->pixels * channels;             \
        const ptrdiff_t lanes = lanes_of(args->pixels, channels), width = channels / args->groups; \
        const T *scale = args->scale;                                                              \
        double levels[MOST_CHANNELS], slopes[MOST_CHANNELS];                                       \
        const double some = (double)(args->pixels * width);                                        \
        T means[MOST_CHANNELS], spreads[MOST_CHANNELS], factors[MOST_CHANNELS];                    \
        T falls[MOST_CHANNELS], shifts[MOST_CHANNELS];                                             \
        for (ptrdiff_t item = from; item < to; item++) {                                           \
            const T *restrict x = (const T *)args->x + item * elements;                            \
            const T *restrict g = (const T *)args->g + item * elements;                            \
            T *restrict dx = (T *)args->dx + item * elements;                                      \
            double *sums = args->sums + 2 * item * channels;                                       \
            group_moments_##type(x, elements, lanes, channels, width, args->epsilon, means,        \
                                 spreads);                                                         \
            for (ptrdiff_t c = 0; c < lanes; c++)                                                  \
                levels[c] = slopes[c] = 0.0;                                                       \
            EACH_LANE(T away = x[at + c] - means[c]; T slope = g[at + c];                          \
                      levels[c] += (double)slope; slopes[c] += (double)slope * (double)away)       \
            for (ptrdiff_t c = 0; c < lanes; c++)                                                  \
                slopes[c] *= (double)spreads[c];                                                   \
            total_groups(levels, lanes, channels, channels, 1.0, sums);                            \
            total_groups(slopes, lanes, channels, channels, 1.0, sums + channels);                 \
            for (ptrdiff_t c = 0; c < lanes; c++) {                                                \
                double factor = scale && c < channels ? (double)scale[c] : 1.0;                    \
                levels[c] = c < channels ? sums[c] * factor : 0.0;                                 \
                slopes[c] = c < channels ? sums[channels + c] * factor : 0.0;                      \
                factors[c] =                                                                       \
                    c < channels ? (T)(factor * (double)spreads[c]) : factors[c - channels];       \
            }                                                                                      \
            total_groups(levels, lanes, channels, width, some, NULL);                              \
            total_groups(slopes, lanes, channels, width, some, NULL);                              \
            for (ptrdiff_t c = 0; c < lanes; c++) {                                                \
                falls[c] = (T)(slopes[c] * (double)spreads[c] * (double)spreads[c]);               \
                shifts[c] = (T)(levels[c] * (double)spreads[c]);                                   \
            }                                                                                      \
            EACH_LANE(T away = x[at + c] - means[c];                                               \
                      dx[at + c] = g[at + c] * factors[c] - shifts[c] - away * falls[c])           \
        }                                                                                          \
    }
GROUP_NORM(float32, float, sqrtf)
GROUP_NORM(float64, double, sqrt)
