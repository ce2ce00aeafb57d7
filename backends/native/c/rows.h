/* Loops over rows of n[0] elements: softmax, cross entropy, layer normalization.
 *
 * Sums are taken in lanes, `omp simd reduction`, in an order that the machine code fixes. */

/* The largest element; -inf for none. By hand: OpenMP's reduction begins with the least finite number. */
INLINE float row_max(const float *x, ptrdiff_t width) {
    float lanes[16], most = -INFINITY;
    ptrdiff_t i = 0;
    for (int k = 0; k < 16; k++)
        lanes[k] = -INFINITY;
    for (; i + 16 <= width; i += 16)
        _Pragma("omp simd") for (int k = 0; k < 16; k++) lanes[k] = x[i + k] > lanes[k] ? x[i + k] : lanes[k];
    for (int k = 0; k < 16; k++)
        most = lanes[k] > most ? lanes[k] : most;
    for (; i < width; i++)
        most = x[i] > most ? x[i] : most;
    return most;
}

INLINE float row_sum(const float *x, ptrdiff_t width) {
    float total = 0.0f;
    _Pragma("omp simd reduction(+ : total)") for (ptrdiff_t i = 0; i < width; i++) total += x[i];
    return total;
}

/* Writes exp(x - most), and returns the sum. */
INLINE float row_exp(const float *x, float *e, float most, ptrdiff_t width) {
    float total = 0.0f;
    _Pragma("omp simd reduction(+ : total)") for (ptrdiff_t i = 0; i < width; i++) {
        e[i] = exp32(x[i] - most);
        total += e[i];
    }
    return total;
}

INLINE float row_exp_sum(const float *x, float most, ptrdiff_t width) {
    float total = 0.0f;
    _Pragma("omp simd reduction(+ : total)") for (ptrdiff_t i = 0; i < width; i++)
        total += exp32_falling(x[i] - most);
    return total;
}

LOOP(softmax) {
    ptrdiff_t width = job->n[0];
    for (ptrdiff_t row = from; row < to; row++) {
        const float *x = (const float *)job->p[0] + row * width;
        float *y = (float *)job->p[1] + row * width;
        float total = row_exp(x, y, row_max(x, width), width);
        _Pragma("omp simd") for (ptrdiff_t i = 0; i < width; i++) y[i] /= total;
    }
}

LOOP(log_softmax) {
    ptrdiff_t width = job->n[0];
    for (ptrdiff_t row = from; row < to; row++) {
        const float *x = (const float *)job->p[0] + row * width;
        float *y = (float *)job->p[1] + row * width;
        float most = row_max(x, width), rest = logf(row_exp_sum(x, most, width));
        _Pragma("omp simd") for (ptrdiff_t i = 0; i < width; i++) y[i] = (x[i] - most) - rest;
    }
}

/* g and y = softmax(x) in; y * (g - sum(g * y)) out. */
LOOP(softmax_gradient) {
    ptrdiff_t width = job->n[0];
    for (ptrdiff_t row = from; row < to; row++) {
        const float *restrict g = (const float *)job->p[0] + row * width;
        const float *restrict y = (const float *)job->p[1] + row * width;
        float *restrict dx = (float *)job->p[2] + row * width;
        float mean = 0.0f;
        _Pragma("omp simd reduction(+ : mean)") for (ptrdiff_t i = 0; i < width; i++)
            mean += g[i] * y[i];
        _Pragma("omp simd") for (ptrdiff_t i = 0; i < width; i++) dx[i] = y[i] * (g[i] - mean);
    }
}

/* g and y = log_softmax(x) in; g - exp(y) * sum(g) out. */
LOOP(log_softmax_gradient) {
    ptrdiff_t width = job->n[0];
    for (ptrdiff_t row = from; row < to; row++) {
        const float *restrict g = (const float *)job->p[0] + row * width;
        const float *restrict y = (const float *)job->p[1] + row * width;
        float *restrict dx = (float *)job->p[2] + row * width;
        float total = row_sum(g, width);
        _Pragma("omp simd") for (ptrdiff_t i = 0; i < width; i++)
            dx[i] = g[i] - exp32(y[i]) * total;
    }
}

INLINE ptrdiff_t class_of(const Job *job, ptrdiff_t row) {
    return job->n[1] ? (ptrdiff_t)((const int64_t *)job->p[1])[row]
                     : (ptrdiff_t)((const int32_t *)job->p[1])[row];
}

/* Logits and classes in (n[1]: of 64 bits); losses and log(sum(exp)) out. A class that there is not
 * has no loss, NaN; a row whose class is n[3], where n[2] says that there is one, has 0. */
LOOP(cross_entropy) {
    ptrdiff_t width = job->n[0];
    for (ptrdiff_t row = from; row < to; row++) {
        const float *x = (const float *)job->p[0] + row * width;
        float most = row_max(x, width);
        float normalizer = most + logf(row_exp_sum(x, most, width));
        ptrdiff_t label = class_of(job, row);
        float loss = label >= 0 && label < width ? normalizer - x[label] : NAN;
        ((float *)job->p[2])[row] = job->n[2] && label == job->n[3] ? 0.0f : loss;
        ((float *)job->p[3])[row] = normalizer;
    }
}

