/* Matrix products, split into pieces; the loop counts the pieces.
 *
 * A strip of b, as wide as a tile, is copied to the first-level cache while the first tile reads
 * it, and a block of a to the second-level cache where it is large and enough strips read it. Every
 * element of c is the sum of its terms in order, DEPTH at a time, wherever a tile or a piece
 * begins. */

/* Rows of a block of a: 528 KiB where there is AVX-512, for those processors' second-level caches
 * have 1 MiB or more; 396 KiB where there is AVX2, for those of AMD have 512 KiB; 240 KiB
 * elsewhere. */
#if defined(__AVX512F__)
#define BLOCK_ROWS 528
#elif defined(__AVX2__)
#define BLOCK_ROWS 264
#else
#define BLOCK_ROWS 240
#endif
/* With so few columns, a is read in place. */
#define FEW_COLUMNS (3 * TILE_COLUMNS)
/* With so many rows, and fewer columns than a vector has, the transpose is computed, but for sums
 * of so few terms: copies would take longer than what lanes are left out of. */
#define MANY_ROWS 48
#define FEW_TERMS 32

/* A matrix: the element (i, j) is at[i * row + j * column]. Its strips begin at `strips`, if that
 * is not NULL. */
typedef struct {
    const float *at;
    ptrdiff_t row, column;
    const float *strips;
} Matrix;

static int product_plus(ptrdiff_t rows, ptrdiff_t columns, ptrdiff_t inner, Matrix a, Matrix b,
                        int add, const float *bias, float *c, ptrdiff_t step_c);

/* The same by the transposes: few columns become few rows, which suit tiles. */
static int product_transposed(ptrdiff_t rows, ptrdiff_t columns, ptrdiff_t inner, Matrix a,
                              Matrix b, int add, const float *bias, float *c, ptrdiff_t step_c) {
    float *transposed = room_for(rows * columns);
    if (!transposed)
        return 0;
    for (ptrdiff_t i = 0; add && i < rows; i++)
        for (ptrdiff_t j = 0; j < columns; j++)
            transposed[j * rows + i] = bias ? bias[j] : c[i * step_c + j];
    Matrix left = {b.at, b.column, b.row}, right = {a.at, a.column, a.row};
    int done = product_plus(columns, rows, inner, left, right, add, NULL, transposed, rows);
    for (ptrdiff_t i = 0; done && i < rows; i++)
        for (ptrdiff_t j = 0; j < columns; j++)
            c[i * step_c + j] = transposed[j * rows + i];
    free(transposed);
    return done;
}

/* sums = a @ b for rows of b in memory, by the number of rows less 1; a is (inner, rows). */
#define SUMS_OF(n)                                                                                 \
    __attribute__((noinline)) static void sums_of_##n(ptrdiff_t inner, ptrdiff_t columns,          \
                                                      const float *a, Matrix b, float *sums) {     \
        memset(sums, 0, (size_t)(n * columns) * sizeof *sums);                                     \
        add_products(n, 0, a, b.at, b.row, inner, columns, sums);                                  \
    }
SUMS_OF(1)
SUMS_OF(2)
SUMS_OF(3)
SUMS_OF(4)
SUMS_OF(5)
SUMS_OF(6)
SUMS_OF(7)
SUMS_OF(8)

