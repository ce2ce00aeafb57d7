// Layer and RMS normalization of rows, each by a block; means are taken in W.

KERNEL(layer_norm)
(const T* x, const S* scale, const O* offset, T* y, W* center, W* spread, i64 rows, i64 columns,
 double epsilon) {
  FOR_EACH_ROW(row, rows) {
    const T* from = x + row * columns;
    W sum = 0;
    FOR_EACH_COLUMN(j, columns) sum += W(from[j]);
    const W mean = over_block<Sum>(sum) / columns;
    // About the mean: the mean of squares has no digits left where the mean is large.
    sum = 0;
    FOR_EACH_COLUMN(j, columns) sum += (W(from[j]) - mean) * (W(from[j]) - mean);
    const W width = 1 / sqrt(over_block<Sum>(sum) / columns + W(epsilon));
    FOR_EACH_COLUMN(j, columns) {
      W value = (W(from[j]) - mean) * width;
      if (scale) value *= W(scale[j]);
      if (offset) value += W(offset[j]);
      y[row * columns + j] = T(value);
    }
    if (threadIdx.x == 0) {
      center[row] = mean;
      spread[row] = width;
    }
  }
}

KERNEL(layer_norm_gradient)
(const T* x, const S* scale, const W* center, const W* spread, const G* g, T* dx, i64 rows,
 i64 columns) {
  FOR_EACH_ROW(row, rows) {
    const T* from = x + row * columns;
    const G* slopes = g + row * columns;
    const W mean = center[row], width = spread[row];
    W level = 0, slope = 0;
    FOR_EACH_COLUMN(j, columns) {
      const W h = W(slopes[j]) * (scale ? W(scale[j]) : W(1));
      level += h;
      slope += h * ((W(from[j]) - mean) * width);
    }
    level = over_block<Sum>(level) / columns;
    slope = over_block<Sum>(slope) / columns;
    FOR_EACH_COLUMN(j, columns) {
      const W h = W(slopes[j]) * (scale ? W(scale[j]) : W(1));
      dx[row * columns + j] = T((h - level - (W(from[j]) - mean) * width * slope) * width);
    }
  }
}

KERNEL(rms_norm)
(const T* x, const S* scale, T* y, W* spread, i64 rows, i64 columns, double epsilon) {
  FOR_EACH_ROW(row, rows) {
    const T* from = x + row * columns;
    W sum = 0;
    FOR_EACH_COLUMN(j, columns) sum += W(from[j]) * W(from[j]);
    const W width = 1 / sqrt(over_block<Sum>(sum) / columns + W(epsilon));
    FOR_EACH_COLUMN(j, columns) {
      y[row * columns + j] = T(W(from[j]) * width * (scale ? W(scale[j]) : W(1)));
    }
    if (threadIdx.x == 0) spread[row] = width;
  }
}

KERNEL(rms_norm_gradient)
(const T* x, const S* scale, const W* spread, const G* g, T* dx, i64 rows, i64 columns) {
  FOR_EACH_ROW(row, rows) {
    const T* from = x + row * columns;
    const G* slopes = g + row * columns;
    const W width = spread[row];
    W slope = 0;
    FOR_EACH_COLUMN(j, columns) {
      slope += W(slopes[j]) * (scale ? W(scale[j]) : W(1)) * (W(from[j]) * width);
    }
    slope = over_block<Sum>(slope) / columns;
    FOR_EACH_COLUMN(j, columns) {
      const W h = W(slopes[j]) * (scale ? W(scale[j]) : W(1));
      dx[row * columns + j] = T((h - W(from[j]) * width * slope) * width);
    }
  }
}
