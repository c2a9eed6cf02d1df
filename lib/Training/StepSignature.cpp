// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "autopar/Training/StepSignature.h"

using namespace mlir;
using namespace mlir::autopar;

BlockArgument mlir::autopar::addArgument(func::FuncOp function, RankedTensorType type,
                                         const Twine &name, ArrayRef<NamedAttribute> attributes) {
  return addArguments(function, TypeRange(Type(type)), {name.str()}, attributes).front();
}

ArrayRef<BlockArgument> mlir::autopar::addArguments(func::FuncOp function, TypeRange types,
                                                    ArrayRef<std::string> names,
                                                    ArrayRef<NamedAttribute> attributes) {
  unsigned first = function.getNumArguments();
  SmallVector<DictionaryAttr> lists;
  for (const std::string &name : names) {
    NamedAttrList list(attributes);
    list.set("autopar.name", StringAttr::get(function.getContext(), name));
    lists.push_back(list.getDictionary(function.getContext()));
  }
  (void)function.insertArguments(SmallVector<unsigned>(names.size(), first), types, lists,
                                 SmallVector<Location>(names.size(), function.getLoc()));
  return function.getArguments().drop_front(first);
}

bool mlir::autopar::isStateResult(func::FuncOp function, unsigned result) {
  auto name = function.getResultAttrOfType<StringAttr>(result, "autopar.name");
  for (unsigned i = 0; name && i < function.getNumArguments(); ++i)
    if (function.getArgAttr(i, "autopar.donated") &&
        function.getArgAttrOfType<StringAttr>(i, "autopar.name") == name)
      return true;
  return false;
}
