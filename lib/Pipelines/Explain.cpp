// SPDX-License-Identifier: Apache-2.0
// A plan in words.
#include "autopar/Base/UnitsText.h"
#include "autopar/Pipelines/Compile.h"
#include "autopar/Plan/Plan.h"
#include "autopar/Report/FoldedNames.h"
#include "autopar/Report/PlanWords.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using ::autopar::AxisList;
using ::autopar::bytesText;
using ::autopar::percentText;
using ::autopar::Plan;
using ::autopar::timeText;

static void printAxes(llvm::raw_ostream &out, const AxisList &axes) {
  out << (axes.empty() ? "-" : "");
  llvm::interleave(axes, out, "*");
}

static bool splitsAnything(ArrayRef<AxisList> lists) {
  return llvm::any_of(lists, [](const AxisList &axes) { return !axes.empty(); });
}

/// A line of names, equal layers as one, as far as they are few.
static void printGroup(llvm::raw_ostream &out, const std::string &lead,
                       ArrayRef<std::string> names) {
  constexpr size_t shown = 4;
  std::vector<std::pair<std::string, size_t>> folded;
  llvm::StringMap<size_t> places;
  for (const std::string &name : names) {
    std::string pattern = ::autopar::foldedName(name);
    auto [place, isNew] = places.try_emplace(pattern, folded.size());
    if (isNew)
      folded.emplace_back(name, 0);
    auto &[first, count] = folded[place->second];
    if (++count > 1)
      first = pattern;
  }
  out << "  " << lead;
  llvm::interleaveComma(ArrayRef(folded).take_front(shown), out, [&](const auto &group) {
    out << group.first;
    if (group.second > 1)
      out << " (" << group.second << ")";
  });
  if (folded.size() > shown)
    out << ", ... (" << names.size() << " in all)";
  out << "\n";
}

/// Values or ops with the same split are told once.
static void printSplits(llvm::raw_ostream &out, StringRef title,
                        const std::map<std::string, std::vector<std::string>> &bySplit) {
  if (!bySplit.empty())
    out << title << ":\n";
  for (const auto &[split, names] : bySplit)
    printGroup(out, "[" + split + "]  ", names);
}

static void printNames(llvm::raw_ostream &out, StringRef title, ArrayRef<std::string> names) {
  if (names.empty())
    return;
  out << title << ":\n";
  printGroup(out, "", names);
}

static std::string splitText(const std::vector<AxisList> &lists) {
  std::string text;
  llvm::raw_string_ostream out(text);
  llvm::interleave(
      lists, out, [&](const AxisList &axes) { printAxes(out, axes); }, " ");
  return text;
}

static void printHead(llvm::raw_ostream &out, const Plan &plan) {
  const ::autopar::PlanBelief &believed = plan.believed;
  out << plan.clusterName << ", " << plan.deviceCount << " devices";
  if (believed.stepUs > 0)
    out << ": " << timeText(believed.kernelsUs > 0 ? believed.kernelsUs : believed.stepUs)
        << " a step";
  if (!believed.peakBytes.empty())
    out << ", at most " << bytesText(*llvm::max_element(believed.peakBytes)) << " on a device";
  if (believed.memoryLimit > 0)
    out << " (limit " << bytesText(believed.memoryLimit) << ")";
  out << "\n";
}

/// ": transformer.h.0 to transformer.h.8", where many of the operations are of layers.
static std::string layersOf(ArrayRef<std::string> ops) {
  std::map<std::string, std::vector<int64_t>> numbers; // by what is in front of them
  for (const std::string &op : ops) {
    std::string name = StringRef(op).ltrim('/').str(), pattern = ::autopar::foldedName(name);
    size_t begin = pattern.find('*');
    int64_t number = 0;
    if (begin == std::string::npos || begin + 1 == pattern.size() ||
        StringRef(name).substr(begin).take_while(llvm::isDigit).getAsInteger(10, number))
      continue;
    std::string front = pattern.substr(0, begin);
    llvm::replace(front, '/', '.'); // parameters and operations of a layer
    numbers[front].push_back(number);
  }
  std::string text;
  for (const auto &[front, all] : numbers) {
    if (all.size() * 8 < ops.size())
      continue;
    auto [from, to] = std::minmax_element(all.begin(), all.end());
    text += (text.empty() ? ": " : ", ") + front + std::to_string(*from) +
            (*from == *to ? "" : " to " + front + std::to_string(*to));
  }
  return text;
}

static void printSharing(llvm::raw_ostream &out, const Plan &plan) {
  std::vector<::autopar::PlanWord> words = planWords(plan);
  if (!words.empty())
    out << "how work and memory are shared:\n";
  for (const ::autopar::PlanWord &word : words)
    out << llvm::formatv("  {0,-15} {1}\n", word.what, word.how);
  if (plan.stages.size() > 1)
    for (const ::autopar::PlanStage &stage : plan.stages)
      out << llvm::formatv("  {0,-15} {1} operations on {2}{3}\n", stage.name, stage.ops.size(),
                           stage.mesh, layersOf(stage.ops));
}

