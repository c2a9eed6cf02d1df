// SPDX-License-Identifier: Apache-2.0
// Random graphs under random legal plans on 2, 3, 4 and 6 ranks against one rank; every cell of the
// table operation x factor kind x collective that can occur has to occur; and sabotaged programs
// have to be caught.
#include "Law.h"
#include "BreakCollective.h"

#include "autopar/Dialect/AutoPar/IR/Arguments.h"
#include "autopar/Interfaces/ShardingRuleInterface.h"

#include <cstdio>

using namespace mlir;
using namespace autopar_law;

namespace {

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
    OwningOpRef<ModuleOp> module = partitioned(c, &realised);
    if (!module)
      continue;
    possible.insert(c.cell);
    std::string why = differenceFromOneRank(c, *module);
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
      OwningOpRef<ModuleOp> module = partitioned(c);
      if (!module)
        continue;
      std::string why = differenceFromOneRank(c, *module);
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
  int wanted = caseCount() / 10, run = 0, offloaded = 0, failures = 0;
  for (uint64_t attempt = 0; run < wanted && attempt < 20000 && failures < 10; ++attempt) {
    Case c{200000 + attempt, cells[(attempt * 7) % cells.size()], rankCounts[attempt % 4],
           1 + static_cast<int>(attempt % 2)};
    c.trains = true;
    c.states = attempt % 7 == 6 ? StateKind::Narrow : static_cast<StateKind>(attempt % 3);
    OwningOpRef<ModuleOp> module = partitioned(c);
    if (!module)
      continue;
    ++run;
    trained.insert(c.cell.op);
    auto function = module->lookupSymbol<func::FuncOp>("main");
    offloaded += llvm::any_of(function.getArguments(), mlir::autopar::isOnHost);
    if (std::string why = differenceFromOneRank(c, *module); !why.empty()) {
      ++failures;
      ADD_FAILURE() << shrink(c) << " (first seen: " << c << "): " << why;
    }
  }
  EXPECT_GE(run, wanted);
  EXPECT_GE(offloaded, run / 8);
  std::printf("%d training steps over %zu operations, %d with state in host memory, %d failures\n",
              run, trained.size(), offloaded, failures);
}

TEST_F(Law, SabotageIsCaught) {
  std::vector<Cell> cells = allCells();
  int sabotaged = 0, caught = 0;
  for (uint64_t attempt = 0; sabotaged < 200 && attempt < 5000; ++attempt) {
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
  EXPECT_EQ(sabotaged, 200);
  // Some of it changes nothing: sums and maxima of what was permuted.
  EXPECT_GE(caught, 190);
}

} // namespace
