// SPDX-License-Identifier: Apache-2.0
// Which NCCL communicators a rank takes part in: one for every group, and for every pair and
// direction as many as their messages need. NCCL has no tags and matches messages by their order;
// those that are sent in another order than they are received in have communicators of their own.
// Both sides find out from the programs of both.
#pragma once

#include "autopar/Artifact/Program.h"
#include "autopar/Base/Status.h"

#include <array>
#include <compare>
#include <functional>
#include <map>
#include <vector>

namespace autopar::runtime {

/// A communicator by what it is for. Ranks that have several in common create them in their order.
struct NcclUse {
  enum class Kind { Group, Messages, Moves }; ///< moves are those of permutations
  Kind kind = Kind::Group;
  std::vector<int32_t> members; ///< in NCCL's order; of a pair: sender, receiver
  int32_t number = 0;           ///< of the communicators of a pair

  auto operator<=>(const NcclUse &) const = default;
};

struct NcclPlan {
  std::vector<NcclUse> uses; ///< sorted
  /// The number of the communicator that carries a message, by sender, receiver and tag.
  std::map<std::array<int32_t, 3>, int32_t> numbers;
  int64_t scratchBytes = 0; ///< for all-to-all in place
};

struct RankProgram {
  const artifact::Program *program = nullptr;
  const artifact::RankTable *table = nullptr;
};
/// The program of any rank of the world.
using ProgramOfRank = std::function<RankProgram(int32_t rank)>;

/// BadInput or Mismatch names the instructions that NCCL cannot run as they are.
Result<NcclPlan> planNccl(const ProgramOfRank &programs, int32_t rank);

/// Whether a step of the program communicates at all.
bool communicates(const artifact::Program &program);
/// Whether it does by messages from one rank to another, those of permutations included.
bool sendsMessages(const artifact::Program &program);

} // namespace autopar::runtime
