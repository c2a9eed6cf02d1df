// SPDX-License-Identifier: Apache-2.0
// Where parameters come from: files by reference with digests, or copied; constants by value.
#pragma once

#include "autopar/Artifact/Program.h"
#include "autopar/Base/OutputFile.h"
#include "autopar/Base/Status.h"
#include "autopar/Dialect/Exec/IR/Exec.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/MemoryBuffer.h"

#include <map>
#include <tuple>

namespace mlir::autopar {

/// Maps weight files once and digests ranges of them; collects constants.
class WeightSources {
public:
  /// For an artifact that will stand in `folder`. With a path as `copy`, in that folder too, the
  /// bytes go there, each range once.
  WeightSources(std::string folder, std::string copy)
      : folder(std::move(folder)), copyPath(std::move(copy)) {}

  /// The source of a parameter port.
  ::autopar::Result<::autopar::artifact::Source> sourceOf(exec::PortOp port);
  /// The bytes of the constants section.
  std::vector<uint8_t> takeConstants() { return std::move(constants); }
  /// The copy is complete, under its name.
  ::autopar::Status finish();

private:
  ::autopar::Result<::autopar::artifact::Source> fileSource(exec::PortOp port);
  ::autopar::Result<::autopar::artifact::Source> constantSource(exec::PortOp port);

  ::autopar::Result<int64_t> copied(StringRef path, int64_t offset, StringRef bytes);

  std::string folder, copyPath;
  std::unique_ptr<::autopar::OutputFile> copy;
  int64_t copiedBytes = 0;
  std::map<std::tuple<std::string, int64_t, int64_t>, int64_t> places; ///< of ranges, in the copy
  llvm::StringMap<std::unique_ptr<llvm::MemoryBuffer>> files;
  std::vector<uint8_t> constants;
};

} // namespace mlir::autopar
