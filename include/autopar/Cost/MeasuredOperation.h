// SPDX-License-Identifier: Apache-2.0
// Times of what a device executes, measured on a grid of sizes and interpolated between them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "autopar/Base/Status.h"

namespace autopar {

/// A profile key, "class:3x4": what is done and how large it is.
struct ProfileKey {
  std::string_view kind;
  std::vector<double> extents;

  /// Nothing where the text has another form.
  static std::optional<ProfileKey> parse(std::string_view text);
};

/// One extent that times depend on.
struct MeasuredExtent {
  std::string name;
  std::vector<double> values; ///< that were measured, ascending, above 0
  /// Beyond the largest value the time grows in proportion, up to so many times it.
  double reach = 1;
  bool operator==(const MeasuredExtent &) const = default;
};

/// Times of one class.
struct MeasuredOperation {
  std::string kind;
  std::vector<MeasuredExtent> extents;
  std::vector<double> us; ///< by extents, the last one fastest; never falling along any of them

  /// Linear in every extent between the points: exact for a time that is a sum of products of
  /// extents, as a product's overhead, bytes and FLOPs are. Below the smallest value of an extent
  /// holds the time of that. Nothing beyond the reach.
  std::optional<double> timeUs(const std::vector<double> &at) const;
  /// Raises what is below the time of something smaller.
  void makeMonotone();
  bool operator==(const MeasuredOperation &) const = default;
};

/// What a device took, for whole programs.
struct MeasuredOperations {
  std::vector<MeasuredOperation> list;
  /// What nobody measured takes what the formula says; without this it is refused.
  bool estimatesOthers = false;

  /// Nothing where it is to be estimated. An error names the key and what would help.
  Result<std::optional<double>> timeUs(std::string_view key) const;
  const MeasuredOperation *find(std::string_view kind) const;
  bool operator==(const MeasuredOperations &) const = default;
};

/// The list at `place` of a file.
Result<std::vector<MeasuredOperation>> readMeasuredOperations(const nlohmann::json &list,
                                                              const std::string &place);
nlohmann::ordered_json toJson(const std::vector<MeasuredOperation> &operations);

} // namespace autopar
