/* Attention, with the scores of some queries at a time: keys that a causal mask hides from all of
 * them are skipped. */

/* The lists of offsets. */
enum { QUERY, KEY, VALUE, MASK };

/* The number of keys that query `row` may look at. */
INLINE ptrdiff_t keys_seen(const AttentionSizes *n, ptrdiff_t row) {
    return n->is_causal ? least(row + 1, n->keys) : n->keys;
}

INLINE ptrdiff_t offset_of(const AttentionSizes *n, int list, ptrdiff_t item) {
    return n->offsets[list * n->items + item];
}

/* Scores of queries `first` to `last` of an item, (queries, keys); 0 if there is no memory. */
static int scores_of(const AttentionSizes *n, const float *query, const float *key,
                     const void *mask, ptrdiff_t item, ptrdiff_t first, ptrdiff_t last,
                     float *scores) {
    Matrix queries = {query + offset_of(n, QUERY, item) + first * n->query_step, n->query_step, 1};
    Matrix transposed_key = {key + offset_of(n, KEY, item), 1, n->key_step};
    if (!product(last - first, keys_seen(n, last - 1), n->depth, queries, transposed_key, 0, scores,
                 n->keys))
        return 0;
    ptrdiff_t mask_begin = mask ? offset_of(n, MASK, item) : 0;
    float scale = (float)n->scale;
    for (ptrdiff_t row = first; row < last; row++, scores += n->keys) {
        ptrdiff_t seen = keys_seen(n, row), at = mask_begin + row * n->mask_row_step;
        for (ptrdiff_t j = 0; j < seen; j++)
            scores[j] *= scale;
        if (mask && n->mask_is_boolean)
            for (ptrdiff_t j = 0; j < seen; j++)
                scores[j] =
                    ((const char *)mask)[at + j * n->mask_column_step] ? scores[j] : -INFINITY;
        else if (mask)
            for (ptrdiff_t j = 0; j < seen; j++)
                scores[j] += ((const float *)mask)[at + j * n->mask_column_step];
    }
    return 1;
}

/* Scores become weights in place; returns the normalizer, log(sum(exp(scores))). Where all
 * scores are -inf, or there are none, weights are 0. */
INLINE float weigh(float *x, ptrdiff_t seen, ptrdiff_t width) {
    float most = row_max(x, seen), total = 0.0f;
    if (most == -INFINITY)
        most = 0.0f;
    _Pragma("omp simd reduction(+ : total)")
    for (ptrdiff_t i = 0; i < seen; i++) {
        x[i] = exp32_falling(x[i] - most);
        total += x[i];
    }
    for (ptrdiff_t i = seen; i < width; i++)
        x[i] = 0.0f;
    if (total == 0.0f)
        total = 1.0f;
    float inverse = 1.0f / total;
    _Pragma("omp simd")
    for (ptrdiff_t i = 0; i < seen; i++)
        x[i] *= inverse;
    return most + logf(total);
}

/* Counts blocks of queries. */
LOOP(attention, AttentionArgs) {
    const AttentionSizes *n = &args->sizes;
    ptrdiff_t blocks = (n->queries + n->block_queries - 1) / n->block_queries;
    float *scores = room_for(n->block_queries * n->keys);
    int failed = !scores, finite = 1;
    for (ptrdiff_t block = from; !failed && block < to; block++) {
        ptrdiff_t item = block / blocks, first = block % blocks * n->block_queries;
        ptrdiff_t last = least(first + n->block_queries, n->queries), seen = keys_seen(n, last - 1);
        failed = !scores_of(n, args->query, args->key, args->mask, item, first, last, scores);
        float *y = args->y + (item * n->queries + first) * n->value_depth;
        float *normalizers = args->normalizers + item * n->queries;
        for (ptrdiff_t row = first; !failed && row < last; row++)
            normalizers[row] = weigh(scores + (row - first) * n->keys, keys_seen(n, row), seen);
        failed = failed
              || !product(last - first, n->value_depth, seen, (Matrix){scores, n->keys, 1},
                          (Matrix){args->value + offset_of(n, VALUE, item), n->value_step, 1}, 0, y,
                          n->value_depth);
        /* Every row contains every value, if only times 0, so one row is enough to check. */
        finite &= are_finite(y, n->value_depth) & are_finite(normalizers + first, last - first);
    }
    free(scores);
    if (failed || !finite)
        set_status(args->status, failed ? NO_MEMORY : NOT_FINITE);
}

