/* Convolution over images, channels last, as products without a matrix of windows: rows of a window
 * lie in the image as they are, so tiles read them there. What lies beyond the edges is 0: the part of
 * an image that a block of output rows sees, its band, is copied with zeros around it.
 * n: 0 height, 1 width, 2 channels, 3 out height, 4 out width, 5 and 6 the window, 7 and 8 the
 * strides, 9 and 10 the padding before, 11 and 12 the dilation, 13 features, 14 rows of the output
 * in all, 15 rows of a block. */

/* Where the windows of a block's output rows begin, and how far apart rows of the image are there. */
typedef struct {
    const float *row[DEPTH];
    ptrdiff_t apart;
    float *room;
} Band;

/* Columns of the image that the windows of a row cover. */
INLINE ptrdiff_t band_width(const ptrdiff_t *n) { return (n[4] - 1) * n[8] + (n[6] - 1) * n[12] + 1; }

/* The first row of the image that output row y sees. */
INLINE ptrdiff_t first_seen(const ptrdiff_t *n, ptrdiff_t y) { return y * n[7] - n[9]; }

INLINE int open_band(const ptrdiff_t *n, Band *band) {
    /* Output rows of a block may belong to as many images. */
    ptrdiff_t images = least(n[15], (n[15] - 1) / n[3] + 2);
    ptrdiff_t rows = n[15] * n[7] + images * ((n[5] - 1) * n[11] + 1);
    size_t bytes = (size_t)(rows * band_width(n) * n[2]) * sizeof(float);
    band->room = aligned_alloc(64, (bytes + 63) / 64 * 64);
    return band->room != NULL;
}

/* Copies row y of an image, with zeros beyond the edges. */
INLINE void copy_row(const ptrdiff_t *n, const float *image, ptrdiff_t y, float *target) {
    ptrdiff_t wide = band_width(n), before = least(n[10], wide), there = least(n[1], wide - before);
    if (y < 0 || y >= n[0]) {
        memset(target, 0, (size_t)(wide * n[2]) * sizeof(float));
        return;
    }
    memset(target, 0, (size_t)(before * n[2]) * sizeof(float));
    memcpy(target + before * n[2], image + y * n[1] * n[2], (size_t)(there * n[2]) * sizeof(float));
    memset(target + (before + there) * n[2], 0, (size_t)((wide - before - there) * n[2]) * sizeof(float));
}

/* Prepares output rows `top` to `bottom`, counted through all images. */
INLINE void fill_band(const ptrdiff_t *n, const float *x, ptrdiff_t top, ptrdiff_t bottom, Band *band) {
    ptrdiff_t wide = band_width(n), tall = (n[5] - 1) * n[11] + 1;
    int whole = !n[10] && wide <= n[1] && !n[9] && first_seen(n, n[3] - 1) + tall <= n[0];
    float *free_room = band->room;
    band->apart = (whole ? n[1] : wide) * n[2];
    for (ptrdiff_t row = top; row < bottom;) {
        ptrdiff_t y = row % n[3], last = least(n[3] - 1, y + bottom - 1 - row);
        const float *image = x + row / n[3] * n[0] * n[1] * n[2];
        const float *begin = whole ? image + first_seen(n, y) * band->apart : free_room;
        for (ptrdiff_t line = first_seen(n, y); !whole && line < first_seen(n, last) + tall; line++) {
            copy_row(n, image, line, free_room);
            free_room += band->apart;
        }
        for (ptrdiff_t first = y; y <= last; y++, row++)
            band->row[row - top] = begin + (y - first) * n[7] * band->apart;
    }
}

/* A part of the terms of a window: runs of elements that are next to each other in the image. */
typedef struct {
    ptrdiff_t at, length, runs, skip; /* in the image */
    ptrdiff_t first;                  /* in the window */
} Chunk;

/* The next part, of at most DEPTH terms, that begins at term `first`. */
INLINE Chunk next_chunk(const ptrdiff_t *n, ptrdiff_t apart, ptrdiff_t first) {
    /* Taps of a row are one run, or one run each where they are dilated. */
    ptrdiff_t run = n[12] == 1 ? n[6] * n[2] : n[2], runs = n[12] == 1 ? n[5] : n[6];
    ptrdiff_t skip = n[12] == 1 ? n[11] * apart : n[12] * n[2];
    ptrdiff_t row = n[12] == 1 ? 0 : first / (runs * run), place = first - row * runs * run;
    ptrdiff_t parts = (run + DEPTH - 1) / DEPTH, part = (run + parts - 1) / parts, into = place % run;
    Chunk chunk = {.at = row * n[11] * apart + place / run * skip + into, .skip = skip, .first = first};
    chunk.length = least(part, run - into);
    chunk.runs = parts > 1 ? 1 : least(DEPTH / run, runs - place / run);
    return chunk;
}

