// SPDX-License-Identifier: Apache-2.0
// Instructions of the exec dialect as instructions of the artifact.
#pragma once

#include "autopar/Dialect/Exec/IR/Geometry.h"
#include "llvm/ADT/StringMap.h"

namespace mlir::autopar {

/// The numbers under which the artifact knows what the IR names.
struct ProgramIndices {
  DenseMap<Value, int32_t> buffers;
  llvm::StringMap<int32_t> parameters;
  llvm::StringMap<int32_t> entries;
  llvm::StringMap<int32_t> kernels;
};

/// One instruction; kernels named for the first time are appended to `kernels`.
::autopar::artifact::Instruction emitInstruction(Operation *op, ProgramIndices &indices,
                                                 std::vector<std::string> &kernels);

} // namespace mlir::autopar
