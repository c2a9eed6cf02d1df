// SPDX-License-Identifier: Apache-2.0
// Splat constants, row values and closed matches.
#include "CompositeMatching.h"

#include "mlir/IR/TypeUtilities.h"
#include <cmath>

using namespace mlir;
using namespace mlir::autopar;

std::optional<double> mlir::autopar::splatValue(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (isWholeView(op) || isa<BroadcastOp>(op)) {
      value = op->getOperand(0);
      continue;
    }
    auto constant = dyn_cast<ConstantOp>(op);
    auto dense = constant ? dyn_cast<DenseElementsAttr>(constant.getValue()) : DenseElementsAttr();
    if (!dense || !dense.isSplat())
      return std::nullopt;
    if (isa<FloatType>(dense.getElementType())) {
      APFloat number = dense.getSplatValue<APFloat>();
      bool lossy;
      number.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lossy);
      return number.convertToDouble();
    }
    auto element = dyn_cast<IntegerType>(dense.getElementType());
    if (!element)
      return std::nullopt;
    APInt number = dense.getSplatValue<APInt>();
    bool zeroExtend = element.isUnsigned() || element.getWidth() == 1;
    return zeroExtend ? static_cast<double>(number.getZExtValue())
                      : static_cast<double>(number.getSExtValue());
  }
  return std::nullopt;
}

bool mlir::autopar::isAbout(double value, double expected, Type element) {
  // Three halves of an ulp in half precision: the product of up to three rounded constants.
  double tolerance = element.isBF16() ? 6e-3 : element.isF16() ? 1.5e-3 : 1e-5;
  return std::abs(value - expected) <= std::abs(expected) * tolerance;
}

bool mlir::autopar::isSplatOf(Value value, double expected) {
  std::optional<double> number = splatValue(value);
  return number && isAbout(*number, expected, getElementTypeOrSelf(value.getType()));
}

UnaryOp mlir::autopar::asUnary(Value value, UnaryKind kind) {
  auto op = value.getDefiningOp<UnaryOp>();
  return op && op.getKind() == kind ? op : UnaryOp();
}

BinaryOp mlir::autopar::asBinary(Value value, BinaryKind kind) {
  auto op = value.getDefiningOp<BinaryOp>();
  return op && op.getKind() == kind ? op : BinaryOp();
}

std::optional<std::pair<Value, double>> mlir::autopar::withNumber(Value value, BinaryKind kind) {
  BinaryOp op = asBinary(value, kind);
  if (!op)
    return std::nullopt;
  if (std::optional<double> number = splatValue(op.getRhs()))
    return std::make_pair(op.getLhs(), *number);
  if (kind == BinaryKind::Add || kind == BinaryKind::Mul)
    if (std::optional<double> number = splatValue(op.getLhs()))
      return std::make_pair(op.getRhs(), *number);
  return std::nullopt;
}

std::optional<SmallVector<int64_t>> mlir::autopar::unitReshapeDims(ReshapeOp op) {
  ArrayRef<int64_t> in = op.getInput().getType().getShape(), out = op.getType().getShape();
  SmallVector<int64_t> dims;
  size_t next = 0;
  for (int64_t extent : out) {
    if (extent == 1) {
      dims.push_back(-1);
      continue;
    }
    while (next < in.size() && in[next] == 1)
      ++next;
    if (next == in.size() || in[next] != extent)
      return std::nullopt;
    dims.push_back(static_cast<int64_t>(next++));
  }
  for (; next < in.size(); ++next)
    if (in[next] != 1)
      return std::nullopt;
  return dims;
}

//===-- matched operations -------------------------------------------------------------------===//