/* As product_plus, for a few rows and a matrix b that has rows in memory. */
static void product_of_few(ptrdiff_t rows, ptrdiff_t columns, ptrdiff_t inner, Matrix a, Matrix b,
                           int add, const float *bias, float *c, ptrdiff_t step_c) {
    static void (*const functions[])(ptrdiff_t, ptrdiff_t, const float *, Matrix, float *) = {
        sums_of_1, sums_of_2, sums_of_3, sums_of_4, sums_of_5, sums_of_6, sums_of_7, sums_of_8};
    float terms[MOST_FEW * DEPTH] ON_A_LINE, sums[TILE_COLUMNS * DEPTH] ON_A_LINE;
    const ptrdiff_t parts = (rows + MOST_FEW - 1) / MOST_FEW, tall = (rows + parts - 1) / parts;
    const ptrdiff_t most = TILE_COLUMNS * DEPTH / tall / (2 * WIDTH) * (2 * WIDTH);
    const ptrdiff_t runs = (inner + DEPTH - 1) / DEPTH;
    for (ptrdiff_t run = 0; run < runs; run++) {
        ptrdiff_t k = run * inner / runs, depth = (run + 1) * inner / runs - k;
        for (ptrdiff_t j = 0, wide; j < columns; j += wide) {
            wide = least(most, columns - j);
            for (ptrdiff_t top = 0, high; top < rows; top += high) {
                high = least(tall, rows - top);
                for (ptrdiff_t l = 0; l < depth; l++)
                    for (ptrdiff_t i = 0; i < high; i++)
                        terms[l * high + i] = a.at[(top + i) * a.row + (k + l) * a.column];
                Matrix part = {b.at + k * b.row + j, b.row, 1, NULL};
                functions[high - 1](depth, wide, terms, part, sums);
                for (ptrdiff_t i = 0; i < high; i++) {
                    float *target = c + (top + i) * step_c + j;
                    const float *base = bias && !run ? bias + j : target, *sum = sums + i * wide;
                    for (ptrdiff_t l = 0; l < wide; l++)
                        target[l] = add || run ? base[l] + sum[l] : sum[l];
                }
            }
        }
    }
}

/* Rows by a matrix of no more columns than a tile has and of few terms, as there are in stacks of
 * small matrices: neither is arranged for tiles. Vectors of b and of c reach into the rows behind,
 * which are written later; the last ones are copied. */
#define SMALL_TERMS 64
INLINE void small_product(const int vectors, ptrdiff_t rows, ptrdiff_t columns, ptrdiff_t inner,
                          Matrix a, Matrix b, float *c) {
    float strip[SMALL_TERMS * TILE_COLUMNS] ON_A_LINE;
    const ptrdiff_t held = vectors * WIDTH;
    const int high = WIDTH == 16 || vectors == 1 ? 8 : 4;
    for (ptrdiff_t k = 0; k < inner; k++) {
        const float *row = b.at + k * b.row;
        float *line = strip + k * held;
        if (b.column == 1 && k * b.row + held <= (inner - 1) * b.row + columns)
            for (int v = 0; v < vectors; v++)
                *(Vec *)(line + v * WIDTH) = *(const Vec *)(row + v * WIDTH);
        else
            for (ptrdiff_t j = 0; j < held; j++)
                line[j] = j < columns ? row[j * b.column] : 0.0f;
    }
    ptrdiff_t i = 0;
    for (; i + high <= rows; i += high) {
        Vec sum[8][VECTORS];
        const float *left = a.at + i * a.row;
        _Pragma("GCC unroll 8")
        for (int r = 0; r < high; r++)
            for (int v = 0; v < vectors; v++)
                sum[r][v] = (Vec){0};
        for (ptrdiff_t k = 0; k < inner; k++, left += a.column) {
            _Pragma("GCC unroll 8")
            for (int r = 0; r < high; r++)
                for (int v = 0; v < vectors; v++)
                    sum[r][v] += left[r * a.row] * *(const Vec *)(strip + k * held + v * WIDTH);
        }
        const int inside = (i + high - 1) * columns + held <= rows * columns;
        _Pragma("GCC unroll 8")
        for (int r = 0; r < high; r++)
            if (inside)
                for (int v = 0; v < vectors; v++)
                    *(Vec *)(c + (i + r) * columns + v * WIDTH) = sum[r][v];
        for (int r = 0; r < high && !inside; r++)
            memcpy(c + (i + r) * columns, sum[r], (size_t)columns * sizeof *c);
    }
    for (; i < rows; i++) {
        Vec sum[VECTORS] = {{0}};
        for (ptrdiff_t k = 0; k < inner; k++)
            for (int v = 0; v < vectors; v++)
                sum[v] +=
                    a.at[i * a.row + k * a.column] * *(const Vec *)(strip + k * held + v * WIDTH);
        memcpy(c + i * columns, sum, (size_t)columns * sizeof *c);
    }
}

