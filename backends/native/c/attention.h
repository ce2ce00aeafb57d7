/* Attention, with its scores in memory for some queries at a time: what a causal mask hides from all of
 * them is never computed.
 * p: 0 query, 1 key, 2 value, 3 a mask or NULL; the last two are the offsets of each item in these
 * four, one array after the other, and what the loop says.
 * n: 0 keys, 1 whether it is causal, 2 queries, 3 the depth of queries and keys, 4 of values; 5, 6, 7
 * and 8 how far apart their rows are, and the mask's; 9 the mask's columns; 10 whether the mask is one
 * of truth values; 11 items in all; 12 queries of a block; 13 query heads for each of key and value.
 * c: 0 scale. */

/* Keys that query `row` may look at. */
INLINE ptrdiff_t keys_seen(const ptrdiff_t *n, ptrdiff_t row) { return n[1] ? least(row + 1, n[0]) : n[0]; }

INLINE const float *item_of(const Job *job, const ptrdiff_t *offsets, int which, ptrdiff_t item) {
    return (const float *)job->p[which] + offsets[which * job->n[11] + item];
}

/* Scores of queries `first` to `last` of an item, (queries, keys); 0 where there is no memory. */
static int scores_of(const Job *job, const ptrdiff_t *offsets, ptrdiff_t item, ptrdiff_t first,
                     ptrdiff_t last, float *scores) {
    const ptrdiff_t *n = job->n;
    Matrix query = {item_of(job, offsets, 0, item) + first * n[5], n[5], 1};
    Matrix turned_key = {item_of(job, offsets, 1, item), 1, n[6]};
    if (!product(last - first, keys_seen(n, last - 1), n[3], query, turned_key, 0, scores, n[0]))
        return 0;
    ptrdiff_t place = job->p[3] ? offsets[3 * n[11] + item] : 0;
    float scale = (float)job->c[0];
    for (ptrdiff_t row = first; row < last; row++, scores += n[0]) {
        ptrdiff_t seen = keys_seen(n, row), at = place + row * n[8];
        for (ptrdiff_t j = 0; j < seen; j++)
            scores[j] *= scale;
        if (job->p[3] && n[10])
            for (ptrdiff_t j = 0; j < seen; j++)
                scores[j] = ((const char *)job->p[3])[at + j * n[9]] ? scores[j] : -INFINITY;
        else if (job->p[3])
            for (ptrdiff_t j = 0; j < seen; j++)
                scores[j] += ((const float *)job->p[3])[at + j * n[9]];
    }
    return 1;
}

/* Scores become weights in place; returns the normalizer, log(sum(exp(scores))). Nothing seen, or all
 * of it -inf, gives weights of 0. */
INLINE float weigh(float *x, ptrdiff_t seen, ptrdiff_t width) {
    float most = row_max(x, seen), total = 0.0f;
    if (most == -INFINITY)
        most = 0.0f;
    _Pragma("omp simd reduction(+ : total)") for (ptrdiff_t i = 0; i < seen; i++) {
        x[i] = exp32_falling(x[i] - most);
        total += x[i];
    }
    for (ptrdiff_t i = seen; i < width; i++)
        x[i] = 0.0f;
    if (total == 0.0f)
        total = 1.0f;
    float inverse = 1.0f / total;
    _Pragma("omp simd") for (ptrdiff_t i = 0; i < seen; i++) x[i] *= inverse;
    return most + logf(total);
}

/* Out are p: 4 (items, queries, depth of values), 5 the normalizers. Blocks of queries are counted. */
LOOP(attention) {
    const ptrdiff_t *n = job->n, *offsets = job->p[6];
    ptrdiff_t blocks = (n[2] + n[12] - 1) / n[12];
    float *scores = room_for(n[12] * n[0]);
    int failed = !scores, finite = 1;
    for (ptrdiff_t block = from; !failed && block < to; block++) {
        ptrdiff_t item = block / blocks, first = block % blocks * n[12];
        ptrdiff_t last = least(first + n[12], n[2]), seen = keys_seen(n, last - 1);
        failed = !scores_of(job, offsets, item, first, last, scores);
        float *y = (float *)job->p[4] + (item * n[2] + first) * n[4];
        float *normalizers = (float *)job->p[5] + item * n[2];
        for (ptrdiff_t row = first; !failed && row < last; row++)
            normalizers[row] = weigh(scores + (row - first) * n[0], keys_seen(n, row), seen);
        failed = failed
              || !product(last - first, n[4], seen, (Matrix){scores, n[0], 1},
                          (Matrix){item_of(job, offsets, 2, item), n[7], 1}, 0, y, n[4]);
        /* Every row has every value in it, if only times 0: one is enough to look at. */
        finite &= are_finite(y, n[4]) & are_finite(normalizers + first, last - first);
    }
    free(scores);
    if (failed || !finite)
        say(job, 7, failed ? NO_MEMORY : NOT_FINITE);
}

