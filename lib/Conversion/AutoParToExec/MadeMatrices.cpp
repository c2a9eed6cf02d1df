// SPDX-License-Identifier: Apache-2.0
// See the header. A part is some columns of the product: rows of matrices that are transposed. Its
// kernel is the group's, cut to the first part of the first matrix; from where the group reads its
// inputs for any element follows how far on they are read for other parts.
#include "MadeMatrices.h"

#include "autopar/Conversion/AutoParToLoops.h"
#include "autopar/Interfaces/IndexExpressions.h"
#include "autopar/Interfaces/LoweringInterface.h"
#include "autopar/Transforms/MadeOfLess.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace mlir::autopar;

namespace {

/// Bytes of a part: what a core's second cache has room for besides rows and results.
constexpr int64_t kPartBytes = 512 << 10;

RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

/// Matrices in parts: element indices over (matrix, part, rows of the part, columns of the part).
class Parts {
public:
  Parts(GroupedDotOp product)
      : shape(product.getRhs().getType().getShape()), dim(product.getColumnDim()) {
    int64_t row = tensorBytes(product.getRhs().getType()) / (shape[0] * shape[dim]);
    for (columns = std::clamp<int64_t>(kPartBytes / row, 1, shape[dim]); shape[dim] % columns;)
      --columns;
  }

  /// The index of an element of the matrices.
  SmallVector<AffineExpr> index(MLIRContext *context) const {
    SmallVector<AffineExpr> index;
    for (unsigned position : {0, 2, 3})
      index.push_back(getAffineDimExpr(position, context));
    index[dim] = index[dim] + getAffineDimExpr(1, context) * columns;
    return index;
  }
  SmallVector<int64_t> extents() const {
    SmallVector<int64_t> part = partShape();
    return {shape[0], shape[dim] / columns, part[1], part[2]};
  }
  SmallVector<int64_t> partShape() const {
    SmallVector<int64_t> part{1, shape[1], shape[2]};
    part[dim] = columns;
    return part;
  }

  ArrayRef<int64_t> shape;
  int64_t dim; ///< that is in parts
  int64_t columns;
};

/// How far apart the elements are that a group reads for one element of its result and for that of
/// the next matrix, or the next part.
class StepFinder {
public:
  StepFinder(GroupOp group, GroupedDotOp product, const Parts &parts)
      : group(group), extents(parts.extents()), steps(group.getNumOperands()),
        isRegular(follow(product.getRhs(), parts.index(group.getContext()))) {}

  struct Step {
    int64_t toMatrix = 0, toPart = 0;
    int64_t span = 0; ///< elements up to the last one that the first part reads
    bool isKnown = false;
  };

  GroupOp group;
  SmallVector<int64_t> extents;
  SmallVector<Step> steps; ///< by operand
  bool isRegular;

private:
  bool follow(Value value, SmallVector<AffineExpr> index) {
    if (auto argument = dyn_cast<BlockArgument>(value))
      return take(argument, index);
    if (value.getDefiningOp() == group)
      return follow(group.getBody().front().getTerminator()->getOperand(0), index);
    auto op = value.getDefiningOp<ElementLoweringOpInterface>();
    if (!op || op.getRowDomain())
      return false;
    for (int64_t dim : op.getPositionDimensions())
      if (index[dim].isFunctionOfDim(0) || index[dim].isFunctionOfDim(1))
        return false;
    for (auto [number, operand] : llvm::enumerate(op->getOperands())) {
      AffineMap map = op.getOperandMap(number);
      if (!map || !follow(operand, applyMap(map, index)))
        return false;
    }
    return true;
  }

  bool take(BlockArgument input, ArrayRef<AffineExpr> index) {
    AffineExpr place = flatten(index, typeOf(input).getShape(), group.getContext());
    LinearForm form = linearize(place, extents);
    Step found{form.coefficientOf(0), form.coefficientOf(1), 0, true};
    Step &known = steps[input.getArgNumber()];
    if (form.isNonlinearIn(0) || form.isNonlinearIn(1) ||
        (known.isKnown && (known.toMatrix != found.toMatrix || known.toPart != found.toPart)))
      return false;
    found.span = std::max(known.span, largest(place) + 1);
    known = found;
    return true;
  }

