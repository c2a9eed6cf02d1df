// SPDX-License-Identifier: Apache-2.0
// Where parameters come from: files by reference with digests, constants by value.
#pragma once

#include "autopar/Artifact/Program.h"
#include "autopar/Base/Status.h"
#include "autopar/Dialect/Exec/IR/Exec.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/MemoryBuffer.h"

namespace mlir::autopar {

/// Maps weight files once and digests ranges of them; collects constants.
class WeightSources {
public:
  explicit WeightSources(std::string folder) : folder(std::move(folder)) {}

  /// The source of a parameter port.
  ::autopar::Result<::autopar::artifact::Source> sourceOf(exec::PortOp port);
  /// The bytes of the constants section.
  std::vector<uint8_t> takeConstants() { return std::move(constants); }

private:
  ::autopar::Result<::autopar::artifact::Source> fileSource(exec::PortOp port);
  ::autopar::Result<::autopar::artifact::Source> constantSource(exec::PortOp port);

  std::string folder;
  llvm::StringMap<std::unique_ptr<llvm::MemoryBuffer>> files;
  std::vector<uint8_t> constants;
};

} // namespace mlir::autopar
