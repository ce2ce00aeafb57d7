/* Loops over rows: softmax, cross entropy, layer normalization.
 *
 * Sums are taken in lanes, `omp simd reduction`, in an order that the machine code fixes. */

/* The largest element; -inf for an empty row. OpenMP's reduction would begin with the least finite
 * number. */
INLINE float row_max(const float *x, ptrdiff_t width) {
    float lanes[16], most = -INFINITY;
    ptrdiff_t i = 0;
    for (int k = 0; k < 16; k++)
        lanes[k] = -INFINITY;
    for (; i + 16 <= width; i += 16) {
        _Pragma("omp simd")
        for (int k = 0; k < 16; k++)
            lanes[k] = x[i + k] > lanes[k] ? x[i + k] : lanes[k];
    }
    for (int k = 0; k < 16; k++)
        most = lanes[k] > most ? lanes[k] : most;
    for (; i < width; i++)
        most = x[i] > most ? x[i] : most;
    return most;
}

INLINE float row_sum(const float *x, ptrdiff_t width) {
    float total = 0.0f;
    _Pragma("omp simd reduction(+ : total)")
    for (ptrdiff_t i = 0; i < width; i++)
        total += x[i];
    return total;
}

/* Elements of a vector: the last ones of a row are taken as the end of a whole vector. */
#define LANES 16

/* Writes exp(x - most), and returns the sum. */
INLINE float row_exp(const float *x, float *e, float most, ptrdiff_t width) {
    ptrdiff_t whole = width < LANES ? width : width / LANES * LANES, rest = width - whole;
    float total = 0.0f;
    _Pragma("omp simd reduction(+ : total)")
    for (ptrdiff_t i = 0; i < whole; i++) {
        e[i] = exp32(x[i] - most);
        total += e[i];
    }
    if (rest) {
        x += width - LANES, e += width - LANES;
        _Pragma("omp simd reduction(+ : total)")
        for (ptrdiff_t i = 0; i < LANES; i++) {
            float y = exp32(x[i] - most);
            e[i] = y;
            total += i >= LANES - rest ? y : 0.0f;
        }
    }
    return total;
}

INLINE float row_exp_sum(const float *x, float most, ptrdiff_t width) {
    ptrdiff_t whole = width < LANES ? width : width / LANES * LANES, rest = width - whole;
    float total = 0.0f;
    _Pragma("omp simd reduction(+ : total)")
    for (ptrdiff_t i = 0; i < whole; i++)
        total += exp32_falling(x[i] - most);
    if (rest) {
        x += width - LANES;
        _Pragma("omp simd reduction(+ : total)")
        for (ptrdiff_t i = 0; i < LANES; i++) {
            float y = exp32_falling(x[i] - most);
            total += i >= LANES - rest ? y : 0.0f;
        }
    }
    return total;
}

LOOP(softmax, SoftmaxArgs) {
    ptrdiff_t width = args->width;
    for (ptrdiff_t row = from; row < to; row++) {
        const float *x = args->x + row * width;
        float *y = args->y + row * width;
        float total = row_exp(x, y, row_max(x, width), width);
        _Pragma("omp simd")
        for (ptrdiff_t i = 0; i < width; i++)
            y[i] /= total;
    }
}

LOOP(log_softmax, SoftmaxArgs) {
    ptrdiff_t width = args->width;
    for (ptrdiff_t row = from; row < to; row++) {
        const float *x = args->x + row * width;
        float *y = args->y + row * width;
        float most = row_max(x, width), rest = logf(row_exp_sum(x, most, width));
        _Pragma("omp simd")
        for (ptrdiff_t i = 0; i < width; i++)
            y[i] = (x[i] - most) - rest;
    }
}

/* y * (g - sum(g * y)), for y = softmax(x). */
LOOP(softmax_gradient, SoftmaxGradientArgs) {
    ptrdiff_t width = args->width;
    for (ptrdiff_t row = from; row < to; row++) {
        const float *restrict g = args->g + row * width;
        const float *restrict y = args->y + row * width;
        float *restrict dx = args->dx + row * width;
        float mean = 0.0f;
        _Pragma("omp simd reduction(+ : mean)")
        for (ptrdiff_t i = 0; i < width; i++)
            mean += g[i] * y[i];
        _Pragma("omp simd")
        for (ptrdiff_t i = 0; i < width; i++)
            dx[i] = y[i] * (g[i] - mean);
    }
}

/* g - exp(y) * sum(g), for y = log_softmax(x). */
LOOP(log_softmax_gradient, SoftmaxGradientArgs) {
    ptrdiff_t width = args->width;
    for (ptrdiff_t row = from; row < to; row++) {
        const float *restrict g = args->g + row * width;
        const float *restrict y = args->y + row * width;
        float *restrict dx = args->dx + row * width;
        float total = row_sum(g, width);
        _Pragma("omp simd")
        for (ptrdiff_t i = 0; i < width; i++)
            dx[i] = g[i] - exp32(y[i]) * total;
    }
}