/* c = a @ b, or where `add`, c += a @ b, or c = bias + a @ b for a row `bias` that is not NULL; of
 * matrices (rows, inner) and (inner, columns); c in rows, `step_c` apart. 0 if there is no memory.
 */
static int product_plus(ptrdiff_t rows, ptrdiff_t columns, ptrdiff_t inner, Matrix a, Matrix b,
                        int add, const float *bias, float *c, ptrdiff_t step_c) {
    if (columns <= (b.column == 1 ? TILE_COLUMNS : WIDTH) && rows > 1 && inner && step_c == columns
        && !add && !b.strips && inner <= (rows > MANY_ROWS ? FEW_TERMS : SMALL_TERMS)) {
        if (columns <= WIDTH)
            small_product(1, rows, columns, inner, a, b, c);
        else
            small_product(VECTORS, rows, columns, inner, a, b, c);
        return 1;
    }
    if (columns < WIDTH && rows > MANY_ROWS && inner > FEW_TERMS)
        return product_transposed(rows, columns, inner, a, b, add, bias, c, step_c);
    if (rows > 1 && rows <= FEWEST_ROWS && columns >= TILE_COLUMNS && inner && b.column == 1
        && !b.strips) {
        product_of_few(rows, columns, inner, a, b, add, bias, c, step_c);
        return 1;
    }
    float strip[TILE_COLUMNS * DEPTH] ON_A_LINE, *block = NULL;
    int packed = a.column == 1 ? rows > FEW_ROWS && columns > FEW_COLUMNS
                               : a.row != 1 || columns > FEW_COLUMNS;
    int transposed = packed || a.row == 1;
    ptrdiff_t runs = (inner + DEPTH - 1) / DEPTH, blocks = (rows + BLOCK_ROWS - 1) / BLOCK_ROWS;
    ptrdiff_t tall = (rows + blocks * TILE_ROWS - 1) / (blocks * TILE_ROWS) * TILE_ROWS;
    if (packed && !(block = room_for(tall * DEPTH)))
        return 0;
    for (ptrdiff_t run = 0; run < runs; run++) {
        ptrdiff_t k = run * inner / runs, depth = (run + 1) * inner / runs - k;
        for (ptrdiff_t top = 0; top < rows; top += tall) {
            ptrdiff_t height = least(tall, rows - top);
            const float *left = a.at + top * a.row + k * a.column;
            if (packed)
                pack_tiles(left, a.row, a.column, height, depth, block);
            for (ptrdiff_t j = 0; j < columns; j += TILE_COLUMNS) {
                ptrdiff_t wide = least(TILE_COLUMNS, columns - j);
                Terms terms = {.length = depth,
                               .runs = 1,
                               .groups = 1,
                               .step = packed ? TILE_ROWS : a.column,
                               .b = b.at + k * b.row + j * b.column,
                               .step_b = b.row,
                               .bias = bias && !run ? bias + j : NULL};
                if (b.strips) {
                    terms.b = b.strips + j * inner + k * TILE_COLUMNS;
                    terms.step_b = TILE_COLUMNS;
                } else if (b.column != 1 || wide % WIDTH) {
                    /* As wide as the vectors that a tile of so many columns reads. */
                    const ptrdiff_t held = (wide + WIDTH - 1) / WIDTH * WIDTH;
                    if (!run || columns > TILE_COLUMNS) /* else its zeros are still there */
                        clear_panel(wide, least(DEPTH, inner), held, strip);
                    copy_panel(terms.b, b.column, b.row, wide, depth, held, strip);
                    terms.b = strip, terms.step_b = held;
                } else if (keeps(height, wide) && height > TILE_ROWS) {
                    terms.keep = strip;
                }
                for (ptrdiff_t i = 0; i < height; i += TILE_ROWS) {
                    ptrdiff_t high = least(TILE_ROWS, height - i);
                    for (ptrdiff_t r = 0; r < high; r++)
                        terms.line[r] =
                            packed ? block + i * depth : left + (i + (transposed ? 0 : r)) * a.row;
                    any_tile(transposed, high, &terms, c + (top + i) * step_c + j, step_c, wide,
                             add || run);
                    if (terms.keep)
                        terms.keep = NULL, terms.b = strip, terms.step_b = TILE_COLUMNS;
                }
            }
        }
    }
    free(block);
    for (ptrdiff_t i = 0; !inner && (bias || !add) && i < rows; i++)
        for (ptrdiff_t j = 0; j < columns; j++)
            c[i * step_c + j] = bias ? bias[j] : 0.0f;
    return 1;
}