/* Logits, classes, log(sum(exp)) and the cotangent of each row in; the gradient of logits out. */
LOOP(cross_entropy_gradient) {
    ptrdiff_t width = job->n[0];
    for (ptrdiff_t row = from; row < to; row++) {
        const float *restrict x = (const float *)job->p[0] + row * width;
        float *restrict y = (float *)job->p[4] + row * width;
        float normalizer = ((const float *)job->p[2])[row], g = ((const float *)job->p[3])[row];
        ptrdiff_t label = class_of(job, row);
        if (label < 0 || label >= width)
            g = NAN;
        if (job->n[2] && label == job->n[3])
            g = 0.0f;
        _Pragma("omp simd") for (ptrdiff_t i = 0; i < width; i++)
            y[i] = exp32(x[i] - normalizer) * g;
        if (label >= 0 && label < width)
            y[label] -= g;
    }
}

/* Layer normalization. ------------------------------------------------------------------------- */

/* x, scale, offset (both or NULL) in; y, mean and 1 / deviation out. */
LOOP(layer_norm) {
    ptrdiff_t width = job->n[0];
    const float *restrict scale = job->p[1], *restrict offset = job->p[2];
    float epsilon = (float)job->c[0];
    for (ptrdiff_t row = from; row < to; row++) {
        const float *restrict x = (const float *)job->p[0] + row * width;
        float *restrict y = (float *)job->p[3] + row * width;
        float mean = row_sum(x, width) / (float)width, square = 0.0f;
        _Pragma("omp simd reduction(+ : square)") for (ptrdiff_t i = 0; i < width; i++) {
            float away = x[i] - mean;
            square += away * away;
        }
        float spread = 1.0f / sqrtf(square / (float)width + epsilon);
        ((float *)job->p[4])[row] = mean;
        ((float *)job->p[5])[row] = spread;
        if (scale && offset)
            _Pragma("omp simd") for (ptrdiff_t i = 0; i < width; i++)
                y[i] = (x[i] - mean) * spread * scale[i] + offset[i];
        else
            for (ptrdiff_t i = 0; i < width; i++)
                y[i] = (x[i] - mean) * spread * (scale ? scale[i] : 1.0f)
                     + (offset ? offset[i] : 0.0f);
    }
}

/* The places of the sums over the rows of one piece: n[1] rows make a piece. */
INLINE float *piece_sums(const Job *job, int place, ptrdiff_t from, ptrdiff_t width, int count) {
    float *sums = (float *)job->p[place] + from / job->n[1] * count * width;
    for (ptrdiff_t i = 0; i < count * width; i++)
        sums[i] = 0.0f;
    return sums;
}

/* x, scale or NULL, mean, 1 / deviation and g in; dx out, and for each piece the sums of g * y and
 * of g. */
LOOP(layer_norm_gradient) {
    ptrdiff_t width = job->n[0];
    const float *restrict scale = job->p[1];
    float *restrict dscale = piece_sums(job, 6, from, width, 2), *restrict doffset = dscale + width;
    for (ptrdiff_t row = from; row < to; row++) {
        const float *restrict x = (const float *)job->p[0] + row * width;
        const float *restrict g = (const float *)job->p[4] + row * width;
        float *restrict dx = (float *)job->p[5] + row * width;
        float mean = ((const float *)job->p[2])[row], spread = ((const float *)job->p[3])[row];
        float level = 0.0f, slope = 0.0f;
        _Pragma("omp simd reduction(+ : level, slope)") for (ptrdiff_t i = 0; i < width; i++) {
            float y = (x[i] - mean) * spread, h = scale ? g[i] * scale[i] : g[i];
            level += h;
            slope += h * y;
            dscale[i] += g[i] * y;
            doffset[i] += g[i];
        }
        level /= (float)width;
        slope /= (float)width;
        _Pragma("omp simd") for (ptrdiff_t i = 0; i < width; i++) {
            float y = (x[i] - mean) * spread, h = scale ? g[i] * scale[i] : g[i];
            dx[i] = (h - level - y * slope) * spread;
        }
    }
}

/* x, scale or NULL in; y and 1 / root mean square out. */
LOOP(rms_norm) {
    ptrdiff_t width = job->n[0];
    const float *restrict scale = job->p[1];
    for (ptrdiff_t row = from; row < to; row++) {
        const float *restrict x = (const float *)job->p[0] + row * width;
        float *restrict y = (float *)job->p[2] + row * width, square = 0.0f;
        _Pragma("omp simd reduction(+ : square)") for (ptrdiff_t i = 0; i < width; i++)
            square += x[i] * x[i];
        float spread = 1.0f / sqrtf(square / (float)width + (float)job->c[0]);
        ((float *)job->p[3])[row] = spread;
        _Pragma("omp simd") for (ptrdiff_t i = 0; i < width; i++)
            y[i] = scale ? x[i] * spread * scale[i] : x[i] * spread;
    }
}

/* x, scale or NULL, 1 / root mean square and g in; dx out, and for each piece the sum of g * y. */
LOOP(rms_norm_gradient) {
    ptrdiff_t width = job->n[0];
    const float *restrict scale = job->p[1];
    float *restrict dscale = piece_sums(job, 5, from, width, 1);
    for (ptrdiff_t row = from; row < to; row++) {
        const float *restrict x = (const float *)job->p[0] + row * width;
        const float *restrict g = (const float *)job->p[3] + row * width;
        float *restrict dx = (float *)job->p[4] + row * width;
        float spread = ((const float *)job->p[2])[row], slope = 0.0f;
        _Pragma("omp simd reduction(+ : slope)") for (ptrdiff_t i = 0; i < width; i++) {
            float y = x[i] * spread;
            slope += (scale ? g[i] * scale[i] : g[i]) * y;
            dscale[i] += g[i] * y;
        }
        slope /= (float)width;
        _Pragma("omp simd") for (ptrdiff_t i = 0; i < width; i++)
            dx[i] = ((scale ? g[i] * scale[i] : g[i]) - x[i] * spread * slope) * spread;
    }
}
