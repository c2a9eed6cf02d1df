// SPDX-License-Identifier: Apache-2.0
// A chain or graph of operations of a profile database: what is planned where there is no model
// file. docs/ProfileDatabase.md is the format.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "autopar/Base/Status.h"
#include "autopar/Cost/ProfileDatabase.h"

namespace autopar {

struct OperatorNode {
  std::string id;
  const ProfiledOperation *operation = nullptr; ///< of the database
  std::vector<int64_t> inputs;                  ///< values
};

/// What an operation gives, or a step is fed.
struct OperatorValue {
  std::string name;
  int64_t node = -1; ///< that gives it; -1: fed
  int64_t bytesPerSample = 0;
  bool isLoss = false;
};

struct OperatorGraph {
  std::string name;
  int64_t batch = 1; ///< samples of a step
  std::vector<OperatorValue> values;
  std::vector<OperatorNode> nodes; ///< in an order in which they can run
  std::vector<int64_t> results;    ///< values that nothing reads

  /// `database` must outlive the graph.
  static Result<OperatorGraph> fromJson(std::string_view text, const ProfileDatabase &database);
  static Result<OperatorGraph> load(const std::string &path, const ProfileDatabase &database);
};

} // namespace autopar
