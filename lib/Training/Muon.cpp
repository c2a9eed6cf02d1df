// SPDX-License-Identifier: Apache-2.0
// Jordan et al., "Muon: an optimizer for hidden layers in neural networks", 2024: the momentum of a
// matrix, U S V^T, is followed as U V^T, to which an iteration of products comes close. Products,
// sums and their sharding are those of any other operations of the step.
#include "Muon.h"

#include "UpdateRules.h"

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

  SmallVector<Value> gather(FormulaBuilder &b, Value gradient, ValueRange state) const override {
    Value next = interpolate(b, state[0], gradient, 1 - momentum);
    return {next, nesterov ? interpolate(b, gradient, next, momentum) : next};
  }

  Value direct(FormulaBuilder &b, Value direction, ParameterMatrix matrix,
               FloatType narrow) const override {
    RankedTensorType type = b.typeOf(direction);
    SmallVector<int64_t> order;
    for (int64_t dim = 0; dim < type.getRank(); ++dim)
      if (dim != matrix.in && dim != matrix.out)
        order.push_back(dim);
    order.append({std::min(matrix.in, matrix.out), std::max(matrix.in, matrix.out)});
    Value x = b.cast(normalized(b, b.transpose(direction, order)), narrow);
    for (int i = 0; i < steps; ++i)
      x = step(b, x, i + 1 == steps ? type.getElementType() : narrow);
    return b.transpose(b.scale(x, scaleOf(type, matrix)), inverted(order));
  }

private:
  /// Divided by its norm, so that no singular value is above 1.
  static Value normalized(FormulaBuilder &b, Value x) {
    RankedTensorType type = b.typeOf(x);
    int64_t dims[] = {type.getRank() - 2, type.getRank() - 1};
    Value square = b.sum(b.square(x), dims);
    square = b.binary(BinaryKind::Max, square, b.splatLike(square, kLeastNorm * kLeastNorm));
    return b.mul(x, b.unreduce(b.unary(UnaryKind::Rsqrt, square), type, dims));
  }

  /// (a + b (X X^T) + c (X X^T)^2) X of matrices along the last two dimensions; X X^T is summed
  /// over the longer one.
  static Value step(FormulaBuilder &b, Value x, Type result) {
    RankedTensorType type = b.typeOf(x);
    int64_t first = type.getRank() - 2, last = first + 1;
    bool isWide = type.getDimSize(first) <= type.getDimSize(last);
    int64_t kept = isWide ? first : last, summed = isWide ? last : first;
    SmallVector<int64_t> stack = llvm::to_vector(llvm::seq<int64_t>(0, first));
    auto product = [&](Value lhs, Value rhs, int64_t lhsDim, int64_t rhsDim) -> Value {
      return DotGeneralOp::create(b.builder, b.loc, lhs, rhs, stack, stack, lhsDim, rhsDim);
    };
    Value gram = product(x, x, summed, summed);
    Value square = product(gram, gram, last, first);
    Value both = sum(b, gram, kCubic, square, kQuintic, type.getElementType());
    Value along = isWide ? product(both, x, last, kept) : product(x, both, kept, first);
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
  double scaleOf(RankedTensorType type, ParameterMatrix matrix) const {
    auto in = static_cast<double>(type.getDimSize(matrix.in));
    auto out = static_cast<double>(type.getDimSize(matrix.out));
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