static int product(ptrdiff_t rows, ptrdiff_t columns, ptrdiff_t inner, Matrix a, Matrix b, int add,
                   float *c, ptrdiff_t step_c) {
    return product_plus(rows, columns, inner, a, b, add, NULL, c, step_c);
}

/* A piece of the products of stacks of matrices: its size, and where it begins in a, b and c. */
typedef struct {
    ptrdiff_t rows, columns, first_column, a, b, c;
} Part;

INLINE Part part_of(const ProductSizes *sizes, ptrdiff_t piece) {
    const ptrdiff_t high = sizes->piece_rows, wide = sizes->piece_columns;
    if (high >= sizes->rows && wide >= sizes->columns) /* many small ones: divisions would tell */
        return (Part){.rows = sizes->rows,
                      .columns = sizes->columns,
                      .a = piece * sizes->a_item_step,
                      .b = piece * sizes->b_item_step,
                      .c = piece * sizes->c_item_step};
    const ptrdiff_t down = (sizes->rows + high - 1) / high;
    const ptrdiff_t across = (sizes->columns + wide - 1) / wide;
    ptrdiff_t item = piece / (down * across), rest = piece % (down * across);
    ptrdiff_t i = rest / across * high, j = rest % across * wide;
    return (Part){.rows = least(high, sizes->rows - i),
                  .columns = least(wide, sizes->columns - j),
                  .first_column = j,
                  .a = item * sizes->a_item_step + i * sizes->a_row_step,
                  .b = item * sizes->b_item_step + j * sizes->b_column_step,
                  .c = item * sizes->c_item_step + i * sizes->c_row_step + j};
}

/* Products of stacks of matrices. */
LOOP(product, ProductArgs) {
    const ProductSizes *sizes = &args->sizes;
    for (ptrdiff_t piece = from; piece < to; piece++) {
        Part part = part_of(sizes, piece);
        Matrix a = {args->a + part.a, sizes->a_row_step, sizes->a_column_step};
        Matrix b = {args->b + part.b, sizes->b_row_step, sizes->b_column_step,
                    args->strips ? args->strips + part.first_column * sizes->inner : NULL};
        const float *bias = args->bias ? args->bias + part.first_column : NULL;
        if (!product_plus(part.rows, part.columns, sizes->inner, a, b, bias != NULL, bias,
                          args->c + part.c, sizes->c_row_step))
            set_status(args->status, NO_MEMORY);
    }
}

/* Products by a matrix that is copied once: its strips lie one after the other. -------------- */

/* Strips of `inner` rows for so many columns; NULL if there is no memory. */
static float *room_for_strips(ptrdiff_t inner, ptrdiff_t columns) {
    return room_for((columns + TILE_COLUMNS - 1) / TILE_COLUMNS * inner * TILE_COLUMNS);
}

/* Copies b of (rows, columns) to the rows from `first` on of strips of `inner` rows, the last
 * strip padded with 0. */
static void fill_strips(Matrix b, ptrdiff_t first, ptrdiff_t rows, ptrdiff_t inner,
                        ptrdiff_t columns, float *strips) {
    for (ptrdiff_t j = 0; j < columns; j += TILE_COLUMNS)
        pack_panel(b.at + j * b.column, b.column, b.row, least(TILE_COLUMNS, columns - j), rows,
                   TILE_COLUMNS, strips + j * inner + first * TILE_COLUMNS);
}

