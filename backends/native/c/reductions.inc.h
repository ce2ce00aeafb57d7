/* Reductions along neighbouring axes: x is (outer, n, inner), and n is reduced.
 *
 * Columns are combined side by side, four rows at a time. What has no columns of its own, a row of
 * numbers, is taken as rows of LANES columns, whose results are combined in halves. float32 is
 * added and multiplied in double precision and rounded once. Sums begin with -0, which changes no
 * number, so that a sum of negative zeros is a negative zero. */

/* Columns of a piece: their results, of 8 bytes, fit into the first-level cache. */
#define COLUMNS 1024
/* Rows of fewer numbers are reduced side by side, or each as rows of 16 columns; of longer ones 64
 * columns are combined in levels. */
#define SHORT 48
#define LONG 512
#define BESIDE 16
/* Rows of at most half as many columns are combined several at a time. */
#define GROUPED 256
/* Rows that are combined before their result meets that of other rows: an error of a sum grows with
 * this number and with that of the groups, not with their product. */
#define LEVEL 64

/* Called, not copied into each caller: the loops below are the same for all. */
#define PART static __attribute__((noinline))

/* For an op: the dtype T of x, A in which it is reduced, and P in which results of parts are
 * stored; the result of nothing; what an element x is there; what two of them, a and b, are
 * together; the number y that is stored for the result a. */
