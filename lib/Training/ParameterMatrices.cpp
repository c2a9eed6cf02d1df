// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "autopar/Training/ParameterMatrices.h"

#include "LeadingOn.h"

#include "autopar/Dialect/AutoPar/IR/Arguments.h"
#include "autopar/Interfaces/TensorLayout.h"

using namespace mlir;
using namespace mlir::autopar;

namespace {

bool isProduct(Operation *op) { return isa<DotGeneralOp, GroupedDotOp>(op); }

/// The matrix that operand `number` of a product is, or a stack of them.
std::optional<ParameterMatrix> matrixOf(Operation *product, unsigned number) {
  if (auto grouped = dyn_cast<GroupedDotOp>(product)) {
    if (number != 1)
      return std::nullopt;
    return ParameterMatrix{{grouped.getDepthDim()}, {grouped.getColumnDim()}};
  }
  auto dot = cast<DotGeneralOp>(product);
  ArrayRef<int64_t> contract = number == 0 ? dot.getLhsContract() : dot.getRhsContract();
  return ParameterMatrix{SmallVector<int64_t>(contract),
                         number == 0 ? dot.getLhsFree() : dot.getRhsFree()};
}

class MatrixFinder {
public:
  explicit MatrixFinder(Block &block) : inner(leadingOn(block, isProduct)) {}

  std::optional<ParameterMatrix> find(BlockArgument parameter) {
    found = std::nullopt;
    isInner = false;
    auto type = cast<RankedTensorType>(parameter.getType());
    SmallVector<int64_t> order = llvm::to_vector(llvm::seq<int64_t>(0, type.getRank()));
    if (type.getRank() < 2 || !isa<FloatType>(type.getElementType()) || !readAs(parameter, order) ||
        !isInner || extentOf(type, found->in) == 1 || extentOf(type, found->out) == 1)
      return std::nullopt;
    return found;
  }

private:
  /// Whether all who read `value`, whose dimensions are those of the parameter in `order`, are
  /// products that take it for the same matrix.
  bool readAs(Value value, ArrayRef<int64_t> order) {
    return llvm::all_of(value.getUses(), [&](OpOperand &use) {
      Operation *op = use.getOwner();
      if (isa<CastOp, SliceOp>(op))
        return readAs(op->getResult(0), order);
      if (auto transpose = dyn_cast<TransposeOp>(op)) {
        SmallVector<int64_t> turned = llvm::map_to_vector(
            transpose.getPermutation(), [&](int64_t dimension) { return order[dimension]; });
        return readAs(transpose, turned);
      }
      if (auto reshape = dyn_cast<ReshapeOp>(op))
        if (std::optional<SmallVector<int64_t>> kept = throughReshape(reshape, order))
          return readAs(reshape, *kept);
      return isProduct(op) && isReadBy(op, use.getOperandNumber(), order);
    });
  }

  /// Dimensions of extent 1 come and go; one that comes is none of the parameter's.
  static std::optional<SmallVector<int64_t>> throughReshape(ReshapeOp reshape,
                                                            ArrayRef<int64_t> order) {
    RankedTensorType before = reshape.getInput().getType(), after = reshape.getType();
    SmallVector<int64_t> kept;
    size_t from = 0;
    auto skipOnes = [&] {
      while (from < order.size() && before.getDimSize(from) == 1)
        ++from;
    };
    for (int64_t extent : after.getShape()) {
      skipOnes();
      if (extent == 1) {
        kept.push_back(kNone);
        continue;
      }
      if (from == order.size() || before.getDimSize(from) != extent)
        return std::nullopt;
      kept.push_back(order[from++]);
    }
    skipOnes();
    return from == order.size() ? std::optional(kept) : std::nullopt;
  }

  bool isReadBy(Operation *product, unsigned number, ArrayRef<int64_t> order) {
    std::optional<ParameterMatrix> matrix = matrixOf(product, number);
    if (!matrix)
      return false;
    for (SmallVector<int64_t> *dims : {&matrix->in, &matrix->out}) {
      for (int64_t &dim : *dims)
        dim = order[dim];
      llvm::erase(*dims, kNone);
      llvm::sort(*dims);
    }
    if (matrix->in.empty() || matrix->out.empty())
      return false;
    isInner |= inner.contains(product);
    if (!found)
      found = matrix;
    return found->in == matrix->in && found->out == matrix->out;
  }

  static constexpr int64_t kNone = -1;

  DenseSet<Operation *> inner;
  std::optional<ParameterMatrix> found;
  bool isInner = false;
};

} // namespace

llvm::MapVector<BlockArgument, ParameterMatrix>
mlir::autopar::innerMatrices(func::FuncOp function) {
  llvm::MapVector<BlockArgument, ParameterMatrix> matrices;
  MatrixFinder finder(function.getBody().front());
  for (BlockArgument argument : function.getArguments())
    if (isParameter(argument))
      if (std::optional<ParameterMatrix> matrix = finder.find(argument))
        matrices.insert({argument, *matrix});
  return matrices;
}