  /// The largest value of an index within the first part. Indices never fall when a dimension
  /// grows, but for remainders.
  int64_t largest(AffineExpr expr) const {
    if (auto constant = dyn_cast<AffineConstantExpr>(expr))
      return constant.getValue();
    if (auto dim = dyn_cast<AffineDimExpr>(expr))
      return dim.getPosition() < 2 ? 0 : extents[dim.getPosition()] - 1;
    auto binary = cast<AffineBinaryOpExpr>(expr);
    int64_t left = largest(binary.getLHS()), right = largest(binary.getRHS());
    switch (expr.getKind()) {
    case AffineExprKind::Add:
      return left + right;
    case AffineExprKind::Mul:
      return left * right;
    case AffineExprKind::FloorDiv:
      return left / right;
    case AffineExprKind::Mod:
      return std::min(left, right - 1);
    default:
      llvm_unreachable("index expressions have no other operations");
    }
  }
};

bool readsMuchLess(GroupOp group) {
  int64_t bytes = 0;
  for (Value operand : group.getOperands())
    bytes += tensorBytes(typeOf(operand));
  return isMuchLess(bytes, tensorBytes(typeOf(group.getResult(0))));
}

/// The group whose result is the matrices, as it lies or seen as something else.
GroupOp groupBehind(GroupedDotOp product) {
  Value value = product.getRhs();
  while (isWholeView(value.getDefiningOp()) && value.hasOneUse())
    value = value.getDefiningOp()->getOperand(0);
  return value.hasOneUse() ? value.getDefiningOp<GroupOp>() : GroupOp();
}

/// The kernel of the first part, for inputs that are no larger than it reads.
FailureOr<KernelPool::Kernel> kernelOfPart(ProgramBuilder &program, GroupedDotOp product,
                                           const Parts &parts, const StepFinder &found) {
  GroupOp group = found.group;
  OpBuilder builder(group);
  auto part = cast<GroupOp>(builder.clone(*group));
  Operation *yield = part.getBody().front().getTerminator();
  builder.setInsertionPoint(yield);
  IRMapping inPart;
  inPart.map(group.getResult(0), yield->getOperand(0));
  SmallVector<Operation *> views;
  for (Operation *op = product.getRhs().getDefiningOp(); op != group;
       op = op->getOperand(0).getDefiningOp())
    views.push_back(op);
  for (Operation *view : llvm::reverse(views))
    builder.clone(*view, inPart);
  RankedTensorType type = product.getRhs().getType().clone(parts.partShape());
  int64_t first[] = {0, 0, 0}, steps[] = {1, 1, 1};
  yield->setOperand(0, SliceOp::create(builder, group.getLoc(), type,
                                       inPart.lookup(product.getRhs()), first, steps));
  part.getResult(0).setType(type);
  FailureOr<KernelPool::Kernel> kernel = program.kernelOf(part);
  part.erase();
  if (failed(kernel))
    return failure();
  func::FuncOp function = kernel->function;
  for (auto [number, step] : llvm::enumerate(found.steps)) {
    BlockArgument argument = function.getArgument(number);
    auto whole = cast<MemRefType>(argument.getType());
    argument.setType(MemRefType::get({step.span}, whole.getElementType()));
  }
  function.setType(
      FunctionType::get(function.getContext(), function.getBody().front().getArgumentTypes(), {}));
  return kernel;
}

} // namespace

GroupedDotOp mlir::autopar::productThatMakes(ProgramBuilder &program, GroupOp group) {
  if (program.settings().target != Target::Cpu || group.getNumResults() != 1 ||
      !group.getResult(0).hasOneUse() || program.isLoadTime(group.getResult(0)))
    return {};
  Operation *reader = *group->user_begin();
  while (isWholeView(reader) && reader->hasOneUse())
    reader = *reader->user_begin();
  auto product = dyn_cast<GroupedDotOp>(reader);
  if (!product || groupBehind(product) != group || !readsMuchLess(group))
    return {};
  return StepFinder(group, product, Parts(product)).isRegular ? product : GroupedDotOp();
}

FailureOr<std::optional<MatrixKernel>> mlir::autopar::makerOf(ProgramBuilder &program,
                                                              GroupedDotOp product) {
  GroupOp group = groupBehind(product);
  if (!group || productThatMakes(program, group) != product)
    return std::optional<MatrixKernel>();
  MatrixKernel maker;
  Parts parts(product);
  StepFinder found(group, product, parts);
  maker.columns = parts.columns;
  for (auto [operand, step] : llvm::zip(group.getOperands(), found.steps)) {
    FailureOr<Value> buffer = program.rowMajorBuffer(operand);
    if (failed(buffer))
      return failure();
    maker.inputs.push_back(*buffer);
    int64_t size = tensorBytes(typeOf(operand).clone(ArrayRef<int64_t>{1}));
    maker.matrixSteps.push_back(step.toMatrix * size);
    maker.columnSteps.push_back(step.toPart * size);
  }
  FailureOr<KernelPool::Kernel> kernel = kernelOfPart(program, product, parts, found);
  if (failed(kernel))
    return failure();
  maker.kernel = *kernel;
  return std::optional(maker);
}
