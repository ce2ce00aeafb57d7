/* bfloat16, which is stored and not computed with: conversions, elements by the loops of float32,
 * and products with sums in float32 that are rounded once.
 *
 * Every element of a product is the sum of its terms in an order that does not depend on where a
 * piece begins, as in product.inc.h. */

/* To the nearest, ties to even. Of NaN the sign is kept, and nothing else. */
INLINE Bfloat16 narrowed(float x) {
    uint32_t bits = (uint32_t)as_bits(x);
    uint32_t nearest = (bits + 0x7fff + (bits >> 16 & 1)) >> 16, nan = bits >> 16 & 0x8000;
    return (Bfloat16)((bits & 0x7fffffff) > 0x7f800000 ? nan | 0x7fc0 : nearest);
}

INLINE void widen_row(const Bfloat16 *restrict x, ptrdiff_t count, float *restrict y) {
    _Pragma("omp simd")
    for (ptrdiff_t i = 0; i < count; i++)
        y[i] = widened(x[i]);
}

LOOP(narrow, NarrowArgs) {
    const float *restrict source = args->x;
    Bfloat16 *restrict target = args->y;
    _Pragma("omp simd")
    for (ptrdiff_t i = from; i < to; i++)
        target[i] = narrowed(source[i]);
}

/* The sums of a row, and a bias unless that is NULL, rounded. */
INLINE void narrow_sums(const float *restrict sums, const Bfloat16 *restrict bias, ptrdiff_t count,
                        Bfloat16 *restrict y) {
    if (bias) {
        _Pragma("omp simd")
        for (ptrdiff_t j = 0; j < count; j++)
            y[j] = narrowed(sums[j] + widened(bias[j]));
    } else {
        _Pragma("omp simd")
        for (ptrdiff_t j = 0; j < count; j++)
            y[j] = narrowed(sums[j]);
    }
}

/* y[i * step + k] = x[i * row + k * column] for `rows` i and `columns` k. */
static void widen_rows(const Bfloat16 *x, ptrdiff_t row, ptrdiff_t column, ptrdiff_t rows,
                       ptrdiff_t columns, float *y, ptrdiff_t step) {
    for (ptrdiff_t i = 0; i < rows; i++, x += row, y += step) {
        if (column == 1)
            widen_row(x, columns, y);
        for (ptrdiff_t k = 0; column != 1 && k < columns; k++)
            y[k] = widened(x[k * column]);
    }
}

/* Many rows. ----------------------------------------------------------------------------------- */

/* Copies a of (rows, inner), whose columns are in memory `step` apart, to tiles: in each the
 * elements (i, k) at k * TILE_ROWS + i. */
static void widen_tiles(const Bfloat16 *a, ptrdiff_t step, ptrdiff_t rows, ptrdiff_t inner,
                        float *tiles) {
    float column[MOST_ROWS + TILE_ROWS];
    memset(column + rows, 0, TILE_ROWS * sizeof(float));
    for (ptrdiff_t k = 0; k < inner; k++) {
        widen_row(a + k * step, rows, column);
        for (ptrdiff_t i = 0; i < rows; i += TILE_ROWS)
            memcpy(tiles + i * inner + k * TILE_ROWS, column + i, TILE_ROWS * sizeof(float));
    }
}

/* Copies b of (inner, columns) to strips of `inner` rows, as wide as a tile; `room` has place for
 * a strip. */
static void pack_widened(const Bfloat16 *b, ptrdiff_t row, ptrdiff_t column, ptrdiff_t inner,
                         ptrdiff_t columns, float *strips, float *room) {
    ptrdiff_t whole = column == 1 ? columns - columns % TILE_COLUMNS : 0;
    for (ptrdiff_t k = 0; k < inner; k++)
        for (ptrdiff_t j = 0; j < whole; j += TILE_COLUMNS) {
            _Pragma("GCC unroll 4")
            for (int v = 0; v < TILE_COLUMNS; v += WIDTH)
                *(Vec *)(strips + j * inner + k * TILE_COLUMNS + v) =
                    widened_vector(b + k * row + j + v);
        }
    for (ptrdiff_t j = whole; j < columns; j += TILE_COLUMNS) {
        ptrdiff_t wide = least(TILE_COLUMNS, columns - j);
        widen_rows(b + j * column, column, row, wide, inner, room, inner);
        pack_panel(room, inner, 1, wide, inner, TILE_COLUMNS, strips + j * inner);
    }
}

