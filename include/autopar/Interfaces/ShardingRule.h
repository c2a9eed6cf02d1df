// SPDX-License-Identifier: Apache-2.0
// What an operation tells about how it may be sharded: its dimensions as factors, in the manner of
// an einsum. Legal shardings, partial results and the collectives that complete them follow from it
// (after the factor rules of Shardy and the loop types of MLIR's shard dialect).
#pragma once

#include "mlir/IR/Operation.h"
#include "llvm/ADT/SmallVector.h"

namespace mlir::autopar {

/// How partial values over a factor are completed.
enum class ReductionKind : uint32_t { Sum = 0, Prod = 1, Max = 2, Min = 3, And = 4, Or = 5 };
llvm::StringRef stringifyReduction(ReductionKind kind);
std::optional<ReductionKind> symbolizeReduction(llvm::StringRef word);

/// What sharding a factor means for the operation's result.
enum class FactorKind {
  PassThrough,      ///< every shard computes its part of the result on its own
  Reduction,        ///< every shard yields a partial result, completed by `reduction`
  NeedsReplication, ///< the operation must see the whole factor
};
llvm::StringRef stringifyFactorKind(FactorKind kind);

/// What operands may hold behind the end of a factor that needs replication, so that results in
/// front of that end are what they would be if nothing stood there.
enum class BehindEnd {
  Nothing,  ///< it must be the end
  Identity, ///< the identity of the factor's `reduction`
  Anything,
};

/// One iteration dimension of an operation.
struct Factor {
  int64_t size = 1;
  FactorKind kind = FactorKind::PassThrough;
  ReductionKind reduction = ReductionKind::Sum;
  /// Whether the factor may be split unevenly: the last shards then hold padding, which the
  /// partitioner fills with the identity of `reduction` where a reduction would see it.
  bool mayBeUneven = true;
  /// Of a factor that needs replication.
  BehindEnd behind = BehindEnd::Nothing;
  /// The operation's own local rewrite keeps padding out of the reduction.
  bool masksPadding = false;
  /// Operands that are partial values themselves where a reduction factor is split: what the
  /// operation adds to (the input of a scatter).
  llvm::SmallVector<int64_t, 1> partialOperands = {};
  /// Results that are complete although a reduction factor is split: only the others are partial.
  llvm::SmallVector<int64_t, 1> completeResults = {};
};

/// A factor along which a window slides, and that of its places. Both begin together; `stride`
/// positions more at the end of the one are `spread` places more at the end of the other.
struct SlidingWindow {
  int64_t positions, places;
  int64_t stride = 1, spread = 1;
};

/// The factors of an operation and where they appear. A tensor dimension is a list of factors,
/// major to minor; more than one factor in a dimension means that the dimension is their product
/// (reshape).
struct ShardingRule {
  using Dimension = llvm::SmallVector<int64_t, 1>;
  using Tensor = llvm::SmallVector<Dimension, 4>;

  llvm::SmallVector<Factor> factors;
  llvm::SmallVector<Tensor> operands;
  llvm::SmallVector<Tensor> results;
  /// Results that stay where they are made: their readers take them as they lie.
  llvm::SmallVector<int64_t, 1> fixedResults = {};
  /// Of factors that need replication.
  llvm::SmallVector<SlidingWindow, 0> windows = {};

  /// Adds a factor that covers dimension `operandDims[i]` of operand i and `resultDims[j]` of
  /// result j; `absent` marks a tensor that the factor does not touch. Minor factors are added
  /// after major ones. Returns the factor's index.
  static constexpr int64_t absent = -1;
  int64_t addFactor(llvm::ArrayRef<int64_t> operandDims, llvm::ArrayRef<int64_t> resultDims,
                    int64_t size, FactorKind kind = FactorKind::PassThrough,
                    ReductionKind reduction = ReductionKind::Sum);

  /// Adds a reduction factor that no dimension holds: a partial operand gives a partial result. For
  /// operations of one operand over which the reduction distributes.
  int64_t addUnreducedFactor(ReductionKind reduction = ReductionKind::Sum);
  /// The extent that such a factor counts as: any number of shards fits.
  static constexpr int64_t unreducedExtent = int64_t(1) << 40;

  /// Says that a window slides along a dimension of the first operand, whose place is that
  /// dimension of the first result; both have factors. `behind`: what may stand behind the end.
  void addWindow(int64_t dim, int64_t stride, int64_t spread, BehindEnd behind,
                 ReductionKind reduction = ReductionKind::Sum);

  /// A rule with empty mappings that fit the operation's ranked operands and results.
  static ShardingRule emptyFor(Operation *op);
  /// Every dimension of operands and results has the same extent and meaning (elementwise).
  static ShardingRule elementwise(Operation *op);
  /// Every dimension needs replication: the rule of an operation without a better one.
  static ShardingRule replicated(Operation *op);

  /// Gives every dimension that no factor covers yet a factor of its own that needs replication,
  /// and marks factors of compound dimensions as even-only.
  void complete(Operation *op);
};

} // namespace mlir::autopar
