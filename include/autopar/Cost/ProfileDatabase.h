// SPDX-License-Identifier: Apache-2.0
// Operations that somebody measured elsewhere: time, bytes and memory by local batch, degree and
// the dimension that is split, and times of collectives. docs/ProfileDatabase.md is the format.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "autopar/Base/DataType.h"
#include "autopar/Base/Status.h"
#include "autopar/Cost/MeasuredCollectives.h"
#include "autopar/Cost/MeasuredOperation.h"

namespace autopar {

/// How a value lies on the ranks that share an operation: a dimension's index, or one of these.
inline constexpr int64_t kWhole = -1;   ///< on each rank
inline constexpr int64_t kPartial = -2; ///< as a sum that is still to be completed

/// One way to share an operation among `degree` ranks.
struct ProfileChoice {
  std::string name;
  std::vector<int64_t> inputs, outputs; ///< a dimension of the database, kWhole or kPartial
  bool splitsWeight = true;
  /// Times hold the collectives that complete results; otherwise they are planned and costed apart.
  bool collectivesIncluded = false;
  std::vector<int64_t> degrees; ///< above 1, ascending
};

/// One measurement. Sizes are those of one rank.
struct ProfileRow {
  int64_t batch = 1, degree = 1;
  int64_t choice = -1; ///< -1: of degree 1
  double forwardUs = 0;
  double backwardUs = 0;       ///< all of it
  double weightGradientUs = 0; ///< of which for the gradient of the weight alone
  std::vector<int64_t> bytesIn, bytesOut;
  int64_t weightBytes = 0;
  int64_t savedBytes = 0; ///< from the forward pass to the backward pass
  int64_t workspaceBytes = 0, backwardWorkspaceBytes = 0;
};

struct ProfiledOperation {
  std::string key;
  bool givesLoss = false; ///< its one output is the loss
  std::vector<ProfileChoice> choices;
  /// One for each batch, degree and choice of the grid, in this order.
  std::vector<ProfileRow> rows;
  /// Of one sample and all ranks together; the loss has none.
  std::vector<int64_t> inputBytes, outputBytes;
  int64_t weightBytes = 0; ///< of all ranks together

  /// Nothing where nobody measured that.
  const ProfileRow *find(int64_t batch, int64_t degree, int64_t choice) const;
};

/// What fills a hole.
enum class ProfileFallback : uint8_t {
  None,        ///< nothing: the file is refused
  Interpolate, ///< for rows: a straight line between the next smaller and larger batch; for
               ///< collectives: the formulas of the cost model
  Analytical,  ///< for instructions of models, and collectives: the formulas
};

struct ProfileDatabase {
  std::string device; ///< in words
  DataType dataType = DataType::F32, weightType = DataType::F32;
  std::vector<int64_t> batches, degrees; ///< ascending
  std::vector<std::string> dimensions;
  std::vector<ProfiledOperation> operations;
  std::vector<MeasuredCollective> collectives;
  std::vector<MeasuredOperation> instructions; ///< of models, by profile key

  const ProfiledOperation *find(std::string_view key) const;
  /// The least number that all degrees divide.
  int64_t commonDegree() const;

  static Result<ProfileDatabase> fromJson(std::string_view text, ProfileFallback fallback);
  static Result<ProfileDatabase> load(const std::string &path, ProfileFallback fallback);
};

struct Cluster;
/// Believes what was measured: times of collectives, and of instructions on every device type.
/// Without a fallback all collectives that a mesh can need must be there.
Status believeProfile(Cluster &cluster, const ProfileDatabase &database, ProfileFallback fallback);

} // namespace autopar
