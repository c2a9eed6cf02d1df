// SPDX-License-Identifier: Apache-2.0
// Matrices of a grouped product that a kernel makes of fewer bytes (quantized weights): they never
// stand in memory as a whole. The product has the kernel make a part of one when it needs it.
#pragma once

#include "ProgramBuilder.h"

namespace mlir::autopar {

/// How a kernel makes parts of matrices, as exec.grouped_product says it.
struct MatrixKernel {
  KernelPool::Kernel kernel;
  int64_t columns = 0; ///< of one matrix that it makes at a time
  SmallVector<Value> inputs;
  SmallVector<int64_t> matrixSteps, columnSteps; ///< bytes
};

/// The product that makes the results of `group` as it needs them; null where it is a kernel of its
/// own. On CPUs, of matrices that only one grouped product reads and that each are made of their
/// own share of what is in memory.
GroupedDotOp productThatMakes(ProgramBuilder &program, GroupOp group);
/// The maker of the matrices of `product`; none where they stand in memory.
FailureOr<std::optional<MatrixKernel>> makerOf(ProgramBuilder &program, GroupedDotOp product);

} // namespace mlir::autopar
