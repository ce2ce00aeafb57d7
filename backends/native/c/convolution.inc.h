/* Convolution over images, channels last, as products without a matrix of windows: rows of a window
 * lie in the image, so tiles read them there. At the edges, the part of the image that a block of
 * output rows sees, its band, is copied with zeros around it. */

/* Beginnings of the windows of a block's output rows, and the step between rows of the image. */
typedef struct {
    const float *row[DEPTH];
    ptrdiff_t apart;
    float *room;
} Band;

/* Columns of the image that the windows of a row cover. */
INLINE ptrdiff_t band_width(const ConvSizes *n) {
    const Windows *w = &n->windows;
    return (w->out_width - 1) * w->stride_width + (w->window_width - 1) * n->dilation_width + 1;
}

/* The first row of the image that output row y sees. */
INLINE ptrdiff_t first_seen(const Windows *w, ptrdiff_t y) {
    return y * w->stride_height - w->pad_top;
}

INLINE int open_band(const ConvSizes *n, Band *band) {
    const Windows *w = &n->windows;
    /* Output rows of a block may belong to several images. */
    ptrdiff_t images = least(n->block_rows, (n->block_rows - 1) / w->out_height + 2);
    ptrdiff_t rows = n->block_rows * w->stride_height
                   + images * ((w->window_height - 1) * n->dilation_height + 1);
    size_t bytes = (size_t)(rows * band_width(n) * w->channels) * sizeof(float);
    band->room = aligned_alloc(64, (bytes + 63) / 64 * 64);
    return band->room != NULL;
}

/* Copies row y of an image, with zeros beyond the edges. */
INLINE void copy_row(const ConvSizes *n, const float *image, ptrdiff_t y, float *target) {
    const Windows *w = &n->windows;
    ptrdiff_t wide = band_width(n), before = least(w->pad_left, wide);
    ptrdiff_t there = least(w->width, wide - before);
    if (y < 0 || y >= w->height) {
        memset(target, 0, (size_t)(wide * w->channels) * sizeof(float));
        return;
    }
    memset(target, 0, (size_t)(before * w->channels) * sizeof(float));
    memcpy(target + before * w->channels, image + y * w->width * w->channels,
           (size_t)(there * w->channels) * sizeof(float));
    memset(target + (before + there) * w->channels, 0,
           (size_t)((wide - before - there) * w->channels) * sizeof(float));
}

/* Prepares output rows `top` to `bottom`, counted through all images. */
INLINE void fill_band(const ConvSizes *n, const float *x, ptrdiff_t top, ptrdiff_t bottom,
                      Band *band) {
    const Windows *w = &n->windows;
    ptrdiff_t wide = band_width(n), tall = (w->window_height - 1) * n->dilation_height + 1;
    int whole = !w->pad_left && wide <= w->width && !w->pad_top
             && first_seen(w, w->out_height - 1) + tall <= w->height;
    float *free_room = band->room;
    band->apart = (whole ? w->width : wide) * w->channels;
    for (ptrdiff_t row = top; row < bottom;) {
        ptrdiff_t y = row % w->out_height;
        ptrdiff_t last = least(w->out_height - 1, y + bottom - 1 - row);
        ptrdiff_t number = row / w->out_height;
        const float *image = x + number * w->height * w->width * w->channels;
        const float *begin = whole ? image + first_seen(w, y) * band->apart : free_room;
        for (ptrdiff_t line = first_seen(w, y); !whole && line < first_seen(w, last) + tall;
             line++) {
            copy_row(n, image, line, free_room);
            free_room += band->apart;
        }
        for (ptrdiff_t first = y; y <= last; y++, row++)
            band->row[row - top] = begin + (y - first) * w->stride_height * band->apart;
    }
}

/* A part of the terms of a window: runs of neighbouring elements of the image. */
typedef struct {
    ptrdiff_t at, length, runs, skip; /* in the image */
    ptrdiff_t first;                  /* in the window */
} Chunk;

