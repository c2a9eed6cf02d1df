// SPDX-License-Identifier: Apache-2.0
// Draws small logical modules for the law: any plan computes what one device computes. One maker
// per operation of the dialect; values carry what is known about their exactness, so that
// operations with jumps (comparisons, rounding, sorting) only see numbers on which every summation
// order agrees.
#pragma once

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <random>

namespace autopar_law {

/// A drawn value: multiples of 2^-fractionBits with magnitude up to `bound`, exactly representable
/// under every order of evaluation if `exact`.
struct DrawnValue {
  mlir::Value value;
  bool exact = true;
  double bound = 4;
  int fractionBits = 2;
};

/// Names of the operations that have a maker, e.g. "dot_general", in a fixed order.
std::vector<std::string> makerNames();

/// The drawn module and the operation that the case is about (the last one made by `target`).
struct DrawnModule {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  mlir::Operation *target = nullptr;
};

/// A module with a function @main of about `size` operations, one of them made by maker `target`,
/// whose result feeds one more elementwise operation, so that it can be resharded in any way. Equal
/// seeds give equal modules.
DrawnModule drawModule(mlir::MLIRContext &context, uint64_t seed, llvm::StringRef target, int size);

} // namespace autopar_law
