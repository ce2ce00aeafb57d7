/* Resizing along an axis, and its gradient: sums of neighbors by their shares. */

INLINE void resample(const ptrdiff_t inner, ptrdiff_t from, ptrdiff_t to,
                     const ResampleArgs *args) {
    const ptrdiff_t *begins = args->begins, *sources = args->sources, count = args->count;
    const float *shares = args->shares;
    for (ptrdiff_t unit = from; unit < to; unit++) {
        const float *x = args->x + unit * args->rows * inner;
        for (ptrdiff_t i = 0; i < count; i++) {
            float *restrict y = args->y + (unit * count + i) * inner;
            ptrdiff_t at = begins[i], end = begins[i + 1];
            if (end - at > 1) {
                const float *restrict low = x + sources[at] * inner;
                const float *restrict high = x + sources[at + 1] * inner;
                float share = shares[at], other = shares[at + 1];
                _Pragma("omp simd")
                for (ptrdiff_t c = 0; c < inner; c++)
                    y[c] = low[c] * share + high[c] * other;
                at += 2;
            } else {
                const float *restrict one = at < end ? x + sources[at] * inner : x;
                float share = at < end ? shares[at] : 0.0f;
                _Pragma("omp simd")
                for (ptrdiff_t c = 0; c < inner; c++)
                    y[c] = at < end ? one[c] * share : 0.0f;
                at++;
            }
            for (; at < end; at++) {
                const float *restrict next = x + sources[at] * inner;
                float share = shares[at];
                _Pragma("omp simd")
                for (ptrdiff_t c = 0; c < inner; c++)
                    y[c] += next[c] * share;
            }
        }
    }
}

/* Counts what is before the axis. Usual numbers of channels are constants. */
LOOP(resample, ResampleArgs) {
    switch (args->inner) {
    case 1:
        resample(1, from, to, args);
        break;
    case 3:
        resample(3, from, to, args);
        break;
    case 8:
        resample(8, from, to, args);
        break;
    case 16:
        resample(16, from, to, args);
        break;
    default:
        resample(args->inner, from, to, args);
    }
}
