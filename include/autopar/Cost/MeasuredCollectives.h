// SPDX-License-Identifier: Apache-2.0
// Times of collectives that somebody measured, for where the formulas of the cost model are not
// believed.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "autopar/Base/Status.h"

namespace autopar {

enum class CollectiveKind : uint8_t;

/// Times of one kind among `ranksPerNode` ranks on each of `nodes` nodes.
struct MeasuredCollective {
  CollectiveKind kind{};
  int64_t ranksPerNode = 1, nodes = 1;
  std::vector<std::pair<double, double>> times; ///< bytes, microseconds; both ascending

  /// A straight line between neighbours; below the smallest size its time, beyond the largest one
  /// in proportion to the bytes.
  double timeUs(double bytes) const;
  bool operator==(const MeasuredCollective &) const = default;
};

/// The list at `place` of a file.
Result<std::vector<MeasuredCollective>> readMeasuredCollectives(const nlohmann::json &list,
                                                                const std::string &place);
nlohmann::ordered_json toJson(const std::vector<MeasuredCollective> &collectives);

} // namespace autopar
