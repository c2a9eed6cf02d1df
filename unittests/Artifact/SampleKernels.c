// SPDX-License-Identifier: Apache-2.0
// The kernel of the sample program, built as a shared object without any library: args are in, out
// and the rank values, whose first word is the width of a row.
void relu_rows(void *const *args, long begin, long end) {
  const float *in = args[0];
  float *out = args[1];
  long width = *(const long *)args[2];
  for (long i = begin * width; i < end * width; ++i)
    out[i] = in[i] > 0.0f ? in[i] : 0.0f;
}
