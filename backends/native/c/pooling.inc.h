/* Pooling over images, channels last. */

/* Offsets in a window, from the first to before the last. */
typedef struct {
    ptrdiff_t from, to;
} Offsets;

/* The offsets at which a window that begins at `start` lies inside an image of `size` pixels. */
INLINE Offsets inside(ptrdiff_t start, ptrdiff_t window, ptrdiff_t size) {
    ptrdiff_t room = size - start;
    return (Offsets){start < 0 ? -start : 0, window < room ? window : room};
}

/* Counts rows of the output. The first maximum wins, and NaN over every number; padding is -inf. */
LOOP(max_pool, MaxPoolArgs) {
    const Windows *windows = &args->windows;
    ptrdiff_t height = windows->height, width = windows->width, channels = windows->channels;
    ptrdiff_t rows = windows->out_height, columns = windows->out_width;
    for (ptrdiff_t line = from; line < to; line++) {
        ptrdiff_t top = line % rows * windows->stride_height - windows->pad_top;
        const float *image = args->x + line / rows * height * width * channels;
        for (ptrdiff_t column = 0; column < columns; column++) {
            ptrdiff_t left = column * windows->stride_width - windows->pad_left;
            float *restrict best = args->y + (line * columns + column) * channels;
            int32_t *restrict at = args->indices + (line * columns + column) * channels;
            for (ptrdiff_t c = 0; c < channels; c++)
                best[c] = -INFINITY, at[c] = 0;
            Offsets down = inside(top, windows->window_height, height);
            Offsets across = inside(left, windows->window_width, width);
            for (ptrdiff_t i = down.from; i < down.to; i++) {
                for (ptrdiff_t j = across.from; j < across.to; j++) {
                    const float *restrict x = image + ((top + i) * width + left + j) * channels;
                    int32_t tap = (int32_t)(i * windows->window_width + j);
                    _Pragma("omp simd")
                    for (ptrdiff_t c = 0; c < channels; c++) {
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

/* Counts images. */
LOOP(max_pool_gradient, MaxPoolGradientArgs) {
    const Windows *windows = &args->windows;
    ptrdiff_t height = windows->height, width = windows->width, channels = windows->channels;
    ptrdiff_t rows = windows->out_height, columns = windows->out_width;
    ptrdiff_t size = height * width * channels;
    for (ptrdiff_t number = from; number < to; number++) {
        float *image = args->dx + number * size;
        if (!args->tiled)
            for (ptrdiff_t k = 0; k < size; k++)
                image[k] = 0.0f;
        for (ptrdiff_t cell = 0; cell < rows * columns; cell++) {
            ptrdiff_t top = cell / columns * windows->stride_height - windows->pad_top;
            ptrdiff_t left = cell % columns * windows->stride_width - windows->pad_left;
            ptrdiff_t start = (number * rows * columns + cell) * channels;
            const float *restrict g = args->g + start;
            const int32_t *restrict at = args->indices + start;
            Offsets down = inside(top, windows->window_height, height);
            Offsets across = inside(left, windows->window_width, width);
            for (ptrdiff_t i = down.from; i < down.to; i++) {
                for (ptrdiff_t j = across.from; j < across.to; j++) {
                    float *restrict dx = image + ((top + i) * width + left + j) * channels;
                    int32_t tap = (int32_t)(i * windows->window_width + j);
                    if (args->tiled) {
                        _Pragma("omp simd")
                        for (ptrdiff_t c = 0; c < channels; c++)
                            dx[c] = at[c] == tap ? g[c] : 0.0f;
                    } else {
                        _Pragma("omp simd")
                        for (ptrdiff_t c = 0; c < channels; c++)
                            dx[c] += at[c] == tap ? g[c] : 0.0f;
                    }
                }
            }
        }
    }
}

/* Counts rows of the output. */
LOOP(avg_pool, AvgPoolArgs) {
    const Windows *windows = &args->windows;
    ptrdiff_t height = windows->height, width = windows->width, channels = windows->channels;
    ptrdiff_t rows = windows->out_height, columns = windows->out_width;
    for (ptrdiff_t line = from; line < to; line++) {
        ptrdiff_t top = line % rows * windows->stride_height - windows->pad_top;
        const float *image = args->x + line / rows * height * width * channels;
        Offsets down = inside(top, windows->window_height, height);
        for (ptrdiff_t column = 0; column < columns; column++) {
            ptrdiff_t left = column * windows->stride_width - windows->pad_left;
            float *restrict y = args->y + (line * columns + column) * channels;
            Offsets across = inside(left, windows->window_width, width);
            ptrdiff_t count = args->counts_padding
                                ? windows->window_height * windows->window_width
                                : (down.to - down.from) * (across.to - across.from);
            for (ptrdiff_t c = 0; c < channels; c++)
                y[c] = 0.0f;
            for (ptrdiff_t i = down.from; i < down.to; i++) {
                for (ptrdiff_t j = across.from; j < across.to; j++) {
                    const float *restrict x = image + ((top + i) * width + left + j) * channels;
                    _Pragma("omp simd")
                    for (ptrdiff_t c = 0; c < channels; c++)
                        y[c] += x[c];
                }
            }
            for (ptrdiff_t c = 0; c < channels; c++)
                y[c] /= (float)count;
        }
    }
}
