// SPDX-License-Identifier: Apache-2.0
// How many bytes of device memory a program needs at each instruction, before buffers have places:
// what may live longer without more memory being needed at the peak.
#pragma once

#include "autopar/Dialect/Exec/IR/Exec.h"
#include "llvm/ADT/DenseMap.h"
#include <vector>

namespace mlir::autopar {

class LiveBytes {
public:
  explicit LiveBytes(exec::ProgramOp program);

  /// The number of an entry's first instruction among those of all entries.
  int64_t beginOf(exec::EntryOp entry) const { return begins.lookup(entry); }
  /// Lets buffers be touched at `time` too. Returns false, and lets nothing be, where that took
  /// more bytes than what is needed at the peak now.
  bool extend(ValueRange buffers, int64_t time);

private:
  struct Life {
    int64_t first, last, bytes;
  };
  bool add(int64_t begin, int64_t end, int64_t bytes);

  llvm::DenseMap<Operation *, int64_t> begins;
  llvm::DenseMap<Operation *, Life> lives; ///< of buffers that come and go within a step
  std::vector<int64_t> live;
  int64_t peak = 0;
};

} // namespace mlir::autopar