/* In are p: 4 the output, 5 the normalizers, 6 the output's cotangent; out are 7, 8 and 9 for query, key
 * and value, each in C order. Heads of key and value are counted. */
LOOP(attention_gradient) {
    const ptrdiff_t *n = job->n, *offsets = job->p[10];
    float *weights = room_for(2 * n[12] * n[0]), *slopes = weights + n[12] * n[0];
    int failed = !weights, finite = 1;
    for (ptrdiff_t shared = from; !failed && shared < to; shared++) {
        float *dk = (float *)job->p[8] + shared * n[0] * n[3], *dv = (float *)job->p[9] + shared * n[0] * n[4];
        memset(dk, 0, (size_t)(n[0] * n[3]) * sizeof(float));
        memset(dv, 0, (size_t)(n[0] * n[4]) * sizeof(float));
        for (ptrdiff_t at = 0; !failed && at < n[13] * n[2];) {
            ptrdiff_t item = shared * n[13] + at / n[2], first = at % n[2];
            ptrdiff_t last = least(first + n[12], n[2]), rows = last - first, seen = keys_seen(n, last - 1);
            const float *h = (const float *)job->p[6] + (item * n[2] + first) * n[4];
            const float *y = (const float *)job->p[4] + (item * n[2] + first) * n[4];
            const float *q = item_of(job, offsets, 0, item) + first * n[5];
            float *dq = (float *)job->p[7] + (item * n[2] + first) * n[3];
            Matrix key = {item_of(job, offsets, 1, item), n[6], 1};
            Matrix turned_value = {item_of(job, offsets, 2, item), 1, n[7]};
            failed = !scores_of(job, offsets, item, first, last, weights)
                  || !product(rows, seen, n[4], (Matrix){h, n[4], 1}, turned_value, 0, slopes, n[0]);
            for (ptrdiff_t row = 0; !failed && row < rows; row++) {
                float *restrict weight = weights + row * n[0], *restrict slope = slopes + row * n[0];
                float normalizer = ((const float *)job->p[5])[item * n[2] + first + row];
                float scale = (float)job->c[0], mean = 0.0f;
                ptrdiff_t own = keys_seen(n, first + row);
                _Pragma("omp simd reduction(+ : mean)") for (ptrdiff_t i = 0; i < n[4]; i++)
                    mean += h[row * n[4] + i] * y[row * n[4] + i];
                _Pragma("omp simd") for (ptrdiff_t i = 0; i < own; i++) {
                    weight[i] = exp32_falling(weight[i] - normalizer);
                    slope[i] = (slope[i] - mean) * weight[i] * scale;
                }
                for (ptrdiff_t i = own; i < seen; i++)
                    weight[i] = slope[i] = 0.0f;
            }
            failed = failed
                  || !product(seen, n[4], rows, (Matrix){weights, 1, n[0]}, (Matrix){h, n[4], 1}, 1, dv, n[4])
                  || !product(rows, n[3], seen, (Matrix){slopes, n[0], 1}, key, 0, dq, n[3])
                  || !product(seen, n[3], rows, (Matrix){slopes, 1, n[0]}, (Matrix){q, n[5], 1}, 1, dk, n[3]);
            /* All that the last query sees is in its row, if only times 0. */
            finite &= are_finite(dq + (rows - 1) * n[3], n[3]);
            at += rows;
        }
        /* And all queries in those of the first key, which every one of them sees. */
        finite &= are_finite(dk, n[3]) & are_finite(dv, n[4]);
    }
    free(weights);
    if (failed || !finite)
        say(job, 11, failed ? NO_MEMORY : NOT_FINITE);
}
