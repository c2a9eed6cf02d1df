// SPDX-License-Identifier: Apache-2.0
#include "autopar/VirtualTime/VirtualClock.h"

#include <algorithm>
#include <cmath>

namespace autopar {

int64_t virtualNs(double us) { return std::llround(std::min(us * 1e3, double(kHorizonNs))); }

void VirtualClock::wake(int64_t atNs, int32_t sleeper) {
  if (last.first != atNs) {
    if (emptyRooms.empty()) {
      emptyRooms.push_back(rooms.size());
      rooms.emplace_back();
    }
    last = {atNs, emptyRooms.back()};
    emptyRooms.pop_back();
    agenda.push(last);
  }
  rooms[last.second].push_back(sleeper);
}

bool VirtualClock::advance(std::vector<int32_t> &awake) {
  awake.clear();
  if (agenda.empty())
    return false;
  now = agenda.top().first;
  for (; !agenda.empty() && agenda.top().first == now; agenda.pop()) {
    std::vector<int32_t> &room = rooms[agenda.top().second];
    awake.insert(awake.end(), room.begin(), room.end());
    room.clear();
    emptyRooms.push_back(agenda.top().second);
  }
  last = {-1, 0};
  if (!std::is_sorted(awake.begin(), awake.end()))
    std::sort(awake.begin(), awake.end());
  awake.erase(std::unique(awake.begin(), awake.end()), awake.end());
  return true;
}

} // namespace autopar