#define FOLD(op, T, A, P, START, TERM, JOIN, FINISH)                                               \
    INLINE A term_##op(T x) { return TERM; }                                                       \
    INLINE A join_##op(A a, A b) { return JOIN; }                                                  \
    INLINE void few_##op(const T *x, ptrdiff_t rows, ptrdiff_t stride, ptrdiff_t columns,          \
                         A *restrict total) {                                                      \
        ptrdiff_t row = 0;                                                                         \
        for (; row + 4 <= rows; row += 4) {                                                        \
            const T *x1 = x + row * stride, *x2 = x1 + stride, *x3 = x2 + stride;                  \
            const T *x4 = x3 + stride;                                                             \
            _Pragma("omp simd")                                                                    \
            for (ptrdiff_t i = 0; i < columns; i++) {                                              \
                A a = join_##op(term_##op(x1[i]), term_##op(x2[i]));                               \
                A b = join_##op(term_##op(x3[i]), term_##op(x4[i]));                               \
                total[i] = join_##op(total[i], join_##op(a, b));                                   \
            }                                                                                      \
        }                                                                                          \
        for (; row < rows; row++) {                                                                \
            const T *x1 = x + row * stride;                                                        \
            _Pragma("omp simd")                                                                    \
            for (ptrdiff_t i = 0; i < columns; i++)                                                \
                total[i] = join_##op(total[i], term_##op(x1[i]));                                  \
        }                                                                                          \
    }                                                                                              \
    PART void rows_##op(const T *x, ptrdiff_t rows, ptrdiff_t stride, ptrdiff_t columns,           \
                        A *restrict total) {                                                       \
        few_##op(x, rows, stride, columns, total);                                                 \
    }                                                                                              \
    INLINE void start_##op(A *restrict total, ptrdiff_t columns) {                                 \
        for (ptrdiff_t i = 0; i < columns; i++)                                                    \
            total[i] = START;                                                                      \
    }                                                                                              \
    PART void levels_##op(const T *x, ptrdiff_t rows, ptrdiff_t stride, ptrdiff_t columns,         \
                          A *restrict total) {                                                     \
        A level[COLUMNS];                                                                          \
        start_##op(total, columns);                                                                \
        if (rows <= LEVEL) {                                                                       \
            rows_##op(x, rows, stride, columns, total);                                            \
            return;                                                                                \
        }                                                                                          \
        for (ptrdiff_t row = 0; row < rows; row += LEVEL) {                                        \
            ptrdiff_t some = rows - row < LEVEL ? rows - row : LEVEL;                              \
            start_##op(level, columns);                                                            \
            rows_##op(x + row * stride, some, stride, columns, level);                             \
            _Pragma("omp simd")                                                                    \
            for (ptrdiff_t i = 0; i < columns; i++)                                                \
                total[i] = join_##op(total[i], level[i]);                                          \
        }                                                                                          \
    }                                                                                              \
    /* Short rows are combined several at a time. */                                               \
    INLINE void columns_##op(const T *x, ptrdiff_t rows, ptrdiff_t stride, ptrdiff_t columns,      \
                             A *restrict total) {                                                  \
        ptrdiff_t group = columns == stride && columns < GROUPED ? GROUPED / columns : 1;          \
        group = rows < 2 * group ? 1 : group;                                                      \
        ptrdiff_t whole = rows / group;                                                            \
        levels_##op(x, whole, group * stride, group * columns, total);                             \
        for (ptrdiff_t one = 1; one < group; one++)                                                \
            for (ptrdiff_t i = 0; i < columns; i++)                                                \
                total[i] = join_##op(total[i], total[one * columns + i]);                          \
        rows_##op(x + whole * group * stride, rows - whole * group, stride, columns, total);       \
    }                                                                                              \
    INLINE A halved_##op(A *restrict total) {                                                      \
        for (ptrdiff_t i = 0; i < 8; i++)                                                          \
            total[i] = join_##op(total[i], total[i + 8]);                                          \
        for (ptrdiff_t i = 0; i < 4; i++)                                                          \
            total[i] = join_##op(total[i], total[i + 4]);                                          \
        return join_##op(join_##op(total[0], total[2]), join_##op(total[1], total[3]));            \
    }                                                                                              \
    /* Rows of 16 columns and what is left of them, the last 16 elements without those before. */  \
    INLINE A lanes_##op(const T *x, ptrdiff_t size) {                                              \
        A total[16];                                                                               \
        const ptrdiff_t whole = size / 16, rest = size % 16;                                       \
        start_##op(total, 16);                                                                     \
        few_##op(x, whole, 16, 16, total);                                                         \
        if (rest && whole) {                                                                       \
            const T *last = x + size - 16;                                                         \
            _Pragma("omp simd")                                                                    \
            for (ptrdiff_t i = 0; i < 16; i++)                                                     \
                total[i] = join_##op(total[i], i < 16 - rest ? START : term_##op(last[i]));        \
        }                                                                                          \
        for (ptrdiff_t i = 0; i < rest && !whole; i++)                                             \
            total[i] = join_##op(total[i], term_##op(x[i]));                                       \
        return halved_##op(total);                                                                 \
    }                                                                                              \
    INLINE A row_##op(const T *x, ptrdiff_t size, A *restrict total) {                             \
        const ptrdiff_t whole = size / 64;                                                         \
        levels_##op(x, whole, 64, 64, total);                                                      \
        for (ptrdiff_t i = 0; i < size % 64; i++)                                                  \
            total[i] = join_##op(total[i], term_##op(x[whole * 64 + i]));                          \
        for (ptrdiff_t i = 0; i < 32; i++)                                                         \
            total[i] = join_##op(total[i], total[i + 32]);                                         \
        for (ptrdiff_t i = 0; i < 16; i++)                                                         \
            total[i] = join_##op(total[i], total[i + 16]);                                         \
        return halved_##op(total);                                                                 \
    }                                                                                              \
    /* BESIDE rows of `size` elements. */                                                          \
    INLINE void beside_##op(const T *x, ptrdiff_t size, A *restrict total) {                       \
        start_##op(total, BESIDE);                                                                 \
        for (ptrdiff_t at = 0; at < size; at++) {                                                  \
            _Pragma("omp simd")                                                                    \
            for (ptrdiff_t i = 0; i < BESIDE; i++)                                                 \
                total[i] = join_##op(total[i], term_##op(x[i * size + at]));                       \
        }                                                                                          \
    }                                                                                              \
    INLINE T finish_##op(A a, const FoldArgs *args) {                                              \
        (void)args;                                                                                \
        return FINISH;                                                                             \
    }                                                                                              \
    /* Short rows, BESIDE of them at once; to `partial` what they are before they are finished. */ \
    INLINE void short_##op(const T *x, ptrdiff_t count, ptrdiff_t size, T *restrict y,             \
                           P *restrict partial, const FoldArgs *args) {                            \
        A total[BESIDE];                                                                           \
        for (ptrdiff_t begin = 0; begin < count; begin += BESIDE) {                                \
            const T *first = x + begin * size;                                                     \
            ptrdiff_t some = count - begin < BESIDE ? count - begin : BESIDE;                      \
            /* Pairs are read as vectors. */                                                       \
            if (some == BESIDE && size == 2)                                                       \
                beside_##op(first, 2, total);                                                      \
            else if (some == BESIDE)                                                               \
                beside_##op(first, size, total);                                                   \
            for (ptrdiff_t row = 0; row < some && some < BESIDE; row++) {                          \
                total[row] = START;                                                                \
                for (ptrdiff_t at = 0; at < size; at++)                                            \
                    total[row] = join_##op(total[row], term_##op(first[row * size + at]));         \
            }                                                                                      \
            for (ptrdiff_t i = 0; partial && i < some; i++)                                        \
                partial[begin + i] = total[i];                                                     \
            for (ptrdiff_t i = 0; !partial && i < some; i++)                                       \
                y[begin + i] = finish_##op(total[i], args);                                        \
        }                                                                                          \
    }                                                                                              \
    /* Rows that are neither short nor long. */                                                    \
    INLINE void lines_##op(const T *x, ptrdiff_t count, ptrdiff_t size, T *restrict y,             \
                           P *restrict partial, const FoldArgs *args) {                            \
        for (ptrdiff_t row = 0; row < count; row++) {                                              \
            A one = lanes_##op(x + row * size, size);                                              \
            if (partial)                                                                           \
                partial[row] = one;                                                                \
            else                                                                                   \
                y[row] = finish_##op(one, args);                                                   \
        }                                                                                          \
    }                                                                                              \
    LOOP(op, FoldArgs) {                                                                           \
        ptrdiff_t rows = args->rows, inner = args->inner, grain = args->piece_rows;                \
        ptrdiff_t pieces = args->pieces, blocks = args->blocks;                                    \
        A total[COLUMNS];                                                                          \
        const T *x = (const T *)args->x - args->skipped;                                           \
        T *y = (T *)args->y;                                                                       \
        if (inner == 1 && rows < LONG && pieces == 1) {                                            \
            y += from;                                                                             \
            P *partial = args->partial ? (P *)args->partial + from : NULL;                         \
            if (rows < SHORT)                                                                      \
                short_##op(x + from * rows, to - from, rows, y, partial, args);                    \
            else                                                                                   \
                lines_##op(x + from * rows, to - from, rows, y, partial, args);                    \
            return;                                                                                \
        }                                                                                          \
        for (ptrdiff_t unit = from; unit < to; unit++) {                                           \
            ptrdiff_t block = unit % blocks, piece = unit / blocks % pieces;                       \
            ptrdiff_t outer = unit / blocks / pieces;                                              \
            ptrdiff_t first = piece * grain, column = block * COLUMNS;                             \
            ptrdiff_t some = rows - first < grain ? rows - first : grain;                          \
            ptrdiff_t columns = inner - column < COLUMNS ? inner - column : COLUMNS;               \
            const T *begin = x + ((outer * rows + first) * inner + column);                        \
            if (inner == 1)                                                                        \
                total[0] = row_##op(begin, some, total);                                           \
            else                                                                                   \
                columns_##op(begin, some, inner, columns, total);                                  \
            if (args->partial) {                                                                   \
                P *partial = (P *)args->partial + (outer * pieces + piece) * inner + column;       \
                for (ptrdiff_t i = 0; i < columns; i++)                                            \
                    partial[i] = total[i];                                                         \
            } else {                                                                               \
                for (ptrdiff_t i = 0; i < columns; i++)                                            \
                    y[outer * inner + column + i] = finish_##op(total[i], args);                   \
            }                                                                                      \
        }                                                                                          \
    }

