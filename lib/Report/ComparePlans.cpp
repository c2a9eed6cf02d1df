// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "autopar/Report/ComparePlans.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <tuple>

#include <nlohmann/json.hpp>

#include "autopar/Report/FoldedNames.h"

namespace autopar {
namespace {

std::string textOf(const std::vector<AxisList> &lists) {
  std::string text = "[";
  for (size_t i = 0; i < lists.size(); ++i) {
    text += i ? ", " : "";
    for (size_t k = 0; k < lists[i].size(); ++k)
      text += (k ? "*" : "") + lists[i][k];
    text += lists[i].empty() ? "-" : "";
  }
  return text + "]";
}

std::string textOf(const ValueSharding &sharding) { return textOf(sharding.dims); }

std::string textOf(const OpStrategy &strategy) { return textOf(strategy.factors); }

std::string textOf(const Mesh &mesh) {
  std::string text;
  for (const MeshAxis &axis : mesh.axes)
    text += (text.empty() ? "" : "x") + axis.name + "=" + std::to_string(axis.size);
  return text;
}

std::string timeText(double us) {
  char text[40];
  std::snprintf(text, sizeof text, us >= 1000 ? "%.3f ms" : "%.1f us", us >= 1000 ? us / 1000 : us);
  return text;
}

std::string bytesText(int64_t bytes) {
  char text[40];
  std::snprintf(text, sizeof text, "%.1f MiB", static_cast<double>(bytes) / 1048576.0);
  return text;
}

class Comparison {
public:
  Comparison(const Plan &a, const Plan &b) : a(a), b(b) {}

  std::vector<PlanDifference> run() {
    add("cluster", "", a.clusterName, b.clusterName);
    add("cluster", "devices", std::to_string(a.deviceCount), std::to_string(b.deviceCount));
    add("mesh", "", textOf(a.meshes.front()), textOf(b.meshes.front()));
    add("mesh", "meshes", std::to_string(a.meshes.size()), std::to_string(b.meshes.size()));
    compareStages();
    add("micro-batches", "", std::to_string(a.microBatches), std::to_string(b.microBatches));
    add("schedule", "", a.schedule, b.schedule);
    compareNames("recompute", a.recompute, b.recompute, "recomputed", "kept");
    compareNames("offload", a.offload, b.offload, "host memory", "device");
    compareNames("offload_activations", a.offloadActivations, b.offloadActivations, "host memory",
                 "device");
    compareMaps("shardings", a.values, b.values);
    compareMaps("operations", a.ops, b.ops);
    compareBeliefs();
    return std::move(found);
  }

private:
  void add(const std::string &group, const std::string &name, const std::string &left,
           const std::string &right, int64_t count = 1) {
    if (left != right)
      found.push_back({group, name, count, left.empty() ? "-" : left, right.empty() ? "-" : right});
  }

  void compareStages() {
    add("stages", "", std::to_string(a.stages.size()), std::to_string(b.stages.size()));
    if (a.stages.size() != b.stages.size())
      return;
    for (size_t i = 0; i < a.stages.size(); ++i) {
      const PlanStage &left = a.stages[i], &right = b.stages[i];
      if (left.ops == right.ops)
        continue;
      auto span = [](const PlanStage &stage) {
        return std::to_string(stage.ops.size()) + " operations" +
               (stage.ops.empty() ? "" : ", " + stage.ops.front() + " to " + stage.ops.back());
      };
      std::string own = span(left), other = span(right);
      add("stages", left.name, own, own == other ? other + ", others between" : other);
    }
  }

  /// What one list names and the other does not: `named` there, and `other` here.
  void compareNames(const std::string &group, const std::vector<std::string> &left,
                    const std::vector<std::string> &right, const std::string &named,
                    const std::string &other) {
    auto only = [](const std::vector<std::string> &ops, const std::vector<std::string> &others) {
      std::map<std::string, int64_t> folded;
      for (const std::string &op : ops)
        if (std::find(others.begin(), others.end(), op) == others.end())
          ++folded[foldedName(op, true)];
      return folded;
    };
    for (const auto &[name, count] : only(left, right))
      add(group, name, named, other, count);
    for (const auto &[name, count] : only(right, left))
      add(group, name, other, named, count);
  }

