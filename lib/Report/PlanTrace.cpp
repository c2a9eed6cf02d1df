// SPDX-License-Identifier: Apache-2.0
#include "autopar/Report/PlanTrace.h"

#include <nlohmann/json.hpp>

namespace autopar {
namespace {

using Json = nlohmann::ordered_json;

std::string nameOf(const TimelineSlice &slice) {
  std::string name = slice.name.empty() ? slice.kind : slice.name;
  if (slice.stage >= 0)
    name += ", stage " + std::to_string(slice.stage);
  if (slice.microBatch >= 0)
    name += ", micro-batch " + std::to_string(slice.microBatch);
  return name;
}

Json label(const char *what, int32_t row, const std::string &name) {
  return {{"ph", "M"}, {"name", what}, {"pid", 0}, {"tid", row}, {"args", {{"name", name}}}};
}

} // namespace

std::string planTrace(const ReportInput &input) {
  Json events = Json::array({label("process_name", 0, "plan of " + input.model)});
  const std::vector<std::string> &queues = input.details.queues;
  for (size_t row = 0; row < queues.size(); ++row)
    events.push_back(label("thread_name", static_cast<int32_t>(row), queues[row]));
  for (const TimelineSlice &slice : input.details.timeline)
    events.push_back({{"ph", "X"},
                      {"name", nameOf(slice)},
                      {"cat", slice.kind},
                      {"pid", 0},
                      {"tid", slice.queue},
                      {"ts", slice.startUs},
                      {"dur", slice.endUs - slice.startUs}});
  Json trace = {{"displayTimeUnit", "ms"},
                {"otherData",
                 {{"cluster", input.plan.clusterName},
                  {"step_us", input.plan.believed.stepUs},
                  {"recompute_us", input.plan.believed.recomputeUs}}},
                {"traceEvents", std::move(events)}};
  return trace.dump();
}

} // namespace autopar
