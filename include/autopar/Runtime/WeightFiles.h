// SPDX-License-Identifier: Apache-2.0
// Weights in safetensors files: one, or several with an index (Hugging Face).
#pragma once

#include "autopar/Runtime/SafetensorsFile.h"

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace autopar::runtime {

class MappedFile;

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
  /// In order.
  std::vector<std::string> names() const;

  std::string path;    ///< as it was given
  std::string version; ///< of the files: another once one of them is written anew

private:
  std::vector<std::shared_ptr<const MappedFile>> files;
  std::map<std::string, Tensor> tensors;

  Status add(const std::string &file, const std::function<bool(const std::string &)> &isWanted);
};

} // namespace autopar::runtime
