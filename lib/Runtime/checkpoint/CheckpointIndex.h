// SPDX-License-Identifier: Apache-2.0
// index.json of a checkpoint: which file holds which box of which tensor, and digests of
// everything.
#pragma once

#include "autopar/Base/Digest.h"
#include "autopar/Runtime/Checkpoint.h"

#include <map>
#include <string>
#include <vector>

namespace autopar::runtime {

/// A box of a tensor as one entry of a safetensors file.
struct CheckpointPiece {
  std::string file, entry;
  Box box;
  int64_t begin = 0; ///< first byte in the file
  Digest digest;     ///< of its bytes
};

struct CheckpointTensor {
  DataType dtype = DataType::F32;
  std::vector<int64_t> shape;
  std::vector<CheckpointPiece> pieces; ///< together they fill the tensor
};

struct CheckpointIndex {
  CheckpointInfo info;
  int64_t skippedSteps = 0; ///< of info.step
  int32_t worldSize = 1;
  std::map<std::string, CheckpointTensor> tensors;
  std::map<std::string, int64_t> fileBytes;

  /// JSON with a digest of itself.
  std::string toJson() const;
  /// BadInput when the text is cut off, changed, or no index of this version.
  static Result<CheckpointIndex> fromJson(const std::string &text);

  /// What one rank wrote, as it travels to rank 0, and the other way.
  static std::string partToJson(const CheckpointIndex &part);
  Status addPart(const std::string &text);

  /// Every file has its size, every piece its digest, and the pieces fill their tensors.
  Status verifyFiles(const std::string &path) const;
};

constexpr const char *kIndexName = "index.json";
/// "step-00000200"
std::string checkpointName(int64_t step);
/// Names of checkpoints in a folder, oldest first. What is being written, or left by a crash, has
/// ".partial" behind its name; other names, such as "step-best", are not the runtime's.
std::vector<std::string> checkpointsIn(const std::string &folder);

} // namespace autopar::runtime