/* A piece has at most so many rows and columns that its copies fit into a second-level cache. */
LOOP(product_bfloat16, Bfloat16ProductArgs) {
    const ProductSizes *sizes = &args->sizes;
    const ptrdiff_t inner = sizes->inner, runs = inner ? (inner + DEPTH - 1) / DEPTH : 1;
    const ptrdiff_t high = (sizes->piece_rows + TILE_ROWS - 1) / TILE_ROWS * TILE_ROWS;
    const ptrdiff_t wide = (sizes->piece_columns + TILE_COLUMNS - 1) / TILE_COLUMNS * TILE_COLUMNS;
    float strip[TILE_COLUMNS * DEPTH] ON_A_LINE;
    float *sums = room_for(high * wide + high * DEPTH + wide * DEPTH);
    if (!sums) {
        set_status(args->status, NO_MEMORY);
        return;
    }
    float *block = sums + high * wide, *strips = block + high * DEPTH;
    /* A tile reads rows of a, or where its columns are in memory, copies as tall as a tile. */
    const int transposed = sizes->a_column_step != 1 && sizes->a_row_step == 1;
    for (ptrdiff_t piece = from; piece < to; piece++) {
        Part part = part_of(sizes, piece);
        for (ptrdiff_t run = 0; run < runs; run++) {
            ptrdiff_t k = run * inner / runs, depth = (run + 1) * inner / runs - k;
            const Bfloat16 *a = args->a + part.a + k * sizes->a_column_step;
            if (transposed)
                widen_tiles(a, sizes->a_column_step, part.rows, depth, block);
            else
                widen_rows(a, sizes->a_row_step, sizes->a_column_step, part.rows, depth, block,
                           DEPTH);
            pack_widened(args->b + part.b + k * sizes->b_row_step, sizes->b_row_step,
                         sizes->b_column_step, depth, part.columns, strips, strip);
            for (ptrdiff_t j = 0; j < part.columns; j += TILE_COLUMNS)
                for (ptrdiff_t i = 0; i < part.rows; i += TILE_ROWS) {
                    ptrdiff_t rows = least(TILE_ROWS, part.rows - i);
                    Terms terms = {.length = depth,
                                   .runs = 1,
                                   .groups = 1,
                                   .step = TILE_ROWS,
                                   .b = strips + j * depth,
                                   .step_b = TILE_COLUMNS};
                    for (ptrdiff_t r = 0; r < rows; r++)
                        terms.line[r] = block + (transposed ? i * depth : (i + r) * DEPTH);
                    any_tile(transposed, rows, &terms, sums + i * wide + j, wide, TILE_COLUMNS,
                             run > 0);
                }
        }
        for (ptrdiff_t i = 0; i < part.rows; i++)
            narrow_sums(sums + i * wide, args->bias ? args->bias + part.first_column : NULL,
                        part.columns, args->c + part.c + i * sizes->c_row_step);
    }
    free(sums);
}

/* Few rows: b is read once, in place, at the speed of memory. ---------------------------------- */

/* The products of a with `columns` rows of b that are one after the other, `several` at once: a is
 * (rows, inner), sums are `step` apart. Lanes are added in order. */
