// SPDX-License-Identifier: Apache-2.0
// Made-up samples: a function of seed, sample, input and place, the same on any number of ranks.
#pragma once

#include "autopar/Runtime/ParameterStore.h"
#include "autopar/Runtime/Session.h"

namespace autopar::runtime {

class SyntheticData {
public:
  static constexpr int64_t kSamples = int64_t{1} << 30;

  /// Whether a path means this and no file.
  static bool isMeant(const std::string &path);
  /// "synthetic" or "synthetic(vocab=N)".
  static Result<SyntheticData> parse(const std::string &path, uint64_t seed);

  /// That a vocabulary that was asked for is within the limits of the input.
  Status checkVocab(const TensorSpec &input) const;
  /// One row of a box of `input`: near N(0, 1) for floats, 0 or 1 for booleans, [0, vocab) for
  /// integers; without a vocabulary up to the input's limit, or 255.
  void fillRowBox(const TensorSpec &input, int64_t sample, const Box &box, uint8_t *out) const;

private:
  int64_t vocab = 0; ///< 0: not said
  int64_t vocabOf(const TensorSpec &input) const;
  uint64_t seed = 0;
};

} // namespace autopar::runtime
