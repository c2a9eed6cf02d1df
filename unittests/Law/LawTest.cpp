// SPDX-License-Identifier: Apache-2.0
// The law: any plan computes what one device computes. Random graphs under random legal plans on 2,
// 3, 4 and 6 ranks against one rank; every cell of the table operation x factor kind x collective
// that can occur has to occur; and sabotaged programs have to be caught.
#include "BreakCollective.h"
#include "RandomPlan.h"
#include "RandomStep.h"
#include "RunModule.h"

#include "autopar/InitAll.h"
#include "autopar/Pipelines/Pipelines.h"
#include "autopar/Training/Passes.h"
#include "autopar/Transforms/LibraryAttention.h"
#include "autopar/Transforms/Stages.h"
#include "mlir/Pass/PassManager.h"
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <random>

using namespace mlir;
using namespace autopar_law;
using mlir::autopar::isLibraryAttention;

namespace {

/// AUTOPAR_LAW_CASES=N changes how many cases are drawn (default 520).
int caseCount() {
  const char *text = std::getenv("AUTOPAR_LAW_CASES");
  return text ? std::atoi(text) : 520;
}

struct Case {
  uint64_t seed = 0;
  Cell cell;
  int ranks = 2;
  int size = 4;
  std::string precision = "f32";
  bool trains = false;
};

/// As many GPUs as any case has ranks.
[[maybe_unused]] const int sixGpus = setenv("AUTOPAR_EMULATED_CUDA_DEVICES", "6", 1);

/// Ranks round the terms of a sum that one rank rounds once; where large terms of a gradient
/// cancel, it shows more.
double toleranceOf(const Case &c) {
  double more = c.cell.op == "attention_grad" ? 4 : 1;
  return c.precision == "bf16" ? more * 0.03 : c.precision == "fp16" ? more * 0.004 : 1e-4;
}

std::ostream &operator<<(std::ostream &out, const Case &c) {
  return out << "seed " << c.seed << ", " << c.cell.op << " / " << c.cell.factor << " / "
             << c.cell.collective << ", " << c.ranks << " ranks, size " << c.size << ", "
             << c.precision << (c.trains ? ", training" : "");
}

/// Attention that runs as one call on a GPU.
int libraryCalls(ModuleOp module) {
  int calls = 0;
  module.walk([&](Operation *op) { calls += isLibraryAttention("cuda", op); });
  return calls;
}

class Law : public testing::Test {
protected:
  Law() {
    DialectRegistry registry;
    mlir::autopar::registerAllDialects(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
    context.disableMultithreading();
  }

  /// The module is null where the case trains and something in it has no gradient.
  DrawnModule draw(const Case &c) {
    DrawnModule drawn = drawModule(context, c.seed, c.cell.op, c.size);
    if (c.trains && !addTrainingStep(*drawn.module, c.seed)) {
      drawn.module = nullptr;
      return drawn;
    }
    PassManager manager(&context);
    mlir::autopar::MixedPrecisionPassOptions options;
    options.precision = c.precision;
    manager.addPass(mlir::autopar::createMixedPrecisionPass(options));
    EXPECT_TRUE(succeeded(manager.run(*drawn.module))) << c;
    return drawn;
  }

  /// The partitioned module of a case and the cells it realises; null where the plan cannot be
  /// drawn.
  OwningOpRef<ModuleOp> partitioned(const Case &c, std::set<Cell> *cells = nullptr) {
    DrawnModule drawn = draw(c);
    if (!drawn.module || !drawPlan(drawn, c.seed * 7919 + 1, c.ranks, c.cell))
      return {};
    if (cells)
      *cells = cellsOf(drawn.module->lookupSymbol<func::FuncOp>("main"));
    PassManager manager(&context);
    mlir::autopar::buildPhase(manager, mlir::autopar::Phase::InsertReshards, {}, {});
    mlir::autopar::buildPartitionPipeline(manager);
    EXPECT_TRUE(succeeded(manager.run(*drawn.module))) << c;
    return std::move(drawn.module);
  }

  ::autopar::Result<std::vector<Output>> reference(const Case &c) {
    DrawnModule drawn = draw(c);
    return runModule(*drawn.module, c.seed);
  }

  /// Empty if the case obeys the law.
  std::string violation(const Case &c, std::set<Cell> *cells = nullptr) {
    OwningOpRef<ModuleOp> module = partitioned(c, cells);
    if (!module)
      return "";
    return differenceFromOneRank(c, *module);
  }

  /// What a rewritten module of a case computes otherwise than the case on one rank; empty if
  /// nothing.
  std::string differenceFromOneRank(const Case &c, ModuleOp module, Where where = Where::Cpu) {
    ::autopar::Result<std::vector<Output>> expected = reference(c),
                                           actual = runModule(module, c.seed, where);
    if (!expected)
      return "one rank: " + expected.status().message();
    if (!actual)
      return actual.status().message();
    return firstDifference(*expected, *actual, toleranceOf(c));
  }

  /// The smallest size at which the same draw still fails.
  Case shrink(Case c) {
    for (int size = 1; size < c.size; ++size) {
      Case smaller = c;
      smaller.size = size;
      if (!violation(smaller).empty())
        return smaller;
    }
    return c;
  }

  MLIRContext context;
};

std::vector<Cell> allCells() {
  std::vector<Cell> cells;
  for (const std::string &op : makerNames())
    for (auto &[factor, collective] : cellKinds())
      cells.push_back({op, factor.str(), collective.str()});
  return cells;
}

constexpr int rankCounts[] = {2, 3, 4, 6};

void printTable(const std::map<Cell, int> &counts, const std::set<Cell> &possible) {
  std::printf("%-18s", "cases per cell");
  for (auto &[factor, collective] : cellKinds())
    std::printf(" %14s", collective.str().c_str());
  std::printf("\n");
  for (const std::string &op : makerNames()) {
    std::printf("%-18s", op.c_str());
    for (auto &[factor, collective] : cellKinds()) {
      Cell cell{op, factor.str(), collective.str()};
      auto it = counts.find(cell);
      std::printf(" %14s", it != counts.end()     ? std::to_string(it->second).c_str()
                           : possible.count(cell) ? "EMPTY"
                                                  : "-");
    }
    std::printf("\n");
  }
}

TEST_F(Law, EveryOperationWithAShardingRuleIsDrawn) {
  std::vector<std::string> drawn = makerNames();
  int asked = 0;
  for (RegisteredOperationName name : context.getRegisteredOperations())
    if (name.getDialectNamespace() == "autopar" &&
        name.hasInterface<mlir::autopar::ShardingRuleOpInterface>()) {
      // Of a measured operation nobody knows what it computes.
      if (name.stripDialect().starts_with("profiled"))
        continue;
      ++asked;
      EXPECT_TRUE(llvm::is_contained(drawn, name.stripDialect().str()))
          << name.getStringRef().str() << " needs a maker in RandomGraph.cpp";
    }
  EXPECT_GE(asked, 20);
}

TEST_F(Law, AnyPlanComputesWhatOneDeviceComputes) {
  std::vector<Cell> cells = allCells();
  std::map<Cell, int> counts;
  std::set<Cell> possible;
  int run = 0, failures = 0;
  for (uint64_t attempt = 0; run < caseCount() && attempt < 20000; ++attempt) {
    Case c{attempt, cells[attempt % cells.size()], rankCounts[(attempt / cells.size()) % 4],
           2 + static_cast<int>(attempt % 4)};
    std::set<Cell> realised;
    {
      // Cheap check first: can this draw realise its cell at all?
      OwningOpRef<ModuleOp> module = partitioned(c, &realised);
      if (!module)
        continue;
    }
    possible.insert(c.cell);
    std::string why = violation(c);
    ++run;
    for (const Cell &cell : realised)
      ++counts[cell];
    if (!why.empty()) {
      ++failures;
      ADD_FAILURE() << shrink(c) << " (first seen: " << c << "): " << why;
      if (failures >= 10)
        break;
    }
  }
  printTable(counts, possible);
  for (const Cell &cell : possible)
    EXPECT_GT(counts[cell], 0) << cell.op << " / " << cell.factor << " / " << cell.collective
                               << " never ran";
  EXPECT_GE(run, caseCount());
  std::printf("%d cases, %d failures\n", run, failures);
}

// Products are what narrow floats are for; nothing else is in these graphs that a rounding could
// make jump.
TEST_F(Law, AnyPlanComputesInNarrowFloatsWhatOneDeviceComputes) {
  int run = 0, narrow = 0;
  for (const Cell &cell : allCells()) {
    if (cell.op != "dot_general" && cell.op != "convolution")
      continue;
    for (uint64_t seed = 0; seed < 6; ++seed) {
      Case c{200000 + seed, cell, rankCounts[seed / 2 % 4], 1, seed % 2 ? "fp16" : "bf16"};
      if (!partitioned(c))
        continue;
      std::string why = violation(c);
      EXPECT_EQ(why, "") << c;
      Case wide = c;
      wide.precision = "f32";
      ::autopar::Result<std::vector<Output>> rounded = reference(c), exact = reference(wide);
      ASSERT_TRUE(rounded.isOk() && exact.isOk()) << c;
      narrow += !firstDifference(*exact, *rounded, 1e-5).empty();
      ++run;
    }
  }
  std::printf("%d cases, %d of them rounded\n", run, narrow);
  EXPECT_GE(run, 30);
  EXPECT_GE(narrow, run / 3);
}

TEST_F(Law, AnyPlanTrainsLikeOneDevice) {
  std::vector<Cell> cells = allCells();
  std::set<std::string> trained;
  int wanted = caseCount() / 20, run = 0, failures = 0;
  for (uint64_t attempt = 0; run < wanted && attempt < 20000 && failures < 10; ++attempt) {
    Case c{200000 + attempt, cells[(attempt * 7) % cells.size()], rankCounts[attempt % 4],
           1 + static_cast<int>(attempt % 2)};
    c.trains = true;
    if (!partitioned(c))
      continue;
    ++run;
    trained.insert(c.cell.op);
    if (std::string why = violation(c); !why.empty()) {
      ++failures;
      ADD_FAILURE() << shrink(c) << " (first seen: " << c << "): " << why;
    }
  }
  EXPECT_GE(run, wanted);
  std::printf("%d training steps over %zu operations, %d failures\n", run, trained.size(),
              failures);
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

// The first input's first dimension is the batch; graphs in which samples depend on each other are
// refused and do not count.
TEST_F(Law, MicroBatchesComputeWhatTheWholeBatchComputes) {
  std::vector<std::string> ops = makerNames();
  int run = 0, failures = 0;
  for (uint64_t attempt = 0; run < std::max(20, caseCount() / 8) && attempt < 4000; ++attempt) {
    Case c{200000 + attempt,
           {ops[attempt % ops.size()], "", ""},
           1,
           1 + static_cast<int>(attempt % 4)};
    DrawnModule drawn = drawModule(context, c.seed, c.cell.op, c.size);
    if (!drawn.target)
      continue;
    mlir::autopar::AutoShardOptions options;
    options.microBatches = 2 + static_cast<int>(attempt % 2);
    PassManager manager(&context);
    mlir::autopar::buildPhase(manager, mlir::autopar::Phase::SplitMicroBatches, options, {});
    ScopedDiagnosticHandler quiet(&context, [](Diagnostic &) { return success(); });
    if (failed(manager.run(*drawn.module)))
      continue;
    ++run;
    std::string why = differenceFromOneRank(c, *drawn.module);
    if (why.empty())
      continue;
    ADD_FAILURE() << c << ", " << options.microBatches.getValue() << " micro-batches: " << why;
    if (++failures >= 10)
      break;
  }
  std::printf("%d graphs in micro-batches\n", run);
  EXPECT_GE(run, 20);
}

// Arguments lie on stages drawn at random, so that values and derivatives go to and fro between
// them; half of the graphs are training steps, some of the others go in micro-batches.
TEST_F(Law, StagesComputeWhatOneDeviceComputes) {
  std::vector<std::string> ops = makerNames();
  std::vector<std::string> schedules = {"gpipe", "1f1b", "eager-1f1b", "zero-bubble"};
  int run = 0, sent = 0, split = 0, failures = 0;
  for (uint64_t attempt = 0; run < std::max(20, caseCount() / 8) && attempt < 4000; ++attempt) {
    Case c{300000 + attempt,
           {ops[attempt % ops.size()], "", ""},
           2 + static_cast<int>(attempt % 3),
           1 + static_cast<int>(attempt % 4)};
    // Drawn, so that every operation meets every kind.
    uint64_t kind = std::mt19937_64(attempt)();
    bool splits = kind % 4 == 2 || kind % 8 == 0;
    c.trains = kind % 2;
    DrawnModule drawn = draw(c);
    if (!drawn.module || !drawn.target)
      continue;
    auto function = drawn.module->lookupSymbol<func::FuncOp>("main");
    ScopedDiagnosticHandler quiet(&context, [](Diagnostic &) { return success(); });
    mlir::autopar::AutoShardOptions options;
    options.stages = c.ranks;
    options.schedule = schedules[attempt % schedules.size()];
    options.cluster = "presets:cpux" + std::to_string(c.ranks);
    OpBuilder builder(&context);
    if (splits) {
      options.microBatches = 2;
      PassManager splitter(&context);
      mlir::autopar::buildPhase(splitter, mlir::autopar::Phase::SplitMicroBatches, options, {});
      if (failed(splitter.run(*drawn.module)))
        continue;
    }
    // Stages are anchored at what is the same in all micro-batches; without them, anywhere.
    std::mt19937_64 random(c.seed);
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      if (!splits || !function.getArgAttr(i, "autopar.micro_batches"))
        function.setArgAttr(i, mlir::autopar::kStageAttribute,
                            builder.getI64IntegerAttr(splits ? 0 : random() % c.ranks));
    PassManager manager(&context);
    mlir::autopar::buildPhase(manager, mlir::autopar::Phase::CutStages, options, {});
    if (failed(manager.run(*drawn.module)))
      continue; // too few operations
    builder.setInsertionPointToStart(drawn.module->getBody());
    for (int64_t rank = 0; rank < c.ranks; ++rank)
      mlir::autopar::MeshOp::create(builder, function.getLoc(), "m" + std::to_string(rank),
                                    builder.getStrArrayAttr({}), ArrayRef<int64_t>{},
                                    builder.getDenseI64ArrayAttr({rank}));
    sent += !function.getOps<mlir::autopar::TransferOp>().empty();
    split += splits;
    ++run;
    std::string why = differenceFromOneRank(c, *drawn.module);
    if (why.empty())
      continue;
    ADD_FAILURE() << c << ", " << options.schedule.getValue() << ", "
                  << options.microBatches.getValue() << " micro-batches: " << why;
    if (++failures >= 10)
      break;
  }
  std::printf("%d graphs in stages, %d with messages, %d in micro-batches\n", run, sent, split);
  EXPECT_GE(run, 20);
  EXPECT_GE(sent, run / 2);
  EXPECT_GE(split, run / 20);
}

// Two stages, each on a mesh of its own size, under sharding plans drawn at random: what goes from
// one to the other is cut anew on the way.
TEST_F(Law, StagesOnMeshesOfDifferentSizesComputeWhatOneDeviceComputes) {
  constexpr std::pair<int, const char *> shapes[] = {
      {3, "x=1/x=2"}, {3, "x=2/x=1"}, {4, "x=1/x=3"},         {4, "x=2,y=1/x=1,y=2"},
      {5, "x=2/x=3"}, {5, "x=4/x=1"}, {6, "x=2,y=2/x=1,y=2"},
  };
  std::vector<std::string> ops = makerNames();
  int run = 0, sent = 0, trained = 0, failures = 0;
  for (uint64_t attempt = 0; run < std::max(20, caseCount() / 8) && attempt < 4000; ++attempt) {
    auto [ranks, shape] = shapes[attempt % std::size(shapes)];
    Case c{500000 + attempt,
           {ops[attempt % ops.size()], "", ""},
           ranks,
           1 + static_cast<int>(attempt % 4)};
    c.trains = std::mt19937_64(attempt)() % 2;
    DrawnModule drawn = draw(c);
    if (!drawn.module || !drawn.target)
      continue;
    auto function = drawn.module->lookupSymbol<func::FuncOp>("main");
    ScopedDiagnosticHandler quiet(&context, [](Diagnostic &) { return success(); });
    mlir::autopar::AutoShardOptions options;
    options.stages = 2;
    options.mesh = shape;
    options.engine = "random";
    options.seed = c.seed;
    options.cluster = "presets:cpux" + std::to_string(ranks);
    OpBuilder builder(&context);
    std::mt19937_64 random(c.seed);
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      function.setArgAttr(i, mlir::autopar::kStageAttribute,
                          builder.getI64IntegerAttr(random() % 2));
    PassManager cutter(&context);
    mlir::autopar::buildPhase(cutter, mlir::autopar::Phase::CutStages, options, {});
    if (failed(cutter.run(*drawn.module)))
      continue; // too few operations
    PassManager manager(&context);
    for (auto phase : {mlir::autopar::Phase::Search, mlir::autopar::Phase::Annotate,
                       mlir::autopar::Phase::InsertReshards})
      mlir::autopar::buildPhase(manager, phase, options, {});
    mlir::autopar::buildPartitionPipeline(manager);
    ++run;
    trained += c.trains;
    std::string why =
        succeeded(manager.run(*drawn.module)) ? differenceFromOneRank(c, *drawn.module) : "no plan";
    sent += !drawn.module->lookupSymbol<func::FuncOp>("main")
                 .getOps<mlir::autopar::TransferOp>()
                 .empty();
    if (why.empty())
      continue;
    ADD_FAILURE() << c << ", meshes " << shape << ": " << why;
    if (++failures >= 10)
      break;
  }
  std::printf("%d graphs on unequal meshes, %d with messages, %d training\n", run, sent, trained);
  EXPECT_GE(run, 20);
  EXPECT_GE(sent, run / 2);
  EXPECT_GE(trained, run / 5);
}

/// Names about half of the operations of the forward pass for `autopar.recompute`; how many.
size_t recomputeHalf(func::FuncOp function, uint64_t seed) {
  std::mt19937_64 random(seed);
  SmallVector<StringRef> names;
  for (Operation &op : function.getBody().front().without_terminator()) {
    StringRef id = mlir::autopar::getOpId(&op);
    if (!id.empty() && !id.contains("/vjp") && op.getNumOperands() > 0 &&
        !isa<mlir::autopar::StackMicroBatchesOp>(op) && random() % 2 == 0)
      names.push_back(id);
  }
  function->setAttr("autopar.recompute", Builder(function.getContext()).getStrArrayAttr(names));
  return names.size();
}

// Training steps under random plans; what is computed again is the same to the last bit.
TEST_F(Law, RecomputationDoesNotChangeABit) {
  std::vector<Cell> cells = allCells();
  int wanted = std::max(8, caseCount() / 40), run = 0, again = 0;
  for (uint64_t attempt = 0; run < wanted && attempt < 20000; ++attempt) {
    Case c{400000 + attempt, cells[(attempt * 11) % cells.size()],
           1 + static_cast<int>(attempt % 3), 2 + static_cast<int>(attempt % 3)};
    c.trains = true;
    OwningOpRef<ModuleOp> module = c.ranks == 1 ? draw(c).module.release() : partitioned(c);
    if (!module)
      continue;
    ++run;
    ScopedDiagnosticHandler quiet(&context, [](Diagnostic &diagnostic) {
      return success(diagnostic.getSeverity() != DiagnosticSeverity::Error);
    });
    ::autopar::Result<std::vector<Output>> kept = runModule(*module, c.seed);
    size_t named = recomputeHalf(module->lookupSymbol<func::FuncOp>("main"), c.seed);
    ::autopar::Result<std::vector<Output>> recomputed = runModule(*module, c.seed);
    ASSERT_TRUE(kept.isOk()) << c << ": " << kept.status().message();
    ASSERT_TRUE(recomputed.isOk()) << c << ": " << recomputed.status().message();
    EXPECT_EQ(firstDifference(*kept, *recomputed, 0), "") << c;
    again += named > 0;
  }
  std::printf("%d training steps, %d of them with recomputation\n", run, again);
  EXPECT_GE(run, wanted);
  EXPECT_GE(again, run / 2);
}

TEST_F(Law, SabotageIsCaught) {
  std::vector<Cell> cells = allCells();
  int sabotaged = 0, caught = 0;
  for (uint64_t attempt = 0; sabotaged < 100 && attempt < 5000; ++attempt) {
    Case c{100000 + attempt, cells[attempt % cells.size()], rankCounts[attempt % 4], 3};
    if (c.cell.collective == "none")
      continue;
    OwningOpRef<ModuleOp> module = partitioned(c);
    if (!module)
      continue;
    std::string what = breakCollective(*module, c.seed);
    if (what.empty())
      continue;
    ++sabotaged;
    ::autopar::Result<std::vector<Output>> expected = reference(c),
                                           actual = runModule(*module, c.seed);
    if (expected.isOk() && (!actual.isOk() || !firstDifference(*expected, *actual).empty()))
      ++caught;
    else
      std::printf("not caught: %s in seed %lu, %s\n", what.c_str(),
                  static_cast<unsigned long>(c.seed), c.cell.op.c_str());
  }
  std::printf("%d of %d sabotaged programs caught\n", caught, sabotaged);
  EXPECT_EQ(sabotaged, 100);
  EXPECT_GE(caught, 95);
}

} // namespace
