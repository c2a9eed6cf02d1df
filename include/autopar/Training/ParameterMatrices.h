// SPDX-License-Identifier: Apache-2.0
// Which parameters are matrices, by the products that read them.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"

namespace mlir::autopar {

/// Dimensions of a parameter that is a matrix (several together are its rows or columns, such as
/// heads and what each has), or a stack of matrices along all others, such as experts.
struct ParameterMatrix {
  SmallVector<int64_t> in;  ///< over which products with it sum
  SmallVector<int64_t> out; ///< which their results have
};

/// The parameters of a forward function that are matrices and that products alone read, at least
/// one of which is an inner one: neither the last on the way to a result nor of those that only
/// lead to a choice. So embeddings, output matrices and routers are not among them.
llvm::MapVector<BlockArgument, ParameterMatrix> innerMatrices(func::FuncOp function);

} // namespace mlir::autopar
