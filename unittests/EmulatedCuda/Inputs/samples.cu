// The kernels of samples.ptx: nvcc -ptx -arch=sm_80 samples.cu -o samples.ptx, then .version set to 8.0.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

/// y = gelu(a x + b) in float.
extern "C" __global__ void gelu(const float *x, float *y, const long long *count) {
  long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i >= *count)
    return;
  float v = 2.0f * x[i] + 0.5f;
  y[i] = 0.5f * v * (1.0f + tanhf(0.79788456f * (v + 0.044715f * v * v * v)));
}

/// A row per block: softmax with shuffles and shared memory.
extern "C" __global__ void softmax(const float *x, float *y, const int *columns) {
  __shared__ float partial[32];
  int n = *columns, lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  const float *row = x + (long long)blockIdx.x * n;
  float most = -INFINITY;
  for (int i = threadIdx.x; i < n; i += blockDim.x)
    most = fmaxf(most, row[i]);
  for (int o = 16; o; o /= 2)
    most = fmaxf(most, __shfl_xor_sync(~0u, most, o));
  if (lane == 0)
    partial[warp] = most;
  __syncthreads();
  most = lane < warps ? partial[lane] : -INFINITY;
  for (int o = 16; o; o /= 2)
    most = fmaxf(most, __shfl_xor_sync(~0u, most, o));
  __syncthreads();
  float sum = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x)
    sum += __expf(row[i] - most);
  for (int o = 16; o; o /= 2)
    sum += __shfl_down_sync(~0u, sum, o);
  if (lane == 0)
    partial[warp] = sum;
  __syncthreads();
  sum = 0;
  for (int i = 0; i < warps; ++i)
    sum += partial[i];
  for (int i = threadIdx.x; i < n; i += blockDim.x)
    y[(long long)blockIdx.x * n + i] = __expf(row[i] - most) / sum;
}

/// Transpose of 32 x 32 tiles through shared memory, 16 bits each.
extern "C" __global__ void transpose(const unsigned short *x, unsigned short *y) {
  extern __shared__ unsigned short tile[];
  for (int r = threadIdx.x / 32; r < 32; r += blockDim.x / 32)
    tile[r * 33 + threadIdx.x % 32] = x[r * 32 + threadIdx.x % 32];
  __syncthreads();
  for (int r = threadIdx.x / 32; r < 32; r += blockDim.x / 32)
    y[r * 32 + threadIdx.x % 32] = tile[threadIdx.x % 32 * 33 + r];
}

/// Vector loads, both halves, integers of all widths, division, branches.
extern "C" __global__ void mixed(const float4 *x, const __nv_bfloat16 *b, const __half *h, const signed char *c, double *out, int *counts) {
  int i = threadIdx.x;
  float4 v = x[i];
  double sum = v.x + v.y * 2.0f - v.z / 3.0f + v.w;
  sum += (float)b[i] + (float)h[i];
  __nv_bfloat162 pair = __floats2bfloat162_rn(v.x, v.y);
  __half2 halves = __floats2half2_rn(v.z, v.w);
  sum += (float)pair.x + (float)pair.y + (float)__low2half(halves) + (float)__high2half(halves);
  sum += (float)__hadd(h[i], h[i]) + (float)__hmul(b[i], b[i]);
  int n = c[i];
  sum += n / 3 + n % 5 + (n >> 1) + __popc(n) + __clz(n & 1023);
  if (n & 1)
    for (int k = 0; k < (n & 7); ++k)
      sum += k * 0.5;
  else
    sum -= i;
  out[i] = sum;
  atomicAdd(&counts[n & 3], 1);
  unsigned ballot = __ballot_sync(~0u, n > 0);
  if (i == 0)
    counts[4] = __popc(ballot);
}
