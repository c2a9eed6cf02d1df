// SPDX-License-Identifier: Apache-2.0
// The scalars that a training step gives: on the progress line and in a JSON-lines file.
#pragma once

#include "autopar/Base/Status.h"
#include "autopar/Runtime/Session.h"

#include <fstream>
#include <string>
#include <utility>
#include <vector>

namespace autopar::tools {

class Metrics {
public:
  /// `path` may be empty; the file is appended to by rank 0.
  static Result<Metrics> open(const std::string &path, bool isRoot);

  /// Fetches the scalar outputs of the last step; all ranks call it.
  Status collect(runtime::Session &session);
  /// Means over the evaluation data: part of the next line as "eval_NAME", and of every text from
  /// now on.
  void setEvaluated(const std::vector<std::string> &names, const std::vector<double> &means);
  /// Adds the line of the step that was collected.
  Status write(int64_t step, double ms, double samplesPerSecond);
  /// "loss 3.2104  gradient_norm 0.81"
  std::string text() const;

private:
  std::string path;
  std::ofstream file;
  bool isRoot = true;
  std::vector<std::pair<std::string, double>> values, evaluated;
  bool isNewlyEvaluated = false; ///< since the last line
};

} // namespace autopar::tools
