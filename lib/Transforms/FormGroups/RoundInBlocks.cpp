// SPDX-License-Identifier: Apache-2.0
// The pass autopar-round-in-blocks: products whose left side may be rounded to 8 bits in blocks
// (byte_blocks). Every one of them is, so that all plans compute the same; where there is a kernel
// for the weights bytes are multiplied, and scales and zero points follow per block:
//   sum of (s a) (t (b - z)) = s t (sum of a b - z (sum of a)), a and b whole numbers.
#include "ProductInBlocks.h"

#include "autopar/Transforms/Passes.h"

namespace mlir::autopar {
#define GEN_PASS_DEF_ROUNDINBLOCKSPASS
#include "autopar/Transforms/Passes.h.inc"
} // namespace mlir::autopar

using namespace mlir;
using namespace mlir::autopar;

namespace {

/// Below this many weights a call is as fast as a kernel.
constexpr int64_t kLeastWeights = 4096;

RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

struct RoundInBlocksPass : mlir::autopar::impl::RoundInBlocksPassBase<RoundInBlocksPass> {
  using Base::Base;

  void runOnOperation() override {
    SmallVector<DotGeneralOp> products;
    getOperation().walk([&](DotGeneralOp op) {
      if (op.getByteBlocks() && typeOf(op.getLhs()).getElementType().isF32() &&
          op.getType().getNumElements() != 0 && typeOf(op.getLhs()).getNumElements() != 0)
        products.push_back(op);
    });
    for (DotGeneralOp product : products)
      rewrite(product);
  }

private:
  /// Of products that read one value alike and share what it is rounded to.
  static Attribute formOf(DotGeneralOp product, int64_t parts) {
    Builder builder(product.getContext());
    NamedAttrList form(product->getDiscardableAttrDictionary());
    form.erase("autopar.id");
    form.set("block", product.getByteBlocksAttr());
    form.set("parts", builder.getI64IntegerAttr(parts));
    form.set("contract", builder.getDenseI64ArrayAttr(product.getLhsContract()));
    return form.getDictionary(product.getContext());
  }

  void rewrite(DotGeneralOp product) {
    ProductInBlocks blocks(product, instructions);
    std::optional<WeightsInBlocks> weights;
    if (product.getLhsBatch().empty() && typeOf(product.getRhs()).getNumElements() >= kLeastWeights)
      weights = blocks.weights();
    bool areFew = blocks.rows() <= rows;
    Value bytes = weights && !areFew ? blocks.bytesOf(*weights) : Value();
    if (!areFew && !bytes)
      weights.reset();
    int64_t parts = weights ? weights->parts() : 1;
    RoundedRows &lhs = known[{product.getLhs(), formOf(product, parts)}];
    if (!lhs.bytes)
      lhs = blocks.round(parts);
    if (weights && areFew)
      return blocks.multiplyBytes(lhs, *weights);
    if (weights)
      return blocks.multiplyInTiles(lhs, *weights, bytes);
    if (!lhs.floats)
      lhs.floats = blocks.roundedLhs(lhs);
    product.getLhsMutable().assign(lhs.floats);
    product.removeByteBlocksAttr();
  }

  DenseMap<std::pair<Value, Attribute>, RoundedRows> known;
};

} // namespace
