// SPDX-License-Identifier: Apache-2.0
// Random graphs under random plans, with all that can be computed in parts computed in parts,
// whether it pays or not, against one rank.
#include "Law.h"

#include "autopar/Conversion/KernelsToCpu.h"
#include "autopar/Pipelines/Compile.h"
#include "autopar/Pipelines/Pipelines.h"
#include "autopar/Transforms/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"

#include <cstdio>

using namespace mlir;
using namespace autopar_law;

namespace {

/// Forms the module's groups, as the compiler does where nothing else is said, and writes it in
/// parts: how many operations each part has.
int64_t writeInParts(ModuleOp module, mlir::autopar::Target target) {
  mlir::autopar::LowerOptions lower;
  lower.target = target;
  std::string cpu = mlir::autopar::CompileOptions().targetCpu;
  lower.bf16Products = ::autopar::multipliesBf16(cpu);
  lower.bf16Library = ::autopar::libraryHasBf16(cpu);
  lower.byteProducts = ::autopar::multipliesBytes(cpu);
  PassManager manager(module.getContext());
  mlir::autopar::buildPhase(manager, mlir::autopar::Phase::FormGroups, {}, lower);
  mlir::autopar::OverlapPartsPassOptions options;
  options.target = target;
  options.saves = -1e9;
  manager.addPass(mlir::autopar::createOverlapPartsPass(options));
  EXPECT_TRUE(succeeded(manager.run(module)));
  int64_t parts = 0;
  for (Operation &op : module.lookupSymbol<func::FuncOp>("main").getBody().front())
    parts += mlir::autopar::getOpId(&op).ends_with("/part0");
  return parts;
}

TEST_F(Law, WhatIsComputedInPartsComputesWhatOneDeviceComputes) {
  std::vector<Cell> cells = allCells();
  int run = 0, onGpus = 0;
  int64_t operations = 0;
  for (uint64_t seed = 900001; run < 160 && seed < 930000; seed += 2) { // odd ones have a cluster
    bool isOnGpus = run % 4 == 3;
    Case c{seed, cells[seed / 2 % cells.size()], rankCounts[seed / 7 % 4],
           2 + static_cast<int>(seed % 5)};
    OwningOpRef<ModuleOp> module = partitioned(c);
    int64_t parts = module ? writeInParts(*module, isOnGpus ? mlir::autopar::Target::Cuda
                                                            : mlir::autopar::Target::Cpu)
                           : 0;
    if (parts == 0)
      continue;
    std::string why = differenceFromOneRank(c, *module, isOnGpus ? Where::GpusStaged : Where::Cpu);
    EXPECT_EQ(why, "") << c;
    ++run;
    onGpus += isOnGpus;
    operations += parts;
  }
  std::printf("%d cases, %d on GPUs, %lld operations in parts\n", run, onGpus,
              static_cast<long long>(operations));
  EXPECT_EQ(run, 160);
  EXPECT_GE(operations, 400);
}

} // namespace
