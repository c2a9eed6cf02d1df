// SPDX-License-Identifier: Apache-2.0
// Links that messages share while they are under way at the same time, as flows share the two
// directions of a network card. The planner's evaluator and the simulated network both ask it when
// messages end.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <queue>
#include <vector>

namespace autopar {

/// Ports are numbered from 0; each is one direction of one device's link. A port divides its
/// bandwidth equally among its flows, a flow goes as fast as the slower of its two ports lets it.
/// What a port could do besides, because flows of it are slow elsewhere, is not given to others.
/// Times are in any unit, the same throughout, and never go back.
class SharedLinks {
public:
  /// How a flow, or several that are alike and known as one, uses a port: so many of them.
  struct Use {
    int32_t port = 0;
    double flows = 1;
  };
  using Path = std::array<Use, 2>; ///< out of the sender, into the receiver

  explicit SharedLinks(size_t ports) : ports(ports) {}

  /// A flow that takes `alone` where it has both ports for itself. Gives its number, which is free
  /// again once the flow has ended.
  int32_t begin(double now, double alone, const Path &path);
  /// When the next flow ends unless others begin before; infinite where there is none.
  double nextEnd();
  /// The flows that have ended by `now`, in the order in which they did.
  const std::vector<int32_t> &finish(double now);

private:
  struct Flow {
    Path path;
    double rest = 0; ///< of `alone`, at `since`
    double since = 0, rate = 0, end = 0;
    bool isUnderWay = false;
  };
  struct Port {
    double flows = 0;
    std::vector<int32_t> list; ///< of those under way
  };
  struct End {
    double at;
    int32_t flow;
    bool operator>(const End &other) const {
      return at > other.at || (at == other.at && flow > other.flow);
    }
  };

  void adjust(double now, int32_t number);
  void leave(double now, int32_t number);
  /// Of an end that is no more true.
  bool isStale(const End &end) const;

  std::vector<Port> ports;
  std::vector<Flow> flows;
  std::vector<int32_t> unused, ended;
  std::priority_queue<End, std::vector<End>, std::greater<>> ends;
};

/// The port of a place (a device, or the devices of a mesh) at a link level.
inline int32_t linkPort(int64_t place, int64_t level, int64_t levels, bool isOut) {
  return static_cast<int32_t>(2 * (place * levels + level) + (isOut ? 0 : 1));
}

} // namespace autopar
