// SPDX-License-Identifier: Apache-2.0
// Sharding rules of what moves between stages.
#include "autopar/Dialect/AutoPar/IR/AutoPar.h"

using namespace mlir;
using namespace mlir::autopar;

ShardingRule TransferOp::getShardingRule() { return ShardingRule::elementwise(*this); }