INLINE ptrdiff_t class_of(const Labels *labels, ptrdiff_t row) {
    return labels->wide ? (ptrdiff_t)((const int64_t *)labels->at)[row]
                        : (ptrdiff_t)((const int32_t *)labels->at)[row];
}

INLINE int is_ignored(const Labels *labels, ptrdiff_t label) {
    return labels->has_ignored && label == labels->ignored;
}

/* The loss of a row whose class is out of range is NaN; that of an ignored row is 0. */
LOOP(cross_entropy, CrossEntropyArgs) {
    ptrdiff_t width = args->width;
    for (ptrdiff_t row = from; row < to; row++) {
        const float *x = args->logits + row * width;
        float most = row_max(x, width);
        float log_sum = logf(row_exp_sum(x, most, width));
        ptrdiff_t label = class_of(&args->labels, row);
        float loss = label >= 0 && label < width ? log_sum - (x[label] - most) : NAN;
        args->losses[row] = is_ignored(&args->labels, label) ? 0.0f : loss;
        args->normalizers[row] = most + log_sum;
    }
}

/* A class of probability 0 adds 0, even where its logit is -inf. */
LOOP(dense_cross_entropy, DenseCrossEntropyArgs) {
    ptrdiff_t width = args->width;
    float kept = args->kept, spread = args->spread;
    for (ptrdiff_t row = from; row < to; row++) {
        const float *restrict x = args->logits + row * width;
        const float *restrict labels = args->labels + row * width;
        float most = row_max(x, width), log_sum = logf(row_exp_sum(x, most, width));
        double loss = 0.0;
        _Pragma("omp simd reduction(+ : loss)")
        for (ptrdiff_t i = 0; i < width; i++) {
            float label = labels[i] * kept + spread, term = label * (log_sum - (x[i] - most));
            loss += (double)(label == 0.0f ? 0.0f : term);
        }
        args->losses[row] = (float)loss;
        args->normalizers[row] = most + log_sum;
    }
}

LOOP(cross_entropy_gradient, CrossEntropyGradientArgs) {
    ptrdiff_t width = args->width;
    for (ptrdiff_t row = from; row < to; row++) {
        const float *restrict x = args->logits + row * width;
        float *restrict y = args->dlogits + row * width;
        float normalizer = args->normalizers[row], g = args->g[row];
        ptrdiff_t label = class_of(&args->labels, row);
        if (label < 0 || label >= width)
            g = NAN;
        if (is_ignored(&args->labels, label))
            g = 0.0f;
        _Pragma("omp simd")
        for (ptrdiff_t i = 0; i < width; i++)
            y[i] = exp32(x[i] - normalizer) * g;
        if (label >= 0 && label < width)
            y[label] -= g;
    }
}

/* Layer normalization. ------------------------------------------------------------------------- */

INLINE double row_sum_wide(const double *x, ptrdiff_t width) {
    double total = 0.0;
    _Pragma("omp simd reduction(+ : total)")
    for (ptrdiff_t i = 0; i < width; i++)
        total += x[i];
    return total;
}

/* The `count` rows of sums of piece number `piece`, set to 0. */
INLINE float *piece_sums(float *sums, ptrdiff_t piece, ptrdiff_t count, ptrdiff_t width) {
    sums += piece * count * width;
    for (ptrdiff_t i = 0; i < count * width; i++)
        sums[i] = 0.0f;
    return sums;
}

INLINE double *piece_sums_wide(double *sums, ptrdiff_t piece, ptrdiff_t count, ptrdiff_t width) {
    sums += piece * count * width;
    for (ptrdiff_t i = 0; i < count * width; i++)
        sums[i] = 0.0;
    return sums;
}

