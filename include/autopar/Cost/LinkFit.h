// SPDX-License-Identifier: Apache-2.0
// From measured times of collectives to the latency and bandwidth that the cost model takes.
#pragma once

#include <cstdint>
#include <span>

#include "autopar/Base/Status.h"
#include "autopar/Cost/Cluster.h"
#include "autopar/Cost/CostModel.h"

namespace autopar {

/// How long a collective took among `ranks` ranks on one link level; `bytes` as for
/// collectiveTimeUs().
struct TimedCollective {
  CollectiveKind kind = CollectiveKind::AllReduce;
  double bytes = 0;
  int64_t ranks = 2;
  double us = 0;
};

struct LinkFit {
  Link link;
  double meanError = 0; ///< of |predicted / measured - 1|
};

/// The time of one collective over one link.
double predictedUs(const TimedCollective &timed, const Link &link);

/// The link whose predicted times have the least sum of squared relative errors, so that small and
/// large sizes count alike. BadInput where a time is not above 0, a kind is not linear in latency
/// and 1 / bandwidth (all-to-all, broadcast), sizes do not tell the two apart, or times do not grow
/// with the bytes.
Result<LinkFit> fitLink(std::span<const TimedCollective> timed);

} // namespace autopar
