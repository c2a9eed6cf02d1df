// SPDX-License-Identifier: Apache-2.0
// Decodes TensorProto: shapes are checked before anything is allocated.
#include "TensorData.h"

#include "Proto.h"

#include "autopar/Interfaces/TensorLayout.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <cstring>

using namespace mlir;
using namespace mlir::autopar;

StringRef mlir::autopar::dataTypeName(int dataType) {
  static constexpr StringLiteral names[] = {
      "UNDEFINED",      "FLOAT",    "UINT8",        "INT8",           "UINT16",
      "INT16",          "INT32",    "INT64",        "STRING",         "BOOL",
      "FLOAT16",        "DOUBLE",   "UINT32",       "UINT64",         "COMPLEX64",
      "COMPLEX128",     "BFLOAT16", "FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2",
      "FLOAT8E5M2FNUZ", "UINT4",    "INT4",         "FLOAT4E2M1",     "FLOAT8E8M0",
      "UINT2",          "INT2"};
  return dataType >= 0 && dataType < static_cast<int>(std::size(names)) ? names[dataType]
                                                                        : StringLiteral("unknown");
}

Type mlir::autopar::elementTypeOf(int dataType, MLIRContext *context) {
  auto integer = [&](unsigned width) -> Type { return IntegerType::get(context, width); };
  auto unsignedInteger = [&](unsigned width) -> Type {
    return IntegerType::get(context, width, IntegerType::Unsigned);
  };
  switch (dataType) {
  case 1:
    return Float32Type::get(context);
  case 2:
    return unsignedInteger(8);
  case 3:
    return integer(8);
  case 4:
    return unsignedInteger(16);
  case 5:
    return integer(16);
  case 6:
    return integer(32);
  case 7:
    return integer(64);
  case 9:
    return integer(1);
  case 10:
    return Float16Type::get(context);
  case 11:
    return Float64Type::get(context);
  case 12:
    return unsignedInteger(32);
  case 13:
    return unsignedInteger(64);
  case 16:
    return BFloat16Type::get(context);
  case 17:
    return Float8E4M3FNType::get(context);
  case 18:
    return Float8E4M3FNUZType::get(context);
  case 19:
    return Float8E5M2Type::get(context);
  case 20:
    return Float8E5M2FNUZType::get(context);
  case 23:
    return Float4E2M1FNType::get(context);
  case 21:
    return unsignedInteger(4);
  case 22:
    return integer(4);
  case 25:
    return unsignedInteger(2);
  case 26:
    return integer(2);
  default:
    return {};
  }
}

bool mlir::autopar::isNarrowInteger(Type element) {
  auto integer = dyn_cast_or_null<IntegerType>(element);
  return integer && (integer.getWidth() == 2 || integer.getWidth() == 4);
}

bool mlir::autopar::isPacked(Type element) {
  return isNarrowInteger(element) || isa<Float4E2M1FNType>(element);
}

int64_t mlir::autopar::storedBytes(RankedTensorType type) {
  if (!isPacked(type.getElementType()))
    return tensorBytes(type);
  return llvm::divideCeil(type.getNumElements() * type.getElementTypeBitWidth(), 8);
}

std::optional<RankedTensorType> mlir::autopar::checkedTensorType(ArrayRef<int64_t> shape,
                                                                 Type element) {
  constexpr int64_t mostBytes = int64_t(1) << 50;
  constexpr size_t mostDims = 64;
  int64_t bytes = 8;
  if (shape.size() > mostDims)
    return std::nullopt;
  for (int64_t extent : shape) {
    // Extents beside a zero are bounded too: products over some of the dimensions stay in range.
    if (extent < 0 || (extent > 0 && bytes > mostBytes / extent))
      return std::nullopt;
    bytes *= std::max<int64_t>(extent, 1);
  }
  return RankedTensorType::get(shape, element);
}

FailureOr<RankedTensorType> mlir::autopar::tensorTypeOf(const onnx::TensorProto &tensor,
                                                        MLIRContext *context, std::string &error) {
  Type element = elementTypeOf(tensor.data_type(), context);
  if (!element) {
    error = ("element type " + dataTypeName(tensor.data_type()) + " is not supported").str();
    return failure();
  }
  SmallVector<int64_t> shape(tensor.dims().begin(), tensor.dims().end());
  std::optional<RankedTensorType> type = checkedTensorType(shape, element);
  if (!type) {
    error = "shape [" +
            llvm::join(llvm::map_range(shape, [](int64_t d) { return std::to_string(d); }), ", ") +
            "] is negative or too large";
    return failure();
  }
  return *type;
}