  template <typename T>
  void compareMaps(const std::string &group, const std::map<std::string, T> &left,
                   const std::map<std::string, T> &right) {
    std::map<std::tuple<std::string, std::string, std::string>, std::pair<int64_t, std::string>>
        folded;
    auto differ = [&](const std::string &name, const std::string &own, const std::string &other) {
      auto &[count, example] = folded[{foldedName(name, true), own, other}];
      ++count;
      example = name;
    };
    // What a step hands on lies as it did before.
    auto isHandedOn = [&](const std::string &name) {
      constexpr std::string_view output = "output:";
      return name.starts_with(output) && left.count(name.substr(output.size())) &&
             right.count(name.substr(output.size()));
    };
    for (const auto &[name, own] : left) {
      auto other = right.find(name);
      if (isHandedOn(name))
        continue;
      if (other == right.end())
        differ(name, textOf(own), "-");
      else if (!(own == other->second))
        differ(name, textOf(own), textOf(other->second));
    }
    for (const auto &[name, other] : right)
      if (!left.count(name))
        differ(name, "-", textOf(other));
    for (const auto &[key, value] : folded)
      add(group, value.first == 1 ? value.second : std::get<0>(key), std::get<1>(key),
          std::get<2>(key), value.first);
  }

  void compareBeliefs() {
    if (a.believed.stepUs != b.believed.stepUs)
      add("time", "step", timeText(a.believed.stepUs), timeText(b.believed.stepUs));
    using Key = std::pair<std::string, std::vector<std::string>>;
    std::map<Key, std::pair<double, double>> terms;
    for (const CostTerm &term : a.believed.time)
      terms[{term.kind, term.axes}].first = term.us;
    for (const CostTerm &term : b.believed.time)
      terms[{term.kind, term.axes}].second = term.us;
    for (const auto &[key, us] : terms)
      if (us.first != us.second)
        add("time", key.first + (key.second.empty() ? "" : " over " + textOf({key.second})),
            timeText(us.first), timeText(us.second));
    size_t meshes = std::max(a.believed.peakBytes.size(), b.believed.peakBytes.size());
    auto peak = [](const Plan &plan, size_t i) {
      return i < plan.believed.peakBytes.size() ? bytesText(plan.believed.peakBytes[i]) : "";
    };
    for (size_t i = 0; i < meshes; ++i)
      add("memory", meshes > 1 ? "mesh " + std::to_string(i) : "peak", peak(a, i), peak(b, i));
  }

  const Plan &a, &b;
  std::vector<PlanDifference> found;
};

} // namespace

std::vector<PlanDifference> comparePlans(const Plan &a, const Plan &b) {
  return Comparison(a, b).run();
}

std::string differencesAsText(const std::vector<PlanDifference> &differences) {
  std::string text, group;
  for (const PlanDifference &one : differences) {
    if (one.group != group)
      text += one.group + ":\n";
    group = one.group;
    text += "  " + one.name + (one.count > 1 ? " (" + std::to_string(one.count) + ")" : "") +
            (one.name.empty() ? "" : ": ") + one.a + " | " + one.b + "\n";
  }
  return text;
}

std::string differencesAsJson(const std::vector<PlanDifference> &differences) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const PlanDifference &one : differences)
    list.push_back({{"group", one.group},
                    {"name", one.name},
                    {"count", one.count},
                    {"a", one.a},
                    {"b", one.b}});
  nlohmann::ordered_json json = {{"equal", differences.empty()}, {"differences", list}};
  return json.dump(2) + "\n";
}

} // namespace autopar