/* The next part, of at most DEPTH terms, that begins at term `first`. */
INLINE Chunk next_chunk(const ConvSizes *n, ptrdiff_t apart, ptrdiff_t first) {
    const Windows *w = &n->windows;
    /* Taps of a row are one run; dilated taps are a run each. */
    int dense = n->dilation_width == 1;
    ptrdiff_t run = dense ? w->window_width * w->channels : w->channels;
    ptrdiff_t runs = dense ? w->window_height : w->window_width;
    ptrdiff_t skip = dense ? n->dilation_height * apart : n->dilation_width * w->channels;
    ptrdiff_t row = dense ? 0 : first / (runs * run), rest = first - row * runs * run;
    ptrdiff_t parts = (run + DEPTH - 1) / DEPTH;
    ptrdiff_t part = (run + parts - 1) / parts, into = rest % run;
    Chunk chunk = {.at = row * n->dilation_height * apart + rest / run * skip + into,
                   .skip = skip,
                   .first = first};
    chunk.length = least(part, run - into);
    chunk.runs = parts > 1 ? 1 : least(DEPTH / run, runs - rest / run);
    return chunk;
}

/* Counts blocks. */
LOOP(conv, ConvArgs) {
    const ConvSizes *n = &args->sizes;
    const Windows *w = &n->windows;
    const ptrdiff_t features = n->features;
    const ptrdiff_t terms_in_all = w->window_height * w->window_width * w->channels;
    const float *kernel = args->kernel;
    float strip[TILE_COLUMNS * DEPTH] ON_A_LINE;
    Band band;
    if (!open_band(n, &band)) {
        set_status(args->status, NO_MEMORY);
        return;
    }
    for (ptrdiff_t block = from; block < to; block++) {
        ptrdiff_t top = block * n->block_rows, bottom = least(top + n->block_rows, n->rows);
        ptrdiff_t pixels = (bottom - top) * w->out_width;
        float *y = args->y + top * w->out_width * features;
        fill_band(n, args->x, top, bottom, &band);
        for (ptrdiff_t j = 0; j < features; j += TILE_COLUMNS) {
            ptrdiff_t wide = least(TILE_COLUMNS, features - j);
            for (ptrdiff_t first = 0; first < terms_in_all;) {
                Chunk chunk = next_chunk(n, band.apart, first);
                ptrdiff_t depth = chunk.length * chunk.runs, row = 0, column = 0;
                Terms terms = {.length = chunk.length,
                               .runs = chunk.runs,
                               .groups = 1,
                               .skip = chunk.skip,
                               .b = kernel + first * features + j,
                               .step_b = features};
                if (args->strips) {
                    terms.b = args->strips + j * terms_in_all + first * TILE_COLUMNS;
                    terms.step_b = TILE_COLUMNS;
                } else if (wide % WIDTH) {
                    pack_panel(terms.b, 1, features, wide, depth, TILE_COLUMNS, strip);
                    terms.b = strip, terms.step_b = TILE_COLUMNS;
                } else if (keeps(pixels, wide) && pixels > TILE_ROWS) {
                    terms.keep = strip;
                }
                for (ptrdiff_t i = 0; i < pixels; i += TILE_ROWS) {
                    ptrdiff_t high = least(TILE_ROWS, pixels - i);
                    for (ptrdiff_t r = 0; r < high; r++) {
                        terms.line[r] =
                            band.row[row] + column * w->stride_width * w->channels + chunk.at;
                        if (++column == w->out_width)
                            column = 0, row++;
                    }
                    any_tile(0, high, &terms, y + i * features + j, features, wide, first > 0);
                    if (terms.keep)
                        terms.keep = NULL, terms.b = strip, terms.step_b = TILE_COLUMNS;
                }
                first += depth;
            }
        }
        /* The first pixel contains all of the kernel, if only times the zeros around an image. */
        if (!are_finite(y, features))
            set_status(args->status, NOT_FINITE);
    }
    free(band.room);
}

/* Adds the part of `rows` output rows, of `length` pixels each, of `images` images to the gradient
 * of the kernel: `image` is the beginning of the first window, g its gradient. */