INLINE void add_dots(const int rows, const int several, const float *a, const Bfloat16 *b,
                     ptrdiff_t step_b, ptrdiff_t inner, float *sums, ptrdiff_t step) {
    Vec sum[MOST_FEW][4];
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < several; j++)
            sum[i][j] = (Vec){0};
    ptrdiff_t k = 0;
    for (; k + WIDTH <= inner; k += WIDTH) {
        _Pragma("GCC unroll 4")
        for (int j = 0; j < several; j++) {
            Vec right = widened_vector(b + j * step_b + k);
            _Pragma("GCC unroll 8")
            for (int i = 0; i < rows; i++)
                sum[i][j] += *(const Vec *)(a + i * inner + k) * right;
        }
    }
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < several; j++) {
            float total = 0.0f;
            for (int lane = 0; lane < WIDTH; lane++)
                total += sum[i][j][lane];
            for (ptrdiff_t l = k; l < inner; l++)
                total += a[i * inner + l] * widened(b[j * step_b + l]);
            sums[i * step + j] = total;
        }
}

/* sums = a @ b. b has rows in memory, and a is (inner, rows); or b has columns in memory, and a is
 * (rows, inner). */
INLINE void few_of(const int rows, const float *a, const Bfloat16 *b, ptrdiff_t step_b,
                   int b_in_rows, ptrdiff_t inner, ptrdiff_t columns, float *sums) {
    /* As many sums as there are registers for. */
    const int several = rows <= 2 ? 4 : WIDTH < 16 ? (rows <= 4 ? 2 : 1) : rows <= 4 ? 4 : 3;
    ptrdiff_t j = 0;
    for (; !b_in_rows && j + several <= columns; j += several)
        add_dots(rows, several, a, b + j * step_b, step_b, inner, sums + j, columns);
    for (; !b_in_rows && j < columns; j++)
        add_dots(rows, 1, a, b + j * step_b, step_b, inner, sums + j, columns);
    if (!b_in_rows)
        return;
    memset(sums, 0, (size_t)(rows * columns) * sizeof *sums);
    add_products(rows, 1, a, b, step_b, inner, columns, sums);
}

#define FEW(n)                                                                                     \
    __attribute__((noinline)) static void few_##n(                                                 \
        const float *a, const Bfloat16 *b, ptrdiff_t step_b, int b_in_rows, ptrdiff_t inner,       \
        ptrdiff_t columns, float *sums) {                                                          \
        few_of(n, a, b, step_b, b_in_rows, inner, columns, sums);                                  \
    }
FEW(1)
FEW(2)
FEW(3)
FEW(4)
FEW(5)
FEW(6)
FEW(7)
FEW(8)

/* A piece has at most MOST_FEW rows; rows or columns of b are in memory. */
LOOP(few_rows_bfloat16, Bfloat16ProductArgs) {
    static void (*const functions[])(const float *, const Bfloat16 *, ptrdiff_t, int, ptrdiff_t,
                                     ptrdiff_t, float *) = {few_1, few_2, few_3, few_4,
                                                            few_5, few_6, few_7, few_8};
    const ProductSizes *sizes = &args->sizes;
    const ptrdiff_t inner = sizes->inner;
    const int b_in_rows = sizes->b_column_step == 1;
    const ptrdiff_t step_b = b_in_rows ? sizes->b_row_step : sizes->b_column_step;
    float *a = room_for(sizes->piece_rows * (inner + sizes->piece_columns));
    if (!a) {
        set_status(args->status, NO_MEMORY);
        return;
    }
    float *sums = a + sizes->piece_rows * inner;
    for (ptrdiff_t piece = from; piece < to; piece++) {
        Part part = part_of(sizes, piece);
        const ptrdiff_t rows = part.rows;
        if (b_in_rows && rows > 1)
            widen_rows(args->a + part.a, sizes->a_column_step, sizes->a_row_step, inner, rows, a,
                       rows);
        else
            widen_rows(args->a + part.a, sizes->a_row_step, sizes->a_column_step, rows, inner, a,
                       inner);
        functions[rows - 1](a, args->b + part.b, step_b, b_in_rows, inner, part.columns, sums);
        for (ptrdiff_t i = 0; i < rows; i++)
            narrow_sums(sums + i * part.columns, args->bias ? args->bias + part.first_column : NULL,
                        part.columns, args->c + part.c + i * sizes->c_row_step);
    }
    free(a);
}
