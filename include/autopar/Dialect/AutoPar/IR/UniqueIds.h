// SPDX-License-Identifier: Apache-2.0
// Names for operations that passes add to a function.
#pragma once

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"

#include "llvm/ADT/StringSet.h"

namespace mlir::autopar {

class UniqueIds {
public:
  /// Beside those that the operations of a block have.
  explicit UniqueIds(Block &block) {
    for (Operation &op : block)
      taken.insert(getOpId(&op));
  }

  /// Names an operation `wanted`, or that with the first number behind it that is free.
  void name(Operation *op, const Twine &wanted) {
    std::string id = wanted.str();
    for (int count = 1; !taken.insert(id).second; ++count)
      id = (wanted + "." + Twine(count)).str();
    setOpId(op, id);
  }

private:
  llvm::StringSet<> taken;
};

} // namespace mlir::autopar
