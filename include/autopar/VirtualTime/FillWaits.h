// SPDX-License-Identifier: Apache-2.0
// While a kernel waits for a collective, those run that stood before the collective and that nobody
// waits for yet, products of weights' gradients above all. Megatron starts the reduction of one
// product of a layer before the other (Shoeybi et al., 2019); here any kernel may be the one that
// is put off, of another layer, micro-batch or stage too.
//
// A kernel is moved only from before the collective that another waits for to where that waits, so
// none starts later than it did but the moved one, and the order of what other ranks take part in
// stays.
#pragma once

#include <cstdint>
#include <vector>

namespace autopar {

/// One part in so many of the memory may be spent so that nothing waits for messages.
constexpr int64_t kWorthOfWaiting = 32;

/// What runs on a queue of a rank, behind others.
struct QueuedTask {
  static constexpr int32_t kCompute = 0; ///< the queue of kernels
  /// That of collectives. They start behind all kernels before them: they write where those read.
  static constexpr int32_t kCommunication = 1;
  static constexpr int32_t kNone = -1; ///< of what waits for nobody but `before`

  int32_t queue = kCompute; ///< tasks of a queue run in order
  double us = 0;
  std::vector<int32_t> before; ///< whom it depends on: indices of earlier ones, each once
  int64_t keptBytes = 0;       ///< that nobody reads behind it
  bool mayMove = true;
};

struct FilledWaits {
  std::vector<int32_t> order; ///< of the tasks
  double savedUs = 0;         ///< what the last one ends earlier
};

/// Fills what the compute queue waits, the longest waits first; operands that live longer for it
/// take no more than `mostBytes`.
FilledWaits fillWaits(const std::vector<QueuedTask> &tasks, int64_t mostBytes);

} // namespace autopar
