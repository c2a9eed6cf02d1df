// SPDX-License-Identifier: Apache-2.0
// Weights in safetensors files: one, or several with an index (Hugging Face).
#pragma once

#include "../checkpoint/SafetensorsFile.h"
#include "../data/MappedFile.h"

#include <map>
#include <memory>
#include <string>

namespace autopar::runtime {

class WeightFiles {
public:
  /// Whether a text means such files: it ends in .safetensors or .json.
  static bool isMeant(const std::string &path);
  static Result<std::shared_ptr<const WeightFiles>> open(const std::string &path);

  struct Tensor {
    SafetensorsEntry entry;
    const uint8_t *data = nullptr;
  };
  /// Null where there is none of that name.
  const Tensor *find(const std::string &name) const;
  /// "weights.safetensors has 148 tensors: a, b, c, ..."
  std::string describe() const;

private:
  std::string path;
  std::vector<std::shared_ptr<const MappedFile>> files;
  std::map<std::string, Tensor> tensors;

  Status add(const std::string &file);
};

} // namespace autopar::runtime
