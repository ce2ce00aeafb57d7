// Sums of rows, each by a block: in A, without a sign for integers. `fused_source` writes the same
// sums at the end of fused kernels, so that the bits are the same; keep both alike.

KERNEL(sum_of_rows)(const T* x, S* y, i64 columns) {
  A sum = 0;
  for (unsigned int j = threadIdx.x; j < columns; j += blockDim.x) {
    const T v = x[blockIdx.x * columns + j];
    sum += (A)(v);
  }
  sum = over_block<Sum, A>(sum);
  if (threadIdx.x == 0) y[blockIdx.x] = (S)(sum);
}
