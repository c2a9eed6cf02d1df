// SPDX-License-Identifier: Apache-2.0
// Nodes that work along one axis, or on all elements in a row.
#pragma once

#include "Node.h"

namespace mlir::autopar {

struct AlongAxis {
  Value x;
  int64_t dim;
};

/// The first input and its `axis`; flat where the node has none.
inline FailureOr<AlongAxis> inputAlongAxis(Node &node) {
  RankedTensorType type = node.inputType(0);
  if (!node.hasAttribute("axis"))
    return AlongAxis{node.b.reshape(node.input(0), {type.getNumElements()}), 0};
  FailureOr<int64_t> axis = node.axis(node.integer("axis", 0), type.getRank());
  if (failed(axis))
    return failure();
  return AlongAxis{node.input(0), *axis};
}

} // namespace mlir::autopar
