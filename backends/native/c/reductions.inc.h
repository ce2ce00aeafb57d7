/* Sums along neighbouring axes: x is (outer, n, inner), and n is summed.
 *
 * Terms are added in double precision and rounded once. Sums begin with -0, which changes no
 * number, so that a sum of negative zeros is a negative zero. */

/* Columns of a piece: their sums, in double precision, fit into the first-level cache. */
#define COLUMNS 1024

INLINE void add_rows(const float *x, ptrdiff_t rows, ptrdiff_t stride, ptrdiff_t columns,
                     double *restrict sums) {
    ptrdiff_t row = 0;
    for (; row + 4 <= rows; row += 4) {
        const float *a = x + row * stride, *b = a + stride, *c = b + stride, *d = c + stride;
        _Pragma("omp simd")
        for (ptrdiff_t i = 0; i < columns; i++)
            sums[i] += ((double)a[i] + (double)b[i]) + ((double)c[i] + (double)d[i]);
    }
    for (; row < rows; row++) {
        const float *a = x + row * stride;
        _Pragma("omp simd")
        for (ptrdiff_t i = 0; i < columns; i++)
            sums[i] += (double)a[i];
    }
}

/* Rows of at most half as many columns are added several at a time. */
#define GROUPED 256

/* The sums of `columns` columns. Short rows are added several at a time. */
INLINE void column_sums(const float *x, ptrdiff_t rows, ptrdiff_t stride, ptrdiff_t columns,
                        double *restrict sums) {
    ptrdiff_t group = columns == stride && columns < GROUPED ? GROUPED / columns : 1;
    if (rows < 2 * group)
        group = 1;
    for (ptrdiff_t i = 0; i < group * columns; i++)
        sums[i] = -0.0;
    ptrdiff_t whole = rows / group;
    add_rows(x, whole, group * stride, group * columns, sums);
    for (ptrdiff_t one = 1; one < group; one++)
        for (ptrdiff_t i = 0; i < columns; i++)
            sums[i] += sums[one * columns + i];
    add_rows(x + whole * group * stride, rows - whole * group, stride, columns, sums);
}

/* The sum of a row, in four lanes of vectors. */
INLINE double run_sum(const float *x, ptrdiff_t size) {
    ptrdiff_t part = size / 4;
    const float *x1 = x + part, *x2 = x1 + part, *x3 = x2 + part;
    double a = 0.0, b = 0.0, c = 0.0, d = 0.0;
    _Pragma("omp simd reduction(+ : a, b, c, d)")
    for (ptrdiff_t i = 0; i < part; i++) {
        a += (double)x[i];
        b += (double)x1[i];
        c += (double)x2[i];
        d += (double)x3[i];
    }
    for (ptrdiff_t i = 4 * part; i < size; i++)
        a += (double)x[i];
    double total = (a + b) + (c + d);
    /* The lanes began with 0. */
    for (ptrdiff_t i = 0; total == 0.0; i++) {
        if (i == size)
            return -0.0;
        if (x[i] != 0.0f || !signbit(x[i]))
            break;
    }
    return total;
}

/* Rows of fewer terms than this are summed side by side. */
#define SHORT 48

/* The sums of `count` rows of `size` neighbours. */
INLINE void short_sums(const float *x, ptrdiff_t count, ptrdiff_t size, double factor,
                       float *restrict result) {
    for (ptrdiff_t begin = 0; begin < count; begin += 16) {
        ptrdiff_t some = count - begin < 16 ? count - begin : 16;
        const float *first = x + begin * size;
        double sums[16];
        for (ptrdiff_t i = 0; i < 16; i++)
            sums[i] = -0.0;
        if (some == 16) {
            for (ptrdiff_t at = 0; at < size; at++) {
                _Pragma("omp simd")
                for (ptrdiff_t i = 0; i < 16; i++)
                    sums[i] += (double)first[i * size + at];
            }
        } else {
            for (ptrdiff_t i = 0; i < some; i++)
                for (ptrdiff_t at = 0; at < size; at++)
                    sums[i] += (double)first[i * size + at];
        }
        for (ptrdiff_t i = 0; i < some; i++)
            result[begin + i] = (float)(sums[i] * factor);
    }
}

LOOP(sum, SumArgs) {
    ptrdiff_t rows = args->rows, inner = args->inner, grain = args->piece_rows,
              pieces = args->pieces;
    ptrdiff_t blocks = args->blocks;
    double sums[COLUMNS];
    if (inner == 1 && rows < SHORT) {
        const float *x = args->x + (from * rows - args->skipped);
        short_sums(x, to - from, rows, args->factor, args->y + from);
        return;
    }
    for (ptrdiff_t unit = from; unit < to; unit++) {
        ptrdiff_t block = unit % blocks, piece = unit / blocks % pieces;
        ptrdiff_t outer = unit / blocks / pieces;
        ptrdiff_t first = piece * grain, column = block * COLUMNS;
        ptrdiff_t some = rows - first < grain ? rows - first : grain;
        ptrdiff_t columns = inner - column < COLUMNS ? inner - column : COLUMNS;
        const float *x = args->x + ((outer * rows + first) * inner + column - args->skipped);
        if (inner == 1)
            sums[0] = run_sum(x, some);
        else
            column_sums(x, some, inner, columns, sums);
        if (args->partial) {
            double *partial = args->partial + (outer * pieces + piece) * inner + column;
            for (ptrdiff_t i = 0; i < columns; i++)
                partial[i] = sums[i];
        } else {
            float *result = args->y + outer * inner + column;
            for (ptrdiff_t i = 0; i < columns; i++)
                result[i] = (float)(sums[i] * args->factor);
        }
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
            for (ptrdiff_t i = 0; i < columns; i++)
                sums[i] = 0.0;
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
