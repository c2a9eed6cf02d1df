// SPDX-License-Identifier: Apache-2.0
// Kernels of the forward pass in two parts, of which the second can run again from what the first
// has stored.
#pragma once

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"
#include "autopar/Transforms/Target.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::autopar {

/// Of a group that stores a value and makes others from it (a sum, and its norm): `first` makes
/// what is stored, `second` reads it. Both stand behind `whole`, whose readers read them.
struct SplitKernel {
  GroupOp whole, first, second;
  SmallVector<Value> results; ///< those of the whole, as the parts make them
};

/// Whether a group of the forward pass that may be computed again is to be split, by the operations
/// of its parts.
using IsSplit = llvm::function_ref<bool(ArrayRef<Operation *> first, ArrayRef<Operation *> second)>;

/// Splits the groups of the forward pass that can be and that `isSplit` of their operations. Types
/// say where values are rounded, and library calls with what they do behind a product stay whole.
/// On CPUs none is split: in how many parts LLVM sums a row depends on what else the loop does, and
/// recomputation changes no bit there.
SmallVector<SplitKernel> splitKernels(func::FuncOp function, Target target, IsSplit isSplit);

/// Lets all read the wholes again; nothing is left of the parts.
void joinKernels(ArrayRef<SplitKernel> kernels);

} // namespace mlir::autopar
