// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "BestWeights.h"

#include "autopar/Runtime/Checkpoint.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace autopar::tools {

static constexpr const char *kBest = "best", *kBestBy = "best_by", *kWorse = "worse_since";

Result<BestWeights> BestWeights::of(const RunOptions &options, const runtime::Session &session) {
  BestWeights made;
  if (options.exportBest.empty() && (options.patience > 0 || options.bestBy != RunOptions().bestBy))
    return Status{StatusCode::Usage, "--best-by and --patience speak of the evaluations of "
                                     "--export-best: give it a file, too"};
  if (options.exportBest.empty())
    return made;
  if (options.evalData.empty() || options.steps == 0)
    return Status{StatusCode::Usage,
                  "--export-best takes the best of several evaluations: it goes with --eval-data "
                  "and steps"};
  made.file = options.exportBest;
  made.by = options.bestBy;
  std::string order = made.by.substr(0, 4),
              name = made.by.substr(std::min<size_t>(4, made.by.size()));
  if (order != "min:" && order != "max:")
    return Status{StatusCode::Usage,
                  "--best-by " + made.by +
                      ": expected min: or max: and a metric, as in max:accuracy"};
  made.isMost = order == "max:";
  made.patience = options.patience;
  const std::vector<std::string> &names = session.evaluated();
  auto found = std::find(names.begin(), names.end(), name);
  std::string known;
  for (const std::string &each : names)
    known += (known.empty() ? "" : ", ") + each;
  if (found == names.end())
    return Status::badInput("--best-by: there is no metric '" + name + "'; evaluations of " +
                            session.reader().path() + " give " + (known.empty() ? "none" : known));
  made.metric = size_t(found - names.begin());
  return made;
}

Status BestWeights::consider(runtime::Session &session, const std::vector<double> &means) {
  if (file.empty())
    return Status::ok();
  double value = means[metric];
  bool isBetter = !std::isnan(value) && (!best || (isMost ? value > *best : value < *best));
  // Ranks decide alike whatever the last bit of their numbers is.
  auto decided = session.broadcastText(isBetter ? "better" : "no");
  if (!decided)
    return decided.status();
  worse = *decided == "better" ? 0 : worse + 1;
  if (worse > 0)
    return Status::ok();
  best = value;
  return exportSafetensors(session, file);
}

void BestWeights::note(std::map<std::string, std::string> &notes) const {
  if (!best)
    return;
  char number[32];
  std::snprintf(number, sizeof(number), "%.17g", *best);
  notes[kBest] = number;
  notes[kBestBy] = by;
  notes[kWorse] = std::to_string(worse);
}

void BestWeights::recall(const std::map<std::string, std::string> &notes) {
  auto noted = notes.find(kBest), notedBy = notes.find(kBestBy);
  if (noted == notes.end() || notedBy == notes.end() || notedBy->second != by)
    return;
  best = std::strtod(noted->second.c_str(), nullptr);
  auto since = notes.find(kWorse);
  worse = since == notes.end() ? 0 : std::strtoll(since->second.c_str(), nullptr, 10);
}

} // namespace autopar::tools
