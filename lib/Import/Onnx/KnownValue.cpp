// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "KnownValue.h"

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"
#include "autopar/Dialect/AutoPar/IR/ConstantFolding.h"
#include "llvm/ADT/DenseMap.h"

using namespace mlir;
using namespace mlir::autopar;

/// Operations behind each other that are evaluated, and elements of what they make.
static constexpr int kMostOperations = 16;
static constexpr int64_t kMostElements = 1 << 22;

namespace {

class Evaluation {
public:
  explicit Evaluation(const LookUpValue &lookUp) : lookUp(lookUp) {}

  std::optional<DenseElementsAttr> valueOf(Value value, int depth) {
    Operation *op = value.getDefiningOp();
    if (!op)
      return lookUp ? lookUp(value) : std::nullopt;
    if (auto constant = dyn_cast<ConstantOp>(op)) {
      auto dense = dyn_cast<DenseElementsAttr>(constant.getValue());
      return dense ? std::optional(dense) : std::nullopt;
    }
    if (depth == 0 || op->getNumResults() != 1 ||
        !isa_and_nonnull<AutoParDialect>(op->getDialect()))
      return std::nullopt;
    if (auto found = known.find(value); found != known.end())
      return found->second;
    SmallVector<DenseElementsAttr> operands;
    for (Value operand : op->getOperands()) {
      std::optional<DenseElementsAttr> dense = valueOf(operand, depth - 1);
      if (!dense)
        return known[value] = std::nullopt;
      operands.push_back(*dense);
    }
    auto values = evaluateConstant(op, operands,
                                   {kMostElements, kMostElements, kMostElements, kMostElements});
    return known[value] = values ? std::optional(values->front()) : std::nullopt;
  }

private:
  const LookUpValue &lookUp;
  DenseMap<Value, std::optional<DenseElementsAttr>> known;
};

} // namespace

std::optional<DenseElementsAttr> mlir::autopar::knownValue(Value value, const LookUpValue &lookUp,
                                                           bool evaluates) {
  return Evaluation(lookUp).valueOf(value, evaluates ? kMostOperations : 0);
}

std::optional<SmallVector<int64_t>> mlir::autopar::integersIn(DenseElementsAttr values) {
  Type element = values.getElementType();
  if (!isa<IntegerType>(element))
    return std::nullopt;
  bool zeroExtend = element.isUnsignedInteger() || element.isInteger(1);
  SmallVector<int64_t> integers;
  for (const APInt &value : values.getValues<APInt>())
    integers.push_back(zeroExtend ? static_cast<int64_t>(value.getZExtValue())
                                  : value.getSExtValue());
  return integers;
}

std::optional<SmallVector<double>> mlir::autopar::floatsIn(DenseElementsAttr values) {
  if (!isa<FloatType>(values.getElementType()))
    return std::nullopt;
  SmallVector<double> floats;
  for (APFloat value : values.getValues<APFloat>()) {
    bool lossy;
    value.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lossy);
    floats.push_back(value.convertToDouble());
  }
  return floats;
}
