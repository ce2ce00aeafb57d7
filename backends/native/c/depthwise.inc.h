/* Convolutions of each channel by itself: a tap of all channels is one vector. `multiplier`
 * features are made of a channel. Terms are added tap by tap, so that bits do not depend on
 * threads. */

/* Runs a statement for each tap that is inside of the image, for the window of an output at `line`
 * (of all images) and `column`: `pixel` is its place in the images, `tap` its number. */
#define EACH_TAP_INSIDE(...)                                                                       \
    ptrdiff_t top = line % windows->out_height * windows->stride_height - windows->pad_top;        \
    ptrdiff_t left = column * windows->stride_width - windows->pad_left;                           \
    for (ptrdiff_t i = 0; i < windows->window_height; i++) {                                       \
        ptrdiff_t down = top + i * args->dilation_height;                                          \
        if (down < 0 || down >= windows->height)                                                   \
            continue;                                                                              \
        ptrdiff_t row = (line / windows->out_height * windows->height + down) * windows->width;    \
        for (ptrdiff_t j = 0; j < windows->window_width; j++) {                                    \
            ptrdiff_t across = left + j * args->dilation_width;                                    \
            if (across < 0 || across >= windows->width)                                            \
                continue;                                                                          \
            ptrdiff_t pixel = row + across, tap = i * windows->window_width + j;                   \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }

/* Counts rows of the output. `first` are images, `second` is the kernel. */
LOOP(depthwise, DepthwiseArgs) {
    const Windows *windows = &args->windows;
    ptrdiff_t channels = windows->channels, many = args->multiplier, features = channels * many;
    for (ptrdiff_t line = from; line < to; line++)
        for (ptrdiff_t column = 0; column < windows->out_width; column++) {
            float *restrict y = args->y + (line * windows->out_width + column) * features;
            for (ptrdiff_t f = 0; f < features; f++)
                y[f] = 0.0f;
            EACH_TAP_INSIDE({
                const float *restrict x = args->first + pixel * channels;
                const float *restrict kernel = args->second + tap * features;
                if (many == 1) {
                    _Pragma("omp simd")
                    for (ptrdiff_t c = 0; c < channels; c++)
                        y[c] += x[c] * kernel[c];
                } else {
                    for (ptrdiff_t c = 0; c < channels; c++)
                        for (ptrdiff_t f = c * many; f < (c + 1) * many; f++)
                            y[f] += x[c] * kernel[f];
                }
            })
        }
}

/* Counts images. `first` is the gradient of the output, `second` the kernel, y that of images. */
LOOP(depthwise_input_gradient, DepthwiseArgs) {
    const Windows *windows = &args->windows;
    ptrdiff_t channels = windows->channels, many = args->multiplier, features = channels * many;
    ptrdiff_t size = windows->height * windows->width * channels;
    for (ptrdiff_t k = from * size; k < to * size; k++)
        args->y[k] = 0.0f;
    for (ptrdiff_t line = from * windows->out_height; line < to * windows->out_height; line++)
        for (ptrdiff_t column = 0; column < windows->out_width; column++) {
            const float *restrict g = args->first + (line * windows->out_width + column) * features;
            EACH_TAP_INSIDE({
                float *restrict dx = args->y + pixel * channels;
                const float *restrict kernel = args->second + tap * features;
                if (many == 1) {
                    _Pragma("omp simd")
                    for (ptrdiff_t c = 0; c < channels; c++)
                        dx[c] += g[c] * kernel[c];
                } else {
                    for (ptrdiff_t c = 0; c < channels; c++)
                        for (ptrdiff_t f = c * many; f < (c + 1) * many; f++)
                            dx[c] += g[f] * kernel[f];
                }
            })
        }
}

/* Features whose sums are added at a time. */
#define MANY_SUMS 64

/* Counts taps. `first` are images, `second` is the gradient of the output, y that of the kernel.
 * A row of the output is added in floats, rows in double. */
LOOP(depthwise_kernel_gradient, DepthwiseArgs) {
    const Windows *windows = &args->windows;
    ptrdiff_t channels = windows->channels, many = args->multiplier, features = channels * many;
    ptrdiff_t columns = windows->out_width, rows = windows->out_height;
    for (ptrdiff_t tap = from; tap < to; tap++) {
        ptrdiff_t far = tap / windows->window_width * args->dilation_height - windows->pad_top;
        ptrdiff_t aside = tap % windows->window_width * args->dilation_width - windows->pad_left;
        for (ptrdiff_t begin = 0; begin < features; begin += MANY_SUMS) {
            ptrdiff_t width = features - begin < MANY_SUMS ? features - begin : MANY_SUMS;
            double sums[MANY_SUMS] = {0};
            for (ptrdiff_t line = 0; line < args->images * rows; line++) {
                ptrdiff_t down = line % rows * windows->stride_height + far;
                if (down < 0 || down >= windows->height)
                    continue;
                const float *row =
                    args->first
                    + (line / rows * windows->height + down) * windows->width * channels;
                float part[MANY_SUMS] = {0};
                for (ptrdiff_t column = 0; column < columns; column++) {
                    ptrdiff_t across = column * windows->stride_width + aside;
                    if (across < 0 || across >= windows->width)
                        continue;
                    const float *restrict g =
                        args->second + (line * columns + column) * features + begin;
                    const float *restrict x = row + across * channels;
                    if (many == 1) {
                        _Pragma("omp simd")
                        for (ptrdiff_t f = 0; f < width; f++)
                            part[f] += x[begin + f] * g[f];
                    } else {
                        for (ptrdiff_t f = 0; f < width; f++)
                            part[f] += x[(begin + f) / many] * g[f];
                    }
                }
                for (ptrdiff_t f = 0; f < width; f++)
                    sums[f] += (double)part[f];
            }
            for (ptrdiff_t f = 0; f < width; f++)
                args->y[tap * features + begin + f] = (float)sums[f];
        }
    }
}
