// SPDX-License-Identifier: Apache-2.0
// See the header. Shares of less than half a per cent are not worth a word.
#include "autopar/Report/PlanWords.h"

#include "autopar/Base/UnitsText.h"

#include <algorithm>
#include <cstdio>
#include <set>

namespace autopar {
namespace {

constexpr double kWorthAWord = 0.005;
/// Less is what a few small tensors do.
constexpr double kParts = 1.05;

std::string counted(size_t count, const std::string &one) {
  return std::to_string(count) + " " + one + (count == 1 ? "" : "s");
}

/// "4", or "2 or 3" where meshes differ.
std::string sizesOf(const Plan &plan, const std::string &axis) {
  std::set<int64_t> sizes;
  for (const Mesh &mesh : plan.meshes)
    for (const MeshAxis &own : mesh.axes)
      if (own.name == axis)
        sizes.insert(own.size);
  std::string text;
  for (int64_t size : sizes)
    text += (text.empty() ? "" : " or ") + std::to_string(size);
  return text;
}

std::vector<std::string> axesOf(const Plan &plan) {
  std::vector<std::string> names;
  for (const Mesh &mesh : plan.meshes)
    for (const MeshAxis &axis : mesh.axes)
      if (axis.size > 1 && std::find(names.begin(), names.end(), axis.name) == names.end())
        names.push_back(axis.name);
  return names;
}

/// "data parallel (92 % of the compute), tensor parallel (8 %)"
std::string useWords(const AxisUse &use) {
  struct Role {
    double share;
    std::string word;
  };
  double rest = 1 - use.samples - use.positions - use.experts - use.model;
  std::vector<Role> roles = {
      {use.samples, "data parallel"},
      {use.positions, use.model > use.positions ? "sequence parallel" : "context parallel"},
      {use.experts, "expert parallel"},
      {use.model, "tensor parallel"},
      {rest, "not divided"}};
  std::stable_sort(roles.begin(), roles.end(),
                   [](const Role &a, const Role &b) { return a.share > b.share; });
  std::string text;
  for (const Role &role : roles) {
    if (role.share < kWorthAWord)
      continue;
    bool isAll = role.share > 1 - kWorthAWord, isFirst = text.empty();
    text += (isFirst ? "" : ", ") + role.word;
    if (!isAll)
      text += " (" + percentText(role.share) + (isFirst ? " of the compute)" : ")");
  }
  return text;
}

class Words {
public:
  explicit Words(const Plan &plan) : plan(plan), believed(plan.believed) {}

  std::vector<PlanWord> run() {
    addAxes();
    addTurns();
    addState();
    addNotKept();
    return std::move(words);
  }

private:
  void add(const std::string &what, const std::string &how) { words.push_back({what, how}); }

  void addAxes() {
    for (const std::string &axis : axesOf(plan)) {
      auto use = std::find_if(believed.axes.begin(), believed.axes.end(),
                              [&](const AxisUse &one) { return one.axis == axis; });
      add(axis + " = " + sizesOf(plan, axis), use == believed.axes.end() ? "" : useWords(*use));
    }
  }

  /// Stages and micro-batches.
  void addTurns() {
    std::string batches =
        std::to_string(plan.microBatches) + " micro-batch" + (plan.microBatches == 1 ? "" : "es");
    if (plan.stages.size() > 1)
      add("pipeline", counted(plan.stages.size(), "stage") + " on " +
                          counted(plan.meshes.size(), "group") + " of ranks, schedule " +
                          plan.schedule + ", " + batches + waitingWords());
    else if (plan.microBatches > 1)
      add("micro-batches", std::to_string(plan.microBatches) + ", one after the other");
  }

  std::string waitingWords() const {
    for (const CostTerm &term : believed.time)
      if (term.kind == "waiting" && term.us >= kWorthAWord * believed.stepUs)
        return "; " + percentText(term.us / believed.stepUs) +
               " of the step is bubble and messages that nothing hides";
    return "";
  }

  /// Of the mesh whose devices hold most.
  void addState() {
    auto held = [](const StateParts &state) {
      return double(state.parameters) / state.parameterParts +
             double(state.optimizer) / state.optimizerParts;
    };
    auto most = std::max_element(
        believed.state.begin(), believed.state.end(),
        [&](const StateParts &a, const StateParts &b) { return held(a) < held(b); });
    if (most == believed.state.end())
      return;
    std::string rank = " on a rank";
    if (plan.meshes.size() > 1)
      rank += " of " + plan.meshes[size_t(most - believed.state.begin())].name;
    bool partsOptimizer = most->optimizerParts > kParts,
         partsParameters = most->parameterParts > kParts;
    if (most->parameters > 0)
      add("parameters", partsParameters
                            ? partsWords(most->parameterParts) + bytesText(most->parameters) +
                                  rank + ", gathered where they are used (as ZeRO-3 and FSDP do)"
                            : bytesText(most->parameters) + rank + ", as they are used");
    if (most->optimizer > 0)
      add("optimizer state",
          (partsOptimizer ? partsWords(most->optimizerParts) : "") + bytesText(most->optimizer) +
              rank + (partsOptimizer && !partsParameters ? " (as ZeRO-1 and 2 do)" : ""));
    if (partsOptimizer || partsParameters)
      add("not in parts", "they would take " + bytesText(most->parameters + most->optimizer) +
                              " of a device" + limitWords());
  }

  static std::string partsWords(double parts) {
    char text[40];
    std::snprintf(text, sizeof text, "1/%.3g of ", parts);
    return text;
  }

  std::string limitWords() const {
    return believed.memoryLimit > 0 ? ", which may hold " + bytesText(believed.memoryLimit) : "";
  }

  /// What is computed again, and what lies in host memory.
  void addNotKept() {
    if (!plan.recompute.empty()) {
      std::string gain;
      if (believed.recomputeUs > 0)
        gain = ": " + timeText(believed.recomputeUs) + " of the step for " +
               (believed.savedBytes > 0 ? bytesText(believed.savedBytes) : "nothing") +
               " of the peak";
      add("recomputation",
          counted(plan.recompute.size(), "operation") + " again in the backward pass" + gain);
    }
    std::string onHost;
    if (!plan.offload.empty())
      onHost = counted(plan.offload.size(), "state");
    if (!plan.offloadActivations.empty())
      onHost += (onHost.empty() ? "results of " : " and results of ") +
                counted(plan.offloadActivations.size(), "operation");
    if (!onHost.empty())
      add("offload", onHost + " lie in host memory, stored and fetched in each step");
  }

  const Plan &plan;
  const PlanBelief &believed;
  std::vector<PlanWord> words;
};

} // namespace

std::vector<PlanWord> planWords(const Plan &plan) { return Words(plan).run(); }

} // namespace autopar
