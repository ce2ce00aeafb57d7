/* Max pooling over images, channels last.
 * n: 0 height, 1 width, 2 channels, 3 out height, 4 out width, 5 and 6 the window, 7 and 8 the
 * strides, 9 and 10 the padding before, 11 whether windows cover the image without gap or overlap. */

/* x in, maxima and their places out; rows of the output are counted. The first maximum wins, and a
 * NaN over every number; padding is -inf. */
LOOP(max_pool) {
    ptrdiff_t height = job->n[0], width = job->n[1], channels = job->n[2];
    ptrdiff_t rows = job->n[3], columns = job->n[4];
    for (ptrdiff_t line = from; line < to; line++) {
        ptrdiff_t top = line % rows * job->n[7] - job->n[9];
        const float *image = (const float *)job->p[0] + line / rows * height * width * channels;
        for (ptrdiff_t column = 0; column < columns; column++) {
            ptrdiff_t left = column * job->n[8] - job->n[10];
            float *restrict best = (float *)job->p[1] + (line * columns + column) * channels;
            int32_t *restrict at = (int32_t *)job->p[2] + (line * columns + column) * channels;
            for (ptrdiff_t c = 0; c < channels; c++)
                best[c] = -INFINITY, at[c] = 0;
            for (ptrdiff_t i = 0; i < job->n[5]; i++) {
                if (top + i < 0 || top + i >= height)
                    continue;
                for (ptrdiff_t j = 0; j < job->n[6]; j++) {
                    if (left + j < 0 || left + j >= width)
                        continue;
                    const float *restrict x = image + ((top + i) * width + left + j) * channels;
                    int32_t tap = (int32_t)(i * job->n[6] + j);
                    _Pragma("omp simd") for (ptrdiff_t c = 0; c < channels; c++) {
                        float value = x[c], most = best[c];
                        int better = !(value <= most) & (most == most);
                        best[c] = better ? value : most;
                        at[c] = better ? tap : at[c];
                    }
                }
            }
        }
    }
}

/* g and places in, the gradient of x out; images are counted. */
LOOP(max_pool_gradient) {
    ptrdiff_t height = job->n[0], width = job->n[1], channels = job->n[2];
    ptrdiff_t rows = job->n[3], columns = job->n[4], size = height * width * channels;
    for (ptrdiff_t number = from; number < to; number++) {
        float *image = (float *)job->p[2] + number * size;
        if (!job->n[11])
            for (ptrdiff_t k = 0; k < size; k++)
                image[k] = 0.0f;
        for (ptrdiff_t cell = 0; cell < rows * columns; cell++) {
            ptrdiff_t top = cell / columns * job->n[7] - job->n[9];
            ptrdiff_t left = cell % columns * job->n[8] - job->n[10];
            ptrdiff_t start = (number * rows * columns + cell) * channels;
            const float *restrict g = (const float *)job->p[0] + start;
            const int32_t *restrict at = (const int32_t *)job->p[1] + start;
            for (ptrdiff_t i = 0; i < job->n[5]; i++) {
                if (top + i < 0 || top + i >= height)
                    continue;
                for (ptrdiff_t j = 0; j < job->n[6]; j++) {
                    if (left + j < 0 || left + j >= width)
                        continue;
                    float *restrict dx = image + ((top + i) * width + left + j) * channels;
                    int32_t tap = (int32_t)(i * job->n[6] + j);
                    if (job->n[11])
                        _Pragma("omp simd") for (ptrdiff_t c = 0; c < channels; c++)
                            dx[c] = at[c] == tap ? g[c] : 0.0f;
                    else
                        _Pragma("omp simd") for (ptrdiff_t c = 0; c < channels; c++)
                            dx[c] += at[c] == tap ? g[c] : 0.0f;
                }
            }
        }
    }
}