static void add_slopes(const ConvSizes *n, const float *image, ptrdiff_t apart, ptrdiff_t images,
                       ptrdiff_t leap, ptrdiff_t rows, ptrdiff_t length, const float *g, float *sum,
                       int add) {
    const Windows *w = &n->windows;
    const ptrdiff_t features = n->features;
    ptrdiff_t taps = n->dilation_width == 1 ? 1 : w->window_width;
    ptrdiff_t run = w->window_width * w->channels / taps;
    float strip[TILE_COLUMNS * DEPTH] ON_A_LINE;
    for (ptrdiff_t j = 0; j < features; j += TILE_COLUMNS) {
        ptrdiff_t wide = least(TILE_COLUMNS, features - j);
        Terms terms = {.length = length,
                       .runs = rows,
                       .skip = w->stride_height * apart,
                       .groups = images,
                       .leap = leap,
                       .step = w->stride_width * w->channels,
                       .b = g + j,
                       .step_b = features};
        if (wide % WIDTH) {
            pack_panel(terms.b, 1, features, wide, images * rows * length, TILE_COLUMNS, strip);
            terms.b = strip, terms.step_b = TILE_COLUMNS;
        } else if (keeps(run, wide)) {
            terms.keep = strip;
        }
        for (ptrdiff_t tap = 0; tap < w->window_height * taps; tap++) {
            const float *seen = image + tap / taps * n->dilation_height * apart
                              + tap % taps * n->dilation_width * w->channels;
            for (ptrdiff_t i = 0; i < run; i += TILE_ROWS) {
                terms.line[0] = seen + i;
                any_tile(1, least(TILE_ROWS, run - i), &terms, sum + (tap * run + i) * features + j,
                         features, wide, add);
                if (terms.keep)
                    terms.keep = NULL, terms.b = strip, terms.step_b = TILE_COLUMNS;
            }
        }
    }
}

/* Counts parts. */
LOOP(conv_kernel_gradient, ConvKernelGradientArgs) {
    const ConvSizes *n = &args->sizes;
    const Windows *w = &n->windows;
    const ptrdiff_t features = n->features;
    const ptrdiff_t size = w->window_height * w->window_width * w->channels * features;
    ptrdiff_t parts = args->parts, blocks = (n->rows + n->block_rows - 1) / n->block_rows;
    Band band;
    if (!open_band(n, &band)) {
        set_status(args->status, NO_MEMORY);
        return;
    }
    for (ptrdiff_t part = from; part < to; part++) {
        ptrdiff_t begin = part * blocks / parts, end = (part + 1) * blocks / parts;
        float *sum = args->sums + part * size;
        int add = 0;
        for (ptrdiff_t block = begin; block < end; block++) {
            ptrdiff_t top = block * n->block_rows, bottom = least(top + n->block_rows, n->rows);
            fill_band(n, args->x, top, bottom, &band);
            for (ptrdiff_t row = top; row < bottom;) {
                /* Whole images at once, or rows of one; long rows in pieces. */
                ptrdiff_t rows = least(bottom - row, w->out_height - row % w->out_height);
                ptrdiff_t length = least(w->out_width, DEPTH);
                rows = least(rows, DEPTH / length);
                ptrdiff_t images = rows < w->out_height ? 1
                                                        : least((bottom - row) / w->out_height,
                                                                DEPTH / (w->out_height * length));
                const float *const *seen = band.row + row - top;
                for (ptrdiff_t x = 0; x < w->out_width; x += length, add = 1)
                    add_slopes(n, seen[0] + x * w->stride_width * w->channels, band.apart, images,
                               images > 1 ? seen[rows] - seen[0] : 0, rows,
                               least(length, w->out_width - x),
                               args->g + (row * w->out_width + x) * features, sum, add);
                row += images * rows;
            }
        }
        /* The gradient of the first tap contains all of g. */
        if (!are_finite(sum, features))
            set_status(args->status, NOT_FINITE);
    }
    free(band.room);
}
