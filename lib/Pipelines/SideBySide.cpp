// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "SideBySide.h"

#include "mlir/Pass/PassManager.h"

using namespace mlir;
using namespace mlir::autopar;

void mlir::autopar::loadDialects(MLIRContext &context, const AutoShardOptions &options,
                                 const LowerOptions &lower) {
  PassManager manager(&context);
  for (const PhaseInfo &info : allPhases())
    if (info.phase >= Phase::CutStages && info.phase <= Phase::PlanMemory)
      buildPhase(manager, info.phase, options, lower);
  DialectRegistry needed;
  manager.getDependentDialects(needed);
  context.appendDialectRegistry(needed);
  for (StringRef name : needed.getDialectNames())
    context.getOrLoadDialect(name);
}
