// Softmax and its kin along one axis of (outer, columns, inner): a block for each row.

/// Where a row begins; its elements are `inner` apart.
__device__ inline i64 start_of(i64 row, i64 columns, i64 inner) {
  return row / inner * columns * inner + row % inner;
}

__device__ inline W largest(const T* x, i64 columns, i64 inner) {
  W top = -INF;
  FOR_EACH_COLUMN(j, columns) top = Max::of(top, W(x[j * inner]));
  return over_block<Max>(top);
}

__device__ inline W sum_of_exp(const T* x, W top, i64 columns, i64 inner) {
  W total = 0;
  FOR_EACH_COLUMN(j, columns) total += exp(W(x[j * inner]) - top);
  return over_block<Sum>(total);
}

KERNEL(softmax)(const T* x, T* y, i64 rows, i64 columns, i64 inner) {
  FOR_EACH_ROW(row, rows) {
    const i64 start = start_of(row, columns, inner);
    const W top = largest(x + start, columns, inner);
    const W total = sum_of_exp(x + start, top, columns, inner);
    FOR_EACH_COLUMN(j, columns) {
      const i64 i = start + j * inner;
      y[i] = T(exp(W(x[i]) - top) / total);
    }
  }
}

KERNEL(log_softmax)(const T* x, T* y, i64 rows, i64 columns, i64 inner) {
  FOR_EACH_ROW(row, rows) {
    const i64 start = start_of(row, columns, inner);
    const W top = largest(x + start, columns, inner);
    const W rest = log(sum_of_exp(x + start, top, columns, inner));
    FOR_EACH_COLUMN(j, columns) {
      const i64 i = start + j * inner;
      y[i] = T(W(x[i]) - top - rest);
    }
  }
}

/// Of attention's scores: their softmax, and the logarithm of what exp(x) is divided by. A row of
/// -inf, a query that may look nowhere, has weights of 0.
KERNEL(softmax_and_normalizer)(const T* x, T* y, W* normalizer, i64 rows, i64 columns) {
  FOR_EACH_ROW(row, rows) {
    const i64 start = row * columns;
    W top = largest(x + start, columns, 1);
    if (top == -INF) top = 0;
    W total = sum_of_exp(x + start, top, columns, 1);
    if (total == 0) total = 1;
    FOR_EACH_COLUMN(j, columns) y[start + j] = T(exp(W(x[start + j]) - top) / total);
    if (threadIdx.x == 0) normalizer[row] = top + log(total);
  }
}

/// loss = -sum(target * log_softmax(x)), and what the logarithm subtracts from x.
KERNEL(cross_entropy)
(const T* x, const T* labels, T* loss, W* normalizer, i64 rows, i64 columns, i64 inner,
 double smoothing) {
  FOR_EACH_ROW(row, rows) {
    const i64 start = start_of(row, columns, inner);
    const W top = largest(x + start, columns, inner);
    // top + log_sum - x would lose the digits of a small loss beside large logits.
    const W log_sum = log(sum_of_exp(x + start, top, columns, inner));
    W sum = 0;
    FOR_EACH_COLUMN(j, columns) {
      const i64 i = start + j * inner;
      const W target = W(labels[i]) * W(1 - smoothing) + W(smoothing / columns);
      // A class that is masked out, with a label of 0, adds nothing: not 0 times infinity.
      if (target != 0) sum += target * (log_sum - (W(x[i]) - top));
    }
    sum = over_block<Sum>(sum);
    if (threadIdx.x == 0) {
      loss[row] = T(sum);
      normalizer[row] = top + log_sum;
    }
  }
}

/// As cross_entropy, where `labels` name one class for each row.
KERNEL(sparse_cross_entropy)
(const T* x, const I* labels, T* loss, W* normalizer, i64 rows, i64 columns, i64 inner,
 double smoothing, i64 ignore, i64 ignores) {
  FOR_EACH_ROW(row, rows) {
    const i64 start = start_of(row, columns, inner);
    const W top = largest(x + start, columns, inner);
    const W log_sum = log(sum_of_exp(x + start, top, columns, inner));
    W sum = 0;
    if (smoothing != 0) {
      FOR_EACH_COLUMN(j, columns) sum += log_sum - (W(x[start + j * inner]) - top);
      sum = over_block<Sum>(sum) * W(smoothing / columns);
    }
    if (threadIdx.x == 0) {
      const i64 label = i64(labels[row]);
      W value = NOT_A_NUMBER;
      if (label >= 0 && label < columns) {
        value = (log_sum - (W(x[start + label * inner]) - top)) * W(1 - smoothing) + sum;
      }
      if (ignores && label == ignore) value = 0;
      loss[row] = T(value);
      normalizer[row] = top + log_sum;
    }
  }
}

/// g * (softmax(x) - target); an element for each thread.
KERNEL(sparse_cross_entropy_gradient)
(const T* x, const I* labels, const W* normalizer, const G* g, T* dx, i64 rows, i64 columns,
 i64 inner, double smoothing, i64 ignore, i64 ignores) {
  FOR_EACH(i, rows * columns) {
    const i64 row = i / (columns * inner) * inner + i % inner;
    const i64 label = i64(labels[row]);
    const W known = label >= 0 && label < columns ? W(g[row]) : W(NOT_A_NUMBER);
    const W slope = ignores && label == ignore ? W(0) : known;
    W target = W(smoothing / columns);
    if (i / inner % columns == label) target += W(1 - smoothing);
    dx[i] = T(slope * (exp(W(x[i]) - normalizer[row]) - target));
  }
}
