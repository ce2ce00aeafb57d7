/* Running sums, products and extremes: x is (outer, n, inner), and n is run along.
 *
 * float32 is added and multiplied in double precision, and each result is rounded once. Sums begin
 * anew every few hundred rows, at what was before: an error grows with that number and with that of
 * the restarts, not with their product. A row of numbers is added in STRIPS strips at once.
 * Products are taken in order: what one strip loses below the range, another may not bring back. */

#define RESTART 256
#define STRIPS 8
#define STRIP (RESTART / STRIPS)
/* Columns of a piece, and rows of numbers that are run along side by side. */
#define BAND 128
/* Rows of columns after which sums begin anew. */
#define FOLLOWING 128
#define ROWS_AT_ONCE 8

/* For an op: the dtype T of x, and A in which it is computed; what is before the first number; what
 * two numbers, a and b, are together; whether it restarts. */
#define SCAN(op, T, A, START, JOIN, IN_STRIPS)                                                     \
    INLINE A step_##op(A a, A b) { return JOIN; }                                                  \
    /* `many` rows of n numbers, x_step and y_step apart, one after the other. */                  \
    INLINE void side_##op(const T *x, T *y, ptrdiff_t x_step, ptrdiff_t y_step, ptrdiff_t n,       \
                          const int many, const ptrdiff_t by, const A *begin) {                    \
        A total[ROWS_AT_ONCE];                                                                     \
        for (int i = 0; i < many; i++)                                                             \
            total[i] = START;                                                                      \
        for (ptrdiff_t at = 0; at < n; at++) {                                                     \
            _Pragma("GCC unroll 8")                                                                \
            for (int i = 0; i < many; i++) {                                                       \
                total[i] = step_##op(total[i], (A)x[i * x_step + at * by]);                        \
                y[i * y_step + at * by] = (T)(begin ? step_##op(*begin, total[i]) : total[i]);     \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    /* A row of n numbers in strips. */                                                            \
    INLINE void strips_##op(const T *x, T *restrict y, ptrdiff_t n, const ptrdiff_t by) {          \
        A begin = START, within[RESTART];                                                          \
        for (; n >= RESTART; n -= RESTART, x += RESTART * by, y += RESTART * by) {                 \
            A total[STRIPS], offset = START;                                                       \
            for (int s = 0; s < STRIPS; s++)                                                       \
                total[s] = START;                                                                  \
            for (ptrdiff_t at = 0; at < STRIP; at++) {                                             \
                _Pragma("GCC unroll 8")                                                            \
                for (int s = 0; s < STRIPS; s++) {                                                 \
                    total[s] = step_##op(total[s], (A)x[(s * STRIP + at) * by]);                   \
                    within[s * STRIP + at] = total[s];                                             \
                }                                                                                  \
            }                                                                                      \
            for (int s = 0; s < STRIPS; s++) {                                                     \
                _Pragma("omp simd")                                                                \
                for (ptrdiff_t at = s * STRIP; at < (s + 1) * STRIP; at++)                         \
                    y[at * by] = (T)step_##op(begin, step_##op(offset, within[at]));               \
                offset = step_##op(offset, total[s]);                                              \
            }                                                                                      \
            begin = step_##op(begin, offset);                                                      \
        }                                                                                          \
        side_##op(x, y, 0, 0, n, 1, by, &begin);                                                   \
    }                                                                                              \
    INLINE void numbers_##op(const ScanArgs *args, ptrdiff_t from, ptrdiff_t to,                   \
                             const ptrdiff_t by) {                                                 \
        ptrdiff_t n = args->n, m = n + args->initial, row = from;                                  \
        const T *x = (const T *)args->x + (by < 0 ? n - 1 : 0);                                    \
        T *y = (T *)args->y + (by < 0 ? m - 1 : 0);                                                \
        for (ptrdiff_t i = from; args->initial && i < to; i++)                                     \
            y[i * m] = (T)(START + 0.0);                                                           \
        y += args->initial * by;                                                                   \
        if (IN_STRIPS && n >= RESTART) {                                                           \
            for (; row < to; row++)                                                                \
                strips_##op(x + row * n, y + row * m, n, by);                                      \
            return;                                                                                \
        }                                                                                          \
        for (; row + ROWS_AT_ONCE <= to; row += ROWS_AT_ONCE)                                      \
            side_##op(x + row * n, y + row * m, n, m, n, ROWS_AT_ONCE, by, NULL);                  \
        for (; row < to; row++)                                                                    \
            side_##op(x + row * n, y + row * m, 0, 0, n, 1, by, NULL);                             \
    }                                                                                              \
    LOOP(op, ScanArgs) {                                                                           \
        ptrdiff_t n = args->n, m = n + args->initial, inner = args->inner, blocks = args->blocks;  \
        if (inner == 1 && args->reverse) {                                                         \
            numbers_##op(args, from, to, -1);                                                      \
            return;                                                                                \
        }                                                                                          \
        if (inner == 1) {                                                                          \
            numbers_##op(args, from, to, 1);                                                       \
            return;                                                                                \
        }                                                                                          \
        for (ptrdiff_t unit = from; unit < to; unit++) {                                           \
            ptrdiff_t outer = unit / blocks, column = unit % blocks * BAND;                        \
            ptrdiff_t columns = inner - column < BAND ? inner - column : BAND;                     \
            ptrdiff_t by = args->reverse ? -inner : inner;                                         \
            const T *restrict x = (const T *)args->x + outer * n * inner + column;                 \
            T *restrict y = (T *)args->y + outer * m * inner + column;                             \
            x += args->reverse ? (n - 1) * inner : 0;                                              \
            y += args->reverse ? (m - 1) * inner : 0;                                              \
            A begin[BAND], total[BAND];                                                            \
            for (ptrdiff_t i = 0; i < columns; i++)                                                \
                begin[i] = total[i] = START;                                                       \
            if (args->initial) {                                                                   \
                for (ptrdiff_t i = 0; i < columns; i++)                                            \
                    y[i] = (T)(START + 0.0);                                                       \
                y += by;                                                                           \
            }                                                                                      \
            for (ptrdiff_t row = 0; row < n; row++, x += by, y += by) {                            \
                if (IN_STRIPS && row && row % FOLLOWING == 0)                                      \
                    for (ptrdiff_t i = 0; i < columns; i++) {                                      \
                        begin[i] = step_##op(begin[i], total[i]);                                  \
                        total[i] = START;                                                          \
                    }                                                                              \
                _Pragma("omp simd")                                                                \
                for (ptrdiff_t i = 0; i < columns; i++) {                                          \
                    total[i] = step_##op(total[i], (A)x[i]);                                       \
                    y[i] = (T)(IN_STRIPS ? step_##op(begin[i], total[i]) : total[i]);              \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }

/* The number before the first of a sum is -0, which changes none. */
SCAN(running_sum_float32, float, double, -0.0, a + b, 1)
SCAN(running_sum_float64, double, double, -0.0, a + b, 1)
SCAN(running_sum_int64, int64_t, uint64_t, 0, a + b, 1)
SCAN(running_prod_float32, float, double, 1.0, a *b, 0)
SCAN(running_prod_float64, double, double, 1.0, a *b, 0)
SCAN(running_max_float32, float, float, -INFINITY, greater_float32(a, b), 1)
SCAN(running_max_float64, double, double, -INFINITY, greater_float64(a, b), 1)
SCAN(running_min_float32, float, float, INFINITY, less_float32(a, b), 1)
SCAN(running_min_float64, double, double, INFINITY, less_float64(a, b), 1)
SCAN(running_max_int64, int64_t, int64_t, INT64_MIN, a > b ? a : b, 1)
SCAN(running_min_int64, int64_t, int64_t, INT64_MAX, a < b ? a : b, 1)

/* Recurrences, in double. What additions of float64 lose goes through one of its own, beside. Rows
 * of numbers run side by side, as columns do: element t of one is t * by away from its first. */
#define RECURRENCE(T, KEEPS)                                                                       \
    INLINE void recur_##T(const T *a, const T *b, T *restrict y, ptrdiff_t n, ptrdiff_t by,        \
                          ptrdiff_t ahead, const ptrdiff_t lane, ptrdiff_t lanes) {                \
        double sum[BAND], lost[BAND];                                                              \
        for (ptrdiff_t i = 0; i < lanes; i++) {                                                    \
            y[i * lane] = b[i * lane];                                                             \
            sum[i] = (double)b[i * lane], lost[i] = 0;                                             \
        }                                                                                          \
        for (ptrdiff_t t = 1; t < n; t++) {                                                        \
            const T *factor = a + t * by + ahead, *more = b + t * by;                              \
            T *target = y + t * by;                                                                \
            _Pragma("omp simd")                                                                    \
            for (ptrdiff_t i = 0; i < lanes; i++) {                                                \
                double by_a = (double)factor[i * lane], number = (double)more[i * lane];           \
                double product = by_a * sum[i], total = product + number;                          \
                sum[i] = total;                                                                    \
                if (KEEPS) {                                                                       \
                    double part = total - product;                                                 \
                    lost[i] = by_a * lost[i] + ((product - (total - part)) + (number - part));     \
                    total = total - total == 0 ? total + lost[i] : total;                          \
                }                                                                                  \
                target[i * lane] = (T)total;                                                       \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    LOOP(recurrence_##T, RecurrenceArgs) {                                                         \
        ptrdiff_t n = args->n, inner = args->inner, blocks = args->blocks;                         \
        ptrdiff_t by = args->reverse ? -inner : inner, ahead = args->reverse ? inner : 0;          \
        ptrdiff_t first = args->reverse ? (n - 1) * inner : 0;                                     \
        const T *a = (const T *)args->a + first, *b = (const T *)args->b + first;                  \
        T *y = (T *)args->y + first;                                                               \
        if (inner == 1) {                                                                          \
            ptrdiff_t row = from;                                                                  \
            for (; row + ROWS_AT_ONCE <= to; row += ROWS_AT_ONCE)                                  \
                recur_##T(a + row * n, b + row * n, y + row * n, n, by, ahead, n, ROWS_AT_ONCE);   \
            for (; row < to; row++)                                                                \
                recur_##T(a + row * n, b + row * n, y + row * n, n, by, ahead, n, 1);              \
            return;                                                                                \
        }                                                                                          \
        for (ptrdiff_t unit = from; unit < to; unit++) {                                           \
            ptrdiff_t column = unit % blocks * BAND, at = unit / blocks * n * inner + column;      \
            ptrdiff_t columns = inner - column < BAND ? inner - column : BAND;                     \
            recur_##T(a + at, b + at, y + at, n, by, ahead, 1, columns);                           \
        }                                                                                          \
    }
typedef float float32;
typedef double float64;
RECURRENCE(float32, 0)
RECURRENCE(float64, 1)
