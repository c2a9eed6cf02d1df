// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "BalancedAttention.h"

#include "OpTime.h"

#include "autopar/Cost/CostModel.h"
#include "autopar/Dialect/AutoPar/IR/AutoPar.h"
#include "autopar/Interfaces/CostInterface.h"
#include "autopar/Interfaces/ElementTypes.h"
#include "autopar/Transforms/Sharding.h"

using namespace mlir;
using namespace mlir::autopar;

std::optional<int64_t> mlir::autopar::triangleRowsFactor(Operation *op, const ShardingRule &rule) {
  bool isTriangle = false;
  if (auto attention = dyn_cast<AttentionOp>(op))
    isTriangle = attention.getCausal();
  else if (auto gradient = dyn_cast<AttentionGradOp>(op))
    isTriangle = gradient.getCausal();
  if (!isTriangle)
    return std::nullopt;
  return rule.operands[0][2].front();
}

/// The operand whose rows go to another rank, and the result whose rows come back: the query and
/// the output, the gradients of the output and of the query. What else a gradient reads is where
/// attention has been.
static std::pair<RankedTensorType, RankedTensorType>
exchanged(Operation *op, ArrayRef<RankedTensorType> operands, ArrayRef<RankedTensorType> results) {
  constexpr unsigned gradientOfOutput = 5;
  return {operands[isa<AttentionOp>(op) ? 0 : gradientOfOutput], results[0]};
}

std::optional<double> mlir::autopar::balancedAttentionUs(
    Operation *op, ArrayRef<RankedTensorType> operands, ArrayRef<RankedTensorType> results,
    int64_t parts, const ::autopar::DeviceType &device, const ::autopar::MeshGroup &group) {
  // Of a single row the library on GPUs has no gradient.
  int64_t rows = operands[0].getDimSize(2);
  if (parts < 2 || rows % 2 != 0 || rows <= 2)
    return std::nullopt;
  double flops = 0, bytes = 0;
  if (auto attention = dyn_cast<AttentionOp>(op))
    flops = attention.getMeanFlops(operands, parts);
  else
    flops = cast<AttentionGradOp>(op).getMeanFlops(operands, parts);
  for (ArrayRef<RankedTensorType> types : {operands, results})
    for (RankedTensorType type : types) {
      bool hasRows = type.getRank() > 2 && type.getDimSize(2) == rows;
      bytes += static_cast<double>(tensorBytes(type)) / (hasRows ? 2 : 1);
    }
  ::autopar::DataType element = dataTypeOf(operands[0].getElementType());
  double us =
      2 * ::autopar::opTimeUs(flops / 2, bytes, element, device, workOf(cast<CostOpInterface>(op)));
  int messages = parts == 2 ? 1 : 2; // of two ranks the first halves stay where they are
  auto [sent, received] = exchanged(op, operands, results);
  for (RankedTensorType type : {sent, received}) {
    auto half = static_cast<double>(tensorBytes(type)) / 2;
    us += messages * ::autopar::collectiveTimeUs(::autopar::CollectiveKind::Permute, half, group) +
          2 * ::autopar::opTimeUs(0, 2 * half, element, device);
  }
  return us;
}
