// SPDX-License-Identifier: Apache-2.0
#include "RankTurns.h"

namespace autopar::runtime {

RankTurns::RankTurns(int32_t ranks, int32_t workers) {
  for (int32_t rank = workers; rank < ranks; ++rank)
    queue.push_back({rank, false});
}

RankTurns::Turn RankTurns::next(const Turn &waiting) {
  std::lock_guard lock(mutex);
  queue.push_back(waiting);
  Turn turn = queue.front();
  queue.pop_front();
  return turn;
}

RankTurns::Turn RankTurns::nextAfterEnd() {
  std::lock_guard lock(mutex);
  if (queue.empty())
    return {};
  Turn turn = queue.front();
  queue.pop_front();
  return turn;
}

int32_t RankTurns::waiting() const {
  std::lock_guard lock(mutex);
  return int32_t(queue.size());
}

} // namespace autopar::runtime
