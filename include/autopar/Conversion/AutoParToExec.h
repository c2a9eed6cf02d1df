// SPDX-License-Identifier: Apache-2.0
// From the local IR of one rank (func @main on local shapes, fusion groups formed, collectives
// explicit) to the exec dialect: library calls, kernels, collectives, ports and rank tables.
// Buffers have no offsets yet; autopar-plan-memory gives them.
#pragma once

#include "autopar/Conversion/AutoParToLoops.h"
#include "autopar/Transforms/LibraryConvolution.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Support/LLVM.h"

namespace mlir::autopar {

/// Of a module in exec form, where it is not for CPUs: the target's name.
constexpr StringRef kTargetAttribute = "autopar.target";

struct LowerToExecOptions {
  /// Who runs the program. A GPU's libraries take products of plain operands; kernels do the rest.
  Target target = Target::Cpu;
  /// Threads per rank that scratch sizes are planned for.
  int64_t threads = 1;
  /// Whether weights are stored in the library's own layout at load time.
  bool packWeights = true;
  /// Channels per block in which convolutions store activations: 8, 16, 1 for plain row-major, 0
  /// for what this machine's vectors hold (16 with AVX-512, else 8).
  int64_t channelBlock = 0;
  ConvolutionMode convolutions = ConvolutionMode::Automatic;
};

/// Replaces `@main` of the module by an `exec.program`, its kernels and the rank tables. Errors are
/// emitted at the operations that cannot be lowered.
LogicalResult lowerToExec(ModuleOp module, const LowerToExecOptions &options);

} // namespace mlir::autopar
