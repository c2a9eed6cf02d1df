// SPDX-License-Identifier: Apache-2.0
// The law: any plan computes what one device computes. Cases drawn at random, and what each
// computes otherwise than one rank does.
#pragma once

#include "RandomPlan.h"
#include "RandomStep.h"
#include "RunModule.h"

#include "mlir/IR/MLIRContext.h"
#include <gtest/gtest.h>

#include <iosfwd>
#include <set>
#include <string>
#include <vector>

namespace autopar_law {

/// AUTOPAR_LAW_CASES=N changes how many cases are drawn (default 520).
int caseCount();
/// Gives a module devices whose kernels wait for messages about as long as they compute.
void waitForMessages(mlir::ModuleOp module);

struct Case {
  uint64_t seed = 0;
  Cell cell;
  int ranks = 2;
  int size = 4;
  std::string precision = "f32";
  bool trains = false;
  StateKind states = StateKind::Given; ///< of training
};

std::ostream &operator<<(std::ostream &out, const Case &c);

/// Every operation that is drawn, with every way to split it.
std::vector<Cell> allCells();

inline constexpr int rankCounts[] = {2, 3, 4, 6};

class Law : public testing::Test {
protected:
  Law();

  /// The module is null where the case trains and something in it has no gradient.
  DrawnModule draw(const Case &c);

  /// The partitioned module of a case and the cells it realises; null where the plan cannot be
  /// drawn.
  mlir::OwningOpRef<mlir::ModuleOp> partitioned(const Case &c, std::set<Cell> *cells = nullptr);

  /// What one rank computes, on a CPU, as programs on `of` should.
  autopar::Result<std::vector<Output>> reference(const Case &c, Where of = Where::Cpu);

  /// Empty if the case obeys the law.
  std::string violation(const Case &c);

  /// What a rewritten module of a case computes otherwise than the case on one rank; empty if
  /// nothing.
  std::string differenceFromOneRank(const Case &c, mlir::ModuleOp module, Where where = Where::Cpu);

  /// The smallest size at which the same draw still fails.
  Case shrink(Case c);

  mlir::MLIRContext context;
};

} // namespace autopar_law