/* NaN is greater and less than every number. In this form GCC makes vectors of it. */
#define EXTREMES(type, T)                                                                          \
    INLINE T greater_##type(T a, T b) {                                                            \
        T most = a > b ? a : b;                                                                    \
        return a != a ? a : most;                                                                  \
    }                                                                                              \
    INLINE T less_##type(T a, T b) {                                                               \
        T least = a < b ? a : b;                                                                   \
        return a != a ? a : least;                                                                 \
    }
EXTREMES(float32, float)
EXTREMES(float64, double)

FOLD(sum_float32, float, double, double, -0.0, (double)x, a + b, (float)(a * args->factor))
FOLD(sum_float64, double, double, double, -0.0, x, a + b, a / args->count)
/* Of numbers that were 16-bit floats, whose sums are rounded to these. */
FOLD(sum_halves, float, float, double, -0.0f, x, a + b, (float)(a * args->factor))
FOLD(prod_float32, float, double, double, 1.0, (double)x, a *b, (float)a)
FOLD(prod_float64, double, double, double, 1.0, x, a *b, a)
FOLD(max_float32, float, float, float, -INFINITY, x, greater_float32(a, b), a)
FOLD(max_float64, double, double, double, -INFINITY, x, greater_float64(a, b), a)
FOLD(min_float32, float, float, float, INFINITY, x, less_float32(a, b), a)
FOLD(min_float64, double, double, double, INFINITY, x, less_float64(a, b), a)
/* The root of the sum of squares: those of float32 do not overflow in double precision. */
FOLD(norm_float32, float, double, double, 0.0, (double)x *(double)x, a + b, (float)sqrt(a))
FOLD(norm_float64, double, double, double, 0.0, x *x, a + b, sqrt(a))

