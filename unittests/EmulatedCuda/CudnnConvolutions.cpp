// SPDX-License-Identifier: Apache-2.0
// Convolutions and their gradients by definition: one loop nest over all that meets, whichever of
// the three tensors is written.
#include "Cudnn.h"

#include <array>

namespace emulated::cudnn {
namespace {

/// Channels and three spatial dims, the first of which may be of one element.
using Sizes = std::array<int64_t, 5>;

Sizes sizesOf(const Tensor &tensor) {
  Sizes sizes{tensor.dims[0], tensor.dims[1], 1, tensor.dims[2], tensor.dims[3]};
  if (tensor.dims.size() == 5)
    sizes = {tensor.dims[0], tensor.dims[1], tensor.dims[2], tensor.dims[3], tensor.dims[4]};
  return sizes;
}

std::array<int64_t, 3> three(const Dims &values, int64_t missing) {
  return values.size() == 3 ? std::array<int64_t, 3>{values[0], values[1], values[2]}
                            : std::array<int64_t, 3>{missing, values[0], values[1]};
}

/// Who is what of a convolution.
template <typename T>
struct Roles {
  const T &input, &filter, &output;
};
template <typename T>
Roles<T> rolesOf(const Operation &operation, const T &first, const T &second, const T &result) {
  switch (operation.kind) {
  case Operation::Kind::InputGradient:
    return {result, second, first};
  case Operation::Kind::FilterGradient:
    return {first, result, second};
  default:
    return {first, second, result};
  }
}

size_t placeOf(const Sizes &s, int64_t a, int64_t b, int64_t c, int64_t d, int64_t e) {
  return size_t((((a * s[1] + b) * s[2] + c) * s[3] + d) * s[4] + e);
}

} // namespace

std::string verifyConvolution(const Operation &operation, const Tensor &first, const Tensor &second,
                              const Tensor &result) {
  size_t rank = first.dims.size(), spatial = rank - 2;
  if (second.dims.size() != rank || result.dims.size() != rank)
    return "a convolution of tensors with other numbers of dims";
  for (const Dims *list :
       {&operation.strides, &operation.padsBegin, &operation.padsEnd, &operation.dilations})
    if (list->size() != spatial)
      return "a convolution with other spatial dims than its tensors";
  auto [input, filter, output] = rolesOf(operation, first, second, result);
  if (input.dims[0] != output.dims[0] || filter.dims[0] != output.dims[1] ||
      input.dims[1] % filter.dims[1] != 0 || filter.dims[0] % (input.dims[1] / filter.dims[1]) != 0)
    return "channels of a convolution do not fit";
  if (input.type != filter.type || input.type != output.type)
    return "a convolution of several types";
  for (size_t i = 0; i < spatial; ++i) {
    int64_t reach = (filter.dims[i + 2] - 1) * operation.dilations[i] + 1,
            room = input.dims[i + 2] + operation.padsBegin[i] + operation.padsEnd[i] - reach;
    if (operation.strides[i] < 1 || operation.dilations[i] < 1 || operation.padsBegin[i] < 0 ||
        operation.padsEnd[i] < 0)
      return "a convolution with a stride, dilation or padding that is none";
    if (room < 0 || room / operation.strides[i] + 1 != output.dims[i + 2])
      return "sizes of a convolution do not fit";
  }
  return "";
}

void convolve(const Operation &operation, const Tensor &first, const Tensor &second,
              const Tensor &result, const Values &firstValues, const Values &secondValues,
              Values &resultValues) {
  auto [input, filter, output] = rolesOf(operation, first, second, result);
  Sizes x = sizesOf(input), w = sizesOf(filter), y = sizesOf(output);
  auto strides = three(operation.strides, 1), pads = three(operation.padsBegin, 0),
       dilations = three(operation.dilations, 1);
  int64_t outPerGroup = w[0] / (x[1] / w[1]);
  std::vector<double> sums(resultValues.size());
  auto meet = [&](size_t xAt, size_t wAt, size_t yAt) {
    switch (operation.kind) {
    case Operation::Kind::InputGradient:
      sums[xAt] += double(firstValues[yAt]) * double(secondValues[wAt]);
      break;
    case Operation::Kind::FilterGradient:
      sums[wAt] += double(firstValues[xAt]) * double(secondValues[yAt]);
      break;
    default:
      sums[yAt] += double(firstValues[xAt]) * double(secondValues[wAt]);
    }
  };
  /// The position that a place of the output sees through one of the filter; -1: outside.
  auto seen = [&](size_t i, int64_t o, int64_t k) {
    int64_t at = o * strides[i] + k * dilations[i] - pads[i];
    return at < x[i + 2] ? at : -1;
  };
  for (int64_t n = 0; n < y[0]; ++n)
    for (int64_t out = 0; out < y[1]; ++out)
      for (int64_t channel = 0; channel < w[1]; ++channel)
        for (int64_t kz = 0; kz < w[2]; ++kz)
          for (int64_t ky = 0; ky < w[3]; ++ky)
            for (int64_t kx = 0; kx < w[4]; ++kx)
              for (int64_t oz = 0; oz < y[2]; ++oz)
                for (int64_t oy = 0; oy < y[3]; ++oy) {
                  int64_t iz = seen(0, oz, kz), iy = seen(1, oy, ky),
                          from = out / outPerGroup * w[1] + channel;
                  if (iz < 0 || iy < 0)
                    continue;
                  for (int64_t ox = 0; ox < y[4]; ++ox)
                    if (int64_t ix = seen(2, ox, kx); ix >= 0)
                      meet(placeOf(x, n, from, iz, iy, ix), placeOf(w, out, channel, kz, ky, kx),
                           placeOf(y, n, out, oz, oy, ox));
                }
  for (size_t i = 0; i < sums.size(); ++i)
    resultValues[i] = float(sums[i]);
}

} // namespace emulated::cudnn
