// Sliding windows over images: what convolution and pooling do between matrix products.
//
// Images are (batch, *spatial, channels) or (batch, channels, *spatial), with three spatial
// dimensions (of which the first may be 1), told by their strides. Gradients are gathered: every
// element of an image adds up what the windows over it give, in one order, without atomics.

struct Geometry {
  i64 batch, channels;
  i64 in[3], out[3], window[3], stride[3], pad[3], dilation[3];
  i64 in_strides[5], out_strides[5];  // of batch, the spatial dimensions, channels
};

/// A place in (batch, *spatial, channels), counted in that order.
struct Place {
  i64 n, at[3], c;
  __device__ Place(i64 i, const i64* spatial, i64 channels) {
    c = i % channels, i /= channels;
    for (int d = 2; d >= 0; --d) at[d] = i % spatial[d], i /= spatial[d];
    n = i;
  }
  __device__ i64 offset(const i64* strides) const {
    return n * strides[0] + at[0] * strides[1] + at[1] * strides[2] + at[2] * strides[3] +
           c * strides[4];
  }
};

__device__ inline i64 size_of(const i64* sizes) { return sizes[0] * sizes[1] * sizes[2]; }

/// What a window at `out` has as its tap of the number `tap`: in `in`; false for padding.
__device__ inline bool tapped(const Geometry& how, const Place& out, i64 tap, Place* in) {
  bool inside = true;
  for (int d = 2; d >= 0; --d) {
    const i64 step = tap % how.window[d];
    tap /= how.window[d];
    in->at[d] = out.at[d] * how.stride[d] + step * how.dilation[d] - how.pad[d];
    inside = inside && in->at[d] >= 0 && in->at[d] < how.in[d];
  }
  in->n = out.n, in->c = out.c;
  return inside;
}

/// The window that has `in` as its tap of the number `tap`: in `out`; false if there is none.
__device__ inline bool window_over(const Geometry& how, const Place& in, i64 tap, Place* out) {
  for (int d = 2; d >= 0; --d) {
    const i64 start = in.at[d] + how.pad[d] - tap % how.window[d] * how.dilation[d];
    tap /= how.window[d];
    if (start < 0 || start % how.stride[d] != 0 || start / how.stride[d] >= how.out[d]) {
      return false;
    }
    out->at[d] = start / how.stride[d];
  }
  out->n = in.n, out->c = in.c;
  return true;
}

// Convolution: rows (batch, *out) of columns (window, channels). -------------------------------

KERNEL(to_columns)(const T* x, T* columns, Geometry how) {
  const i64 taps = size_of(how.window);
  FOR_EACH(i, how.batch * size_of(how.out) * taps * how.channels) {
    Place out(i / (taps * how.channels), how.out, 1);
    out.c = i % how.channels;
    Place in = out;
    const bool inside = tapped(how, out, i / how.channels % taps, &in);
    columns[i] = inside ? x[in.offset(how.in_strides)] : T(0.0f);
  }
}

KERNEL(from_columns)(const T* columns, T* x, Geometry how) {
  const i64 taps = size_of(how.window);
  FOR_EACH(i, how.batch * size_of(how.in) * how.channels) {
    const Place in(i, how.in, how.channels);
    Place out = in;
    W sum = 0;
    for (i64 tap = 0; tap < taps; ++tap) {
      if (!window_over(how, in, tap, &out)) continue;
      i64 row = out.n;
      for (int d = 0; d < 3; ++d) row = row * how.out[d] + out.at[d];
      sum += W(columns[(row * taps + tap) * how.channels + in.c]);
    }
    x[in.offset(how.in_strides)] = T(sum);
  }
}

// Pooling --------------------------------------------------------------------------------------

KERNEL(max_pool)(const T* x, T* y, int* indices, Geometry how, double least) {
  FOR_EACH(i, how.batch * size_of(how.out) * how.channels) {
    const Place out(i, how.out, how.channels);
    Place in = out;
    int best = 0;
    T top = T(0);
    for (i64 tap = 0; tap < size_of(how.window); ++tap) {
      const T value = tapped(how, out, tap, &in) ? x[in.offset(how.in_strides)] : T(least);
      // The first of equal ones; NaN is larger than all.
      if (tap == 0 || W(value) > W(top) || (W(value) != W(value) && W(top) == W(top))) {
        top = value;
        best = int(tap);
      }
    }
    y[out.offset(how.out_strides)] = top;
    indices[out.offset(how.out_strides)] = best;
  }
}

KERNEL(max_pool_gradient)(const T* g, const int* indices, T* dx, Geometry how) {
  FOR_EACH(i, how.batch * size_of(how.in) * how.channels) {
    const Place in(i, how.in, how.channels);
    Place out = in;
    W sum = 0;
    for (i64 tap = 0; tap < size_of(how.window); ++tap) {
      if (!window_over(how, in, tap, &out)) continue;
      const i64 from = out.offset(how.out_strides);
      if (indices[from] == tap) sum += W(g[from]);
    }
    dx[in.offset(how.in_strides)] = T(sum);
  }
}

KERNEL(max_pool_gather)(const T* x, const int* indices, T* y, Geometry how) {
  FOR_EACH(i, how.batch * size_of(how.out) * how.channels) {
    const Place out(i, how.out, how.channels);
    const i64 to = out.offset(how.out_strides);
    Place in = out;
    const bool inside = tapped(how, out, indices[to], &in);
    y[to] = inside ? x[in.offset(how.in_strides)] : T(0);
  }
}

/// How many elements the mean of a window is over.
__device__ inline W counted(const Geometry& how, const Place& out, i64 with_padding) {
  if (with_padding) return W(size_of(how.window));
  Place in = out;
  int count = 0;
  for (i64 tap = 0; tap < size_of(how.window); ++tap) count += tapped(how, out, tap, &in);
  return W(count > 0 ? count : 1);
}

KERNEL(avg_pool)(const T* x, T* y, Geometry how, i64 with_padding) {
  FOR_EACH(i, how.batch * size_of(how.out) * how.channels) {
    const Place out(i, how.out, how.channels);
    Place in = out;
    W sum = 0;
    for (i64 tap = 0; tap < size_of(how.window); ++tap) {
      if (tapped(how, out, tap, &in)) sum += W(x[in.offset(how.in_strides)]);
    }
    y[out.offset(how.out_strides)] = T(sum / counted(how, out, with_padding));
  }
}

KERNEL(avg_pool_gradient)(const T* g, T* dx, Geometry how, i64 with_padding) {
  FOR_EACH(i, how.batch * size_of(how.in) * how.channels) {
    const Place in(i, how.in, how.channels);
    Place out = in;
    W sum = 0;
    for (i64 tap = 0; tap < size_of(how.window); ++tap) {
      if (!window_over(how, in, tap, &out)) continue;
      sum += W(g[out.offset(how.out_strides)]) / counted(how, out, with_padding);
    }
    dx[in.offset(how.in_strides)] = T(sum);
  }
}
