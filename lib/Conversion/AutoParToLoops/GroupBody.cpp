// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "GroupBody.h"

using namespace mlir;
using namespace mlir::autopar;

GroupBody GroupBody::of(Operation *groupOrOp) {
  GroupBody body;
  body.anchor = groupOrOp;
  auto group = dyn_cast<GroupOp>(groupOrOp);
  if (!group) {
    body.ops.push_back(groupOrOp);
    llvm::append_range(body.inputs, groupOrOp->getOperands());
    llvm::append_range(body.outputs, groupOrOp->getResults());
    return body;
  }
  Block &block = group.getBody().front();
  for (Operation &op : block.without_terminator())
    body.ops.push_back(&op);
  llvm::append_range(body.inputs, block.getArguments());
  llvm::append_range(body.outputs, block.getTerminator()->getOperands());
  return body;
}
