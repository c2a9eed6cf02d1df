// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "OpTime.h"

#include "autopar/Cost/CostModel.h"
#include "autopar/Interfaces/CostInterface.h"
#include "autopar/Interfaces/ElementTypes.h"
#include "autopar/Transforms/KernelBytes.h"
#include "autopar/Transforms/Sharding.h"
#include "autopar/Transforms/TrainingEpilogues.h"

using namespace mlir;
using namespace mlir::autopar;

int64_t mlir::autopar::bytesOf(Operation *op, unsigned index, ArrayRef<RankedTensorType> results) {
  if (auto cost = dyn_cast<CostOpInterface>(op))
    if (std::optional<int64_t> measured = cost.getMeasuredBytes(index, results))
      return *measured;
  return tensorBytes(results[index]);
}

::autopar::Work mlir::autopar::workOf(CostOpInterface op) {
  switch (op.getWork()) {
  case Work::Product:
    return ::autopar::Work::Product;
  case Work::Attention:
    return ::autopar::Work::Attention;
  case Work::AttentionGradient:
    return ::autopar::Work::AttentionGradient;
  }
  llvm_unreachable("a kind of work");
}

double mlir::autopar::opTimeUs(Operation *op, ArrayRef<RankedTensorType> operands,
                               ArrayRef<RankedTensorType> results,
                               const ::autopar::DeviceType &device, bool mayScale) {
  double flops = 0;
  ::autopar::Work work = ::autopar::Work::Product;
  auto cost = dyn_cast<CostOpInterface>(op);
  if (cost)
    if (std::optional<double> measured = cost.getMeasuredUs(operands, results, mayScale))
      return *measured;
  if (auto bytes = op->getAttrOfType<IntegerAttr>(kInProduct)) {
    RankedTensorType made = results.front();
    return ::autopar::opTimeUs(0, static_cast<double>(bytes.getInt() * made.getNumElements()),
                               dataTypeOf(made.getElementType()), device) -
           device.launchUs;
  }
  if (cost)
    flops = cost.getFlops(operands, results);
  ::autopar::DataType type =
      dataTypeOf((operands.empty() ? results : operands).front().getElementType());
  if (cost && cost.isLight()) {
    double written = 0;
    for (RankedTensorType result : results)
      written += static_cast<double>(tensorBytes(result));
    return ::autopar::opTimeUs(0, 2 * written, type, device) - device.launchUs;
  }
  int64_t bytes = kernelBytes(op, operands, results, changesInPlace(op)), ahead = 0;
  if (cost) {
    type = dataTypeOf(cost.getFlopsType(operands, results));
    ahead = cost.getBytesAhead(operands);
    work = workOf(cost);
  }
  double time = ::autopar::opTimeUs(flops, static_cast<double>(bytes), type, device, work);
  return ahead == 0 ? time
                    : time + ::autopar::opTimeUs(0, static_cast<double>(ahead), type, device);
}

double mlir::autopar::wholeTimeUs(Operation *op, const ::autopar::DeviceType &device) {
  auto types = [](auto values) {
    SmallVector<RankedTensorType> list;
    for (Value value : values)
      list.push_back(tensorTypeOf(value));
    return list;
  };
  return opTimeUs(op, types(op->getOperands()), types(op->getResults()), device, /*mayScale=*/true);
}
