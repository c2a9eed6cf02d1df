// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "NormalizeToEnd.h"

#include "autopar/Dialect/AutoPar/Gradients/FormulaBuilder.h"

using namespace mlir;
using namespace mlir::autopar;

namespace {

class Statistics {
public:
  Statistics(NormalizeOp op, ArrayRef<Varying> along, Type element, PaddingMask &mask)
      : op(op), along(along), mask(mask), b(mask.builder, op) {
    mask.standBefore(op);
    double each = 1; // positions for each of an extent's
    for (int64_t dim : op.getDims())
      each *= static_cast<double>(op.getType().getDimSize(dim));
    for (const Varying &varying : along)
      each /= static_cast<double>(varying.size);
    count = mask.number(mask.builder.getFloatAttr(element, each), op, "count");
    for (const Varying &varying : along) {
      Value fewer = mask.missing(varying.extent, varying.pace, op);
      auto size = mask.builder.getI64IntegerAttr(varying.size);
      Value now = mask.binary(BinaryKind::Sub, mask.number(size, op, "most"), fewer, op, "now");
      count = mask.binary(BinaryKind::Mul, count, mask.cast(now, element, op, "now"), op, "count");
    }
  }

  /// The mean of `x` over the positions that there are, in all of its type.
  Value mean(Value x) {
    for (const Varying &varying : along)
      x = mask.masked(x, varying, ReductionKind::Sum, op);
    RankedTensorType type = FormulaBuilder::typeOf(x);
    Value sum = b.sum(x, op.getDims());
    Value all = mask.spread(count, FormulaBuilder::typeOf(sum), {}, op, "count");
    return b.unreduce(b.div(sum, all), type, op.getDims());
  }

  FormulaBuilder &formulas() { return b; }

private:
  NormalizeOp op;
  ArrayRef<Varying> along;
  PaddingMask &mask;
  FormulaBuilder b;
  Value count; ///< a scalar
};

} // namespace

LogicalResult mlir::autopar::normalizeToEnd(NormalizeOp op, VaryingDims &dims, PaddingMask &mask) {
  VaryingList along;
  for (const Varying &varying : dims.of(op.getInput())) {
    if (!llvm::is_contained(op.getDims(), varying.dim))
      continue;
    if (varying.tail > 0)
      return refuseToVary(op, varying.extent)
             << "normalizes dimension " << varying.dim << ", in which something stands behind it";
    along.push_back(varying);
  }
  Operation *before = op->getPrevNode();
  Type element = op.getType().getElementType();
  if (!element.isF64())
    element = mask.builder.getF32Type();
  Statistics statistics(op, along, element, mask);
  FormulaBuilder &b = statistics.formulas();
  Value x = b.cast(op.getInput(), element);
  if (!op.getRms())
    x = b.sub(x, statistics.mean(x));
  Value variance = b.shift(statistics.mean(b.square(x)), op.getEpsilon().convertToDouble());
  Value result =
      b.cast(b.mul(x, b.unary(UnaryKind::Rsqrt, variance)), op.getType().getElementType());
  setOpId(result.getDefiningOp(), getOpId(op));
  for (Operation *made = op->getPrevNode(); made != before; made = made->getPrevNode())
    if (getOpId(made).empty())
      mask.named(made->getResult(0), op, "normalized");
  for (const Varying &varying : dims.of(op.getResult()))
    dims.add(result, varying);
  op.getResult().replaceAllUsesWith(result);
  return success();
}