#define LAYER_NORM(wide, T, ROOT)                                                                  \
    LOOP(layer_norm##wide, LayerNormArgs) {                                                        \
        ptrdiff_t width = args->width;                                                             \
        const T *restrict scale = (const T *)args->scale, *restrict offset =                       \
                                                              (const T *)args->offset;             \
        T epsilon = (T)args->epsilon;                                                              \
        for (ptrdiff_t row = from; row < to; row++) {                                              \
            const T *restrict x = (const T *)args->x + row * width;                                \
            T *restrict y = (T *)args->y + row * width;                                            \
            T mean = row_sum##wide(x, width) / (T)width, square = (T)0;                            \
            _Pragma("omp simd reduction(+ : square)")                                              \
            for (ptrdiff_t i = 0; i < width; i++) {                                                \
                T away = x[i] - mean;                                                              \
                square += away * away;                                                             \
            }                                                                                      \
            T spread = (T)1 / ROOT(square / (T)width + epsilon);                                   \
            ((T *)args->mean)[row] = mean;                                                         \
            ((T *)args->spread)[row] = spread;                                                     \
            if (scale && offset) {                                                                 \
                _Pragma("omp simd")                                                                \
                for (ptrdiff_t i = 0; i < width; i++)                                              \
                    y[i] = (x[i] - mean) * spread * scale[i] + offset[i];                          \
            } else {                                                                               \
                _Pragma("omp simd")                                                                \
                for (ptrdiff_t i = 0; i < width; i++)                                              \
                    y[i] = (x[i] - mean) * spread;                                                 \
                if (scale) {                                                                       \
                    _Pragma("omp simd")                                                            \
                    for (ptrdiff_t i = 0; i < width; i++)                                          \
                        y[i] *= scale[i];                                                          \
                }                                                                                  \
                if (offset) {                                                                      \
                    _Pragma("omp simd")                                                            \
                    for (ptrdiff_t i = 0; i < width; i++)                                          \
                        y[i] += offset[i];                                                         \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    LOOP(layer_norm_gradient##wide, LayerNormGradientArgs) {                                       \
        ptrdiff_t width = args->width;                                                             \
        const T *restrict scale = (const T *)args->scale;                                          \
        T *restrict dscale = piece_sums##wide((T *)args->sums, from / args->piece_rows, 2, width); \
        T *restrict doffset = dscale + width;                                                      \
        for (ptrdiff_t row = from; row < to; row++) {                                              \
            const T *restrict x = (const T *)args->x + row * width;                                \
            const T *restrict g = (const T *)args->g + row * width;                                \
            T *restrict dx = (T *)args->dx + row * width;                                          \
            T mean = ((const T *)args->mean)[row], spread = ((const T *)args->spread)[row];        \
            T level = (T)0, slope = (T)0;                                                          \
            _Pragma("omp simd reduction(+ : level, slope)")                                        \
            for (ptrdiff_t i = 0; i < width; i++) {                                                \
                T y = (x[i] - mean) * spread, h = scale ? g[i] * scale[i] : g[i];                  \
                level += h;                                                                        \
                slope += h * y;                                                                    \
                dscale[i] += g[i] * y;                                                             \
                doffset[i] += g[i];                                                                \
            }                                                                                      \
            level /= (T)width;                                                                     \
            slope /= (T)width;                                                                     \
            _Pragma("omp simd")                                                                    \
            for (ptrdiff_t i = 0; i < width; i++) {                                                \
                T y = (x[i] - mean) * spread, h = scale ? g[i] * scale[i] : g[i];                  \
                dx[i] = (h - level - y * slope) * spread;                                          \
            }                                                                                      \
        }                                                                                          \
    }
LAYER_NORM(, float, sqrtf)
LAYER_NORM(_wide, double, sqrt)

LOOP(rms_norm, RmsNormArgs) {
    ptrdiff_t width = args->width;
    const float *restrict scale = args->scale;
    for (ptrdiff_t row = from; row < to; row++) {
        const float *restrict x = args->x + row * width;
        float *restrict y = args->y + row * width, square = 0.0f;
        _Pragma("omp simd reduction(+ : square)")
        for (ptrdiff_t i = 0; i < width; i++)
            square += x[i] * x[i];
        float spread = 1.0f / sqrtf(square / (float)width + (float)args->epsilon);
        args->spread[row] = spread;
        _Pragma("omp simd")
        for (ptrdiff_t i = 0; i < width; i++)
            y[i] = scale ? x[i] * spread * scale[i] : x[i] * spread;
    }
}

LOOP(rms_norm_gradient, RmsNormGradientArgs) {
    ptrdiff_t width = args->width;
    const float *restrict scale = args->scale;
    float *restrict dscale = piece_sums(args->sums, from / args->piece_rows, 1, width);
    for (ptrdiff_t row = from; row < to; row++) {
        const float *restrict x = args->x + row * width;
        const float *restrict g = args->g + row * width;
        float *restrict dx = args->dx + row * width;
        float spread = args->spread[row], slope = 0.0f;
        _Pragma("omp simd reduction(+ : slope)")
        for (ptrdiff_t i = 0; i < width; i++) {
            float y = x[i] * spread;
            slope += (scale ? g[i] * scale[i] : g[i]) * y;
            dscale[i] += g[i] * y;
        }
        slope /= (float)width;
        _Pragma("omp simd")
        for (ptrdiff_t i = 0; i < width; i++)
            dx[i] = ((scale ? g[i] * scale[i] : g[i]) - x[i] * spread * slope) * spread;
    }
}
