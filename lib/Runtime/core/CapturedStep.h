// SPDX-License-Identifier: Apache-2.0
// A step that is recorded once and then given to the device as one. Where the host has to look at
// the guards in between, it is two: what comes before the first instruction that commits, and the
// rest.
#pragma once

#include "autopar/Artifact/Program.h"
#include "autopar/Runtime/Device.h"
#include "autopar/Runtime/Executor.h"

#include <array>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace autopar::runtime {

class CapturedStep {
public:
  /// Ok, or BadInput saying why steps of this program cannot be captured.
  static Status check(const artifact::Program &program, Device &device,
                      const Communicator &communicator);

  /// Gives an instruction to the device or the communicator while the device records.
  using Issue = std::function<Result<Token>(const artifact::Instruction &instruction, int32_t slot,
                                            std::span<const Token> after)>;
  /// All outlive it.
  CapturedStep(const SharedProgram &shared, Device &device, Issue issue);

  /// Begins a step; false where it has to run one by one: an inspection, and the first of its kind,
  /// in which libraries load what they need.
  bool start(StepKind kind);
  /// Goes on until done or until something is pending. `areGuardsFinite` is asked at most once per
  /// step.
  Result<bool> advance(const std::function<Result<bool>()> &areGuardsFinite);
  /// What of the running part has not run, as far as it is known.
  std::string unfinished() const;

private:
  enum class Part { Before, Committing, Held }; ///< Held: the rest of a step that may not commit
  struct Recorded {
    int32_t graph = -1; ///< -1: nothing of it runs
    int32_t perMark = 1;
    /// Of the step's instructions, in the order in which they were issued.
    std::array<std::vector<int32_t>, artifact::kQueueCount> places;
    std::array<Token, artifact::kQueueCount> last{}; ///< while it is recorded
  };

  const SharedProgram &shared;
  const SharedProgram::Order &order;
  Capture &capture;
  Device &device;
  Issue issue;
  bool hasGuards = false;
  std::map<StepKind, int> runs;
  std::map<std::pair<StepKind, Part>, Recorded> recorded;
  StepKind kind = StepKind::Whole;
  Part part = Part::Before;
  const Recorded *running = nullptr;
  Token token = 0;

  Status begin();
  Result<Recorded> record();
  Result<int32_t> recordGraph(Recorded &made);
  Status recordInstructions(Recorded &made);
  bool isActive(const artifact::Instruction &instruction, bool isBefore) const;
};

} // namespace autopar::runtime
