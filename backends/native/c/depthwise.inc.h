/* Convolutions of each channel by itself: a tap of all channels is one vector. `multiplier`
 * features are made of a channel. Terms are added tap by tap, so that bits do not depend on
 * threads. */

/* Numbers of a kernel that is repeated for neighbouring outputs of a row. */
#define MOST_REPEATED 4096

/* How many neighbours of a row are computed at a time, as one vector: where steps are 1, and a
 * channel has one feature. Few channels are less than a vector by themselves. */
INLINE ptrdiff_t neighbours(const DepthwiseArgs *args) {
    const Windows *windows = &args->windows;
    ptrdiff_t numbers = windows->window_height * windows->window_width * windows->channels;
    ptrdiff_t most =
        args->multiplier == 1 && windows->stride_width == 1 ? MOST_REPEATED / numbers : 1;
    return most < 1 ? 1 : most > windows->out_width ? windows->out_width : most;
}

/* The kernel with each tap repeated for so many neighbours; `room` is for MOST_REPEATED numbers. */
INLINE const float *kernel_for(const DepthwiseArgs *args, ptrdiff_t many, float *room) {
    const Windows *windows = &args->windows;
    ptrdiff_t taps = windows->window_height * windows->window_width, channels = windows->channels;
    if (many == 1)
        return args->second;
    for (ptrdiff_t tap = 0; tap < taps; tap++)
        for (ptrdiff_t k = 0; k < many; k++)
            for (ptrdiff_t c = 0; c < channels; c++)
                room[(tap * many + k) * channels + c] = args->second[tap * channels + c];
    return room;
}

/* Runs a statement for each tap of a row of the window, from the last to the first where `back`,
 * and the outputs among `many` from `column` on for which it is inside of the image, at `line` of
 * all images: they begin at `low`, and are `some`; `pixel` is the place of the first in the images,
 * `tap` its number. */
#define EACH_TAP_INSIDE(back, ...)                                                                 \
    ptrdiff_t top = line % windows->out_height * windows->stride_height - windows->pad_top;        \
    ptrdiff_t left = column * windows->stride_width - windows->pad_left;                           \
    for (ptrdiff_t i = 0; i < windows->window_height; i++) {                                       \
        ptrdiff_t down = top + i * args->dilation_height;                                          \
        if (down < 0 || down >= windows->height)                                                   \
            continue;                                                                              \
        ptrdiff_t row = (line / windows->out_height * windows->height + down) * windows->width;    \
        for (ptrdiff_t step = 0; step < windows->window_width; step++) {                           \
            ptrdiff_t j = (back) ? windows->window_width - 1 - step : step;                        \
            ptrdiff_t across = left + j * args->dilation_width, low = across < 0 ? -across : 0;    \
            ptrdiff_t some =                                                                       \
                (many < windows->width - across ? many : windows->width - across) - low;           \
            if (some <= 0)                                                                         \
                continue;                                                                          \
            ptrdiff_t pixel = row + across + low, tap = i * windows->window_width + j;             \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }

/* Counts rows of the output. `first` are images, `second` is the kernel. */
LOOP(depthwise, DepthwiseArgs) {
    const Windows *windows = &args->windows;
    ptrdiff_t channels = windows->channels, each = args->multiplier, features = channels * each;
    ptrdiff_t block = neighbours(args);
    float room[MOST_REPEATED];
    const float *numbers = kernel_for(args, block, room);
    for (ptrdiff_t line = from; line < to; line++)
        for (ptrdiff_t column = 0; column < windows->out_width; column += block) {
            ptrdiff_t left_over = windows->out_width - column;
            ptrdiff_t many = left_over < block ? left_over : block;
            float *outputs = args->y + (line * windows->out_width + column) * features;
            for (ptrdiff_t f = 0; f < many * features; f++)
                outputs[f] = 0.0f;
            EACH_TAP_INSIDE(0, {
                const float *restrict x = args->first + pixel * channels;
                const float *restrict kernel = numbers + tap * block * features;
                float *restrict y = outputs + low * features;
                if (each == 1) {
                    _Pragma("omp simd")
                    for (ptrdiff_t c = 0; c < some * channels; c++)
                        y[c] += x[c] * kernel[c];
                } else {
                    for (ptrdiff_t c = 0; c < channels; c++)
                        for (ptrdiff_t f = c * each; f < (c + 1) * each; f++)
                            y[f] += x[c] * kernel[f];
                }
            })
        }
}

/* Counts images. `first` is the gradient of the output, `second` the kernel, y that of images. */
LOOP(depthwise_input_gradient, DepthwiseArgs) {
    const Windows *windows = &args->windows;
    ptrdiff_t channels = windows->channels, each = args->multiplier, features = channels * each;
    ptrdiff_t size = windows->height * windows->width * channels, block = neighbours(args);
    float room[MOST_REPEATED];
    const float *numbers = kernel_for(args, block, room);
    for (ptrdiff_t k = from * size; k < to * size; k++)
        args->y[k] = 0.0f;
    for (ptrdiff_t line = from * windows->out_height; line < to * windows->out_height; line++)
        for (ptrdiff_t column = 0; column < windows->out_width; column += block) {
            ptrdiff_t left_over = windows->out_width - column;
            ptrdiff_t many = left_over < block ? left_over : block;
            const float *slopes = args->first + (line * windows->out_width + column) * features;
            /* The last tap first: so each pixel gets its terms in the order of the outputs. */
            EACH_TAP_INSIDE(1, {
                float *restrict dx = args->y + pixel * channels;
                const float *restrict kernel = numbers + tap * block * features;
                const float *restrict g = slopes + low * features;
                if (each == 1) {
                    _Pragma("omp simd")
                    for (ptrdiff_t c = 0; c < some * channels; c++)
                        dx[c] += g[c] * kernel[c];
                } else {
                    for (ptrdiff_t c = 0; c < channels; c++)
                        for (ptrdiff_t f = c * each; f < (c + 1) * each; f++)
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
        ptrdiff_t lanes = MANY_SUMS / channels * channels;
        if (lanes && many == 1 && windows->stride_width == 1) {
            /* Few channels: of several columns at a time. */
            ptrdiff_t low = aside < 0 ? -aside : 0;
            ptrdiff_t high = columns < windows->width - aside ? columns : windows->width - aside;
            double sums[MANY_SUMS] = {0};
            for (ptrdiff_t line = 0; line < args->images * rows; line++) {
                ptrdiff_t down = line % rows * windows->stride_height + far;
                if (down < 0 || down >= windows->height)
                    continue;
                ptrdiff_t row = (line / rows * windows->height + down) * windows->width;
                const float *restrict x = args->first + (row + low + aside) * channels;
                const float *restrict g = args->second + (line * columns + low) * channels;
                float part[MANY_SUMS] = {0};
                for (ptrdiff_t at = 0; at < (high - low) * channels; at += lanes) {
                    ptrdiff_t rest = (high - low) * channels - at;
                    ptrdiff_t some = rest < lanes ? rest : lanes;
                    _Pragma("omp simd")
                    for (ptrdiff_t f = 0; f < some; f++)
                        part[f] += x[at + f] * g[at + f];
                }
                for (ptrdiff_t f = 0; f < lanes; f++)
                    sums[f] += (double)part[f];
            }
            for (ptrdiff_t c = 0; c < channels; c++) {
                double total = 0.0;
                for (ptrdiff_t f = c; f < lanes; f += channels)
                    total += sums[f];
                args->y[tap * channels + c] = (float)total;
            }
            continue;
        }
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
