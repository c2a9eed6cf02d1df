// SPDX-License-Identifier: Apache-2.0
#include "autopar/VirtualTime/VirtualClock.h"

namespace autopar {

bool VirtualClock::advance(std::vector<int32_t> &awake) {
  awake.clear();
  if (agenda.empty())
    return false;
  now = agenda.top().first;
  for (; !agenda.empty() && agenda.top().first == now; agenda.pop())
    if (awake.empty() || awake.back() != agenda.top().second)
      awake.push_back(agenda.top().second);
  return true;
}

} // namespace autopar
