// SPDX-License-Identifier: Apache-2.0
// Kernels of the kind that the compiler makes for element-wise operations and reductions, built as
// a shared object without any library. One iteration is a row of kRowFloats (ProbeKernels.h)
// numbers; buffers are aligned to 64 bytes.
#include <xmmintrin.h>

enum { kRowFloats = 256 };

/// a, b, out: out = a + b.
void add_rows(void *const *args, long begin, long end) {
  const float *a = args[0], *b = args[1];
  float *out = args[2];
  for (long i = begin * kRowFloats; i < end * kRowFloats; i += 4)
    _mm_store_ps(out + i, _mm_add_ps(_mm_load_ps(a + i), _mm_load_ps(b + i)));
}

/// The same, written past the caches, as results that are larger than those.
void stream_rows(void *const *args, long begin, long end) {
  const float *a = args[0], *b = args[1];
  float *out = args[2];
  for (long i = begin * kRowFloats; i < end * kRowFloats; i += 4)
    _mm_stream_ps(out + i, _mm_add_ps(_mm_load_ps(a + i), _mm_load_ps(b + i)));
  _mm_sfence();
}

/// a, out: out[row] = sum of the row.
void sum_rows(void *const *args, long begin, long end) {
  const float *a = args[0];
  float *out = args[1];
  for (long row = begin; row < end; ++row) {
    __m128 sums[4] = {_mm_setzero_ps(), _mm_setzero_ps(), _mm_setzero_ps(), _mm_setzero_ps()};
    for (long i = row * kRowFloats; i < (row + 1) * kRowFloats; i += 16)
      for (long lane = 0; lane < 4; ++lane)
        sums[lane] = _mm_add_ps(sums[lane], _mm_load_ps(a + i + 4 * lane));
    float parts[4];
    _mm_storeu_ps(parts, _mm_add_ps(_mm_add_ps(sums[0], sums[1]), _mm_add_ps(sums[2], sums[3])));
    out[row] = parts[0] + parts[1] + parts[2] + parts[3];
  }
}

/// a, out: each row minus its mean, by its deviation; two passes, as compiled normalizations have.
void normalize_rows(void *const *args, long begin, long end) {
  const float *a = args[0];
  float *out = args[1];
  for (long row = begin; row < end; ++row) {
    const float *from = a + row * kRowFloats;
    __m128 sum = _mm_setzero_ps(), squares = _mm_setzero_ps();
    for (long i = 0; i < kRowFloats; i += 4) {
      __m128 value = _mm_load_ps(from + i);
      sum = _mm_add_ps(sum, value);
      squares = _mm_add_ps(squares, _mm_mul_ps(value, value));
    }
    float parts[4], total = 0, totalSquares = 0;
    _mm_storeu_ps(parts, sum);
    for (long lane = 0; lane < 4; ++lane)
      total += parts[lane];
    _mm_storeu_ps(parts, squares);
    for (long lane = 0; lane < 4; ++lane)
      totalSquares += parts[lane];
    float mean = total / kRowFloats, variance = totalSquares / kRowFloats - mean * mean + 1e-5f;
    __m128 center = _mm_set1_ps(mean), scale = _mm_rsqrt_ps(_mm_set1_ps(variance));
    for (long i = row * kRowFloats; i < (row + 1) * kRowFloats; i += 4)
      _mm_store_ps(out + i, _mm_mul_ps(_mm_sub_ps(_mm_load_ps(a + i), center), scale));
  }
}
