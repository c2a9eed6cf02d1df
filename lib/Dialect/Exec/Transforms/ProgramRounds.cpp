// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "ProgramRounds.h"

#include "llvm/ADT/EquivalenceClasses.h"

using namespace mlir;
using namespace mlir::exec;

ProgramRounds::ProgramRounds(ProgramOp program) : handedOn(program.getOps<HandOnOp>()) {
  for (auto timetable : program.getOps<TimetableOp>())
    for (Attribute name : timetable.getEntries()) {
      if (round && name == FlatSymbolRefAttr::get(round.getSymNameAttr()))
        continue;
      auto entry = cast<EntryOp>(program.lookupSymbol(cast<FlatSymbolRefAttr>(name)));
      if (!entries.empty() && entries.back() == entry)
        round = entry;
      entries.push_back(entry);
    }
  llvm::EquivalenceClasses<Operation *> classes;
  for (HandOnOp op : handedOn)
    classes.unionSets(op.getTo().getDefiningOp(), op.getFrom().getDefiningOp());
  for (const auto *entry : classes)
    places[entry->getData()] = classes.getLeaderValue(entry->getData());
}
