// SPDX-License-Identifier: Apache-2.0
// Draws legal plans for a drawn module, aimed at one cell of the law's table: an operation, the
// kind of factor that is sharded, and the collective that its result then needs.
#pragma once

#include "RandomGraph.h"
#include "autopar/Transforms/ReshardPlan.h"

#include <set>

namespace autopar_law {

/// One cell of the table: operation, factor kind, collective.
struct Cell {
  std::string op, factor, collective;
  auto operator<=>(const Cell &) const = default;
};

/// The (factor kind, collective) pairs of the table.
llvm::ArrayRef<std::pair<llvm::StringRef, llvm::StringRef>> cellKinds();

/// Declares a mesh of `ranks` ranks (one or two axes) and annotates every operation of @main with a
/// legal strategy drawn from `seed`; the target's is one that makes `wanted` happen. Fails if no
/// choice for the target does.
bool drawPlan(DrawnModule &drawn, uint64_t seed, int ranks, const Cell &wanted);

/// The cells that the annotations of @main realise.
std::set<Cell> cellsOf(mlir::func::FuncOp function);

} // namespace autopar_law
