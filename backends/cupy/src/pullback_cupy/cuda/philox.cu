// Philox 4x64-10 (Salmon et al., 2011): the random numbers of every backend of pullback.

struct State {
  u64 key[2], counter[4];
};

struct Words {
  u64 of[4];
};

/// The block that is `ahead` + 1 after the state's counter: it counts before it draws.
__device__ inline Words block_of(const State& state, u64 ahead) {
  Words c;
  u64 carry = 0;
  for (int i = 0; i < 4; ++i) {
    const u64 before = state.counter[i] + carry;
    carry = before < carry;
    c.of[i] = before;
    if (i == 0) {
      c.of[0] += ahead;
      carry += c.of[0] < ahead;
      c.of[0] += 1;
      carry += c.of[0] == 0;
    }
  }
  u64 k0 = state.key[0], k1 = state.key[1];
  for (int round = 0; round < 10; ++round) {
    const u64 high0 = __umul64hi(0xD2E7470EE14C6C93ull, c.of[0]);
    const u64 low0 = 0xD2E7470EE14C6C93ull * c.of[0];
    const u64 high1 = __umul64hi(0xCA5A826395121157ull, c.of[2]);
    const u64 low1 = 0xCA5A826395121157ull * c.of[2];
    c = Words{{high1 ^ c.of[1] ^ k0, low1, high0 ^ c.of[3] ^ k1, low0}};
    k0 += 0x9E3779B97F4A7C15ull;
    k1 += 0xBB67AE8584CAA73Bull;
  }
  return c;
}

KERNEL(bits64)(u64* y, i64 size, State state) {
  FOR_EACH(block, (size + 3) / 4) {
    const Words words = block_of(state, block);
    for (int i = 0; i < 4 && block * 4 + i < size; ++i) y[block * 4 + i] = words.of[i];
  }
}

/// The low half of a word first.
__device__ inline unsigned int half_of(const Words& words, int i) {
  return (unsigned int)(words.of[i / 2] >> (i % 2 * 32));
}

KERNEL(bits32)(unsigned int* y, i64 size, State state) {
  FOR_EACH(block, (size + 7) / 8) {
    const Words words = block_of(state, block);
    for (int i = 0; i < 8 && block * 8 + i < size; ++i) y[block * 8 + i] = half_of(words, i);
  }
}

__device__ inline double real_of(u64 bits) { return double(bits >> 11) * (1.0 / (1ull << 53)); }

/// The top `digits` bits as a number in [0, 1).
__device__ inline float real_of(unsigned int bits, int digits) {
  return float(bits >> (32 - digits)) * (1.0f / float(1u << digits));
}

KERNEL(uniform64)(double* y, i64 size, State state) {
  FOR_EACH(block, (size + 3) / 4) {
    const Words words = block_of(state, block);
    for (int i = 0; i < 4 && block * 4 + i < size; ++i) y[block * 4 + i] = real_of(words.of[i]);
  }
}

KERNEL(uniform32)(T* y, i64 size, State state, i64 digits) {
  FOR_EACH(block, (size + 7) / 8) {
    const Words words = block_of(state, block);
    for (int i = 0; i < 8 && block * 8 + i < size; ++i) {
      y[block * 8 + i] = T(real_of(half_of(words, i), int(digits)));
    }
  }
}

__device__ inline void uniform_at(const State& state, i64 i, double* u) {
  *u = real_of(block_of(state, i / 4).of[i % 4]);
}

__device__ inline void uniform_at(const State& state, i64 i, float* u) {
  *u = real_of(half_of(block_of(state, i / 8), int(i % 8)), 24);
}

/// Box and Muller (1958): the first half of the uniform numbers are radii, the second angles.
KERNEL(normal)(T* y, i64 size, State state) {
  const i64 half = (size + 1) / 2;
  FOR_EACH(i, half) {
    W u, angle;
    uniform_at(state, i, &u);
    uniform_at(state, half + i, &angle);
    const W radius = sqrt(-2 * log1p(-u));
    angle *= W(6.283185307179586);
    y[i] = T(radius * cos(angle));
    if (half + i < size) y[half + i] = T(radius * sin(angle));
  }
}

/// Where the float32 numbers for the places are at least `rate`.
KERNEL(kept)(bool* y, i64 size, State state, double rate) {
  FOR_EACH(block, (size + 7) / 8) {
    const Words words = block_of(state, block);
    for (int i = 0; i < 8 && block * 8 + i < size; ++i) {
      y[block * 8 + i] = real_of(half_of(words, i), 24) >= float(rate);
    }
  }
}
