// A step of the long short-term memory and of its gradient: all that is between matrix products.
// Gates i, f, g, o lie side by side, (batch, time, 4 * units); an element for each thread.

__device__ inline W sigmoid(W x) {
  const W e = exp(-fabs(x));  // nothing overflows
  return (x < 0 ? e : W(1)) / (1 + e);
}

/// From what the inputs give to the gates (over all steps) and what the last output does (of one).
KERNEL(lstm_step)
(const W* inputs, const W* recurrent, const bool* mask, const W* h, const W* c, W* gates, W* cells,
 T* out, W* new_h, W* new_c, i64 batch, i64 time, i64 units, i64 step) {
  FOR_EACH(k, batch * units) {
    const i64 item = k / units, unit = k % units, row = item * time + step;
    W z[4];
    for (int gate = 0; gate < 4; ++gate) {
      const i64 column = gate * units + unit;
      z[gate] = inputs[row * 4 * units + column] + recurrent[item * 4 * units + column];
      z[gate] = gate == 2 ? tanh(z[gate]) : sigmoid(z[gate]);
      gates[row * 4 * units + column] = z[gate];
    }
    W cell = z[1] * c[k] + z[0] * z[2], output = z[3] * tanh(cell);
    if (mask && !mask[row]) cell = c[k], output = h[k];
    cells[row * units + unit] = new_c[k] = cell;
    new_h[k] = output;
    out[row * units + unit] = T(output);
  }
}

/// From the slopes of the outputs and of the state after a step: those of its gates and of the
/// state before it. `back` is what the gates of the later step pass to this one's output, `kept`
/// what it had to pass where it was not there.
KERNEL(lstm_step_gradient)
(const W* gates, const W* cells, const W* earlier, i64 earlier_step, const bool* mask, const G* out_g,
 const W* back, const W* kept, i64 later_step, const W* dc, W* dz, W* dz_of_step, W* new_kept,
 W* new_dc, i64 batch, i64 time, i64 units, i64 step) {
  FOR_EACH(k, batch * units) {
    const i64 item = k / units, unit = k % units, row = item * time + step;
    const W* z = gates + row * 4 * units + unit;
    const W i = z[0], f = z[units], g = z[2 * units], o = z[3 * units];
    const bool later = later_step < 0 || !mask || mask[item * time + later_step];
    const W dh = (later ? back[k] : kept[k]) + W(out_g[row * units + unit]);
    const W t = tanh(cells[row * units + unit]);
    const W before = earlier_step < 0 ? earlier[k] : earlier[(item * time + earlier_step) * units + unit];
    const W dcell = dc[k] + dh * o * (1 - t * t);
    W slopes[4] = {dcell * g * (i * (1 - i)), dcell * before * (f * (1 - f)),
                   dcell * i * (1 - g * g), dh * t * (o * (1 - o))};
    const bool there = !mask || mask[row];
    for (int gate = 0; gate < 4; ++gate) {
      const W slope = there ? slopes[gate] : W(0);
      dz[row * 4 * units + gate * units + unit] = slope;
      dz_of_step[item * 4 * units + gate * units + unit] = slope;
    }
    new_kept[k] = dh;
    new_dc[k] = there ? dcell * f : dc[k];
  }
}