/* Counts heads of key and value. */
LOOP(attention_gradient, AttentionGradientArgs) {
    const AttentionSizes *n = &args->sizes;
    float *weights = room_for(2 * n->block_queries * n->keys),
          *slopes = weights + n->block_queries * n->keys;
    int failed = !weights, finite = 1;
    for (ptrdiff_t shared = from; !failed && shared < to; shared++) {
        float *dk = args->dkey + shared * n->keys * n->depth,
              *dv = args->dvalue + shared * n->keys * n->value_depth;
        memset(dk, 0, (size_t)(n->keys * n->depth) * sizeof(float));
        memset(dv, 0, (size_t)(n->keys * n->value_depth) * sizeof(float));
        for (ptrdiff_t at = 0; !failed && at < n->heads * n->queries;) {
            ptrdiff_t item = shared * n->heads + at / n->queries, first = at % n->queries;
            ptrdiff_t last = least(first + n->block_queries, n->queries), rows = last - first,
                      seen = keys_seen(n, last - 1);
            const float *h = args->g + (item * n->queries + first) * n->value_depth;
            const float *y = args->y + (item * n->queries + first) * n->value_depth;
            const float *q = args->query + offset_of(n, QUERY, item) + first * n->query_step;
            float *dq = args->dquery + (item * n->queries + first) * n->depth;
            Matrix key = {args->key + offset_of(n, KEY, item), n->key_step, 1};
            Matrix transposed_value = {args->value + offset_of(n, VALUE, item), 1, n->value_step};
            failed = !scores_of(n, args->query, args->key, args->mask, item, first, last, weights)
                  || !product(rows, seen, n->value_depth, (Matrix){h, n->value_depth, 1},
                              transposed_value, 0, slopes, n->keys);
            for (ptrdiff_t row = 0; !failed && row < rows; row++) {
                float *restrict weight = weights + row * n->keys, *restrict slope =
                                                                      slopes + row * n->keys;
                float normalizer = (args->normalizers)[item * n->queries + first + row];
                float scale = (float)n->scale, mean = 0.0f;
                ptrdiff_t own = keys_seen(n, first + row);
                _Pragma("omp simd reduction(+ : mean)")
                for (ptrdiff_t i = 0; i < n->value_depth; i++)
                    mean += h[row * n->value_depth + i] * y[row * n->value_depth + i];
                _Pragma("omp simd")
                for (ptrdiff_t i = 0; i < own; i++) {
                    weight[i] = exp32_falling(weight[i] - normalizer);
                    slope[i] = (slope[i] - mean) * weight[i] * scale;
                }
                for (ptrdiff_t i = own; i < seen; i++)
                    weight[i] = slope[i] = 0.0f;
            }
            failed = failed
                  || !product(seen, n->value_depth, rows, (Matrix){weights, 1, n->keys},
                              (Matrix){h, n->value_depth, 1}, 1, dv, n->value_depth)
                  || !product(rows, n->depth, seen, (Matrix){slopes, n->keys, 1}, key, 0, dq,
                              n->depth)
                  || !product(seen, n->depth, rows, (Matrix){slopes, 1, n->keys},
                              (Matrix){q, n->query_step, 1}, 1, dk, n->depth);
            /* The row of the last query contains all that it sees, if only times 0. */
            finite &= are_finite(dq + (rows - 1) * n->depth, n->depth);
            at += rows;
        }
        /* And the rows of the first key contain all queries, for each of them sees it. */
        finite &= are_finite(dk, n->depth) & are_finite(dv, n->value_depth);
    }
    free(weights);
    if (failed || !finite)
        set_status(args->status, failed ? NO_MEMORY : NOT_FINITE);
}
