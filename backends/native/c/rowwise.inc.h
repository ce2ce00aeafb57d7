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

/* Stores the total of each group, over `elements`, for each of its channels. */
static inline void total_groups(double *sums, ptrdiff_t channels, ptrdiff_t width,
                                double elements) {
    for (ptrdiff_t c = 0; c < channels; c += width) {
        double total = 0.0;
        for (ptrdiff_t i = 0; i < width; i++)
            total += sums[c + i];
        for (ptrdiff_t i = 0; i < width; i++)
            sums[c + i] = total / elements;
    }
}

/* Groups of channels: the sums of each channel, and from them those of its group. The means of the
 * groups, and 1 / their deviations, for each channel. */
#define GROUP_NORM(type, T, ROOT)                                                                  \
    static void group_moments_##type(const T *restrict x, ptrdiff_t pixels, ptrdiff_t channels,    \
                                     ptrdiff_t width, double epsilon, T *restrict means,           \
                                     T *restrict spreads) {                                        \
        double sums[MOST_CHANNELS], elements = (double)(pixels * width);                           \
        for (ptrdiff_t c = 0; c < channels; c++)                                                   \
            sums[c] = 0.0;                                                                         \
        for (ptrdiff_t pixel = 0; pixel < pixels; pixel++) {                                       \
            _Pragma("omp simd")                                                                    \
            for (ptrdiff_t c = 0; c < channels; c++)                                               \
                sums[c] += (double)x[pixel * channels + c];                                        \
        }                                                                                          \
        total_groups(sums, channels, width, elements);                                             \
        for (ptrdiff_t c = 0; c < channels; c++)                                                   \
            means[c] = (T)sums[c], sums[c] = 0.0;                                                  \
        for (ptrdiff_t pixel = 0; pixel < pixels; pixel++) {                                       \
            _Pragma("omp simd")                                                                    \
            for (ptrdiff_t c = 0; c < channels; c++) {                                             \
                T away = x[pixel * channels + c] - means[c];                                       \
                sums[c] += (double)away * (double)away;                                            \
            }                                                                                      \
        }                                                                                          \
        total_groups(sums, channels, width, elements);                                             \
        for (ptrdiff_t c = 0; c < channels; c++)                                                   \
            spreads[c] = (T)1 / ROOT((T)sums[c] + (T)epsilon);                                     \
    }                                                                                              \
    LOOP(group_norm_##type, GroupNormArgs) {                                                       \
        ptrdiff_t channels = args->channels, pixels = args->pixels;                                \
        const T *scale = args->scale, *offset = args->offset;                                      \
        T means[MOST_CHANNELS], factors[MOST_CHANNELS], summands[MOST_CHANNELS];                   \
        for (ptrdiff_t item = from; item < to; item++) {                                           \
            const T *restrict x = (const T *)args->x + item * pixels * channels;                   \
            T *restrict y = (T *)args->y + item * pixels * channels;                               \
            group_moments_##type(x, pixels, channels, channels / args->groups, args->epsilon,      \
                                 means, factors);                                                  \
            for (ptrdiff_t c = 0; c < channels; c++) {                                             \
                factors[c] = scale ? factors[c] * scale[c] : factors[c];                           \
                summands[c] = offset ? offset[c] : (T)0;                                           \
            }                                                                                      \
            for (ptrdiff_t pixel = 0; pixel < pixels; pixel++) {                                   \
                _Pragma("omp simd")                                                                \
                for (ptrdiff_t c = 0; c < channels; c++)                                           \
                    y[pixel * channels + c] =                                                      \
                        (x[pixel * channels + c] - means[c]) * factors[c] + summands[c];           \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    /* dx = (h - mean(h) - y * mean(h * y)) / deviation, where h is g * scale and y normalized. */ \
    LOOP(group_norm_gradient_##type, GroupNormGradientArgs) {                                      \
        ptrdiff_t channels = args->channels, pixels = args->pixels;                                \
        ptrdiff_t width = channels / args->groups;                                                 \
        const T *scale = args->scale;                                                              \
        double levels[MOST_CHANNELS], slopes[MOST_CHANNELS], elements = (double)(pixels * width);  \
        T means[MOST_CHANNELS], spreads[MOST_CHANNELS], factors[MOST_CHANNELS];                    \
        T falls[MOST_CHANNELS], shifts[MOST_CHANNELS];                                             \
        for (ptrdiff_t item = from; item < to; item++) {                                           \
            const T *restrict x = (const T *)args->x + item * pixels * channels;                   \
            const T *restrict g = (const T *)args->g + item * pixels * channels;                   \
            T *restrict dx = (T *)args->dx + item * pixels * channels;                             \
            double *sums = args->sums + 2 * item * channels;                                       \
            group_moments_##type(x, pixels, channels, width, args->epsilon, means, spreads);       \
            for (ptrdiff_t c = 0; c < channels; c++)                                               \
                levels[c] = slopes[c] = 0.0;                                                       \
            for (ptrdiff_t pixel = 0; pixel < pixels; pixel++) {                                   \
                _Pragma("omp simd")                                                                \
                for (ptrdiff_t c = 0; c < channels; c++) {                                         \
                    T away = x[pixel * channels + c] - means[c], slope = g[pixel * channels + c];  \
                    levels[c] += (double)slope;                                                    \
                    slopes[c] += (double)slope * (double)away;                                     \
                }                                                                                  \
            }                                                                                      \
            for (ptrdiff_t c = 0; c < channels; c++) {                                             \
                double factor = scale ? (double)scale[c] : 1.0;                                    \
                slopes[c] *= (double)spreads[c];                                                   \
                sums[c] = levels[c], sums[channels + c] = slopes[c];                               \
                levels[c] *= factor, slopes[c] *= factor;                                          \
                factors[c] = (T)(factor * (double)spreads[c]);                                     \
            }                                                                                      \
            total_groups(levels, channels, width, elements);                                       \
            total_groups(slopes, channels, width, elements);                                       \
            for (ptrdiff_t c = 0; c < channels; c++) {                                             \
                falls[c] = (T)(slopes[c] * (double)spreads[c] * (double)spreads[c]);               \
                shifts[c] = (T)(levels[c] * (double)spreads[c]);                                   \
            }                                                                                      \
            for (ptrdiff_t pixel = 0; pixel < pixels; pixel++) {                                   \
                _Pragma("omp simd")                                                                \
                for (ptrdiff_t c = 0; c < channels; c++) {                                         \
                    T away = x[pixel * channels + c] - means[c];                                   \
                    dx[pixel * channels + c] =                                                     \
                        g[pixel * channels + c] * factors[c] - shifts[c] - away * falls[c];        \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }
GROUP_NORM(float32, float, sqrtf)
GROUP_NORM(float64, double, sqrt)
