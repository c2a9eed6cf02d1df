// SPDX-License-Identifier: Apache-2.0
// Checkpoints: everything that lasts from step to step, in safetensors files and an index. Written
// by all ranks side by side, committed in one rename, and read back on any plan and number of
// ranks. Layout: docs/CheckpointFormat.md.
#pragma once

#include "autopar/Runtime/Session.h"

#include <map>
#include <memory>
#include <optional>
#include <string>

namespace autopar::runtime {

/// What a checkpoint says besides tensors.
struct CheckpointInfo {
  int64_t step = 0; ///< steps done so far; the next one has this number
  /// What the run wants to find again: seed and file of the data, ...
  std::map<std::string, std::string> notes;
};

/// Writes `folder`/step-<N>, which exists only when it is whole; all ranks call it at the same
/// step. An older attempt at the same step is replaced.
Status saveCheckpoint(Session &session, const std::string &folder, const CheckpointInfo &info);

/// What loadCheckpoint found.
struct LoadedCheckpoint {
  std::string path;
  CheckpointInfo info;
  std::string remarks; ///< newer ones that were passed over, and why; a line each
};

/// Loads the newest whole checkpoint in `folder`; nothing when there is none at all. All ranks call
/// it. BadInput when there are only damaged ones, or when the newest whole one is of another model
/// (names the first tensor that differs).
Result<std::optional<LoadedCheckpoint>> loadNewestCheckpoint(Session &session,
                                                             const std::string &folder);

/// Loads the checkpoint `path` (a step-<N> folder); NoInput or BadInput when it is not there or not
/// whole.
Result<LoadedCheckpoint> loadCheckpoint(Session &session, const std::string &path);

/// Removes all but the `count` newest checkpoints of `folder`; one process calls it.
Status keepNewestCheckpoints(const std::string &folder, int64_t count);

/// Keeps other runs from writing into `folder`, which must be there, as long as what is returned
/// lives. CannotCreate where another process has it.
Result<std::shared_ptr<void>> lockCheckpoints(const std::string &folder);

/// What is written of a trained parameter: itself, or the moving average that its optimizer keeps.
enum class Exported { Parameters, Averages };

/// BadInput where the program keeps no averages.
Status checkExported(const Session &session, Exported what);

/// Writes every trained parameter as one whole tensor of a single safetensors file; all ranks call
/// it. What has no average (running statistics) is written as it is.
Status exportSafetensors(Session &session, const std::string &path,
                         Exported what = Exported::Parameters);

} // namespace autopar::runtime