/* x and the kernel in, y out, and p[3], what the loop says; blocks are counted. */
LOOP(conv) {
    const ptrdiff_t *n = job->n, features = n[13], terms_in_all = n[5] * n[6] * n[2];
    const float *kernel = job->p[1];
    float strip[TILE_COLUMNS * DEPTH] ON_A_LINE;
    Band band;
    if (!open_band(n, &band)) {
        say(job, 3, NO_MEMORY);
        return;
    }
    for (ptrdiff_t block = from; block < to; block++) {
        ptrdiff_t top = block * n[15], bottom = least(top + n[15], n[14]), pixels = (bottom - top) * n[4];
        float *y = (float *)job->p[2] + top * n[4] * features;
        fill_band(n, job->p[0], top, bottom, &band);
        for (ptrdiff_t j = 0; j < features; j += TILE_COLUMNS) {
            ptrdiff_t wide = least(TILE_COLUMNS, features - j);
            for (ptrdiff_t first = 0; first < terms_in_all;) {
                Chunk chunk = next_chunk(n, band.apart, first);
                ptrdiff_t depth = chunk.length * chunk.runs, row = 0, column = 0;
                Terms terms = {.length = chunk.length, .runs = chunk.runs, .groups = 1, .skip = chunk.skip,
                               .b = kernel + first * features + j, .step_b = features};
                if (wide % WIDTH) {
                    pack(terms.b, 1, features, wide, depth, TILE_COLUMNS, strip);
                    terms.b = strip, terms.step_b = TILE_COLUMNS;
                } else if (keeps(pixels, wide) && pixels > TILE_ROWS) {
                    terms.keep = strip;
                }
                for (ptrdiff_t i = 0; i < pixels; i += TILE_ROWS) {
                    ptrdiff_t high = least(TILE_ROWS, pixels - i);
                    for (ptrdiff_t r = 0; r < high; r++) {
                        terms.line[r] = band.row[row] + column * n[8] * n[2] + chunk.at;
                        if (++column == n[4])
                            column = 0, row++;
                    }
                    any_tile(0, high, &terms, y + i * features + j, features, wide, first > 0);
                    if (terms.keep)
                        terms.keep = NULL, terms.b = strip, terms.step_b = TILE_COLUMNS;
                }
                first += depth;
            }
        }
        /* All of the kernel is in the first pixel, if only times the zeros around an image. */
        if (!are_finite(y, features))
            say(job, 3, NOT_FINITE);
    }
    free(band.room);
}

/* Adds what `rows` output rows, of `length` pixels each, of `images` images give to the gradient of the
 * kernel: `image` is what the first window sees, g the first cotangent. */
static void add_slopes(const ptrdiff_t *n, const float *image, ptrdiff_t apart, ptrdiff_t images,
                       ptrdiff_t leap, ptrdiff_t rows, ptrdiff_t length, const float *g, float *sum,
                       int add) {
    const ptrdiff_t features = n[13];
    ptrdiff_t taps = n[12] == 1 ? 1 : n[6], run = n[6] * n[2] / taps;
    float strip[TILE_COLUMNS * DEPTH] ON_A_LINE;
    for (ptrdiff_t j = 0; j < features; j += TILE_COLUMNS) {
        ptrdiff_t wide = least(TILE_COLUMNS, features - j);
        Terms terms = {.length = length, .runs = rows, .skip = n[7] * apart, .groups = images,
                       .leap = leap, .step = n[8] * n[2], .b = g + j, .step_b = features};
        if (wide % WIDTH) {
            pack(terms.b, 1, features, wide, images * rows * length, TILE_COLUMNS, strip);
            terms.b = strip, terms.step_b = TILE_COLUMNS;
        } else if (keeps(run, wide)) {
            terms.keep = strip;
        }
        for (ptrdiff_t tap = 0; tap < n[5] * taps; tap++) {
            const float *seen = image + tap / taps * n[11] * apart + tap % taps * n[12] * n[2];
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

/* x and g in, c[0] sums of a share of the blocks each out; sums are counted. */
LOOP(conv_kernel_gradient) {
    const ptrdiff_t *n = job->n, features = n[13], size = n[5] * n[6] * n[2] * features;
    ptrdiff_t parts = (ptrdiff_t)job->c[0], blocks = (n[14] + n[15] - 1) / n[15];
    Band band;
    if (!open_band(n, &band)) {
        say(job, 3, NO_MEMORY);
        return;
    }
    for (ptrdiff_t part = from; part < to; part++) {
        ptrdiff_t begin = part * blocks / parts, end = (part + 1) * blocks / parts;
        float *sum = (float *)job->p[2] + part * size;
        int add = 0;
        for (ptrdiff_t block = begin; block < end; block++) {
            ptrdiff_t top = block * n[15], bottom = least(top + n[15], n[14]);
            fill_band(n, job->p[0], top, bottom, &band);
            for (ptrdiff_t row = top; row < bottom;) {
                /* Whole images at once, or rows of one; long rows in pieces. */
                ptrdiff_t rows = least(bottom - row, n[3] - row % n[3]), length = least(n[4], DEPTH);
                rows = least(rows, DEPTH / length);
                ptrdiff_t images = rows < n[3] ? 1 : least((bottom - row) / n[3], DEPTH / (n[3] * length));
                const float *const *seen = band.row + row - top;
                for (ptrdiff_t x = 0; x < n[4]; x += length, add = 1)
                    add_slopes(n, seen[0] + x * n[8] * n[2], band.apart, images,
                               images > 1 ? seen[rows] - seen[0] : 0, rows, least(length, n[4] - x),
                               (const float *)job->p[1] + (row * n[4] + x) * features, sum, add);
                row += images * rows;
            }
        }
        /* All of g is in the slopes of the first tap. */
        if (!are_finite(sum, features))
            say(job, 3, NOT_FINITE);
    }
    free(band.room);
}
