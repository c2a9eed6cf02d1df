// SPDX-License-Identifier: Apache-2.0
// A plan in words.
#include "autopar/Pipelines/Compile.h"
#include "autopar/Plan/Plan.h"

using namespace mlir;
using ::autopar::AxisList;
using ::autopar::Plan;

static void printAxes(llvm::raw_ostream &out, const AxisList &axes) {
  out << (axes.empty() ? "-" : "");
  llvm::interleave(axes, out, "*");
}

static bool splitsAnything(ArrayRef<AxisList> lists) {
  return llvm::any_of(lists, [](const AxisList &axes) { return !axes.empty(); });
}

/// Values or ops with the same split are told once, with their number.
static void printSplits(llvm::raw_ostream &out, StringRef title,
                        const std::map<std::string, std::vector<std::string>> &bySplit) {
  constexpr size_t shown = 4;
  if (!bySplit.empty())
    out << title << ":\n";
  for (const auto &[split, names] : bySplit) {
    out << "  [" << split << "]  ";
    llvm::interleaveComma(ArrayRef(names).take_front(shown), out);
    if (names.size() > shown)
      out << ", ... (" << names.size() << " in all)";
    out << "\n";
  }
}

static std::string splitText(const std::vector<AxisList> &lists) {
  std::string text;
  llvm::raw_string_ostream out(text);
  llvm::interleave(
      lists, out, [&](const AxisList &axes) { printAxes(out, axes); }, " ");
  return text;
}

static void printFirst(llvm::raw_ostream &out, ArrayRef<std::string> names) {
  constexpr size_t shown = 12;
  llvm::interleaveComma(names.take_front(shown), out);
  out << (names.size() > shown ? ", ...\n" : "\n");
}

std::string mlir::autopar::explainPlan(StringRef planJson) {
  std::string text;
  llvm::raw_string_ostream out(text);
  if (planJson.empty())
    return "one rank: nothing to shard\n";
  ::autopar::Result<Plan> plan = Plan::fromJson(std::string_view(planJson.data(), planJson.size()));
  if (!plan)
    return "the plan cannot be read: " + plan.status().message() + "\n";
  out << "cluster " << plan->clusterName << ", " << plan->deviceCount << " devices\n";
  for (const ::autopar::Mesh &mesh : plan->meshes) {
    out << "mesh " << mesh.name << ":";
    for (const ::autopar::MeshAxis &axis : mesh.axes)
      out << " " << axis.name << " = " << axis.size;
    out << "\n";
  }
  if (plan->stages.size() > 1) {
    out << llvm::formatv("{0} pipeline stages, schedule {1}, {2} micro-batches\n",
                         plan->stages.size(), plan->schedule, plan->microBatches);
    for (const ::autopar::PlanStage &stage : plan->stages)
      out << llvm::formatv("  {0} on {1}: {2} operations, {3} to {4}\n", stage.name, stage.mesh,
                           stage.ops.size(), stage.ops.front(), stage.ops.back());
  }
  out << llvm::formatv("believed step time {0:f1} us", plan->believed.stepUs);
  if (plan->believed.lowerBoundUs > 0)
    out << llvm::formatv(" (nothing below {0:f1} us is possible)", plan->believed.lowerBoundUs);
  out << ", found by " << plan->believed.engine << "\n";
  if (plan->believed.kernelsUs > 0)
    out << llvm::formatv("the kernels that it became take {0:f1} us\n", plan->believed.kernelsUs);
  for (int64_t bytes : plan->believed.peakBytes)
    out << llvm::formatv("believed peak {0:f1} MiB per device\n", bytes / 1048576.0);
  if (!plan->recompute.empty()) {
    out << llvm::formatv("computed again in the backward pass: {0} operations, {1:f1} us of the "
                         "step for {2:f1} MiB of the peak:\n  ",
                         plan->recompute.size(), plan->believed.recomputeUs,
                         plan->believed.savedBytes / 1048576.0);
    printFirst(out, plan->recompute);
  }
  if (!plan->offloadActivations.empty()) {
    out << llvm::formatv("in host memory from the forward to the backward pass: {0} operations:\n"
                         "  ",
                         plan->offloadActivations.size());
    printFirst(out, plan->offloadActivations);
  }
  if (!plan->offload.empty()) {
    out << llvm::formatv("in host memory, fetched and stored in each step: {0} states:\n  ",
                         plan->offload.size());
    printFirst(out, plan->offload);
  }
  std::map<std::string, std::vector<std::string>> values, ops;
  for (const auto &[name, sharding] : plan->values)
    if (splitsAnything(sharding.dims))
      values[splitText(sharding.dims)].push_back(name);
  for (const auto &[name, strategy] : plan->ops)
    if (splitsAnything(strategy.factors))
      ops[splitText(strategy.factors)].push_back(name);
  printSplits(out, "tensors, axes per dimension", values);
  printSplits(out, "operations, axes per factor", ops);
  for (const ::autopar::PlanAlternative &alternative : plan->believed.alternatives)
    out << llvm::formatv("rejected: {0}: {1:f1} us\n", alternative.change, alternative.stepUs);
  return text;
}
