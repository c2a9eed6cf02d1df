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
