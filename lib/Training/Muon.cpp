// SPDX-License-Identifier: Apache-2.0
// Jordan et al., "Muon: an optimizer for hidden layers in neural networks", 2024: the momentum of a
// matrix, U S V^T, is followed as U V^T, to which an iteration of products comes close. Products,
// sums and their sharding are those of any other operations of the step.
#include "Muon.h"

#include "UpdateRules.h"

#include "autopar/Interfaces/TensorLayout.h"

#include <cmath>

using namespace mlir;
using namespace mlir::autopar;
using ::autopar::Call;

namespace {

/// Jordan's quintic a x + b x^3 + c x^5, which brings what lies in (0, 1] near to 1 in few steps.
constexpr double kLinear = 3.4445, kCubic = -4.775, kQuintic = 2.0315;
/// The least norm that a direction is divided by, as in PyTorch's Muon.
constexpr double kLeastNorm = 1e-7;

/// The matrix nearest to a direction among those whose singular values are 1.
class Orthogonalizer : public Preconditioner {
public:
  double momentum = 0.95;
  bool nesterov = true;
  double steps = 5; ///< a whole number
  double rms = 0.2; ///< 0: Jordan's scale

  SmallVector<StringRef> stateNames() const override { return {"momentum"}; }

  SmallVector<Value> accumulate(FormulaBuilder &b, Value gradient,
                                ValueRange state) const override {
    Value next = interpolate(b, state[0], gradient, 1 - momentum);
    return {next, nesterov ? interpolate(b, gradient, next, momentum) : next};
  }

  Value precondition(FormulaBuilder &b, Value direction, const ParameterMatrix &matrix,
                     FloatType narrow) const override {
    RankedTensorType type = b.typeOf(direction);
    bool isTurned = matrix.out < matrix.in;
    ArrayRef<int64_t> rows = isTurned ? matrix.out : matrix.in;
    ArrayRef<int64_t> columns = isTurned ? matrix.in : matrix.out;
    SmallVector<int64_t> order;
    for (int64_t dim = 0; dim < type.getRank(); ++dim)
      if (!llvm::is_contained(rows, dim) && !llvm::is_contained(columns, dim))
        order.push_back(dim);
    Layout layout(order.size(), rows.size(), columns.size());
    llvm::append_range(order, rows);
    llvm::append_range(order, columns);
    Value x = b.transpose(direction, order);
    if (type.getElementTypeBitWidth() < 32) // whose squares overflow and vanish
      x = b.cast(x, b.builder.getF32Type());
    x = b.cast(normalized(b, x, layout), narrow);
    for (int i = 0; i < steps; ++i)
      x = step(b, x, layout, i + 1 == steps ? type.getElementType() : narrow);
    return b.transpose(b.scale(x, scaleOf(type, matrix)), inverted(order));
  }

private:
  /// Dimensions of what stands in this order: a stack, rows, columns.
  struct Layout {
    SmallVector<int64_t> stack, rows, columns;

    Layout(int64_t stacked, int64_t ofRows, int64_t ofColumns)
        : stack(range(0, stacked)), rows(range(stacked, ofRows)),
          columns(range(stacked + ofRows, ofColumns)) {}
    static SmallVector<int64_t> range(int64_t first, int64_t count) {
      return llvm::to_vector(llvm::seq(first, first + count));
    }
  };

  /// Divided by its norm, so that no singular value is above 1.
  static Value normalized(FormulaBuilder &b, Value x, const Layout &layout) {
    SmallVector<int64_t> dims(layout.rows);
    dims.append(layout.columns);
    Value square = b.sum(b.square(x), dims);
    square = b.binary(BinaryKind::Max, square, b.splatLike(square, kLeastNorm * kLeastNorm));
    return b.mul(x, b.unreduce(b.unary(UnaryKind::Rsqrt, square), b.typeOf(x), dims));
  }

  /// (a + b (X X^T) + c (X X^T)^2) X; X X^T is summed over the longer of rows and columns.
  static Value step(FormulaBuilder &b, Value x, const Layout &layout, Type result) {
    RankedTensorType type = b.typeOf(x);
    bool isWide = extentOf(type, layout.rows) <= extentOf(type, layout.columns);
    const auto &[kept, summed] =
        isWide ? std::tie(layout.rows, layout.columns) : std::tie(layout.columns, layout.rows);
    Layout square(layout.stack.size(), kept.size(), kept.size());
    auto product = [&](Value lhs, ArrayRef<int64_t> lhsDims, Value rhs,
                       ArrayRef<int64_t> rhsDims) -> Value {
      return DotGeneralOp::create(b.builder, b.loc, lhs, rhs, layout.stack, layout.stack, lhsDims,
                                  rhsDims);
    };
    Value gram = product(x, summed, x, summed);
    Value twice = product(gram, square.columns, gram, square.rows);
    Value both = sum(b, gram, kCubic, twice, kQuintic, type.getElementType());
    Value along =
        isWide ? product(both, square.columns, x, kept) : product(x, kept, both, square.rows);
    return sum(b, x, kLinear, along, 1, result);
  }

  /// m x + n y, computed in f32.
  static Value sum(FormulaBuilder &b, Value x, double m, Value y, double n, Type result) {
    Type wide = b.typeOf(x).getElementType();
    if (!wide.isF64())
      wide = b.builder.getF32Type();
    Value added = b.cast(y, wide);
    added = b.add(b.scale(b.cast(x, wide), m), n == 1 ? added : b.scale(added, n));
    return b.cast(added, result);
  }

  /// So that elements of the result have a root mean square of `rms`, as those of AdamW's updates
  /// (Liu et al., "Muon is scalable for LLM training", 2025): those of U V^T of r x c have
  /// 1 / sqrt(max(r, c)). Or as Jordan has it: sqrt(max(1, out / in)).
  double scaleOf(RankedTensorType type, const ParameterMatrix &matrix) const {
    auto in = static_cast<double>(extentOf(type, matrix.in));
    auto out = static_cast<double>(extentOf(type, matrix.out));
    return rms > 0 ? rms * std::sqrt(std::max(in, out)) : std::sqrt(std::max(1.0, out / in));
  }
};

struct Muon : Optimizer {
  Orthogonalizer orthogonalizer;

  SmallVector<StringRef> stateNames() const override { return {}; }
  double keptPart() const override { return orthogonalizer.momentum; }
  const Preconditioner *preconditioner() const override { return &orthogonalizer; }

  SmallVector<Value> update(FormulaBuilder &b, Value parameter, Value gradient, ValueRange state,
                            ValueRange shared, double decay) const override {
    Value kept = decayed(b, parameter, shared[0], decay);
    return {b.sub(kept, b.mul(shared[0], gradient))};
  }
};

} // namespace

std::unique_ptr<Optimizer> mlir::autopar::makeMuon(Call &call) {
  auto muon = std::make_unique<Muon>();
  muon->learningRate = call.take("lr", 1e-3);
  muon->weightDecay = call.take("weight_decay", 0.1);
  Orthogonalizer &orthogonalizer = muon->orthogonalizer;
  orthogonalizer.momentum = call.take("momentum", 0.95);
  orthogonalizer.nesterov = call.take("nesterov", 1) != 0;
  orthogonalizer.steps = call.take("steps", 5);
  orthogonalizer.rms = call.take("rms", 0.2);
  return muon;
}
