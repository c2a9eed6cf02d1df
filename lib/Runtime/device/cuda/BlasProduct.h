// SPDX-License-Identifier: Apache-2.0
// Matrix products of the artifact's geometry by cuBLASLt: layouts and algorithm are chosen once.
#pragma once

#include "BlasLtCalls.h"
#include "autopar/Artifact/Program.h"
#include "autopar/Base/Status.h"

#include <memory>
#include <string>
#include <vector>

namespace autopar::runtime::cuda {

/// What addresses are multiples of, in bytes; algorithms are chosen for it.
struct ProductAlignment {
  int64_t a = 256, b = 256, c = 256, bias = 256, residual = 256, aux = 256;
  /// Addresses in one of the slots; of the residual where the epilogue is a derivative at it.
  DevicePointer biasAt = 0, gradientAt = 0, auxAt = 0;
};

/// Ok, or what failed and how the library calls it.
Status checkBlas(const BlasLtCalls &calls, BlasStatus status, const std::string &what);

class BlasProduct {
public:
  /// Mismatch where cuBLASLt has no such product. Algorithms get at most `mostWorkspace` bytes.
  static Result<std::unique_ptr<BlasProduct>> create(const BlasLtCalls &calls, BlasHandle handle,
                                                     const artifact::MatmulGeometry &geometry,
                                                     const ProductAlignment &alignment,
                                                     int64_t mostWorkspace);
  ~BlasProduct();
  BlasProduct(const BlasProduct &) = delete;
  BlasProduct &operator=(const BlasProduct &) = delete;

  int64_t workspaceBytes() const { return workspace; }
  /// How many ones of the bias's type run() wants in `ones`; 0 as a rule.
  int64_t onesCount() const { return ones; }

  struct Operands {
    DevicePointer a = 0, b = 0, c = 0, bias = 0, residual = 0, aux = 0, ones = 0, workspace = 0;
  };
  Status run(const Operands &operands, Stream stream) const;

private:
  /// A dimension of the batch that is left when those that lie evenly in memory were merged.
  struct Batch {
    int64_t count = 1, a = 0, b = 0, c = 0; ///< strides in elements
  };
  BlasProduct(const BlasLtCalls &calls, BlasHandle handle) : calls(calls), handle(handle) {}
  Status check(BlasStatus status, const char *what) const { return checkBlas(calls, status, what); }
  struct Matrices;
  Status describe(const artifact::MatmulGeometry &geometry, const ProductAlignment &alignment);
  Result<Matrices> arrange(const artifact::MatmulGeometry &geometry);
  /// What of bias, residual and epilogue the call does itself.
  Status divideEpilogue(const artifact::MatmulGeometry &geometry, const ProductAlignment &alignment,
                        const Matrices &matrices);
  /// Whether the call sums up its left operand, where it sums up one.
  bool sumsLeft() const { return isSwapped == (epilogue == artifact::Epilogue::SumsOfB); }
  bool sums() const {
    return epilogue == artifact::Epilogue::SumsOfA || epilogue == artifact::Epilogue::SumsOfB;
  }
  /// The number by which the library knows the epilogue.
  uint32_t epilogueOfCall() const;
  /// What the epilogue does to the values that it is given, or reads, lies as the library wants it.
  Status checkAux(const ProductAlignment &alignment, const Matrices &matrices) const;
  Status refuse(const std::string &why) const;
  Status describeOperation(const Matrices &matrices);
  Status describeLayouts(const artifact::MatmulGeometry &geometry, const Matrices &matrices);
  /// The dimension of the batch that a call takes; the others are the outer ones.
  Batch divideBatch(const artifact::MatmulGeometry &geometry);
  Status chooseAlgorithm(const ProductAlignment &alignment, int64_t mostWorkspace);
  Status point(DevicePointer bias, DevicePointer gradientAt, DevicePointer aux) const;
  Status call(const Operands &operands, int64_t aOffset, int64_t bOffset, int64_t cOffset,
              Stream stream) const;

  const BlasLtCalls &calls;
  BlasHandle handle;
  BlasOperation operation = nullptr;
  BlasLayout first = nullptr, second = nullptr, result = nullptr;
  BlasAlgorithm algorithm{};
  std::vector<Batch> outer; ///< one call for each of these
  int64_t workspace = 0, ones = 0;
  int64_t aBytes = 0, bBytes = 0, cBytes = 0; ///< of an element
  bool isEmpty = false, isSwapped = false, accumulates = false;
  bool biasInCall = false, biasBefore = false;
  artifact::Epilogue epilogue = artifact::Epilogue::None;
  float scale = 1;
  /// Where the library cannot add the bias: c = scale (ones x bias) + residual, before.
  std::unique_ptr<BlasProduct> before;
};

} // namespace autopar::runtime::cuda
