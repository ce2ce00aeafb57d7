// What every kernel of this folder is compiled with. `pullback_cupy.compile` puts the types in
// between: T is what arrays hold, W what is computed with (float for 16-bit floats, else T).
//
// Kernels run over any grid: work is dealt out to blocks, or threads, in turn.

#ifndef WITHOUT_HALVES
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

typedef long long i64;
typedef unsigned long long u64;

#ifndef KERNEL
#define KERNEL(name) extern "C" __global__ void name
#endif

#define INF __int_as_float(0x7f800000)
#define NOT_A_NUMBER __int_as_float(0x7fffffff)

/// The elements that a thread of the whole grid takes care of.
#define FOR_EACH(i, size)                                                 \
  for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < (size); \
       i += gridDim.x * (i64)blockDim.x)

/// The rows that a block takes care of, and in one the columns that a thread does.
#define FOR_EACH_ROW(row, rows) for (i64 row = blockIdx.x; row < (rows); row += gridDim.x)
#define FOR_EACH_COLUMN(j, columns) for (i64 j = threadIdx.x; j < (columns); j += blockDim.x)

struct Sum {
  template <class V>
  __device__ static V of(V a, V b) {
    return a + b;
  }
};

struct Max {
  template <class V>
  __device__ static V of(V a, V b) {
    return a > b || a != a ? a : b;  // NaN wins
  }
};

/// The sum or maximum of every thread's value, given to all of them; blocks are whole warps.
template <class Reduce, class V>
__device__ V over_block(V value) {
  __shared__ V of_warp[32];
  for (int distance = 16; distance > 0; distance /= 2) {
    value = Reduce::of(value, __shfl_xor_sync(0xffffffffu, value, distance));
  }
  if (blockDim.x <= 32) return value;
  __syncthreads();  // the last reduction may still be read
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
  __syncthreads();
  value = of_warp[0];
  for (int warp = 1; warp < blockDim.x / 32; ++warp) value = Reduce::of(value, of_warp[warp]);
  return value;
}