/* 16-bit floats, widened in pieces that stay in the cache. */
INLINE void widen_piece(const HalfFoldArgs *args, ptrdiff_t at, ptrdiff_t count, float *y) {
    const uint16_t *x = (const uint16_t *)args->fold.x + at;
    if (!args->is_bfloat16) {
        widen_halves(x, count, y);
        return;
    }
    _Pragma("omp simd")
    for (ptrdiff_t i = 0; i < count; i++)
        y[i] = as_float((int32_t)((uint32_t)x[i] << 16));
}

/* Reduces a widened piece of `count` results. A sum in float32 that is not finite is taken again in
 * double precision, which has room for the largest bfloat16. */
INLINE void fold_piece(const HalfFoldArgs *args, const FoldArgs *part, ptrdiff_t many) {
    int is_sum = args->loop == LOOP_sum_float32;
    TABLE[is_sum ? LOOP_sum_halves : args->loop](0, many, part);
    int finite = 1;
    for (ptrdiff_t i = 0; is_sum && i < many * part->inner; i++)
        finite &= isfinite(part->partial ? ((const double *)part->partial)[i]
                                         : ((const float *)part->y)[i]);
    if (!finite)
        TABLE[args->loop](0, many, part);
}

/* The sums of many columns: of LEVEL rows in float32, and of these in double precision, which is
 * what rows are added in whose sums are not finite. */
static void add_wide_columns(const HalfFoldArgs *args, ptrdiff_t begin, ptrdiff_t rows,
                             ptrdiff_t columns, double *restrict sums) {
    float room[4 * COLUMNS], level[COLUMNS];
    const ptrdiff_t inner = args->fold.inner;
    start_sum_float32(sums, columns);
    for (ptrdiff_t first = 0; first < rows; first += LEVEL) {
        ptrdiff_t last = rows - first < LEVEL ? rows : first + LEVEL;
        int finite = 1;
        start_sum_halves(level, columns);
        for (ptrdiff_t row = first; row < last; row += 4) {
            ptrdiff_t some = last - row < 4 ? last - row : 4;
            for (ptrdiff_t i = 0; i < some; i++)
                widen_piece(args, begin + (row + i) * inner, columns, room + i * columns);
            rows_sum_halves(room, some, columns, columns, level);
        }
        for (ptrdiff_t i = 0; i < columns; i++)
            finite &= isfinite(level[i]) != 0;
        for (ptrdiff_t i = 0; finite && i < columns; i++)
            sums[i] += (double)level[i];
        for (ptrdiff_t row = first; !finite && row < last; row++) {
            widen_piece(args, begin + row * inner, columns, room);
            rows_sum_float32(room, 1, columns, columns, sums);
        }
    }
}

