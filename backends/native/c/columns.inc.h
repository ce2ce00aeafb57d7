/* Softmax and its gradients along another axis than the last, column beside column.
 *
 * Sums are of groups of rows, and of the groups' sums, so that an error grows with their numbers
 * and not with the number of rows. */
#define SIDE 128
#define GROUP 64

/* For each row `at`, and each of its columns `i`. */
#define EACH_COLUMN                                                                                \
    _Pragma("omp simd")                                                                            \
    for (ptrdiff_t i = 0; i < columns; i++)
#define EACH_ROW for (ptrdiff_t at = 0; at < n; at++)
/* The sums of `term` over the rows, which has `also` done beside it. */
#define TOTALS(T, term, also)                                                                      \
    EACH_COLUMN part[i] = total[i] = 0;                                                            \
    EACH_ROW {                                                                                     \
        EACH_COLUMN {                                                                              \
            T value = (term);                                                                      \
            part[i] += value;                                                                      \
            also;                                                                                  \
        }                                                                                          \
        if (at % GROUP == GROUP - 1)                                                               \
            EACH_COLUMN {                                                                          \
                total[i] += part[i];                                                               \
                part[i] = 0;                                                                       \
            }                                                                                      \
    }                                                                                              \
    EACH_COLUMN total[i] += part[i];
#define COLUMNS_LOOP(name, T, body)                                                                \
    LOOP(name, ColumnsArgs) {                                                                      \
        const ptrdiff_t n = args->n, inner = args->inner, blocks = args->blocks;                   \
        for (ptrdiff_t unit = from; unit < to; unit++) {                                           \
            const ptrdiff_t column = unit % blocks * SIDE, first = unit / blocks * n * inner;      \
            const ptrdiff_t columns = least(SIDE, inner - column);                                 \
            const T *restrict a = (const T *)args->a + first + column;                             \
            const T *restrict b = args->b ? (const T *)args->b + first + column : NULL;            \
            T *restrict y = (T *)args->y + first + column;                                         \
            T most[SIDE], part[SIDE], total[SIDE];                                                 \
            (void)b, (void)most;                                                                   \
            body                                                                                   \
        }                                                                                          \
    }
#define MOST(T)                                                                                    \
    EACH_COLUMN most[i] = a[i];                                                                    \
    EACH_ROW EACH_COLUMN {                                                                         \
        T x = a[at * inner + i];                                                                   \
        most[i] = x > most[i] ? x : most[i];                                                       \
    }

#define SOFTMAX_COLUMNS(type, T, EXP)                                                              \
    COLUMNS_LOOP(softmax_columns_##type, T,                                                        \
                 MOST(T) TOTALS(T, EXP(a[at * inner + i] - most[i]), y[at * inner + i] = value)    \
                     EACH_ROW EACH_COLUMN y[at * inner + i] /= total[i];)                          \
    COLUMNS_LOOP(log_softmax_columns_##type, T,                                                    \
                 MOST(T) TOTALS(T, EXP(a[at * inner + i] - most[i]), ) EACH_COLUMN total[i] =      \
                     (T)log64((double)total[i]);                                                   \
                 EACH_ROW EACH_COLUMN y[at * inner + i] =                                          \
                     (a[at * inner + i] - most[i]) - total[i];)                                    \
    COLUMNS_LOOP(softmax_gradient_columns_##type, T,                                               \
                 TOTALS(T, a[at * inner + i] * b[at * inner + i], )                                \
                     EACH_ROW EACH_COLUMN y[at * inner + i] =                                      \
                         b[at * inner + i] * (a[at * inner + i] - total[i]);)                      \
    COLUMNS_LOOP(log_softmax_gradient_columns_##type, T,                                           \
                 TOTALS(T, a[at * inner + i], ) EACH_ROW EACH_COLUMN y[at * inner + i] =           \
                     a[at * inner + i] - EXP(b[at * inner + i]) * total[i];)

SOFTMAX_COLUMNS(float32, float, exp32)
SOFTMAX_COLUMNS(float64, double, exp64)
