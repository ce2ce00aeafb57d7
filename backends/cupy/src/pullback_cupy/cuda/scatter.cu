// Adding and putting at positions, with the same bits at every run.
//
// Atomic sums of floats depend on which thread came first. Here positions are sorted (stable, 8
// bits a pass, by counting), and what goes to one place is added up in the order of the updates.

#define TILE 256  // positions of a block, and its threads

/// How often each digit occurs in each tile: counts[digit, tile].
KERNEL(count_digits)(const unsigned int* keys, i64 size, i64 shift, int* counts, i64 tiles) {
  __shared__ int found[256];
  found[threadIdx.x] = 0;
  __syncthreads();
  const i64 i = blockIdx.x * (i64)TILE + threadIdx.x;
  if (i < size) atomicAdd(&found[keys[i] >> shift & 255], 1);
  __syncthreads();
  counts[threadIdx.x * tiles + blockIdx.x] = found[threadIdx.x];
}

/// Moves keys and their places to where the counts, added up to `ends`, say.
KERNEL(place_digits)
(const unsigned int* keys, const int* places, i64 size, i64 shift, const int* counts,
 const int* ends, unsigned int* new_keys, int* new_places, i64 tiles) {
  __shared__ int digits[TILE];
  const i64 i = blockIdx.x * (i64)TILE + threadIdx.x;
  const int digit = i < size ? int(keys[i] >> shift & 255) : -1;
  digits[threadIdx.x] = digit;
  __syncthreads();
  if (i < size) {
    const i64 column = digit * tiles + blockIdx.x;
    i64 to = ends[column] - counts[column];
    for (int before = 0; before < threadIdx.x; ++before) to += digits[before] == digit;
    new_keys[to] = keys[i];
    new_places[to] = places[i];
  }
}

/// Positions as keys: those outside the axis come last, behind all places, and are told.
KERNEL(to_keys)
(const I* indices, i64 size, i64 axis, unsigned int* keys, int* places, i64* fault) {
  FOR_EACH(i, size) {
    i64 index = i64(indices[i]);
    if (index < -axis || index >= axis) {
      *fault = axis + 1;
      index = axis;
    }
    keys[i] = (unsigned int)(index < 0 ? index + axis : index);
    places[i] = int(i);
  }
}

/// The first of sorted keys that is at least `key`.
__device__ inline i64 first_of(const unsigned int* keys, i64 size, u64 key) {
  i64 low = 0;
  while (low < size) {
    const i64 middle = (low + size) / 2;
    if (keys[middle] < key) low = middle + 1;
    else size = middle;
  }
  return low;
}

/// A sum with what each addition rounds off carried along (Neumaier, 1974).
struct Total {
  A sum, rest;
  __device__ static A size(A value) { return value < 0 ? -value : value; }
  __device__ void add(A value) {
    const A next = sum + value;
    const A lost = size(sum) >= size(value) ? sum - next + value : value - next + sum;
    if (lost == lost) rest += lost;  // not where something is infinite
    sum = next;
  }
  __device__ A value() const { return sum + rest; }
};

/// y[outer, place, inner] = x (or 0) + the updates whose keys are `place`. A block for each place,
/// of blockDim.x columns and blockDim.y lanes that take the updates in turn.
KERNEL(add_sorted)
(const T* x, const unsigned int* keys, const int* places, const T* updates, T* y, i64 count,
 i64 outer, i64 axis, i64 inner) {
  __shared__ A shared_sum[256], shared_rest[256];
  const int lane = threadIdx.y * blockDim.x + threadIdx.x;
  for (i64 row = blockIdx.x; row < outer * axis; row += gridDim.x) {
    const i64 o = row / axis, place = row % axis;
    const i64 begin = first_of(keys, count, place), end = first_of(keys, count, place + 1);
    for (i64 first = 0; first < inner; first += blockDim.x) {
      const i64 column = first + threadIdx.x;
      Total total = {A(0), A(0)};
      if (column < inner) {
        for (i64 i = begin + threadIdx.y; i < end; i += blockDim.y) {
          total.add(A(updates[(o * count + places[i]) * inner + column]));
        }
      }
      shared_sum[lane] = total.sum;
      shared_rest[lane] = total.rest;
      __syncthreads();
      if (threadIdx.y == 0 && column < inner) {
        for (int other = 1; other < blockDim.y; ++other) {
          total.add(shared_sum[other * blockDim.x + threadIdx.x]);
          total.rest += shared_rest[other * blockDim.x + threadIdx.x];
        }
        const i64 to = row * inner + column;
        if (x) total.add(A(x[to]));
        y[to] = T(total.value());
      }
      __syncthreads();
    }
  }
}

/// y = the largest (or smallest) of x and the updates whose keys are its place; NaN wins.
KERNEL(most_sorted)
(const T* x, const unsigned int* keys, const int* places, const T* updates, T* y, i64 count,
 i64 outer, i64 axis, i64 inner, i64 largest) {
  FOR_EACH(i, outer * axis * inner) {
    const i64 place = i / inner % axis, first = i / (axis * inner) * count;
    const i64 end = first_of(keys, count, place + 1);
    W most = W(x[i]);
    for (i64 at = first_of(keys, count, place); at < end; ++at) {
      const W value = W(updates[(first + places[at]) * inner + i % inner]);
      if (value != value || (largest ? value > most : value < most)) most = value;
    }
    y[i] = T(most);
  }
}

// Putting: the last of several wins. -----------------------------------------------------------

KERNEL(mark_last)(const I* indices, i64 size, i64 axis, int* last, i64* fault) {
  FOR_EACH(i, size) {
    i64 index = i64(indices[i]);
    if (index < -axis || index >= axis) {
      *fault = axis + 1;
    } else {
      atomicMax(&last[index < 0 ? index + axis : index], int(i));
    }
  }
}

KERNEL(put_last)
(const T* x, const int* last, const T* updates, T* y, i64 count, i64 outer, i64 axis, i64 inner) {
  FOR_EACH(i, outer * axis * inner) {
    const i64 o = i / (axis * inner), from = last[i / inner % axis];
    y[i] = from < 0 ? x[i] : updates[(o * count + from) * inner + i % inner];
  }
}