LOOP(fold_halves, HalfFoldArgs) {
    const FoldArgs *fold = &args->fold;
    ptrdiff_t rows = fold->rows, inner = fold->inner, blocks = fold->blocks;
    float room[WIDENED_PIECE];
    double sums[COLUMNS];
    const int wide = args->loop == LOOP_sum_float32 && inner >= WIDE_COLUMNS;
    FoldArgs part = *fold;
    part.x = room;
    part.pieces = part.blocks = 1;
    if (!wide && blocks == 1 && fold->pieces == 1) {
        ptrdiff_t item = rows * inner, most = WIDENED_PIECE / 2 / item;
        most = most ? most : 1;
        for (ptrdiff_t unit = from; unit < to;) {
            ptrdiff_t many = to - unit < most ? to - unit : most;
            widen_piece(args, unit * item, many * item, room);
            part.y = fold->partial ? NULL : (float *)fold->y + unit * inner;
            part.partial = fold->partial ? (char *)fold->partial + unit * inner * args->item : NULL;
            fold_piece(args, &part, many);
            unit += many;
        }
        return;
    }
    for (ptrdiff_t unit = from; unit < to; unit++) {
        ptrdiff_t column = unit % blocks * COLUMNS, piece = unit / blocks % fold->pieces;
        ptrdiff_t outer = unit / blocks / fold->pieces, first = piece * fold->piece_rows;
        ptrdiff_t some = rows - first < fold->piece_rows ? rows - first : fold->piece_rows;
        ptrdiff_t columns = inner - column < COLUMNS ? inner - column : COLUMNS;
        ptrdiff_t begin = (outer * rows + first) * inner + column;
        ptrdiff_t to_piece = (outer * fold->pieces + piece) * inner + column;
        if (wide) {
            add_wide_columns(args, begin, some, columns, sums);
            for (ptrdiff_t i = 0; i < columns; i++)
                if (fold->partial)
                    ((double *)fold->partial)[to_piece + i] = sums[i];
                else
                    ((float *)fold->y)[outer * inner + column + i] =
                        finish_sum_float32(sums[i], fold);
            continue;
        }
        if (blocks == 1)
            widen_piece(args, begin, some * inner, room);
        else
            for (ptrdiff_t row = 0; row < some; row++)
                widen_piece(args, begin + row * inner, columns, room + row * columns);
        part.rows = part.piece_rows = some;
        part.inner = columns;
        part.y = fold->partial ? NULL : (float *)fold->y + outer * inner + column;
        part.partial = fold->partial ? (char *)fold->partial + to_piece * args->item : NULL;
        fold_piece(args, &part, 1);
    }
}

/* The sums of the rows of each segment. */
LOOP(segment_sum, SegmentSumArgs) {
    ptrdiff_t positions = args->positions, segments = args->segments, inner = args->inner;
    const ptrdiff_t *order = args->order, *begins = args->begins;
    double sums[COLUMNS];
    for (ptrdiff_t unit = from; unit < to; unit++) {
        ptrdiff_t segment = unit % segments, outer = unit / segments;
        const float *x = args->x + outer * positions * inner;
        float *result = args->y + unit * inner;
        for (ptrdiff_t column = 0; column < inner; column += COLUMNS) {
            ptrdiff_t columns = inner - column < COLUMNS ? inner - column : COLUMNS;
            const float *start = args->start ? args->start + unit * inner + column : NULL;
            for (ptrdiff_t i = 0; i < columns; i++)
                sums[i] = start ? (double)start[i] : 0.0;
            for (ptrdiff_t at = begins[segment]; at < begins[segment + 1]; at++) {
                const float *row = x + order[at] * inner + column;
                _Pragma("omp simd")
                for (ptrdiff_t i = 0; i < columns; i++)
                    sums[i] += (double)row[i];
            }
            for (ptrdiff_t i = 0; i < columns; i++)
                result[column + i] = (float)sums[i];
        }
    }
}
