// SPDX-License-Identifier: Apache-2.0
// The page is lib/Report/report.html; this writes its data.
#include "autopar/Report/HtmlReport.h"

#include <map>
#include <set>
#include <tuple>

#include <nlohmann/json.hpp>

#include "ReportTemplate.h"
#include "autopar/Report/FoldedNames.h"
#include "autopar/Report/PlanWords.h"

namespace autopar {
namespace {

using Json = nlohmann::ordered_json;

/// Rows of equal name, but for the number of their layer, and equal sharding.
struct FoldedRow {
  PlanRow first;
  std::string name, how;
  int64_t count = 0;
  double computeUs = 0, collectiveUs = 0;
  std::set<int64_t> stages;
};

std::vector<FoldedRow> fold(const std::vector<PlanRow> &rows) {
  std::vector<FoldedRow> folded;
  std::map<std::tuple<bool, std::string, std::string, int64_t>, size_t> known;
  for (const PlanRow &row : rows) {
    std::string name = foldedName(row.name), how = shardingWords(row.sharding);
    auto [it, isNew] = known.try_emplace({row.isParameter, name, how, row.bytes}, folded.size());
    if (isNew)
      folded.push_back({row, name, how, 0, 0, 0, {}});
    FoldedRow &group = folded[it->second];
    ++group.count;
    group.computeUs += row.computeUs;
    group.collectiveUs += row.collectiveUs;
    if (row.stage >= 0)
      group.stages.insert(row.stage);
  }
  // A line that stands for one layer has its name.
  for (FoldedRow &group : folded)
    if (group.count == 1)
      group.name = group.first.name;
  return folded;
}

/// "0", "0-7", "0, 7"
std::string textOf(const std::set<int64_t> &stages) {
  if (stages.empty())
    return "";
  bool isRange = stages.size() > 2 &&
                 *stages.rbegin() - *stages.begin() + 1 == static_cast<int64_t>(stages.size());
  if (isRange)
    return std::to_string(*stages.begin()) + "-" + std::to_string(*stages.rbegin());
  std::string text;
  for (int64_t stage : stages)
    text += (text.empty() ? "" : ", ") + std::to_string(stage);
  return text;
}

Json rowsOf(const std::vector<PlanRow> &rows) {
  Json list = Json::array();
  for (const FoldedRow &row : fold(rows))
    list.push_back({{"name", row.name},
                    {"count", row.count},
                    {"parameter", row.first.isParameter},
                    {"shape", row.first.shape},
                    {"how", row.how},
                    {"bytes", row.first.bytes},
                    {"compute_us", row.computeUs},
                    {"collective_us", row.collectiveUs},
                    {"stages", textOf(row.stages)}});
  return list;
}

/// Neighbours of a kind, of no stage, as one where they are too short to be seen.
std::vector<TimelineSlice> joined(const std::vector<TimelineSlice> &slices) {
  constexpr double shortest = 1.0 / 1500; // of the step
  double end = 0;
  for (const TimelineSlice &slice : slices)
    end = std::max(end, slice.endUs);
  std::vector<TimelineSlice> seen;
  for (const TimelineSlice &slice : slices) {
    bool joins =
        !seen.empty() && slice.stage < 0 && seen.back().stage < 0 &&
        seen.back().queue == slice.queue && seen.back().kind == slice.kind &&
        seen.back().endUs - seen.back().startUs + slice.endUs - slice.startUs < shortest * end;
    if (!joins) {
      seen.push_back(slice);
      continue;
    }
    TimelineSlice &last = seen.back();
    last.endUs = slice.endUs;
    if (!last.name.ends_with(" ..."))
      last.name += " ...";
  }
  return seen;
}

Json timelineOf(const std::vector<TimelineSlice> &slices) {
  Json list = Json::array();
  for (const TimelineSlice &slice : joined(slices))
    list.push_back(Json::array({slice.queue, slice.kind, slice.name, slice.stage, slice.microBatch,
                                slice.startUs, slice.endUs}));
  return list;
}

Json wordsOf(const Plan &plan) {
  Json list = Json::array();
  for (const PlanWord &word : planWords(plan))
    list.push_back(Json::array({word.what, word.how}));
  return list;
}

/// The plan without its long lists: the rows tell them.
Json headOf(const Plan &plan) {
  Plan head = plan;
  head.ops.clear();
  head.values.clear();
  Json json = Json::parse(head.toJson());
  for (Json &stage : json["stages"])
    stage["ops"] = Json::array();
  return json;
}

} // namespace

std::string htmlReport(const ReportInput &input) {
  Json data = {{"model", input.model},
               {"trains", input.trains},
               {"samples", input.samples},
               {"tokens", input.tokens},
               {"words", wordsOf(input.plan)},
               {"host_bytes", input.details.hostBytes},
               {"plan", headOf(input.plan)},
               {"queues", input.details.queues},
               {"timeline", timelineOf(input.details.timeline)},
               {"rows", rowsOf(input.details.rows)}};
  // Nothing in a name may end the script.
  std::string text;
  for (char c : data.dump())
    text += c == '<' ? std::string("\\u003c") : std::string(1, c);
  return kReportHead + text + kReportTail;
}

} // namespace autopar
