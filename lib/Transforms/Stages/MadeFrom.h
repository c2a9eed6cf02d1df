// SPDX-License-Identifier: Apache-2.0
// What passes that write one operation as several give each of these.
#pragma once

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"

namespace mlir::autopar {

/// Gives `made` what is known of the operation that it is part of (phase, stage) and that one's
/// name with a suffix. Returns its result.
inline Value madeFrom(Operation *op, Operation *made, const Twine &suffix = "") {
  NamedAttrList attributes(made->getDiscardableAttrDictionary());
  for (NamedAttribute attribute : op->getDiscardableAttrs())
    attributes.set(attribute.getName(), attribute.getValue());
  made->setDiscardableAttrs(attributes.getDictionary(op->getContext()));
  if (!suffix.isTriviallyEmpty())
    setOpId(made, getOpId(op) + suffix);
  return made->getResult(0);
}

} // namespace mlir::autopar