static void printPart(llvm::raw_ostream &out, double share, const std::string &amount,
                      const std::string &what, StringRef sign = "") {
  out << llvm::formatv("  {0,7}  {1,8}  {2}\n", (sign + percentText(share)).str(), amount, what);
}

static void printTime(llvm::raw_ostream &out, const ::autopar::PlanBelief &believed) {
  if (believed.time.empty())
    return;
  out << "the step, as the search counts it: " << timeText(believed.stepUs);
  if (double gap = believed.lowerBoundUs > 0 ? believed.stepUs / believed.lowerBoundUs - 1 : -1;
      gap >= 0)
    out << (gap < 5e-4 ? ", proven to be the best"
                       : ", at most " + percentText(gap) + " above the best possible");
  out << ", found by " << believed.engine << "\n";
  size_t others = 0;
  double othersUs = 0;
  for (const ::autopar::CostTerm &term : believed.time) {
    std::string kind = term.kind;
    llvm::replace(kind, '_', '-');
    if (term.us >= 5e-4 * believed.stepUs)
      printPart(out, term.us / believed.stepUs, timeText(term.us),
                kind + (term.axes.empty() ? "" : " over " + llvm::join(term.axes, "*")));
    else if (++others)
      othersUs += term.us;
  }
  if (others > 0)
    printPart(out, othersUs / believed.stepUs, timeText(othersUs),
              std::to_string(others) + (others == 1 ? " other" : " others"));
  if (believed.inParts > 0)
    out << llvm::formatv("  {0} operations are computed in two parts: one computes while the other "
                         "communicates\n",
                         believed.inParts);
}

/// Parts of the mesh that holds most.
static void printPeak(llvm::raw_ostream &out, const Plan &plan) {
  const ::autopar::PlanBelief &believed = plan.believed;
  if (believed.memory.empty())
    return;
  const ::autopar::MemoryParts &most = *llvm::max_element(
      believed.memory, [](const auto &a, const auto &b) { return a.total() < b.total(); });
  out << "a device";
  if (believed.memory.size() > 1 && believed.memory.size() == plan.meshes.size())
    out << " of " << plan.meshes[size_t(&most - believed.memory.data())].name;
  out << " at its peak, operation by operation: " << bytesText(most.total()) << "\n";
  bool trains = llvm::any_of(believed.state, [](const auto &state) { return state.optimizer > 0; });
  for (auto [name, bytes] : {std::pair("parameters", most.parameters),
                             {trains ? "optimizer state" : "carried state", most.optimizer},
                             {"gradients", most.gradients},
                             {"activations", most.activations},
                             {"workspace", most.workspace}})
    if (bytes > 0)
      printPart(out, double(bytes) / double(most.total()), bytesText(bytes), name);
}

/// Cheapest first.
static void printRejected(llvm::raw_ostream &out, const ::autopar::PlanBelief &believed) {
  constexpr size_t shown = 8;
  std::vector<::autopar::PlanAlternative> others = believed.alternatives;
  llvm::stable_sort(others, [](const auto &a, const auto &b) { return a.stepUs < b.stepUs; });
  if (!others.empty())
    out << "rejected:\n";
  for (const ::autopar::PlanAlternative &other : ArrayRef(others).take_front(shown))
    printPart(out, std::abs(other.stepUs / believed.stepUs - 1), timeText(other.stepUs),
              other.change,
              std::abs(other.stepUs / believed.stepUs - 1) < 5e-4 ? ""
              : other.stepUs < believed.stepUs                    ? "-"
                                                                  : "+");
  if (others.size() > shown)
    out << "  and " << others.size() - shown << " more, dearer ones (--explain=json)\n";
}

static void printShardings(llvm::raw_ostream &out, const Plan &plan) {
  std::map<std::string, std::vector<std::string>> values, ops;
  // A parameter that a step hands on lies as it did.
  auto isHandedOn = [&](StringRef name, const ::autopar::ValueSharding &sharding) {
    auto before = name.consume_front("output:") ? plan.values.find(name.str()) : plan.values.end();
    return before != plan.values.end() && before->second == sharding;
  };
  for (const auto &[name, sharding] : plan.values)
    if (splitsAnything(sharding.dims) && !isHandedOn(name, sharding))
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
  printHead(out, *plan);
  printSharing(out, *plan);
  printTime(out, plan->believed);
  printPeak(out, *plan);
  printRejected(out, plan->believed);
  printShardings(out, *plan);
  printNames(out, "computed again in the backward pass", plan->recompute);
  printNames(out, "in host memory from the forward to the backward pass", plan->offloadActivations);
  printNames(out, "in host memory, fetched and stored in each step", plan->offload);
  return text;
}
