// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "RepeatedWeights.h"

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
const onnx::TensorProto *RepeatedWeights::findTransposed(const onnx::TensorProto &tensor,
                                                         RankedTensorType type,
                                                         const TensorPlace &place) {
  if (type.getRank() != 2 || place.kind != TensorPlace::File ||
      !isa<FloatType>(type.getElementType()) || !records.isComputed(tensor.name()) ||
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

/// An initializer before `tensor` that the exporter computed from the same tensor of the source,
/// and that has the same values.
const onnx::TensorProto *RepeatedWeights::findComputedAlike(const onnx::TensorProto &tensor,
                                                            RankedTensorType type,
                                                            const TensorPlace &place) {
  SmallVector<StringRef> sources = records.sourcesOf(tensor.name());
  if (place.kind != TensorPlace::File || !records.isComputed(tensor.name()) || sources.size() != 1)
    return nullptr;
  for (const onnx::TensorProto *other : computed[sources.front()]) {
    std::string ignored;
    FailureOr<TensorPlace> there = file.locate(*other, place.length, ignored);
    if (succeeded(there) && there->kind == TensorPlace::File && there->bytes == place.bytes &&
        *tensorTypeOf(*other, context, ignored) == type)
      return other;
  }
  computed[sources.front()].push_back(&tensor);
  return nullptr;
}

RepeatedWeights::Original RepeatedWeights::originalOf(const onnx::TensorProto &tensor,
                                                      RankedTensorType type,
                                                      const TensorPlace &place) {
  if (const onnx::TensorProto *transposed = findTransposed(tensor, type, place))
    return {transposed, true};
  return {findComputedAlike(tensor, type, place), false};
}

/// What `tensor` repeats, if it does; else a null value.
FailureOr<Value> GraphImporter::importRepeated(const onnx::TensorProto &tensor, StringRef name,
                                               RankedTensorType type, const TensorPlace &place) {
  if (differentiated.contains(tensor.name()))
    return Value();
  RepeatedWeights::Original original = repeatedWeights.originalOf(tensor, type, place);
  if (!original.tensor)
    return Value();
  FailureOr<Value> value =
      importTensor(*original.tensor, original.tensor->name(), /*isInitializer=*/true);
  if (failed(value))
    return failure();
  repeated.push_back({name.str(), original.tensor->name()});
  if (!original.isTransposed)
    return value;
  Value result = builder.transpose(*value, {1, 0});
  setOpId(result.getDefiningOp(), uniqueId(name));
  return result;
}

void GraphImporter::tellRepeated() {
  if (repeated.empty())
    return;
  InFlightDiagnostic remark = emitRemark(module.getLoc());
  remark << repeated.size() << (repeated.size() == 1 ? " weight is" : " weights are")
         << " stored a second time; each pair is one parameter: ";
  llvm::interleave(
      repeated, [&](const auto &pair) { remark << pair.first << " is " << pair.second; },
      [&] { remark << ", "; });
}
