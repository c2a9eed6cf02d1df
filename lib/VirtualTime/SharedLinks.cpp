// SPDX-License-Identifier: Apache-2.0
// A flow's rate changes only when another begins or ends at one of its ports. Its end is then put
// on the agenda again; the old entry is recognized when its time comes.
#include "autopar/VirtualTime/SharedLinks.h"

#include <algorithm>
#include <limits>

namespace autopar {

/// The rate of a flow whose ports have got more or fewer flows.
void SharedLinks::adjust(double now, int32_t number) {
  Flow &flow = flows[static_cast<size_t>(number)];
  double most = 1;
  for (const Use &use : flow.path)
    most = std::max(most, ports[static_cast<size_t>(use.port)].flows);
  if (1 / most == flow.rate)
    return;
  flow.rest = std::max(0.0, flow.rest - flow.rate * (now - flow.since));
  flow.since = now;
  flow.rate = 1 / most;
  flow.end = now + flow.rest * most;
  ends.push({flow.end, number});
}

int32_t SharedLinks::begin(double now, double alone, const Path &path) {
  if (unused.empty()) {
    unused.push_back(static_cast<int32_t>(flows.size()));
    flows.emplace_back();
  }
  int32_t number = unused.back();
  unused.pop_back();
  flows[static_cast<size_t>(number)] = {path, alone, now, 0, now, true};
  for (const Use &use : path) {
    Port &port = ports[static_cast<size_t>(use.port)];
    port.flows += use.flows;
    port.list.push_back(number);
  }
  for (const Use &use : path)
    for (int32_t other : ports[static_cast<size_t>(use.port)].list)
      adjust(now, other);
  return number;
}

void SharedLinks::leave(double now, int32_t number) {
  Flow &flow = flows[static_cast<size_t>(number)];
  flow.isUnderWay = false;
  unused.push_back(number);
  for (const Use &use : flow.path) {
    Port &port = ports[static_cast<size_t>(use.port)];
    std::erase(port.list, number);
    // Sums of fractions would not come back to nothing.
    port.flows = port.list.empty() ? 0 : port.flows - use.flows;
  }
  for (const Use &use : flow.path)
    for (int32_t other : ports[static_cast<size_t>(use.port)].list)
      adjust(now, other);
}

bool SharedLinks::isStale(const End &end) const {
  const Flow &flow = flows[static_cast<size_t>(end.flow)];
  return !flow.isUnderWay || flow.end != end.at;
}

double SharedLinks::nextEnd() {
  while (!ends.empty() && isStale(ends.top()))
    ends.pop();
  return ends.empty() ? std::numeric_limits<double>::infinity() : ends.top().at;
}

const std::vector<int32_t> &SharedLinks::finish(double now) {
  ended.clear();
  for (double end = nextEnd(); end <= now; end = nextEnd()) {
    int32_t number = ends.top().flow;
    ends.pop();
    leave(end, number);
    ended.push_back(number);
  }
  return ended;
}

} // namespace autopar