/// Several elements to a byte, the first one lowest.
static DenseElementsAttr fromPackedBytes(RankedTensorType type, StringRef bytes) {
  unsigned width = type.getElementTypeBitWidth(), perByte = 8 / width;
  std::vector<char> numbers(type.getNumElements());
  for (size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = static_cast<char>(
        (static_cast<uint8_t>(bytes[i / perByte]) >> (i % perByte * width)) & ((1 << width) - 1));
  return DenseElementsAttr::getFromRawBuffer(type, numbers);
}

static DenseElementsAttr fromBytes(RankedTensorType type, StringRef bytes) {
  if (isPacked(type.getElementType()))
    return fromPackedBytes(type, bytes);
  if (!type.getElementType().isInteger(1))
    return DenseElementsAttr::getFromRawBuffer(type, ArrayRef<char>(bytes.data(), bytes.size()));
  SmallVector<bool> bits;
  for (char byte : bytes)
    bits.push_back(byte != 0);
  return DenseElementsAttr::get(type, bits);
}

/// Values of one of the repeated fields, stored as `T` in the result.
template <typename T, typename Field>
static FailureOr<DenseElementsAttr> fromField(RankedTensorType type, const Field &field,
                                              std::string &error) {
  uint64_t expected =
      isPacked(type.getElementType()) ? storedBytes(type) : uint64_t(type.getNumElements());
  if (uint64_t(field.size()) != expected) {
    error = llvm::formatv("its shape takes {0} values, but it holds {1}", expected, field.size());
    return failure();
  }
  std::vector<T> values(field.begin(), field.end());
  return fromBytes(
      type, StringRef(reinterpret_cast<const char *>(values.data()), values.size() * sizeof(T)));
}

static FailureOr<DenseElementsAttr> fromTypedFields(const onnx::TensorProto &tensor,
                                                    RankedTensorType type, std::string &error) {
  switch (tensor.data_type()) {
  case 1:
    return fromField<float>(type, tensor.float_data(), error);
  case 11:
    return fromField<double>(type, tensor.double_data(), error);
  case 7:
    return fromField<int64_t>(type, tensor.int64_data(), error);
  case 12:
    return fromField<uint32_t>(type, tensor.uint64_data(), error);
  case 13:
    return fromField<uint64_t>(type, tensor.uint64_data(), error);
  case 6:
    return fromField<int32_t>(type, tensor.int32_data(), error);
  case 2:
  case 3:
  case 9:
  case 17:
  case 18:
  case 19:
  case 20:
  case 21:
  case 22:
  case 23:
  case 25:
  case 26:
    return fromField<uint8_t>(type, tensor.int32_data(), error);
  default:
    return fromField<uint16_t>(type, tensor.int32_data(), error);
  }
}

FailureOr<DenseElementsAttr> mlir::autopar::tensorValues(const onnx::TensorProto &tensor,
                                                         ModelFile &file, MLIRContext *context,
                                                         int64_t limit, std::string &error) {
  FailureOr<RankedTensorType> type = tensorTypeOf(tensor, context, error);
  if (failed(type))
    return failure();
  if (type->getNumElements() > limit) {
    error =
        llvm::formatv("{0} elements are too many for a compile-time value", type->getNumElements());
    return failure();
  }
  uint64_t bytes = storedBytes(*type);
  FailureOr<TensorPlace> place = file.locate(tensor, bytes, error);
  if (failed(place))
    return failure();
  if (place->kind == TensorPlace::Absent) {
    error = "its external file is absent, but its values are needed at compile time";
    return failure();
  }
  if (place->kind == TensorPlace::File)
    return fromBytes(*type, place->bytes);
  if (!tensor.has_raw_data())
    return fromTypedFields(tensor, *type, error);
  if (tensor.raw_data().size() != bytes) {
    error = llvm::formatv("its shape and type take {0} bytes, but it holds {1}", bytes,
                          tensor.raw_data().size());
    return failure();
  }
  return fromBytes(*type, tensor.raw_data());
}

bool mlir::autopar::isOneNumber(StringRef bytes, size_t elementBytes) {
  return bytes.drop_front(elementBytes) == bytes.drop_back(elementBytes);
}
