// SPDX-License-Identifier: Apache-2.0
// Runs a module of the law: compiles it as autopar-compile would and executes all ranks in this
// process on inputs drawn from a seed. Ranks that communicate by NCCL have a session each, as
// processes have, so that steps are captured.
#pragma once

#include "autopar/Base/DataType.h"
#include "autopar/Base/Status.h"
#include "autopar/Runtime/Session.h"
#include "mlir/IR/BuiltinOps.h"

namespace autopar_law {

/// Who runs a module: this CPU, or emulated GPUs, one per rank, that communicate by NCCL or through
/// pinned memory of the host.
enum class Where { Cpu, GpusByNccl, GpusStaged };

/// One output as a whole tensor.
struct Output {
  std::string name;
  ::autopar::DataType dtype;
  std::vector<char> bytes;
};

/// How many times a module runs, each time on inputs of their own: one draw may hide a fault.
inline constexpr int kInputDraws = 3;

/// Lowers and emits a module on local shapes (a module without a mesh is one rank) and opens it on
/// the CPU with all ranks in this process.
::autopar::Result<std::unique_ptr<::autopar::runtime::Session>> openModule(mlir::ModuleOp module);

/// Optimizing kernels takes most of the time and is tested elsewhere.
enum class Optimized {
  Never,
  Drawn, ///< for one of four seeds
};

/// Lowers, emits and runs a module on local shapes (a module without a mesh is one rank); the
/// outputs of all draws, one after the other.
::autopar::Result<std::vector<Output>> runModule(mlir::ModuleOp module, uint64_t inputSeed,
                                                 Where where = Where::Cpu,
                                                 Optimized optimized = Optimized::Drawn);

/// Where two results disagree beyond the tolerance: exact for integers and booleans, relative for
/// floats (summation orders differ). Empty if they agree.
std::string firstDifference(const std::vector<Output> &expected, const std::vector<Output> &actual,
                            double tolerance = 1e-4);

} // namespace autopar_law