Value mlir::autopar::sharedByHeads(Value value) {
  auto reshape = value.getDefiningOp<ReshapeOp>();
  auto broadcast = reshape ? reshape.getInput().getDefiningOp<BroadcastOp>() : BroadcastOp();
  if (!broadcast || broadcast.getDims() != ArrayRef<int64_t>({0, 1, 3, 4}))
    return {};
  ArrayRef<int64_t> in = broadcast.getInput().getType().getShape(),
                    wide = broadcast.getType().getShape(), out = reshape.getType().getShape();
  bool repeatsOnly = in[0] == wide[0] && in[1] == wide[1] && in[2] == wide[3] && in[3] == wide[4];
  bool mergesHeads = out.size() == 4 && out[0] == wide[0] && out[1] == wide[1] * wide[2] &&
                     out[2] == wide[3] && out[3] == wide[4];
  return repeatsOnly && mergesHeads ? Value(broadcast.getInput()) : Value();
}

bool MatchedOps::areDeadWithout(Operation *root) const {
  for (Operation *op : ops) {
    if (op == root || isa<ConstantOp>(op))
      continue;
    for (Operation *user : op->getUsers())
      if (user != root && !ops.contains(user))
        return false;
  }
  return true;
}

//===-- row values ---------------------------------------------------------------------------===//

RowView::RowView(Value outer, MatchedOps &matched) : value(outer), matched(matched) {
  auto type = cast<RankedTensorType>(outer.getType());
  for (int64_t dim = 0; dim < type.getRank(); ++dim)
    source.push_back(type.getDimSize(dim) == 1 ? -1 : dim);
  strip();
}

void RowView::descend(Value operand) {
  matched.insert(value);
  value = operand;
  strip();
}

void RowView::strip() {
  while (true) {
    SmallVector<int64_t> step;
    if (auto broadcast = value.getDefiningOp<BroadcastOp>()) {
      RankedTensorType input = broadcast.getInput().getType();
      step.assign(broadcast.getType().getRank(), -1);
      for (auto [i, dim] : llvm::enumerate(broadcast.getDims()))
        if (input.getDimSize(i) != 1)
          step[dim] = i;
    } else if (auto reshape = value.getDefiningOp<ReshapeOp>()) {
      std::optional<SmallVector<int64_t>> dims = unitReshapeDims(reshape);
      if (!dims)
        return;
      step = *dims;
    } else {
      return;
    }
    for (int64_t &dim : source)
      if (dim >= 0)
        dim = step[dim];
    matched.insert(value);
    value = value.getDefiningOp()->getOperand(0);
  }
}

Value RowView::sumInput(ReduceKind kind, SmallVector<int64_t> &dims) {
  auto reduce = value.getDefiningOp<ReduceOp>();
  if (!reduce || reduce.getKind() != kind)
    return {};
  RankedTensorType input = reduce.getInput().getType();
  if (input.getRank() != static_cast<int64_t>(source.size()))
    return {};
  int64_t kept = 0;
  for (int64_t dim = 0; dim < input.getRank(); ++dim) {
    bool reduced = llvm::is_contained(reduce.getDims(), dim);
    int64_t expected = reduced || input.getDimSize(dim) == 1 ? -1 : kept;
    if (source[dim] != expected)
      return {};
    kept += !reduced;
  }
  matched.insert(value);
  dims.assign(reduce.getDims().begin(), reduce.getDims().end());
  llvm::sort(dims);
  return reduce.getInput();
}

Value RowView::reducedInput(ReduceKind kind, SmallVector<int64_t> &dims) {
  return sumInput(kind, dims);
}

Value RowView::meanInput(SmallVector<int64_t> &dims) {
  double scale = 1;
  while (true) {
    if (auto product = withNumber(value, BinaryKind::Mul)) {
      scale *= product->second;
      descend(product->first);
    } else if (auto quotient = withNumber(value, BinaryKind::Div)) {
      scale /= quotient->second;
      descend(quotient->first);
    } else {
      break;
    }
  }
  Value input = sumInput(ReduceKind::Sum, dims);
  if (!input)
    return {};
  double terms = 1;
  for (int64_t dim : dims)
    terms *= cast<RankedTensorType>(input.getType()).getDimSize(dim);
  // As exact as 1 / n can be written: division by n - 1 is something else.
  auto element = dyn_cast<FloatType>(cast<RankedTensorType>(input.getType()).getElementType());
  bool isMean =
      element && std::abs(scale * terms - 1) <= std::ldexp(1.0, -element.getFPMantissaWidth());
  return isMean ? input : Value();
}
