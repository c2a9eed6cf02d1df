// SPDX-License-Identifier: Apache-2.0
// A plan in degrees, the form in which users of Megatron and its relatives write theirs:
// {"kind": "degrees", "version": 1, "data": 8, "tensor": 8, "pipeline": 16, "micro_batch": 1,
// "schedule": "1f1b"}. It says how many ranks share what; the search fills in the rest.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "autopar/Base/Status.h"
#include "autopar/Plan/Constraints.h"

namespace autopar {

struct Degrees {
  int64_t data = 1;    ///< groups of ranks that each have a part of the batch
  int64_t experts = 1; ///< ranks that share the experts of a mixture: of data, or data and tensor
  int64_t context = 1; ///< ranks that each have a part of the positions of every sample
  int64_t tensor = 1;  ///< ranks that share every matrix product
  /// Of these, how many share each expert: 0 for all, or 1 where they are among `experts`.
  int64_t expertTensor = 0;
  int64_t pipeline = 1;   ///< groups of ranks that each have some of the layers
  int64_t microBatch = 0; ///< samples of a group in one micro-batch; 0: all that it has
  int64_t virtualStages = 1;
  std::string schedule = "1f1b";
  bool sequence = false; ///< positions are split over the tensor ranks where nothing else is
  /// 1: optimizer state is split over the data and context ranks, 2: gradients, 3: parameters.
  int64_t zero = 0;
  std::string recompute; ///< none, full or auto; empty: not said
  std::string source;    ///< file, for messages

  /// Whether a file is of this kind.
  static Result<bool> isIn(const std::string &path);
  static Result<Degrees> fromJson(std::string_view text);
  static Result<Degrees> load(const std::string &path);

  /// Whether ranks of tensor are among those that share the experts.
  bool foldsTensor() const { return expertTensor == 1 && tensor > 1; }
  /// How many of the data ranks share the experts.
  int64_t expertsOfData() const { return foldsTensor() ? experts / tensor : experts; }
  /// BadInput unless the degrees multiply to `ranks`.
  Status checkRanks(int64_t ranks) const;
  /// What they demand of a step over `batch` samples; BadInput where the batch cannot be shared so.
  Result<Constraints> constraints(int64_t batch) const;
};

} // namespace autopar
