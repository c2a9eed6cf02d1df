// SPDX-License-Identifier: Apache-2.0
// Weighted least squares with two unknowns, latency and 1 / bandwidth. The coefficients come from
// the cost model itself, so that the fit is one of the very formulas that plans are made with.
#include "autopar/Cost/LinkFit.h"

#include <cmath>
#include <limits>
#include <string>

namespace autopar {
namespace {

/// a * latencyUs + b / bytesPerSecond = 1, the equation of a time divided by that time.
struct Equation {
  double a = 0, b = 0;
};

Result<Equation> equationOf(const TimedCollective &timed) {
  std::string what = std::string(name(timed.kind)) + " of " + std::to_string(int64_t(timed.bytes)) +
                     " bytes among " + std::to_string(timed.ranks) + " ranks";
  if (timed.kind == CollectiveKind::AllToAll || timed.kind == CollectiveKind::Broadcast)
    return Status::badInput(what + " is the cheaper of two ways; fit all_reduce, all_gather, "
                                   "reduce_scatter or permute");
  if (!std::isfinite(timed.us) || timed.us <= 0)
    return Status::badInput(what + " took " + std::to_string(timed.us) + " us, expected above 0");
  if (timed.ranks < 2 || timed.bytes < 0)
    return Status::badInput(what + ": expected at least 2 ranks and 0 bytes");
  double steps = predictedUs(timed, {1, std::numeric_limits<double>::infinity()});
  double perInverse = predictedUs(timed, {0, 1});
  return Equation{steps / timed.us, perInverse / timed.us};
}

} // namespace

double predictedUs(const TimedCollective &timed, const Link &link) {
  return collectiveTimeUs(timed.kind, timed.bytes, {{timed.ranks}, {link}, {}});
}

Result<LinkFit> fitLink(std::span<const TimedCollective> timed) {
  double aa = 0, ab = 0, bb = 0, a = 0, b = 0;
  for (const TimedCollective &one : timed) {
    Result<Equation> e = equationOf(one);
    if (!e)
      return e.status();
    aa += e->a * e->a;
    ab += e->a * e->b;
    bb += e->b * e->b;
    a += e->a;
    b += e->b;
  }
  double determinant = aa * bb - ab * ab;
  if (!(determinant > 1e-9 * aa * bb))
    return Status::badInput("the sizes do not tell latency from bandwidth; time at least two that "
                            "differ");
  double latency = (a * bb - b * ab) / determinant, inverse = (aa * b - ab * a) / determinant;
  if (latency < 0) {
    latency = 0;
    inverse = b / bb;
  }
  if (!(inverse > 0))
    return Status::badInput("the times do not grow with the bytes");
  LinkFit fit;
  fit.link = {latency, 1 / inverse};
  for (const TimedCollective &one : timed)
    fit.meanError += std::abs(predictedUs(one, fit.link) / one.us - 1) / double(timed.size());
  return fit;
}

} // namespace autopar
