// SPDX-License-Identifier: Apache-2.0
// What the operations of a module take, as far as somebody asked. Passes that time all of them one
// after the other, and only move them, hand it on as an analysis.
#pragma once

#include "KernelTime.h"

#include "autopar/Transforms/Target.h"

#include <tuple>

namespace mlir::autopar {

class KnownTimes {
public:
  explicit KnownTimes(Operation *module) {}

  /// Those on one mesh of a cluster (a description, else the module's).
  KernelTime::Known &of(StringRef cluster, Target target, size_t mesh) {
    return times[{cluster.str(), target, mesh}];
  }
  /// After operations were made or erased.
  void forget() { times.clear(); }

private:
  std::map<std::tuple<std::string, Target, size_t>, KernelTime::Known> times;
};

} // namespace mlir::autopar
