// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "VaryingDims.h"

#include "autopar/Transforms/VaryingExtents.h"

using namespace mlir;
using namespace mlir::autopar;

ArrayRef<Attribute> mlir::autopar::entriesOf(Attribute list) {
  auto entries = dyn_cast_or_null<ArrayAttr>(list);
  return entries ? entries.getValue() : ArrayRef<Attribute>();
}

int64_t mlir::autopar::numberIn(DictionaryAttr entry, StringRef name, int64_t otherwise) {
  auto number = entry.getAs<IntegerAttr>(name);
  return number ? number.getInt() : otherwise;
}

bool mlir::autopar::hasEntry(Operation *op, StringRef list, int64_t dim, StringAttr extent) {
  return llvm::any_of(entriesOf(op->getAttr(list)), [&](Attribute each) {
    auto entry = cast<DictionaryAttr>(each);
    return numberIn(entry, "dim") == dim && entry.getAs<StringAttr>("extent") == extent;
  });
}

InFlightDiagnostic mlir::autopar::refuseToVary(Operation *op, StringAttr extent) {
  InFlightDiagnostic error = mlir::emitError(op->getLoc());
  error << "'" << extent.getValue() << "' cannot vary: " << op->getName() << " ";
  return error;
}

VaryingDims::VaryingDims(func::FuncOp function) {
  for (BlockArgument argument : function.getArguments())
    for (Attribute each :
         entriesOf(function.getArgAttr(argument.getArgNumber(), kVaryingAttribute))) {
      auto entry = cast<DictionaryAttr>(each);
      int64_t dim = numberIn(entry, "dim"),
              size = cast<RankedTensorType>(argument.getType()).getDimSize(dim);
      auto extent = entry.getAs<StringAttr>("extent");
      int64_t pace = numberIn(entry, "step", 1);
      known[argument].push_back({extent, dim, size, pace});
      steps[extent] = (size - numberIn(entry, "least")) / pace;
    }
}

void VaryingDims::add(Value value, Varying varying) {
  // Groups that are all of a dimension are no groups: its end is that of the last one.
  int64_t all = cast<RankedTensorType>(value.getType()).getDimSize(varying.dim);
  if (varying.size * varying.inner == all && varying.tail == 0) {
    varying.pace *= varying.inner;
    varying.size = all;
    varying.inner = 1;
  }
  VaryingList &list = known[value];
  for (Varying &other : list)
    if (other.isSamePlace(varying)) {
      other.isZero |= varying.isZero;
      return;
    }
  list.push_back(varying);
}

ArrayAttr VaryingDims::describe(Value value) const {
  Builder builder(value.getContext());
  SmallVector<Attribute> entries;
  for (const Varying &varying : of(value)) {
    NamedAttrList entry;
    entry.append("extent", varying.extent);
    entry.append("dim", builder.getI64IntegerAttr(varying.dim));
    entry.append("least", builder.getI64IntegerAttr(least(varying)));
    if (varying.pace != 1)
      entry.append("step", builder.getI64IntegerAttr(varying.pace));
    entries.push_back(entry.getDictionary(value.getContext()));
  }
  return entries.empty() ? ArrayAttr() : builder.getArrayAttr(entries);
}
