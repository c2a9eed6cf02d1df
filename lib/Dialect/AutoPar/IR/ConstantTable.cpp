// SPDX-License-Identifier: Apache-2.0
// Conversion between dense attributes and tables of plain numbers.
#include "ConstantTable.h"

#include <cstring>

using namespace mlir;
using namespace mlir::autopar;

int64_t mlir::autopar::wrapInteger(int64_t value, Type element) {
  unsigned width = element.getIntOrFloatBitWidth();
  if (width >= 64)
    return value;
  uint64_t bits = static_cast<uint64_t>(value) & ((uint64_t(1) << width) - 1);
  if (width == 1 || element.isUnsignedInteger())
    return static_cast<int64_t>(bits);
  unsigned shift = 64 - width;
  return static_cast<int64_t>(bits << shift) >> shift;
}

bool mlir::autopar::nextIndex(SmallVectorImpl<int64_t> &index, ArrayRef<int64_t> shape) {
  for (int64_t dim = static_cast<int64_t>(shape.size()) - 1; dim >= 0; --dim) {
    if (++index[dim] < shape[dim])
      return true;
    index[dim] = 0;
  }
  return false;
}

ConstantTable ConstantTable::make(RankedTensorType type, size_t count) {
  ConstantTable table;
  table.type = type;
  if (table.isFloat())
    table.floats.resize(count);
  else
    table.integers.resize(count);
  return table;
}

void ConstantTable::copyElement(size_t to, const ConstantTable &source, size_t from) {
  if (isFloat())
    floats[to] = source.number(from);
  else
    integers[to] = source.integer(from);
}

template <typename T>
static void widen(DenseElementsAttr value, std::vector<int64_t> &to) {
  ArrayRef<char> raw = value.getRawData();
  for (size_t i = 0; i < to.size(); ++i) {
    T element;
    std::memcpy(&element, raw.data() + i * sizeof(T), sizeof(T));
    to[i] = static_cast<int64_t>(element);
  }
}

static void decodeIntegers(DenseElementsAttr value, Type element, std::vector<int64_t> &to) {
  bool isUnsigned = element.isUnsignedInteger();
  switch (element.getIntOrFloatBitWidth()) {
  case 8:
    return isUnsigned ? widen<uint8_t>(value, to) : widen<int8_t>(value, to);
  case 16:
    return isUnsigned ? widen<uint16_t>(value, to) : widen<int16_t>(value, to);
  case 32:
    return isUnsigned ? widen<uint32_t>(value, to) : widen<int32_t>(value, to);
  case 64:
    return widen<int64_t>(value, to);
  default: {
    size_t i = 0;
    for (const APInt &bits : value.getValues<APInt>()) {
      if (i == to.size())
        return;
      to[i++] = wrapInteger(static_cast<int64_t>(bits.getZExtValue()), element);
    }
  }
  }
}

static void decodeFloats(DenseElementsAttr value, Type element, std::vector<double> &to) {
  if (element.isF64()) {
    std::memcpy(to.data(), value.getRawData().data(), to.size() * sizeof(double));
    return;
  }
  if (element.isF32()) {
    for (size_t i = 0; i < to.size(); ++i) {
      float number;
      std::memcpy(&number, value.getRawData().data() + i * sizeof(float), sizeof(float));
      to[i] = number;
    }
    return;
  }
  size_t i = 0;
  for (APFloat number : value.getValues<APFloat>()) {
    if (i == to.size())
      return;
    bool lossy;
    number.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lossy);
    to[i++] = number.convertToDouble();
  }
}

ConstantTable ConstantTable::decode(DenseElementsAttr value) {
  auto type = cast<RankedTensorType>(value.getType());
  bool splat = value.isSplat() && type.getNumElements() > 0;
  ConstantTable table = make(type, splat ? 1 : type.getNumElements());
  table.splat = splat;
  if (table.isFloat())
    decodeFloats(value, type.getElementType(), table.floats);
  else
    decodeIntegers(value, type.getElementType(), table.integers);
  return table;
}

template <typename T>
static DenseElementsAttr narrow(RankedTensorType type, ArrayRef<int64_t> from) {
  std::vector<T> raw(from.begin(), from.end());
  return DenseElementsAttr::getFromRawBuffer(
      type, ArrayRef<char>(reinterpret_cast<const char *>(raw.data()), raw.size() * sizeof(T)));
}

static DenseElementsAttr encodeIntegers(RankedTensorType type, ArrayRef<int64_t> from) {
  switch (type.getElementType().getIntOrFloatBitWidth()) {
  case 8:
    return narrow<uint8_t>(type, from);
  case 16:
    return narrow<uint16_t>(type, from);
  case 32:
    return narrow<uint32_t>(type, from);
  case 64:
    return narrow<uint64_t>(type, from);
  case 1: {
    SmallVector<bool> bits;
    for (int64_t bit : from)
      bits.push_back(bit != 0);
    return DenseElementsAttr::get(type, bits);
  }
  default: { // of 2 and 4 bits, in a byte each
    int64_t mask = (int64_t(1) << type.getElementType().getIntOrFloatBitWidth()) - 1;
    std::vector<int64_t> bits(from);
    for (int64_t &value : bits)
      value &= mask;
    return narrow<uint8_t>(type, bits);
  }
  }
}

static DenseElementsAttr encodeFloats(RankedTensorType type, ArrayRef<double> from) {
  Type element = type.getElementType();
  if (element.isF64())
    return DenseElementsAttr::get(type, from);
  if (element.isF32()) {
    std::vector<float> numbers(from.begin(), from.end());
    return DenseElementsAttr::get(type, ArrayRef<float>(numbers));
  }
  std::vector<APFloat> numbers;
  for (double number : from) {
    APFloat rounded(number);
    bool lossy;
    rounded.convert(cast<FloatType>(element).getFloatSemantics(), APFloat::rmNearestTiesToEven,
                    &lossy);
    numbers.push_back(rounded);
  }
  return DenseElementsAttr::get(type, numbers);
}

template <typename T>
static bool allEqual(const std::vector<T> &values) {
  // Bitwise, so that 0.0 and -0.0 stay apart and equal NaNs are a splat.
  return !values.empty() && llvm::all_of(values, [&](const T &value) {
    return std::memcmp(&value, &values.front(), sizeof(T)) == 0;
  });
}

DenseElementsAttr ConstantTable::encode() const {
  bool one = splat || (isFloat() ? allEqual(floats) : allEqual(integers));
  if (isFloat())
    return encodeFloats(type,
                        one ? ArrayRef<double>(floats).take_front() : ArrayRef<double>(floats));
  return encodeIntegers(type, one ? ArrayRef<int64_t>(integers).take_front()
                                  : ArrayRef<int64_t>(integers));
}
