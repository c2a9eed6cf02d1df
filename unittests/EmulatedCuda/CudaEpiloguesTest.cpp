// SPDX-License-Identifier: Apache-2.0
// What products do for training on an emulated or a real GPU, against loops: activations with what
// their gradients read, these gradients, and sums of an operand.
#include "TestProgram.h"
#include "autopar/Artifact/Verify.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

using namespace autopar;
using namespace autopar::artifact;
using namespace autopar::runtime;
using namespace autopar::testing;

namespace {

constexpr int64_t m = 16, k = 40, n = 24;

double gelu(double x) {
  return 0.5 * x * (1 + std::tanh(0.7978845608 * (x + 0.044715 * x * x * x)));
}
double geluSlope(double x) {
  double t = std::tanh(0.7978845608 * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * 0.7978845608 * (1 + 3 * 0.044715 * x * x);
}

MatmulGeometry geometryOf(DataType type, DataType result, Epilogue epilogue) {
  MatmulGeometry g;
  g.aType = g.bType = type;
  g.cType = g.biasType = result;
  g.a = {{m, k}, {k, 1}};
  g.b = {{k, n}, {n, 1}};
  g.c = {{m, n}, {n, 1}};
  g.epilogue = epilogue;
  return g;
}

/// One product: its operands as numbers, and what the device made of them.
struct Product {
  MatmulGeometry g;
  std::vector<float> a = numbers(m * k, 1), b = numbers(k * n, 2), bias = numbers(n, 3),
                     residual = numbers(4 * m * n, 4);
  std::vector<uint8_t> mask;               ///< in place of the residual
  int64_t auxShift = 0, residualShift = 0; ///< bytes behind a multiple of 256
  std::vector<uint8_t> c, aux;

  Status run() {
    Program program;
    Matmul matmul;
    matmul.geometry = g;
    auto add = [&](int64_t bytes, int64_t shift) {
      int32_t buffer = addBuffer(program, bytes + shift, DataType::U8);
      program.buffers[size_t(buffer)].offset += shift;
      return buffer;
    };
    auto bytesOf = [](const StridedShape &shape, DataType type) {
      return spanBytes(shape, type).value();
    };
    matmul.a = add(bytesOf(g.a, g.aType), 0), matmul.b = add(bytesOf(g.b, g.bType), 0);
    matmul.c = add(bytesOf(g.c, g.cType), 0);
    if (g.hasBias)
      matmul.bias = add(n * byteSize(g.biasType), 0);
    if (g.hasResidual)
      matmul.residual = add(residualBytes(g).value(), residualShift);
    if (storesAux(g.epilogue))
      matmul.aux = add(auxBytes(g).value(), auxShift);
    Instruction instruction;
    instruction.id = "product";
    instruction.payload = matmul;
    program.entries = {{"step", {instruction}}};
    auto device = createDevice();
    AUTOPAR_RETURN_IF_ERROR(device->prepare(program));
    auto write = [&](int32_t buffer, std::vector<uint8_t> bytes) {
      bytes.resize(std::min(bytes.size(), size_t(program.buffers[size_t(buffer)].bytes)));
      return device->write(buffer, 0, bytes.data(), int64_t(bytes.size()));
    };
    AUTOPAR_RETURN_IF_ERROR(write(matmul.a, encode(a, g.aType)));
    AUTOPAR_RETURN_IF_ERROR(write(matmul.b, encode(b, g.bType)));
    if (g.hasBias)
      AUTOPAR_RETURN_IF_ERROR(write(matmul.bias, encode(bias, g.biasType)));
    if (g.hasResidual)
      AUTOPAR_RETURN_IF_ERROR(
          write(matmul.residual, mask.empty() ? encode(residual, g.cType) : mask));
    finish(*device, device->issue(program.entries[0].instructions[0], 0, {}));
    auto read = [&](int32_t buffer, std::vector<uint8_t> &bytes) {
      bytes.resize(size_t(program.buffers[size_t(buffer)].bytes));
      return device->read(buffer, 0, bytes.data(), int64_t(bytes.size()));
    };
    AUTOPAR_RETURN_IF_ERROR(read(matmul.c, c));
    return matmul.aux < 0 ? Status::ok() : read(matmul.aux, aux);
  }

  double operand(const std::vector<float> &values, const StridedShape &shape, DataType type,
                 int64_t row, int64_t column) const {
    std::vector<float> one = {values[size_t(row * shape.strides[0] + column * shape.strides[1])]};
    return decode(encode(one, type).data(), type);
  }
  double termOfA(int64_t row, int64_t j) const { return operand(a, g.a, g.aType, row, j); }
  double termOfB(int64_t j, int64_t column) const { return operand(b, g.b, g.bType, j, column); }
  int64_t place(int64_t row, int64_t column) const {
    return row * g.c.strides[0] + column * g.c.strides[1];
  }
  double residualAt(int64_t row, int64_t column) const {
    return operand(residual, g.c, g.cType, row, column);
  }
  /// What the epilogue is given.
  double given(int64_t row, int64_t column) const {
    double sum = 0;
    for (int64_t j = 0; j < k; ++j)
      sum += termOfA(row, j) * termOfB(j, column);
    if (g.hasBias)
      sum += decode(&encode(bias, g.biasType)[size_t(column * byteSize(g.biasType))], g.biasType);
    return sum + (g.hasResidual && !isGradient(g.epilogue) ? residualAt(row, column) : 0);
  }
  double stored(const std::vector<uint8_t> &bytes, int64_t element) const {
    return decode(&bytes[size_t(element * byteSize(g.cType))], g.cType);
  }
  double tolerance() const {
    return g.cType == DataType::BF16 ? 0.06 : g.cType == DataType::F16 ? 8e-3 : 1e-4;
  }
  void expect(const std::vector<uint8_t> &bytes, int64_t element, double expected,
              const std::string &what) const {
    EXPECT_NEAR(stored(bytes, element), expected, tolerance() * (1 + std::fabs(expected)))
        << what << " of " << name(g.cType) << ", element " << element;
  }
};

TEST(CudaEpilogues, AGeluStoresWhatItIsGivenAndItsGradientReadsIt) {
  for (DataType type : {DataType::BF16, DataType::F16})
    for (bool transposed : {false, true})
      for (bool hasBias : {false, true})
        for (bool hasResidual : {false, true}) {
          Product product{geometryOf(type, type, Epilogue::GeluTanhAux)};
          product.g.hasBias = hasBias;
          product.g.hasResidual = hasResidual;
          // Rows, or columns, that lie further apart than they are long.
          product.g.c.strides =
              transposed ? std::vector<int64_t>{1, m} : std::vector<int64_t>{n + 8, 1};
          ASSERT_TRUE(product.run().isOk());
          Product gradient{geometryOf(type, type, Epilogue::GeluTanhGrad)};
          gradient.g.hasResidual = true;
          gradient.g.c = product.g.c;
          gradient.mask = product.aux; // what was stored, as it lies
          ASSERT_TRUE(gradient.run().isOk());
          for (int64_t row = 0; row < m; ++row)
            for (int64_t column = 0; column < n; ++column) {
              int64_t at = product.place(row, column);
              double given = product.given(row, column);
              product.expect(product.aux, at, given, "what a gelu is given");
              product.expect(product.c, at, gelu(given), "a gelu");
              double slope = geluSlope(product.stored(product.aux, at));
              gradient.expect(gradient.c, at, gradient.given(row, column) * slope, "a gradient");
            }
        }
}

TEST(CudaEpilogues, AReluStoresAMaskAndItsGradientReadsIt) {
  for (DataType type : {DataType::BF16, DataType::F16})
    for (bool transposed : {false, true})
      for (bool hasBias : {false, true}) {
        Product product{geometryOf(type, type, Epilogue::ReluAux)};
        product.g.hasBias = hasBias;
        if (transposed)
          product.g.c.strides = {1, m};
        ASSERT_TRUE(product.run().isOk());
        EXPECT_EQ(int64_t(product.aux.size()), (transposed ? n : m) * 16);
        Product gradient{geometryOf(type, type, Epilogue::ReluGrad)};
        gradient.g.hasResidual = true;
        gradient.g.c = product.g.c;
        gradient.mask = product.aux;
        gradient.a = numbers(m * k, 5), gradient.b = numbers(k * n, 6);
        ASSERT_TRUE(gradient.run().isOk());
        for (int64_t row = 0; row < m; ++row)
          for (int64_t column = 0; column < n; ++column) {
            int64_t at = product.place(row, column);
            double given = product.given(row, column);
            product.expect(product.c, at, std::max(given, 0.0), "a relu");
            if (std::fabs(given) > 1e-3) // the derivative at 0 is the library's
              gradient.expect(gradient.c, at, given > 0 ? gradient.given(row, column) : 0,
                              "a gradient");
          }
      }
}

TEST(CudaEpilogues, ProductsSumUpAnOperand) {
  constexpr DataType types[][2] = {{DataType::BF16, DataType::F32},
                                   {DataType::BF16, DataType::BF16},
                                   {DataType::F16, DataType::F32},
                                   {DataType::F16, DataType::F16}};
  for (auto [type, result] : types)
    for (Epilogue epilogue : {Epilogue::SumsOfA, Epilogue::SumsOfB})
      for (bool transposed : {false, true})
        for (bool hasResidual : {false, true}) {
          Product product{geometryOf(type, result, epilogue)};
          product.g.a.strides = {1, m};
          if (transposed)
            product.g.c.strides = {1, m};
          product.g.hasResidual = hasResidual;
          ASSERT_TRUE(product.run().isOk());
          for (int64_t row = 0; row < m; ++row)
            for (int64_t column = 0; column < n; ++column)
              product.expect(product.c, product.place(row, column), product.given(row, column),
                             "a product beside a sum");
          bool isOfA = epilogue == Epilogue::SumsOfA;
          for (int64_t i = 0; i < (isOfA ? m : n); ++i) {
            double sum = 0;
            for (int64_t j = 0; j < k; ++j)
              sum += isOfA ? product.termOfA(i, j) : product.termOfB(j, i);
            product.expect(product.aux, i, sum, isOfA ? "a sum of a" : "a sum of b");
          }
        }
}

// A version of the library, or a chip, may have no algorithm for an epilogue: it is asked at load.
TEST(CudaEpilogues, WhatALibraryHasNoAlgorithmForIsRefused) {
  if (!isEmulated())
    GTEST_SKIP() << "with the emulated library only";
  auto refusal = [](int epilogue, Product product) {
    product.g.hasResidual = isGradient(product.g.epilogue);
    setenv("AUTOPAR_EMULATED_CUBLASLT_LACKS", std::to_string(epilogue).c_str(), 1);
    Status status = product.run();
    unsetenv("AUTOPAR_EMULATED_CUBLASLT_LACKS");
    EXPECT_EQ(status.code(), StatusCode::Mismatch);
    return status.message();
  };
  const std::string none = "cuBLASLt has no such product: no algorithm for these sizes, types, "
                           "alignments and epilogue (CUBLAS_STATUS_NOT_SUPPORTED); compile the "
                           "model with ";
  constexpr DataType half = DataType::BF16;
  for (auto [epilogue, number] : {std::pair{Epilogue::GeluTanhAux, 160},
                                  {Epilogue::GeluTanhGrad, 192},
                                  {Epilogue::ReluAux, 130},
                                  {Epilogue::ReluGrad, 136}})
    EXPECT_NE(refusal(number, {geometryOf(half, half, epilogue)})
                  .find(none + "--activation-gradients kernels"),
              std::string::npos)
        << number;
  EXPECT_NE(refusal(256, {geometryOf(half, DataType::F32, Epilogue::SumsOfB)})
                .find(none + "--bias-gradients kernels"),
            std::string::npos);
  // A bias that it has not beside is added before.
  Product product{geometryOf(half, half, Epilogue::GeluTanhAux)};
  product.g.hasBias = true;
  setenv("AUTOPAR_EMULATED_CUBLASLT_LACKS", "164", 1);
  ASSERT_TRUE(product.run().isOk());
  unsetenv("AUTOPAR_EMULATED_CUBLASLT_LACKS");
  for (int64_t column = 0; column < n; ++column)
    product.expect(product.aux, column, product.given(0, column), "what a gelu is given");
}

// Each can be avoided, and the message says how.
TEST(CudaEpilogues, WhatTheLibraryDoesNotHaveIsRefused) {
  auto refusal = [](Product product) {
    Status status = product.run();
    EXPECT_EQ(status.code(), StatusCode::Mismatch);
    std::string said = status.message(); // the name of the GPU is the machine's
    size_t at = said.find("cuBLASLt has no such product: ");
    return at == std::string::npos ? said : said.substr(at + 30);
  };
  Product uneven{geometryOf(DataType::BF16, DataType::BF16, Epilogue::GeluTanhAux)};
  uneven.g.c.strides = {n + 1, 1};
  EXPECT_EQ(refusal(uneven),
            "with what a GELU is given in lines of 25 elements, which is no multiple of 8; compile "
            "the model with --activation-gradients kernels");
  Product aside{geometryOf(DataType::BF16, DataType::BF16, Epilogue::ReluAux)};
  aside.auxShift = 8;
  EXPECT_EQ(refusal(aside),
            "with an epilogue that reads or stores what does not start at a multiple of 16 bytes; "
            "compile the model with --activation-gradients kernels");
  Product gradient{geometryOf(DataType::BF16, DataType::BF16, Epilogue::GeluTanhGrad)};
  gradient.g.hasResidual = true;
  gradient.residualShift = 8;
  EXPECT_EQ(refusal(gradient), refusal(aside));
  Product sums{geometryOf(DataType::BF16, DataType::F32, Epilogue::SumsOfA)};
  EXPECT_EQ(refusal(sums), "with sums of an operand whose terms are neighbours; compile the model "
                           "with --bias-gradients kernels");
  Product transposed{geometryOf(DataType::BF16, DataType::F32, Epilogue::SumsOfB)};
  transposed.g.b.strides = {1, k};
  EXPECT_EQ(refusal(transposed), refusal(sums));
}

} // namespace