/* Counts strips. */
LOOP(pack_strips, PackStripsArgs) {
    for (ptrdiff_t strip = from; strip < to; strip++) {
        ptrdiff_t j = strip * TILE_COLUMNS;
        if (j < args->columns)
            pack_panel(args->b + j, 1, args->columns, least(TILE_COLUMNS, args->columns - j),
                       args->inner, TILE_COLUMNS, args->strips + j * args->inner);
    }
}

/* y = x @ b, or y += x @ b, of one row, for `length` rows of strips that are `size` apart: four
 * strips at once, since the sums of a single strip would wait for each other. */
static void row_by_strips(ptrdiff_t columns, ptrdiff_t length, const float *x, const float *strips,
                          ptrdiff_t size, int add, float *y) {
    ptrdiff_t j = 0;
    for (; j + 4 * TILE_COLUMNS <= columns; j += 4 * TILE_COLUMNS, strips += 4 * size) {
        Vec sum[4][VECTORS];
        _Pragma("GCC unroll 4")
        for (int s = 0; s < 4; s++) {
            _Pragma("GCC unroll 4")
            for (int v = 0; v < VECTORS; v++)
                sum[s][v] = (Vec){0};
        }
        for (ptrdiff_t k = 0; k < length; k++) {
            _Pragma("GCC unroll 4")
            for (int s = 0; s < 4; s++) {
                _Pragma("GCC unroll 4")
                for (int v = 0; v < VECTORS; v++)
                    sum[s][v] +=
                        x[k] * *(const Vec *)(strips + s * size + k * TILE_COLUMNS + v * WIDTH);
            }
        }
        for (int s = 0; s < 4; s++)
            for (int v = 0; v < VECTORS; v++) {
                Vec *target = (Vec *)(y + j + s * TILE_COLUMNS + v * WIDTH);
                if (add)
                    sum[s][v] += *target;
                *target = sum[s][v];
            }
    }
    for (; j < columns; j += TILE_COLUMNS, strips += size) {
        Terms terms = {.line = {x},
                       .length = length,
                       .runs = 1,
                       .groups = 1,
                       .b = strips,
                       .step_b = TILE_COLUMNS};
        any_tile(0, 1, &terms, y + j, columns, least(TILE_COLUMNS, columns - j), add);
    }
}

/* The rows of the next tile where so many are left: the last two are alike, since the sums of a few
 * rows wait for each other. */
static inline ptrdiff_t even_height(ptrdiff_t left) {
    return left > TILE_ROWS && left < 2 * TILE_ROWS ? (left + 1) / 2 : least(left, TILE_ROWS);
}

/* c = a @ b, or c += a @ b, for a whose rows are `step_a` apart. */
static void by_strips(ptrdiff_t rows, ptrdiff_t columns, ptrdiff_t inner, const float *a,
                      ptrdiff_t step_a, const float *strips, int add, float *c, ptrdiff_t step_c) {
    /* As for several rows, DEPTH terms at a time: how many there are depends on the threads. */
    for (ptrdiff_t first = 0; rows == 1 && first < inner; first += DEPTH)
        row_by_strips(columns, least(DEPTH, inner - first), a + first,
                      strips + first * TILE_COLUMNS, inner * TILE_COLUMNS, add || first, c);
    if (rows == 1)
        return;
    for (ptrdiff_t j = 0; j < columns; j += TILE_COLUMNS, strips += inner * TILE_COLUMNS)
        for (ptrdiff_t first = 0; first < inner; first += DEPTH)
            for (ptrdiff_t i = 0, high; i < rows; i += high) {
                high = even_height(rows - i);
                Terms terms = {.length = least(DEPTH, inner - first),
                               .runs = 1,
                               .groups = 1,
                               .b = strips + first * TILE_COLUMNS,
                               .step_b = TILE_COLUMNS};
                for (ptrdiff_t r = 0; r < high; r++)
                    terms.line[r] = a + (i + r) * step_a + first;
                any_tile(0, high, &terms, c + i * step_c + j, step_c,
                         least(TILE_COLUMNS, columns - j), add || first);
            }
}
