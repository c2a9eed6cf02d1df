// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "Law.h"

#include "autopar/InitAll.h"
#include "autopar/Interfaces/ExpansionInterface.h"
#include "autopar/Pipelines/Pipelines.h"
#include "autopar/Training/Passes.h"
#include "mlir/Pass/PassManager.h"

#include <cstdlib>
#include <ostream>

using namespace mlir;

namespace autopar_law {

/// Computes so slowly that whatever spares it that is worth any message, and that all messages are
/// through before.
static constexpr const char *kSlowDevices = R"({"kind": "autopar.cluster", "version": 1,
  "device_types": [{"name": "slow", "peak_flops_per_s": {"f32": 1, "bf16": 1, "f16": 1},
                    "memory_bytes_per_s": 1e15, "memory_bytes": 8589934592}],
  "nodes": [{"count": 1, "devices_per_node": 6, "device_type": "slow"}],
  "levels": [{"latency_us": 0, "bytes_per_s": 1e15}]})";
/// Whose kernels wait for messages, about as long as they compute.
static constexpr const char *kSlowLinks = R"({"kind": "autopar.cluster", "version": 1,
  "device_types": [{"name": "middling", "peak_flops_per_s": {"f32": 1e6, "bf16": 1e6, "f16": 1e6},
                    "memory_bytes_per_s": 1e7, "memory_bytes": 8589934592}],
  "nodes": [{"count": 1, "devices_per_node": 6, "device_type": "middling"}],
  "levels": [{"latency_us": 100, "bytes_per_s": 1e7}]})";

static void addCluster(ModuleOp module, const char *description) {
  OpBuilder builder = OpBuilder::atBlockBegin(module.getBody());
  mlir::autopar::ClusterOp::create(builder, module.getLoc(), "cluster", description);
}

void waitForMessages(ModuleOp module) {
  for (auto cluster : llvm::make_early_inc_range(module.getOps<mlir::autopar::ClusterOp>()))
    cluster.erase();
  addCluster(module, kSlowLinks);
}

int caseCount() {
  const char *text = std::getenv("AUTOPAR_LAW_CASES");
  return text ? std::atoi(text) : 520;
}

/// Ranks round the terms of a sum that one rank rounds once; where large terms of a gradient
/// cancel, it shows more.
static double toleranceOf(const Case &c) {
  double more = c.cell.op == "attention_grad" ? 4 : 1;
  if (c.states == StateKind::Narrow)
    return more * 0.03;
  return c.precision == "bf16" ? more * 0.03 : c.precision == "fp16" ? more * 0.004 : 1e-4;
}

std::ostream &operator<<(std::ostream &out, const Case &c) {
  return out << "seed " << c.seed << ", " << c.cell.op << " / " << c.cell.factor << " / "
             << c.cell.collective << ", " << c.ranks << " ranks, size " << c.size << ", "
             << c.precision << (c.trains ? ", training" : "")
             << (c.states == StateKind::Kept        ? ", with state"
                 : c.states == StateKind::Offloaded ? ", with state in host memory"
                 : c.states == StateKind::Narrow    ? ", with state of 16 bits"
                                                    : "");
}

std::vector<Cell> allCells() {
  std::vector<Cell> cells;
  for (const std::string &op : makerNames())
    for (auto &[factor, collective] : cellKinds())
      cells.push_back({op, factor.str(), collective.str()});
  return cells;
}

Law::Law() {
  DialectRegistry registry;
  mlir::autopar::registerAllDialects(registry);
  context.appendDialectRegistry(registry);
  context.loadAllAvailableDialects();
  context.disableMultithreading();
}

DrawnModule Law::draw(const Case &c) {
  DrawnModule drawn = drawModule(context, c.seed, c.cell.op, c.size);
  // Differentiation writes out what an earlier one made.
  bool isGone = c.trains && isa_and_present<mlir::autopar::ExpansionOpInterface>(drawn.target);
  if (isGone || (c.trains && !addTrainingStep(*drawn.module, c.seed, c.states))) {
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

OwningOpRef<ModuleOp> Law::partitioned(const Case &c, std::set<Cell> *cells) {
  DrawnModule drawn = draw(c);
  if (!drawn.module || !drawPlan(drawn, c.seed * 7919 + 1, c.ranks, c.cell))
    return {};
  if (cells)
    *cells = cellsOf(drawn.module->lookupSymbol<func::FuncOp>("main"));
  if (c.seed % 2) // else passes that decide by cost do nothing
    addCluster(*drawn.module, c.seed % 4 == 1 ? kSlowDevices : kSlowLinks);
  PassManager manager(&context);
  mlir::autopar::buildPhase(manager, mlir::autopar::Phase::InsertReshards, {}, {});
  mlir::autopar::buildPartitionPipeline(manager);
  EXPECT_TRUE(succeeded(manager.run(*drawn.module))) << c;
  return std::move(drawn.module);
}

::autopar::Result<std::vector<Output>> Law::reference(const Case &c, Where of) {
  Case whole = c; // on one device, nothing elsewhere
  whole.states = c.states == StateKind::Offloaded ? StateKind::Kept : c.states;
  DrawnModule drawn = draw(whole);
  if (of != Where::Cpu) // GPUs multiply in full what CPUs round in blocks
    drawn.module->walk([](mlir::autopar::DotGeneralOp op) { op.removeByteBlocksAttr(); });
  return runModule(*drawn.module, c.seed, Where::Cpu, Optimized::Never);
}

std::string Law::violation(const Case &c) {
  OwningOpRef<ModuleOp> module = partitioned(c);
  if (!module)
    return "";
  return differenceFromOneRank(c, *module);
}

std::string Law::differenceFromOneRank(const Case &c, ModuleOp module, Where where) {
  ::autopar::Result<std::vector<Output>> expected = reference(c, where),
                                         actual = runModule(module, c.seed, where);
  if (!expected)
    return "one rank: " + expected.status().message();
  if (!actual)
    return actual.status().message();
  return firstDifference(*expected, *actual, toleranceOf(c));
}

Case Law::shrink(Case c) {
  for (int size = 1; size < c.size; ++size) {
    Case smaller = c;
    smaller.size = size;
    if (!violation(smaller).empty())
      return smaller;
  }
  return c;
}

} // namespace autopar_law
