// SPDX-License-Identifier: Apache-2.0
// --export-best: the parameters of the evaluation that was best so far; --patience: how many
// evaluations may be no better.
#pragma once

#include "RunOptions.h"
#include "autopar/Base/Status.h"
#include "autopar/Runtime/Session.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace autopar::tools {

class BestWeights {
public:
  /// Usage or BadInput says what does not go together: --best-by is "min:loss" or "max:accuracy",
  /// of a metric that evaluations of the program give.
  static Result<BestWeights> of(const RunOptions &options, const runtime::Session &session);

  /// After an evaluation, of which `means` are the metrics: writes the file where they are better
  /// than before; all ranks call it.
  Status consider(runtime::Session &session, const std::vector<double> &means);

  /// Whether as many evaluations as --patience says were no better than the best.
  bool hasEnough() const { return patience > 0 && worse >= patience; }

  /// What a checkpoint notes, so that a run that goes on knows what was best.
  void note(std::map<std::string, std::string> &notes) const;
  void recall(const std::map<std::string, std::string> &notes);

private:
  std::string file, by;
  size_t metric = 0; ///< of session.evaluated()
  bool isMost = false;
  int64_t patience = 0, worse = 0; ///< evaluations; `worse` since the best one
  std::optional<double> best;
};

} // namespace autopar::tools
