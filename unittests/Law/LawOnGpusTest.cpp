// SPDX-License-Identifier: Apache-2.0
// The law on GPUs: programs of random plans, run by the emulated driver, against one rank on the
// CPU.
#include "Law.h"

#include "autopar/Transforms/LibraryAttention.h"
#include "autopar/Transforms/LibraryGroupedProduct.h"

#include <cstdio>
#include <cstdlib>

using namespace mlir;
using namespace autopar_law;
using mlir::autopar::isLibraryAttention;
using mlir::autopar::isTiledGroupedProduct;
using mlir::autopar::Target;

namespace {

/// As many GPUs as any case has ranks.
[[maybe_unused]] const int sixGpus = setenv("AUTOPAR_EMULATED_CUDA_DEVICES", "6", 1);

/// Attention that runs as one call on a GPU.
int libraryCalls(ModuleOp module) {
  int calls = 0;
  module.walk([&](Operation *op) { calls += isLibraryAttention(Target::Cuda, /*chip=*/80, op); });
  return calls;
}

// Compiled for GPUs and run by the emulated driver, products and NCCL, against one rank on the CPU:
// every operation, a third of the graphs as training steps.
TEST_F(Law, AnyPlanOnGpusComputesWhatOneDeviceComputes) {
  std::vector<Cell> cells = allCells();
  std::set<std::string> ops;
  int wanted = std::max(20, caseCount() / 10), run = 0, trained = 0, staged = 0, failures = 0;
  for (uint64_t attempt = 0; run < wanted && attempt < 20000 && failures < 10; ++attempt) {
    Case c{600000 + attempt, cells[(attempt * 13) % cells.size()], rankCounts[attempt % 4],
           1 + static_cast<int>(attempt % 3)};
    c.trains = run % 3 == 2;
    OwningOpRef<ModuleOp> module = partitioned(c);
    if (!module)
      continue;
    Where where = run % 2 ? Where::GpusStaged : Where::GpusByNccl;
    ++run;
    trained += c.trains;
    staged += where == Where::GpusStaged;
    ops.insert(c.cell.op);
    std::string why = differenceFromOneRank(c, *module, where);
    EXPECT_EQ(why, "") << c << (where == Where::GpusStaged ? ", staged" : ", by NCCL");
    failures += !why.empty();
  }
  std::printf("%d graphs on GPUs, %zu operations, %d training, %d staged\n", run, ops.size(),
              trained, staged);
  EXPECT_GE(run, wanted);
  EXPECT_GE(trained, run / 3);
}

// In half precision attention that a library has is one call on a GPU, as is its gradient.
TEST_F(Law, AnyPlanOfAttentionOnGpusComputesWhatOneDeviceComputes) {
  int run = 0, calls = 0;
  for (const Cell &cell : allCells()) {
    if (cell.op != "attention" && cell.op != "attention_grad")
      continue;
    for (uint64_t seed = 0; seed < 6; ++seed) {
      Case c{700000 + seed, cell, rankCounts[seed / 2 % 4], 1, seed % 2 ? "fp16" : "bf16"};
      OwningOpRef<ModuleOp> module = partitioned(c);
      int here = module ? libraryCalls(*module) : 0;
      if (here == 0)
        continue;
      EXPECT_EQ(differenceFromOneRank(c, *module, Where::GpusStaged), "") << c;
      calls += here;
      ++run;
    }
  }
  std::printf("%d cases, %d calls\n", run, calls);
  EXPECT_GE(run, 10);
}

// In half precision grouped products of many rows are kernels of tiles on a GPU.
TEST_F(Law, AnyPlanOfGroupedProductsOnGpusComputesWhatOneDeviceComputes) {
  int run = 0, tiled = 0, trained = 0;
  std::vector<Cell> cells = allCells();
  std::erase_if(cells, [](const Cell &cell) {
    return cell.op != "grouped_dot" && cell.op != "grouped_dot_rhs_grad";
  });
  for (uint64_t seed = 900000; run < 16 && seed < 901000; ++seed) {
    Case c{seed, cells[seed % cells.size()], rankCounts[seed / 2 % 4], 1,
           seed / 8 % 2 ? "fp16" : "bf16"};
    c.trains = c.cell.op == "grouped_dot" && seed / 4 % 2;
    OwningOpRef<ModuleOp> module = partitioned(c);
    int here = 0;
    if (module)
      module->walk([&](Operation *op) {
        here += isTiledGroupedProduct(op, Target::Cuda) &&
                cast<RankedTensorType>(op->getOperand(2).getType()).getNumElements() > 8;
      });
    if (here == 0)
      continue;
    EXPECT_EQ(differenceFromOneRank(c, *module, Where::GpusStaged), "") << c;
    tiled += here;
    trained += c.trains;
    ++run;
  }
  std::printf("%d cases, %d in training, %d products in tiles\n", run, trained, tiled);
  EXPECT_EQ(run, 16);
}

// Ranks that share a triangle's rows: each sees the keys up to its own, or has an early and a late
// part of them.
TEST_F(Law, PartsOfATriangleComputeWhatOneDeviceComputes) {
  std::vector<Cell> cells = allCells();
  std::erase_if(cells, [](const Cell &cell) {
    return cell.op != "attention" && cell.op != "attention_grad";
  });
  int run = 0, calls = 0, balanced = 0;
  for (uint64_t seed = 800000; run < 24 && seed < 806000; ++seed) {
    bool isOnGpus = run / 2 % 2;
    Case c{seed, cells[seed / 2 % cells.size()], rankCounts[seed / 7 % 4], 1,
           isOnGpus ? "bf16" : "f32"};
    OwningOpRef<ModuleOp> module = partitioned(c);
    int parts = 0, here = module ? libraryCalls(*module) : 0;
    bool isBalanced = false;
    if (module)
      module->walk([&](Operation *op) {
        parts += op->hasAttr("parts");
        isBalanced |= isa<mlir::autopar::PermuteOp>(op);
      });
    if (parts == 0)
      continue;
    balanced += isBalanced;
    EXPECT_EQ(differenceFromOneRank(c, *module, isOnGpus ? Where::GpusStaged : Where::Cpu), "")
        << c;
    calls += isOnGpus ? here : 0;
    ++run;
  }
  std::printf("%d cases, %d of them balanced, %d calls on GPUs\n", run, balanced, calls);
  EXPECT_EQ(run, 24);
  EXPECT_GE(balanced, 6);
  EXPECT_GE(calls, 4);
}

} // namespace
