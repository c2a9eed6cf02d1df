// SPDX-License-Identifier: Apache-2.0
// A plan in words.
#include "autopar/Pipelines/Compile.h"
#include "autopar/Plan/Plan.h"
#include "llvm/Support/FormatVariadic.h"

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

/// "<what>: N <kind>", which the next line names, as far as they are few.
static void printNamed(llvm::raw_ostream &out, const std::string &what, StringRef kind,
                       ArrayRef<std::string> names, const std::string &gain = "") {
  constexpr size_t shown = 12;
  if (names.empty())
    return;
  out << what << ": " << names.size() << " " << kind << gain << ":\n  ";
  llvm::interleaveComma(names.take_front(shown), out);
  out << (names.size() > shown ? ", ...\n" : "\n");
}

static void printPlaces(llvm::raw_ostream &out, const Plan &plan) {
  out << "cluster " << plan.clusterName << ", " << plan.deviceCount << " devices\n";
  for (const ::autopar::Mesh &mesh : plan.meshes) {
    out << "mesh " << mesh.name << ":";
    for (const ::autopar::MeshAxis &axis : mesh.axes)
      out << " " << axis.name << " = " << axis.size;
    out << "\n";
  }
  if (plan.stages.size() < 2)
    return;
  out << llvm::formatv("{0} pipeline stages, schedule {1}, {2} micro-batches\n", plan.stages.size(),
                       plan.schedule, plan.microBatches);
  for (const ::autopar::PlanStage &stage : plan.stages)
    out << llvm::formatv("  {0} on {1}: {2} operations, {3} to {4}\n", stage.name, stage.mesh,
                         stage.ops.size(), stage.ops.front(), stage.ops.back());
}

static void printBelieved(llvm::raw_ostream &out, const ::autopar::PlanBelief &believed) {
  out << llvm::formatv("believed step time {0:f1} us", believed.stepUs);
  if (believed.lowerBoundUs > 0)
    out << llvm::formatv(" (nothing below {0:f1} us is possible)", believed.lowerBoundUs);
  out << ", found by " << believed.engine << "\n";
  if (believed.kernelsUs > 0)
    out << llvm::formatv("the kernels that it becomes take {0:f1} us\n", believed.kernelsUs);
  if (believed.inParts > 0)
    out << llvm::formatv("{0} operations are computed in two parts: one computes while the other "
                         "communicates\n",
                         believed.inParts);
  for (int64_t bytes : believed.peakBytes)
    out << llvm::formatv("believed peak {0:f1} MiB per device\n", bytes / 1048576.0);
}

/// What is not kept in device memory until it is read again.
static void printMemory(llvm::raw_ostream &out, const Plan &plan) {
  std::string gain;
  if (plan.believed.recomputeUs >= 0.05 || plan.believed.savedBytes > 0)
    gain = llvm::formatv(", {0:f1} us of the step for {1:f1} MiB of the peak",
                         plan.believed.recomputeUs, plan.believed.savedBytes / 1048576.0);
  printNamed(out, "computed again in the backward pass", "operations", plan.recompute, gain);
  printNamed(out, "in host memory from the forward to the backward pass", "operations",
             plan.offloadActivations);
  printNamed(out, "in host memory, fetched and stored in each step", "states", plan.offload);
}

static void printShardings(llvm::raw_ostream &out, const Plan &plan) {
  std::map<std::string, std::vector<std::string>> values, ops;
  for (const auto &[name, sharding] : plan.values)
    if (splitsAnything(sharding.dims))
      values[splitText(sharding.dims)].push_back(name);
  for (const auto &[name, strategy] : plan.ops)
    if (splitsAnything(strategy.factors))
      ops[splitText(strategy.factors)].push_back(name);
  printSplits(out, "tensors, axes per dimension", values);
  printSplits(out, "operations, axes per factor", ops);
}

std::string mlir::autopar::explainPlan(StringRef planJson) {
  if (planJson.empty())
    return "one rank: nothing to shard\n";
  ::autopar::Result<Plan> plan = Plan::fromJson(std::string_view(planJson.data(), planJson.size()));
  if (!plan)
    return "the plan cannot be read: " + plan.status().message() + "\n";
  std::string text;
  llvm::raw_string_ostream out(text);
  printPlaces(out, *plan);
  printBelieved(out, plan->believed);
  printMemory(out, *plan);
  printShardings(out, *plan);
  for (const ::autopar::PlanAlternative &alternative : plan->believed.alternatives)
    out << llvm::formatv("rejected: {0}: {1:f1} us\n", alternative.change, alternative.stepUs);
  return text;
}
