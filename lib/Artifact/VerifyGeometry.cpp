// SPDX-License-Identifier: Apache-2.0
// Checks of shapes and strides of matrix products and convolutions, with all arithmetic guarded
// against overflow.
#include "autopar/Artifact/Verify.h"

#include <algorithm>

namespace autopar::artifact {
namespace {

bool multiply(int64_t a, int64_t b, int64_t &out) { return !__builtin_mul_overflow(a, b, &out); }

std::string list(const std::vector<int64_t> &values) {
  std::string text = "[";
  for (size_t i = 0; i < values.size(); ++i)
    text += (i ? "," : "") + std::to_string(values[i]);
  return text + "]";
}

bool isFloatForProducts(DataType type) {
  return type == DataType::F32 || type == DataType::BF16 || type == DataType::F16;
}

Status verifyOperand(const char *name, const StridedShape &shape, size_t rank) {
  if (shape.dims.size() != rank || shape.strides.size() != rank)
    return Status::badInput(std::string("operand ") + name + " needs " + std::to_string(rank) +
                            " dims and strides, it has " + std::to_string(shape.dims.size()) +
                            " and " + std::to_string(shape.strides.size()));
  for (size_t i = 0; i < rank; ++i)
    if (shape.dims[i] < 0 || shape.strides[i] < 0)
      return Status::badInput(std::string("operand ") + name +
                              " has a negative dim or stride: dims " + list(shape.dims) +
                              ", strides " + list(shape.strides));
  return Status::ok();
}

} // namespace

std::optional<int64_t> checkedBytes(const std::vector<int64_t> &dims, DataType type) {
  int64_t bytes = byteSize(type);
  bool isEmpty = false;
  for (int64_t dim : dims) {
    if (dim < 0)
      return std::nullopt;
    isEmpty |= dim == 0;
  }
  if (isEmpty)
    return 0;
  for (int64_t dim : dims)
    if (!multiply(bytes, dim, bytes))
      return std::nullopt;
  return bytes;
}

std::optional<int64_t> spanBytes(const StridedShape &shape, DataType type) {
  int64_t last = 0;
  for (size_t i = 0; i < shape.dims.size(); ++i) {
    if (shape.dims[i] == 0)
      return 0;
    int64_t step = 0;
    if (shape.dims[i] < 0 || shape.strides[i] < 0 ||
        !multiply(shape.dims[i] - 1, shape.strides[i], step) ||
        __builtin_add_overflow(last, step, &last))
      return std::nullopt;
  }
  int64_t bytes = 0;
  if (__builtin_add_overflow(last, 1, &last) || !multiply(last, byteSize(type), bytes))
    return std::nullopt;
  return bytes;
}

/// What products and convolutions of bytes are made of, and what they yield.
static bool isOfIntegers(DataType a, DataType b, DataType c) {
  return (a == DataType::I8 || a == DataType::U8) && b == DataType::I8 && c == DataType::I32;
}

static bool isOneMatrix(const MatmulGeometry &g) {
  return std::all_of(g.c.dims.begin(), g.c.dims.end() - 2, [](int64_t dim) { return dim == 1; });
}

static std::optional<int64_t> maskBytes(const MatmulGeometry &g) {
  size_t rank = g.c.dims.size();
  int64_t lines = g.c.dims[rank - 2], length = g.c.dims[rank - 1];
  if (g.c.strides[rank - 1] != 1 && length != 1)
    std::swap(lines, length);
  if (length > INT64_MAX - kMaskStep)
    return std::nullopt;
  return checkedBytes({lines, (length + kMaskStep - 1) / kMaskStep * (kMaskStep / 8)},
                      DataType::U8);
}

std::optional<int64_t> auxBytes(const MatmulGeometry &g) {
  size_t rank = g.c.dims.size();
  switch (g.epilogue) {
  case Epilogue::ReluAux:
    return maskBytes(g);
  case Epilogue::GeluTanhAux:
    return spanBytes(g.c, g.cType);
  case Epilogue::SumsOfA:
    return checkedBytes({g.c.dims[rank - 2]}, g.cType);
  case Epilogue::SumsOfB:
    return checkedBytes({g.c.dims[rank - 1]}, g.cType);
  default:
    return 0;
  }
}

std::optional<int64_t> residualBytes(const MatmulGeometry &g) {
  return g.epilogue == Epilogue::ReluGrad ? maskBytes(g) : spanBytes(g.c, g.cType);
}

Status verifyGeometry(const MatmulGeometry &g) {
  size_t rank = g.c.dims.size();
  if (rank < 2 || rank > 12)
    return Status::badInput("matmul rank must be 2 to 12, it is " + std::to_string(rank));
  AUTOPAR_RETURN_IF_ERROR(verifyOperand("a", g.a, rank));
  AUTOPAR_RETURN_IF_ERROR(verifyOperand("b", g.b, rank));
  AUTOPAR_RETURN_IF_ERROR(verifyOperand("c", g.c, rank));
  for (size_t i = 0; i + 2 < rank; ++i) {
    int64_t a = g.a.dims[i], b = g.b.dims[i], c = g.c.dims[i];
    if ((a != c && a != 1) || (b != c && b != 1))
      return Status::badInput("matmul batch dims do not broadcast: a " + list(g.a.dims) + ", b " +
                              list(g.b.dims) + ", c " + list(g.c.dims));
  }
  if (g.a.dims[rank - 2] != g.c.dims[rank - 2] || g.a.dims[rank - 1] != g.b.dims[rank - 2] ||
      g.b.dims[rank - 1] != g.c.dims[rank - 1])
    return Status::badInput("matmul dims do not fit: a " + list(g.a.dims) + ", b " +
                            list(g.b.dims) + ", c " + list(g.c.dims));
  if (isOfIntegers(g.aType, g.bType, g.cType)) {
    bool isPlain = !g.hasBias && !g.hasResidual && g.epilogue == Epilogue::None && g.scale == 1.0f;
    return isPlain
               ? Status::ok()
               : Status::badInput("a product of integers has no bias, no scale and no epilogue");
  }
  bool isOfBytes = g.aType == DataType::F8E4M3FN && g.bType == g.aType;
  DataType factor = isOfBytes ? g.cType : g.aType, other = isOfBytes ? g.cType : g.bType;
  for (DataType type : {factor, other, g.cType})
    if (!isFloatForProducts(type))
      return Status::badInput("matmul of element type " + std::string(name(type)) +
                              " is not a library call; expected f32, bf16 or f16, f8E4M3FN by "
                              "f8E4M3FN to one of these, or u8 or i8 by i8 to i32");
  if (isGradient(g.epilogue) && (g.hasBias || !g.hasResidual))
    return Status::badInput("a product with the gradient of an activation needs the value at which "
                            "it is taken as its residual, and has no bias");
  bool sums = g.epilogue == Epilogue::SumsOfA || g.epilogue == Epilogue::SumsOfB;
  if (sums && (g.hasBias || g.scale != 1.0f))
    return Status::badInput("a product that sums up an operand has no bias and no scale");
  if ((isGradient(g.epilogue) || storesAux(g.epilogue)) && !isOneMatrix(g))
    return Status::badInput("a product of several matrices has no gradient of an activation behind "
                            "it and no second result: c " +
                            list(g.c.dims));
  if (g.hasBias && !isFloatForProducts(g.biasType))
    return Status::badInput("matmul bias of element type " + std::string(name(g.biasType)) +
                            " is not a library call; expected f32, bf16 or f16");
  return Status::ok();
}

Status verifyGeometry(const ConvolutionGeometry &g) {
  size_t rank = g.x.size();
  if (rank < 3 || rank > 5)
    return Status::badInput("convolution needs 1 to 3 spatial dims, x is " + list(g.x));
  size_t spatial = rank - 2;
  if (g.w.size() != rank || g.y.size() != rank || g.strides.size() != spatial ||
      g.padsBegin.size() != spatial || g.padsEnd.size() != spatial || g.dilations.size() != spatial)
    return Status::badInput("convolution ranks do not fit: x " + list(g.x) + ", w " + list(g.w) +
                            ", y " + list(g.y));
  for (const auto *dims : {&g.x, &g.w, &g.y})
    for (int64_t dim : *dims)
      if (dim < 0 || dim > INT32_MAX)
        return Status::badInput("convolution dim out of range: " + list(*dims));
  const std::vector<int64_t> &input = g.input(), &filter = g.filter(), &output = g.output();
  if (g.groups < 1 || g.groups > INT32_MAX || filter[1] * g.groups != input[1] ||
      filter[0] != output[1] || filter[0] % g.groups != 0 || input[0] != output[0])
    return Status::badInput("convolution channels do not fit: input " + list(input) + ", filter " +
                            list(filter) + ", output " + list(output) + ", groups " +
                            std::to_string(g.groups));
  for (size_t i = 0; i < spatial; ++i) {
    int64_t s = g.strides[i], d = g.dilations[i], b = g.padsBegin[i], e = g.padsEnd[i];
    if (s < 1 || d < 1 || s > INT32_MAX || d > INT32_MAX || b < INT32_MIN || e < INT32_MIN ||
        b > INT32_MAX || e > INT32_MAX)
      return Status::badInput("convolution strides, dilations or pads out of range");
    int64_t reach = (filter[i + 2] - 1) * d + 1;
    int64_t room = input[i + 2] + b + e - reach;
    if (room < 0 || room / s + 1 != output[i + 2])
      return Status::badInput("convolution spatial dim " + std::to_string(i) + ": expected " +
                              std::to_string(room < 0 ? 0 : room / s + 1) + ", output is " +
                              list(output));
  }
  bool isWinograd = g.algorithm == ConvolutionAlgorithm::Winograd;
  if (g.kind != ConvolutionKind::Forward &&
      (g.hasBias || g.hasResidual || g.epilogue != Epilogue::None || isWinograd))
    return Status::badInput("the gradient of a convolution has another algorithm, or an epilogue");
  if (g.kind == ConvolutionKind::FilterGradient && g.packedW)
    return Status::badInput("the gradient of a filter is not packed, nor is what it is made of");
  if (g.epilogue > Epilogue::GeluTanh)
    return Status::badInput("a convolution has no gradient of an activation behind it, and no "
                            "second result");
  if (isOfIntegers(g.xType, g.wType, g.yType)) {
    bool isPlain = g.kind == ConvolutionKind::Forward && !g.hasBias && !g.hasResidual &&
                   g.epilogue == Epilogue::None && !isWinograd;
    return isPlain
               ? Status::ok()
               : Status::badInput("a convolution of integers has no bias, no epilogue, no other "
                                  "algorithm and no gradient");
  }
  for (DataType type : {g.xType, g.wType, g.yType})
    if (!isFloatForProducts(type))
      return Status::badInput("convolution of element type " + std::string(name(type)) +
                              " is not a library call; expected f32, bf16 or f16, or u8 or i8 by "
                              "i8 to i32");
  return Status::ok();
}

} // namespace autopar::artifact
