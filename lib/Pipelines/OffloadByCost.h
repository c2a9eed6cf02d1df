// SPDX-License-Identifier: Apache-2.0
// --offload auto: a plan that pays for memory is weighed against one with state in host memory.
#pragma once

#include "autopar/Pipelines/Compile.h"
#include "autopar/Plan/Plan.h"
#include "mlir/Support/LLVM.h"

#include <memory>

namespace mlir::autopar {

/// A compilation whose programs have their memory planned.
class PlannedStep {
public:
  virtual ~PlannedStep() = default;
  /// Whether its step would be shorter if memory were free.
  virtual bool paysForMemory() const = 0;
  /// Of its plan; what pays for memory, or has state in host memory, is timed by its kernels.
  virtual const ::autopar::PlanBelief &believed() const = 0;
  /// Tells with its plan what was not taken.
  virtual void reject(::autopar::PlanAlternative other) = 0;
  /// Writes everything that was asked for.
  virtual ::autopar::Result<CompileResult> finish() = 0;
};

/// Plans a step; one of two writes nothing before it is finished.
using PlanStep = function_ref<::autopar::Result<std::unique_ptr<PlannedStep>>(
    const CompileOptions &, bool isOneOfTwo)>;

/// Compiles what `plan` plans. Where `options` leave offload to the planner and the plan without
/// pays for memory, or is refused, once more with the optimizer's state in host memory: the shorter
/// step is taken, and a remark and the plan tell what the other would have taken; where both are
/// refused, both refusals are told. Where nobody said anything about offload, a refusal for memory
/// says that there is it.
::autopar::Result<CompileResult> offloadByCost(const CompileOptions &options, MLIRContext &context,
                                               PlanStep plan);

} // namespace mlir::autopar
