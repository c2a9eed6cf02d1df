// SPDX-License-Identifier: Apache-2.0
// Weights that an exporter stored a second time, transposed. An embedding that is also the output
// matrix (tied weights) is one parameter in its source; exporters that compute transposes ahead
// write two, which training would drive apart.
#include "GraphImporter.h"
#include "Proto.h"
#include "TensorData.h"

#include "llvm/ADT/StringExtras.h"

#include <cstring>

using namespace mlir;
using namespace mlir::autopar;

/// Whether `a`, [rows, columns], is the transpose of `b`.
template <typename Bits>
static bool isTranspose(StringRef a, StringRef b, int64_t rows, int64_t columns) {
  constexpr int64_t tile = 64; // so that both stay in the cache
  auto at = [](StringRef bytes, int64_t index) {
    Bits bits;
    std::memcpy(&bits, bytes.data() + index * sizeof(Bits), sizeof(Bits));
    return bits;
  };
  for (int64_t top = 0; top < rows; top += tile)
    for (int64_t left = 0; left < columns; left += tile)
      for (int64_t i = top; i < std::min(top + tile, rows); ++i)
        for (int64_t j = left; j < std::min(left + tile, columns); ++j)
          if (at(a, i * columns + j) != at(b, j * rows + i))
            return false;
  return true;
}

static bool isTranspose(StringRef a, StringRef b, RankedTensorType type) {
  int64_t rows = type.getDimSize(0), columns = type.getDimSize(1);
  switch (type.getElementTypeBitWidth()) {
  case 16:
    return isTranspose<uint16_t>(a, b, rows, columns);
  case 32:
    return isTranspose<uint32_t>(a, b, rows, columns);
  case 64:
    return isTranspose<uint64_t>(a, b, rows, columns);
  default:
    return false;
  }
}

/// The initializer of the source that `tensor`, which the exporter computed, is the transpose of.
const onnx::TensorProto *GraphImporter::findTransposed(const onnx::TensorProto &tensor,
                                                       RankedTensorType type,
                                                       const TensorPlace &place) {
  if (type.getRank() != 2 || place.kind != TensorPlace::File ||
      !isa<FloatType>(type.getElementType()) || !records.isComputed(tensor.name()) ||
      differentiated.contains(tensor.name()) ||
      isOneNumber(place.bytes, type.getElementTypeBitWidth() / 8))
    return nullptr;
  for (const onnx::TensorProto &other : file.model().graph().initializer()) {
    if (other.data_type() != tensor.data_type() || other.dims_size() != 2 ||
        other.dims(0) != type.getDimSize(1) || other.dims(1) != type.getDimSize(0) ||
        records.isComputed(other.name()))
      continue;
    std::string ignored;
    FailureOr<TensorPlace> there = file.locate(other, place.length, ignored);
    if (succeeded(there) && there->kind == TensorPlace::File &&
        isTranspose(place.bytes, there->bytes, type))
      return &other;
  }
  return nullptr;
}

FailureOr<Value> GraphImporter::importTransposed(const onnx::TensorProto &source, StringRef name) {
  FailureOr<Value> value = importTensor(source, source.name(), /*isInitializer=*/true);
  if (failed(value))
    return failure();
  transposed.push_back({name.str(), source.name()});
  Value result = builder.transpose(*value, {1, 0});
  setOpId(result.getDefiningOp(), uniqueId(name));
  return result;
}

void GraphImporter::tellTransposed() {
  if (transposed.empty())
    return;
  InFlightDiagnostic remark = emitRemark(module.getLoc());
  remark << transposed.size() << (transposed.size() == 1 ? " weight is" : " weights are")
         << " stored a second time, transposed; each pair is one parameter: ";
  llvm::interleave(
      transposed, [&](const auto &pair) { remark << pair.first << " is " << pair.second; },
      [&] { remark << ", "; });
}
