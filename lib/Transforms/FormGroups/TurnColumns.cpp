// SPDX-License-Identifier: Apache-2.0
// The pass autopar-turn-columns: a matrix by one column is one row by a matrix.
#include "Stages/MadeFrom.h"

#include "autopar/Interfaces/TensorLayout.h"
#include "autopar/Transforms/LibraryContraction.h"
#include "autopar/Transforms/Passes.h"

namespace mlir::autopar {
#define GEN_PASS_DEF_TURNCOLUMNSPASS
#include "autopar/Transforms/Passes.h.inc"
} // namespace mlir::autopar

using namespace mlir;
using namespace mlir::autopar;

namespace {

/// Products of bytes are kernels of our own, to which both are alike.
bool hasOneColumn(DotGeneralOp product) {
  return extentOf(product.getRhs().getType(), product.getRhsFree()) == 1 &&
         extentOf(product.getLhs().getType(), product.getLhsFree()) > 1 && !product.getScaledTo() &&
         !isContractionOfBytes(product);
}

/// The dimensions of one column have extent 1: behind the rows or in front of them, the elements
/// lie in the same order.
void turn(DotGeneralOp product) {
  OpBuilder builder(product);
  RankedTensorType type = product.getType();
  size_t batch = product.getLhsBatch().size(), rows = product.getLhsFree().size();
  SmallVector<int64_t> shape(type.getShape().take_front(batch));
  llvm::append_range(shape, type.getShape().drop_front(batch + rows));
  llvm::append_range(shape, type.getShape().slice(batch, rows));
  Value turned = madeFrom(
      product, DotGeneralOp::create(builder, product.getLoc(), type.clone(shape), product.getRhs(),
                                    product.getLhs(), product.getRhsBatch(), product.getLhsBatch(),
                                    product.getRhsContract(), product.getLhsContract()));
  Value result = turned;
  if (type.getShape() != ArrayRef<int64_t>(shape))
    result =
        madeFrom(product, ReshapeOp::create(builder, product.getLoc(), type, turned), "/columns");
  product.replaceAllUsesWith(result);
  product.erase();
}

struct TurnColumnsPass : mlir::autopar::impl::TurnColumnsPassBase<TurnColumnsPass> {
  using Base::Base;

  void runOnOperation() override {
    SmallVector<DotGeneralOp> products;
    getOperation().walk([&](DotGeneralOp op) {
      if (hasOneColumn(op))
        products.push_back(op);
    });
    llvm::for_each(products, turn);
  }
};

} // namespace
