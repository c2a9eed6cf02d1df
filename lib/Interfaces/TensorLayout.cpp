// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "autopar/Interfaces/TensorLayout.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::autopar;

int64_t mlir::autopar::tensorBytes(ShapedType type) {
  Type element = type.getElementType();
  unsigned bits = element.isIndex() ? 64 : element.getIntOrFloatBitWidth();
  return type.getNumElements() * llvm::divideCeil(bits, 8u);
}

int64_t mlir::autopar::extentOf(ShapedType type, ArrayRef<int64_t> dims) {
  int64_t extent = 1;
  for (int64_t dim : dims)
    extent *= type.getDimSize(dim);
  return extent;
}

SmallVector<int64_t> mlir::autopar::denseStrides(ArrayRef<int64_t> dims) {
  SmallVector<int64_t> strides(dims.size());
  int64_t stride = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= std::max<int64_t>(dims[i], 1);
  }
  return strides;
}

bool mlir::autopar::isRowMajor(ArrayRef<int64_t> dims, ArrayRef<int64_t> strides) {
  int64_t expected = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    if (dims[i] == 0)
      return true;
    if (dims[i] != 1 && strides[i] != expected)
      return false;
    expected *= dims[i];
  }
  return true;
}

bool mlir::autopar::isOutermost(ArrayRef<int64_t> dims, int64_t dim) {
  return llvm::all_of(dims.take_front(dim), [](int64_t extent) { return extent == 1; });
}

std::optional<int64_t> mlir::autopar::mergedStride(ArrayRef<int64_t> dims,
                                                   ArrayRef<int64_t> strides) {
  std::optional<int64_t> inner;
  int64_t expected = 0;
  for (size_t i = dims.size(); i-- > 0;) {
    if (dims[i] == 1)
      continue;
    if (inner && strides[i] != expected)
      return std::nullopt;
    if (!inner)
      inner = strides[i];
    expected = strides[i] * dims[i];
  }
  return inner.value_or(1);
}

std::optional<SmallVector<int64_t>> mlir::autopar::reshapedStrides(ArrayRef<int64_t> dims,
                                                                   ArrayRef<int64_t> strides,
                                                                   ArrayRef<int64_t> newDims) {
  if (isRowMajor(dims, strides))
    return denseStrides(newDims);
  // Walk both shapes in pieces of equal extent; each piece of old dims must merge into one stride,
  // which the new dims then split.
  SmallVector<int64_t> result(newDims.size(), 1);
  size_t from = 0, to = 0;
  while (from < dims.size() && to < newDims.size()) {
    size_t fromEnd = from + 1, toEnd = to + 1;
    int64_t extent = dims[from], newExtent = newDims[to];
    while (extent != newExtent) {
      if (extent < newExtent && fromEnd < dims.size())
        extent *= dims[fromEnd++];
      else if (extent > newExtent && toEnd < newDims.size())
        newExtent *= newDims[toEnd++];
      else
        return std::nullopt;
    }
    std::optional<int64_t> stride =
        mergedStride(dims.slice(from, fromEnd - from), strides.slice(from, fromEnd - from));
    if (!stride)
      return std::nullopt;
    for (size_t i = toEnd; i-- > to; *stride *= newDims[i])
      result[i] = *stride;
    from = fromEnd;
    to = toEnd;
  }
  return result;
}
