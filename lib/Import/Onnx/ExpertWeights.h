// SPDX-License-Identifier: Apache-2.0
// The matrices of experts as operators store them: floats, or numbers of 2, 4 or 8 bits that stay
// packed in their parameters and that the program takes apart.
#pragma once

#include "Node.h"

namespace mlir::autopar {

/// How many bits a number has, and how many numbers of a row share a scale where it is given per
/// block. No bits: floats.
struct ExpertPacking {
  int64_t bits = 0, blockSize = 0;

  int64_t perByte() const { return bits ? 8 / bits : 1; }
};

/// From the attributes of QMoE; fails for what onnxruntime's CPU does not compute.
FailureOr<ExpertPacking> readExpertPacking(Node &node);

/// Which inputs of a node hold a linear layer of all experts. MoE has no scales and zero points.
struct ExpertInputs {
  size_t weight, bias, scales = 0, zeroPoints = 0;
};

/// The matrices of all experts. Experts are the first dimension of whatever they are made of, so
/// that some can be taken out of each part before matrices are made of them.
struct ExpertWeights {
  Value numbers;    ///< [experts, rows, columns / perByte()]
  Value scales;     ///< [experts, rows], or with blocks [experts, rows, blocks]; null: floats
  Value zeroPoints; ///< packed likewise, rows or blocks beginning with a byte; null: none
  ExpertPacking packing;

  /// Of shape [experts, rows, columns], checked.
  static FailureOr<ExpertWeights> read(Node &node, const ExpertInputs &inputs,
                                       ArrayRef<int64_t> shape, ExpertPacking packing);
  /// [experts, rows, columns] of `element`.
  FailureOr<Value> matrices(Node &node, Type element) const;
};

} // namespace mlir::autopar
