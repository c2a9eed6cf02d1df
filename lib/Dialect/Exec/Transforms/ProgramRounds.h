// SPDX-License-Identifier: Apache-2.0
// What a program's step repeats: the entry that several rows of the timetable run.
#pragma once

#include "autopar/Dialect/Exec/IR/Exec.h"

namespace mlir::exec {

class ProgramRounds {
public:
  explicit ProgramRounds(ProgramOp program);

  /// Entries of the timetable in order, the one that is run several times twice: the second time
  /// stands for all behind it.
  ArrayRef<EntryOp> order() const { return entries; }
  /// The entry that is run several times; null where there is none.
  EntryOp repeated() const { return round; }
  ArrayRef<HandOnOp> handOns() const { return handedOn; }
  /// One buffer for all those of which each is handed on to another.
  Operation *placeOf(Operation *buffer) const {
    auto found = places.find(buffer);
    return found == places.end() ? buffer : found->second;
  }

private:
  SmallVector<EntryOp> entries;
  mutable EntryOp round; ///< a handle
  SmallVector<HandOnOp> handedOn;
  DenseMap<Operation *, Operation *> places;
};

} // namespace mlir::exec
