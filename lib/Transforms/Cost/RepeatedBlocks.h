// SPDX-License-Identifier: Apache-2.0
// Copies of a layer in a sequence of operations: where the planner may solve one and use it for
// all.
#pragma once

#include "autopar/Planner/CostGraph.h"
#include "llvm/ADT/ArrayRef.h"

namespace mlir::autopar {

/// `copies` runs of `period` operations each.
struct Stretch {
  size_t start = 0, period = 0, copies = 0;
  size_t end() const { return start + period * copies; }
};

/// The longest stretch in which each operation is of the kind of the one a period earlier;
/// positions count from `first`.
Stretch longestRepetition(llvm::ArrayRef<size_t> kinds, size_t first = 0);

/// The operations of a function as nodes of its cost graph.
struct OperationSequence {
  /// Node of the first operation; arguments come before it, operation i is node firstNode + i.
  size_t firstNode = 0;
  /// Per operation a number; operations of equal numbers have equal strategies and costs.
  std::vector<size_t> kinds;
  /// First operations of the phases of a training step, ascending from 0.
  std::vector<size_t> phases;
};

/// One place per node; empty where nothing repeats. In each phase the longest repetition gives the
/// copies; a copy of one phase joins the copy of another that it has most edges with, so that a
/// block holds a layer's forward, backward and update. Arguments belong to the block of their
/// users. A hint: the planner checks equality itself.
std::vector<::autopar::BlockPlace> findRepeatedBlocks(const ::autopar::CostGraph &graph,
                                                      const OperationSequence &operations);

} // namespace mlir::autopar
