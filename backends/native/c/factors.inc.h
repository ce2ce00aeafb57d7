/* LU factors of small matrices, and systems of triangles.
 *
 * Rows of numbers lie one behind the other, so that what is taken from a row are multiples of whole
 * rows, PANEL of them at once: a row is then read and written once for all of these. */

#define PANEL 4
/* Sums of fewer terms are made one after another. */
#define SHORT_SUM 24

#define MATRIX_LOOPS(T, type)                                                                      \
    /* Takes from y the multiples of so many rows, `step` apart, by as many factors. */            \
    INLINE void take_rows_##type(T *restrict y, const T *restrict factors, const T *rows,          \
                                 ptrdiff_t step, ptrdiff_t count, ptrdiff_t columns) {             \
        ptrdiff_t j = 0;                                                                           \
        for (; j + PANEL <= count; j += PANEL, rows += PANEL * step) {                             \
            const T *restrict a = rows, *restrict b = a + step, *restrict c = b + step,            \
                              *restrict d = c + step;                                              \
            T of_a = factors[j], of_b = factors[j + 1], of_c = factors[j + 2],                     \
              of_d = factors[j + 3];                                                               \
            _Pragma("omp simd")                                                                    \
            for (ptrdiff_t k = 0; k < columns; k++)                                                \
                y[k] = y[k] - of_a * a[k] - of_b * b[k] - of_c * c[k] - of_d * d[k];               \
        }                                                                                          \
        for (; j < count; j++, rows += step) {                                                     \
            T factor = factors[j];                                                                 \
            const T *restrict row = rows;                                                          \
            _Pragma("omp simd")                                                                    \
            for (ptrdiff_t k = 0; k < columns; k++)                                                \
                y[k] -= factor * row[k];                                                           \
        }                                                                                          \
    }                                                                                              \
    /* The row of the largest number of a column from row j on. NaN is the largest. */             \
    INLINE ptrdiff_t pivot_##type(const T *x, ptrdiff_t m, ptrdiff_t n, ptrdiff_t j) {             \
        ptrdiff_t pivot = j;                                                                       \
        T most = (T)fabs((double)x[j * n + j]);                                                    \
        for (ptrdiff_t i = j + 1; i < m; i++) {                                                    \
            T one = (T)fabs((double)x[i * n + j]);                                                 \
            if (!(one <= most) && most == most)                                                    \
                most = one, pivot = i;                                                             \
        }                                                                                          \
        return pivot;                                                                              \
    }                                                                                              \
    /* Gaussian elimination with partial pivoting, PANEL columns at a time. */                     \
    LOOP(lu_##type, FactorsArgs) {                                                                 \
        ptrdiff_t m = args->m, n = args->n, least = m < n ? m : n;                                 \
        for (ptrdiff_t item = from; item < to; item++) {                                           \
            T *x = (T *)args->x + item * m * n;                                                    \
            int32_t *pivots = args->pivots + item * least;                                         \
            for (ptrdiff_t start = 0; start < least; start += PANEL) {                             \
                ptrdiff_t stop = start + PANEL < least ? start + PANEL : least;                    \
                for (ptrdiff_t j = start; j < stop; j++) {                                         \
                    ptrdiff_t pivot = pivot_##type(x, m, n, j);                                    \
                    pivots[j] = (int32_t)pivot;                                                    \
                    T *restrict row = x + j * n, *restrict other = x + pivot * n;                  \
                    for (ptrdiff_t k = 0; pivot != j && k < n; k++) {                              \
                        T kept = row[k];                                                           \
                        row[k] = other[k], other[k] = kept;                                        \
                    }                                                                              \
                    for (ptrdiff_t i = j + 1; i < m; i++) {                                        \
                        T *restrict below = x + i * n;                                             \
                        T factor = below[j] = row[j] == 0 ? below[j] : below[j] / row[j];          \
                        for (ptrdiff_t k = j + 1; k < stop; k++)                                   \
                            below[k] -= factor * row[k];                                           \
                    }                                                                              \
                }                                                                                  \
                const T *panel = x + start * n;                                                    \
                for (ptrdiff_t i = start + 1; i < m; i++) {                                        \
                    T *row = x + i * n;                                                            \
                    take_rows_##type(row + stop, row + start, panel + stop, n,                     \
                                     (i < stop ? i : stop) - start, n - stop);                     \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    INLINE T dot_##type(const T *x1, const T *x2, ptrdiff_t n) {                                   \
        T total = 0;                                                                               \
        if (n < SHORT_SUM)                                                                         \
            for (ptrdiff_t j = 0; j < n; j++)                                                      \
                total += x1[j] * x2[j];                                                            \
        else {                                                                                     \
            _Pragma("omp simd reduction(+ : total)")                                               \
            for (ptrdiff_t j = 0; j < n; j++)                                                      \
                total += x1[j] * x2[j];                                                            \
        }                                                                                          \
        return total;                                                                              \
    }                                                                                              \
    /* Solves a system of a triangle in place. */                                                  \
    INLINE void substitute_##type(const T *x1, T *y, ptrdiff_t n, ptrdiff_t columns, int upper,    \
                                  int unit) {                                                      \
        for (ptrdiff_t step = 0; step < n; step++) {                                               \
            ptrdiff_t i = upper ? n - 1 - step : step, first = upper ? i + 1 : 0;                  \
            const T *factors = x1 + i * n + first, *known = y + first * columns;                   \
            T *target = y + i * columns, divisor = x1[i * n + i];                                  \
            if (columns == 1)                                                                      \
                *target -= dot_##type(factors, known, step);                                       \
            else                                                                                   \
                take_rows_##type(target, factors, known, columns, step, columns);                  \
            for (ptrdiff_t k = 0; !unit && k < columns; k++)                                       \
                target[k] /= divisor;                                                              \
        }                                                                                          \
    }                                                                                              \
    LOOP(systems_##type, SystemsArgs) {                                                            \
        ptrdiff_t n = args->n, columns = args->columns;                                            \
        for (ptrdiff_t item = from; item < to; item++) {                                           \
            const T *x1 = (const T *)args->x1 + item * args->matrix_step;                          \
            T *y = (T *)args->y + item * n * columns;                                              \
            substitute_##type(x1, y, n, columns, (int)args->upper, (int)args->unit);               \
            if (args->are_factors)                                                                 \
                substitute_##type(x1, y, n, columns, 1, 0);                                        \
        }                                                                                          \
    }

MATRIX_LOOPS(float, float32)
MATRIX_LOOPS(double, float64)
