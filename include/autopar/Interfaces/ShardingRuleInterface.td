// SPDX-License-Identifier: Apache-2.0
// The interface through which passes ask an operation how it may be sharded and have it rewritten to
// local shapes. Operations of other dialects join through external models.

#ifndef AUTOPAR_INTERFACES_SHARDINGRULEINTERFACE_TD
#define AUTOPAR_INTERFACES_SHARDINGRULEINTERFACE_TD

include "mlir/IR/OpBase.td"

def ShardingRuleOpInterface : OpInterface<"ShardingRuleOpInterface"> {
  let cppNamespace = "::mlir::autopar";
  let description = [{
    Answers how the dimensions of an operation correspond (its factors) and rewrites the operation to
    the local shapes that a choice of mesh axes per factor implies.
  }];
  let methods = [
    InterfaceMethod<[{
      The factors of this operation on its current (whole) shapes.
    }], "::mlir::autopar::ShardingRule", "getShardingRule", (ins)>,
    InterfaceMethod<[{
      Builds this operation on local shapes and returns its local results. `localOperands` already
      have the shardings that the strategy asks for. The default clones the operation with the local
      result types of `context`; operations whose attributes speak of extents, or that depend on
      global positions, override it.
    }], "::llvm::FailureOr<::llvm::SmallVector<::mlir::Value>>", "partition",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::ValueRange":$localOperands,
           "::mlir::autopar::PartitionContext &":$context), "", [{
      return context.cloneLocal($_op.getOperation(), builder, localOperands);
    }]>,
  ];
}

#endif
