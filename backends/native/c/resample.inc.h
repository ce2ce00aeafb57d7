/* Resizing along an axis, and its gradient: sums of neighbors by their shares. */

#define RESAMPLING(T)                                                                              \
    INLINE void resampled_##T(const ptrdiff_t inner, ptrdiff_t from, ptrdiff_t to,                 \
                              const ResampleArgs *args) {                                          \
        const ptrdiff_t *begins = args->begins, *sources = args->sources, count = args->count;     \
        const T *shares = args->shares;                                                            \
        for (ptrdiff_t unit = from; unit < to; unit++) {                                           \
            const T *x = (const T *)args->x + unit * args->rows * inner;                           \
            for (ptrdiff_t i = 0; i < count; i++) {                                                \
                T *restrict y = (T *)args->y + (unit * count + i) * inner;                         \
                ptrdiff_t at = begins[i], end = begins[i + 1];                                     \
                if (end - at > 1) {                                                                \
                    const T *restrict low = x + sources[at] * inner;                               \
                    const T *restrict high = x + sources[at + 1] * inner;                          \
                    T share = shares[at], other = shares[at + 1];                                  \
                    _Pragma("omp simd")                                                            \
                    for (ptrdiff_t c = 0; c < inner; c++)                                          \
                        y[c] = low[c] * share + high[c] * other;                                   \
                    at += 2;                                                                       \
                } else {                                                                           \
                    const T *restrict one = at < end ? x + sources[at] * inner : x;                \
                    T share = at < end ? shares[at] : 0;                                           \
                    _Pragma("omp simd")                                                            \
                    for (ptrdiff_t c = 0; c < inner; c++)                                          \
                        y[c] = at < end ? one[c] * share : 0;                                      \
                    at++;                                                                          \
                }                                                                                  \
                for (; at < end; at++) {                                                           \
                    const T *restrict next = x + sources[at] * inner;                              \
                    T share = shares[at];                                                          \
                    _Pragma("omp simd")                                                            \
                    for (ptrdiff_t c = 0; c < inner; c++)                                          \
                        y[c] += next[c] * share;                                                   \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }

/* Counts what is before the axis. */
#define RESAMPLE(name, T)                                                                          \
    RESAMPLING(T)                                                                                  \
    LOOP(name, ResampleArgs) {                                                                     \
        switch (args->inner) { /* usual numbers of channels are constants */                       \
        case 1:                                                                                    \
            resampled_##T(1, from, to, args);                                                      \
            break;                                                                                 \
        case 3:                                                                                    \
            resampled_##T(3, from, to, args);                                                      \
            break;                                                                                 \
        case 8:                                                                                    \
            resampled_##T(8, from, to, args);                                                      \
            break;                                                                                 \
        case 16:                                                                                   \
            resampled_##T(16, from, to, args);                                                     \
            break;                                                                                 \
        default:                                                                                   \
            resampled_##T(args->inner, from, to, args);                                            \
        }                                                                                          \
    }
