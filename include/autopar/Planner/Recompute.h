// SPDX-License-Identifier: Apache-2.0
// Which operations of the forward pass are computed again in the backward pass, or fetched from
// host memory for it, so that what they give need not be kept. Plain structs: the program in order,
// who reads what, a limit.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "autopar/Base/Status.h"
#include "autopar/Cost/Cluster.h"

namespace autopar {

/// One instruction of the program.
struct RecomputeOp {
  static constexpr int32_t kBefore = -1, kAfter = std::numeric_limits<int32_t>::max();

  std::string id;
  int32_t row = kBefore; ///< of RecomputeProblem::order; or once, before or after all rows
  double timeUs = 0;     ///< of computing it again, in a whole step
  std::vector<int32_t> reads, writes;
  int64_t scratchBytes = 0; ///< while it runs
  bool isBackward = false;
  bool mayRecompute = false; ///< only of the forward pass
  /// Its second run is a fetch from host memory: it reads nothing, and `timeUs` is what the copies
  /// take of the device's memory.
  bool waitsOnHost = false;
};

/// What an operation writes, in every micro-batch anew if it is of a row. A sum over micro-batches
/// is a value that is held to the end, beside one of as many bytes that is held from the start and
/// read where the sum is written.
struct RecomputeValue {
  int64_t bytes = 0;
  bool fromStart = false, toEnd = false; ///< held before it is written, after it was last read
};

struct RecomputeProblem {
  std::vector<RecomputeOp> ops; ///< in the order in which they run for the first micro-batch
  /// The schedule: rows, each once per micro-batch, micro-batches of a row in order. Empty where
  /// everything runs once.
  std::vector<int32_t> order;
  std::vector<RecomputeValue> values;
  /// Operations that a person would compute again together: where a choice may start from.
  std::vector<std::vector<int32_t>> layers;
  int64_t constantBytes = 0;
  int64_t hostBytes = 0; ///< that lie in host memory all the time
  int64_t memoryLimitBytes = 0;
  double sharedUs = 0; ///< what a step saves once anything is computed again, whatever that is

  /// Ranges, signs, order; names the operation.
  Status verify() const;
};

/// What a choice costs: the only judge of solutions.
struct RecomputeUse {
  double timeUs = 0; ///< of what is computed again
  int64_t peakBytes = 0;
  int32_t peakAt = 0; ///< the operation at whose place the peak is
  std::vector<int64_t>
      bytesAt; ///< by operation: the most at its place, second runs before it included
  std::vector<int32_t> again;   ///< what is really computed again
  std::vector<int32_t> runsFor; ///< by operation: the one before which it runs again; -1: never
};

/// Runs the program in mind, every row of the schedule. An operation of the backward pass that
/// reads a value of a chosen one has that computed again right before, with everything chosen that
/// this reads in turn; the result serves later readers too.
RecomputeUse useOf(const RecomputeProblem &problem, const std::vector<char> &chosen);

/// What is best computed again where keeping a byte from the forward to the backward pass costs
/// `usPerByte`, by operation; a byte of each micro-batch that waits for it. What a choice holds
/// while it runs again does not count.
std::vector<char> cheapestAt(const RecomputeProblem &problem, double usPerByte);

/// Lets operations wait on the host, of which no copy keeps what computes waiting: each value is
/// stored before the second behind it is begun. Those are taken first whose bytes would be dearest
/// to compute again; what is cheaper to compute again than to copy is left. At most `hostBytes`
/// wait at once.
void letWaitOnHost(RecomputeProblem &problem, const DeviceType &device, int64_t hostBytes);

struct RecomputeSolution {
  std::vector<int32_t> recomputed; ///< operations, in order
  double timeUs = 0;
  double lowerBoundUs = 0; ///< no choice that fits takes less
  int64_t peakBytes = 0;
  bool isOptimal = false;
};

/// The least time found that fits the limit, with a bound; BadInput where nothing fits.
/// `leanest`, where given, then gets what needs the least memory of all that was looked at.
Result<RecomputeSolution> chooseRecomputation(const RecomputeProblem &problem,
                                              RecomputeSolution *leanest = nullptr);

} // namespace autopar
