/* Euclidean distances of rows, and what their gradients are made of, by the differences themselves.
 *
 * float32 is added in float32 for some terms, and in double precision from there on. Sums whose
 * squares left the range, or came near its lower end, are computed anew in double precision; of
 * float64 the status says so. */

#define FEW_TERMS 1024
#define PAIRS 4
#define SIDE 64
/* Rows of fewer elements are compared side by side. */
#define SHORT_ROWS 16

INLINE double distance_again(const float *a, const float *b, ptrdiff_t size) {
    double sum = 0;
    for (ptrdiff_t i = 0; i < size; i++)
        sum += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
    return sum;
}

INLINE int are_equal(const double *a, const double *b, ptrdiff_t size) {
    int equal = 1;
    for (ptrdiff_t i = 0; i < size; i++)
        equal &= a[i] == b[i];
    return equal;
}

#define DISTANCES(T, LEAST, MOST, AGAIN)                                                           \
    /* The squared distances of a from `many` rows. */                                             \
    INLINE void squares_##T(const T *a, const T *b, ptrdiff_t size, const int many,                \
                            double *totals) {                                                      \
        for (int i = 0; i < many; i++)                                                             \
            totals[i] = 0;                                                                         \
        for (ptrdiff_t first = 0; first < size; first += FEW_TERMS) {                              \
            ptrdiff_t end = size - first < FEW_TERMS ? size : first + FEW_TERMS;                   \
            T s0 = 0, s1 = 0, s2 = 0, s3 = 0;                                                      \
            const T *b1 = b + (many > 1) * size, *b2 = b1 + (many > 1) * size,                     \
                    *b3 = b2 + (many > 1) * size;                                                  \
            _Pragma("omp simd reduction(+ : s0, s1, s2, s3)")                                      \
            for (ptrdiff_t i = first; i < end; i++) {                                              \
                T x = a[i], d0 = x - b[i];                                                         \
                s0 += d0 * d0;                                                                     \
                if (many > 1) {                                                                    \
                    T d1 = x - b1[i], d2 = x - b2[i], d3 = x - b3[i];                              \
                    s1 += d1 * d1, s2 += d2 * d2, s3 += d3 * d3;                                   \
                }                                                                                  \
            }                                                                                      \
            totals[0] += (double)s0;                                                               \
            if (many > 1)                                                                          \
                totals[1] += (double)s1, totals[2] += (double)s2, totals[3] += (double)s3;         \
        }                                                                                          \
    }                                                                                              \
    LOOP(distances_##T, DistancesArgs) {                                                           \
        ptrdiff_t rows = args->rows, columns = args->columns, size = args->size;                   \
        for (ptrdiff_t row = from; row < to; row++) {                                              \
            const T *a = (const T *)args->a + row * size;                                          \
            const T *b = (const T *)args->b + row / rows * columns * size;                         \
            T *y = (T *)args->y + row * columns;                                                   \
            for (ptrdiff_t at = 0; at < columns; at += SIDE) {                                     \
                ptrdiff_t many = columns - at < SIDE ? columns - at : SIDE, next = 0;              \
                double totals[SIDE];                                                               \
                const T *here = b + at * size;                                                     \
                if (size < SHORT_ROWS) {                                                           \
                    T sums[SIDE];                                                                  \
                    for (ptrdiff_t j = 0; j < many; j++)                                           \
                        sums[j] = 0;                                                               \
                    for (ptrdiff_t i = 0; i < size; i++) {                                         \
                        _Pragma("omp simd")                                                        \
                        for (ptrdiff_t j = 0; j < many; j++) {                                     \
                            T d = a[i] - here[j * size + i];                                       \
                            sums[j] += d * d;                                                      \
                        }                                                                          \
                    }                                                                              \
                    for (; next < many; next++)                                                    \
                        totals[next] = (double)sums[next];                                         \
                }                                                                                  \
                for (; next + PAIRS <= many; next += PAIRS)                                        \
                    squares_##T(a, here + next * size, size, PAIRS, totals + next);                \
                for (; next < many; next++)                                                        \
                    squares_##T(a, here + next * size, size, 1, totals + next);                    \
                for (ptrdiff_t j = 0; j < many; j++)                                               \
                    if (!(totals[j] > LEAST && totals[j] < MOST))                                  \
                        AGAIN;                                                                     \
                for (ptrdiff_t j = 0; j < many; j++)                                               \
                    y[at + j] = (T)__builtin_sqrt(totals[j]);                                      \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    /* The sums over j of w_ij (a_i - b_j). */                                                     \
    LOOP(weighted_differences_##T, DifferencesArgs) {                                              \
        ptrdiff_t rows = args->rows, columns = args->columns, size = args->size;                   \
        for (ptrdiff_t row = from; row < to; row++) {                                              \
            const T *b = (const T *)args->b + row / rows * columns * size;                         \
            const T *w = (const T *)args->weights + row / rows * rows * columns                    \
                       + row % rows * args->row_step;                                              \
            for (ptrdiff_t first = 0; first < size; first += SIDE) {                               \
                ptrdiff_t many = size - first < SIDE ? size - first : SIDE;                        \
                const T *a = (const T *)args->a + row * size + first;                              \
                T own[SIDE], part[SIDE];                                                           \
                double total[SIDE];                                                                \
                for (ptrdiff_t i = 0; i < SIDE; i++)                                               \
                    total[i] = 0, own[i] = i < many ? a[i] : 0;                                    \
                for (ptrdiff_t j = 0; j < columns;) {                                              \
                    ptrdiff_t end = columns - j < SIDE ? columns : j + SIDE;                       \
                    for (ptrdiff_t i = 0; i < SIDE; i++)                                           \
                        part[i] = 0;                                                               \
                    for (; j < end; j++) {                                                         \
                        T weight = w[j * args->column_step];                                       \
                        const T *other = b + j * size + first;                                     \
                        if (many == SIDE) {                                                        \
                            _Pragma("omp simd")                                                    \
                            for (ptrdiff_t i = 0; i < SIDE; i++)                                   \
                                part[i] += weight * (own[i] - other[i]);                           \
                        } else {                                                                   \
                            _Pragma("omp simd")                                                    \
                            for (ptrdiff_t i = 0; i < many; i++)                                   \
                                part[i] += weight * (own[i] - other[i]);                           \
                        }                                                                          \
                    }                                                                              \
                    for (ptrdiff_t i = 0; i < SIDE; i++)                                           \
                        total[i] += (double)part[i];                                               \
                }                                                                                  \
                for (ptrdiff_t i = 0; i < many; i++)                                               \
                    ((T *)args->y)[row * size + first + i] = (T)total[i];                          \
            }                                                                                      \
        }                                                                                          \
    }
DISTANCES(float32, 1e-30, 1e37, totals[j] = distance_again(a, here + j * size, size))
DISTANCES(float64, 1e-280, 1e300,
          if (totals[j] != 0 || !are_equal(a, here + j * size, size))
              __atomic_fetch_or(args->status, NOT_FINITE, __ATOMIC_RELAXED))
#undef SIDE
